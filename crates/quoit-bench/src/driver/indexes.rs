//! The index entries of made-up people: postcode, date of birth, last change.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jiff::Timestamp;
use quoit_client::wire::messages::RpbPair;

use crate::random::Random;

/// Letters that British postcodes begin with.
const POSTCODE_AREAS: [&str; 76] = [
    "AL", "B", "BA", "BB", "BD", "BH", "BL", "BN", "BR", "BS", "CA", "CB", "CH", "CM", "CO", "CR",
    "CT", "CV", "CW", "DA", "DE", "DH", "DL", "DN", "DT", "DY", "E", "EN", "EX", "FY", "GL", "GU",
    "HA", "HD", "HG", "HP", "HU", "HX", "IG", "IP", "KT", "L", "LA", "LE", "LN", "LS", "LU", "M",
    "ME", "MK", "N", "NE", "NG", "NN", "NR", "NW", "OL", "OX", "PE", "PL", "PO", "PR", "RG", "RH",
    "S", "SE", "SN", "SO", "SR", "SW", "TN", "TQ", "W", "WF", "WN", "YO",
];

/// Districts of each area.
const DISTRICT_COUNT: u64 = 26;

/// The earliest date of birth, in 1933, in seconds since 1970.
const BIRTH_FIRST_SECS: i64 = -1_167_219_200;

/// Seconds from the earliest date of birth to the latest, in 2012.
const BIRTH_SPAN_SECS: u64 = 2_500_000_000;

/// How dates of birth are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DateForm {
    /// `YYYYMMDD`.
    Digits,
    /// `YYYY-MM-DD`.
    Dashes,
}

/// Entries of all three indexes; `postcode_count_max` bounds how many postcodes there are.
pub(super) fn all_entries(
    random: &mut Random,
    postcode_count_max: u64,
    form: DateForm,
) -> Vec<RpbPair> {
    let postcode_count = random.uniform(postcode_count_max);
    let mut entries: Vec<RpbPair> =
        (0..postcode_count).map(|_| entry("postcode_bin", postcode(random))).collect();
    entries.push(entry("dateofbirth_bin", date_of_birth(random, form)));
    entries.push(last_modified());
    entries
}

/// The entry of the index of changes: now, UTC.
pub(super) fn last_modified() -> RpbPair {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S").to_string();
    entry("lastmodified_bin", now)
}

fn entry(field: &'static str, term: String) -> RpbPair {
    RpbPair { key: Bytes::from_static(field.as_bytes()), value: Some(term.into()) }
}

fn postcode(random: &mut Random) -> String {
    let area = POSTCODE_AREAS[random.uniform(POSTCODE_AREAS.len() as u64) as usize - 1];
    let district = random.uniform(DISTRICT_COUNT);
    format!("{area}{district}|{}", four_bytes(random))
}

fn date_of_birth(random: &mut Random, form: DateForm) -> String {
    let pattern = match form {
        DateForm::Digits => "%Y%m%d",
        DateForm::Dashes => "%Y-%m-%d",
    };
    let second = BIRTH_FIRST_SECS + random.uniform(BIRTH_SPAN_SECS).cast_signed();
    let date = Timestamp::from_second(second).unwrap_or_default().strftime(pattern).to_string();
    format!("{date}|{}", four_bytes(random))
}

/// Base64 of four random bytes, which makes terms of many people differ.
fn four_bytes(random: &mut Random) -> String {
    STANDARD.encode((random.bits() as u32).to_be_bytes())
}
