//! The driver of memcached and of what speaks its text protocol.

use std::io::{Error, ErrorKind, Result as IoResult};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::time::{sleep, timeout};

use super::{Asks, Driver, Inputs, Outcome, StartError, check_values_are_bytes, key_bytes};
use crate::config::{Config, ConfigError, Target};
use crate::keygen::Kind;
use crate::sent::note_sent;
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// The longest key that the protocol has.
const KEY_BYTES_MAX: usize = 250;

/// Before the next operation, when a connection that was lost can't be made anew.
const RECONNECT_PAUSE: Duration = Duration::from_millis(10);

/// One worker: a connection to one target.
pub(super) struct Memcached {
    stream: BufReader<TcpStream>,
    /// Of the target.
    address: SocketAddr,
    /// The request at hand, and then the answer.
    buffer: Vec<u8>,
}

/// The settings that all workers share.
#[derive(Debug)]
pub(super) struct MemcachedPlan {
    targets: Vec<Target>,
    /// Bounds connecting and each request.
    timeout: Duration,
    key_kind: Kind,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemcachedOperation {
    /// A missing key is an error, as in basho_bench.
    Get,
    /// A missing key is none.
    GetAny,
    Set,
    Increment,
    Delete,
}

impl MemcachedOperation {
    /// Whether it fails where the key is missing.
    fn needs_key(self) -> bool {
        matches!(self, Self::Get | Self::Increment)
    }
}

/// How the server answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Done,
    Missing,
}

impl Driver for Memcached {
    const NAME: &'static str = "memcached";
    const OPERATIONS: &'static str = "get, get_any, set, incr, delete";

    type Operation = MemcachedOperation;
    type Plan = MemcachedPlan;

    fn plan(config: &Config) -> Result<MemcachedPlan, ConfigError> {
        check_values_are_bytes(config, Self::NAME)?;
        let timeout_ms = config.settings.integer("memcached_timeout", 5000, 1..=86_400_000)?;
        Ok(MemcachedPlan {
            targets: config.targets("memcached_ips", "memcached_default_port", 11_211)?,
            timeout: Duration::from_millis(timeout_ms),
            key_kind: config.key_generator.kind(),
        })
    }

    fn asks(plan: &MemcachedPlan) -> Asks {
        Asks {
            targets: plan.targets.clone(),
            others: Vec::new(),
            durability: "nothing is kept on a disk".to_owned(),
        }
    }

    fn operation(_: &MemcachedPlan, term: &Term) -> Option<MemcachedOperation> {
        Some(match term.as_atom()? {
            "get" => MemcachedOperation::Get,
            "get_any" => MemcachedOperation::GetAny,
            "incr" => MemcachedOperation::Increment,
            "set" => MemcachedOperation::Set,
            "delete" => MemcachedOperation::Delete,
            _ => return None,
        })
    }

    fn draws_values(operation: MemcachedOperation) -> bool {
        operation == MemcachedOperation::Set
    }

    async fn connect(plan: &MemcachedPlan, place: WorkerPlace) -> Result<Self, StartError> {
        let target = &plan.targets[place.number as usize % plan.targets.len()];
        let address = (target.host.as_str(), target.port);
        let connected = timeout(plan.timeout, open(address)).await;
        let connected = connected.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
        let opened = connected.and_then(|stream| {
            let address = stream.get_ref().peer_addr()?;
            Ok(Self { stream, address, buffer: Vec::new() })
        });
        opened.map_err(|error| StartError::Connect {
            target: target.to_string(),
            reason: error.to_string(),
        })
    }

    async fn perform(
        &mut self,
        plan: &MemcachedPlan,
        operation: MemcachedOperation,
        inputs: &mut Inputs,
    ) -> Outcome {
        self.buffer.clear();
        let command: &[u8] = match operation {
            MemcachedOperation::Get | MemcachedOperation::GetAny => b"get ",
            MemcachedOperation::Increment => b"incr ",
            MemcachedOperation::Set => b"set ",
            MemcachedOperation::Delete => b"delete ",
        };
        self.buffer.extend_from_slice(command);
        let Ok(key) = inputs.next_key() else { return Outcome::Stop };
        let key = key_bytes(plan.key_kind, key);
        if key.len() > KEY_BYTES_MAX || !key.iter().all(u8::is_ascii_graphic) {
            return Outcome::Failure(Term::atom("bad_key"));
        }
        self.buffer.extend_from_slice(&key);
        if operation == MemcachedOperation::Set {
            let Ok(value) = inputs.next_bytes() else { return Outcome::Stop };
            self.buffer.extend_from_slice(format!(" 0 0 {}\r\n", value.len()).as_bytes());
            self.buffer.extend_from_slice(value);
        } else if operation == MemcachedOperation::Increment {
            self.buffer.extend_from_slice(b" 1");
        }
        self.buffer.extend_from_slice(b"\r\n");
        match timeout(plan.timeout, self.exchange()).await {
            Ok(Ok(Answer::Missing)) if operation.needs_key() => {
                Outcome::Failure(Term::atom("not_found"))
            }
            Ok(Ok(_)) => Outcome::Success,
            Ok(Err(error)) if error.kind() == ErrorKind::Other => {
                Outcome::Failure(Term::String(error.to_string()))
            }
            // What comes late must not be taken for the next answer: the worker connects anew.
            Ok(Err(_)) => self.reconnect(plan, "disconnected").await,
            Err(_) => self.reconnect(plan, "timeout").await,
        }
    }
}

impl Memcached {
    /// Sends the request and reads its answer. An error of the kind `Other` is one that the server told.
    async fn exchange(&mut self) -> IoResult<Answer> {
        note_sent();
        let mut has_value = false;
        self.stream.get_mut().write_all(&self.buffer).await?;
        loop {
            self.buffer.clear();
            if self.stream.read_until(b'\n', &mut self.buffer).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let line = self.buffer.trim_ascii_end();
            if let Some(rest) = line.strip_prefix(b"VALUE ") {
                let size = rest.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
                let size = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok());
                let size: usize = size.ok_or(ErrorKind::InvalidData)?;
                self.buffer.resize(size + 2, 0);
                self.stream.read_exact(&mut self.buffer).await?;
                has_value = true;
                continue;
            }
            return match line {
                b"END" if has_value => Ok(Answer::Done),
                b"END" | b"NOT_FOUND" => Ok(Answer::Missing),
                b"STORED" | b"DELETED" => Ok(Answer::Done),
                [b'0'..=b'9', ..] => Ok(Answer::Done),
                refusal => Err(Error::other(String::from_utf8_lossy(refusal).into_owned())),
            };
        }
    }

    async fn reconnect(&mut self, plan: &MemcachedPlan, reason: &str) -> Outcome {
        match timeout(plan.timeout, open(self.address)).await {
            Ok(Ok(stream)) => self.stream = stream,
            _ => sleep(RECONNECT_PAUSE).await,
        }
        Outcome::Failure(Term::atom(reason))
    }
}

async fn open(address: impl ToSocketAddrs) -> IoResult<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

#[cfg(test)]
mod tests {
    /// Code without its indentation.
    fn lines(text: &str) -> Vec<&str> {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
    }

    #[test]
    fn the_page_about_drivers_shows_this_code() {
        let page = include_str!("../../../../docs/write-a-driver.md");
        let own = lines(include_str!("memcached.rs"));
        let is_code = |block: &&str| block.starts_with("    ");
        let mut block_count = 0;
        for block in page.split("\n\n").filter(is_code) {
            let shown = lines(block);
            assert!(own.windows(shown.len()).any(|window| window == shown), "{block}");
            block_count += 1;
        }
        assert!(block_count >= 3, "{block_count} blocks");
    }
}
