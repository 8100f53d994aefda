//! Paths, query strings and percent-encoding.

use quoit_number::low_u8;
use smallvec::SmallVec;
use std::borrow::Cow;

/// Largest number of parts of a path. Longer paths name no resource.
const SEGMENT_COUNT_MAX: usize = 64;

/// Path and query of a request target, both as sent. Scheme and host are removed.
pub fn split_target(target: &[u8]) -> (&[u8], &[u8]) {
    let target = match target.strip_prefix(b"http://").or(target.strip_prefix(b"https://")) {
        Some(rest) => {
            memchr::memchr(b'/', rest).and_then(|slash| rest.get(slash..)).unwrap_or(b"/")
        }
        None => target,
    };
    let target = split_once(target, b'#').map_or(target, |(before, _)| before);
    split_once(target, b'?').unwrap_or((target, &[]))
}

/// The parts before and behind the first `mark`; `None` without a mark.
pub fn split_once(text: &[u8], mark: u8) -> Option<(&[u8], &[u8])> {
    let (before, rest) = text.split_at_checked(memchr::memchr(mark, text)?)?;
    Some((before, rest.strip_prefix(&[mark])?))
}

/// The non-empty parts of a path, as sent; `None` if there are too many.
pub fn segments(path: &[u8]) -> Option<SmallVec<[&[u8]; 8]>> {
    let mut parts = SmallVec::new();
    for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        if parts.len() == SEGMENT_COUNT_MAX {
            return None;
        }
        parts.push(part);
    }
    Some(parts)
}

/// Decodes `%XX` and `+`. Invalid escapes stay as they are. Copies only if there is something to decode.
pub fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'%', b'+', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let (byte, left) = match (first, tail) {
            (b'+', _) => (b' ', tail),
            (b'%', [high, low, left @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, left),
                _ => (b'%', tail),
            },
            (byte, _) => (*byte, tail),
        };
        decoded.push(byte);
        rest = left;
    }
    Cow::Owned(decoded)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| low_u8(value.into()))
}

/// Appends a name percent-encoded, a space as `+`.
#[expect(clippy::indexing_slicing, reason = "four bits are the number of a digit")]
pub fn encode_into(out: &mut Vec<u8>, name: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(*byte),
            b' ' => out.push(b'+'),
            byte => {
                let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                out.extend_from_slice(&[b'%', DIGITS[high], DIGITS[low]]);
            }
        }
    }
}

/// Names and values of a query string, decoded, in the order sent. As in Riak, `&` and `;` separate pairs.
pub fn query_pairs(query: &[u8]) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    query.split(|byte| matches!(byte, b'&' | b';')).filter(|pair| !pair.is_empty()).map(|pair| {
        match split_once(pair, b'=') {
            Some((name, value)) => (decode(name), decode(value)),
            None => (decode(pair), Cow::Borrowed(&b""[..])),
        }
    })
}

/// The first value of a query parameter.
pub fn query_value<'q>(query: &'q [u8], name: &str) -> Option<Cow<'q, [u8]>> {
    query_pairs(query).find(|(found, _)| **found == *name.as_bytes()).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_and_plus_are_decoded_once() {
        assert_eq!(&*decode(b"a%2Fb%20c+d%25"), b"a/b c d%");
        assert_eq!(&*decode(b"%00%ff%80"), &[0, 0xff, 0x80]);
        assert_eq!(&*decode(b"100%"), b"100%");
        assert_eq!(&*decode(b"%zz%4"), b"%zz%4");
        assert!(matches!(decode(b"plain"), Cow::Borrowed(_)), "nothing to decode, nothing copied");
    }

    #[test]
    fn empty_parts_of_a_path_collapse() {
        let parts = segments(b"//buckets//b/keys/").expect("few");
        assert_eq!(&parts[..], [&b"buckets"[..], b"b", b"keys"]);
        assert!(segments(b"/a".repeat(100).as_slice()).is_none());
    }

    #[test]
    fn targets_split_at_the_question_mark() {
        assert_eq!(split_target(b"/a/b?c=d?e"), (&b"/a/b"[..], &b"c=d?e"[..]));
        assert_eq!(split_target(b"http://host:1/a?b"), (&b"/a"[..], &b"b"[..]));
        assert_eq!(split_target(b"http://host"), (&b"/"[..], &b""[..]));
    }

    #[test]
    fn the_first_of_several_query_values_counts() {
        assert_eq!(query_value(b"r=1&w=2&r=3", "r").as_deref(), Some(&b"1"[..]));
        assert_eq!(query_value(b"r", "r").as_deref(), Some(&b""[..]));
        assert_eq!(query_value(b"%72=a%20b", "r").as_deref(), Some(&b"a b"[..]));
        assert_eq!(query_value(b"", "r"), None);
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_itself(name in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut encoded = Vec::new();
            encode_into(&mut encoded, &name);
            prop_assert!(encoded.iter().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(&*decode(&encoded), &name[..]);
        }
    }
}
