//! The test suite of `openraft` for storages.

use super::*;
use crate::Addresses;
use crate::ClusterId;
use crate::control::file::{ControlFile, Founding};
use crate::control::link::ControlLink;
use crate::control::log::Log;
use crate::control::machine::{Machine, Published};
use crate::control::types::{LogId, RaftId, StorageError, TypeConfig};
use crate::state::State;
use openraft::CommittedLeaderId;
use openraft::storage::RaftLogStorage;
use openraft::testing::{StoreBuilder, Suite};
use quoit_seam::FaultyDisk;
use quoit_wire::internode::VersionRange;
use std::future::ready;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

impl From<u64> for RaftId {
    fn from(number: u64) -> Self {
        let mut id = [0; 16];
        id[8..].copy_from_slice(&number.to_be_bytes());
        Self(NodeId(id))
    }
}

/// Creates control files without a log.
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
        Ok((
            (),
            Log { file: Arc::clone(&file), applied_index: None },
            Machine::new(file, published),
        ))
    }
}

#[tokio::test(start_paused = true)]
async fn the_front_of_the_log_is_kept_until_the_snapshot_that_replaces_it_is_on_disk() {
    let ((), Log { file, .. }, _) = Empty.build().await.unwrap();
    let (applied, applied_index) = watch::channel(4);
    let mut log = Log { file: Arc::clone(&file), applied_index: Some(applied_index) };
    let entry = |index| LogId { leader_id: CommittedLeaderId::new(1, RaftId::from(1)), index };

    {
        let mut purging = pin!(log.purge(entry(5)));
        let is_done = tokio::select! {
            biased;
            _ = &mut purging => true,
            () = ready(()) => false,
        };
        assert!(!is_done);
        assert_eq!(file.purged().unwrap(), None, "a loss of power must not take the log alone");
        applied.send_replace(5);
        purging.await.unwrap();
    }
    assert_eq!(file.purged().unwrap(), Some(entry(5)));

    let began = Instant::now();
    let fault = log.purge(entry(6)).await.unwrap_err();
    assert!(fault.to_string().contains("up to entry 6 was not written"), "{fault}");
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!(file.purged().unwrap(), Some(entry(5)));
}

#[test]
fn log_and_state_are_what_the_library_expects() {
    Suite::test_all(Empty).unwrap();
}
