//! Frames of values that are stored compressed.

use quoit_store::frame::{is_framed, pack, unpack, unpack_into};

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "compressed-frames", run, seeds };

/// Checks that an unpacked value is not larger than LZ4 permits for its frame, that it does not depend on
/// the buffer's old content, and that it survives being packed again with and without compression.
fn run(input: &[u8]) {
    let Ok(value) = unpack(input) else { return };
    assert!(value.len() <= input.len().saturating_mul(255), "more than the frame can stand for");
    if is_framed(input) {
        for left_over in [0x55, 0xAA] {
            let mut buffer = vec![left_over; value.len()];
            assert_eq!(unpack_into(input, &mut buffer), Ok(value.len()));
            assert_eq!(buffer, *value, "what a buffer had before shows through");
        }
    }
    for compresses in [false, true] {
        let mut stored = value.to_vec();
        pack(&mut stored, 0, compresses);
        let again = unpack(&stored).expect("what was just stored can be read");
        assert_eq!(again, value, "a value changes by being stored");
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let text = b"a line that says the same as the one before it\n".repeat(40);
    let zeros = vec![0; 5_000];
    let mut stored = vec![text.clone(), zeros, b"\xc7 looks like a frame".to_vec()];
    stored.iter_mut().for_each(|value| pack(value, 0, true));
    stored.push(text);
    stored
}
