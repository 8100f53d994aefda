//! Version 0: the external term of Riak's object record, which releases before 1.4 stored.

use super::meta::set_entry;
use super::{RAW, RiakObjectError, TERM, set_value};
use crate::etf::{Limits, Term};
use crate::object::{Object, Sibling};
use crate::riak_clock::clock_of_term;
use bytes::Bytes;

pub(super) fn decode(bytes: &Bytes) -> Result<Object, RiakObjectError> {
    let bad = |what| RiakObjectError::BadRecord { what };
    let term = Term::decode(bytes, &Limits::STORED)?;
    let record = term.as_tuple::<7>().filter(|record| record[0].is_atom(b"r_object"));
    let [_, _, _, contents, clock, _, _] = record.ok_or(bad("r_object"))?;
    let siblings = contents.as_list().ok_or(bad("list of contents"))?;
    let siblings = siblings.iter().map(|content| {
        let content = content.as_tuple::<3>().filter(|content| content[0].is_atom(b"r_content"));
        let [_, dict, value] = content.ok_or(bad("r_content"))?;
        let mut sibling = Sibling::default();
        for (name, value) in dict_entries(dict).ok_or(bad("dict of metadata"))? {
            set_v0_entry(&mut sibling, name, &value);
        }
        set_value(&mut sibling, &encoded(value));
        Ok(sibling)
    });
    let siblings = siblings.collect::<Result<_, RiakObjectError>>()?;
    Ok(Object { clock: clock_of_term(clock)?, siblings })
}

/// Stores an entry of version 0. Some of these entries are in the fixed head of version 1; the
/// others are the same.
fn set_v0_entry(sibling: &mut Sibling, name: &Term, value: &Term) {
    let known = match name.as_binary().map(Bytes::as_ref) {
        Some(b"X-Riak-VTag") => any_text(value).map(|vtag| sibling.vtag = vtag),
        Some(b"X-Riak-Last-Modified") => {
            last_modified_us(value).map(|time| sibling.last_modified_us = time)
        }
        Some(b"X-Riak-Deleted") => {
            let deleted = any_text(value).is_some_and(|text| text == "true");
            sibling.deleted = deleted || value.is_atom(b"true");
            Some(())
        }
        _ => None,
    };
    if known.is_none() {
        set_entry(sibling, encoded(name), encoded(value));
    }
}

fn any_text(term: &Term) -> Option<Bytes> {
    term.to_text().or_else(|| term.as_binary().cloned())
}

/// Encodes a name or value as version 1 does.
fn encoded(term: &Term) -> Bytes {
    let mut out = Vec::new();
    match term.as_binary() {
        Some(binary) => {
            out.push(RAW);
            out.extend_from_slice(binary);
        }
        None => {
            out.push(TERM);
            term.encode_into(&mut out);
        }
    }
    out.into()
}

/// All pairs of an Erlang `dict`: `{dict, _, _, _, _, _, _, _, {{Bucket, ...}, ...}}`, where a
/// bucket is a list of cells `[Key | Value]`.
fn dict_entries(dict: &Term) -> Option<Vec<(&Term, Term)>> {
    let dict = dict.as_tuple::<9>().filter(|dict| dict[0].is_atom(b"dict"))?;
    let mut entries = Vec::new();
    for segment in elements(&dict[8])? {
        for bucket in elements(segment)? {
            for cell in bucket.as_list()? {
                entries.push(pair_of_cell(cell)?);
            }
        }
    }
    Some(entries)
}

fn elements(tuple: &Term) -> Option<&[Term]> {
    match tuple {
        Term::Tuple(elements) => Some(elements),
        _ => None,
    }
}

/// Reads the cell `[Key | Value]`. If the value is a list, the cell is a list with the key in
/// front.
fn pair_of_cell(cell: &Term) -> Option<(&Term, Term)> {
    match cell {
        Term::List(elements) => {
            let (name, rest) = elements.split_first()?;
            Some((name, Term::List(rest.to_vec())))
        }
        Term::ImproperList(elements, tail) => {
            let (name, rest) = elements.split_first()?;
            let value = match (rest.is_empty(), tail.as_ref()) {
                (true, tail) => tail.clone(),
                // A string after single elements is the rest of one list.
                (false, Term::Text(text)) => {
                    let text = text.iter().map(|byte| Term::Integer((*byte).into()));
                    Term::List(rest.iter().cloned().chain(text).collect())
                }
                (false, tail) => Term::ImproperList(rest.to_vec(), Box::new(tail.clone())),
            };
            Some((name, value))
        }
        _ => None,
    }
}

/// Reads `{Mega, Secs, Micros}` since 1970, or an HTTP date. Returns microseconds since 1970.
fn last_modified_us(term: &Term) -> Option<u64> {
    if let Some([mega, secs, micros]) = term.as_tuple() {
        let secs = mega.as_u64()?.checked_mul(1_000_000)?.checked_add(secs.as_u64()?)?;
        return secs.checked_mul(1_000_000)?.checked_add(micros.as_u64()?);
    }
    let text = any_text(term)?;
    http_date_secs(std::str::from_utf8(&text).ok()?)?.checked_mul(1_000_000)
}

/// Seconds since 1970 of an HTTP date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date_secs(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = text.split_ascii_whitespace().skip(1);
    let mut word = || words.next();
    let day: u64 = word()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let name = word()?;
    let month = MONTHS.iter().position(|month| *month == name)? as u64 + 1;
    let year: u64 = word()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let clock: Vec<u64> = word()?.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [hour, minute, second] = clock[..] else { return None };
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // The year begins in March, so that a leap day is the last day of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = 365 * year + leap_days + (153 * month + 2) / 5 + day - 1;
    let days_to_1970 = 719_468;
    Some((days - days_to_1970) * 86_400 + hour * 3600 + minute * 60 + second)
}
