//! An encoding of several byte strings in one that keeps their order: encoded strings compare as
//! their parts do, one after the other.
//!
//! A zero byte within a part is followed by 255, and two zero bytes end a part. So no encoded part
//! is a prefix of another.

/// Appends a part without its end. The encoding of every part that begins with these bytes begins
/// so.
pub fn push_front(out: &mut Vec<u8>, part: &[u8]) {
    for byte in part {
        out.push(*byte);
        if *byte == 0 {
            out.push(u8::MAX);
        }
    }
}

/// Appends a part.
pub fn push_part(out: &mut Vec<u8>, part: &[u8]) {
    push_front(out, part);
    out.extend_from_slice(&[0, 0]);
}

/// Reads the first part; returns it with the bytes that follow, or `None` if the input does not
/// begin with a whole part.
#[must_use]
pub fn read_part(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut part = Vec::new();
    let mut rest = bytes;
    loop {
        match rest {
            [0, 0, after @ ..] => return Some((part, after)),
            [0, u8::MAX, after @ ..] => {
                part.push(0);
                rest = after;
            }
            [0, ..] | [] => return None,
            [byte, after @ ..] => {
                part.push(*byte);
                rest = after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop_oneof![Just(0), Just(1), Just(255), any::<u8>()], 0..5)
    }

    fn encoded(parts: &[Vec<u8>; 2]) -> Vec<u8> {
        let mut out = Vec::new();
        parts.iter().for_each(|part| push_part(&mut out, part));
        out
    }

    proptest! {
        #[test]
        fn parts_keep_their_order_and_come_back(one in [part(), part()], other in [part(), part()]) {
            let (first, second) = (encoded(&one), encoded(&other));
            prop_assert_eq!(first.cmp(&second), one.cmp(&other));
            let (front, rest) = read_part(&first).unwrap();
            prop_assert_eq!(read_part(rest), Some((one[1].clone(), &[][..])));
            prop_assert_eq!(front, one[0].clone());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let _ = read_part(&bytes);
        }
    }
}
