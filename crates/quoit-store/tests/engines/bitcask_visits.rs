//! Walks through records that change while they are shown.

use crate::support::expired::put_expiring_overwrite;
use crate::support::{Faulty, Name, put};
use quoit_model::key::KeyRef;
use quoit_seam::Clock;
use quoit_store::engine::{
    KeyRange, RecordAt, RecordMeta, RecordPlace, RecordVisitor, RecordWalk, ScanAccess,
    VisitedRecord,
};

/// Repairs a damaged record when the walk shows another one, and lets it expire at the same time.
struct RepairingVisitor<'s> {
    store: &'s Faulty,
    repair: &'s dyn Fn(),
    /// Names of the records that were shown, each with `true` if it was missing.
    shown: Vec<(Vec<u8>, bool)>,
}

impl RecordVisitor for RepairingVisitor<'_> {
    fn wants(&mut self, encoded: &[u8], _: &RecordMeta) -> Option<RecordPlace> {
        let key = KeyRef::decode(encoded).unwrap().key;
        let name = Name::new(std::str::from_utf8(key).unwrap());
        let RecordAt { identity, partition, .. } = name.at();
        Some(RecordPlace { identity, partition })
    }

    fn visit(&mut self, encoded: &[u8], record: VisitedRecord<'_>) {
        if self.shown.is_empty() {
            (self.repair)();
            self.store.clock.advance_us(60_000_000);
        }
        let key = KeyRef::decode(encoded).unwrap().key.to_vec();
        self.shown.push((key, matches!(record, VisitedRecord::Missing)));
    }
}

#[test]
fn a_record_that_is_read_again_after_its_expiry_is_missing() {
    let mut store = Faulty::new(1 << 20);
    let expires_at_secs = store.clock.unix_secs() as u32 + 30;
    put_expiring_overwrite(store.engine(), "expiring", expires_at_secs);
    put(store.engine(), "lasting", b"value");
    store.close();
    let segment = store.segments().remove(0);
    let disk = store.disk.clone();
    let flip = || disk.flip_bit(&segment, 64 + 80, 1);
    flip();
    store.open().unwrap();
    let mut visitor = RepairingVisitor { store: &store, repair: &flip, shown: Vec::new() };
    let walk = RecordWalk { range: KeyRange::All, after: None, count_max: 10, bytes_max: u64::MAX };
    store.engine().visit_records(walk, &mut visitor).unwrap();
    assert_eq!(visitor.shown, [(b"lasting".to_vec(), false), (b"expiring".to_vec(), true)]);
}
