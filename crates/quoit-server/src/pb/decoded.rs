//! Memory that a message takes when it is decoded.
//!
//! The byte fields of a decoded message are slices of the frame, but each field also takes a struct, which
//! is far larger than an empty field in a frame. Therefore the fields of large messages are counted before
//! they are decoded.

use quoit_wire::MessageCode;

/// Memory of a field besides its bytes: the largest struct that a message repeats.
const FIELD_BYTES: usize = 128;
/// Depth to which fields are counted in data type operations, in which maps contain maps.
const OPERATION_DEPTH: u32 = 8;

/// Number of the field with the object of a put.
const PUT_CONTENT: u64 = 4;

/// Upper bound of the memory in bytes that decoding a message takes besides its frame, as far as it comes
/// from repeated fields.
pub(super) fn decoded_bytes(code: u8, body: &[u8]) -> usize {
    let field_count = match MessageCode::from_byte(code) {
        // The value is not counted into: it is opaque, and may itself look like a message.
        Some(MessageCode::PutReq) => {
            let mut count = 0;
            for (number, inside) in (Fields { left: body }) {
                count += 1;
                if number == PUT_CONTENT {
                    count += Fields { left: inside }.count();
                }
            }
            count
        }
        Some(MessageCode::DtUpdateReq) => count_within(body, OPERATION_DEPTH),
        _ => Fields { left: body }.count(),
    };
    field_count.saturating_mul(FIELD_BYTES)
}

fn count_within(message: &[u8], depth: u32) -> usize {
    let of = |inside: &[u8]| if depth == 0 { 1 } else { 1 + count_within(inside, depth - 1) };
    Fields { left: message }.map(|(_, inside)| of(inside)).sum()
}

/// Iterator over the fields of a message: their numbers, and the bytes of length-delimited fields. It ends
/// at the end of the message, or where the message is malformed.
struct Fields<'a> {
    left: &'a [u8],
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, left) = self.left.split_first()?;
            self.left = left;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(count)?;
        self.left = left;
        Some(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.varint()?;
        let inside = match tag & 7 {
            0 => self.varint().map(|_| &[][..])?,
            1 => self.take(8).map(|_| &[][..])?,
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.take(length)?
            }
            5 => self.take(4).map(|_| &[][..])?,
            _ => return None,
        };
        Some((tag >> 3, inside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use prost::Message;
    use quoit_wire::messages::{DtOp, DtUpdateReq, RpbContent, RpbPair, RpbPutReq, SetOp};

    fn field_count(code: MessageCode, message: &impl Message) -> usize {
        decoded_bytes(code as u8, &message.encode_to_vec()) / FIELD_BYTES
    }

    #[test]
    fn what_a_put_repeats_is_counted_and_its_value_is_not() {
        let pair = RpbPair { key: Bytes::new(), value: None };
        let inner = RpbPutReq { bucket: "b".into(), ..RpbPutReq::default() };
        let put = |pair_count: usize, value: Vec<u8>| RpbPutReq {
            bucket: "b".into(),
            content: RpbContent {
                value: value.into(),
                usermeta: vec![pair.clone(); pair_count],
                ..RpbContent::default()
            },
            ..RpbPutReq::default()
        };
        // Bucket, content and value.
        assert_eq!(field_count(MessageCode::PutReq, &put(0, Vec::new())), 3);
        assert_eq!(field_count(MessageCode::PutReq, &put(500, inner.encode_to_vec())), 503);
    }

    #[test]
    fn elements_of_operations_are_counted_wherever_they_are() {
        let operation = SetOp { adds: vec![Bytes::new(); 700], removes: Vec::new() };
        let op = DtOp { set_op: Some(operation), ..DtOp::default() };
        let update = DtUpdateReq { bucket: "b".into(), op, ..DtUpdateReq::default() };
        assert!(field_count(MessageCode::DtUpdateReq, &update) >= 700);
    }

    #[test]
    fn damaged_messages_are_counted_up_to_the_damage() {
        let mut body = [10, 0].repeat(100);
        body.extend([10, 0xff, 0xff, 0x03, 1]);
        assert_eq!(decoded_bytes(MessageCode::ListKeysReq as u8, &body), 100 * FIELD_BYTES);
        assert_eq!(decoded_bytes(MessageCode::ListKeysReq as u8, &[0xff; 20]), 0);
    }
}
