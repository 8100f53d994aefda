//! The suite of tests that `openraft` has for storages.

use super::*;
use crate::Addresses;
use crate::ClusterId;
use crate::control::file::{ControlFile, Founding};
use crate::control::link::ControlLink;
use crate::control::log::Log;
use crate::control::machine::{Machine, Published};
use crate::control::types::{RaftId, StorageError, TypeConfig};
use crate::state::State;
use openraft::testing::{StoreBuilder, Suite};
use quoit_store::seam::FaultyDisk;
use quoit_wire::internode::VersionRange;

impl From<u64> for RaftId {
    fn from(number: u64) -> Self {
        let mut id = [0; 16];
        id[8..].copy_from_slice(&number.to_be_bytes());
        Self(NodeId(id))
    }
}

/// Makes control files that know nothing of a log yet.
struct Empty;

impl StoreBuilder<TypeConfig, Log, Machine> for Empty {
    async fn build(&self) -> Result<((), Log, Machine), StorageError> {
        let founding = Founding {
            node_id: NODE_ID,
            ring_size: RingSize::DEFAULT,
            name: "quoit@test".into(),
            addresses: Addresses::default(),
            versions: VersionRange::CURRENT,
        };
        let disk = Arc::new(FaultyDisk::new(1));
        let file = Arc::new(ControlFile::open(disk, &founding).unwrap());
        file.give_up(ClusterId([9; 16])).unwrap();
        let defaults = Arc::new(BucketProps::untyped());
        let (name, ring_size) = (founding.name, founding.ring_size);
        let state = State::new(NODE_ID, name, ClusterId([9; 16]), ring_size, defaults, &[]);
        let published = Arc::new(Published::new(state, 0, ControlLink::default()));
        Ok(((), Log { file: Arc::clone(&file) }, Machine::new(file, published)))
    }
}

#[test]
fn log_and_state_are_what_the_library_expects() {
    Suite::test_all(Empty).unwrap();
}
