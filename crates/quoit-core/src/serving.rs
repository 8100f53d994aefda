//! Answers other nodes' requests with a step that may have to wait for the disk.
//!
//! A request that can be answered from memory is answered in the task of its connection. A request that
//! has to wait for the disk continues in a task of its own.

use crate::blocking::Blocking;
use crate::refusal::Refusal;
use quoit_cluster::Responder;
use quoit_store::engine::IoMode;
use std::sync::Arc;

/// Answers another node's request with the result of `step`. Runs `step` without waiting first; if it
/// would have to wait for the disk, runs it again on a thread that may wait.
pub(crate) fn answer_by<S: Send + Sync + 'static, T: Send + 'static>(
    server: Arc<S>,
    blocking: Blocking,
    reply: Responder,
    step: impl Fn(&S, IoMode) -> Result<Option<T>, Refusal> + Send + 'static,
    answer: impl FnOnce(Arc<S>, Result<T, Refusal>, Responder) + Send + 'static,
) {
    match step(&server, IoMode::NoWait) {
        Ok(Some(done)) => answer(server, Ok(done), reply),
        Ok(None) => {
            tokio::spawn(async move {
                let waiter = Arc::clone(&server);
                let waited = blocking.on_pool(move || Ok(step(&waiter, IoMode::Wait))).await;
                let outcome = match waited {
                    Ok(Ok(done)) => {
                        Ok(done.expect("an engine that may wait does not answer WouldBlock"))
                    }
                    Ok(Err(refusal)) => Err(refusal),
                    Err(fault) => Err(fault.into()),
                };
                answer(server, outcome, reply);
            });
        }
        Err(refusal) => answer(server, Err(refusal), reply),
    }
}
