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
                // A node that gives no answer is asked again.
                let Some(changes) = answer.and_then(|bytes| changes_of(&bytes)) else { continue };
                if let Err(fault) = self.take_shared(changes).await {
                    tracing::warn!(%node, "a change of links that another node knows: {fault}");
                }
            }
            sleep(INTERVAL).await;
        }
    }
}

/// The changes in the answer of another node; `None` if the answer has none.
fn changes_of(answer: &[u8]) -> Option<SharedChanges> {
    let mut answer: Value = serde_json::from_slice(answer).ok()?;
    let changes = answer.get_mut("ok")?.get_mut("changes")?.take();
    serde_json::from_value(changes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_another_form_has_no_changes() {
        let none = serde_json::to_value(SharedChanges::default()).expect("changes can be written");
        let answer = json!({"ok": {"changes": none}}).to_string();
        assert!(changes_of(answer.as_bytes()).is_some());
        for other in
            ["", "{}", "[]", "\"ok\"", "{\"ok\":[]}", "{\"ok\":\"changes\"}", "{\"ok\":{}}"]
        {
            assert!(changes_of(other.as_bytes()).is_none(), "{other}");
        }
    }
}
