//! Causal contexts. They are opaque to clients, so a client may send back arbitrary bytes.

use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::context::{check_context, decode_context, encode_context};
use quoit_model::riak_clock::encode_riak_clock;

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "contexts", run, seeds };

/// Checks that the clock in a decoded context survives being encoded and decoded again, and that a node can
/// check it against the highest counter that it has issued.
fn run(input: &[u8]) {
    let Ok(clock) = decode_context(input) else { return };
    let again = decode_context(&encode_context(&clock)).expect("a context of our own decodes");
    assert_eq!(again, clock, "a context changes by being sent");
    let own = Actor(b"actor-01".as_slice().into());
    let counter = clock.counter(&own);
    assert!(check_context(&clock, &own, counter).is_ok());
    assert_eq!(check_context(&clock, &own, 0).is_ok(), counter == 0);
}

fn seeds() -> Vec<Vec<u8>> {
    let dot = |actor: &[u8], counter| Dot {
        actor: Actor(actor.into()),
        counter,
        time_secs: 63_900_000_000,
    };
    let one = VersionVector::from_entries([dot(b"actor-01", 7)]);
    let three = VersionVector::from_entries([
        dot(b"actor-01", 1 << 40),
        dot(b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b", 3),
        dot(b"x", 1),
    ]);
    let mut riak = Vec::new();
    encode_riak_clock(&three, &mut riak);
    vec![encode_context(&one).to_vec(), encode_context(&three).to_vec(), riak, Vec::new()]
}
