//! The task that keeps a lane of a peer connected.

use super::Lane;
use super::context::Context;
use super::error::{CallError, Fault};
use super::greeting::{self, Whom};
use super::outbound::OutboundDriver;
use super::peer::{Peer, Trouble};
use super::reachability::Reachability;
use super::redial::Backoff;
use super::security::Proven;
use quoit_wire::internode::code;
use std::sync::Arc;
use tokio::time::{Instant, sleep};

/// Dials `lane` of `peer`, and dials it again whenever its connection ends, until the peer is retired. The
/// large lane waits until somebody needs it.
pub(super) async fn keep_connected(context: Arc<Context>, peer: Arc<Peer>, lane: Lane) {
    let mut backoff = Backoff::default();
    let mut reachability = Reachability::default();
    while !peer.is_retired() {
        if lane == Lane::Large {
            peer.lane(lane).until_wanted().await;
        }
        let was_connected = connect_once(&context, &peer, lane, &mut reachability).await;
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
async fn connect_once(
    context: &Arc<Context>,
    peer: &Peer,
    lane: Lane,
    reachability: &mut Reachability,
) -> bool {
    let address = peer.address();
    let greeted = match greeting::dial(context, &address, lane, Whom::Member(peer.node_id())).await
    {
        Ok(greeted) => greeted,
        Err(fault) => {
            let reason = Arc::from(fault.to_string());
            tell_down(peer, &address, lane, &fault, reachability);
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
    let is_plain = greeted.proven == Proven::Nothing;
    let driver = OutboundDriver::new(context, peer, lane, greeted);
    peer.connected(lane, versions, common, boot_id);
    peer.set_plain(lane, is_plain);
    let fault = if peer.is_retired() || peer.address() != address {
        drop(driver);
        Fault::Retired
    } else {
        tell_up(peer, &address, lane, reachability);
        driver.run().await
    };
    if !peer.is_retired() {
        tell_down(peer, &address, lane, &fault, reachability);
    }
    let reason = Arc::from(fault.to_string());
    peer.disconnected(lane, &reason, &CallError::Disconnected(Arc::clone(&reason)));
    true
}

/// Logs that a peer is down, unless that was logged. The large lane only follows the small one.
fn tell_down(
    peer: &Peer,
    address: &str,
    lane: Lane,
    fault: &Fault,
    reachability: &mut Reachability,
) {
    let peer = peer.name();
    if lane == Lane::Small && reachability.failed(Instant::now(), fault) {
        tracing::warn!(%peer, %address, %fault, "a node is down");
    } else {
        tracing::debug!(%peer, %address, ?lane, %fault, "a node can't be reached");
    }
}

/// Logs that a peer is back, if it was logged that it is down.
fn tell_up(peer: &Peer, address: &str, lane: Lane, reachability: &mut Reachability) {
    let peer = peer.name();
    match reachability.connected(Instant::now()) {
        Some(down) if lane == Lane::Small => {
            let after_secs = down.as_secs();
            tracing::info!(%peer, %address, after_secs, "a node is back");
        }
        _ => tracing::debug!(%peer, %address, ?lane, "connected"),
    }
}
