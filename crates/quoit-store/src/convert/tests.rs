//! Killed between any two steps of the switch.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::bitcask::{BitcaskEngine, BitcaskSettings};
use crate::engine::Engine;
use crate::engine_of;
use crate::ordered::{OrderedEngine, OrderedSettings, TreeSettings};
use crate::seam::{Disk, ManualClock, ManualExecution, RealDisk};
use quoit_model::hash::RingSize;
use std::path::Path;
use std::sync::Arc;

fn made(base: &Path, old_name: &str, new_name: &str) {
    let ring_size = RingSize::DEFAULT;
    let clock = Arc::new(ManualClock::at(0));
    let execution = ManualExecution::default();
    let disk = Arc::new(RealDisk::open(base.join(old_name)).unwrap());
    let old = BitcaskEngine::open(disk, clock.clone(), &execution, BitcaskSettings::new(1));
    let old = old.unwrap().0;
    let what = UnderWay {
        from: "bitcask".into(),
        to: "innostore".into(),
        old_name: old_name.into(),
        new_name: new_name.into(),
        is_complete: false,
    };
    let mut conversion = Conversion::begin(base, ring_size, what).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(conversion.new_path()).unwrap());
    let (settings, of_tree) = (OrderedSettings::new(1), TreeSettings::default());
    let new = OrderedEngine::open_innostore(&disk, clock, &execution, settings, of_tree);
    let new = new.unwrap().0;
    let notes = Notes { every_bytes: 1, now_secs: 0, accepts_damage: false };
    conversion.copy(&old, &new, &notes, &mut |_| {}).unwrap();
    new.close().unwrap();
    old.close().unwrap();
    conversion.complete().unwrap();
}

#[test]
fn a_switch_that_is_killed_between_any_two_steps_is_finished() {
    for (old_name, new_name) in [("bitcask", "innostore"), ("fast", "fast")] {
        let mut step_count = usize::MAX;
        let mut killed_after = 0;
        while killed_after < step_count {
            let base = tempfile::tempdir().unwrap();
            let base = base.path();
            made(base, old_name, new_name);
            let mut done = 0;
            // Each step by a process of its own, as it were, and the last ones by one.
            while done < killed_after {
                let resumed = Conversion::resume(base, RingSize::DEFAULT).unwrap();
                let Some(resumed) = resumed else { break };
                assert!(resumed.what().is_complete);
                resumed.step().unwrap();
                done += 1;
            }
            if let Some(resumed) = Conversion::resume(base, RingSize::DEFAULT).unwrap() {
                resumed.switch().unwrap();
            } else {
                step_count = done;
            }
            assert_eq!(under_way(base).unwrap(), None);
            let disk = RealDisk::open(base.join(new_name)).unwrap();
            assert_eq!(engine_of(&disk).unwrap().as_deref(), Some("innostore"));
            assert_eq!(base.join(old_name).exists(), old_name == new_name);
            assert!(!base.join("converting/old").exists() && !base.join("converting/new").exists());
            killed_after += 1;
        }
        assert!(step_count >= 3, "{step_count}");
    }
}

#[test]
fn the_new_data_can_not_be_given_up() {
    let base = tempfile::tempdir().unwrap();
    made(base.path(), "bitcask", "innostore");
    let complete = Conversion::resume(base.path(), RingSize::DEFAULT).unwrap().unwrap();
    assert!(matches!(complete.abandon(), Err(ConvertError::TooLate)));
    assert!(under_way(base.path()).unwrap().is_some_and(|what| what.is_complete));
}
