use super::*;
use crate::placement::PlacedKey;
use quoit_model::clock::Actor;
use quoit_model::data_type::{Operation, SetChange, Value};
use quoit_model::hash::{Partition, RingSize};
use quoit_model::hll::Precision;
use quoit_model::key::BucketRef;
use quoit_seam::ManualClock;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use std::sync::Arc;

const OPTIONS: ChangeOptions = ChangeOptions {
    before: BeforeImage::Read,
    is_large: false,
    needs_items: false,
    replicates: true,
    returns_object: false,
    rule: MergeRule::Causal,
    n_val_class: 3,
};

/// Adds elements to a set.
struct Adding {
    operation: Operation,
}

impl Adding {
    fn of(numbers: std::ops::Range<u16>) -> Self {
        let element = |number: u16| SetChange::Add(Bytes::from(format!("element {number:05}")));
        Self { operation: Operation::Set(numbers.map(element).collect()) }
    }
}

impl ChangeSteps for Adding {
    fn absent(&self, _: IoMode) -> Result<Option<RecordState<'static>>, RequestError> {
        Ok(Some(RecordState::Nothing))
    }

    fn decide(&self, _: &RecordState<'_>) -> Result<Option<DecidedChange<'_>>, RequestError> {
        let actor = Actor(b"incarnation"[..].into());
        let hll_precision = Precision::default();
        let origin = OperationOrigin { actor, time_secs: 1, now_us: 1, hll_precision };
        let operation = &self.operation;
        let update = DataTypeUpdate { operation, context: None, origin, expires_at_secs: None };
        Ok(Some(DecidedChange::update(update)))
    }

    fn merged(&self, _: RecordState<'_>, _: Cow<'_, Object>, _: MergeRule) -> Option<Object> {
        None
    }

    fn check_siblings(&self, _: &Object) -> Result<(), RequestError> {
        Ok(())
    }

    fn check_size(&self, _: &Object, _: u64) -> Result<(), RequestError> {
        Ok(())
    }

    fn keeps_tombstone(&self, _: u64) -> bool {
        true
    }

    fn is_held(&self, _: usize) -> bool {
        false
    }

    fn monotonic_us(&self) -> u64 {
        0
    }

    fn note_update(&self, _: &Operation, _: u64, _: &Object) {}
}

fn records() -> Records {
    let ring_size = RingSize::new(8).expect("8 is a ring size");
    let clock = Arc::new(ManualClock::at(1));
    Records::new(Arc::new(MemoryEngine::new(MemorySettings::default(), ring_size, clock)), 1)
}

fn change(records: &Records, at: &RecordAt<'_>, access: IoMode, steps: &Adding) -> Option<Changed> {
    records.change(at, &OPTIONS, access, steps).expect("memory does not fail")
}

/// Calls a function with records among which is a set that is too large for one value, and with its place.
fn with_large_set(look: impl FnOnce(&Records, &RecordAt<'_>)) {
    let records = records();
    let name = BucketRef { bucket_type: b"sets", bucket: b"bucket" }.key(b"key").encoded();
    let place = PlacedKey::new(&name, Partition(3)).expect("it is a name");
    let steps = Adding::of(0..300);
    assert!(
        change(&records, &place.at(), IoMode::NoWait, &steps).is_none(),
        "it has to be divided"
    );
    let made = change(&records, &place.at(), IoMode::Wait, &steps).expect("it may wait");
    assert!(made.ticket.is_some());
    look(&records, &place.at());
}

#[test]
fn an_operation_in_pages_has_no_result_of_a_run_that_found_the_record_whole() {
    with_large_set(|records, at| {
        let object = Object::default();
        let sent = SentChange::Object(Replicated::new(&object, MergeRule::Causal, 3));
        let results =
            ChangeResults { object: Some(object), sent: Some(sent), ..ChangeResults::default() };
        let (options, access, steps) = (&OPTIONS, IoMode::Wait, &Adding::of(300..301));
        let mut run = ChangeRun { records, at, options, access, steps, results };
        let applied = run.change_by_pages().expect("memory does not fail");
        assert!(matches!(applied, Some(Applied::Written(_))), "{applied:?}");
        assert!(run.results.object.is_none(), "it is of a change that was not made");
        assert!(matches!(run.results.sent, Some(SentChange::Delta(_))), "{:?}", run.results.sent);
    });
}

#[test]
fn a_change_that_needs_all_items_of_a_large_set_is_made_to_the_whole() {
    with_large_set(|records, at| {
        let (options, steps) =
            (ChangeOptions { needs_items: true, ..OPTIONS }, Adding::of(300..301));
        let changed = records.change(at, &options, IoMode::Wait, &steps);
        let changed = changed.expect("memory does not fail").expect("it may wait");
        let object = changed.object.expect("it was whole");
        let Ok(Some(Value::Set(elements))) =
            object.data_type().map(|state| state.map(|state| state.value()))
        else {
            panic!("it is a set");
        };
        assert_eq!(elements.len(), 301);
        assert!(matches!(changed.sent, Some(SentChange::Object(_))), "{:?}", changed.sent);
        let pages = records.is_in_pages(at, IoMode::Wait).expect("memory does not fail");
        assert_eq!(pages, Some(true), "it is large as before");
    });
}
