//! Detection of the end of a response's body.

use super::HttpError;

/// Maximum length of a line with a chunk's size or a trailer, in bytes.
const LINE_BYTES_MAX: usize = 16 << 10;

/// The reading state of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// This many bytes are still to come.
    Sized(u64),
    /// The body is in chunks.
    Chunked(Chunk),
    /// The body ends when the server closes the connection.
    UntilClose,
}

/// The position within a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunk {
    /// Before the line with the size of a chunk.
    Size,
    /// This many bytes of a chunk and its line break are still to come.
    Data(u64),
    /// Before a line after the last chunk.
    Trailer,
    /// After the end.
    End,
}

impl Body {
    /// True if the body is complete.
    pub(super) fn is_complete(self) -> bool {
        matches!(self, Self::Sized(0) | Self::Chunked(Chunk::End))
    }

    /// Consumes bytes of the body from the front of `bytes` and returns their number. Bytes of an
    /// incomplete line are not consumed. The content is appended to `kept`, if given.
    pub(super) fn consume(
        &mut self,
        bytes: &[u8],
        mut kept: Option<&mut Vec<u8>>,
    ) -> Result<usize, HttpError> {
        let mut taken = 0;
        while !self.is_complete()
            && let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty())
        {
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(self.content_at_front(rest));
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

    /// The next bytes that are content.
    fn content_at_front(self, available: &[u8]) -> &[u8] {
        let content = match self {
            Self::UntilClose => return available,
            Self::Sized(left) => left,
            // The line break after a chunk is not content.
            Self::Chunked(Chunk::Data(left)) => left.saturating_sub(2),
            Self::Chunked(_) => 0,
        };
        let content = usize::try_from(content).ok().and_then(|content| available.get(..content));
        content.unwrap_or(available)
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), HttpError> {
        let at_size = *self == Self::Chunked(Chunk::Size);
        let next = if at_size {
            match size_of(line)
                .ok_or(HttpError::Malformed("the size of a chunk is not a number"))?
            {
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

/// The first line without its line break, and its length including it, if the line is complete.
fn line_of(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, HttpError> {
    let line = bytes.iter().position(|byte| *byte == b'\n').and_then(|end| bytes.get(..end));
    match line {
        Some(line) => Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), line.len() + 1))),
        None if bytes.len() > LINE_BYTES_MAX => {
            Err(HttpError::Malformed("a line of a chunked body does not end"))
        }
        None => Ok(None),
    }
}

/// The size at the beginning of a chunk's line, before any extension.
fn size_of(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
