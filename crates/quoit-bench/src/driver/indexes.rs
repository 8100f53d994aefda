//! Index entries of invented people: postcode, date of birth, time of the last change.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jiff::Timestamp;
use quoit_client::wire::messages::RpbPair;

use crate::random::Random;

/// Area codes of British postcodes.
const POSTCODE_AREAS: [&str; 76] = [
    "AL", "B", "BA", "BB", "BD", "BH", "BL", "BN", "BR", "BS", "CA", "CB", "CH", "CM", "CO", "CR",
    "CT", "CV", "CW", "DA", "DE", "DH", "DL", "DN", "DT", "DY", "E", "EN", "EX", "FY", "GL", "GU",
    "HA", "HD", "HG", "HP", "HU", "HX", "IG", "IP", "KT", "L", "LA", "LE", "LN", "LS", "LU", "M",
    "ME", "MK", "N", "NE", "NG", "NN", "NR", "NW", "OL", "OX", "PE", "PL", "PO", "PR", "RG", "RH",
    "S", "SE", "SN", "SO", "SR", "SW", "TN", "TQ", "W", "WF", "WN", "YO",
];

/// Number of districts in each area.
const DISTRICT_COUNT: u64 = 26;

/// The earliest date of birth, in 1933, in seconds since 1970.
const BIRTH_FIRST_SECS: i64 = -1_167_219_200;

/// Seconds from the earliest date of birth to the latest, in 2012.
const BIRTH_SPAN_SECS: u64 = 2_500_000_000;

/// Notation of dates of birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DateForm {
    /// `YYYYMMDD`.
    Digits,
    /// `YYYY-MM-DD`.
    Dashes,
}

/// Entries of all three indexes, with 1 to `postcode_count_max` postcodes.
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

/// The entry of the last change: the current time in UTC.
pub(super) fn last_modified() -> RpbPair {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S").to_string();
    entry("lastmodified_bin", now)
}

fn entry(field: &'static str, term: String) -> RpbPair {
    RpbPair { key: Bytes::from_static(field.as_bytes()), value: Some(term.into()) }
}

fn postcode(random: &mut Random) -> String {
    format!("{}|{}", district(random), four_bytes(random))
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

/// Four random bytes in Base64, which make the terms of different people differ.
fn four_bytes(random: &mut Random) -> String {
    STANDARD.encode(quoit_number::low_u32(random.bits()).to_be_bytes())
}

/// Suffixes that lower bounds of postcode ranges have after the district.
const RANGE_STARTS: [&str; 8] = ["ba", "ca", "da", "ea", "fa", "ga", "gb", "gc"];

fn district(random: &mut Random) -> String {
    let area = random.pick(&POSTCODE_AREAS);
    format!("{area}{}", random.uniform(DISTRICT_COUNT))
}

/// A range query of the postcodes of a district, as the end of a path.
pub(super) fn postcode_path(random: &mut Random) -> String {
    let district = district(random);
    let start = random.pick(&RANGE_STARTS);
    format!("postcode_bin/{district}%7C{start}/{district}%7Cgd")
}

/// A query of the births of one day, filtered by a pattern, as the end of a path.
pub(super) fn birth_path(random: &mut Random) -> String {
    let month = format!("{}0{}", 1950 + random.uniform(70), random.uniform(9));
    // The pattern `[0-9]{8}...[a-d]`, percent-encoded.
    let pattern = "%5B0-9%5D%7B8%7D...%5Ba-d%5D";
    format!("dateofbirth_bin/{month}04/{month}05?term_regex={pattern}")
}

/// A range of the terms of a field.
pub(super) struct TermRange {
    pub(super) field: &'static str,
    pub(super) first: String,
    pub(super) last: String,
}

/// A range of the postcodes of a district.
pub(super) fn postcode_range(random: &mut Random) -> TermRange {
    let district = district(random);
    let (first, last) = (format!("{district}|a"), format!("{district}|b"));
    TermRange { field: "postcode_bin", first, last }
}

/// The births of one day and up to three days after it.
pub(super) fn birth_range(random: &mut Random) -> TermRange {
    const DAY_SECS: i64 = 86_400;
    let first_secs = BIRTH_FIRST_SECS + random.uniform(BIRTH_SPAN_SECS).cast_signed();
    let last_secs = first_secs + (random.uniform(4).cast_signed() - 1) * DAY_SECS;
    let day =
        |secs| Timestamp::from_second(secs).unwrap_or_default().strftime("%Y-%m-%d").to_string();
    TermRange { field: "dateofbirth_bin", first: day(first_secs), last: day(last_secs) }
}
