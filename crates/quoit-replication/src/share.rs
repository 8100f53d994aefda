//! Exchange of changes of links between nodes.

use crate::command::{CommandError, ReplicationCommand, SharedChanges};
use crate::replication::Replication;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Interval at which a node asks the others for the changes that they know.
const INTERVAL: Duration = Duration::from_secs(10);
/// Time after the start before the first request.
const REST_AT_START: Duration = Duration::from_secs(1);
/// Time in which the others have to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

impl Replication {
    /// Notes a command for all nodes if it changes a link, and returns the form in which other nodes
    /// get it.
    pub(crate) fn shared_form(&self, command: &ReplicationCommand) -> Option<ReplicationCommand> {
        let node = self.settings().node_name.clone();
        let changes = self.links().begin(command, &node, self.store().clock().unix_us())?;
        Some(ReplicationCommand::Share { changes })
    }

    /// Executes changes of another node that this node does not know yet.
    pub(crate) async fn take_shared(
        self: &Arc<Self>,
        told: SharedChanges,
    ) -> Result<Value, CommandError> {
        let mut first = None;
        for command in self.links().merge(told) {
            let done = self.execute(command).await;
            if let Err(fault) = done {
                first.get_or_insert(fault);
            }
        }
        first.map_or_else(|| Ok(json!({"done": true})), Err)
    }

    /// Asks the other nodes for changes at intervals, until the task is dropped.
    pub(crate) async fn follow_shared_links(self: &Arc<Self>) {
        sleep(REST_AT_START).await;
        let ask =
            serde_json::to_vec(&ReplicationCommand::Shared).expect("a command can be written");
        loop {
            let told =
                self.store().replication().command_others(ask.clone().into(), ANSWER_LIMIT).await;
            for (node, answer) in told {
                let answer = answer.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
                let changes = answer.map(|mut answer| answer["ok"]["changes"].take());
                // A node that gives no answer is asked again.
                let Some(Ok(changes)) = changes.map(serde_json::from_value::<SharedChanges>) else {
                    continue;
                };
                if let Err(fault) = self.take_shared(changes).await {
                    tracing::warn!(%node, "a change of links that another node knows: {fault}");
                }
            }
            sleep(INTERVAL).await;
        }
    }
}
