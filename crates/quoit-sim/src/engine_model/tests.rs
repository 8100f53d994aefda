use super::*;
use bytes::Bytes;
use quoit_store::engine::Record;
use quoit_store::index::Tag;

fn name(text: &str) -> ModelName {
    let encoded = text.as_bytes().to_vec();
    ModelName { partition: Partition(0), identity: Identity(1), encoded }
}

fn version(number: u64) -> Version {
    Version::of(&meta(number), b"")
}

fn meta(number: u64) -> RecordMeta {
    RecordMeta { digest: number, ..RecordMeta::default() }
}

/// A whole page that shows these records, and continues at `next`.
fn page(records: &[(&'static str, u64)], next: Option<u64>) -> RecordPage {
    let entries = records.iter().map(|(name, number)| {
        let record = Record { meta: meta(*number), value: Bytes::new() };
        (Bytes::from_static(name.as_bytes()), record)
    });
    RecordPage { entries: entries.collect(), damaged: Vec::new(), next: next.map(Identity) }
}

/// A model of an engine that has made these writes one after the other, of which the first
/// `durable_count` are durable.
fn model(writes: &[(&str, Option<u64>)], durable_count: u64) -> EngineModel {
    let mut model = EngineModel::default();
    for (ticket, (text, number)) in (1..).zip(writes) {
        model.wrote(Ticket(ticket), [(name(text), number.map(version))].into());
    }
    model.is_durable(Ticket(durable_count));
    model
}

fn is_sound(mut model: EngineModel, found: &[(&str, Option<u64>)]) -> bool {
    let found = found.iter().map(|(text, number)| (name(text), number.map(version)));
    model.restarted(&found.collect());
    model.take_violation().is_none()
}

const WRITES: [(&str, Option<u64>); 4] =
    [("a", Some(1)), ("b", Some(2)), ("a", Some(3)), ("b", None)];

#[test]
fn each_state_after_the_last_durable_write_is_sound() {
    let states: [[Option<u64>; 2]; 5] =
        [[None, None], [Some(1), None], [Some(1), Some(2)], [Some(3), Some(2)], [Some(3), None]];
    for durable_count in 0..5 {
        for (count, [a, b]) in states.iter().enumerate() {
            let sound = is_sound(model(&WRITES, durable_count), &[("a", *a), ("b", *b)]);
            assert_eq!(sound, count as u64 >= durable_count, "{durable_count} {count}");
        }
    }
}

#[test]
fn a_write_without_one_before_it_is_not_sound() {
    assert!(!is_sound(model(&WRITES, 0), &[("a", None), ("b", Some(2))]));
    assert!(!is_sound(model(&WRITES, 0), &[("a", Some(2)), ("b", Some(2))]));
}

#[test]
fn a_part_of_a_batch_is_not_sound() {
    let both = [(name("a"), Some(version(1))), (name("b"), Some(version(2)))];
    let model = || {
        let mut model = EngineModel::default();
        model.wrote(Ticket(1), both.clone().into());
        model
    };
    assert!(is_sound(model(), &[("a", None), ("b", None)]));
    assert!(is_sound(model(), &[("a", Some(1)), ("b", Some(2))]));
    assert!(!is_sound(model(), &[("a", Some(1)), ("b", None)]));
}

#[test]
fn reads_show_the_last_write_unless_it_failed_or_expires() {
    let mut model = model(&WRITES, 0);
    model.check_read(&name("a"), Some(version(3)));
    model.check_read(&name("b"), None);
    model.check_read(&name("c"), None);
    assert_eq!(model.take_violation(), None);
    model.check_read(&name("a"), Some(version(1)));
    assert!(model.take_violation().is_some());
    model.failed([name("a")]);
    model.check_read(&name("a"), Some(version(1)));
    let expires = Version { expires: true, ..version(4) };
    model.wrote(Ticket(9), [(name("d"), Some(expires))].into());
    model.check_read(&name("d"), None);
    assert_eq!(model.take_violation(), None);
}

#[test]
fn heads_show_the_last_write_of_records_that_are_there() {
    let mut model = model(&WRITES, 0);
    model.check_head(&name("a"), Some(&meta(3)));
    // Another record may have the same tag as one that is missing.
    model.check_head(&name("b"), Some(&meta(7)));
    assert_eq!(model.take_violation(), None);
    model.check_head(&name("a"), Some(&meta(1)));
    assert!(model.take_violation().is_some());
    model.check_head(&name("a"), None);
    assert!(model.take_violation().is_some());
    model.failed([name("a")]);
    model.check_head(&name("a"), None);
    assert_eq!(model.take_violation(), None);
}

#[test]
fn a_page_of_a_fold_shows_the_records_of_its_range_and_no_others() {
    let mut model = EngineModel::default();
    let at = |identity, text| ModelName { identity: Identity(identity), ..name(text) };
    let other = ModelName { partition: Partition(1), ..at(2, "other") };
    let piece = Version::of(&RecordMeta::PIECE, b"");
    let written = [(at(1, "a"), 1), (at(2, "b"), 2), (at(5, "c"), 3), (at(6, "d"), 4), (other, 5)];
    let written = written.map(|(name, number)| (name, Some(version(number))));
    model.wrote(Ticket(1), written.into());
    model.wrote(Ticket(2), [(at(3, "piece"), Some(piece))].into());
    model.failed([at(6, "d"), at(7, "e")]);
    let mut is_right = |from, page: &RecordPage| {
        model.check_fold(Partition(0), Identity(from), page);
        model.take_violation().is_none()
    };
    assert!(is_right(0, &page(&[("a", 1), ("b", 2), ("c", 3)], None)));
    assert!(is_right(0, &page(&[("a", 1), ("b", 2)], Some(5))));
    assert!(is_right(2, &page(&[("b", 2)], Some(4))));
    // Writes that failed may be there or not.
    assert!(is_right(5, &page(&[("c", 3), ("d", 9), ("e", 9)], None)));
    assert!(!is_right(0, &page(&[("a", 1), ("c", 3)], None)));
    assert!(!is_right(0, &page(&[("a", 1), ("b", 2)], None)));
    assert!(!is_right(0, &page(&[("a", 1), ("b", 1)], Some(5))));
    assert!(!is_right(0, &page(&[("b", 2), ("a", 1)], Some(5))));
    assert!(!is_right(0, &page(&[("a", 1), ("b", 2), ("c", 3)], Some(5))));
    assert!(!is_right(2, &page(&[("b", 2), ("piece", 0)], Some(4))));
    let damaged = RecordPage { damaged: vec![Tag::of(Identity(2))], ..page(&[("a", 1)], Some(5)) };
    assert!(is_right(0, &damaged));
}

#[test]
fn a_process_goes_on_from_what_it_has_found() {
    let mut model = model(&WRITES, 1);
    let found = [(name("a"), Some(version(1))), (name("b"), Some(version(2)))];
    model.restarted(&found.clone().into());
    model.check_read(&name("a"), Some(version(1)));
    // The second write may still be lost with the power, but not the first.
    model.restarted(&[(name("a"), Some(version(1))), (name("b"), None)].into());
    assert_eq!(model.take_violation(), None);
    model.all_durable();
    model.restarted(&found.into());
    assert!(model.take_violation().is_some());
}

#[test]
fn a_dropped_partition_has_no_records() {
    let mut model = model(&WRITES, 4);
    model.dropped(Ticket(5), Partition(0));
    model.check_read(&name("a"), None);
    assert_eq!(model.take_violation(), None);
    model.is_durable(Ticket(5));
    assert!(!is_sound(model, &[("a", Some(3))]));
}

#[test]
fn a_void_model_says_nothing() {
    let mut model = model(&WRITES, 4);
    model.void();
    model.check_read(&name("a"), None);
    assert!(is_sound(model, &[("a", None)]));
}
