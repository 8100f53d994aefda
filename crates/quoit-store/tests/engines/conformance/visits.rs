//! Walks over records with their values, compared with the model's records.

use bytes::Bytes;
use quoit_store::engine::{
    Engine, KeyRange, Record, RecordMeta, RecordPlace, RecordVisitor, RecordWalk, VisitedRecord,
};
use std::collections::BTreeMap;

/// Visits a model's records, except those whose digest is a multiple of three.
struct ModelVisitor<'m> {
    places: &'m BTreeMap<Bytes, (RecordPlace, Record)>,
    found: Vec<(Bytes, Record)>,
}

const fn is_wanted(meta: &RecordMeta) -> bool {
    !meta.digest.is_multiple_of(3)
}

impl RecordVisitor for ModelVisitor<'_> {
    fn wants(&mut self, encoded: &[u8], meta: &RecordMeta) -> Option<RecordPlace> {
        let (place, record) = &self.places[encoded];
        assert_eq!(record.meta, *meta, "{encoded:?}");
        is_wanted(meta).then_some(*place)
    }

    fn visit(&mut self, encoded: &[u8], record: VisitedRecord<'_>) {
        let VisitedRecord::Found(record) = record else { panic!("{encoded:?} is {record:?}") };
        assert!(record.is_whole, "{encoded:?}");
        self.found.push((Bytes::copy_from_slice(encoded), record.to_record()));
    }
}

/// Checks a walk over a range, in pages of `limit` records, with and without a limit of their bytes.
///
/// # Panics
///
/// If the visited records differ from `records`.
pub fn check(
    engine: &dyn Engine,
    range: KeyRange<'_>,
    limit: usize,
    records: &BTreeMap<Bytes, (RecordPlace, Record)>,
) {
    let wanted = records.iter().filter(|(_, (_, record))| is_wanted(&record.meta));
    let expected: BTreeMap<Bytes, Record> =
        wanted.map(|(encoded, (_, record))| (encoded.clone(), record.clone())).collect();
    for bytes_max in [1, u64::MAX] {
        let mut visitor = ModelVisitor { places: records, found: Vec::new() };
        let mut after: Option<Bytes> = None;
        loop {
            let before = visitor.found.len();
            let walk = RecordWalk { range, after: after.as_deref(), count_max: limit, bytes_max };
            after = engine.visit_records(walk, &mut visitor).unwrap();
            let count = visitor.found.len() - before;
            assert!(count <= limit, "{count} records at once");
            let filled =
                visitor.found[before..].iter().filter(|(_, found)| !found.value.is_empty());
            assert!(bytes_max > 1 || filled.count() <= 1, "more than one filled record at once");
            if after.is_none() {
                break;
            }
        }
        let count = visitor.found.len();
        let found: BTreeMap<Bytes, Record> = visitor.found.into_iter().collect();
        assert_eq!(count, found.len(), "a record is shown once");
        assert_eq!(found, expected, "{range:?}");
    }
}
