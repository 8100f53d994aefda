//! The encoded form of record keys.

use quoit_model::key::{BucketRef, KeyRef};

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "record-keys", run, seeds };

/// Checks that a decoded key is encoded to the same bytes: a key has only one encoding.
fn run(input: &[u8]) {
    if let Ok(key) = KeyRef::decode(input) {
        assert_eq!(&key.encoded()[..], input, "a record key has two encodings");
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let names: [(&[u8], &[u8], &[u8]); 3] = [
        (b"default", b"b", b"k"),
        (b"maps", b"\x00\xff", b"\x00\x01\x02"),
        (b"t", b"bucket", b"K"),
    ];
    let encode = |(bucket_type, bucket, key)| {
        let mut out = Vec::new();
        BucketRef { bucket_type, bucket }.key(key).encode_into(&mut out);
        out
    };
    names.map(encode).into()
}
