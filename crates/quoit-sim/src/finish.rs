//! Before the clients begin and after they are done.

use crate::check::{Fault, Violation};
use crate::client::Ground;
use crate::history::{Found, KeyNumber, Policy, Reader};
use crate::machine::Asked;
use crate::names::{bucket_type, props};
use crate::requests::{self, Quorums};
use std::collections::BTreeSet;
use std::time::Duration;

/// Time that a cluster has to answer a request when nothing is wrong any more.
const RECOVERY: Duration = Duration::from_secs(30);
/// Pause between two tries.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Makes the bucket types.
///
/// # Errors
///
/// When a cluster in which nothing is wrong yet refuses.
pub async fn prepare(ground: &Ground) -> Result<(), Violation> {
    for policy in Policy::ALL {
        let create = || async {
            let asked = ground.machines[0].ask(move |store| async move {
                let (control, name) = (store.control(), bucket_type(policy).as_bytes());
                control.create_type(name, &props(policy)).await?;
                control.activate_type(name).await
            });
            match asked.await {
                Asked::Answer(Ok(())) => Ok(()),
                Asked::Answer(Err(error)) => Err(error.to_string()),
                Asked::NobodyThere | Asked::Lost => Err("nobody there".to_owned()),
            }
        };
        insist(ground, &format!("create {policy:?}"), create).await?;
    }
    Ok(())
}

/// Reads every key at every node, and lists them.
///
/// # Errors
///
/// When a request still fails, or a listing is not what the reads were.
pub async fn read_back(ground: &Ground) -> Result<(), Violation> {
    let policies = ground.history.lock().keys.clone();
    for machine in ground.machines.iter() {
        let (mut live, mut present) = (BTreeSet::new(), BTreeSet::new());
        for key in (0..policies.len() as u32).map(KeyNumber) {
            let quorums = Quorums::strict(2_000);
            let read = || ground.read(machine, key, Reader::Final, quorums);
            let what = format!("read k{} at {}", key.0, machine.name);
            let (number, _) = insist(ground, &what, read).await?;
            let found = ground.history.lock().reads[number.0 as usize].found.clone();
            if found.iter().any(|found| matches!(found, Found::Value(_))) {
                live.insert(key);
            }
            if !found.is_empty() {
                present.insert(key);
            }
        }
        for policy in Policy::ALL {
            let list = || async {
                match machine.ask(move |store| requests::list_keys(store, policy)).await {
                    Asked::Answer(Ok(keys)) => Ok(keys),
                    Asked::Answer(Err(error)) => Err(error.to_string()),
                    Asked::NobodyThere | Asked::Lost => Err("nobody there".to_owned()),
                }
            };
            let listed = insist(ground, &format!("list {policy:?}"), list).await?;
            let is_of = |key: &KeyNumber| policies.get(key.0 as usize) == Some(&policy);
            // A tombstone is listed as long as it is there.
            let is_complete = live.iter().filter(|key| is_of(key)).all(|key| listed.contains(key));
            let is_true = listed.iter().all(|key| is_of(key) && present.contains(key));
            if !(is_complete && is_true) {
                let text = format!(
                    "{} lists {listed:?} of {policy:?}; there are {live:?}, with tombstones {present:?}",
                    machine.name
                );
                return Err(Violation::new(Fault::WrongListing, text));
            }
        }
    }
    Ok(())
}

/// Tries until it succeeds, as long as a cluster may take to recover.
async fn insist<T, F>(
    ground: &Ground,
    what: &str,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Violation>
where
    F: Future<Output = Result<T, String>>,
{
    let give_up_us = ground.time.now_us() + RECOVERY.as_micros() as u64;
    loop {
        let failure = match attempt().await {
            Ok(done) => return Ok(done),
            Err(failure) => failure,
        };
        ground.trace.note("run", &format!("{what} -> {failure}"));
        if ground.time.now_us() > give_up_us {
            let text = format!("{what} still fails: {failure}");
            return Err(Violation::new(Fault::Unanswered, text));
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}
