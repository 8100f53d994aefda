//! Chunked request bodies (RFC 9112, section 7.1).

use super::head::HeadFault;
use bytes::{Buf, Bytes, BytesMut};

/// Largest size in bytes of a line: a chunk's size with its extensions, or a trailer.
const LINE_BYTES_MAX: usize = 4096;
/// Largest number of trailer lines.
const TRAILER_COUNT_MAX: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ChunkState {
    Size,
    Data(usize),
    DataEnd,
    Trailer(usize),
}

/// Decoder of a chunked body that arrives in parts.
#[derive(Debug)]
pub struct ChunkedBody {
    state: ChunkState,
    body: BytesMut,
    bytes_max: usize,
}

impl ChunkedBody {
    /// Creates a decoder for a body of at most `bytes_max` bytes. A larger body is refused.
    pub fn new(bytes_max: usize) -> Self {
        Self { state: ChunkState::Size, body: BytesMut::new(), bytes_max }
    }

    /// Number of bytes of the body that have arrived.
    pub fn received_bytes(&self) -> usize {
        self.body.len()
    }

    /// Number of bytes that the current chunk lacks; 0 between chunks.
    pub const fn missing_bytes(&self) -> usize {
        match self.state {
            ChunkState::Data(missing) => missing,
            _ => 0,
        }
    }

    /// The buffer of the body, to which bytes of the current chunk may be appended, at most
    /// [`ChunkedBody::missing_bytes`]. The caller must report their number to [`ChunkedBody::received`].
    pub const fn buffer(&mut self) -> &mut BytesMut {
        &mut self.body
    }

    /// Notes that bytes of the current chunk were appended to the buffer.
    ///
    /// # Panics
    ///
    /// If the chunk lacked fewer bytes.
    pub const fn received(&mut self, count: usize) {
        let missing = self.missing_bytes();
        assert!(count <= missing, "a chunk takes no more than its size");
        if count > 0 {
            let left = missing - count;
            self.state = if left == 0 { ChunkState::DataEnd } else { ChunkState::Data(left) };
        }
    }

    /// Consumes the part of `input` that belongs to the body. Returns the body when it is complete.
    /// Trailers are discarded.
    ///
    /// # Errors
    ///
    /// Malformed chunks, and a body over the limit.
    #[expect(
        clippy::indexing_slicing,
        reason = "`ready` is at most the number of bytes of the input"
    )]
    pub fn take(&mut self, input: &mut BytesMut) -> Result<Option<Bytes>, HeadFault> {
        loop {
            match self.state {
                ChunkState::Size => {
                    let Some(line) = take_line(input)? else { return Ok(None) };
                    let size = chunk_size(&line)?;
                    if size > self.bytes_max - self.body.len() {
                        return Err(HeadFault::BodyTooLarge);
                    }
                    self.state =
                        if size == 0 { ChunkState::Trailer(0) } else { ChunkState::Data(size) };
                }
                ChunkState::Data(missing) => {
                    debug_assert!(missing > 0, "a chunk without bytes is the last one");
                    debug_assert!(
                        missing <= self.bytes_max - self.body.len(),
                        "a chunk that exceeds the limit was refused when it began"
                    );
                    let ready = missing.min(input.len());
                    self.body.extend_from_slice(&input[..ready]);
                    input.advance(ready);
                    if ready < missing {
                        self.state = ChunkState::Data(missing - ready);
                        return Ok(None);
                    }
                    self.state = ChunkState::DataEnd;
                }
                ChunkState::DataEnd => {
                    let Some(line) = take_line(input)? else { return Ok(None) };
                    if !line.is_empty() {
                        return Err(HeadFault::BadChunk);
                    }
                    self.state = ChunkState::Size;
                }
                ChunkState::Trailer(count) => {
                    let Some(line) = take_line(input)? else { return Ok(None) };
                    if line.is_empty() {
                        return Ok(Some(std::mem::take(&mut self.body).freeze()));
                    }
                    if count == TRAILER_COUNT_MAX {
                        return Err(HeadFault::BadChunk);
                    }
                    self.state = ChunkState::Trailer(count + 1);
                }
            }
        }
    }
}

/// Takes a line and drops its CRLF. A bare LF is refused, because servers and proxies differ in how they
/// read it.
fn take_line(input: &mut BytesMut) -> Result<Option<BytesMut>, HeadFault> {
    let Some(end) = memchr::memchr(b'\n', input) else {
        if input.len() > LINE_BYTES_MAX {
            return Err(HeadFault::BadChunk);
        } else {
            return Ok(None);
        }
    };
    let before = end.checked_sub(1).and_then(|last| input.get(last));
    if end > LINE_BYTES_MAX || before != Some(&b'\r') {
        return Err(HeadFault::BadChunk);
    }
    let mut line = input.split_to(end + 1);
    line.truncate(end - 1);
    Ok(Some(line))
}

fn chunk_size(line: &[u8]) -> Result<usize, HeadFault> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
    let text = std::str::from_utf8(digits).map_err(|_| HeadFault::BadChunk)?;
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(HeadFault::BadChunk);
    }
    usize::from_str_radix(text, 16).map_err(|_| HeadFault::BodyTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn take_all(text: &[u8]) -> Result<Option<Bytes>, HeadFault> {
        ChunkedBody::new(100).take(&mut BytesMut::from(text))
    }

    #[test]
    fn chunks_are_put_together_and_what_follows_stays() {
        let mut input =
            BytesMut::from(&b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\nGET"[..]);
        let body = ChunkedBody::new(100).take(&mut input).expect("well-formed").expect("whole");
        assert_eq!(body, "abcde");
        assert_eq!(&input[..], b"GET");
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for bad in [&b"x\r\n"[..], b"3\nabc", b"3\r\nabcX\r\n", b"-1\r\n", b"\r\n", b" 3\r\nabc"] {
            assert_eq!(take_all(bad), Err(HeadFault::BadChunk), "{bad:?}");
        }
        assert_eq!(take_all(b"65\r\n"), Err(HeadFault::BodyTooLarge));
        assert_eq!(take_all(b"fffffffffffffffff\r\n"), Err(HeadFault::BodyTooLarge));
    }

    proptest! {
        #[test]
        fn a_body_is_the_same_however_it_is_cut_and_delivered(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..30), 0..6),
            step in 1..40usize,
            is_direct: bool,
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\n\r\n");
            let mut decoder = ChunkedBody::new(1000);
            let mut input = BytesMut::new();
            let mut body = None;
            let mut left = &wire[..];
            while !left.is_empty() {
                prop_assert!(body.is_none());
                let missing = decoder.missing_bytes();
                let (piece, behind) = left.split_at(step.min(left.len()));
                // Bytes of a chunk may also be appended to the body directly.
                if is_direct && input.is_empty() && missing > 0 {
                    let (direct, _) = piece.split_at(piece.len().min(missing));
                    decoder.buffer().extend_from_slice(direct);
                    decoder.received(direct.len());
                    left = &left[direct.len()..];
                } else {
                    input.extend_from_slice(piece);
                    left = behind;
                }
                body = decoder.take(&mut input).expect("well-formed");
            }
            prop_assert_eq!(body.expect("whole"), chunks.concat());
        }
    }
}
