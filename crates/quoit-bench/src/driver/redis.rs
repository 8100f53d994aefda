//! The driver of Redis and of other servers with its protocol.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, IntoConnectionInfo, RedisError};

use super::{
    Driver, Inputs, Outcome, StartError, SystemRequirements, check_values_are_bytes, key_bytes,
};
use crate::config::{Config, ConfigError, Target, TargetKeys};
use crate::keygen::KeyKind;
use crate::sent::note_sent;
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// A command that no server knows, for the operation `invalid`.
const UNKNOWN_COMMAND: &str = "QUOITINVALID";

/// One worker: a connection to one target.
pub(super) struct Redis {
    client: Client,
    connection: Option<MultiplexedConnection>,
    /// The prefix, followed by the current key.
    key: Vec<u8>,
}

/// The settings that all workers share.
#[derive(Debug)]
pub(super) struct RedisPlan {
    targets: Vec<Target>,
    /// Prefix of all keys: the name of the bucket and a colon, or empty.
    prefix: Vec<u8>,
    retry_count: u64,
    retry_delay: Duration,
    /// Time limit for connecting and for each request.
    timeout: Duration,
    key_kind: KeyKind,
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RedisOperation {
    Set,
    Get,
    Delete,
    Invalid,
}

impl Driver for Redis {
    const NAME: &'static str = "redis";
    const OPERATIONS: &'static str = "set, get, del, invalid";

    type Operation = RedisOperation;
    type Plan = RedisPlan;

    fn plan(config: &Config) -> Result<RedisPlan, ConfigError> {
        check_values_are_bytes(config, Self::NAME)?;
        let settings = &config.settings;
        let mut prefix = settings.bytes("bucket_name", b"")?;
        if !prefix.is_empty() {
            prefix.push(b':');
        }
        let milliseconds = |key, default, least| {
            settings.integer(key, default, least..=86_400_000).map(Duration::from_millis)
        };
        Ok(RedisPlan {
            targets: config.targets(TargetKeys {
                ips: "redis_ips",
                port: "redis_port",
                default_port: 6379,
            })?,
            prefix,
            retry_count: settings.integer("retries", 3, 0..=1000)?,
            retry_delay: milliseconds("retry_delay", 10, 0)?,
            timeout: milliseconds("redis_timeout", 5000, 1)?,
            key_kind: config.key_generator.kind(),
        })
    }

    fn system_requirements(plan: &RedisPlan) -> SystemRequirements {
        let durability = "requests ask for nothing, the server decides".to_owned();
        SystemRequirements {
            targets: plan.targets.clone(),
            additional_lists: Vec::new(),
            durability,
        }
    }

    fn operation(_: &RedisPlan, term: &Term) -> Option<RedisOperation> {
        Some(match term.as_atom()? {
            "set" => RedisOperation::Set,
            "get" => RedisOperation::Get,
            "del" => RedisOperation::Delete,
            "invalid" => RedisOperation::Invalid,
            _ => return None,
        })
    }

    fn draws_values(operation: RedisOperation) -> bool {
        operation == RedisOperation::Set
    }

    async fn connect(plan: &RedisPlan, place: WorkerPlace) -> Result<Self, StartError> {
        let target = place.choose(&plan.targets);
        let opened = async {
            let address = ConnectionAddr::Tcp(target.host.clone(), target.port);
            let client = Client::open(address.into_connection_info()?)?;
            let connection = open(&client, plan).await?;
            Ok::<_, RedisError>((client, connection))
        };
        let (client, connection) = opened.await.map_err(|error| StartError::Connect {
            target: target.to_string(),
            reason: error.to_string(),
        })?;
        Ok(Self { client, connection: Some(connection), key: plan.prefix.clone() })
    }

    async fn perform(
        &mut self,
        plan: &RedisPlan,
        operation: RedisOperation,
        inputs: &mut Inputs,
    ) -> Outcome {
        self.key.truncate(plan.prefix.len());
        match inputs.next_key() {
            Ok(key) => self.key.extend_from_slice(&key_bytes(plan.key_kind, key)),
            Err(_) => return Outcome::Stop,
        }
        let command = match operation {
            RedisOperation::Set => match inputs.next_bytes() {
                Ok(value) => Cmd::set(&self.key[..], value),
                Err(_) => return Outcome::Stop,
            },
            RedisOperation::Get => Cmd::get(&self.key[..]),
            RedisOperation::Delete => Cmd::del(&self.key[..]),
            RedisOperation::Invalid => redis::cmd(UNKNOWN_COMMAND),
        };
        match self.request(plan, &command).await {
            Ok(()) => Outcome::Success,
            Err(reason) => Outcome::Failure(reason),
        }
    }
}

impl Redis {
    /// Sends a command. If the connection is lost, reconnects and sends the command again, up to the
    /// configured number of retries. Timeouts and errors of the server are not retried.
    async fn request(&mut self, plan: &RedisPlan, command: &Cmd) -> Result<(), Term> {
        let mut retries_left = plan.retry_count;
        loop {
            match self.attempt(plan, command).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_timeout() => {
                    // The answer may still arrive, and must not be mistaken for the answer of the next
                    // request.
                    self.connection = None;
                    return Err(Term::atom("timeout"));
                }
                Err(error) => match error.code() {
                    Some(code) => {
                        let parts = [Term::atom("redis_error"), Term::String(code.to_owned())];
                        return Err(Term::Tuple(parts.into()));
                    }
                    None => self.connection = None,
                },
            }
            if retries_left == 0 {
                return Err(Term::atom("max_retries"));
            }
            retries_left -= 1;
            tokio::time::sleep(plan.retry_delay).await;
        }
    }

    async fn attempt(&mut self, plan: &RedisPlan, command: &Cmd) -> Result<(), RedisError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(open(&self.client, plan).await?),
        };
        note_sent();
        command.exec_async(connection).await
    }
}

async fn open(client: &Client, plan: &RedisPlan) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(plan.timeout))
        .set_response_timeout(Some(plan.timeout));
    client.get_multiplexed_async_connection_with_config(&config).await
}
