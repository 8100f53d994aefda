use super::*;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeMap;

fn any_precision() -> impl Strategy<Value = Precision> {
    (4u8..=16).prop_map(|bits| Precision::new(bits).expect("4 to 16"))
}

/// From 0 to 2000 elements, given by numbers.
fn any_elements() -> impl Strategy<Value = Vec<u32>> {
    let few = prop::collection::vec(0u32..500, 0..30);
    let many = (0u32..1000, 0u32..2000).prop_map(|(first, count)| (first..first + count).collect());
    prop_oneof![few, many]
}

fn with(precision: Precision, elements: &[u32]) -> HyperLogLog {
    let mut hll = HyperLogLog::new(precision);
    for element in elements {
        hll.insert(&element.to_be_bytes());
    }
    hll
}

fn merged(left: &HyperLogLog, right: &HyperLogLog) -> HyperLogLog {
    let mut merged = left.clone();
    merged.merge(right);
    merged
}

fn encoded(hll: &HyperLogLog) -> Vec<u8> {
    let mut out = Vec::new();
    hll.encode_into(&mut out);
    out
}

/// The registers by their definition, bit by bit.
fn naive(precision: Precision, elements: &[u32]) -> BTreeMap<u16, u8> {
    let mut registers = BTreeMap::new();
    for element in elements {
        let hash = Sha1::digest(element.to_be_bytes());
        let bit = |place: usize| hash[place / 8] >> (7 - place % 8) & 1;
        let bits = usize::from(precision.bits());
        let index = (0..bits).fold(0, |index: u16, place| index << 1 | u16::from(bit(place)));
        let run = (bits..2 * bits).take_while(|place| bit(*place) == 0).count() as u8;
        let kept = registers.entry(index).or_insert(0);
        *kept = (run + 1).max(*kept);
    }
    registers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn registers_are_as_defined(precision in any_precision(), elements in any_elements()) {
        let hll = with(precision, &elements);
        let registers: BTreeMap<u16, u8> =
            hll.registers().map(|register| (register.index, register.value)).collect();
        prop_assert_eq!(registers, naive(precision, &elements));
        let again = HyperLogLog::from_registers(precision, hll.registers());
        prop_assert_eq!(again, Some(hll));
    }

    #[test]
    fn a_merge_is_the_union_at_the_lower_precision(
        (left, right) in (any_precision(), any_precision()),
        (ours, theirs) in (any_elements(), any_elements()),
    ) {
        let union: Vec<u32> = ours.iter().chain(&theirs).copied().collect();
        let merged = merged(&with(left, &ours), &with(right, &theirs));
        prop_assert_eq!(merged, with(left.min(right), &union));
    }

    #[test]
    fn merges_are_associative_commutative_and_idempotent(
        precisions in prop::array::uniform3(any_precision()),
        elements in prop::array::uniform3(any_elements()),
    ) {
        let [a, b, c] = [0, 1, 2].map(|which| with(precisions[which], &elements[which]));
        prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
        prop_assert_eq!(merged(&a, &a), a);
    }

    #[test]
    fn a_reduction_is_an_insertion_at_the_lower_precision(
        (fine, coarse) in (any_precision(), any_precision()),
        elements in any_elements(),
    ) {
        let reduced = with(fine, &elements).reduced_to(coarse);
        prop_assert_eq!(reduced, with(fine.min(coarse), &elements));
    }

    #[test]
    fn every_state_comes_back_from_its_encoding(
        precision in any_precision(),
        elements in any_elements(),
    ) {
        let hll = with(precision, &elements);
        prop_assert_eq!(HyperLogLog::decode(&encoded(&hll)), Ok(hll));
    }

    #[test]
    fn damaged_encodings_are_refused_or_those_of_another_state(
        precision in any_precision(),
        elements in any_elements(),
        (place, byte) in (any::<Index>(), any::<u8>()),
    ) {
        let mut bytes = encoded(&with(precision, &elements));
        prop_assert!(HyperLogLog::decode(&bytes[..place.index(bytes.len())]).is_err());
        let place = place.index(bytes.len());
        bytes[place] = byte;
        if let Ok(other) = HyperLogLog::decode(&bytes) {
            prop_assert_eq!(encoded(&other), bytes);
        }
    }
}

#[test]
fn equal_registers_are_equal_however_they_came() {
    let precision = Precision::MIN;
    let all: Vec<u32> = (0..100).collect();
    let (some, rest) = all.split_at(2);
    let mut hll = with(precision, some);
    assert!(matches!(hll.registers, Registers::Listed(_)));
    hll.merge(&with(precision, rest));
    assert!(matches!(hll.registers, Registers::All(_)));
    assert_eq!(hll, with(precision, &all));
    assert!(!hll.insert(&3u32.to_be_bytes()), "it was there");
}

#[test]
fn encodings_have_these_bytes() {
    let precision = Precision::new(8).expect("4 to 16");
    let register = |index, value| Register { index, value };
    let of = |registers: &[Register]| {
        HyperLogLog::from_registers(precision, registers.iter().copied()).expect("its registers")
    };
    assert_eq!(encoded(&of(&[])), [1, 8, 0, 0]);
    let listed = of(&[register(7, 2), register(0, 9), register(255, 1)]);
    // 0 * 32 + 9, 6 * 32 + 2, 247 * 32 + 1
    assert_eq!(encoded(&listed), [1, 8, 0, 3, 9, 0xc2, 0x01, 0xe1, 0x3d]);
    let full: Vec<Register> = (0..=255).map(|index| register(index, 1 + index as u8 % 9)).collect();
    let bytes = encoded(&of(&full));
    assert_eq!(bytes.len(), 3 + 160);
    // 00001 00010 00011 00100 00101 00110 00111 01000
    assert_eq!(bytes[..8], [1, 8, 1, 0x08, 0x86, 0x42, 0x98, 0xe8]);
}

#[test]
fn longer_forms_of_numbers_are_refused() {
    assert!(HyperLogLog::decode(&[1, 8, 0, 1, 9]).is_ok());
    for longer in [&[1, 8, 0, 0x81, 0, 9][..], &[1, 8, 0, 1, 0x89, 0]] {
        assert!(HyperLogLog::decode(longer).is_err(), "{longer:?}");
    }
}

#[test]
fn registers_of_another_precision_are_refused() {
    let of = |index, value| {
        HyperLogLog::from_registers(Precision::MIN, [Register { index, value }]).is_some()
    };
    assert!(of(15, 5));
    assert!(!of(16, 5) && !of(15, 6) && !of(15, 0));
}

/// Mean and root mean square of the relative errors of sketches of `count` elements.
fn errors(precision: Precision, count: u32, sketch_count: u32) -> (f64, f64) {
    let errors = (0..sketch_count).map(|sketch| {
        let mut hll = HyperLogLog::new(precision);
        for number in 0..count {
            hll.insert(&(u64::from(sketch) << 32 | u64::from(number)).to_be_bytes());
        }
        hll.estimate() as f64 / f64::from(count) - 1.0
    });
    let (sum, squares) =
        errors.fold((0.0, 0.0), |(sum, squares), error| (sum + error, squares + error * error));
    let sketch_count = f64::from(sketch_count);
    (sum / sketch_count, (squares / sketch_count).sqrt())
}

/// Tests cardinalities by factors of two, from 8 to a quarter of what the registers can represent,
/// so that the ranges of linear counting, of bias tables and of the plain formula are all covered.
/// (Fewer than eight elements are counted exactly, unless two share a register.) With 40 sketches
/// the mean is within 0.6 and the root mean square within 1.5 standard errors, except in one of
/// many thousand cases.
#[test]
fn estimates_are_unbiased_and_within_the_standard_error_at_all_cardinalities() {
    for bits in [4, 6, 9] {
        let precision = Precision::new(bits).expect("4 to 16");
        let standard_error = 1.04 / (precision.register_count() as f64).sqrt();
        for doublings in 3..=(2 * bits - 2).min(13) {
            let (mean, quadratic_mean) = errors(precision, 1 << doublings, 40);
            let told = format!("p {bits}, 2^{doublings}: mean {mean}, {quadratic_mean}");
            assert!(mean.abs() < 0.6 * standard_error, "{told}");
            assert!(quadratic_mean < 1.5 * standard_error, "{told}");
        }
    }
}

#[test]
fn estimates_of_the_default_precision_are_within_three_standard_errors() {
    let mut hll = HyperLogLog::new(Precision::DEFAULT);
    let mut inserted = 0u32;
    for count in [1, 10, 100, 1000, 10_000, 30_000, 80_000, 200_000] {
        while inserted < count {
            hll.insert(&inserted.to_be_bytes());
            inserted += 1;
        }
        let error = hll.estimate() as f64 / f64::from(count) - 1.0;
        assert!(error.abs() < 3.0 * 0.0081, "{count}: {error}");
    }
}

#[test]
fn an_estimate_grows_to_its_highest_and_stays_there() {
    let full = |value| (0..16).map(move |index| Register { index, value });
    let estimates: Vec<u64> = (1..=5)
        .map(|value| HyperLogLog::from_registers(Precision::MIN, full(value)).expect("registers"))
        .map(|hll| hll.estimate())
        .collect();
    assert!(estimates.is_sorted_by(|a, b| a < b), "{estimates:?}");
    assert!(estimates[4] < 10_000, "{estimates:?}");
    assert_eq!(HyperLogLog::new(Precision::MIN).estimate(), 0);
}
