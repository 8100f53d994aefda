//! Changes that arrive between the comparison of two copies and the merge.

use super::*;
use crate::data_type::FieldKind;

/// Nothing is merged after an outdated comparison: an event that both copies have seen by now may
/// be undone on the other side.
#[test]
fn a_change_that_comes_late_has_copies_compared_again() {
    let set = |change: fn(Bytes) -> SetChange| Operation::Set(vec![change("late".into())]);
    let mut copies = Copies::of(&Operation::Set(many(300).map(SetChange::Add).collect()));
    copies.update(0, &set(SetChange::Add), None);
    copies.update(0, &set(SetChange::Remove), None);
    copies.begin(1, 0);
    copies.go_on(0);
    copies.go_on(0);
    // The copies have the same items. Now one of them receives the addition, but not its removal.
    copies.join(1, 1);
    copies.go_on(0);
    assert_eq!(copies.merged_count, 0);
    copies.check();
    for _ in 0..2 {
        copies.begin(1, 0);
        (0..3).for_each(|_| copies.go_on(0));
    }
    assert_eq!(copies.merged_count, 1);
    copies.check();
    let is_same = |kept: &PagedObject| kept.object().digest();
    assert_eq!(
        copies.kept[1].paged.as_ref().map(is_same),
        copies.kept[0].paged.as_ref().map(is_same)
    );
}

/// A map with the given field, and so many others that it is in pages.
fn map_of(field: FieldUpdate) -> Operation {
    let updates = many(100).map(|name| FieldUpdate::new(name, FieldOperation::Counter(1)));
    let updates = updates.chain([field]).collect();
    Operation::Map(MapOperation { updates, ..MapOperation::default() })
}

/// An operation on a map inside `depth` nested maps named "m".
fn at_depth(depth: usize, mut map: MapOperation) -> Operation {
    for _ in 0..depth {
        let updates = vec![FieldUpdate::new("m", FieldOperation::Map(map))];
        map = MapOperation { updates, ..MapOperation::default() };
    }
    Operation::Map(map)
}

fn tags_with(depth: usize, elements: impl Iterator<Item = Bytes>) -> Operation {
    let changes = elements.map(SetChange::Add).collect();
    let updates = vec![FieldUpdate::new("tags", FieldOperation::Set(changes))];
    at_depth(depth, MapOperation { updates, ..MapOperation::default() })
}

/// A field was removed, together with a change that it has not seen yet and therefore defers. When
/// the change arrives, its effects must not stay outside the merged ranges; the copies are compared
/// again. `removed_at` is the depth of the removed field, `depth` that of the set.
fn check_late_change_of_removed(depth: usize, removed_at: usize) {
    let first = map_of(FieldUpdate::new("other", FieldOperation::Flag(true)));
    let mut copies = Copies::of(&first);
    // The client that removes the field has not read these elements.
    copies.update(2, &tags_with(depth, many(500)), None);
    copies.join(1, 1);
    copies.update(0, &tags_with(depth, ["late".into()].into_iter()), None);
    let (name, kind) =
        if removed_at == depth { ("tags", FieldKind::Set) } else { ("m", FieldKind::Map) };
    let removes = vec![FieldName::new(name, kind)];
    let removal = at_depth(removed_at, MapOperation { removes, ..MapOperation::default() });
    copies.update(1, &removal, Some(0));
    copies.begin(2, 1);
    copies.go_on(0);
    copies.go_on(0);
    assert!(copies.repairs[0].compared.is_some(), "all but the field's own state is the same");
    copies.join(2, 2);
    copies.go_on(0);
    copies.check();
    copies.begin(2, 1);
    (0..3).for_each(|_| copies.go_on(0));
    assert_eq!(copies.merged_count, 1);
    copies.check();
    copies.begin(1, 2);
    (0..3).for_each(|_| copies.go_on(0));
    copies.check();
    assert_eq!(copies.kept[1].object().digest(), copies.kept[2].object().digest());
}

#[test]
fn what_comes_late_to_a_field_that_was_removed_with_it_has_copies_compared_again() {
    check_late_change_of_removed(0, 0);
}

#[test]
fn what_comes_late_to_a_field_inside_of_one_that_was_removed_has_copies_compared_again() {
    check_late_change_of_removed(1, 1);
    check_late_change_of_removed(1, 0);
    check_late_change_of_removed(2, 0);
}
