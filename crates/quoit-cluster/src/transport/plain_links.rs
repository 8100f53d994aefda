//! Counts of connections without TLS, by host, for operators who are about to require TLS.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum number of hosts that are counted separately. Further hosts are counted together.
const HOSTS_MAX: usize = 256;

/// Plain connections to or from one host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlainLink {
    /// Number of connections that were made.
    pub connection_count: u64,
    /// Time of the last connection, seconds since 1970.
    pub last_unix_secs: u64,
    /// Reason why the last connection that this node dialed has no TLS; `None` if the other side dialed.
    pub reason: Option<String>,
}

/// Plain connections since the start, by host.
#[derive(Debug, Default)]
pub struct PlainLinks(Mutex<BTreeMap<String, PlainLink>>);

impl PlainLinks {
    /// Counts a connection.
    pub fn note(&self, host: &str, reason: Option<String>) {
        let mut plain = self.0.lock();
        let is_new = !plain.contains_key(host);
        let host = if is_new && plain.len() >= HOSTS_MAX { "others" } else { host };
        let link = plain.entry(host.to_owned()).or_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        link.connection_count += 1;
        link.last_unix_secs = now.as_secs();
        link.reason = reason;
    }

    /// Sets the reason why the last connection to a host has no TLS, if the host was counted.
    pub fn explain(&self, host: &str, reason: String) {
        if let Some(link) = self.0.lock().get_mut(host) {
            link.reason = Some(reason);
        }
    }

    /// Returns the counts, by host.
    #[must_use]
    pub fn by_host(&self) -> BTreeMap<String, PlainLink> {
        self.0.lock().clone()
    }
}
