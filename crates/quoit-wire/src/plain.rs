//! Plain requests: the fields of a simple get or put, borrowed from the read buffer.
//!
//! Nearly all requests have each field at most once, with the right wire type, and no rare fields.
//! Reading them needs neither a reference count for each byte string nor a check against the
//! message's shape. For every other body, malformed ones included, the functions here return
//! `None`, and [`Body::decode_body`](crate::messages::Body::decode_body) decodes it or describes
//! the fault.

use crate::code::MessageCode;

/// A frame that is still in the read buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameRef<'a> {
    /// The message code, known or not.
    pub code: u8,
    /// The encoded message.
    pub body: &'a [u8],
    /// Size in bytes of the whole frame in the buffer, length field included.
    pub size_bytes: usize,
}

impl FrameRef<'_> {
    /// True if the frame has this message code.
    #[must_use]
    pub const fn is(&self, code: MessageCode) -> bool {
        self.code == code as u8
    }
}

/// An [`RpbGetReq`](crate::messages::RpbGetReq), borrowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlainGet<'a> {
    /// Bucket type.
    pub bucket_type: Option<&'a [u8]>,
    /// Bucket.
    pub bucket: &'a [u8],
    /// Key.
    pub key: &'a [u8],
    /// Replicas that must answer.
    pub r: Option<u32>,
    /// Primaries that must answer.
    pub pr: Option<u32>,
    /// True if a majority of failures ends the read early.
    pub basic_quorum: Option<bool>,
    /// True if "not found" counts as an answer.
    pub notfound_ok: Option<bool>,
    /// True to return the metadata with empty values.
    pub head: Option<bool>,
    /// True to return the context of a tombstone.
    pub deletedvclock: Option<bool>,
    /// Timeout in milliseconds.
    pub timeout: Option<u32>,
    /// False to use primaries only, without fallbacks.
    pub sloppy_quorum: Option<bool>,
    /// Number of nodes of the preference list to use.
    pub n_val: Option<u32>,
    /// Distinct nodes that must take part.
    pub node_confirms: Option<u32>,
}

impl<'a> PlainGet<'a> {
    /// Reads a body. Returns `None` if it is malformed or not plain: it has a condition, an unknown
    /// field, or a field twice.
    #[must_use]
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let mut get = Self::default();
        let (mut bucket, mut key) = (None, None);
        let mut fields = Fields { rest: body };
        while !fields.rest.is_empty() {
            match fields.key()? {
                (1, BYTES) => once(&mut bucket, fields.bytes()?)?,
                (2, BYTES) => once(&mut key, fields.bytes()?)?,
                (3, VARINT) => once(&mut get.r, fields.u32()?)?,
                (4, VARINT) => once(&mut get.pr, fields.u32()?)?,
                (5, VARINT) => once(&mut get.basic_quorum, fields.bool()?)?,
                (6, VARINT) => once(&mut get.notfound_ok, fields.bool()?)?,
                (8, VARINT) => once(&mut get.head, fields.bool()?)?,
                (9, VARINT) => once(&mut get.deletedvclock, fields.bool()?)?,
                (10, VARINT) => once(&mut get.timeout, fields.u32()?)?,
                (11, VARINT) => once(&mut get.sloppy_quorum, fields.bool()?)?,
                (12, VARINT) => once(&mut get.n_val, fields.u32()?)?,
                (13, BYTES) => once(&mut get.bucket_type, fields.bytes()?)?,
                (14, VARINT) => once(&mut get.node_confirms, fields.u32()?)?,
                _ => return None,
            }
        }
        (get.bucket, get.key) = (bucket?, key?);
        Some(get)
    }
}

/// An [`RpbPutReq`](crate::messages::RpbPutReq) with a value and at most a content type, without
/// conditions, and without a request to return the object; borrowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlainPut<'a> {
    /// Bucket type.
    pub bucket_type: Option<&'a [u8]>,
    /// Bucket.
    pub bucket: &'a [u8],
    /// Key.
    pub key: &'a [u8],
    /// The context of the values that this write replaces.
    pub vclock: Option<&'a [u8]>,
    /// The value.
    pub value: &'a [u8],
    /// MIME type of the value.
    pub content_type: Option<&'a [u8]>,
    /// Replicas that must have accepted the write.
    pub w: Option<u32>,
    /// Replicas on which the write must be durable.
    pub dw: Option<u32>,
    /// Primaries that must have accepted the write.
    pub pw: Option<u32>,
    /// Timeout in milliseconds.
    pub timeout: Option<u32>,
    /// False to use primaries only, without fallbacks.
    pub sloppy_quorum: Option<bool>,
    /// Number of nodes of the preference list to use.
    pub n_val: Option<u32>,
    /// Distinct nodes that must take part.
    pub node_confirms: Option<u32>,
}

impl<'a> PlainPut<'a> {
    /// Reads a body. Returns `None` if it is malformed or not plain.
    #[must_use]
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let mut put = Self::default();
        let (mut bucket, mut key, mut content) = (None, None, None);
        let mut fields = Fields { rest: body };
        while !fields.rest.is_empty() {
            match fields.key()? {
                (1, BYTES) => once(&mut bucket, fields.bytes()?)?,
                (2, BYTES) => once(&mut key, fields.bytes()?)?,
                (3, BYTES) => once(&mut put.vclock, fields.bytes()?)?,
                (4, BYTES) => once(&mut content, fields.bytes()?)?,
                (5, VARINT) => once(&mut put.w, fields.u32()?)?,
                (6, VARINT) => once(&mut put.dw, fields.u32()?)?,
                (8, VARINT) => once(&mut put.pw, fields.u32()?)?,
                // These fields request the object back, set a condition, or store the context as it
                // is. They may be absent or false.
                (7 | 9 | 10 | 11 | 13, VARINT) if !fields.bool()? => {}
                (12, VARINT) => once(&mut put.timeout, fields.u32()?)?,
                (14, VARINT) => once(&mut put.sloppy_quorum, fields.bool()?)?,
                (15, VARINT) => once(&mut put.n_val, fields.u32()?)?,
                (16, BYTES) => once(&mut put.bucket_type, fields.bytes()?)?,
                (17, VARINT) => once(&mut put.node_confirms, fields.u32()?)?,
                _ => return None,
            }
        }
        (put.bucket, put.key) = (bucket?, key?);
        put.read_content(content?)?;
        Some(put)
    }

    fn read_content(&mut self, content: &'a [u8]) -> Option<()> {
        let mut value = None;
        let mut fields = Fields { rest: content };
        while !fields.rest.is_empty() {
            match fields.key()? {
                (1, BYTES) => once(&mut value, fields.bytes()?)?,
                (2, BYTES) => once(&mut self.content_type, fields.bytes()?)?,
                _ => return None,
            }
        }
        self.value = value?;
        Some(())
    }
}

const VARINT: u64 = 0;
const BYTES: u64 = 2;

/// Sets a field; returns `None` if it was already set.
#[inline]
fn once<T>(field: &mut Option<T>, value: T) -> Option<()> {
    match field.replace(value) {
        None => Some(()),
        Some(_) => None,
    }
}

/// Takes fields from the front of a message.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Tag and wire type of a field.
    #[inline]
    fn key(&mut self) -> Option<(u64, u64)> {
        let key = self.varint()?;
        Some((key >> 3, key & 7))
    }

    #[inline]
    fn varint(&mut self) -> Option<u64> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        if *first < 0x80 {
            return Some(u64::from(*first));
        }
        self.long_varint(u64::from(first & 0x7f))
    }

    /// Reads the rest of a number of two to nine bytes. Longer numbers are not plain.
    fn long_varint(&mut self, mut value: u64) -> Option<u64> {
        for shift in (7..63).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    #[inline]
    fn u32(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }

    #[inline]
    fn bool(&mut self) -> Option<bool> {
        match self.varint()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    #[inline]
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let size = usize::try_from(self.varint()?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(size)?;
        self.rest = rest;
        Some(bytes)
    }
}
