//! Answers to other nodes by steps that may have to wait for the disk.
//!
//! A request that can be answered from memory is answered on the connection's own task. One that has to wait
//! goes on in a task of its own.

use crate::blocking::Blocking;
use crate::refusal::Refusal;
use quoit_cluster::Responder;
use quoit_store::engine::Access;
use std::sync::Arc;

/// Answers a request of another node with the outcome of a step, which is done at once where it need not wait
/// for the disk, and else once more by a thread that may wait.
pub(crate) fn answer_by<S: Send + Sync + 'static, T: Send + 'static>(
    server: Arc<S>,
    blocking: Blocking,
    reply: Responder,
    step: impl Fn(&S, Access) -> Result<Option<T>, Refusal> + Send + 'static,
    answer: impl FnOnce(Arc<S>, Result<T, Refusal>, Responder) + Send + 'static,
) {
    match step(&server, Access::NoWait) {
        Ok(Some(done)) => answer(server, Ok(done), reply),
        Ok(None) => {
            tokio::spawn(async move {
                let waiter = Arc::clone(&server);
                let waited = blocking.aside(move || Ok(step(&waiter, Access::Wait))).await;
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
