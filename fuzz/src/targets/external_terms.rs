//! Erlang's external term format, in which Riak encodes version vectors, metadata and old keys.

use bytes::Bytes;
use quoit_model::etf::{Limits, Term};

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "external-terms", run, seeds };

/// Checks that a decoded term survives being encoded and decoded again.
fn run(input: &[u8]) {
    let Ok(term) = Term::decode(&Bytes::copy_from_slice(input), &Limits::STORED) else { return };
    let mut written = Vec::new();
    term.encode_into(&mut written);
    let written = Bytes::from(written);
    let again = Term::decode(&written, &Limits::STORED).expect("what was just encoded decodes");
    let mut twice = Vec::new();
    again.encode_into(&mut twice);
    assert_eq!(written, twice, "a term changes by being encoded");
}

fn seeds() -> Vec<Vec<u8>> {
    let terms: [&[u8]; 6] = [
        // {<<"maps">>, [1, 1000, -1], ok}
        b"\x83h\x03m\x00\x00\x00\x04mapsl\x00\x00\x00\x03a\x01b\x00\x00\x03\xe8b\xff\xff\xff\xffj\
          w\x02ok",
        // "text", as a string of bytes
        b"\x83k\x00\x04text",
        // A big integer, 2^64 + 1
        b"\x83n\x09\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01",
        // A float and an old atom
        b"\x83h\x02F\x3f\xf8\x00\x00\x00\x00\x00\x00d\x00\x03abc",
        // A map
        b"\x83t\x00\x00\x00\x01a\x01a\x02",
        // Compressed: the header of a stream that ends early
        b"\x83P\x00\x00\x00\x17\x78\x9c\xcb\x61\x60\x60\x60",
    ];
    terms.map(<[u8]>::to_vec).into()
}
