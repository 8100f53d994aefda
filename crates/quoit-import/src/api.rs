//! Calls of a cluster's administration API, and of the interfaces that Riak shares with it.

use anyhow::{Context, Result, bail};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Longest wait for an answer: that of a bucket's digest is as long as the bucket.
const TIMEOUT: Duration = Duration::from_secs(3600);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a cluster is asked again that can't answer at the moment, where nothing else is said.
const PATIENCE: Duration = Duration::from_secs(300);
/// First pause before it is asked again; doubled each time, up to the last.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(50);
pub(crate) const LAST_PAUSE: Duration = Duration::from_secs(5);

/// A node's HTTP interface.
#[derive(Clone)]
pub(crate) struct Api {
    base: String,
    agent: ureq::Agent,
    patience: Duration,
}

/// A path segment, percent-encoded.
pub(crate) fn segment(name: &[u8]) -> String {
    percent_encode(name, NON_ALPHANUMERIC).to_string()
}

impl Api {
    /// The node at `url`, for example `http://127.0.0.1:8098`, or the same without a scheme.
    pub(crate) fn new(url: &str) -> Self {
        let url = url.trim().trim_end_matches('/');
        let base = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .http_status_as_error(false)
            .build();
        Self { base, agent: config.into(), patience: PATIENCE }
    }

    /// The same, asking a cluster again for so long that can't answer at the moment.
    pub(crate) fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// How long a cluster is asked again that can't answer at the moment.
    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The host of the URL, without its port.
    pub(crate) fn host(&self) -> &str {
        let authority = self.base.split("://").nth(1).unwrap_or(&self.base);
        let authority = authority.split('/').next().unwrap_or(authority);
        match authority.rfind(':') {
            Some(colon) if !authority.ends_with(']') => &authority[..colon],
            _ => authority,
        }
    }

    /// Status and JSON of a path; `null` where there is none.
    pub(crate) fn get(&self, path: &str) -> Result<(u16, Value)> {
        let url = format!("{}/{path}", self.base);
        self.read(self.agent.get(&url).call())
    }

    /// The same, asked again for some time while no node answers: in the midst of an import.
    pub(crate) fn get_patiently(&self, path: &str) -> Result<(u16, Value)> {
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            match self.get(path) {
                Err(_) if began.elapsed() < self.patience => {}
                answer => return answer,
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Result<(u16, Value)> {
        let url = format!("{}/{path}", self.base);
        self.read(self.agent.put(&url).send_json(body))
    }

    pub(crate) fn post(&self, path: &str) -> Result<(u16, Value)> {
        let url = format!("{}/{path}", self.base);
        self.read(self.agent.post(&url).send_empty())
    }

    pub(crate) fn post_json(&self, path: &str, body: &Value) -> Result<(u16, Value)> {
        let url = format!("{}/{path}", self.base);
        self.read(self.agent.post(&url).send_json(body))
    }

    /// Deletes what is at a path; the status.
    pub(crate) fn delete(&self, path: &str) -> Result<u16> {
        let url = format!("{}/{path}", self.base);
        self.read(self.agent.delete(&url).call()).map(|(status, _)| status)
    }

    pub(crate) fn post_records(&self, path: &str, body: &[u8]) -> Result<(u16, Value)> {
        let url = format!("{}/{path}", self.base);
        let request = self.agent.post(&url).header("Content-Type", "application/octet-stream");
        self.read(request.send(body))
    }

    fn read(
        &self,
        response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<(u16, Value)> {
        let mut response = response.with_context(|| {
            format!(
                "no answer from {}; is a node running there? (the address of its listener.http)",
                self.base
            )
        })?;
        let status = response.status().as_u16();
        let text = response.body_mut().with_config().limit(u64::MAX).read_to_string()?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::Null)))
    }

    /// The document of a success; a refusal is an error with the node's own words.
    pub(crate) fn done(&self, (status, document): (u16, Value)) -> Result<Value> {
        if status < 300 {
            return Ok(document);
        }
        match document["message"].as_str() {
            Some(message) => bail!("{} refuses: {message}", self.base),
            None => bail!("{} answers status {status}; is it a node of quoit?", self.base),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_that_of_the_url() {
        let host = |url: &str| Api::new(url).host().to_owned();
        assert_eq!(host("http://db1:8098/"), "db1");
        assert_eq!(host("10.0.0.1:8098"), "10.0.0.1");
        assert_eq!(host("http://[::1]:8098"), "[::1]");
        assert_eq!(host("https://proxy/riak"), "proxy");
    }
}
