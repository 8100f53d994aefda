//! Nothing grows without bound, also while things go wrong: sampled during runs.
//!
//! The bounds here are not the shipping ones, which no run of a few hundred requests comes near: they are
//! what a small world needs at most, with room to spare, so that what piles up is found in a short run.

use crate::check::{Fault, Violation};
use crate::machine::Machine;
use std::ops::Range;

/// Calls to one other node that are under way at a time: four clients, and background work.
const CALLS_MAX: u32 = 200;
/// Calls that remain under way where nobody asks for anything: the heartbeats of the control plane.
const CALLS_AT_REST_MAX: u32 = 4;
/// Bytes of what the nodes have agreed on, with the log of the way there.
const CONTROL_BYTES_MAX: u64 = 4 << 20;
/// Bytes of what others have missed.
const HINT_BYTES_MAX: u64 = 64 << 10;
/// Times between two samples, in simulated microseconds.
pub const SAMPLE_US: Range<u64> = 500_000..1_500_000;

/// Looks at what piles up where something is not taken away.
///
/// # Errors
///
/// What has grown beyond what a small world needs.
pub fn check_growth(machine: &Machine) -> Result<(), Violation> {
    let disks = machine.disks();
    let (control_bytes, hint_bytes) = (disks.control.used_bytes(), disks.hints.used_bytes());
    let call_count = open_calls(machine);
    if control_bytes <= CONTROL_BYTES_MAX && hint_bytes <= HINT_BYTES_MAX && call_count <= CALLS_MAX
    {
        return Ok(());
    }
    let text = format!(
        "{} has {control_bytes} bytes of control plane, {hint_bytes} bytes of hints, and {call_count} calls \
         to one node under way",
        machine.name
    );
    Err(Violation::new(Fault::Grows, text))
}

/// Whether no more calls are under way than nodes need to stay a cluster.
#[must_use]
pub fn is_quiet(machine: &Machine) -> bool {
    open_calls(machine) <= CALLS_AT_REST_MAX
}

/// Most calls of a node to another one that have no answer yet.
#[must_use]
pub fn open_calls(machine: &Machine) -> u32 {
    let internode = machine.internode();
    let peers = internode.iter().flat_map(|internode| internode.peers());
    peers.map(|peer| peer.pending_count()).max().unwrap_or_default()
}
