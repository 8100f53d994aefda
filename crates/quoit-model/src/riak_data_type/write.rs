//! Encoding of Riak's data types.

use super::{
    DATA_TYPE, RiakCount, RiakDataType, RiakEmbedded, RiakField, RiakMap, RiakSet, field_module,
    tag,
};
use crate::clock::{Actor, Dot, VersionVector};
use crate::etf::{ETF_VERSION, Term, put_term};
use crate::field_name::FieldName;
use crate::hll::HyperLogLog;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use quoit_number::length_u32;
use std::io::Write;

/// Minimum size in bytes of a term that is compressed.
const COMPRESSED_BYTES_MIN: usize = 128;
const COMPRESSED: u8 = 80;

pub(super) fn encode(data_type: &RiakDataType, out: &mut Vec<u8>) {
    match data_type {
        RiakDataType::LegacyCounter(counts) => put_legacy_counter(out, counts),
        RiakDataType::Counter(counts) => {
            let counts = list(counts, |count| {
                let RiakCount { actor, increments, decrements } = count;
                tuple([binary_of(&actor.0), number(*increments), number(*decrements)])
            });
            put_named(out, "riak_dt_pncounter", [tag::COUNTER, 2], &counts);
        }
        RiakDataType::Set(value) => put_named(out, "riak_dt_orswot", [tag::SET, 1], &set(value)),
        RiakDataType::Gset(elements) => {
            put_named(out, "riak_dt_gset", [tag::GSET, 2], &sorted_binaries(elements));
        }
        RiakDataType::Map(value) => put_named(out, "riak_dt_map", [tag::MAP, 1], &map(value)),
        RiakDataType::Hll(value) => put_named(out, "riak_kv_hll", [tag::HLL, 1], &hll(value)),
    }
}

fn put_named(out: &mut Vec<u8>, name: &str, head: [u8; 2], term: &Term) {
    out.extend_from_slice(&[DATA_TYPE, 2]);
    out.extend_from_slice(&length_u32(name.len()).to_be_bytes());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&head);
    put_compressed(out, term);
}

/// Appends two grow-only counters, one of increments and one of decrements.
fn put_legacy_counter(out: &mut Vec<u8>, counts: &[RiakCount]) {
    out.extend_from_slice(&[DATA_TYPE, 1, tag::COUNTER, 1]);
    let totals: [fn(&RiakCount) -> u64; 2] = [|count| count.increments, |count| count.decrements];
    for total in totals {
        let grown: Vec<&RiakCount> = counts.iter().filter(|count| total(count) > 0).collect();
        let term = list(&grown, |count| tuple([binary_of(&count.actor.0), number(total(count))]));
        let mut binary = vec![tag::GROWING_COUNTER, 1];
        put_compressed(&mut binary, &term);
        out.extend_from_slice(&length_u32(binary.len()).to_be_bytes());
        out.extend_from_slice(&binary);
    }
}

/// Appends a term as `term_to_binary(Term, [compressed])` does: compressed if that makes it
/// smaller.
fn put_compressed(out: &mut Vec<u8>, term: &Term) {
    let mut plain = Vec::new();
    put_term(&mut plain, term);
    out.push(ETF_VERSION);
    let start = out.len();
    if plain.len() >= COMPRESSED_BYTES_MIN {
        out.push(COMPRESSED);
        out.extend_from_slice(&length_u32(plain.len()).to_be_bytes());
        let mut encoder = ZlibEncoder::new(&mut *out, Compression::default());
        encoder.write_all(&plain).and_then(|()| encoder.finish()).expect("memory takes all bytes");
        if out.len() - start < plain.len() {
            return;
        }
        out.truncate(start);
    }
    out.extend_from_slice(&plain);
}

fn tuple<const N: usize>(elements: [Term; N]) -> Term {
    Term::Tuple(elements.into())
}

fn list<T>(items: &[T], term: impl Fn(&T) -> Term) -> Term {
    Term::List(items.iter().map(term).collect())
}

fn binary(bytes: &Bytes) -> Term {
    Term::Binary(bytes.clone())
}

fn binary_of(bytes: &[u8]) -> Term {
    Term::Binary(Bytes::copy_from_slice(bytes))
}

fn number(number: u64) -> Term {
    Term::Integer(number.into())
}

fn sorted_binaries(elements: &[Bytes]) -> Term {
    let mut sorted: Vec<&Bytes> = elements.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    list(&sorted, |element| binary(element))
}

fn dot(dot: &Dot) -> Term {
    tuple([binary_of(&dot.actor.0), number(dot.counter)])
}

/// Events, sorted by actor as in a clock.
fn dots(dots: &[Dot]) -> Term {
    let mut sorted: Vec<&Dot> = dots.iter().collect();
    sorted.sort_unstable_by(|a, b| (&a.actor, a.counter).cmp(&(&b.actor, b.counter)));
    list(&sorted, |event| dot(event))
}

fn clock(clock: &VersionVector) -> Term {
    dots(clock.entries())
}

/// An ordered list of pairs. Each item comes with the key by which Erlang orders it.
fn pairs<K: Ord>(items: impl Iterator<Item = (K, [Term; 2])>) -> Term {
    let mut sorted: Vec<_> = items.collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    Term::List(sorted.into_iter().map(|(_, pair)| tuple(pair)).collect())
}

/// Key by which Erlang orders clocks.
fn clock_order(clock: &VersionVector) -> Vec<(&Actor, u64)> {
    let mut events: Vec<_> = clock.entries().iter().map(|dot| (&dot.actor, dot.counter)).collect();
    events.sort_unstable();
    events
}

fn set(set: &RiakSet) -> Term {
    let entry = |(element, live): &(_, Vec<Dot>)| [binary(element), dots(live)];
    let waiting = |(context, removed): &(_, Vec<Bytes>)| [clock(context), sorted_binaries(removed)];
    let entries = pairs(set.entries.iter().map(|item| (&item.0, entry(item))));
    let deferred = pairs(set.deferred.iter().map(|item| (clock_order(&item.0), waiting(item))));
    tuple([clock(&set.clock), entries, deferred])
}

fn map(map: &RiakMap) -> Term {
    let waiting = |(context, removed): &(_, Vec<FieldName>)| {
        let mut names: Vec<&FieldName> = removed.iter().collect();
        names.sort_unstable_by_key(|name| field_order(name));
        [clock(context), list(&names, |name| field_name(name))]
    };
    let fields = pairs(map.fields.iter().map(|item| (field_order(&item.name), field(item))));
    let deferred = pairs(map.deferred.iter().map(|item| (clock_order(&item.0), waiting(item))));
    tuple([clock(&map.clock), fields, deferred])
}

fn field(field: &RiakField) -> [Term; 2] {
    let order = |event: &Dot| (event.actor.clone(), event.counter);
    let states = field.states.iter();
    let states = pairs(states.map(|(event, state)| (order(event), [dot(event), embedded(state)])));
    [field_name(&field.name), tuple([states, embedded(&field.tombstone)])]
}

fn field_name(name: &FieldName) -> Term {
    let module = Bytes::from_static(field_module(name.kind).as_bytes());
    tuple([binary(&name.name), Term::Atom(module)])
}

/// Key by which Erlang orders fields: by name, then by module.
fn field_order(name: &FieldName) -> (&Bytes, &'static str) {
    (&name.name, field_module(name.kind))
}

fn embedded(value: &RiakEmbedded) -> Term {
    match value {
        RiakEmbedded::Set(value) => set(value),
        RiakEmbedded::Map(value) => map(value),
        RiakEmbedded::Register { value, time_us } => tuple([binary(value), number(*time_us)]),
        RiakEmbedded::Flag { clock: events, dots: live, deferred } => {
            let mut contexts: Vec<&VersionVector> = deferred.iter().collect();
            contexts.sort_by(|a, b| clock_order(a).cmp(&clock_order(b)));
            tuple([clock(events), dots(live), list(&contexts, |context| clock(context))])
        }
        RiakEmbedded::Counter { clock: events, counts } => {
            let sums = |(event, count): &(u64, RiakCount)| {
                let sums = [*event, count.increments, count.decrements];
                [binary_of(&count.actor.0), tuple(sums.map(number))]
            };
            let counts = pairs(counts.iter().map(|item| (&item.1.actor, sums(item))));
            tuple([clock(events), counts])
        }
    }
}

/// The term `{hyper, P, {hyper_binary, Registers}}`. Few registers are listed. The last elements
/// are Riak's thresholds for changing the form.
#[expect(clippy::indexing_slicing, reason = "the indexes of registers are below their number")]
fn hll(hll: &HyperLogLog) -> Term {
    let atom = |name: &'static str| Term::Atom(Bytes::from_static(name.as_bytes()));
    let register_count = hll.precision().register_count() as u64;
    let registers: Vec<_> = hll.registers().collect();
    let count = registers.len() as u64;
    let listed_max = register_count / 40;
    let registers = if count <= listed_max {
        let pairs = list(&registers, |register| {
            tuple([number(register.index.into()), number(register.value.into())])
        });
        let precision = number(hll.precision().bits().into());
        tuple([atom("buffer"), pairs, number(count), precision, number(listed_max)])
    } else {
        let mut values = vec![0u8; hll.precision().register_count()];
        for register in registers {
            values[usize::from(register.index)] = register.value;
        }
        let packed = values.chunks_exact(4).flat_map(|values| {
            let join = |bits, value: &u8| bits << 6 | u32::from(*value);
            let [_, packed @ ..] = values.iter().fold(0u32, join).to_be_bytes();
            packed
        });
        let packed = Term::Binary(packed.collect());
        let pending_max = number(register_count / 20);
        tuple([atom("dense"), packed, Term::List(Vec::new()), number(0), pending_max])
    };
    let bits = number(hll.precision().bits().into());
    tuple([atom("hyper"), bits, tuple([atom("hyper_binary"), registers])])
}
