//! Commands of operators, as the administration API takes them and nodes send them to each other.

use crate::address::PeerAddress;
use crate::bootstrap::BootstrapError;
use crate::full_sync::{CheckKind, CheckRange, FullSyncChange, FullSyncScope, RebaseFrom};
use crate::replication::Replication;
use crate::sinks::{ChangeSinkError, SinkDefinition};
use bytes::Bytes;
use quoit_core::{ChangeQueueError, QueueStatus, ReplicationOperator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;
use thiserror::Error;

/// How old the oldest entry of a queue may be before its lag is told as an alert.
const LAG_ALERT: Duration = Duration::from_secs(10);

/// Time that other nodes have for a command.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);
/// Time that nodes have to tell figures, which somebody waits to see.
const STATUS_LIMIT: Duration = Duration::from_secs(3);
/// Time that they have to compare everything.
const FULL_SYNC_LIMIT: Duration = Duration::from_secs(3_600);

/// A command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum ReplicationCommand {
    /// Tells all figures.
    Status,
    /// Adds a source queue, or gives one another filter.
    QueueAdd {
        /// Its name.
        name: String,
        /// The writes that it takes.
        filter: String,
    },
    /// Removes a source queue and all that waits in it.
    QueueRemove {
        /// Its name.
        name: String,
    },
    /// Has new entries of a source queue discarded.
    QueueSuspend {
        /// Its name.
        name: String,
    },
    /// Has a source queue take entries again.
    QueueResume {
        /// Its name.
        name: String,
    },
    /// Forgets all that waits in a source queue.
    QueueClear {
        /// Its name.
        name: String,
    },
    /// Has a stale source queue consumed again.
    AcceptResurrection {
        /// Its name.
        name: String,
    },
    /// Makes both clusters of a stale queue equal by what one of them has, and has it consumed again on all
    /// nodes.
    Rebase {
        /// Its name.
        name: String,
        /// The cluster that is right about records that the other one lacks.
        from: RebaseFrom,
        /// A node of the other cluster, HOST:PORT:pb; `None`: that of full-sync.
        #[serde(default)]
        peer: Option<String>,
        /// Whether it is only counted what would be done.
        #[serde(default)]
        dry_run: bool,
    },
    /// Consumes a queue of another cluster.
    SinkAdd {
        /// Name of the queue.
        name: String,
        /// Nodes that have it, HOST:PORT:pb.
        peers: Vec<String>,
        /// Entries that are stored at the same time.
        workers: Option<usize>,
        /// Connections to each peer.
        per_peer: Option<usize>,
    },
    /// Consumes a queue no longer.
    SinkRemove {
        /// Name of the queue.
        name: String,
    },
    /// Has consumption rest.
    SinkSuspend {
        /// Name of the queue.
        name: String,
    },
    /// Has consumption go on.
    SinkResume {
        /// Name of the queue.
        name: String,
    },
    /// Changes how much is done at the same time.
    SinkWorkers {
        /// Name of the queue.
        name: String,
        /// Entries that are stored at the same time.
        workers: usize,
        /// Connections to each peer.
        per_peer: Option<usize>,
    },
    /// Asks peers for the other nodes of their clusters.
    SinkDiscover,
    /// Copies all that another cluster has, by all nodes of this one.
    Bootstrap {
        /// Nodes of the other cluster, HOST:PORT:pb.
        peers: Vec<String>,
    },
    /// Copies partitions of another cluster.
    BootstrapTake {
        /// Nodes of the other cluster, HOST:PORT:pb.
        peers: Vec<String>,
        /// The partitions of each node of this cluster, by name.
        shares: BTreeMap<String, Vec<u16>>,
    },
    /// Has a copy rest.
    BootstrapStop,
    /// Has a copy go on.
    BootstrapResume,
    /// Compares with the other cluster now.
    FullSyncRun {
        /// Scope of the repair.
        check: CheckKind,
    },
    /// Has scheduled checks rest.
    FullSyncPause,
    /// Has scheduled checks go on.
    FullSyncResume,
    /// Leaves out the next auto checks.
    FullSyncSuppress {
        /// How many.
        count: u32,
    },
    /// Has the next range check repair these records.
    FullSyncRangeSet {
        /// Bucket type and bucket, with a slash between them; all buckets if there is none.
        bucket: Option<String>,
        /// Records modified earlier are left out, seconds since 1970.
        from_secs: u64,
        /// Records modified later are left out, seconds since 1970.
        until_secs: Option<u64>,
    },
    /// Has the next range check repair what was modified since both clusters were in sync.
    FullSyncRangeClear,
    /// Compares with another node until the restart.
    FullSyncSet {
        /// HOST:PORT:pb.
        peer: String,
        /// The queue here for what is newer here.
        #[serde(default)]
        queue: Option<String>,
        /// The queue there for what is newer there.
        #[serde(default)]
        peer_queue: Option<String>,
        /// With a Riak, the n_val here of the buckets that are compared.
        #[serde(default)]
        local_n_val: Option<u32>,
        /// With a Riak, their n_val there.
        #[serde(default)]
        remote_n_val: Option<u32>,
    },
}

/// Why a command was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CommandError {
    /// A source queue could not be changed.
    #[error(transparent)]
    Queue(#[from] ChangeQueueError),
    /// A sink could not be changed.
    #[error(transparent)]
    Sink(#[from] ChangeSinkError),
    /// A copy of another cluster could not begin.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
}

impl Replication {
    /// Does a command, and tells what came of it.
    ///
    /// # Errors
    ///
    /// Names, filters, addresses and numbers with faults, and disks that do not keep a change.
    pub async fn execute(
        self: &Arc<Self>,
        command: ReplicationCommand,
    ) -> Result<Value, CommandError> {
        use ReplicationCommand as C;
        let queues = self.store().source_queues();
        Ok(match command {
            C::Status => self.status(),
            C::QueueAdd { name, filter } => {
                let filter = filter.parse().map_err(ChangeQueueError::from)?;
                json!({"new": queues.register(&name, filter)?})
            }
            C::QueueRemove { name } => changed(queues.delist(&name)?),
            C::QueueSuspend { name } => changed(queues.suspend(&name, true)?),
            C::QueueResume { name } => changed(queues.suspend(&name, false)?),
            C::QueueClear { name } => {
                let lengths = queues.clear(&name)?;
                json!({"cleared": lengths.real_time + lengths.full_sync + lengths.fold})
            }
            C::AcceptResurrection { name } => changed(queues.accept_resurrection(&name)?),
            C::Rebase { name, from, peer, dry_run } => {
                self.rebase(name, from, peer, dry_run).await?
            }
            C::SinkAdd { name, peers, workers, per_peer } => {
                changed(self.add_sink(self.definition(name, &peers, workers, per_peer)?)?)
            }
            C::SinkRemove { name } => changed(self.remove_sink(&name)?),
            C::SinkSuspend { name } => changed(self.suspend_sink(&name, true)?),
            C::SinkResume { name } => changed(self.suspend_sink(&name, false)?),
            C::SinkWorkers { name, workers, per_peer } => {
                changed(self.set_workers(&name, workers, per_peer)?)
            }
            C::SinkDiscover => {
                self.discover_soon();
                changed(())
            }
            C::Bootstrap { peers } => self.begin_bootstrap(peers).await?,
            C::BootstrapTake { peers, mut shares } => {
                let name = self.store().control().read().node_name().to_owned();
                self.bootstrap().take(peers, shares.remove(&name).unwrap_or_default())?;
                changed(())
            }
            C::BootstrapStop => json!({"state": stopped(self.bootstrap().stop(true)?)}),
            C::BootstrapResume => json!({"state": resumed(self.bootstrap().stop(false)?)}),
            C::FullSyncRun { check } => {
                let report = self.run_full_sync(check).await;
                json!({"state": report.state(), "report": report})
            }
            C::FullSyncPause => {
                let text = if self.pause_full_sync(true)? { "paused" } else { "already_paused" };
                json!({"state": text})
            }
            C::FullSyncResume => {
                let text = if self.pause_full_sync(false)? { "resumed" } else { "not_paused" };
                json!({"state": text})
            }
            C::FullSyncSuppress { count } => {
                self.full_sync_control().suppress(count);
                changed(())
            }
            C::FullSyncRangeSet { bucket, from_secs, until_secs } => {
                let us = |secs: u64| secs.saturating_mul(1_000_000);
                let (modified_from_us, modified_until_us) =
                    (us(from_secs), until_secs.map_or(u64::MAX, us));
                let range = CheckRange { bucket, modified_from_us, modified_until_us };
                self.full_sync_control().set_range(Some(range));
                changed(())
            }
            C::FullSyncRangeClear => {
                self.full_sync_control().set_range(None);
                changed(())
            }
            C::FullSyncSet { peer, queue, peer_queue, local_n_val, remote_n_val } => {
                let peer: PeerAddress = peer.parse().map_err(ChangeSinkError::from)?;
                let scope = FullSyncChange { queue, peer_queue, local_n_val, remote_n_val };
                self.full_sync_control().set(peer, scope);
                changed(())
            }
        })
    }

    /// Does a command on all nodes of the cluster: what came of it by the nodes' names.
    pub async fn execute_on_all(
        self: &Arc<Self>,
        command: ReplicationCommand,
    ) -> BTreeMap<String, Result<Value, String>> {
        let bytes = serde_json::to_vec(&command).expect("a command can be written");
        let limit = match command {
            ReplicationCommand::FullSyncRun { .. } | ReplicationCommand::Rebase { .. } => {
                FULL_SYNC_LIMIT
            }
            ReplicationCommand::Status => STATUS_LIMIT,
            _ => COMMAND_LIMIT,
        };
        let others = self.store().command_others(bytes.into(), limit);
        let (own, others) = tokio::join!(self.execute(command), others);
        let name = self.store().control().read().node_name().to_string();
        let mut all = BTreeMap::from([(name, own.map_err(|fault| fault.to_string()))]);
        for (name, answer) in others {
            let silent = || Err("the node has not answered".to_owned());
            all.insert(name.to_string(), answer.map_or_else(silent, |bytes| read_answer(&bytes)));
        }
        all
    }

    fn definition(
        &self,
        queue: String,
        peers: &[String],
        workers: Option<usize>,
        per_peer: Option<usize>,
    ) -> Result<SinkDefinition, ChangeSinkError> {
        let peers =
            peers.iter().map(|peer| peer.parse()).collect::<Result<Vec<PeerAddress>, _>>()?;
        let worker_count = workers.unwrap_or(self.settings().worker_count);
        let peer_limit = per_peer.unwrap_or(self.settings().peer_limit).min(worker_count);
        Ok(SinkDefinition { queue, peers, worker_count, peer_limit, is_suspended: false })
    }

    /// All figures of the node's replication.
    #[must_use]
    pub fn status(&self) -> Value {
        let store = self.store();
        let queues = store.source_queues();
        let now_us = store.clock().unix_us();
        let mut cluster = String::new();
        for byte in store.cluster() {
            // Writing to a string does not fail.
            let _ = write!(cluster, "{byte:02x}");
        }
        let all: Vec<QueueStatus> = queues.status();
        json!({
            "cluster": cluster,
            "source": {
                "enabled": queues.is_enabled(),
                "disk_bytes": queues.disk_bytes(),
                "queues": all.iter().map(|queue| queue_json(queue, now_us)).collect::<Value>(),
            },
            "sinks": self.sinks(),
            "full_sync": self.full_sync(),
            "bootstrap": self.bootstrap().status(),
            "bucket_types": self.settings().bucket_types,
            "alerts": self.alerts(&all, now_us),
        })
    }

    /// The alerts for an operator, in words.
    fn alerts(&self, queues: &[QueueStatus], now_us: u64) -> Vec<String> {
        let mut alerts = Vec::new();
        let is_enabled = self.store().source_queues().is_enabled();
        for QueueStatus { name, lengths, counts, oldest_us, is_suspended, is_stale, .. } in queues {
            if *is_stale {
                alerts.push(format!(
                    "queue {name} is stale: its sinks have confirmed nothing for longer than repl.retention, \
                     and records deleted here may be live there; use quoit repl rebase {name}"
                ));
            }
            let age_secs = age_us(*oldest_us, now_us) / 1_000_000;
            if age_secs >= LAG_ALERT.as_secs() {
                alerts.push(format!(
                    "queue {name} is {age_secs} s behind with {} objects: look at its sinks",
                    lengths.real_time
                ));
            }
            if counts.discarded > 0 && !is_suspended {
                alerts.push(format!(
                    "queue {name} was full and has discarded {} objects: full-sync has to find them",
                    counts.discarded
                ));
            }
            if *is_suspended {
                alerts.push(format!("queue {name} is suspended: new writes are not queued in it"));
            }
            if !is_enabled && lengths.real_time > 0 {
                alerts.push(format!("queue {name} takes nothing: replrtq_enablesrc is disabled"));
            }
        }
        for sink in self.sinks() {
            for peer in sink.peers {
                if let Some(fault) = peer.fault {
                    alerts.push(format!("sink {}: {fault}", sink.queue));
                }
            }
            if sink.is_suspended {
                alerts.push(format!("sink {} is suspended", sink.queue));
            }
        }
        if let Some(fault) = self.bootstrap().status().fault {
            alerts.push(format!("bootstrap: {fault}"));
        }
        if let Some(fault) = self.types_fault() {
            alerts.push(format!("bucket types: {fault}"));
        }
        let full_sync = self.full_sync();
        if full_sync.is_wanted && full_sync.scope == FullSyncScope::Disabled {
            alerts.push(
                "entries of source queues may have been lost: have quoit repl fullsync run"
                    .to_owned(),
            );
        }
        if let Some(fault) = full_sync.last.and_then(|last| last.fault) {
            alerts.push(format!("full-sync: {fault}"));
        }
        alerts
    }
}

/// Does commands that other nodes pass on.
struct Operator(Weak<Replication>);

impl ReplicationOperator for Operator {
    fn command(&self, command: Bytes) -> Pin<Box<dyn Future<Output = Bytes> + Send>> {
        let replication = self.0.upgrade();
        Box::pin(async move {
            let answer = match (replication, serde_json::from_slice(&command)) {
                (Some(replication), Ok(command)) => {
                    replication.execute(command).await.map_err(|fault| fault.to_string())
                }
                (_, Err(fault)) => {
                    Err(format!("a command that this release does not know: {fault}"))
                }
                (None, _) => Err("the node stops".to_owned()),
            };
            let answer = match answer {
                Ok(value) => json!({"ok": value}),
                Err(fault) => json!({"error": fault}),
            };
            answer.to_string().into()
        })
    }
}

impl Replication {
    /// Does commands that other nodes of the cluster pass on, from now on.
    pub fn serve_commands(self: &Arc<Self>) {
        self.store().set_replication_operator(Arc::new(Operator(Arc::downgrade(self))));
    }
}

fn read_answer(bytes: &[u8]) -> Result<Value, String> {
    let mut answer: Value = serde_json::from_slice(bytes).map_err(|fault| fault.to_string())?;
    match answer["error"].as_str() {
        Some(fault) => Err(fault.to_owned()),
        None => Ok(answer["ok"].take()),
    }
}

const fn stopped(is_known: bool) -> &'static str {
    if is_known { "stopped" } else { "nothing_to_stop" }
}

const fn resumed(is_known: bool) -> &'static str {
    if is_known { "resumed" } else { "nothing_to_resume" }
}

fn changed((): ()) -> Value {
    json!({"done": true})
}

fn age_us(since_us: Option<u64>, now_us: u64) -> u64 {
    since_us.map_or(0, |since_us| now_us.saturating_sub(since_us))
}

fn queue_json(queue: &QueueStatus, now_us: u64) -> Value {
    let QueueStatus { name, filter, lengths, counts, .. } = queue;
    json!({
        "name": name,
        "filter": filter.to_string(),
        "suspended": queue.is_suspended,
        "stale": queue.is_stale,
        "fold": lengths.fold,
        "full_sync": lengths.full_sync,
        "real_time": lengths.real_time,
        "unconfirmed": queue.unconfirmed_count,
        "oldest_age_ms": age_us(queue.oldest_us, now_us) / 1_000,
        "queued_total": counts.queued,
        "discarded_total": counts.discarded,
        "consumed_total": counts.consumed,
        "consumed_bytes_total": counts.consumed_bytes,
    })
}
