//! Checks that the copies of data types can be merged. Readers, repairs and exchanges require that a merge
//! has seen all events that either copy has seen, even if events in between are missing.

use crate::data_types::Record;
use crate::run_context::RunContext;
use crate::store_snapshot::StoreSnapshot;
use crate::violation::{Violation, ViolationKind};
use quoit_model::object::Object;

/// Merges the copies of each record on any two nodes, in both orders.
pub(super) fn check_merges(
    run_context: &RunContext,
    snapshot: &StoreSnapshot,
) -> Result<(), Violation> {
    for record in Record::all() {
        let all = snapshot.stores.iter().zip(&snapshot.contents);
        let copies: Vec<_> = all
            .filter_map(|((place, _), contents)| Some((place, contents.data_types.get(&record)?)))
            .collect();
        for (place, one) in &copies {
            for (other_place, other) in &copies {
                if is_merged_whole(one, other, Object::merge) == Some(false) {
                    let text = format!(
                        "at {} ms, d{}: the copy of n{} merged with that of n{} lacks events of one of them",
                        run_context.time.now_us() / 1_000,
                        record.0,
                        *place + 1,
                        *other_place + 1
                    );
                    return Err(Violation::new(ViolationKind::Lost, text));
                }
            }
        }
    }
    Ok(())
}

/// True if the merge of two copies has seen all events of both. `None` if one of them has no state, or has it
/// in pages.
fn is_merged_whole(
    one: &Object,
    other: &Object,
    merge: impl Fn(&Object, &Object) -> Object,
) -> Option<bool> {
    let clock = |object: &Object| match object.data_type() {
        Ok(Some(_)) => object.causal_clock().ok(),
        Ok(None) | Err(_) => None,
    };
    let (clock_of_one, clock_of_other) = (clock(one)?, clock(other)?);
    if clock_of_one == clock_of_other {
        return Some(true);
    }
    let merged = merge(one, other).causal_clock().ok()?;
    Some(merged.covers(&clock_of_one) && merged.covers(&clock_of_other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_model::clock::Actor;
    use quoit_model::data_type::{EventOrigin, Operation};

    /// A counter that an actor has increased once.
    fn counted(actor: &[u8]) -> Object {
        let actor = Actor(actor.into());
        let source = EventOrigin {
            actor: &actor,
            time_secs: 1,
            now_us: 1,
            hll_precision: Default::default(),
        };
        let operation = Operation::Counter(1);
        Object::update_data_type(None, &operation, None, source, None).expect("it counts")
    }

    #[test]
    fn copies_with_different_events_are_merged_whole() {
        let (one, other) = (counted(b"one"), counted(b"other"));
        assert_eq!(is_merged_whole(&one, &other, Object::merge), Some(true));
        assert_eq!(is_merged_whole(&one, &Object::default(), Object::merge), None);
    }

    #[test]
    fn a_merge_that_drops_the_events_of_either_copy_is_not_whole() {
        let (one, other) = (counted(b"one"), counted(b"other"));
        let keeps_first = |first: &Object, _: &Object| first.clone();
        let keeps_second = |_: &Object, second: &Object| second.clone();
        assert_eq!(is_merged_whole(&one, &other, keeps_first), Some(false));
        assert_eq!(is_merged_whole(&one, &other, keeps_second), Some(false));
    }
}
