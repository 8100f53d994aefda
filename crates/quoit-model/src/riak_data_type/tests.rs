use super::*;
use crate::etf::Term;
use proptest::prelude::*;
use proptest::sample::Index;

fn encoded(data_type: &RiakDataType) -> Bytes {
    let mut out = Vec::new();
    data_type.encode_into(&mut out);
    out.into()
}

fn any_actor() -> impl Strategy<Value = Actor> {
    (0u8..4).prop_map(|number| Actor([number; 12].as_slice().into()))
}

fn any_dot() -> impl Strategy<Value = Dot> {
    (any_actor(), 1u64..5).prop_map(|(actor, counter)| Dot { actor, counter, time_secs: 0 })
}

fn any_dots() -> impl Strategy<Value = Vec<Dot>> {
    prop::collection::btree_map(any_actor(), 1u64..5, 0..4).prop_map(|events| {
        let dot = |(actor, counter)| Dot { actor, counter, time_secs: 0 };
        events.into_iter().map(dot).collect()
    })
}

fn any_clock() -> impl Strategy<Value = VersionVector> {
    any_dots().prop_map(VersionVector::from_entries)
}

fn any_bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..5).prop_map(Bytes::from)
}

fn any_elements() -> impl Strategy<Value = Vec<Bytes>> {
    prop::collection::btree_set(any_bytes(), 0..6).prop_map(|set| set.into_iter().collect())
}

fn any_count() -> impl Strategy<Value = RiakCount> {
    (any_actor(), any::<u64>(), any::<u64>())
        .prop_map(|(actor, increments, decrements)| RiakCount { actor, increments, decrements })
}

fn any_counts() -> impl Strategy<Value = Vec<RiakCount>> {
    prop::collection::vec(any_count(), 0..4).prop_map(|mut counts| {
        counts.sort_by(|a, b| a.actor.cmp(&b.actor));
        counts.dedup_by(|a, b| a.actor == b.actor);
        counts
    })
}

/// At most one deferred remove, since several would be reordered by their contexts.
fn any_set() -> impl Strategy<Value = RiakSet> {
    let entries = prop::collection::btree_map(any_bytes(), any_dots(), 0..5);
    let deferred = prop::option::of((any_clock(), any_elements()));
    (any_clock(), entries, deferred).prop_map(|(clock, entries, deferred)| RiakSet {
        clock,
        entries: entries.into_iter().collect(),
        deferred: deferred.into_iter().collect(),
    })
}

fn any_embedded() -> impl Strategy<Value = RiakEmbedded> {
    let counter = (any_clock(), any_counts(), 1u64..9).prop_map(|(clock, counts, event)| {
        let counts = counts.into_iter().map(|count| (event, count)).collect();
        RiakEmbedded::Counter { clock, counts }
    });
    let register = (any_bytes(), any::<u64>())
        .prop_map(|(value, time_us)| RiakEmbedded::Register { value, time_us });
    let flag = (any_clock(), any_dots(), prop::option::of(any_clock())).prop_map(
        |(clock, dots, deferred)| RiakEmbedded::Flag {
            clock,
            dots,
            deferred: deferred.into_iter().collect(),
        },
    );
    let leaf = prop_oneof![counter, register, flag, any_set().prop_map(RiakEmbedded::Set)];
    leaf.prop_recursive(3, 20, 4, |inner| any_map(inner).prop_map(RiakEmbedded::Map))
}

fn any_map(
    embedded: impl Strategy<Value = RiakEmbedded> + Clone,
) -> impl Strategy<Value = RiakMap> {
    // State and tombstone have the same value, so that they have the same kind.
    let field = (any_bytes(), any_dot(), embedded).prop_map(|(name, dot, embedded)| RiakField {
        name: FieldName { name, kind: embedded.kind() },
        states: vec![(dot, embedded.clone())],
        tombstone: embedded,
    });
    let fields = prop::collection::vec(field, 0..4).prop_map(|mut fields| {
        let order = |field: &RiakField| (field.name.name.clone(), field_module(field.name.kind));
        fields.sort_by_key(order);
        fields.dedup_by(|a, b| a.name == b.name);
        fields
    });
    (any_clock(), fields, prop::option::of(any_clock())).prop_map(|(clock, fields, context)| {
        let names: Vec<_> = fields.iter().map(|field| field.name.clone()).collect();
        RiakMap {
            clock,
            deferred: context.map(|context| (context, names)).into_iter().collect(),
            fields,
        }
    })
}

fn any_hll() -> impl Strategy<Value = HyperLogLog> {
    (4u8..=16, 0u32..1500).prop_map(|(bits, count)| {
        let mut hll = HyperLogLog::new(crate::hll::Precision::new(bits).expect("4 to 16"));
        (0..count).for_each(|number| {
            hll.insert(&number.to_be_bytes());
        });
        hll
    })
}

fn any_data_type() -> impl Strategy<Value = RiakDataType> {
    prop_oneof![
        any_counts().prop_map(RiakDataType::Counter),
        any_set().prop_map(RiakDataType::Set),
        any_elements().prop_map(RiakDataType::Gset),
        any_map(any_embedded().boxed()).prop_map(RiakDataType::Map),
        any_hll().prop_map(RiakDataType::Hll),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_data_type_comes_back(data_type in any_data_type()) {
        prop_assert_eq!(RiakDataType::decode(&encoded(&data_type)), Ok(data_type));
    }

    #[test]
    fn legacy_counters_keep_their_sums(counts in any_counts()) {
        let bytes = encoded(&RiakDataType::LegacyCounter(counts.clone()));
        let Ok(RiakDataType::LegacyCounter(mut again)) = RiakDataType::decode(&bytes) else {
            panic!("no legacy counter");
        };
        again.sort_by(|a, b| a.actor.cmp(&b.actor));
        let counted = |count: &RiakCount| count.increments > 0 || count.decrements > 0;
        let counts: Vec<_> = counts.into_iter().filter(counted).collect();
        prop_assert_eq!(again, counts);
    }

    #[test]
    fn cut_off_and_mutated_values_never_panic(
        data_type in any_data_type(),
        cut: Index,
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4),
    ) {
        let bytes = encoded(&data_type);
        prop_assert!(RiakDataType::decode(&bytes.slice(..cut.index(bytes.len()))).is_err());
        let mut bytes = bytes.to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let _ = RiakDataType::decode(&bytes.into());
    }
}

/// A value of version 2 with this term, uncompressed.
fn stored(name: &str, head: [u8; 2], term: &Term) -> Bytes {
    let len = u32::try_from(name.len()).expect("short").to_be_bytes();
    let mut value = [&[69, 2], &len[..], name.as_bytes(), &head].concat();
    term.encode_into(&mut value);
    value.into()
}

fn binary(text: &'static str) -> Term {
    Term::Binary(text.into())
}

fn pair(first: Term, second: Term) -> Term {
    Term::Tuple(vec![first, second])
}

/// Erlang's dictionary with these entries: the last one in the last slot, the others in the second.
fn dict(mut entries: Vec<Term>) -> Term {
    let numbers = [entries.len() as i128, 16, 16, 8, 80, 48].map(Term::Integer);
    let empty = Term::Tuple(vec![Term::List(Vec::new()); 16]);
    let mut slots = vec![Term::List(Vec::new()); 16];
    slots[15] = Term::List(entries.pop().into_iter().collect());
    slots[1] = Term::List(entries);
    let mut record = vec![Term::Atom("dict".into())];
    record.extend(numbers);
    record.extend([empty, Term::Tuple(vec![Term::Tuple(slots)])]);
    Term::Tuple(record)
}

fn event(actor: &'static str, counter: i128) -> Term {
    pair(binary(actor), Term::Integer(counter))
}

fn dot(actor: &[u8], counter: u64) -> Dot {
    Dot { actor: Actor(actor.into()), counter, time_secs: 0 }
}

#[test]
fn sets_with_dictionaries_are_read() {
    // The value of an entry is a list, so the whole entry is a list.
    let entry = |element, counter| Term::List(vec![binary(element), event("a", counter)]);
    let waiting = vec![event("b", 7)];
    let waiting = Term::List(vec![Term::List(waiting), binary("x")]);
    let term = Term::Tuple(vec![
        Term::List(vec![event("a", 3)]),
        dict(vec![entry("x", 1), entry("y", 2), entry("z", 3)]),
        dict(vec![waiting]),
    ]);
    let set = RiakSet {
        clock: VersionVector::from_entries([dot(b"a", 3)]),
        entries: ["x", "y", "z"]
            .into_iter()
            .zip(1..)
            .map(|(element, counter)| (element.into(), vec![dot(b"a", counter)]))
            .collect(),
        deferred: vec![(VersionVector::from_entries([dot(b"b", 7)]), vec!["x".into()])],
    };
    let value = stored("riak_dt_orswot", [75, 2], &term);
    assert_eq!(RiakDataType::decode(&value), Ok(RiakDataType::Set(set)));
}

#[test]
fn maps_with_dictionaries_are_read() {
    let register = |text, time| pair(binary(text), Term::Integer(time));
    let improper = |key, value| Term::ImproperList(vec![key], Box::new(value));
    let state = improper(event("a", 1), register("v", 99));
    let name = pair(binary("r"), Term::Atom("riak_dt_lwwreg".into()));
    let field = improper(name, pair(dict(vec![state]), register("", 0)));
    let term =
        Term::Tuple(vec![Term::List(vec![event("a", 1)]), dict(vec![field]), dict(Vec::new())]);
    let register =
        |value: &'static str, time_us| RiakEmbedded::Register { value: value.into(), time_us };
    let map = RiakMap {
        clock: VersionVector::from_entries([dot(b"a", 1)]),
        fields: vec![RiakField {
            name: FieldName { name: "r".into(), kind: FieldKind::Register },
            states: vec![(dot(b"a", 1), register("v", 99))],
            tombstone: register("", 0),
        }],
        deferred: Vec::new(),
    };
    let value = stored("riak_dt_map", [77, 2], &term);
    assert_eq!(RiakDataType::decode(&value), Ok(RiakDataType::Map(map)));
}

#[test]
fn counters_have_these_bytes() {
    let counts = |increments, decrements| {
        vec![RiakCount { actor: Actor(b"a".as_slice().into()), increments, decrements }]
    };
    let entry = [131, 108, 0, 0, 0, 1, 104, 3, 109, 0, 0, 0, 1, b'a', 97, 5, 97, 2, 106];
    let named = [&[69, 2, 0, 0, 0, 17], &b"riak_dt_pncounter"[..], &[71, 2], &entry].concat();
    assert_eq!(encoded(&RiakDataType::Counter(counts(5, 2))), named);

    // Two grow-only counters: 5 were added, nothing was subtracted.
    let grown = [70, 1, 131, 108, 0, 0, 0, 1, 104, 2, 109, 0, 0, 0, 1, b'a', 97, 5, 106];
    let legacy = [&[69, 1, 71, 1, 0, 0, 0, 19][..], &grown, &[0, 0, 0, 4, 70, 1, 131, 106]];
    assert_eq!(encoded(&RiakDataType::LegacyCounter(counts(5, 0))), legacy.concat());

    // Riak 2 stores legacy counters in the newer form.
    let newer = [&[69, 1, 71, 2][..], &entry].concat();
    let read = RiakDataType::decode(&newer.into());
    assert_eq!(read, Ok(RiakDataType::LegacyCounter(counts(5, 2))));
}

#[test]
fn registers_of_hyperloglogs_are_read_in_both_forms() {
    let atom = |name: &'static str| Term::Atom(name.into());
    let listed = Term::List(
        [(3, 2), (9, 5), (3, 4)]
            .map(|(index, value)| pair(Term::Integer(index), Term::Integer(value)))
            .into(),
    );
    // Four registers in three bytes: 000001 000000 000010 000011.
    let packed = [&[0x04, 0x00, 0x83][..], &[0; 9]].concat();
    let number = Term::Integer;
    let buffer = vec![atom("buffer"), listed.clone(), number(3), number(4), number(0)];
    let dense = vec![atom("dense"), Term::Binary(packed.into()), listed, number(3), number(0)];
    let forms = [(buffer, vec![(3, 4), (9, 5)]), (dense, vec![(0, 1), (2, 2), (3, 4), (9, 5)])];
    for (registers, expected) in forms {
        let registers = pair(atom("hyper_binary"), Term::Tuple(registers));
        let term = Term::Tuple(vec![atom("hyper"), number(4), registers]);
        let read = RiakDataType::decode(&stored("riak_kv_hll", [86, 1], &term));
        let Ok(RiakDataType::Hll(hll)) = read else { panic!("{read:?}") };
        let registers: Vec<_> = hll.registers().map(|r| (r.index, r.value)).collect();
        assert_eq!(registers, expected);
    }
}

#[test]
fn what_is_no_data_type_is_refused_in_words() {
    let check = |value: &[u8], text: &str| {
        let error = RiakDataType::decode(&Bytes::copy_from_slice(value)).expect_err("refused");
        assert_eq!(error.to_string(), text);
    };
    check(b"{}", "value begins with byte 123: data types of Riak begin with 69");
    check(b"", "data type of Riak is cut off at byte 0");
    check(&[69, 3], "data type of Riak has version 3, which this program does not know");
    check(b"E\x02\0\0\0\x01x", "data type of Riak has the unknown name \"x\"");
    check(b"E\x02\0\0\0\x0criak_dt_gset\x47", "data type of Riak has tag 71, but its type has 82");
    check(
        b"E\x02\0\0\0\x0criak_dt_gset\x52\x02\x83\x61\x01",
        "data type of Riak: a term should be a list",
    );
    check(
        &stored(
            "riak_dt_pncounter",
            [71, 2],
            &Term::List(vec![Term::Tuple(vec![binary("a"), Term::Integer(-1), Term::Integer(0)])]),
        ),
        "data type of Riak: a term should be a sum of increments below 2^64",
    );
}

/// Nested maps.
fn nested(levels: u32) -> RiakMap {
    let mut map = RiakMap::default();
    for _ in 0..levels {
        map = RiakMap {
            clock: VersionVector::default(),
            fields: vec![RiakField {
                name: FieldName { name: "m".into(), kind: FieldKind::Map },
                states: vec![(dot(b"a", 1), RiakEmbedded::Map(map))],
                tombstone: RiakEmbedded::Map(RiakMap::default()),
            }],
            deferred: Vec::new(),
        };
    }
    map
}

#[test]
fn maps_nest_a_hundred_deep_and_no_stack_overflows() {
    let map = RiakDataType::Map(nested(100));
    assert_eq!(RiakDataType::decode(&encoded(&map)), Ok(map));
    let deep = [&[131][..], &[104, 1].repeat(100_000), &[106]].concat();
    let value = [&[69, 2, 0, 0, 0, 11][..], b"riak_dt_map", &[77, 2], &deep].concat();
    let error = RiakDataType::decode(&value.into()).expect_err("too deep");
    assert_eq!(error.to_string(), "data type of Riak: external term is nested more than 1024 deep");
}

#[test]
fn what_would_inflate_beyond_the_limit_is_refused_unread() {
    let size_bytes = (300u32 << 20).to_be_bytes();
    let bomb = [&[131, 80][..], &size_bytes, &[0x78, 0x9c]].concat();
    let value = [&[69, 2, 0, 0, 0, 12][..], b"riak_dt_gset", &[82, 2], &bomb].concat();
    let error = RiakDataType::decode(&value.into()).expect_err("too large");
    assert!(error.to_string().contains("has 314572800 bytes"), "{error}");
}
