//! Calls of a node's administration API.

use anyhow::{Context, Result, bail};
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

/// What a node answered.
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

impl Api {
    /// The API of the node at `url`, for example `http://127.0.0.1:8098`.
    pub(crate) fn new(url: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            // Refusals carry a document that says why.
            .http_status_as_error(false)
            .build();
        Self { base: url.trim_end_matches('/').to_owned(), agent: config.into() }
    }

    pub(crate) fn get(&self, path: &str) -> Result<Answer> {
        let url = format!("{}/admin/v1/{path}", self.base);
        self.read(self.agent.get(&url).call())
    }

    /// Reads a path of the interface of clients. `None` when there is nothing.
    pub(crate) fn get_data(&self, path: &str) -> Result<Option<Value>> {
        let url = format!("{}/{path}", self.base);
        let mut response = self.agent.get(&url).call().with_context(|| self.no_answer())?;
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

    fn no_answer(&self) -> String {
        format!(
            "no answer from {}; is a node running there? (quoit admin --url http://HOST:PORT)",
            self.base
        )
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
        let mut response = response.with_context(|| self.no_answer())?;
        let status = response.status();
        let document: Value = match response.body_mut().read_json() {
            Ok(document) => document,
            Err(_) => {
                bail!("{} answered {status} without a document: not a quoit node?", self.base)
            }
        };
        if status.is_success() {
            return Ok(Answer::Done(document));
        }
        let text = |name: &str| document[name].as_str().unwrap_or_default().to_owned();
        Ok(Answer::Refused { error: text("error"), message: text("message"), document })
    }
}
