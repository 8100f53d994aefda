//! Tests of large sets that are changed while they are read.

use super::*;
use crate::placement::PlacedKey;
use quoit_model::data_type::pages::{ItemHash, ShownItem};

/// Changes the set while it is shown: removes an element that was shown, and replaces one that was not
/// by another.
struct ConcurrentWriter<'r> {
    records: &'r Records,
    at: &'r RecordAt<'r>,
    shown: Vec<Bytes>,
    begun_count: usize,
}

impl Items for ConcurrentWriter<'_> {
    fn begin(&mut self, _: ItemsOutline) {
        self.shown.clear();
        self.begun_count += 1;
    }

    fn item(&mut self, item: ShownItem<'_>) {
        let ShownItem::Element(element) = item else { panic!("{item:?}") };
        self.shown.push(Bytes::copy_from_slice(element));
        if self.begun_count > 1 || self.shown.len() != 1_000 {
            return;
        }
        let change = |element: &Bytes, adds: bool| {
            let change = if adds { SetChange::Add } else { SetChange::Remove };
            assert!(update(self.records, self.at, &Operation::Set(vec![change(element.clone())])));
        };
        // Elements with the highest hashes are in pages that are still to be read.
        let last = |numbers: std::ops::Range<u16>| {
            numbers.map(super::element).max_by_key(|element| ItemHash::of_element(element))
        };
        change(&self.shown[0], false);
        change(&last(0..2_000).expect("an element"), false);
        change(&last(2_000..4_000).expect("an element"), true);
    }
}

/// The changes keep the number of elements and of bytes in the pages still to be read, so that only the
/// digest of the root shows that they do not belong together.
#[test]
fn a_set_is_shown_as_it_was_at_one_moment() {
    let disk = Arc::new(FaultyDisk::new(1));
    let engine = open(&disk);
    let records = Records::new(engine, 1);
    let name = name("set");
    let place = PlacedKey::new(&name, PARTITION).expect("a good name");
    let at = place.at();
    assert!(update(&records, &at, &changes(0..2_000, true)));
    let mut meddler =
        ConcurrentWriter { records: &records, at: &at, shown: Vec::new(), begun_count: 0 };
    let digest = records.each_item(&at, None, &mut meddler).expect("a good disk");
    let record = found(&records, &at).expect("a record");
    assert_eq!(digest, Some(record.meta.digest));
    assert_eq!(meddler.shown.into_iter().collect::<BTreeSet<_>>(), elements(&record));
    assert_eq!(meddler.begun_count, 2);
}
