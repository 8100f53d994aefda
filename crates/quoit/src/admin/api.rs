//! Calls of a node's administration API.

use anyhow::{Result, bail};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::time::Duration;

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A node's administration API.
pub(crate) struct Api {
    base: String,
    agent: ureq::Agent,
}

/// Answer of a node.
pub(crate) enum Answer {
    /// The document of a success.
    Done(Value),
    /// A refusal: the stable word and the sentence for people.
    Refused {
        /// Stable word.
        error: String,
        /// Sentence.
        message: String,
        /// The whole document.
        document: Value,
    },
}

/// A path segment, percent-encoded.
pub(crate) fn segment(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

/// The URL that paths are put behind: without a scheme it is HTTP.
fn base_of(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
}

impl Api {
    /// The API of the node at `url`, for example `http://127.0.0.1:8098`, or the same without a scheme.
    pub(crate) fn new(url: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            // Refusals carry a document that says why.
            .http_status_as_error(false)
            .build();
        Self { base: base_of(url), agent: config.into() }
    }

    pub(crate) fn get(&self, path: &str) -> Result<Answer> {
        let url = format!("{}/admin/v1/{path}", self.base);
        self.read(self.agent.get(&url).call())
    }

    /// Reads a path of the interface of clients. `None` when there is nothing.
    pub(crate) fn get_data(&self, path: &str) -> Result<Option<Value>> {
        let url = format!("{}/{path}", self.base);
        let mut response = self.agent.get(&url).call().map_err(|error| self.failed(error))?;
        let status = response.status();
        let text = response.body_mut().with_config().limit(u64::MAX).read_to_string()?;
        match (status.as_u16(), serde_json::from_str::<Value>(&text)) {
            (200, Ok(document)) => Ok(Some(document)),
            (404, Ok(document)) if document["error"] == "notfound" => Ok(None),
            // A page for browsers, which is what clients get when the bucket type does not exist.
            (404, Err(_)) => Ok(None),
            _ => bail!("{}", text.trim()),
        }
    }

    /// The likely cause of a failed request, and the remedy.
    fn no_answer(&self, error: &ureq::Error) -> String {
        let base = &self.base;
        match error {
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
                format!("{base} is not a URL; write --url HOST:PORT")
            }
            ureq::Error::Protocol(_) => format!(
                "what listens at {base} does not speak HTTP; --url is the address of a node's listener.http \
                 (port 8098 by default)"
            ),
            ureq::Error::Timeout(_) => format!(
                "no answer from {base} within {} s; the node there is overloaded, or hangs",
                TIMEOUT.as_secs()
            ),
            ureq::Error::HostNotFound => format!("{base}: there is no host of that name"),
            _ => format!(
                "no answer from {base}; is a node running there? (quoit admin --url HOST:PORT)"
            ),
        }
    }

    fn failed(&self, error: ureq::Error) -> anyhow::Error {
        let told = self.no_answer(&error);
        anyhow::Error::new(error).context(told)
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Result<Answer> {
        let url = format!("{}/admin/v1/{path}", self.base);
        self.read(self.agent.put(&url).send_json(body))
    }

    pub(crate) fn post(&self, path: &str, body: Option<&Value>) -> Result<Answer> {
        let request = self.agent.post(format!("{}/admin/v1/{path}", self.base));
        self.read(match body {
            Some(body) => request.send_json(body),
            None => request.send_empty(),
        })
    }

    pub(crate) fn delete(&self, path: &str) -> Result<Answer> {
        let url = format!("{}/admin/v1/{path}", self.base);
        self.read(self.agent.delete(&url).call())
    }

    fn read(
        &self,
        response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Answer> {
        let mut response = response.map_err(|error| self.failed(error))?;
        let status = response.status();
        let document: Value = match response.body_mut().read_json() {
            Ok(document) => document,
            Err(_) => {
                bail!(
                    "{} answered {status} without a document of the administration API; is it the HTTP \
                     address of a quoit node?",
                    self.base
                )
            }
        };
        if status.is_success() {
            return Ok(Answer::Done(document));
        }
        let text = |name: &str| document[name].as_str().unwrap_or_default().to_owned();
        Ok(Answer::Refused { error: text("error"), message: text("message"), document })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_needs_no_scheme() {
        assert_eq!(base_of("127.0.0.1:24098"), "http://127.0.0.1:24098");
        assert_eq!(base_of("http://db1:8098/"), "http://db1:8098");
        assert_eq!(base_of("https://proxy/quoit/"), "https://proxy/quoit");
    }
}
