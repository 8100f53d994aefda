//! Execution of commands, on this node and on all nodes.

use crate::address::PeerAddress;
use crate::command::{CommandError, CommandOutcome, ReplicationCommand};
use crate::full_sync::{CheckRange, FullSyncChange};
use crate::links::SharedLinks;
use crate::replication::Replication;
use crate::sink_definition::SinkDefinition;
use crate::sinks::ChangeSinkError;
use bytes::Bytes;
use quoit_core::{ChangeQueueError, FullSyncNumber, ReplicationOperator, VisitedCluster};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Fault of a node that gives no answer.
const SILENT: &str = "the node has not answered";
/// Beginning of the answer to a command of a newer release.
const UNKNOWN_COMMAND: &str = "a command that this release does not know";

/// Time in which other nodes have to execute a command.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);
/// Time in which nodes have to return figures, for which an operator waits.
const STATUS_LIMIT: Duration = Duration::from_secs(3);
/// Time in which nodes have to compare all records.
const FULL_SYNC_LIMIT: Duration = Duration::from_secs(3_600);

impl Replication {
    /// Executes a command on this node, and returns its result.
    ///
    /// # Errors
    ///
    /// Invalid names, filters, addresses and numbers, and disks that do not store a change.
    pub fn execute(self: &Arc<Self>, command: ReplicationCommand) -> CommandOutcome<'_> {
        Box::pin(self.execute_here(command))
    }

    async fn execute_here(
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
                let lengths = queues.clear(&name, self.store().clock().unix_us())?;
                json!({"cleared": lengths.real_time + lengths.full_sync + lengths.fold})
            }
            C::AcceptResurrection { name } => changed(queues.accept_resurrection(&name)?),
            C::Rebase { name, from, peer, dry_run } => {
                self.rebase(name, from, peer, dry_run).await?
            }
            C::SinkAdd { name, peers, workers, per_peer } => {
                let asked = RequestedWorkers { workers, per_peer };
                changed(self.add_sink(self.definition(name, &peers, asked)?)?)
            }
            C::SinkRemove { name } => changed(self.remove_sink(&name)?),
            C::SinkSuspend { name } => changed(self.suspend_sink(&name, true)?),
            C::SinkResume { name } => changed(self.suspend_sink(&name, false)?),
            C::SinkWorkers { name, workers, per_peer } => {
                changed(self.set_workers(&name, workers, per_peer)?)
            }
            C::SinkDiscover => self.discover_peers_soon(),
            C::Share { changes } => self.take_shared(changes).await?,
            C::Shared => json!({"changes": self.links().shared_changes()}),
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
            C::FullSyncBegun { check } => self.note_check_begun(FullSyncNumber(check)),
            C::FullSyncEnded { check, queue, cluster } => {
                self.note_check_ended(FullSyncNumber(check), &queue, cluster)
            }
            C::FullSyncPause => self.pause_checks(true)?,
            C::FullSyncResume => self.pause_checks(false)?,
            C::FullSyncSuppress { count } => self.suppress_checks(count),
            C::FullSyncRangeSet { bucket, from_secs, until_secs } => {
                self.set_check_range(Some(range_of(bucket, from_secs, until_secs)))
            }
            C::FullSyncRangeClear => self.set_check_range(None),
            C::FullSyncSet { peer, queue, peer_queue, local_n_val, remote_n_val } => {
                let peer: PeerAddress = peer.parse().map_err(ChangeSinkError::from)?;
                let change = FullSyncChange { queue, peer_queue, local_n_val, remote_n_val };
                changed(self.set_full_sync(peer, change)?)
            }
        })
    }

    /// Executes a command on all nodes of the cluster. Returns the results by node name.
    pub async fn execute_on_all(
        self: &Arc<Self>,
        command: ReplicationCommand,
    ) -> BTreeMap<String, Result<Value, String>> {
        if SharedLinks::is_change(&command) {
            return self.change_on_all(command).await;
        }
        let others = self.ask_others(&command);
        let (own, mut all) = tokio::join!(self.execute(command.clone()), others);
        all.insert(self.node_name(), own.map_err(|fault| fault.to_string()));
        all
    }

    /// Executes a change of a link on all nodes. Nodes that are down execute it when they are back.
    async fn change_on_all(
        self: &Arc<Self>,
        command: ReplicationCommand,
    ) -> BTreeMap<String, Result<Value, String>> {
        let own = self.execute(command.clone()).await.map_err(|fault| fault.to_string());
        // A change that is refused here is not shared with other nodes.
        let shared = own.as_ref().ok().and_then(|_| self.shared_form(&command));
        let mut all = self.ask_others(shared.as_ref().unwrap_or(&command)).await;
        if shared.is_some() {
            for done in all.values_mut().filter(|done| done.as_ref().is_err_and(|f| f == SILENT)) {
                *done = Err(format!("{SILENT}; it takes over the change when it is back"));
            }
        }
        all.insert(self.node_name(), own);
        all
    }

    fn node_name(&self) -> String {
        self.store().control().read().node_name().to_owned()
    }

    /// Executes a command on all other nodes.
    async fn ask_others(
        &self,
        command: &ReplicationCommand,
    ) -> BTreeMap<String, Result<Value, String>> {
        let bytes = serde_json::to_vec(command).expect("a command can be written");
        let limit = match command {
            ReplicationCommand::FullSyncRun { .. } | ReplicationCommand::Rebase { .. } => {
                FULL_SYNC_LIMIT
            }
            ReplicationCommand::Status => STATUS_LIMIT,
            _ => COMMAND_LIMIT,
        };
        let answers = self.store().replication().command_others(bytes.into(), limit).await;
        let read = |(name, answer): (Arc<str>, Option<Bytes>)| {
            let silent = || Err(SILENT.to_owned());
            (name.to_string(), answer.map_or_else(silent, |bytes| read_answer(&bytes)))
        };
        answers.into_iter().map(read).collect()
    }

    fn definition(
        &self,
        queue: String,
        peers: &[String],
        asked: RequestedWorkers,
    ) -> Result<SinkDefinition, ChangeSinkError> {
        let RequestedWorkers { workers, per_peer } = asked;
        let peers =
            peers.iter().map(|peer| peer.parse()).collect::<Result<Vec<PeerAddress>, _>>()?;
        let worker_count = workers.unwrap_or(self.settings().worker_count);
        let usual = || self.settings().peer_limit_of(worker_count);
        let peer_limit = per_peer.map_or_else(usual, |per_peer| per_peer.min(worker_count));
        Ok(SinkDefinition { queue, peers, worker_count, peer_limit, is_suspended: false })
    }
}

/// The workers of a sink as an operator asks for them; `None` for the numbers of the settings.
struct RequestedWorkers {
    /// Number of entries that are stored at the same time.
    workers: Option<usize>,
    /// Number of connections to each peer.
    per_peer: Option<usize>,
}

/// Executes commands that other nodes forward.
struct CommandExecutor(Weak<Replication>);

impl ReplicationOperator for CommandExecutor {
    fn command(&self, command: Bytes) -> Pin<Box<dyn Future<Output = Bytes> + Send>> {
        let replication = self.0.upgrade();
        Box::pin(async move {
            let answer = match (replication, serde_json::from_slice(&command)) {
                (Some(replication), Ok(command)) => {
                    replication.execute(command).await.map_err(|fault| fault.to_string())
                }
                (_, Err(fault)) => Err(format!("{UNKNOWN_COMMAND}: {fault}")),
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
    /// Begins to execute commands that other nodes of the cluster forward.
    pub fn serve_commands(self: &Arc<Self>) {
        self.store().replication().set_operator(Arc::new(CommandExecutor(Arc::downgrade(self))));
    }
}

fn read_answer(bytes: &[u8]) -> Result<Value, String> {
    let mut answer: Value = serde_json::from_slice(bytes).map_err(|fault| fault.to_string())?;
    if let Some(fault) = answer.get("error").and_then(Value::as_str) {
        return Err(fault.to_owned());
    }
    let done = answer.get_mut("ok").map(Value::take);
    done.ok_or_else(|| "the answer has neither a result nor an error".to_owned())
}

impl Replication {
    fn discover_peers_soon(&self) -> Value {
        self.discover_soon();
        changed(())
    }

    fn pause_checks(&self, is_paused: bool) -> Result<Value, ChangeSinkError> {
        let text = match (self.pause_full_sync(is_paused)?, is_paused) {
            (true, true) => "paused",
            (true, false) => "resumed",
            (false, true) => "already_paused",
            (false, false) => "not_paused",
        };
        Ok(json!({"state": text}))
    }

    fn note_check_begun(&self, check: FullSyncNumber) -> Value {
        self.full_sync_control().note_begun(check);
        changed(())
    }

    fn note_check_ended(
        &self,
        check: FullSyncNumber,
        queue: &str,
        cluster: Option<VisitedCluster>,
    ) -> Value {
        self.full_sync_control().note_ended(check, queue, cluster);
        changed(())
    }

    fn suppress_checks(&self, count: u32) -> Value {
        self.full_sync_control().suppress(count);
        changed(())
    }

    fn set_check_range(&self, range: Option<CheckRange>) -> Value {
        self.full_sync_control().set_range(range);
        changed(())
    }
}

fn range_of(bucket: Option<String>, from_secs: u64, until_secs: Option<u64>) -> CheckRange {
    let us = |secs: u64| secs.saturating_mul(1_000_000);
    let (modified_from_us, modified_until_us) = (us(from_secs), until_secs.map_or(u64::MAX, us));
    CheckRange { bucket, modified_from_us, modified_until_us }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_another_form_is_an_error() {
        assert_eq!(read_answer(br#"{"ok":{"state":"paused"}}"#), Ok(json!({"state": "paused"})));
        assert_eq!(read_answer(br#"{"error":"no such queue"}"#), Err("no such queue".to_owned()));
        for other in ["", "{}", "[]", "7", "\"ok\"", "null", "[{\"ok\":1}]"] {
            assert!(read_answer(other.as_bytes()).is_err(), "{other}");
        }
    }
}
