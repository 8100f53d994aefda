//! Calls to another node that fail when the node goes down.

use prost::Message;
use quoit_cluster::{CallError, Lane, Peer, Replies, Reply};
use quoit_wire::internode::Payload;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Interval at which a waiting call checks whether the node is still up.
const TICK: Duration = Duration::from_millis(100);

/// Sends a request and waits for the answer, at most for `limit` and only while the node is up. A node
/// whose process is suspended keeps its connections and never answers, so the call must not depend on the
/// connection alone.
///
/// # Errors
///
/// Any [`CallError`]; `Disconnected` if the node is no longer considered up. The node may have carried
/// out the request, or may still do so.
pub(crate) async fn call_while_up(
    peer: &Peer,
    method: u16,
    header: &impl Message,
    payload: &(impl Payload + ?Sized),
    lane: Lane,
    limit: Duration,
) -> Result<Reply, CallError> {
    let deadline = Instant::now() + limit;
    let mut replies = Replies::new();
    peer.send(method, header, payload, lane, &replies, 0)?;
    loop {
        let tick = deadline.min(Instant::now() + TICK);
        match timeout_at(tick, replies.next()).await {
            Ok(Some((_, answer))) => return answer,
            Ok(None) => return Err(CallError::Disconnected("the call has vanished".into())),
            Err(_) if Instant::now() >= deadline => {
                return Err(CallError::timeout(limit));
            }
            Err(_) if !peer.is_up() => {
                return Err(CallError::Disconnected("the node has fallen silent".into()));
            }
            Err(_) => {}
        }
    }
}
