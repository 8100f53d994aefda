//! Compression, and decompression with a limit.

use bytes::Bytes;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Decompress, FlushDecompress, Status};
use std::io::Write;

/// Minimum growth of the output in bytes. Memory follows the actual output, not a stated size.
const STEP_BYTES: usize = 4096;

/// Inflates a raw DEFLATE stream (RFC 1951), which must be the whole input. Returns `None` if the
/// stream is damaged or cut off, if bytes follow it, or if the output exceeds `size_bytes_max`.
pub(crate) fn inflate_raw(data: &[u8], size_bytes_max: usize) -> Option<Bytes> {
    inflate(Decompress::new(false), data, size_bytes_max)
}

/// Compresses to a raw DEFLATE stream.
pub(crate) fn deflate_raw(data: &[u8]) -> Bytes {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    let deflated = encoder.write_all(data).and_then(|()| encoder.finish());
    deflated.expect("memory takes all bytes").into()
}

/// As [`inflate_raw`] for a zlib stream (RFC 1950).
pub(crate) fn inflate_zlib(data: &[u8], size_bytes_max: usize) -> Option<Bytes> {
    inflate(Decompress::new(true), data, size_bytes_max)
}

fn inflate(mut state: Decompress, data: &[u8], size_bytes_max: usize) -> Option<Bytes> {
    let mut out = Vec::new();
    loop {
        if out.len() == out.capacity() {
            out.reserve(STEP_BYTES.max(out.len()));
        }
        let (read, written) = (state.total_in(), out.len());
        let rest = data.get(usize::try_from(read).ok()?..)?;
        let status = state.decompress_vec(rest, &mut out, FlushDecompress::None).ok()?;
        if out.len() > size_bytes_max {
            return None;
        }
        let stuck = state.total_in() == read && out.len() == written;
        match status {
            Status::StreamEnd => {
                return (state.total_in() == data.len() as u64).then(|| Bytes::from(out));
            }
            Status::Ok | Status::BufError if stuck => return None,
            Status::Ok | Status::BufError => {}
        }
    }
}
