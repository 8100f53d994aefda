//! The driver of memcached and of other servers with its text protocol.

use std::io::{ErrorKind, Result as IoResult};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::TcpStream;

use super::request_stream::RequestStream;
use super::{
    Driver, Inputs, Outcome, StartError, SystemRequirements, check_values_are_bytes, key_bytes,
};
use crate::config::{Config, ConfigError, Target, TargetKeys};
use crate::keygen::KeyKind;
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// Maximum length of a key in the protocol.
const KEY_BYTES_MAX: usize = 250;

/// One worker: a connection to one target.
pub(super) struct Memcached {
    stream: RequestStream,
    request: Vec<u8>,
}

/// The settings that all workers share.
#[derive(Debug)]
pub(super) struct MemcachedPlan {
    targets: Vec<Target>,
    /// Bounds connecting and each request.
    timeout: Duration,
    key_kind: KeyKind,
}

/// A request: its command, and whether a missing key is a failure, as it is for `get` in basho_bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemcachedOperation {
    word: &'static str,
    needs_key: bool,
}

impl Driver for Memcached {
    const NAME: &'static str = "memcached";
    const OPERATIONS: &'static str = "get, get_any, set, incr, delete";

    type Operation = MemcachedOperation;
    type Plan = MemcachedPlan;

    fn plan(config: &Config) -> Result<MemcachedPlan, ConfigError> {
        check_values_are_bytes(config, Self::NAME)?;
        Ok(MemcachedPlan {
            targets: config.targets(TargetKeys {
                ips: "memcached_ips",
                port: "memcached_default_port",
                default_port: 11_211,
            })?,
            timeout: config.settings.time_limit("memcached_timeout", Duration::from_secs(5))?,
            key_kind: config.key_generator.kind(),
        })
    }

    fn system_requirements(plan: &MemcachedPlan) -> SystemRequirements {
        let durability = "nothing is kept on a disk".to_owned();
        SystemRequirements {
            targets: plan.targets.clone(),
            additional_lists: Vec::new(),
            durability,
        }
    }

    fn operation(_: &MemcachedPlan, term: &Term) -> Option<MemcachedOperation> {
        let (word, needs_key) = match term.as_atom()? {
            "get" => ("get", true),
            "get_any" => ("get", false),
            "incr" => ("incr", true),
            "set" => ("set", false),
            "delete" => ("delete", false),
            _ => return None,
        };
        Some(MemcachedOperation { word, needs_key })
    }

    fn draws_values(operation: MemcachedOperation) -> bool {
        operation.word == "set"
    }

    async fn connect(plan: &MemcachedPlan, place: WorkerPlace) -> Result<Self, StartError> {
        let stream = RequestStream::connect(&plan.targets, place, plan.timeout).await?;
        Ok(Self { stream, request: Vec::new() })
    }

    async fn perform(
        &mut self,
        plan: &MemcachedPlan,
        operation: MemcachedOperation,
        inputs: &mut Inputs,
    ) -> Outcome {
        let Self { stream, request } = self;
        request.clear();
        request.extend_from_slice(operation.word.as_bytes());
        request.push(b' ');
        let Ok(key) = inputs.next_key() else { return Outcome::Stop };
        let key = key_bytes(plan.key_kind, key);
        if key.len() > KEY_BYTES_MAX || !key.iter().all(u8::is_ascii_graphic) {
            return Outcome::Failure(Term::atom("bad_key"));
        }
        request.extend_from_slice(&key);
        match operation.word {
            "set" => {
                let Ok(value) = inputs.next_bytes() else { return Outcome::Stop };
                request.extend_from_slice(format!(" 0 0 {}\r\n", value.len()).as_bytes());
                request.extend_from_slice(value);
            }
            "incr" => request.extend_from_slice(b" 1"),
            _ => {}
        }
        request.extend_from_slice(b"\r\n");
        stream.ask(request, async |stream| read_answer(stream, operation.needs_key).await).await
    }
}

/// Reads an answer: a line of status, perhaps after a line that announces a value and the value.
async fn read_answer(stream: &mut BufReader<TcpStream>, needs_key: bool) -> IoResult<Outcome> {
    let (mut has_value, mut read) = (false, Vec::new());
    loop {
        read.clear();
        if stream.read_until(b'\n', &mut read).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let line = read.trim_ascii_end();
        if let Some(rest) = line.strip_prefix(b"VALUE ") {
            let size = rest.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
            let size = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok());
            let size: usize = size.ok_or(ErrorKind::InvalidData)?;
            read.resize(size + 2, 0);
            stream.read_exact(&mut read).await?;
            has_value = true;
            continue;
        }
        return Ok(match line {
            b"END" | b"NOT_FOUND" if needs_key && !has_value => {
                Outcome::Failure(Term::atom("not_found"))
            }
            b"END" | b"NOT_FOUND" | b"STORED" | b"DELETED" | [b'0'..=b'9', ..] => Outcome::Success,
            refusal => {
                Outcome::Failure(Term::String(String::from_utf8_lossy(refusal).into_owned()))
            }
        });
    }
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
