//! A read from as many replicas as its quorums need.
//!
//! 1. The whole object comes from one replica, the local one if there is one. The other replicas that the
//!    read needs answer with digests.
//! 2. If all digests are equal, the object is the answer.
//! 3. Otherwise the coordinator fetches every version, merges them, answers, and sends the merged object
//!    to the replicas that answered with something else. It repairs its own copy before it answers.
//!
//! A replica that fails is replaced by the next one, and one more is asked when an answer is late.
//! Replicas that the read does not need are not asked. If a replica knows a newer layout, the coordinator
//! waits for that layout and begins again.

mod damaged;
mod known;
mod large;
mod resolve;

pub(crate) use known::KnownAnswers;

use crate::coordinator::Coordinator;
use crate::coordinator::first_round::UnexpectedAnswer;
use crate::coordinator::readers::{
    FetchRequest, ReadRequestKind, hedge_delay, next_reader, readers_of,
};
use crate::error::RequestError;
use crate::replica::Copy;
use crate::request_log::AskedNodes;
use crate::settings::TIMEOUT_MS_DEFAULT;
use crate::topology::{NodeConnection, Topology};
use crate::votes::{NodeIndex, ReadNeed, ReadState, ReadTally, Voters};
use prost::Message;
use quoit_cluster::{CallError, Replies, Reply};
use quoit_model::object::Object;
use quoit_store::engine::{IoMode, RecordAt};
use quoit_wire::internode::data::{Fetched, MergeRule, REFUSED_STALE_LAYOUT};
use smallvec::SmallVec;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Record and quorums of a read.
pub(crate) struct ReadRequest<'a> {
    /// The record.
    pub(crate) at: RecordAt<'a>,
    /// Quorums.
    pub(crate) need: ReadNeed,
    /// True if fallbacks may answer for primaries that are down.
    pub(crate) sloppy: bool,
    /// Rule by which versions are merged.
    pub(crate) rule: MergeRule,
    /// n_val of the bucket, capped at 15.
    pub(crate) n_val_class: u8,
    /// Milliseconds after which the read fails with `timeout`; `None` means the default.
    pub(crate) timeout_ms: Option<u32>,
}

impl ReadRequest<'_> {
    /// Time at which the read fails with `timeout` if its timeout counts from `start`.
    fn deadline_from(&self, start: Instant) -> Instant {
        start + self.timeout()
    }

    /// Time after which the read fails with `timeout`.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(u64::from(self.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT)))
    }
}

/// Times of a read.
#[derive(Clone, Copy)]
struct ReadTimes {
    /// Time at which the first replica was asked.
    began: Instant,
    /// Time at which the read fails with `timeout`.
    deadline: Instant,
}

/// Reason why an attempt ended without an answer.
enum ReadStop {
    Fault(RequestError),
    /// A replica knows a newer layout than this node.
    StaleLayout,
}

impl From<RequestError> for ReadStop {
    fn from(fault: RequestError) -> Self {
        Self::Fault(fault)
    }
}

impl Coordinator {
    /// Reads a record from its replicas and repairs the replicas that were behind: this node's own copy
    /// before the method returns, the others without waiting.
    pub(crate) async fn read_replicas(
        &self,
        read: &ReadRequest<'_>,
        asked: &mut AskedNodes,
    ) -> Result<Option<Object>, RequestError> {
        let began = Instant::now();
        let times = ReadTimes { began, deadline: read.deadline_from(began) };
        Box::pin(self.run_read(read, KnownAnswers::default(), times, asked)).await
    }

    /// Runs the read, and begins again with a newer topology if a replica knows that the layout has
    /// retired. Callers box the large future, for which the task of every idle connection would reserve
    /// space otherwise.
    async fn run_read(
        &self,
        read: &ReadRequest<'_>,
        mut known: KnownAnswers,
        times: ReadTimes,
        asked: &mut AskedNodes,
    ) -> Result<Option<Object>, RequestError> {
        let ReadTimes { began, deadline } = times;
        loop {
            let topology = self.local.topology();
            let version = topology.version();
            let mut run = ReadRun::new(self, topology, read, began)?;
            run.take_known(mem::take(&mut known));
            match run.run(deadline, asked).await {
                Ok(found) => return Ok(found),
                Err(ReadStop::Fault(fault)) => return Err(fault),
                Err(ReadStop::StaleLayout) => self.local.wait_for_newer(version, deadline).await?,
            }
        }
    }
}

/// One attempt of a read.
struct ReadRun<'a> {
    coordinator: &'a Coordinator,
    topology: Arc<Topology>,
    read: &'a ReadRequest<'a>,
    /// Time at which the first replica was asked.
    began: Instant,
    voters: Voters,
    /// The request to other nodes, made when the first of them is asked.
    request: Option<FetchRequest>,
    answers: SmallVec<[(NodeIndex, Copy); 4]>,
    /// Nodes that were asked and have not answered. True for the node that was asked for the whole
    /// object.
    waiting: SmallVec<[(NodeIndex, bool); 4]>,
    failed: SmallVec<[NodeIndex; 4]>,
    /// True if this node's copy is damaged. It is replaced by what the other replicas have.
    own_is_damaged: bool,
    /// True if this node's copy was damaged and has been replaced.
    own_is_healed: bool,
    /// A read of this node's copy that waits for the disk.
    own_read: Option<OwnRead>,
    replies: Replies,
    /// An unexpected answer that came before this run began.
    unexpected_answer: Option<Box<UnexpectedAnswer>>,
    /// True if replicas that were asked before this run began are late, so that it asks another one at
    /// once.
    begins_late: bool,
}

type OwnRead = Pin<Box<dyn Future<Output = Result<Copy, RequestError>> + Send>>;

/// Event of a waiting read.
enum ReadEvent {
    Own(Result<Copy, RequestError>),
    Reply(NodeIndex, Result<Reply, CallError>),
}

impl<'a> ReadRun<'a> {
    fn new(
        coordinator: &'a Coordinator,
        topology: Arc<Topology>,
        read: &'a ReadRequest<'a>,
        began: Instant,
    ) -> Result<Self, RequestError> {
        let voters = readers_of(&topology, read.at.partition, &read.need, read.sloppy)?;
        Ok(Self {
            coordinator,
            topology,
            read,
            began,
            voters,
            request: None,
            answers: SmallVec::new(),
            waiting: SmallVec::new(),
            failed: SmallVec::new(),
            own_is_damaged: false,
            own_is_healed: false,
            own_read: None,
            replies: Replies::new(),
            unexpected_answer: None,
            begins_late: false,
        })
    }

    async fn run(
        mut self,
        deadline: Instant,
        asked: &mut AskedNodes,
    ) -> Result<Option<Object>, ReadStop> {
        let found = self.find(deadline).await;
        let (answers, waiting) = (self.answers.iter(), self.waiting.iter());
        let heard = answers.map(|(node, _)| *node).chain(waiting.map(|(node, _)| *node));
        asked.add_all(&self.topology, heard.chain(self.failed.iter().copied()));
        found
    }

    /// Gathers answers and resolves them, until every version could be fetched.
    async fn find(&mut self, deadline: Instant) -> Result<Option<Object>, ReadStop> {
        if let Some((node, reply)) =
            self.unexpected_answer.take().map(|unexpected_answer| *unexpected_answer)
        {
            self.answered(node, reply)?;
        }
        loop {
            self.gather(deadline).await?;
            if let Some(found) = self.resolve(deadline).await? {
                return Ok(found);
            }
        }
    }

    /// Asks replicas and takes their answers until the read's conditions are met.
    async fn gather(&mut self, deadline: Instant) -> Result<(), ReadStop> {
        // Answers that have arrived are taken before a time that has passed is noticed.
        let mut hedge_at = mem::take(&mut self.begins_late).then(Instant::now);
        loop {
            if self.tally().state(&self.voters) != ReadState::Open {
                return Ok(());
            }
            self.ask_enough();
            if self.tally().state(&self.voters) != ReadState::Open {
                return Ok(());
            }
            if self.waiting.is_empty() {
                match self.tally().give_up(&self.voters) {
                    Ok(ReadState::NotFound) => return Ok(()),
                    Ok(_) => continue,
                    Err(_) if self.heal_own(deadline).await? => continue,
                    Err(fault) => return Err(fault.into()),
                }
            }
            let tick = *hedge_at.get_or_insert_with(|| Instant::now() + self.hedge_delay());
            match timeout_at(tick.min(deadline), self.next_event()).await {
                Ok(Some(heard)) => self.take(heard)?,
                Ok(None) => self.waiting.clear(),
                Err(_) if Instant::now() >= deadline => return Err(RequestError::Timeout.into()),
                Err(_) => {
                    hedge_at = None;
                    self.hedge();
                }
            }
        }
    }

    /// Counts the answers so far.
    fn tally(&self) -> ReadTally {
        let mut tally = ReadTally::new(self.read.need);
        for (node, copy) in &self.answers {
            match copy {
                Copy::Missing => tally.missing(*node),
                Copy::Found(..) => tally.found(*node),
            }
        }
        tally
    }

    /// Asks as many replicas as are enough if all of them answer with an object.
    fn ask_enough(&mut self) {
        while !self.would_suffice()
            && let Some(node) = self.next_to_ask()
        {
            self.ask(node);
        }
    }

    /// True if the answers so far and those under way would be enough.
    fn would_suffice(&self) -> bool {
        let mut hoped = self.tally();
        self.waiting.iter().for_each(|(node, _)| hoped.found(*node));
        hoped.state(&self.voters) != ReadState::Open
    }

    /// The best node that was not asked yet.
    fn next_to_ask(&self) -> Option<NodeIndex> {
        next_reader(&self.topology, &self.voters, |node| {
            self.waiting.iter().any(|(other, _)| *other == node)
                || self.answers.iter().any(|(other, _)| *other == node)
        })
    }

    /// Asks a node: for the whole object if no other node has sent it or was asked for it, else for a
    /// digest.
    fn ask(&mut self, node: NodeIndex) {
        let whole = !self.has_body() && !self.waiting.iter().any(|(_, whole)| *whole);
        self.ask_for(node, whole);
    }

    /// True if a node has sent the whole object, or if this node has it, from where it can be read.
    fn has_body(&self) -> bool {
        self.answers.iter().any(|(node, copy)| match copy {
            Copy::Found(_, body) => body.is_some() || self.topology.own() == Some(*node),
            Copy::Missing => false,
        })
    }

    /// Asks a node for the whole object or for the digest. A local copy that is not in memory is read in
    /// the background and counts as a node that has not answered yet, so that a slow disk is hedged like
    /// a slow peer.
    fn ask_for(&mut self, node: NodeIndex, whole: bool) {
        match &self.topology.node(node).connection {
            NodeConnection::Own => {
                match self.coordinator.replica.fetch_copy(&self.read.at, whole, IoMode::NoWait) {
                    Ok(Some(copy)) => self.keep(node, copy),
                    Ok(None) => self.read_own_aside(node, whole),
                    Err(fault) => self.own_failed(node, &fault),
                }
            }
            NodeConnection::Peer(_) => {
                let wanted = if whole { ReadRequestKind::Object } else { ReadRequestKind::Digest };
                let (topology, at) = (&self.topology, &self.read.at);
                let request = self.request.get_or_insert_with(|| FetchRequest::new(topology, at));
                match request.send(topology, node, wanted, &self.replies) {
                    true => self.waiting.push((node, whole)),
                    false => self.fail(node),
                }
            }
            NodeConnection::Unknown => self.fail(node),
        }
        self.check();
    }

    /// Begins to read this node's copy from the disk, on another thread.
    fn read_own_aside(&mut self, own: NodeIndex, whole: bool) {
        self.waiting.push((own, whole));
        let read = self.coordinator.replica.read_copy_waiting(&self.read.at, whole);
        self.own_read = Some(Box::pin(read));
    }

    /// Checks in debug builds that the lists of nodes agree with each other and with the voters.
    fn check(&self) {
        let answers = self.answers.iter().map(|(node, _)| *node);
        let waiting = self.waiting.iter().map(|(node, _)| *node);
        let mut in_use = answers.chain(waiting).chain(self.voters.iter().map(|voter| voter.node));
        debug_assert!(
            in_use.all(|node| !self.failed.contains(&node)),
            "a node that has failed neither answers nor votes"
        );
        let mut waiting = self.waiting.iter().map(|(node, _)| Some(*node));
        debug_assert!(
            self.own_read.is_none() || waiting.any(|node| node == self.topology.own()),
            "a read of this node's copy is waited for"
        );
    }

    /// Notes that this node's copy can't be read.
    fn own_failed(&mut self, own: NodeIndex, fault: &RequestError) {
        match self.coordinator.replica.healing.is_replaced(self.read.at.encoded) {
            true => tracing::debug!(%fault, "the local copy has no vote"),
            false => tracing::error!(%fault, "reading the local copy failed"),
        }
        self.own_is_damaged = true;
        self.fail(own);
    }

    /// Waits for the next answer; `None` if no answer is outstanding.
    async fn next_event(&mut self) -> Option<ReadEvent> {
        poll_fn(|context| {
            if let Some(read) = &mut self.own_read
                && let Poll::Ready(copy) = read.as_mut().poll(context)
            {
                self.own_read = None;
                return Poll::Ready(Some(ReadEvent::Own(copy)));
            }
            match self.replies.poll_next(context) {
                Poll::Ready(Some((node, reply))) => {
                    Poll::Ready(Some(ReadEvent::Reply(node, reply)))
                }
                Poll::Ready(None) if self.own_read.is_none() => Poll::Ready(None),
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    fn take(&mut self, heard: ReadEvent) -> Result<(), ReadStop> {
        match (heard, self.topology.own()) {
            (ReadEvent::Reply(node, reply), _) => self.answered(node, reply)?,
            (ReadEvent::Own(Ok(copy)), Some(own)) => {
                self.waiting.retain(|(node, _)| *node != own);
                self.keep(own, copy);
            }
            (ReadEvent::Own(Err(fault)), Some(own)) => self.own_failed(own, &fault),
            (ReadEvent::Own(_), None) => {}
        }
        self.check();
        Ok(())
    }

    /// Keeps a node's answer, in place of an earlier one.
    fn keep(&mut self, node: NodeIndex, copy: Copy) {
        match self.answers.iter_mut().find(|(other, _)| *other == node) {
            Some((_, known)) => *known = copy,
            None => self.answers.push((node, copy)),
        }
    }

    /// Notes that a node failed, and gives its votes to other nodes.
    fn fail(&mut self, node: NodeIndex) {
        self.waiting.retain(|(other, _)| *other != node);
        self.answers.retain(|(other, _)| *other != node);
        self.failed.push(node);
        self.choose_voters();
    }

    /// Assigns the votes to nodes that have not failed.
    fn choose_voters(&mut self) {
        let ReadRequest { at, need, sloppy, .. } = self.read;
        let replicas = need.replica_count();
        self.voters = self.topology.readers(at.partition, replicas, *sloppy, &self.failed);
    }

    /// Takes the answer of another node.
    fn answered(&mut self, slot: u16, reply: Result<Reply, CallError>) -> Result<(), ReadStop> {
        let node = slot;
        let Some(place) = self.waiting.iter().position(|(other, _)| *other == node) else {
            return Ok(());
        };
        let (_, whole) = self.waiting.remove(place);
        match reply.map(|reply| read_fetched(reply, whole)) {
            // The node has lost records, which this node's layout does not know: its vote was wrongly
            // counted as a primary's.
            Ok(Some((_, true))) if !self.topology.has_lost(self.read.at.partition, node) => {
                return Err(ReadStop::StaleLayout);
            }
            Ok(Some((copy, _))) => self.keep(node, copy),
            Err(CallError::Refused { code: REFUSED_STALE_LAYOUT, .. }) => {
                return Err(ReadStop::StaleLayout);
            }
            Ok(None) | Err(_) => self.fail(node),
        }
        Ok(())
    }

    fn hedge_delay(&self) -> Duration {
        hedge_delay(&self.topology, self.waiting.iter().map(|(node, _)| *node))
    }

    /// Gives up on nodes that have gone down in the meantime, and asks one more replica.
    fn hedge(&mut self) {
        let dead: SmallVec<[NodeIndex; 4]> = self
            .waiting
            .iter()
            .map(|(node, _)| *node)
            .filter(|node| !self.topology.is_up(*node))
            .collect();
        dead.into_iter().for_each(|node| self.fail(node));
        let Some(node) = self.next_to_ask() else { return };
        // The late node may be the one that was asked for the object.
        self.ask_for(node, !self.has_body());
    }
}

/// A replica's copy from its answer, and whether the replica has lost records; `None` if the answer can't
/// be decoded.
fn read_fetched(reply: Reply, whole: bool) -> Option<(Copy, bool)> {
    let fetched = Fetched::decode(reply.header).ok()?;
    let copy = match (fetched.found, whole) {
        (false, _) => Copy::Missing,
        (true, false) => Copy::Found(fetched.digest, None),
        (true, true) => Copy::Found(fetched.digest, Some(reply.payload)),
    };
    Some((copy, fetched.has_lost))
}
