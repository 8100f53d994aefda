//! The hours of expiry from which on records are compared.
//!
//! A node drops an expired record when its own clock says so and its engine comes across the record, so two
//! good copies may differ in records that have expired. Digests are therefore kept for each hour of expiry,
//! and a comparison leaves out the early hours. An exchange leaves out every record that may have expired
//! on either node ([`first_hour`]): it must not find differences that no repair removes. A copy that lost
//! records is compared in every record that may still be live on some node ([`earliest_hour`]): it must not
//! be reported as complete without one of them, and a record that is sent in vain does no harm.

use quoit_store::compare::hour_of;

/// Largest difference between clocks that is allowed for, in seconds: records that expire within this
/// time are not compared.
const MARGIN_SECS: u64 = 600;

/// Returns the first hour, counted from 1970, whose records are compared at this time, in seconds since
/// 1970. All records that may have expired by the clock of another node expire in an earlier hour.
pub(super) fn first_hour(now_secs: u64) -> u32 {
    hour_of(now_secs + MARGIN_SECS) + 1
}

/// Returns the hour, counted from 1970, before which all expiring records have expired by the clocks of
/// all nodes.
pub(super) fn earliest_hour(now_secs: u64) -> u32 {
    hour_of(now_secs.saturating_sub(MARGIN_SECS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::PlacedKey;
    use proptest::prelude::*;
    use quoit_model::hash::{Partition, RingSize};
    use quoit_model::key::BucketRef;
    use quoit_seam::ManualClock;
    use quoit_store::engine::Compare;
    use quoit_store::engine::{BeforeImage, Decision, IoMode, PointAccess, RecordMeta, RecordRef};
    use quoit_store::memory::{MemoryEngine, MemorySettings};
    use std::sync::Arc;

    const PARTITION: Partition = Partition(5);
    const CLASS: u8 = 3;
    const NOW_SECS: u64 = 1_700_000_000;

    fn decide(engine: &MemoryEngine, number: usize, decision: Decision) {
        let key = BucketRef::untyped(b"b").key(format!("k{number}").as_bytes()).encoded();
        let place = PlacedKey::new(&key, PARTITION).expect("it is a name");
        let mut change = |_: Option<&RecordRef<'_>>, _: &mut Vec<u8>| decision;
        engine.update(&place.at(), BeforeImage::Skip, IoMode::Wait, &mut change).expect("it works");
    }

    /// A copy on a node whose clock differs from the true time by `skew_secs`. `dropped` selects the
    /// records that are removed if they have expired by that clock.
    fn copy(expiries: &[Option<u32>], skew_secs: i64, dropped: &[bool]) -> (MemoryEngine, u64) {
        let now_secs = NOW_SECS.saturating_add_signed(skew_secs);
        let clock = Arc::new(ManualClock::at(now_secs * 1_000_000));
        let engine = MemoryEngine::new(MemorySettings::default(), RingSize::DEFAULT, clock);
        for (number, expiry) in expiries.iter().enumerate() {
            let expires_at_secs = expiry.unwrap_or(0);
            let (digest, n_val_class) =
                ((number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15), CLASS);
            let meta = RecordMeta { digest, n_val_class, expires_at_secs, ..RecordMeta::default() };
            decide(&engine, number, Decision::Put(meta));
            let has_expired = expiry.is_some_and(|expiry| u64::from(expiry) <= now_secs);
            if has_expired && dropped[number] {
                decide(&engine, number, Decision::Remove);
            }
        }
        (engine, now_secs)
    }

    fn digest(engine: &MemoryEngine, hour_min: u32) -> u64 {
        engine.digests(PARTITION, hour_min).expect("it works").of_class(CLASS)
    }

    proptest! {
        #[test]
        fn copies_are_equal_wherever_and_whenever_expired_records_were_dropped(
            expiries in prop::collection::vec(
                prop::option::weighted(0.8, NOW_SECS as u32 - 9_000..NOW_SECS as u32 + 9_000), 1..30,
            ),
            skews_secs in (-300i64..=300, -300i64..=300),
            dropped in prop::collection::vec(any::<bool>(), 60),
        ) {
            let (ours, now_secs) = copy(&expiries, skews_secs.0, &dropped[..30]);
            let (theirs, _) = copy(&expiries, skews_secs.1, &dropped[30..]);
            let hour_min = first_hour(now_secs);
            prop_assert_eq!(digest(&ours, hour_min), digest(&theirs, hour_min));
        }

        #[test]
        fn what_lives_on_for_more_than_two_hours_is_compared(
            skew_secs in -300i64..=300,
            lives_secs in 7_200u32..100_000,
        ) {
            let expiries = [None, Some(NOW_SECS as u32 + lives_secs)];
            let (ours, now_secs) = copy(&expiries, skew_secs, &[false; 2]);
            let (theirs, _) = copy(&expiries[..1], 0, &[false]);
            let hour_min = first_hour(now_secs);
            prop_assert_ne!(digest(&ours, hour_min), digest(&theirs, hour_min));
        }
    }
}
