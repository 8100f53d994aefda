//! Content negotiation: choosing a form that the client accepts.
//!
//! Preferences come from the headers `Accept`, `Accept-Charset` and `Accept-Encoding` (RFC 9110, section
//! 12.5). Ties are broken as in Riak: exact types before wildcards, then later entries before earlier ones.

use quoit_number::{low_u16, whole};

/// A weight from 0 to 1000, in thousandths.
type Quality = u16;
const FULL: Quality = 1000;

/// The media type of `offers` that the client prefers; `None` if it accepts none of them. Without a header,
/// the first.
pub fn choose_media_type<'o>(accept: Option<&[u8]>, offers: &[&'o [u8]]) -> Option<&'o [u8]> {
    let Some(accept) = accept else { return offers.first().copied() };
    let mut best: Option<(Quality, u8, usize, &'o [u8])> = None;
    for (place, (range, quality)) in ranges(accept).enumerate() {
        if quality == 0 {
            continue;
        }
        let fitting = offers.iter().find_map(|offer| {
            let exactness = range.specificity(offer)?;
            (!is_excluded(ranges(accept), offer)).then_some((exactness, *offer))
        });
        let Some((exactness, offer)) = fitting else { continue };
        let candidate = (quality, exactness, place, offer);
        if best.is_none_or(|best| best < candidate) {
            best = Some(candidate);
        }
    }
    best.map(|(_, _, _, offer)| offer)
}

/// True if the client accepts a media type.
pub fn accepts_media_type(accept: Option<&[u8]>, media: &[u8]) -> bool {
    choose_media_type(accept, &[media]).is_some()
}

/// True if the most specific matching range excludes a media type.
fn is_excluded<'a>(ranges: impl Iterator<Item = (MediaRange<'a>, Quality)>, offer: &[u8]) -> bool {
    let deciding = ranges
        .filter_map(|(range, quality)| Some((range.specificity(offer)?, quality)))
        .max_by_key(|(exactness, _)| *exactness);
    deciding.is_some_and(|(_, quality)| quality == 0)
}

/// A media type that a client accepts, or a range of them.
#[derive(Clone, Copy)]
struct MediaRange<'a>(&'a [u8]);

impl MediaRange<'_> {
    /// Specificity with which the range matches a media type: 2 = exactly, 1 = by its type, 0 = by a
    /// wildcard. `None` if it does not match.
    fn specificity(self, media: &[u8]) -> Option<u8> {
        let range = self.0;
        if range.eq_ignore_ascii_case(media) {
            return Some(2);
        }
        if range == b"*/*" || range == b"*" {
            return Some(0);
        }
        let kind = range.strip_suffix(b"/*")?;
        let half = media.split(|byte| *byte == b'/').next()?;
        kind.eq_ignore_ascii_case(half).then_some(1)
    }
}

/// The ranges of an `Accept` header, with their weights.
fn ranges(accept: &[u8]) -> impl Iterator<Item = (MediaRange<'_>, Quality)> {
    list(accept).map(weighted).map(|(range, quality)| (MediaRange(range), quality))
}

/// True if an `Accept-Charset` header allows a charset. Without a header, all are allowed.
pub fn accepts_charset(header: Option<&[u8]>, charset: &[u8]) -> bool {
    accepts_word(header, charset, "iso-8859-1")
}

/// True if an `Accept-Encoding` header allows a content coding. Without a header, all are allowed.
pub fn accepts_encoding(header: Option<&[u8]>, encoding: &[u8]) -> bool {
    accepts_word(header, encoding, "identity")
}

/// True if the header allows `word`. `unless_excluded` is a word that is allowed unless the header excludes
/// it.
fn accepts_word(header: Option<&[u8]>, word: &[u8], unless_excluded: &str) -> bool {
    let Some(header) = header else { return true };
    let named = list(header).map(weighted).find(|(name, _)| name.eq_ignore_ascii_case(word));
    let deciding = named.or_else(|| list(header).map(weighted).find(|(name, _)| *name == b"*"));
    deciding
        .map_or(word.eq_ignore_ascii_case(unless_excluded.as_bytes()), |(_, quality)| quality > 0)
}

fn list(header: &[u8]) -> impl Iterator<Item = &[u8]> {
    header.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|part| !part.is_empty())
}

/// A member of a list and its weight. Other parameters are ignored.
fn weighted(member: &[u8]) -> (&[u8], Quality) {
    let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().unwrap_or_default();
    let quality = parts
        .find_map(|parameter| {
            let (sign, value) = parameter.split_at_checked(2)?;
            sign.eq_ignore_ascii_case(b"q=").then(|| parse_quality(value))
        })
        .unwrap_or(FULL);
    (name, quality)
}

/// Parses `1`, `0.5`, `.5` and the like. Invalid text gives 0, which excludes.
fn parse_quality(text: &[u8]) -> Quality {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse::<f32>().ok());
    match number {
        Some(number) if (0.0..=1.0).contains(&number) => {
            low_u16(whole(f64::from(number * f32::from(FULL))))
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIBLINGS: [&[u8]; 2] = [b"text/plain", b"multipart/mixed"];

    fn chosen(accept: &str) -> Option<&'static str> {
        let form = choose_media_type(Some(accept.as_bytes()), &SIBLINGS)?;
        Some(if form == SIBLINGS[0] { "text" } else { "multipart" })
    }

    #[test]
    fn the_form_of_siblings_follows_the_preferences() {
        for (accept, form) in [
            ("*/*", Some("text")),
            ("text/plain", Some("text")),
            ("multipart/mixed", Some("multipart")),
            ("*/*, multipart/mixed", Some("multipart")),
            ("multipart/mixed, */*", Some("multipart")),
            ("multipart/mixed, */*;q=0.9", Some("multipart")),
            ("multipart/mixed;q=0.5, text/plain", Some("text")),
            ("text/plain;q=0.5, multipart/*", Some("multipart")),
            ("application/json, */*;q=0.1", Some("text")),
            ("TEXT/*", Some("text")),
            ("application/json", None),
            ("*/*;q=0", None),
            ("*/*, text/plain;q=0", Some("multipart")),
            ("", None),
        ] {
            assert_eq!(chosen(accept), form, "Accept: {accept}");
        }
        assert_eq!(choose_media_type(None, &SIBLINGS), Some(SIBLINGS[0]));
    }

    #[test]
    fn a_stored_type_must_be_acceptable() {
        assert!(accepts_media_type(Some(b"text/plain;q=0.1, image/*"), b"text/plain"));
        assert!(accepts_media_type(Some(b"application/json; charset=utf-8"), b"application/json"));
        assert!(!accepts_media_type(Some(b"application/json"), b"text/plain"));
        assert!(!accepts_media_type(Some(b"text"), b"text/plain"));
    }

    #[test]
    fn charsets_and_encodings_are_named_or_wild_or_the_common_one() {
        for (header, charset, accepted) in [
            ("iso-8859-1, UTF-8;q=0.5", "utf-8", true),
            ("*", "utf-8", true),
            ("iso-8859-1", "utf-8", false),
            ("*, utf-8;q=0", "utf-8", false),
            ("utf-8", "ISO-8859-1", true),
            ("utf-8, *;q=0", "ISO-8859-1", false),
        ] {
            let found = accepts_charset(Some(header.as_bytes()), charset.as_bytes());
            assert_eq!(found, accepted, "{charset} under {header}");
        }
        assert!(accepts_charset(None, b"utf-8") && accepts_encoding(None, b"gzip"));
        assert!(!accepts_encoding(Some(b"identity"), b"gzip"));
        assert!(accepts_encoding(Some(b"gzip"), b"identity"));
        assert!(!accepts_encoding(Some(b"gzip, identity;q=0"), b"identity"));
    }
}
