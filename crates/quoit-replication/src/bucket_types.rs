//! Bucket types and properties that this cluster adopts from other clusters.
//!
//! Each node that consumes queues of another cluster asks one of its peers every few seconds. It
//! creates and activates bucket types that this cluster lacks, with the same properties; in the mode
//! `follow` it also adopts changes. The control plane of this cluster decides, so several nodes may do
//! this at the same time.

use crate::address::{PeerAddress, Protocol};
use crate::dialer::PeerDialer;
use crate::remote_node::{PeerRequestError, RemoteNode};
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_cluster::{ChangeError, ControlPlane};
use quoit_core::ReplicatedStore;
use quoit_model::key::BucketRef;
use quoit_model::props::{PropUpdates, TypeState};
use quoit_wire::messages::{RpbBucketTypesReq, RpbBucketTypesResp, RpbStoredProps};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::time::sleep;

/// Interval at which peers are asked.
const INTERVAL: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Properties that describe how one cluster stores and replicates. They are never adopted.
const LOCAL: [&str; 2] = ["backend", "repl"];
/// Properties whose changes are not adopted, because clusters may differ in them.
const LOCAL_CHANGES: [&str; 3] = ["backend", "repl", "n_val"];

/// Bucket types and properties that a cluster adopts from clusters whose queues it consumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BucketTypeMode {
    /// None.
    #[default]
    Off,
    /// Bucket types that are missing here, and properties of buckets that have none of their own here.
    Create,
    /// As `Create`, and also later changes of properties other than `n_val`.
    Follow,
}

/// Reason why bucket types could not be adopted.
#[derive(Debug, Error)]
enum FollowFault {
    #[error("{0}")]
    Ask(#[from] PeerRequestError),
    #[error("{0}: {1}")]
    Change(String, ChangeError),
    #[error("bucket type {0} exists here and is not active: activate it")]
    Inactive(String),
}

/// Adopts bucket types of other clusters.
pub(crate) struct TypeFollower {
    store: Arc<ReplicatedStore>,
    dialer: PeerDialer,
    mode: BucketTypeMode,
    /// Versions of peers' bucket types that were adopted completely, by address.
    known: Mutex<BTreeMap<String, u64>>,
    /// Bucket types that were created here and are not activated yet.
    created: Mutex<BTreeSet<Bytes>>,
    fault: Mutex<Option<String>>,
}

impl TypeFollower {
    pub(crate) fn new(
        store: Arc<ReplicatedStore>,
        dialer: PeerDialer,
        mode: BucketTypeMode,
    ) -> Self {
        let (known, created, fault) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { store, dialer, mode, known, created, fault }
    }

    /// Fault of the last round.
    pub(crate) fn fault(&self) -> Option<String> {
        self.fault.lock().clone()
    }

    /// Adopts bucket types of peers, until the task is dropped. `peers` returns the peers of each
    /// queue.
    pub(crate) async fn run(&self, peers: impl Fn() -> Vec<(String, Vec<PeerAddress>)>) {
        if self.mode == BucketTypeMode::Off {
            return;
        }
        loop {
            let mut fault = None;
            for (_, peers) in peers() {
                // One node of a cluster is enough to ask.
                for peer in peers.iter().filter(|peer| peer.protocol == Protocol::Pb) {
                    match self.take_over(peer).await {
                        Ok(note) => {
                            fault = note.or(fault);
                            break;
                        }
                        Err(why) => fault = Some(format!("{}: {why}", peer.host_and_port())),
                    }
                }
            }
            if fault.is_some() && *self.fault.lock() != fault {
                let text = fault.as_deref().unwrap_or_default();
                tracing::warn!("bucket types of another cluster can't be taken over: {text}");
            }
            *self.fault.lock() = fault;
            sleep(INTERVAL).await;
        }
    }

    /// Adopts bucket types of a peer. Returns a note for operators, if there is one.
    async fn take_over(&self, peer: &PeerAddress) -> Result<Option<String>, FollowFault> {
        let address = peer.host_and_port();
        let known_version = self.known.lock().get(&address).copied();
        let own = self.store.replication().cluster();
        let mut node = RemoteNode::connect(&self.dialer, peer, own, ANSWER_TIMEOUT).await?;
        let request = RpbBucketTypesReq { cluster: node.own().clone(), known_version };
        let answer = match node.ask(&request, |told: &RpbBucketTypesResp| &told.cluster).await {
            // A Riak node can't be asked, and the sink reports a peer that is a node of this cluster.
            Err(PeerRequestError::NoQuoit | PeerRequestError::Itself) => return Ok(None),
            answer => answer?,
        };
        let both = self.mode == BucketTypeMode::Follow && answer.follows;
        let note = both.then(|| {
            "both clusters have repl.bucket_types = follow: only missing bucket types are taken over; set it \
             to create in one of them"
                .to_owned()
        });
        let follows = self.mode == BucketTypeMode::Follow && !answer.follows;
        for told in &answer.told {
            self.apply(told, follows).await?;
        }
        self.known.lock().insert(address, answer.version);
        Ok(note)
    }

    async fn apply(&self, told: &RpbStoredProps, follows: bool) -> Result<(), FollowFault> {
        let props = serde_json::from_slice(&told.props).map_err(|_| PeerRequestError::Malformed)?;
        let control = self.store.control();
        let done = match &told.bucket {
            None => self.apply_type(control, &told.bucket_type, props, follows).await?,
            Some(bucket) => {
                let bucket = BucketRef { bucket_type: &told.bucket_type, bucket };
                apply_bucket(control, bucket, props, follows).await
            }
        };
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        done.map_err(|fault| {
            let bucket = told.bucket.as_ref().map(|bucket| format!("/{}", text(bucket)));
            FollowFault::Change(text(&told.bucket_type) + &bucket.unwrap_or_default(), fault)
        })
    }

    async fn apply_type(
        &self,
        control: &ControlPlane,
        name: &Bytes,
        props: Map<String, Value>,
        follows: bool,
    ) -> Result<Result<(), ChangeError>, FollowFault> {
        let state = control.read().type_state(name);
        Ok(match state {
            TypeState::Active => {
                let ours = control.read().type_props(name).map(|props| props.to_json());
                let updates = changed(&ours.unwrap_or_default(), props, &LOCAL_CHANGES);
                match updates.filter(|_| follows) {
                    Some(updates) => control.update_type(name, &updates).await,
                    None => Ok(()),
                }
            }
            TypeState::Undefined => {
                self.created.lock().insert(name.clone());
                match control.create_type(name, &without(props, &LOCAL)).await {
                    Ok(_) => self.activate(control, name).await,
                    Err(fault) => Err(fault),
                }
            }
            _ if self.created.lock().contains(name) => self.activate(control, name).await,
            // An operator may be about to activate it, with other properties.
            _ => {
                let name = String::from_utf8_lossy(name).into_owned();
                return Err(FollowFault::Inactive(name));
            }
        })
    }

    async fn activate(&self, control: &ControlPlane, name: &Bytes) -> Result<(), ChangeError> {
        control.activate_type(name).await?;
        self.created.lock().remove(name);
        tracing::info!(
            bucket_type = %String::from_utf8_lossy(name),
            "a bucket type of another cluster was created here"
        );
        Ok(())
    }
}

async fn apply_bucket(
    control: &ControlPlane,
    bucket: BucketRef<'_>,
    props: Map<String, Value>,
    follows: bool,
) -> Result<(), ChangeError> {
    let (is_own, ours) = {
        let state = control.read();
        let ours = state.bucket_props(bucket).map(|props| props.to_json());
        (state.has_own_props(bucket), ours.unwrap_or_default())
    };
    let updates = match is_own {
        true if !follows => None,
        true => changed(&ours, props, &LOCAL_CHANGES),
        false => changed(&ours, props, &LOCAL),
    };
    match updates {
        Some(updates) => control.set_bucket_props(bucket, &updates).await,
        None => Ok(()),
    }
}

fn without(props: Map<String, Value>, names: &[&str]) -> PropUpdates {
    let is_wanted = |(name, _): &(String, Value)| !names.contains(&&**name);
    props.into_iter().filter(is_wanted).collect::<Map<_, _>>().into()
}

/// The other cluster's properties that differ from ours; `None` if there are none.
fn changed(
    ours: &Map<String, Value>,
    theirs: Map<String, Value>,
    local: &[&str],
) -> Option<PropUpdates> {
    let differs = |(name, value): &(String, Value)| {
        !local.contains(&&**name) && ours.get(name) != Some(value)
    };
    let changed: Map<String, Value> = theirs.into_iter().filter(differs).collect();
    (!changed.is_empty()).then(|| changed.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_are_taken_over_but_those_of_one_cluster_alone() {
        let map = |value: Value| value.as_object().cloned().expect("an object");
        let ours = map(json!({"n_val": 3, "allow_mult": true, "backend": "a", "w": "quorum"}));
        let theirs = json!({"n_val": 5, "allow_mult": false, "repl": false, "w": "quorum"});
        let updates = changed(&ours, map(theirs), &LOCAL_CHANGES).expect("a change");
        let names: Vec<&str> = updates.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["allow_mult"]);
        assert_eq!(changed(&ours.clone(), ours, &LOCAL), None);
    }
}
