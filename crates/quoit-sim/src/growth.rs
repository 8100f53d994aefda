//! Checks during a run that nothing grows without bound, even while there are faults.
//!
//! The released limits are out of reach for a run of a few hundred requests. The limits here are the most
//! that a small world needs, with a margin, so that a short run finds a collection that grows.

use crate::machine::Machine;
use crate::violation::{Violation, ViolationKind};
use std::ops::Range;

/// Maximum number of open calls to one other node: for four clients and background work.
const CALLS_MAX: u32 = 200;
/// Maximum number of open calls to one other node when no requests run: heartbeats of the control plane.
const CALLS_AT_REST_MAX: u32 = 4;
/// Range of the times between two samples, in simulated microseconds.
pub const SAMPLE_US: Range<u64> = 500_000..1_500_000;

/// A collection on a node that could grow without bound, with its limit.
struct BoundedCollection {
    what: &'static str,
    size: u64,
    size_max: u64,
}

/// Checks the sizes of a node's collections.
///
/// # Errors
///
/// Names the first collection that is larger than a small world needs.
pub fn check_growth(machine: &Machine) -> Result<(), Violation> {
    match piles(machine).into_iter().find(|pile| pile.size > pile.size_max) {
        None => Ok(()),
        Some(BoundedCollection { what, size, size_max }) => {
            let text = format!("{} has {size} {what}, and {size_max} would do", machine.name);
            Err(Violation::new(ViolationKind::Grows, text))
        }
    }
}

fn piles(machine: &Machine) -> Vec<BoundedCollection> {
    let disks = machine.disks();
    let mut piles = vec![
        BoundedCollection {
            what: "bytes of control plane",
            size: disks.control.used_bytes(),
            size_max: 4 << 20,
        },
        BoundedCollection {
            what: "bytes of hints",
            size: disks.hints.used_bytes(),
            size_max: 64 << 10,
        },
        // For a dozen keys, in files of 2000 bytes.
        BoundedCollection {
            what: "bytes of reap records",
            size: disks.reaped.used_bytes(),
            size_max: 32 << 10,
        },
        BoundedCollection {
            what: "calls to one node under way",
            size: open_calls(machine).into(),
            size_max: CALLS_MAX.into(),
        },
    ];
    if let Some(internode) = machine.internode() {
        let unwritten_bytes = internode.unwritten_bytes() as u64;
        piles.push(BoundedCollection {
            what: "bytes that wait for other nodes",
            size: unwritten_bytes,
            size_max: 4 << 20,
        });
    }
    if let Some(store) = machine.store() {
        let reaped = store.reap_record_stats();
        piles.extend([
            // A snapshot is made every 256 entries, and 64 older entries are kept. The rest is for
            // entries that come while a snapshot is made.
            BoundedCollection {
                what: "entries of the replicated log",
                size: store.control().log_entry_count(),
                size_max: 600,
            },
            // For a dozen keys, each of which is deleted again and again.
            BoundedCollection { what: "reap records", size: reaped.count as u64, size_max: 400 },
        ]);
    }
    piles
}

/// True if a node has no more open calls than nodes need to stay a cluster.
#[must_use]
pub fn is_quiet(machine: &Machine) -> bool {
    open_calls(machine) <= CALLS_AT_REST_MAX
}

/// Returns the largest number of unanswered calls of a node to one other node.
#[must_use]
pub fn open_calls(machine: &Machine) -> u32 {
    let internode = machine.internode();
    let peers = internode.iter().flat_map(|internode| internode.peers());
    peers.map(|peer| peer.pending_count()).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks::Disks;
    use crate::machine::{MachineRole, MachineUse};
    use crate::random::Random;
    use crate::time::SimTime;
    use quoit_seam::Disk;

    #[test]
    fn what_has_piled_up_is_told_with_its_bound() {
        let disks = Disks::new(&mut Random::new(1, "disk", 0));
        let hints = disks.hints.clone();
        let role = MachineRole { cluster: 0, machine_use: MachineUse::InService };
        let machine = Machine::new(0, role, disks, &SimTime::default());
        assert_eq!(check_growth(&machine), Ok(()));
        let file = hints.open("hints", true).expect("there is room");
        file.write_at(&[1; 65 << 10], 0).expect("there is room");
        let told = check_growth(&machine).expect_err("too much").to_string();
        assert!(told.contains("n1 has 66560 bytes of hints, and 65536 would do"), "{told}");
    }
}
