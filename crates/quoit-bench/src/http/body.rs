//! Where the body of a response ends.

use super::HttpError;

/// Longest line of a chunk's size or of a trailer.
const LINE_BYTES_MAX: usize = 16 << 10;

/// How far a body has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// This many bytes are still to come.
    Sized(u64),
    /// In chunks.
    Chunked(Chunk),
    /// Until the server closes the connection.
    UntilClose,
}

/// Place in a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunk {
    /// At the line with the size of a chunk.
    Size,
    /// This many bytes of a chunk and its line end are still to come.
    Data(u64),
    /// At a line after the last chunk.
    Trailer,
    /// Past the end.
    End,
}

impl Body {
    /// True when nothing more belongs to the body.
    pub(super) fn is_complete(self) -> bool {
        matches!(self, Self::Sized(0) | Self::Chunked(Chunk::End))
    }

    /// Takes bytes of the body off the front of `bytes`; says how many. Bytes of a line that is
    /// not whole yet stay. The content goes to `kept`, if anywhere.
    pub(super) fn consume(
        &mut self,
        bytes: &[u8],
        mut kept: Option<&mut Vec<u8>>,
    ) -> Result<usize, HttpError> {
        let mut taken = 0;
        while taken < bytes.len() && !self.is_complete() {
            let rest = &bytes[taken..];
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(&rest[..self.content_at_front(rest.len())]);
            }
            let step = match self {
                Self::UntilClose => rest.len(),
                Self::Sized(left) | Self::Chunked(Chunk::Data(left)) => take(left, rest.len()),
                Self::Chunked(_) => match line_of(rest)? {
                    None => return Ok(taken),
                    Some((line, size)) => {
                        self.take_line(line)?;
                        size
                    }
                },
            };
            taken += step;
            if *self == Self::Chunked(Chunk::Data(0)) {
                *self = Self::Chunked(Chunk::Size);
            }
        }
        Ok(taken)
    }

    /// How many of the next bytes are content.
    fn content_at_front(self, available: usize) -> usize {
        let content = match self {
            Self::UntilClose => return available,
            Self::Sized(left) => left,
            // The line end behind a chunk is none.
            Self::Chunked(Chunk::Data(left)) => left.saturating_sub(2),
            Self::Chunked(_) => 0,
        };
        usize::try_from(content).map_or(available, |content| content.min(available))
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), HttpError> {
        let at_size = *self == Self::Chunked(Chunk::Size);
        let next = if at_size {
            match size_of(line).ok_or(HttpError::Malformed("the size of a chunk is no number"))? {
                0 => Chunk::Trailer,
                size => Chunk::Data(size + 2),
            }
        } else if line.is_empty() {
            Chunk::End
        } else {
            Chunk::Trailer
        };
        *self = Self::Chunked(next);
        Ok(())
    }
}

fn take(left: &mut u64, available: usize) -> usize {
    let taken = usize::try_from(*left).map_or(available, |left| left.min(available));
    *left -= taken as u64;
    taken
}

/// The first line without its end, and its size with it, if it is whole.
fn line_of(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, HttpError> {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => Ok(Some((bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]), end + 1))),
        None if bytes.len() > LINE_BYTES_MAX => {
            Err(HttpError::Malformed("a line of a chunked body does not end"))
        }
        None => Ok(None),
    }
}

/// The size at the front of a chunk's line, before any extension.
fn size_of(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
