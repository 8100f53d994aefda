//! Cursors for large sets and maps, as clients receive and send them.

/// Version of the cursor format.
const FORMAT_1: u8 = 1;

/// Encodes a position as a cursor, which is opaque to clients.
#[must_use]
pub fn cursor_of(place: u64) -> Vec<u8> {
    let mut cursor = vec![FORMAT_1];
    cursor.extend_from_slice(&place.to_be_bytes());
    cursor
}

/// Decodes a cursor; `None` if it is invalid.
#[must_use]
pub fn place_of(cursor: &[u8]) -> Option<u64> {
    let (&format, place) = cursor.split_first()?;
    (format == FORMAT_1).then_some(())?;
    place.try_into().ok().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_come_back_and_others_are_none() {
        for place in [0, 7, u64::MAX] {
            assert_eq!(place_of(&cursor_of(place)), Some(place));
        }
        for cursor in [&b""[..], b"1", b"\x0112345678901", b"\x0212345678"] {
            assert_eq!(place_of(cursor), None);
        }
    }
}
