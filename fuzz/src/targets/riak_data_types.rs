//! Data types in Riak's stored form.

use bytes::Bytes;
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::data_type::FieldName;
use quoit_model::riak_data_type::{
    RiakCount, RiakDataType, RiakEmbedded, RiakField, RiakMap, RiakSet,
};

use crate::Target;
use crate::targets::hyperloglogs;

pub(crate) const TARGET: Target = Target { name: "riak-data-types", run, seeds };

/// Checks that a decoded data type survives being encoded and decoded again.
fn run(input: &[u8]) {
    let Ok(data_type) = RiakDataType::decode(&Bytes::copy_from_slice(input)) else { return };
    let written = encoded(&data_type);
    let again =
        RiakDataType::decode(&written.clone().into()).expect("what was just encoded decodes");
    assert_eq!(encoded(&again), written, "a data type changes by being read and written");
}

fn encoded(data_type: &RiakDataType) -> Vec<u8> {
    let mut out = Vec::new();
    data_type.encode_into(&mut out);
    out
}

fn seeds() -> Vec<Vec<u8>> {
    let actor = || Actor(b"\0\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b".as_slice().into());
    let dot = |counter| Dot { actor: actor(), counter, time_secs: 0 };
    let clock = |counter| VersionVector::from_entries([dot(counter)]);
    let count = || RiakCount { actor: actor(), increments: 7, decrements: 300 };
    let set = RiakSet {
        clock: clock(3),
        entries: vec![("a".into(), vec![dot(1)]), ("b".into(), vec![dot(2), dot(3)])],
        deferred: vec![(clock(9), vec!["c".into()])],
    };
    let embedded = [
        RiakEmbedded::Counter { clock: clock(1), counts: vec![(1, count())] },
        RiakEmbedded::Register { value: "v".into(), time_us: 1_700_000_000_000_000 },
        RiakEmbedded::Flag { clock: clock(1), dots: vec![dot(1)], deferred: vec![clock(5)] },
        RiakEmbedded::Set(set.clone()),
    ];
    let field = |value: RiakEmbedded| RiakField {
        name: FieldName::new("field", value.kind()),
        states: vec![(dot(1), value.clone())],
        tombstone: value,
    };
    let flat =
        RiakMap { clock: clock(4), fields: embedded.map(field).into(), deferred: Vec::new() };
    let name = flat.fields[0].name.clone();
    let map = RiakMap {
        clock: clock(4),
        fields: vec![field(RiakEmbedded::Map(flat))],
        deferred: vec![(clock(8), vec![name])],
    };
    let plain = [
        RiakDataType::Counter(vec![count()]),
        RiakDataType::LegacyCounter(vec![count()]),
        RiakDataType::Set(set),
        RiakDataType::Gset(vec!["a".into(), "b".into()]),
        RiakDataType::Map(map),
    ];
    let hlls = hyperloglogs::samples().map(RiakDataType::Hll);
    plain.iter().chain(&hlls).map(encoded).collect()
}
