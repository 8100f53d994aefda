//! How a node that ran alone joins a cluster.

use crate::ClusterId;
use crate::control::codec::{encode_change, encode_member};
use crate::error::{ChangeError, StoreError};
use crate::members::{Introduction, Member, MemberStatus};
use crate::plane::ControlPlane;
use crate::transport::{CallError, JoinProof};
use crate::trust::TrustError;
use prost::Message as _;
use quoit_wire::internode::control::{JoinAsked, Joined, METHOD_JOIN};
use std::time::Duration;
use thiserror::Error;

/// Time that the cluster may take to let a node in.
const JOIN_TIMEOUT: Duration = Duration::from_secs(15);

/// Why a node could not join. Displayed for operators.
#[derive(Debug, Error)]
pub enum JoinError {
    /// The node has other members already.
    #[error(
        "{name} is already a member of a cluster of {member_count}; only a node that runs alone can join. \
         Let it leave first, or start it with an empty data directory"
    )]
    AlreadyMember {
        /// The node.
        name: String,
        /// Members of its cluster.
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
    /// The node has no connections.
    #[error("this node does not listen for other nodes; start it with --node ADDR")]
    NotListening,
    /// Nothing answers there, or something else than a node.
    #[error(
        "{address} is not reachable: {reason}; give the internode address (--node) of a running member"
    )]
    Unreachable {
        /// The address.
        address: String,
        /// Description of the event.
        reason: String,
    },
    /// The cluster refused. Nothing was changed.
    #[error("the cluster at {address} refuses: {reason}")]
    Refused {
        /// The address.
        address: String,
        /// Its words.
        reason: String,
    },
    /// The cluster does not take the proof.
    #[error("the cluster at {address} does not take {what} ({reason})")]
    ProofRefused {
        /// The address.
        address: String,
        /// The proof, and what to do.
        what: String,
        /// The cause of the refusal.
        reason: String,
    },
    /// A token or a secret is of use to connections with TLS alone.
    #[error(
        "internode.tls = plain on this node, and a node that joins with a token needs TLS: set internode.tls \
         to the mode of the cluster (both or required), and start the node again"
    )]
    PlainMode,
    /// The certificate could not be kept.
    #[error("the certificate could not be written into the data directory: {reason}")]
    KeyFile {
        /// The cause of the failure.
        reason: String,
    },
    /// A key or a request could not be made.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The cluster's answer makes no sense.
    #[error(
        "the answer of {address} can't be understood: {reason}; do both nodes run the same version?"
    )]
    Malformed {
        /// The address.
        address: String,
        /// Description of the fault.
        reason: String,
    },
    /// The control file failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The node can't join now.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

impl ControlPlane {
    /// Joins the cluster that the node at `address` (`host:port` for other nodes) belongs to: from now on
    /// the node follows that cluster and waits for a commit that gives it partitions. Its bucket types and
    /// buckets come along. Can be repeated after any failure.
    ///
    /// # Errors
    ///
    /// When the node is not alone, the other is not reachable, or the cluster refuses; nothing is changed
    /// then, except that a cluster that has let the node in and could not tell waits for it to ask again.
    pub async fn join(&self, address: &str) -> Result<(), JoinError> {
        self.join_by(address, None).await
    }

    /// [`join`](Self::join), for which the node first gets a certificate of the cluster by `proof`.
    ///
    /// # Errors
    ///
    /// As [`join`](Self::join), and when the cluster does not take the proof.
    pub async fn join_by(&self, address: &str, proof: Option<&JoinProof>) -> Result<(), JoinError> {
        let _alone = self.joining().lock().await;
        if let Some(proof) = proof {
            let internode = self.link().internode().ok_or(JoinError::NotListening)?;
            self.check_alone()?;
            self.ask_certificate(&internode, address, proof).await?;
        }
        // Changes that this node has agreed on with itself meanwhile have to come along, too.
        while !self.join_as_it_is(address).await? {}
        Ok(())
    }

    /// Refuses to join with a node that is not alone.
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

    /// Joins with what the node knows now; whether it still knew the same when the cluster had answered.
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
        let asked = JoinAsked {
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
