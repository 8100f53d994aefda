//! Siblings in a body of type `multipart/mixed` (RFC 2046).

use super::{HttpError, ResponseContent};

/// Header of a part that is a tombstone.
const DELETED: &[u8] = b"x-riak-deleted:";

/// The bodies of the parts, without tombstones.
pub(crate) fn values_of(content: ResponseContent<'_>) -> Result<Vec<&[u8]>, HttpError> {
    let ResponseContent { content_type, body } = content;
    let malformed = HttpError::Malformed("siblings that are not multipart/mixed");
    let Some(boundary) = boundary_of(content_type) else { return Err(malformed) };
    let delimiter = [b"--", boundary].concat();
    // The first delimiter may be at the very start, without a line break before it.
    let Some((_, mut rest)) = split_once(body, &delimiter) else { return Err(malformed) };
    let separator = [b"\r\n", &delimiter[..]].concat();
    let mut values = Vec::new();
    while !rest.starts_with(b"--") {
        let Some((part, after)) = split_once(rest, &separator) else { return Err(malformed) };
        let part = part.strip_prefix(b"\r\n").and_then(|part| split_once(part, b"\r\n\r\n"));
        let Some((head, value)) = part else { return Err(malformed) };
        let is_deleted = head
            .split(|byte| *byte == b'\n')
            .any(|line| line.to_ascii_lowercase().starts_with(DELETED));
        if !is_deleted {
            values.push(value);
        }
        rest = after;
    }
    Ok(values)
}

fn boundary_of(content_type: &[u8]) -> Option<&[u8]> {
    let place = find(&content_type.to_ascii_lowercase(), b"boundary=")?;
    let value = content_type.get(place + b"boundary=".len()..)?;
    let value = value.split(|byte| *byte == b';').next()?.trim_ascii();
    let unquoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    Some(unquoted.unwrap_or(value)).filter(|boundary| !boundary.is_empty())
}

/// The text before the first occurrence of a pattern, and the text after it.
fn split_once<'a>(text: &'a [u8], pattern: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (before, rest) = text.split_at_checked(find(text, pattern)?)?;
    Some((before, rest.strip_prefix(pattern)?))
}

fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    text.windows(pattern.len()).position(|window| window == pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &[u8] = b"multipart/mixed; boundary=abc";

    #[test]
    fn parts_are_values_and_deletes_are_none() {
        let body = b"\r\n--abc\r\nContent-Type: text/plain\r\n\r\none\r\n--abc\r\nA: b\r\n\
            X-Riak-Deleted: true\r\n\r\n\r\n--abc\r\nA: b\r\n\r\ntw\r\no\r\n--abc--\r\n";
        let expected: [&[u8]; 2] = [b"one", b"tw\r\no"];
        for content_type in [TYPE, b"multipart/mixed;boundary=\"abc\""] {
            assert_eq!(values_of(ResponseContent { content_type, body }).expect("parts"), expected);
        }
        let empty = ResponseContent { content_type: TYPE, body: b"--abc--" };
        assert!(values_of(empty).expect("no parts").is_empty());
    }

    #[test]
    fn anything_else_is_malformed() {
        let bodies: [&[u8]; 5] =
            [b"", b"--abc", b"--abc\r\n", b"--abc\r\nA: b\r\n\r\nx", b"--abc\r\nx\r\n--abc--"];
        for body in bodies {
            let content = ResponseContent { content_type: TYPE, body };
            assert!(values_of(content).is_err(), "{}", body.escape_ascii());
        }
        let plain = ResponseContent { content_type: b"text/plain", body: b"--abc--" };
        assert!(values_of(plain).is_err());
    }
}
