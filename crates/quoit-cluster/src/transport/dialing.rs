//! The task that keeps a lane of a peer connected.

use super::Lane;
use super::context::Context;
use super::error::{CallError, Fault};
use super::greeting;
use super::outbound::OutboundDriver;
use super::peer::{Peer, Trouble};
use super::redial::Backoff;
use quoit_wire::internode::code;
use std::sync::Arc;
use tokio::time::{Instant, sleep};

/// Dials `lane` of `peer`, and dials it again whenever its connection ends, until the peer is retired. The
/// large lane waits until somebody needs it.
pub(super) async fn keep_connected(context: Arc<Context>, peer: Arc<Peer>, lane: Lane) {
    let mut backoff = Backoff::default();
    while !peer.is_retired() {
        if lane == Lane::Large {
            peer.lane(lane).until_wanted().await;
        }
        let was_connected = connect_once(&context, &peer, lane).await;
        if was_connected {
            backoff.reset();
        }
        let pause = backoff.pause(&context.settings.limits, &mut context.jitter.lock());
        tokio::select! {
            biased;
            () = peer.lane(lane).wanted.notified() => {}
            () = sleep(pause) => {}
        }
        peer.lane(lane).may_be_dialed(lane);
    }
}

/// One connection from dialing to its end. Whether it came about.
async fn connect_once(context: &Arc<Context>, peer: &Peer, lane: Lane) -> bool {
    let address = peer.address();
    let greeted = match greeting::dial(context, &address, lane, Some(peer.node_id())).await {
        Ok(greeted) => greeted,
        Err(fault) => {
            let reason = Arc::from(fault.to_string());
            if peer.trouble().as_ref() != Some(&reason) {
                tracing::warn!(peer = %peer.name(), %address, %fault, "a node can't be reached");
            }
            peer.disconnected(lane, &reason, &CallError::Unreachable(Arc::clone(&reason)));
            let trouble = match fault {
                Fault::Refused { code: code::TWO_WITH_ONE_IDENTITY, .. } => Some(Trouble::Double),
                Fault::Refused { code: code::OUTDATED, .. } => Some(Trouble::Outdated),
                Fault::Refused { code: code::CLOCK, .. } | Fault::Clock(_) => Some(Trouble::Clock),
                _ => None,
            };
            peer.refused(Instant::now(), trouble.map(|trouble| (trouble, &reason)));
            return false;
        }
    };
    let (versions, common) = (greeted.newcomer.versions, greeted.version);
    let boot_id = greeted.newcomer.boot_id;
    let driver = OutboundDriver::new(context, peer, lane, greeted);
    peer.connected(lane, versions, common, boot_id);
    let fault = if peer.is_retired() || peer.address() != address {
        drop(driver);
        Fault::Retired
    } else {
        tracing::debug!(peer = %peer.name(), %address, ?lane, "connected");
        driver.run().await
    };
    if !peer.is_retired() {
        tracing::warn!(peer = %peer.name(), %address, ?lane, %fault, "the connection to a node has ended");
    }
    let reason = Arc::from(fault.to_string());
    peer.disconnected(lane, &reason, &CallError::Disconnected(Arc::clone(&reason)));
    true
}
