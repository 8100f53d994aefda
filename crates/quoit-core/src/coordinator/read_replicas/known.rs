//! Continuation of reads that have begun before: the run takes over what they know, and asks only for the
//! rest.

use super::{ReadRequest, ReadRun, ReadTimes};
use crate::coordinator::Coordinator;
use crate::coordinator::first_round::FirstRound;
use crate::error::RequestError;
use crate::replica::Copy;
use crate::request_log::AskedNodes;
use crate::topology::Topology;
use quoit_model::object::Object;
use std::time::Duration;
use tokio::time::Instant;

/// Facts that a read knows when it becomes a run.
#[derive(Default)]
pub(crate) struct KnownAnswers {
    /// The replicas that were asked, and their answers. If this node has a vote and no answer among them,
    /// its copy was not read: it is not in memory, is damaged, or was replaced meanwhile.
    pub(crate) first: Option<FirstRound>,
    /// This node's copy, if it was read, and the version of the topology at that time.
    pub(crate) own: Option<(u64, Copy)>,
}

impl From<FirstRound> for KnownAnswers {
    fn from(first: FirstRound) -> Self {
        Self { first: Some(first), own: None }
    }
}

impl KnownAnswers {
    /// This node's copy, read while `topology` was in force, and nothing else.
    pub(crate) fn of_copy(topology: &Topology, own: Copy) -> Self {
        Self { first: None, own: Some((topology.version(), own)) }
    }
}

impl Coordinator {
    /// Continues a read that asked its first replicas at `started_us` on the monotonic clock, from where
    /// its timeout counts. Their answers count, and so do answers that still arrive.
    pub(crate) async fn continue_read(
        &self,
        read: &ReadRequest<'_>,
        first: FirstRound,
        started_us: u64,
        asked: &mut AskedNodes,
    ) -> Result<Option<Object>, RequestError> {
        let began = self.instant_of(started_us);
        let times = ReadTimes { began, deadline: read.deadline_from(began) };
        Box::pin(self.run_read(read, first.into(), times, asked)).await
    }

    /// As [`Coordinator::continue_read`], for a read whose caller has waited for memory in the meantime:
    /// the timeout counts from now.
    pub(crate) async fn continue_late(
        &self,
        read: &ReadRequest<'_>,
        known: KnownAnswers,
        started_us: u64,
        asked: &mut AskedNodes,
    ) -> Result<Option<Object>, RequestError> {
        let began = self.instant_of(started_us);
        let times = ReadTimes { began, deadline: read.deadline_from(Instant::now()) };
        Box::pin(self.run_read(read, known, times, asked)).await
    }

    /// Converts a time of the monotonic clock.
    fn instant_of(&self, started_us: u64) -> Instant {
        let elapsed_us = self.local.clock.monotonic_us().saturating_sub(started_us);
        let now = Instant::now();
        now.checked_sub(Duration::from_micros(elapsed_us)).unwrap_or(now)
    }
}

impl ReadRun<'_> {
    /// Takes over the facts that an earlier part of the read knows.
    pub(super) fn take_known(&mut self, known: KnownAnswers) {
        let KnownAnswers { first, own: copy } = known;
        let own = self.topology.own().and_then(|own| self.voters.of(own));
        let own = own.map(|voter| (voter.node, voter.primary > 0));
        // In another version of the topology a place may belong to another node, and this node's copy may
        // have become one that lacks what it was not sent before.
        let version = self.topology.version();
        let first = first.filter(|first| first.topology_version == version);
        let copy = copy.filter(|(of, _)| *of == version).map(|(_, copy)| copy);
        let is_read = first.as_ref().is_none_or(FirstRound::has_read_own);
        if let Some(first) = first {
            self.take_first(first);
        }
        match (own, copy) {
            // A fallback's copy is asked for only if the primaries are not enough.
            (Some((own, true)), Some(copy)) => self.keep(own, copy),
            (Some((own, true)), None) if !is_read => self.read_own_aside(own, true),
            _ => {}
        }
        self.check();
    }

    /// Takes over the replicas that were asked first, and their answers.
    fn take_first(&mut self, first: FirstRound) {
        let FirstRound { replies, waiting, answers, unexpected_answer, is_late, .. } = first;
        let copy =
            |digest: Option<u64>| digest.map_or(Copy::Missing, |digest| Copy::Found(digest, None));
        self.answers.extend(answers.into_iter().map(|(node, digest)| (node, copy(digest))));
        self.waiting.extend(waiting.into_iter().map(|node| (node, false)));
        (self.replies, self.unexpected_answer, self.begins_late) =
            (replies, unexpected_answer, is_late);
    }
}
