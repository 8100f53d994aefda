//! Who holds strays: a tombstone that is reaped while somebody keeps what it deleted would have been
//! written for nothing.

use super::hand::ANSWER_TIMEOUT;
use crate::store::ReplicatedStore;
use prost::Message;
use quoit_cluster::{Lane, Replies, Responder};
use quoit_model::hash::Partition;
use quoit_wire::internode::transfer::{METHOD_STRAYS, Strays, StraysHeld};
use std::collections::BTreeSet;
use tokio::time::timeout;

impl ReplicatedStore {
    /// Notes that a record was written here. If this node is no primary of it, it is to be handed over.
    pub(crate) fn note_written(&self, partition: Partition, n_val: u32) {
        if !self.topology_now().is_own(partition, n_val) {
            self.transfers.suspects.lock().waiting.insert(partition);
        }
    }

    /// Partitions that any member may have strays of, or hints; `None` while some member can't be asked.
    pub(crate) async fn strays_anywhere(&self) -> Option<BTreeSet<Partition>> {
        let mut strays = self.unsettled();
        let mut replies = Replies::new();
        let state = self.state();
        for member in state.members().iter().filter(|member| member.id != state.node_id()) {
            let peer = self.reachable(member.id)?;
            peer.send(METHOD_STRAYS, &Strays {}, b"", Lane::Small, &replies, 0).ok()?;
        }
        let answers = async {
            while let Some((_, answer)) = replies.next().await {
                let held = StraysHeld::decode(answer.ok()?.header).ok()?;
                let held = held.partitions.into_iter();
                strays.extend(held.filter_map(|number| u16::try_from(number).ok().map(Partition)));
            }
            Some(())
        };
        timeout(ANSWER_TIMEOUT, answers).await.ok()??;
        Some(strays)
    }

    /// Partitions of which this node may have strays, or of which others have missed something.
    fn unsettled(&self) -> BTreeSet<Partition> {
        let mut partitions = self.transfers.suspects.lock().all();
        partitions.extend(self.hints.partitions());
        partitions
    }

    pub(crate) fn serve_strays(&self, reply: Responder) {
        let partitions =
            self.unsettled().into_iter().map(|partition| u32::from(partition.0)).collect();
        reply.send(&StraysHeld { partitions }, b"");
    }
}
