//! The request of a get, encoded directly into a reused buffer.

use quoit_client::wire::MessageCode;

/// The name of a record in requests over Protocol Buffers.
#[derive(Debug, Clone, Copy)]
pub(super) struct PbRecordName<'a> {
    /// `None` for the type `default`.
    pub(super) bucket_type: Option<&'a [u8]>,
    pub(super) bucket: &'a [u8],
    pub(super) key: &'a [u8],
}

/// Writes the frame of a get request: the length, the message code, and the fields bucket, key, `r` and
/// bucket type. Allocates only while the buffer still grows.
///
/// # Panics
///
/// When the names together are longer than 4 GiB.
pub(super) fn write_get(frame: &mut Vec<u8>, record: PbRecordName<'_>, r: Option<u32>) {
    let PbRecordName { bucket_type, bucket, key } = record;
    frame.clear();
    frame.extend_from_slice(&[0, 0, 0, 0, MessageCode::GetReq as u8]);
    write_bytes(frame, 1, bucket);
    write_bytes(frame, 2, key);
    if let Some(r) = r {
        frame.push(3 << 3);
        write_varint(frame, u64::from(r));
    }
    if let Some(bucket_type) = bucket_type {
        write_bytes(frame, 13, bucket_type);
    }
    let length = u32::try_from(frame.len() - 4).expect("names are far below 4 GiB");
    if let Some(prefix) = frame.first_chunk_mut() {
        *prefix = length.to_be_bytes();
    }
}

/// Writes a field of bytes. `number` must be below 16.
fn write_bytes(frame: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    frame.push(number << 3 | 2);
    write_varint(frame, bytes.len() as u64);
    frame.extend_from_slice(bytes);
}

/// Writes a varint: seven bits per byte, the lowest first.
fn write_varint(frame: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        frame.push(quoit_number::low_u8(number) | 0x80);
        number >>= 7;
    }
    frame.push(quoit_number::low_u8(number));
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use quoit_client::wire::append_message;
    use quoit_client::wire::messages::RpbGetReq;

    use super::*;

    proptest! {
        #[test]
        fn the_frame_is_that_of_the_message(
            bucket_type in prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
            bucket in prop::collection::vec(any::<u8>(), 0..200),
            key in prop::collection::vec(any::<u8>(), 0..20_000),
            r in prop::option::of(any::<u32>()),
        ) {
            let mut frame = vec![1, 2, 3];
            let record =
                PbRecordName { bucket_type: bucket_type.as_deref(), bucket: &bucket, key: &key };
            write_get(&mut frame, record, r);
            let message = RpbGetReq {
                bucket: bucket.into(),
                key: key.into(),
                r,
                bucket_type: bucket_type.map(Bytes::from),
                ..RpbGetReq::default()
            };
            let mut expected = Vec::new();
            append_message(&mut expected, &message).expect("a frame");
            prop_assert_eq!(frame, expected);
        }
    }
}
