//! Reader of terms.

use super::inflate::inflate_zlib;
use super::{ETF_VERSION, EtfError, Limits, Term, tag};
use crate::cursor::{Cursor, Truncated};
use bytes::Bytes;

/// Number of bytes of an `i128`. Larger magnitudes do not fit, whatever their sign.
const I128_BYTES: usize = 16;

impl From<Truncated> for EtfError {
    fn from(truncated: Truncated) -> Self {
        Self::Truncated { at: truncated.at }
    }
}

pub(super) fn decode(input: &Bytes, limits: &Limits) -> Result<Term, EtfError> {
    let mut cursor = Cursor::new(input);
    let version = cursor.u8()?;
    if version != ETF_VERSION {
        return Err(EtfError::BadVersion { version });
    }
    if input.get(cursor.at()) != Some(&tag::COMPRESSED) {
        return whole(cursor, limits, input.len());
    }
    cursor.u8()?;
    let size_bytes = u32::from_be_bytes(cursor.array()?) as usize;
    let size_bytes_max = limits.inflated_bytes_max;
    if size_bytes > size_bytes_max {
        return Err(EtfError::TooLarge { size_bytes, size_bytes_max });
    }
    let inflated = inflate_zlib(cursor.slice(cursor.remaining())?, size_bytes)
        .filter(|inflated| inflated.len() == size_bytes)
        .ok_or(EtfError::BadCompression { size_bytes })?;
    whole(Cursor::new(&inflated), limits, inflated.len())
}

fn whole(cursor: Cursor<'_>, limits: &Limits, size_bytes: usize) -> Result<Term, EtfError> {
    let mut reader = TermReader { cursor, limits, terms: 0 };
    let term = reader.term(0)?;
    let at = reader.cursor.at();
    if at == size_bytes { Ok(term) } else { Err(EtfError::Surplus { at, size_bytes }) }
}

struct TermReader<'a> {
    cursor: Cursor<'a>,
    limits: &'a Limits,
    terms: u32,
}

impl TermReader<'_> {
    fn term(&mut self, depth: u32) -> Result<Term, EtfError> {
        if depth > self.limits.depth_max {
            return Err(EtfError::TooDeep { depth_max: self.limits.depth_max });
        }
        self.terms += 1;
        if self.terms > self.limits.terms_max {
            return Err(EtfError::TooMany { terms_max: self.limits.terms_max });
        }
        let at = self.cursor.at();
        Ok(match self.cursor.u8()? {
            tag::SMALL_INTEGER => Term::Integer(self.cursor.u8()?.into()),
            tag::INTEGER => Term::Integer(i32::from_be_bytes(self.cursor.array()?).into()),
            tag::SMALL_BIG => {
                let len = self.u8_len()?;
                self.big(len)?
            }
            tag::LARGE_BIG => {
                let len = self.u32_len()?;
                self.big(len)?
            }
            tag::FLOAT => Term::Float(f64::from_be_bytes(self.cursor.array()?)),
            tag::SMALL_ATOM | tag::SMALL_ATOM_UTF8 => {
                let len = self.u8_len()?;
                Term::Atom(self.cursor.bytes(len)?)
            }
            tag::ATOM | tag::ATOM_UTF8 => {
                let len = self.u16_len()?;
                Term::Atom(self.cursor.bytes(len)?)
            }
            tag::SMALL_TUPLE => {
                let len = self.u8_len()?;
                Term::Tuple(self.terms(len, depth)?)
            }
            tag::LARGE_TUPLE => {
                let len = self.u32_len()?;
                Term::Tuple(self.terms(len, depth)?)
            }
            tag::NIL => Term::List(Vec::new()),
            tag::STRING => {
                let len = self.u16_len()?;
                let text = self.cursor.bytes(len)?;
                if text.is_empty() { Term::List(Vec::new()) } else { Term::Text(text) }
            }
            tag::LIST => self.list(depth)?,
            tag::BINARY => {
                let len = self.u32_len()?;
                Term::Binary(self.cursor.bytes(len)?)
            }
            tag::MAP => {
                let len = self.u32_len()?;
                let mut pairs = Vec::new();
                for _ in 0..len {
                    pairs.push((self.term(depth + 1)?, self.term(depth + 1)?));
                }
                Term::Map(pairs)
            }
            tag => return Err(EtfError::UnknownTag { tag, at }),
        })
    }

    /// Reads terms. Reserves no memory by the count, which damaged input may state wrongly.
    fn terms(&mut self, len: usize, depth: u32) -> Result<Vec<Term>, EtfError> {
        let mut terms = Vec::new();
        for _ in 0..len {
            terms.push(self.term(depth + 1)?);
        }
        Ok(terms)
    }

    fn list(&mut self, depth: u32) -> Result<Term, EtfError> {
        let len = self.u32_len()?;
        let elements = self.terms(len, depth)?;
        let tail = self.term(depth + 1)?;
        Ok(match tail {
            Term::List(rest) if rest.is_empty() => Term::List(elements),
            tail => Term::ImproperList(elements, Box::new(tail)),
        })
    }

    fn big(&mut self, len: usize) -> Result<Term, EtfError> {
        let negative = self.cursor.u8()? != 0;
        let mut magnitude = self.cursor.bytes(len)?;
        let significant = magnitude.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        magnitude.truncate(significant);
        let mut bytes = [0; I128_BYTES];
        if let Some(low) = bytes.get_mut(..significant) {
            low.copy_from_slice(&magnitude);
            let unsigned = u128::from_le_bytes(bytes);
            let signed = if negative {
                0i128.checked_sub_unsigned(unsigned)
            } else {
                i128::try_from(unsigned).ok()
            };
            if let Some(integer) = signed {
                return Ok(Term::Integer(integer));
            }
        }
        Ok(Term::BigInteger { negative, magnitude })
    }

    fn u8_len(&mut self) -> Result<usize, EtfError> {
        Ok(self.cursor.u8()?.into())
    }

    fn u16_len(&mut self) -> Result<usize, EtfError> {
        Ok(u16::from_be_bytes(self.cursor.array()?).into())
    }

    fn u32_len(&mut self) -> Result<usize, EtfError> {
        Ok(u32::from_be_bytes(self.cursor.array()?) as usize)
    }
}
