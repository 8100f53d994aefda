//! Replication commands that an operator gives to one node for the whole cluster.
//!
//! This module only carries commands and answers between nodes, as bytes. A [`ReplicationOperator`]
//! above the core interprets them.

use super::Replication;
use crate::refusal::{Refusal, refuse};
use bytes::Bytes;
use quoit_cluster::{IncomingRequest, Lane, NodeId, Replies, Responder};
use quoit_wire::internode::replication::{METHOD_COMMAND, ReplicationMessage};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum bytes of a command.
const COMMAND_BYTES_MAX: usize = 1 << 20;

/// The part of the node that executes replication commands.
pub trait ReplicationOperator: Send + Sync {
    /// Executes a command and returns its answer.
    fn command(&self, command: Bytes) -> Pin<Box<dyn Future<Output = Bytes> + Send>>;
}

impl Replication {
    /// Sets the object that executes commands of other nodes. Only the first call has an effect.
    pub fn set_operator(&self, operator: Arc<dyn ReplicationOperator>) {
        let _ = self.operator.set(operator);
    }

    /// Sends a command to all other members that are up. Returns the answers of all other members by
    /// name; `None` for members that have not answered within `limit`.
    pub async fn command_others(
        &self,
        command: Bytes,
        limit: Duration,
    ) -> BTreeMap<Arc<str>, Option<Bytes>> {
        let state = self.local.state();
        let (own, mut replies) = (state.node_id(), Replies::new());
        let mut answers = BTreeMap::new();
        let mut asked: Vec<(NodeId, Arc<str>)> = Vec::new();
        let message = ReplicationMessage { content: command };
        for member in state.members().iter().filter(|member| member.id != own) {
            answers.insert(Arc::clone(&member.name), None);
            if let Some(peer) = self.local.reachable(member.id)
                && let Ok(slot) = u16::try_from(asked.len())
                && peer.send(METHOD_COMMAND, &message, b"", Lane::Small, &replies, slot).is_ok()
            {
                asked.push((member.id, Arc::clone(&member.name)));
            }
        }
        let gather = async {
            while let Some((slot, answer)) = replies.next().await {
                let message = answer.ok().and_then(|reply| {
                    <ReplicationMessage as prost::Message>::decode(reply.header).ok()
                });
                if let (Some(message), Some((_, name))) = (message, asked.get(usize::from(slot))) {
                    answers.insert(Arc::clone(name), Some(message.content));
                }
            }
        };
        let _ = timeout(limit, gather).await;
        answers
    }

    pub(crate) fn serve_command(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        // Commands do not depend on the layout.
        let message = match self.local.read_header(request, |_: &ReplicationMessage| u64::MAX) {
            Ok(message) => message,
            Err(refusal) => return refuse(reply, &refusal),
        };
        let Some(operator) = self.operator.get().cloned() else {
            let text = "the node does not replicate yet: it is starting".to_owned();
            return refuse(reply, &Refusal::Malformed(text));
        };
        if message.content.len() > COMMAND_BYTES_MAX {
            return refuse(reply, &Refusal::Malformed("the command is too long".to_owned()));
        }
        tokio::spawn(async move {
            let content = operator.command(message.content).await;
            reply.send(&ReplicationMessage { content }, b"");
        });
    }
}
