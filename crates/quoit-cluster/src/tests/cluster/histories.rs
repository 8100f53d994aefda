//! Random histories of crashes, cuts and changes, each from one seed.

use super::*;
use crate::tests::{untyped, updates};
use serde_json::json;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

const NODES: u8 = 5;
const STEPS: u32 = 30;

/// Events of a run, to compare with another run of the same seed.
type Trace = Vec<(u128, u8, u32, bool)>;

/// Sets a property to increasing values while nodes crash and links fail. No acknowledged value may be
/// lost, and in the end all nodes agree.
async fn history(seed: u64) -> Trace {
    let mut random = Random(seed);
    let mut cluster = TestCluster::joined(NODES).await;
    seed_elections(seed);
    let started = Instant::now();
    let (mut trace, mut acknowledged) = (Trace::new(), 0);
    for step in 1..=STEPS {
        let number = random.below(u64::from(NODES)) as u8 + 1;
        let other = (number - 1 + random.below(u64::from(NODES) - 1) as u8) % NODES + 1;
        let (here, there) = (format!("n{number}"), format!("n{other}"));
        let is_running = cluster.node(number).process.is_some();
        match random.below(6) {
            0 if cluster.running().count() > 3 && is_running => cluster.crash(number),
            0 | 1 if !is_running => cluster.start(number).await,
            2 => cluster.network.silence(&here, &there),
            3 => cluster.network.heal(&here, &there),
            4 => cluster.network.reset(&here, &there),
            _ => {}
        }
        sleep(Duration::from_millis(random.below(1_500))).await;
        let Some(by) = cluster.running().nth(random.below(3) as usize) else { continue };
        let change = updates(json!({"n_val": 1, "x_step": step}));
        let set = cluster.control(by).set_bucket_props(untyped("b"), &change).await;
        trace.push((started.elapsed().as_micros(), by, step, set.is_ok()));
        if set.is_ok() {
            acknowledged = step;
            let shown = cluster.control(by).bucket_props(untyped("b")).unwrap();
            assert!(value(&shown) >= step, "seed {seed}: {by} shows less than it has answered");
        }
    }
    for here in 1..=NODES {
        if cluster.node(here).process.is_none() {
            cluster.start(here).await;
        }
        for there in 1..=NODES {
            cluster.network.heal(&format!("n{here}"), &format!("n{there}"));
        }
    }
    let last = updates(json!({"x_last": true}));
    let mut done = false;
    for _ in 0..6 {
        done = done || cluster.control(1).set_bucket_props(untyped("b"), &last).await.is_ok();
    }
    assert!(done, "seed {seed}: nobody agrees although all are back");
    cluster.until_equal().await;
    for number in 1..=NODES {
        let props = cluster.control(number).bucket_props(untyped("b")).unwrap();
        assert!(value(&props) >= acknowledged, "seed {seed}: {number} has lost {acknowledged}");
        assert_eq!(props.other["x_last"], json!(true), "seed {seed}: {number}");
    }
    trace.push((started.elapsed().as_micros(), 0, acknowledged, done));
    trace
}

fn value(props: &quoit_model::props::BucketProps) -> u32 {
    props.other.get("x_step").and_then(serde_json::Value::as_u64).unwrap_or_default() as u32
}

#[tokio::test(start_paused = true)]
async fn nothing_acknowledged_is_lost() {
    for seed in 1..=3 {
        let trace = history(seed).await;
        let answered = trace.iter().filter(|(.., done)| *done).count();
        assert!(answered > 5, "seed {seed}: only {answered} answered");
    }
}

#[test]
fn same_seed_gives_the_same_history() {
    let run = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(history(3))
    };
    assert_eq!(run(), run());
}
