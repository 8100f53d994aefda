use proptest::prelude::*;

use super::body::{Body, Chunk};

/// Feeds `bytes` to the body in pieces of `piece` bytes. Returns the number of bytes after the body, or
/// `None` if the body is incomplete or malformed.
fn rest_of(mut body: Body, bytes: &[u8], piece: usize) -> Option<usize> {
    let mut buffer: Vec<u8> = Vec::new();
    let mut read = 0;
    while !body.is_complete() {
        let taken = body.consume(&buffer, None).ok()?;
        buffer.drain(..taken);
        if body.is_complete() {
            break;
        }
        if read == bytes.len() {
            return None;
        }
        let next = (read + piece).min(bytes.len());
        buffer.extend_from_slice(&bytes[read..next]);
        read = next;
    }
    Some(buffer.len() + bytes.len() - read)
}

fn chunked(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        bytes.extend_from_slice(format!("{:x};ext=1\r\n", part.len()).as_bytes());
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\nTrailer: x\r\n\r\n");
    bytes
}

#[test]
fn chunk_sizes_that_are_no_numbers_are_refused() {
    for text in ["x\r\n", "\r\n", "-1\r\n", "1 1\r\n", "ffffffffffffffff\r\n"] {
        let mut body = Body::Chunked(Chunk::Size);
        assert!(body.consume(text.as_bytes(), None).is_err(), "{text:?}");
    }
    let endless = vec![b'1'; 100_000];
    assert!(Body::Chunked(Chunk::Size).consume(&endless, None).is_err());
}

proptest! {
    #[test]
    fn a_body_ends_where_it_should_however_it_arrives(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..6),
        piece in 1_usize..40,
        behind in 0_usize..20,
    ) {
        let mut bytes = chunked(&parts);
        bytes.extend(std::iter::repeat_n(b'G', behind));
        prop_assert_eq!(rest_of(Body::Chunked(Chunk::Size), &bytes, piece), Some(behind));
        let length = (bytes.len() - behind) as u64;
        prop_assert_eq!(rest_of(Body::Sized(length), &bytes, piece), Some(behind));
        prop_assert_eq!(rest_of(Body::Sized(length + behind as u64 + 1), &bytes, piece), None);
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..100), piece in 1_usize..9) {
        rest_of(Body::Chunked(Chunk::Size), &bytes, piece);
    }
}
