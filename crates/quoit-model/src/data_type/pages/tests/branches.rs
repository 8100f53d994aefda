//! Large sets and maps in fields.

use super::*;
use crate::data_type::content::MapField;
use crate::data_type::object::RecordTimes;
use crate::data_type::pages::object::replace_root;
use crate::data_type::{Answer, Query, Question};
use crate::object::Object;

/// A map with one change inside `depth` nested maps named "m".
fn inside(depth: usize, update: FieldUpdate) -> Operation {
    let mut map = MapOperation { updates: vec![update], ..MapOperation::default() };
    for _ in 0..depth {
        let update = FieldUpdate::new("m", FieldOperation::Map(map));
        map = MapOperation { updates: vec![update], ..MapOperation::default() };
    }
    Operation::Map(map)
}

fn add_in(depth: usize, elements: impl Iterator<Item = Bytes>) -> Operation {
    let changes = elements.map(SetChange::Add).collect();
    inside(depth, FieldUpdate::new("tags", FieldOperation::Set(changes)))
}

fn numbered(numbers: std::ops::Range<u32>) -> impl Iterator<Item = Bytes> {
    numbers.map(|number| format!("element {number:09}").into())
}

fn filled(depth: usize, count: u32) -> Paged {
    let one = actor(b"one");
    let mut map = Paged::empty(Datatype::Map);
    for from in (0..count).step_by(1_000) {
        let some = add_in(depth, numbered(from..count.min(from + 1_000)));
        map.apply(&some, None, coordinator(&one)).unwrap();
    }
    map
}

#[test]
fn an_operation_on_a_large_set_in_a_map_touches_few_pages_however_deep_it_is() {
    let one = actor(b"one");
    for depth in [0, 1, 3] {
        let mut map = filled(depth, 10_000);
        for number in 0..300 {
            let operation = add_in(depth, numbered(20_000 + number..20_001 + number));
            map.apply(&operation, None, coordinator(&one)).unwrap();
            let Stored { read_count, written_bytes, .. } = map.stored;
            // The page of the field, the page of the element, and a page that is split.
            assert!(read_count <= 3, "{read_count} pages read");
            assert!(written_bytes < 7_000, "{written_bytes} bytes written");
        }
        assert_eq!(map.root.item_count(), 1);
        map.check();
    }
}

/// Each level has so many fields that it is in pages itself.
#[test]
fn an_operation_reads_one_page_of_each_large_map_around() {
    let one = actor(b"one");
    let mut map = filled(2, 5_000);
    for depth in 0..3 {
        for number in 0..300 {
            let count = FieldUpdate::new(format!("count {number}"), FieldOperation::Counter(1));
            map.apply(&inside(depth, count), None, coordinator(&one)).unwrap();
        }
    }
    for number in 0..300 {
        let operation = add_in(2, numbered(20_000 + number..20_001 + number));
        map.apply(&operation, None, coordinator(&one)).unwrap();
        let Stored { read_count, written_bytes, .. } = map.stored;
        assert!(read_count <= 5, "{read_count} pages read");
        assert!(written_bytes < 4 * 3_500, "{written_bytes} bytes written");
    }
    map.check();
}

#[test]
fn a_large_field_goes_with_all_its_pages() {
    let one = actor(b"one");
    for depth in [0, 2] {
        let mut map = filled(depth, 3_000);
        assert!(map.root.has_branches() && map.stored.pages.len() > 30);
        let tags = FieldName::new("tags", FieldKind::Set);
        let mut removal = MapOperation { removes: vec![tags], ..MapOperation::default() };
        for _ in 0..depth {
            let update = FieldUpdate::new("m", FieldOperation::Map(removal));
            removal = MapOperation { updates: vec![update], ..MapOperation::default() };
        }
        map.apply(&Operation::Map(removal), None, coordinator(&one)).unwrap();
        map.check();
        assert!(!map.root.has_branches() && map.stored.pages.len() <= 1);
    }
}

/// A remove undoes what it has seen. Concurrent additions stay, and so does their field.
#[test]
fn a_large_field_that_is_updated_while_it_is_removed_holds_what_was_added() {
    let (one, two) = (actor(b"one"), actor(b"two"));
    let mut map = filled(0, 3_000);
    let context = map.clock.clone();
    map.apply(&add_in(0, numbered(9_000..9_002)), None, coordinator(&two)).unwrap();
    let tags = FieldName::new("tags", FieldKind::Set);
    let removal = MapOperation { removes: vec![tags.clone()], ..MapOperation::default() };
    map.apply(&Operation::Map(removal), Some(&context), coordinator(&one)).unwrap();
    map.check();
    let left = Value::Set(numbered(9_000..9_002).collect());
    assert_eq!(map.whole().value(), Value::Map(vec![(tags, left)]));
    assert!(!map.root.has_branches());
}

/// A record in pages, and the same record as a whole state.
struct Both {
    paged: Paged,
    whole: State,
    clock: CausalClock,
}

impl Both {
    fn empty() -> Self {
        let (whole, clock) = (State::empty(Datatype::Map), CausalClock::default());
        Self { paged: Paged::empty(Datatype::Map), whole, clock }
    }

    /// Applies an operation to both.
    fn apply(&mut self, operation: &Operation) {
        let one = actor(b"one");
        let delta = self.whole.apply(&mut self.clock, operation, None, coordinator(&one)).unwrap();
        assert_eq!(self.paged.apply(operation, None, coordinator(&one)), Ok(delta));
        assert_eq!(self.paged.root.digest(), self.whole.digest());
    }

    /// Checks that both are equal; returns true if there are branches.
    fn has_branches(&mut self) -> bool {
        self.paged.check();
        assert_eq!((&self.paged.whole(), &self.paged.clock), (&self.whole, &self.clock));
        self.paged.root.has_branches()
    }
}

#[test]
fn fields_grow_into_branches_and_shrink_out_of_them() {
    for depth in [0, 1, 3] {
        let mut both = Both::empty();
        both.apply(&add_in(depth, numbered(0..1_000)));
        both.apply(&add_in(depth, numbered(1_000..2_000)));
        assert!(both.has_branches());
        for from in (0..1_990).step_by(10) {
            let changes = numbered(from..from + 10).map(SetChange::Remove).collect();
            let update = FieldUpdate::new("tags", FieldOperation::Set(changes));
            both.apply(&inside(depth, update));
            if from % 400 == 0 {
                both.has_branches();
            }
        }
        assert!(!both.has_branches());
        assert_eq!(both.paged.stored.pages.len(), 1);
        both.apply(&add_in(depth, numbered(0..500)));
        assert!(both.has_branches());
    }
}

/// Each query of a large set in a map reads one page of each enclosing large map, and of the set
/// only the pages that it needs.
#[test]
fn parts_of_a_large_field_are_read_without_the_rest() {
    for depth in [0, 2] {
        let mut map = filled(depth, 10_000);
        let mut object = Object::default();
        let life = RecordTimes::default();
        replace_root(&mut object, &map.root, &map.clock, life);
        let paged = PagedObject::from_parts(1, object, map.root.clone());
        let mut path = vec![FieldName::new("m", FieldKind::Map); depth];
        path.push(FieldName::new("tags", FieldKind::Set));
        let mut ask = |query| {
            map.stored.read_count = 0;
            let question = Question { path: path.clone(), query };
            let part = paged.part(&path, question.wanted(), &mut map.stored).unwrap().unwrap();
            (part.answer(&question).unwrap(), map.stored.read_count)
        };
        assert_eq!(ask(Query::Size), (Answer::Size(10_000), 1));
        for (element, is_in) in [(numbered(7..8).next().unwrap(), true), ("x".into(), false)] {
            assert_eq!(ask(Query::Contains(element)), (Answer::Contains(is_in), 2));
        }
        let (mut found, mut from) = (BTreeSet::new(), Some(0));
        while let Some(place) = from {
            let (answer, read_count) = ask(Query::Page { from: place, count: 20 });
            assert!(read_count <= 4, "{read_count} pages");
            let Answer::Page { value: Value::Set(elements), next } = answer else {
                panic!("{answer:?}")
            };
            assert!(elements.len() <= 20);
            let before = found.len();
            found.extend(elements.iter().cloned());
            assert_eq!(found.len(), before + elements.len(), "each comes once");
            from = next;
        }
        assert_eq!(found, numbered(0..10_000).collect());
    }
}

/// Pages that were written before branches existed hold large fields as they are.
#[test]
fn a_large_field_in_a_page_becomes_a_branch_when_it_is_written() {
    let one = actor(b"one");
    let mut state = State::empty(Datatype::Map);
    let mut clock = CausalClock::default();
    state.apply(&mut clock, &add_in(1, numbered(0..2_000)), None, coordinator(&one)).unwrap();
    let mut page = Vec::new();
    let content = state.record.content.clone();
    State::from_record(Datatype::Map, MapField::empty(content)).encode_into(&mut page);
    let mut shell = state.clone();
    shell.record.content = Content::of_record(Datatype::Map);
    let mut root = vec![ROOT_FORMAT_1, 1, 1];
    crate::cursor::put_varint(&mut root, page.len() as u64);
    root.extend_from_slice(&state.record.content.digest(0).to_le_bytes());
    shell.encode_into(&mut root);
    let mut stored = Stored::default();
    stored.write(PageName { branch: 0, first: ItemHash(0) }, Some(&page)).unwrap();
    let root = Root::decode(&root.into()).unwrap();
    let paged = Paged { root, clock: clock.clone(), stored };
    let mut both = Both { paged, whole: state, clock };
    both.apply(&add_in(1, numbered(5_000..5_001)));
    assert!(both.has_branches());
    let stored = &both.paged.stored;
    assert_eq!(stored.pages.values().filter(|page| page.len() > 5_000).count(), 0);
    both.apply(&add_in(1, numbered(5_001..5_002)));
    let written_bytes = both.paged.stored.written_bytes;
    assert!(written_bytes < 7_000, "{written_bytes} bytes");
    assert!(both.has_branches());
}

/// A branch that refers to itself ends in an error, not in a stack overflow.
#[test]
fn a_branch_in_itself_is_refused() {
    let one = actor(b"one");
    let mut map = Paged::empty(Datatype::Map);
    for number in 0..200 {
        let count = FieldUpdate::new(format!("count {number}"), FieldOperation::Counter(1));
        map.apply(&inside(1, count), None, coordinator(&one)).unwrap();
    }
    let trunk = PageName { branch: 0, first: ItemHash(0) };
    let page = State::decode_page(&map.stored.pages[&trunk]).unwrap();
    let Content::Map(fields) = &page.record.content else { panic!("{page:?}") };
    let Content::Branch(branch) = &fields.values().next().unwrap().content else {
        panic!("{page:?}")
    };
    let mut itself = (**branch).clone();
    itself.page_bytes = u64::from(u32::MAX);
    let first = PageName { branch: itself.number, first: ItemHash(0) };
    let inner = State::decode_page(&map.stored.pages[&first]).unwrap();
    let mut fields = inner.record.content.clone();
    if let Content::Map(fields) = &mut fields {
        let name = FieldName::new("m", FieldKind::Map);
        fields.insert(name, MapField::empty(Content::Branch(Box::new(itself))));
    }
    let mut encoded = Vec::new();
    State::from_record(Datatype::Map, MapField::empty(fields)).encode_into(&mut encoded);
    map.stored.write(first, Some(&encoded)).unwrap();
    assert!(Loaded::read_all(map.root.clone(), &mut map.stored).is_err());
    let mut names = 0;
    map.root.trunk.each_name(1, &mut map.stored, false, &mut |_| names += 1).unwrap();
    assert!(names > 1);
}
