//! Replication between clusters in the administration API: one path, with the command in the body.

use super::{allow, error};
use crate::http::{HttpConnection, Method, Refusal, Request, query_value};
use quoit_core::ChangeQueueError;
use quoit_replication::ChangeSinkError;
use quoit_replication::{BootstrapError, CommandError, Replication, ReplicationCommand};
use serde_json::{Map, Value, json};
use std::sync::Arc;

impl HttpConnection {
    /// Answers with figures (GET), or executes the command in the body (POST), on this node or with `all`
    /// on every node.
    pub(super) async fn replication(
        &self,
        request: &Request,
        method: Method,
        query: &[u8],
    ) -> Result<Value, Refusal> {
        allow(method, &[Method::Get, Method::Head, Method::Post])?;
        let Some(replication) = self.context.replication.get() else {
            let text = "the node does not replicate yet: it is starting; try again in a moment";
            return Err(error(503, "starting", text));
        };
        let command = match method {
            Method::Post => serde_json::from_slice(&request.body).map_err(|fault| {
                error(400, "invalid_command", &format!("the body is not a command: {fault}"))
            })?,
            _ => ReplicationCommand::Status,
        };
        let is_for_all = query_value(query, "all").is_some_and(|value| &value[..] == b"true");
        match is_for_all {
            true => Ok(on_all(replication, command).await),
            false => {
                let done = replication.execute(command).await;
                let document = done.map_err(|fault| refusal(&fault))?;
                Ok(json!({"node": self.context.node_name, "result": document}))
            }
        }
    }
}

async fn on_all(replication: &Arc<Replication>, command: ReplicationCommand) -> Value {
    let mut nodes = Map::new();
    for (name, done) in replication.execute_on_all(command).await {
        let document = match done {
            Ok(document) => json!({"result": document}),
            Err(fault) => json!({"error": fault}),
        };
        nodes.insert(name, document);
    }
    json!({"nodes": nodes})
}

fn refusal(fault: &CommandError) -> Refusal {
    let (status, word) = match fault {
        CommandError::Queue(ChangeQueueError::NoQueue(_)) => (404, "no_queue"),
        CommandError::Sink(ChangeSinkError::NoSink(_)) => (404, "no_sink"),
        CommandError::Queue(ChangeQueueError::Disk(_))
        | CommandError::Sink(ChangeSinkError::Disk(_)) => (500, "disk"),
        CommandError::Queue(ChangeQueueError::TooMany)
        | CommandError::Sink(ChangeSinkError::TooMany) => (409, "too_many"),
        CommandError::Bootstrap(BootstrapError::NoPeer(_)) => (502, "no_peer"),
        CommandError::Bootstrap(BootstrapError::Disk(_)) => (500, "disk"),
        CommandError::Queue(_) | CommandError::Sink(_) | CommandError::Bootstrap(_) => {
            (400, "invalid_value")
        }
    };
    error(status, word, &fault.to_string())
}
