//! HyperLogLogs in their stored form.

use quoit_model::hll::{HyperLogLog, Precision};

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "hyperloglogs", run, seeds };

/// Checks that a decoded HyperLogLog has only one encoding, and that it can be estimated, reduced and
/// merged.
fn run(input: &[u8]) {
    let Ok(mut hll) = HyperLogLog::decode(input) else { return };
    let mut again = Vec::new();
    hll.encode_into(&mut again);
    assert_eq!(again, input, "registers have two encodings");
    let reduced = hll.reduced_to(Precision::MIN);
    let _ = hll.estimate();
    hll.merge(&reduced);
    assert_eq!(hll, reduced, "a reduction has other elements than what it was made of");
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let encoded = |hll: HyperLogLog| {
        let mut out = Vec::new();
        hll.encode_into(&mut out);
        out
    };
    samples().into_iter().map(encoded).collect()
}

/// An empty HyperLogLog, one with a list of registers, and one with all registers.
pub(crate) fn samples() -> [HyperLogLog; 3] {
    [(14, 0u32), (10, 100), (4, 100)].map(|(bits, count)| {
        let mut hll = HyperLogLog::new(Precision::new(bits).expect("4 to 16"));
        for number in 0..count {
            hll.insert(&number.to_be_bytes());
        }
        hll
    })
}
