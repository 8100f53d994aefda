//! Random mutations of an input, of kinds that often break parsers.

use rand::rngs::StdRng;
use rand::{Rng, RngExt};

/// Greatest length of a mutated input, in bytes.
const INPUT_BYTES_MAX: usize = 16 * 1024;

/// Boundary values of lengths and counts.
const EDGES: [u8; 8] = [0x00, 0x01, 0x7f, 0x80, 0x81, 0xfe, 0xff, 0x0a];

/// Changes `input` in one to six places. `others` are inputs from which pieces are copied.
pub fn mutate(input: &mut Vec<u8>, others: &[Vec<u8>], random: &mut StdRng) {
    for _ in 0..random.random_range(1..=6) {
        change_once(input, others, random);
    }
    input.truncate(INPUT_BYTES_MAX);
}

fn change_once(input: &mut Vec<u8>, others: &[Vec<u8>], random: &mut StdRng) {
    if input.is_empty() {
        input.push(random.random());
        return;
    }
    let place = random.random_range(0..input.len());
    match random.random_range(0..9) {
        0 => input[place] ^= 1 << random.random_range(0..8),
        1 => input[place] = EDGES[random.random_range(0..EDGES.len())],
        2 => input[place] = input[place].wrapping_add(random.random_range(0..=8)).wrapping_sub(4),
        3 => input.truncate(place),
        4 => drop(input.drain(place..span_end(place, input.len(), random))),
        5 => {
            let piece = input[place..span_end(place, input.len(), random)].to_vec();
            insert(input, place, &piece);
        }
        6 => {
            let mut noise = vec![0; random.random_range(1..=8)];
            random.fill_bytes(&mut noise);
            insert(input, place, &noise);
        }
        7 => overwrite_number(input, place, random),
        _ => splice(input, place, others, random),
    }
}

/// A random end for a piece that begins at `place`, at most 64 bytes behind it.
fn span_end(place: usize, length: usize, random: &mut StdRng) -> usize {
    place + random.random_range(1..=(length - place).min(64))
}

fn insert(input: &mut Vec<u8>, place: usize, piece: &[u8]) {
    input.splice(place..place, piece.iter().copied());
}

/// Overwrites four bytes with a number that is a plausible wrong length.
fn overwrite_number(input: &mut [u8], place: usize, random: &mut StdRng) {
    let len = quoit_number::saturating_u32(input.len() as u64);
    let numbers = [0, 1, 5, len, u32::MAX, u32::MAX >> 1, 1 << 16, 1 << 28];
    let number = numbers[random.random_range(0..numbers.len())];
    for (byte, value) in input[place..].iter_mut().zip(number.to_be_bytes()) {
        *byte = value;
    }
}

/// Replaces the rest of the input by the end of another input.
fn splice(input: &mut Vec<u8>, place: usize, others: &[Vec<u8>], random: &mut StdRng) {
    if others.is_empty() {
        return;
    }
    let other = &others[random.random_range(0..others.len())];
    input.truncate(place);
    input.extend_from_slice(&other[random.random_range(0..=other.len())..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn the_same_seed_gives_the_same_inputs() {
        let make = || {
            let mut random = StdRng::seed_from_u64(7);
            let mut inputs = vec![b"some input".to_vec()];
            for _ in 0..200 {
                let mut next = inputs[inputs.len() / 2].clone();
                mutate(&mut next, &inputs, &mut random);
                inputs.push(next);
            }
            inputs
        };
        let inputs = make();
        assert_eq!(inputs, make());
        let changed = inputs.iter().filter(|input| *input != b"some input").count();
        assert!(changed > 180, "only {changed} of 200 inputs differ from the seed");
    }

    #[test]
    fn inputs_stay_bounded() {
        let mut random = StdRng::seed_from_u64(1);
        let mut input = vec![1; INPUT_BYTES_MAX];
        for _ in 0..2_000 {
            mutate(&mut input, &[vec![2; INPUT_BYTES_MAX]], &mut random);
            assert!(input.len() <= INPUT_BYTES_MAX);
        }
    }
}
