//! Deliberate closing of connections, after a number of requests or a time.

use std::time::{Duration, Instant};

use crate::config::{ConfigError, Settings};
use crate::term::Term;

/// The condition under which connections are closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disconnect {
    Never,
    AfterRequests(u64),
    After(Duration),
}

impl Disconnect {
    /// Reads the setting `key`: `infinity`, seconds, or `{ops, N}`. A value of 0 also means never.
    pub(super) fn read(settings: &Settings, key: &str) -> Result<Self, ConfigError> {
        let expected = "write infinity, a number of seconds, or {ops, N}";
        settings.read(key, Self::Never, expected, |term| match term {
            Term::Atom(name) if name == "infinity" => Some(Self::Never),
            Term::Integer(seconds) => match u64::try_from(*seconds).ok()? {
                0 => Some(Self::Never),
                seconds if seconds <= 1 << 32 => Some(Self::After(Duration::from_secs(seconds))),
                _ => None,
            },
            Term::Tuple(parts) => match parts.as_slice() {
                [Term::Atom(ops), Term::Integer(count)] if ops == "ops" => {
                    Some(match u64::try_from(*count) {
                        Ok(0) | Err(_) => Self::Never,
                        Ok(count) => Self::AfterRequests(count),
                    })
                }
                _ => None,
            },
            _ => None,
        })
    }
}

/// Decides when a worker closes its connections.
#[derive(Debug)]
pub(super) struct DisconnectTimer {
    plan: Disconnect,
    requests_left: u64,
    started_at: Instant,
}

impl DisconnectTimer {
    /// Starts counting.
    pub(super) fn start(plan: Disconnect) -> Self {
        let requests_left = match plan {
            Disconnect::AfterRequests(count) => count,
            Disconnect::Never | Disconnect::After(_) => 0,
        };
        Self { plan, requests_left, started_at: Instant::now() }
    }

    /// Counts a request. Returns true if connections must be closed now; counting then starts over.
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = match self.plan {
            Disconnect::Never => false,
            Disconnect::AfterRequests(_) => {
                self.requests_left -= 1;
                self.requests_left == 0
            }
            Disconnect::After(span) => self.started_at.elapsed() >= span,
        };
        if is_due {
            *self = Self::start(self.plan);
        }
        is_due
    }
}
