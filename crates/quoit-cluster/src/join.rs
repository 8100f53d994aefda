//! Joining a cluster with a node that ran alone.
//!
//! 1. The node asks any member, as a guest, to be admitted. It sends its entry, its bucket
//!    types and its buckets.
//! 2. The cluster agrees on a decision that adds the node with the status `joining` and stages its join.
//! 3. The node gives up its own log and follows the cluster as a learner. If its own state has changed
//!    since step 1, it gives up nothing and asks again, so that no change is lost. Until a snapshot
//!    arrives it serves with its own state.
//! 4. A commit by an operator gives it partitions.

use crate::ClusterId;
use crate::control::codec::{encode_change, encode_member};
use crate::error::{ChangeError, StoreError};
use crate::members::{Introduction, Member, MemberStatus};
use crate::plane::ControlPlane;
use crate::transport::{CallError, JoinProof};
use crate::trust::TrustError;
use prost::Message as _;
use quoit_tls::TlsError;
use quoit_wire::internode::control::{JoinRequest, Joined, METHOD_JOIN};
use std::time::Duration;
use thiserror::Error;

/// Maximum time for the cluster to admit the node.
const JOIN_TIMEOUT: Duration = Duration::from_secs(15);

/// Reason why a node could not join. Displayed for operators.
#[derive(Debug, Error)]
pub enum JoinError {
    /// The node belongs to a cluster with other members.
    #[error(
        "{name} is already a member of a cluster of {member_count}; only a node that runs alone can join. \
         Let it leave first, or start it with an empty data directory"
    )]
    AlreadyMember {
        /// The node.
        name: String,
        /// Number of members of its cluster.
        member_count: usize,
    },
    /// The node has staged changes of its own.
    #[error("{name} has staged changes; drop them with `cluster clear`, then join")]
    HasStaged {
        /// The node.
        name: String,
    },
    /// The address is the node's own.
    #[error(
        "{address} is this node itself, and it cannot join itself; \
         give the address of a member of the cluster"
    )]
    Itself {
        /// The address.
        address: String,
    },
    /// The node does not listen for other nodes.
    #[error("this node does not listen for other nodes; start it with --node ADDR")]
    NotListening,
    /// No node answers at the address.
    #[error(
        "{address} is not reachable: {reason}; give the internode address (--node) of a running member"
    )]
    Unreachable {
        /// The address.
        address: String,
        /// Reason of the failure.
        reason: String,
    },
    /// The cluster refused. Nothing was changed.
    #[error("the cluster at {address} refuses: {reason}")]
    Refused {
        /// The address.
        address: String,
        /// Reason that the cluster gave.
        reason: String,
    },
    /// The cluster did not accept the proof.
    #[error("the cluster at {address} does not accept {what} ({reason})")]
    ProofRefused {
        /// The address.
        address: String,
        /// The proof, and the remedy.
        what: String,
        /// Reason of the refusal.
        reason: String,
    },
    /// A token or a secret needs TLS, and the mode of this node is plain.
    #[error(
        "internode.tls = plain on this node, and a node that joins with a token needs TLS: set internode.tls \
         to the mode of the cluster (both or required), and start the node again"
    )]
    PlainMode,
    /// The certificate could not be stored.
    #[error("the certificate could not be written into the data directory: {reason}")]
    KeyFile {
        /// Reason of the failure.
        reason: String,
    },
    /// A key or a request for a certificate could not be made.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The cluster's answer is malformed.
    #[error(
        "the answer of {address} can't be understood: {reason}; do both nodes run the same version?"
    )]
    Malformed {
        /// The address.
        address: String,
        /// The fault.
        reason: String,
    },
    /// The control file failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The node cannot join now.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

impl From<TlsError> for JoinError {
    fn from(fault: TlsError) -> JoinError {
        TrustError::from(fault).into()
    }
}

impl ControlPlane {
    /// Joins the cluster of the node at `address` (`host:port` for other nodes). From then on the node
    /// follows that cluster and waits for a commit that gives it partitions. It brings its bucket types
    /// and buckets. Can be repeated after any failure.
    ///
    /// # Errors
    ///
    /// [`JoinError`] if the node is not alone, the other node is not reachable, or the cluster refuses.
    /// Nothing has changed then, with one exception: if only the answer was lost, the cluster has admitted
    /// the node and waits for it to ask again.
    pub async fn join(&self, address: &str) -> Result<(), JoinError> {
        self.join_by(address, None).await
    }

    /// Works like [`join`](Self::join), after the node has got a certificate of the cluster with `proof`.
    ///
    /// # Errors
    ///
    /// As [`join`](Self::join), and if the cluster does not accept the proof.
    pub async fn join_by(&self, address: &str, proof: Option<&JoinProof>) -> Result<(), JoinError> {
        let _alone = self.joining().lock().await;
        if let Some(proof) = proof {
            let internode = self.link().internode().ok_or(JoinError::NotListening)?;
            self.check_alone()?;
            self.ask_certificate(&internode, address, proof).await?;
        }
        // Repeat if this node's own state changed during the attempt, so that the cluster
        // gets those changes, too.
        while !self.join_as_it_is(address).await? {}
        Ok(())
    }

    /// Refuses if the node is not alone.
    fn check_alone(&self) -> Result<(), JoinError> {
        let state = self.state();
        let name = || state.node_name().to_owned();
        let member_count = state.members().count();
        if member_count > 1 {
            return Err(JoinError::AlreadyMember { name: name(), member_count });
        }
        if !state.staged().is_empty() {
            return Err(JoinError::HasStaged { name: name() });
        }
        Ok(())
    }

    /// Joins with the current state. Returns false if the state had changed when the cluster answered.
    async fn join_as_it_is(&self, address: &str) -> Result<bool, JoinError> {
        let internode = self.link().internode().ok_or(JoinError::NotListening)?;
        let state = self.state();
        self.check_alone()?;
        let Introduction { name: own_name, addresses, versions } = self.introduction();
        if *addresses.node == *address {
            return Err(JoinError::Itself { address: address.to_owned() });
        }
        let own = state.members().get(state.node_id());
        let member = Member {
            id: state.node_id(),
            name: own_name,
            addresses,
            status: MemberStatus::Joining,
            is_down: false,
            location: own.and_then(|own| own.location.clone()),
            capacity: own.map_or(crate::CAPACITY_DEFAULT, |own| own.capacity),
            versions,
        };
        let asked = JoinRequest {
            member: Some(encode_member(&member)),
            ring_size: state.ring_size().get().into(),
            brought: state.bucket_changes().iter().map(encode_change).collect(),
        };
        let answer = internode
            .call_address(address, METHOD_JOIN, &asked, b"".as_slice(), JOIN_TIMEOUT)
            .await
            .map_err(|fault| refusal(address, &fault))?;
        let (asked_node, reply) = answer;
        if asked_node == state.node_id() {
            return Err(JoinError::Itself { address: address.to_owned() });
        }
        let malformed = |reason: &dyn ToString| JoinError::Malformed {
            address: address.to_owned(),
            reason: reason.to_string(),
        };
        let joined = Joined::decode(reply.header).map_err(|fault| malformed(&fault))?;
        let cluster_id = joined.cluster_id[..].try_into();
        let cluster_id = ClusterId(cluster_id.map_err(|_| malformed(&"no cluster id"))?);
        let follows = self.follow(cluster_id, &state).await?;
        if follows {
            internode.set_cluster(Some(cluster_id));
        }
        Ok(follows)
    }
}

fn refusal(address: &str, fault: &CallError) -> JoinError {
    let address = address.to_owned();
    match fault {
        CallError::Refused { text, .. } => JoinError::Refused { address, reason: text.to_string() },
        fault => JoinError::Unreachable { address, reason: fault.to_string() },
    }
}
