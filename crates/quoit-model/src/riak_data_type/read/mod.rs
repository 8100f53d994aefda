//! Decoding of Riak's data types.

mod hll;
mod terms;

use super::{
    DATA_TYPE, LIMITS, RiakCount, RiakDataType, RiakDataTypeError, RiakEmbedded, RiakField,
    RiakMap, RiakSet, field_module, tag,
};
use crate::clock::Actor;
use crate::cursor::Cursor;
use crate::etf::Term;
use crate::field_name::{FieldKind, FieldName};
use bytes::Bytes;
use std::collections::BTreeMap;
use terms::{actor, binary, clock, dot, dots, elements, list, number, pairs, shape};

type ReadResult<T> = Result<T, RiakDataTypeError>;

pub(super) fn decode(value: &Bytes) -> ReadResult<RiakDataType> {
    let mut cursor = Cursor::new(value);
    let first = cursor.u8()?;
    if first != DATA_TYPE {
        return Err(RiakDataTypeError::NotADataType { first });
    }
    match cursor.u8()? {
        1 => Ok(RiakDataType::LegacyCounter(counter(&mut cursor)?)),
        2 => named(&mut cursor),
        version => Err(RiakDataTypeError::UnknownVersion { what: "data type", version }),
    }
}

fn named(cursor: &mut Cursor<'_>) -> ReadResult<RiakDataType> {
    let len = u32::from_be_bytes(cursor.array()?) as usize;
    let name = cursor.slice(len)?;
    Ok(match name {
        b"riak_dt_pncounter" => RiakDataType::Counter(counter(cursor)?),
        b"riak_dt_orswot" => {
            version(cursor, tag::SET, "set", 2)?;
            RiakDataType::Set(set(rest(cursor)?)?)
        }
        b"riak_dt_gset" => {
            version(cursor, tag::GSET, "grow-only set", 2)?;
            RiakDataType::Gset(elements(rest(cursor)?)?)
        }
        b"riak_dt_map" => {
            version(cursor, tag::MAP, "map", 2)?;
            RiakDataType::Map(map(rest(cursor)?)?)
        }
        b"riak_kv_hll" => {
            version(cursor, tag::HLL, "HyperLogLog", 1)?;
            RiakDataType::Hll(hll::hll(rest(cursor)?)?)
        }
        name => {
            let name = String::from_utf8_lossy(name.get(..40).unwrap_or(name)).into_owned();
            return Err(RiakDataTypeError::UnknownType { name });
        }
    })
}

/// Reads a tag and a version. Returns the version, which must be from 1 to `max`.
fn version(cursor: &mut Cursor<'_>, expected: u8, what: &'static str, max: u8) -> ReadResult<u8> {
    let tag = cursor.u8()?;
    if tag != expected {
        return Err(RiakDataTypeError::WrongTag { tag, expected });
    }
    match cursor.u8()? {
        version if (1..=max).contains(&version) => Ok(version),
        version => Err(RiakDataTypeError::UnknownVersion { what, version }),
    }
}

/// Decodes the rest of the value as a term.
fn rest(cursor: &mut Cursor<'_>) -> ReadResult<Term> {
    let rest = cursor.bytes(cursor.remaining())?;
    Ok(Term::decode(&rest, &LIMITS)?)
}

fn counter(cursor: &mut Cursor<'_>) -> ReadResult<Vec<RiakCount>> {
    if version(cursor, tag::COUNTER, "counter", 2)? == 2 {
        return list(rest(cursor)?)?.into_iter().map(count).collect();
    }
    // Two grow-only counters, one of increments and one of decrements.
    let mut totals: BTreeMap<Actor, [u64; 2]> = BTreeMap::new();
    for (actor, increments) in growing_counter(cursor)? {
        totals.entry(actor).or_default()[0] = increments;
    }
    for (actor, decrements) in growing_counter(cursor)? {
        totals.entry(actor).or_default()[1] = decrements;
    }
    if cursor.remaining() > 0 {
        return Err(shape("at the end of the value"));
    }
    let counts = totals.into_iter().map(|(actor, [increments, decrements])| RiakCount {
        actor,
        increments,
        decrements,
    });
    Ok(counts.collect())
}

fn growing_counter(cursor: &mut Cursor<'_>) -> ReadResult<Vec<(Actor, u64)>> {
    let len = u32::from_be_bytes(cursor.array()?) as usize;
    let binary = cursor.bytes(len)?;
    let mut cursor = Cursor::new(&binary);
    version(&mut cursor, tag::GROWING_COUNTER, "grow-only counter", 1)?;
    let total = |term| {
        let [who, total] = terms::tuple(term, "{Actor, Count}")?;
        Ok((actor(who)?, number(&total, "a count below 2^64")?))
    };
    list(rest(&mut cursor)?)?.into_iter().map(total).collect()
}

fn count(term: Term) -> ReadResult<RiakCount> {
    let [who, increments, decrements] = terms::tuple(term, "{Actor, Increments, Decrements}")?;
    Ok(RiakCount {
        actor: actor(who)?,
        increments: number(&increments, "a sum of increments below 2^64")?,
        decrements: number(&decrements, "a sum of decrements below 2^64")?,
    })
}

fn set(term: Term) -> ReadResult<RiakSet> {
    let [events, entries, deferred] = terms::tuple(term, "{Clock, Entries, Deferred} of a set")?;
    let entry = |(element, live)| Ok((binary(element)?, dots(live)?));
    let waiting = |(context, removed)| Ok((clock(context)?, elements(removed)?));
    Ok(RiakSet {
        clock: clock(events)?,
        entries: pairs(entries)?.into_iter().map(entry).collect::<ReadResult<_>>()?,
        deferred: pairs(deferred)?.into_iter().map(waiting).collect::<ReadResult<_>>()?,
    })
}

fn map(term: Term) -> ReadResult<RiakMap> {
    let [events, fields, deferred] = terms::tuple(term, "{Clock, Fields, Deferred} of a map")?;
    let waiting = |(context, names)| {
        let names = list(names)?.into_iter().map(field_name).collect::<ReadResult<_>>()?;
        Ok((clock(context)?, names))
    };
    Ok(RiakMap {
        clock: clock(events)?,
        fields: pairs(fields)?.into_iter().map(field).collect::<ReadResult<_>>()?,
        deferred: pairs(deferred)?.into_iter().map(waiting).collect::<ReadResult<_>>()?,
    })
}

fn field((name, value): (Term, Term)) -> ReadResult<RiakField> {
    let name = field_name(name)?;
    let [states, tombstone] = terms::tuple(value, "{States, Tombstone} of a field")?;
    let state = |(event, state)| Ok((dot(event)?, embedded(name.kind, state)?));
    let states = pairs(states)?.into_iter().map(state).collect::<ReadResult<_>>()?;
    let tombstone = embedded(name.kind, tombstone)?;
    Ok(RiakField { name, states, tombstone })
}

fn field_name(term: Term) -> ReadResult<FieldName> {
    let [name, module] = terms::tuple(term, "{Name, Module} of a field")?;
    let is_module = |kind: &FieldKind| module.is_atom(field_module(*kind).as_bytes());
    let kind = FieldKind::ALL.into_iter().find(is_module);
    let kind = kind.ok_or_else(|| shape("the module of a type that fields can have"))?;
    Ok(FieldName { name: binary(name)?, kind })
}

fn embedded(kind: FieldKind, term: Term) -> ReadResult<RiakEmbedded> {
    Ok(match kind {
        FieldKind::Set => RiakEmbedded::Set(set(term)?),
        FieldKind::Map => RiakEmbedded::Map(map(term)?),
        FieldKind::Register => {
            let [value, time] = terms::tuple(term, "{Value, Microseconds} of a register")?;
            let time_us = number(&time, "a time below 2^64")?;
            RiakEmbedded::Register { value: binary(value)?, time_us }
        }
        FieldKind::Flag => {
            let [events, live, deferred] = terms::tuple(term, "{Clock, Dots, Deferred} of a flag")?;
            let deferred = list(deferred)?.into_iter().map(clock).collect::<ReadResult<_>>()?;
            RiakEmbedded::Flag { clock: clock(events)?, dots: dots(live)?, deferred }
        }
        FieldKind::Counter => {
            let [events, counts] = terms::tuple(term, "{Clock, Counts} of a counter")?;
            let counts =
                list(counts)?.into_iter().map(embedded_count).collect::<ReadResult<_>>()?;
            RiakEmbedded::Counter { clock: clock(events)?, counts }
        }
    })
}

fn embedded_count(term: Term) -> ReadResult<(u64, RiakCount)> {
    let [who, counted] = terms::tuple(term, "{Actor, Counted}")?;
    let [event, increments, decrements] = terms::tuple(counted, "{Event, Increments, Decrements}")?;
    let count = RiakCount {
        actor: actor(who)?,
        increments: number(&increments, "a sum of increments below 2^64")?,
        decrements: number(&decrements, "a sum of decrements below 2^64")?,
    };
    Ok((number(&event, "the number of an event")?, count))
}
