//! Objects in Riak's own form, which its engines store and its replication sends.

use bytes::Bytes;
use quoit_model::riak_object::{decode_riak_object, encode_riak_object};

use crate::Target;
use crate::targets::stored_objects::sample_objects;

pub(crate) const TARGET: Target = Target { name: "riak-objects", run, seeds };

/// Checks that a decoded object survives being encoded and decoded again.
fn run(input: &[u8]) {
    let Ok(object) = decode_riak_object(&Bytes::copy_from_slice(input)) else { return };
    let mut written = Vec::new();
    encode_riak_object(&object, &mut written);
    let written = Bytes::from(written);
    let again = decode_riak_object(&written).expect("what was just encoded decodes");
    let mut twice = Vec::new();
    encode_riak_object(&again, &mut twice);
    assert_eq!(written, twice, "an object changes by being read and written");
}

fn seeds() -> Vec<Vec<u8>> {
    let encode = |object| {
        let mut out = Vec::new();
        encode_riak_object(&object, &mut out);
        out
    };
    sample_objects().into_iter().map(encode).collect()
}
