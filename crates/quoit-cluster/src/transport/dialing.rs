//! The task that keeps a lane of a peer connected.

use super::Lane;
use super::context::Context;
use super::error::{CallError, Fault};
use super::greeting::{self, DialTarget, Greeted};
use super::outbound::{DriverExit, OutboundDriver};
use super::peer::{ConnectionProblem, Peer};
use super::reachability::Reachability;
use super::redial::Backoff;
use super::security::PeerProof;
use quoit_wire::internode::code;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Maximum time for which a replaced connection stays open for the answers to its calls.
pub(super) const HAND_OVER_PATIENCE: Duration = Duration::from_secs(2);

/// Dials `lane` of `peer`, and dials it again whenever the connection ends, until the peer is retired. The
/// large lane is dialed only when a call needs it.
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

/// Makes one connection and serves it until it ends. Returns true if the connection was made.
async fn connect_once(
    context: &Arc<Context>,
    peer: &Peer,
    lane: Lane,
    reachability: &mut Reachability,
) -> bool {
    let address = peer.address();
    let greeted = match greeting::dial(context, &address, lane, DialTarget::Member(peer.node_id()))
        .await
    {
        Ok(greeted) => greeted,
        Err(fault) => {
            let reason = Arc::from(fault.to_string());
            log_down(peer, &address, lane, &fault, reachability);
            peer.disconnected(lane, &reason, &CallError::Unreachable(Arc::clone(&reason)));
            let problem = match fault {
                Fault::Refused { code: code::TWO_WITH_ONE_IDENTITY, .. } => {
                    Some(ConnectionProblem::DuplicateIdentity)
                }
                Fault::Refused { code: code::OUTDATED, .. } => Some(ConnectionProblem::Outdated),
                Fault::Refused { code: code::CLOCK, .. } | Fault::Clock(_) => {
                    Some(ConnectionProblem::Clock)
                }
                _ => None,
            };
            peer.refused(Instant::now(), problem.map(|problem| (problem, &reason)));
            return false;
        }
    };
    let driver = take_into_use(context, peer, lane, greeted);
    let fault = if peer.is_retired() || peer.address() != address {
        drop(driver);
        Fault::Retired
    } else {
        log_up(peer, &address, lane, reachability);
        run(context, peer, lane, &address, driver).await
    };
    if !peer.is_retired() {
        log_down(peer, &address, lane, &fault, reachability);
    }
    let reason = Arc::from(fault.to_string());
    peer.disconnected(lane, &reason, &CallError::Disconnected(Arc::clone(&reason)));
    true
}

/// Makes the calls of a lane use a connection.
fn take_into_use<'a>(
    context: &'a Context,
    peer: &'a Peer,
    lane: Lane,
    greeted: Greeted,
) -> OutboundDriver<'a> {
    let (versions, common) = (greeted.newcomer.versions, greeted.version);
    let boot_id = greeted.newcomer.boot_id;
    let is_plain = greeted.proven == PeerProof::Nothing;
    let driver = OutboundDriver::new(context, peer, lane, greeted);
    peer.connected(lane, versions, common, boot_id);
    peer.set_plain(lane, is_plain);
    driver
}

/// Carries the calls of a lane until there is no connection. If the connection is to get TLS, another one
/// replaces it while it is in use, so that the peer never seems to be down: a coordinator that reaches
/// fewer nodes counts one node for several replicas.
async fn run<'a>(
    context: &'a Arc<Context>,
    peer: &'a Peer,
    lane: Lane,
    address: &str,
    mut driver: OutboundDriver<'a>,
) -> Fault {
    loop {
        if let DriverExit::Ended(fault) = driver.run().await {
            return fault;
        }
        let dialing =
            greeting::dial(context, address, lane, DialTarget::MemberByTls(peer.node_id()));
        let greeted = tokio::select! {
            biased;
            pause = driver.run() => match pause {
                DriverExit::Ended(fault) => return fault,
                DriverExit::Renewal => continue,
            },
            greeted = dialing => greeted,
        };
        match greeted {
            Ok(greeted) => {
                if let Err(fault) = hand_over(peer, lane, driver).await {
                    return fault;
                }
                driver = take_into_use(context, peer, lane, greeted);
                if peer.is_retired() || *peer.address() != *address {
                    return Fault::Retired;
                }
            }
            Err(fault) => {
                let peer = peer.name();
                tracing::debug!(%peer, %address, ?lane, %fault, "a connection stays without TLS");
                context.settings.security.note_stays_plain(address, fault.to_string());
            }
        }
    }
}

/// Ends a connection that another one replaces, when its calls have their answers or after
/// [`HAND_OVER_PATIENCE`]. Returns an error if the connection ended by itself before, for example because it
/// was closed; then nothing replaces it.
async fn hand_over(peer: &Peer, lane: Lane, mut driver: OutboundDriver<'_>) -> Result<(), Fault> {
    if let Ok(drained) = timeout(HAND_OVER_PATIENCE, driver.drain()).await {
        return drained;
    }
    let reason = Arc::from("another connection has taken its place");
    peer.lane(lane).give_up_under_way(&CallError::Disconnected(reason));
    Ok(())
}

/// Logs that a peer is down, unless that is logged already. Only the small lane logs it as a warning.
fn log_down(
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

/// Logs that a peer is back, if it was logged as down.
fn log_up(peer: &Peer, address: &str, lane: Lane, reachability: &mut Reachability) {
    let peer = peer.name();
    match reachability.connected(Instant::now()) {
        Some(down) if lane == Lane::Small => {
            let after_secs = down.as_secs();
            tracing::info!(%peer, %address, after_secs, "a node is back");
        }
        _ => tracing::debug!(%peer, %address, ?lane, "connected"),
    }
}
