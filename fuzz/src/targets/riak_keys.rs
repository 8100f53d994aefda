//! Names of records in the encoding of Riak's engines.

use bytes::Bytes;
use quoit_model::bitcask_key::{BitcaskKey, encode_bitcask_key, encode_bitcask_key_v0};
use quoit_model::key::{BucketRef, KeyRef};

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "riak-keys", run, seeds };

/// Checks that a valid decoded name survives being encoded and decoded again.
fn run(input: &[u8]) {
    let Ok(name) = BitcaskKey::decode(&Bytes::copy_from_slice(input)) else { return };
    if name.as_key_ref().check().is_err() {
        return;
    }
    let mut written = Vec::new();
    encode_bitcask_key(name.as_key_ref(), &mut written);
    let again = BitcaskKey::decode(&Bytes::from(written)).expect("what was encoded decodes");
    assert_eq!(again, name, "a name changes by being encoded");
}

fn seeds() -> Vec<Vec<u8>> {
    let names: [KeyRef<'static>; 2] = [
        BucketRef { bucket_type: b"default", bucket: b"bucket" }.key(b"key"),
        BucketRef { bucket_type: b"maps", bucket: b"\x00\xff" }.key(b"\x01"),
    ];
    let mut seeds = Vec::new();
    for name in names {
        for encode in [encode_bitcask_key, encode_bitcask_key_v0] {
            let mut out = Vec::new();
            encode(name, &mut out);
            seeds.push(out);
        }
    }
    seeds
}
