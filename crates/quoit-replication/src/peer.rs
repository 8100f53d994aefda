//! A connection to a peer: asks for entries, stores them, and confirms them with the next request.

use crate::address::Protocol;
use crate::figures::PeerKind;
use crate::missing_ranges::fetch_lacking;
use crate::peer_context::{PeerContext, PeerFault};
use crate::peer_delay::RequestOutcome;
use crate::riak;
use crate::storing::{BatchOutcome, store_batch};
use bytes::Bytes;
use quoit_client::Connection;
use quoit_core::{Counter, VisitedCluster};
use quoit_wire::messages::{RpbQueueTakeReq, RpbQueueTakeResp};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::timeout;

/// Number of connections to a Quoit peer. Each has a batch of entries under way.
const QUOIT_CONNECTION_COUNT: usize = 4;
/// Maximum number of entries in a batch.
const BATCH_COUNT_MAX: u32 = 64;
/// Number of bytes of objects after which a batch gets no further one.
const BATCH_BYTES_MAX: u32 = 1 << 20;
/// Maximum bytes of a frame that a peer may send. One object may exceed the limit of a batch.
const FRAME_BYTES_MAX: u32 = 256 << 20;
/// Time in milliseconds that a peer may wait for an entry of an empty queue.
const POLL_MS: u32 = 1_000;
/// Time beyond that after which a peer counts as silent.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a batch of which an entry could not be stored.
const REST_AFTER_FAULT: Duration = Duration::from_secs(1);

/// Consumes a queue of a peer over the connection with this number, until the task is aborted or was
/// asked to end.
pub(crate) async fn run(mut context: PeerContext, number: usize) {
    let mut kinds = context.kind.subscribe();
    loop {
        if number > 0 {
            // The first connection finds out which program the peer runs.
            let wanted = |kind: &Option<PeerKind>| match kind {
                Some(PeerKind::Quoit) => number < QUOIT_CONNECTION_COUNT,
                Some(PeerKind::Riak) => true,
                None => false,
            };
            if kinds.wait_for(wanted).await.is_err() {
                return;
            }
        }
        if context.is_suspended.wait_for(|is| !is).await.is_err() {
            return;
        }
        let known = *context.kind.borrow();
        let fault = match (context.address.protocol, known) {
            (Protocol::Http, _) => riak::consume(&mut context, Protocol::Http).await,
            (Protocol::Pb, Some(PeerKind::Riak)) => riak::consume(&mut context, Protocol::Pb).await,
            (Protocol::Pb, _) => match consume(&mut context).await {
                // The peer may be a Riak node, which speaks another protocol.
                PeerFault::NoQuoit => riak::consume(&mut context, Protocol::Pb).await,
                fault => fault,
            },
        };
        if context.end.is_wanted() {
            return;
        }
        context.delay.note(RequestOutcome::Failed);
        let text = fault.text(&context.address);
        let known = context.figures.state.lock().fault.clone();
        if known.as_deref() != Some(&text) {
            tracing::warn!(queue = %String::from_utf8_lossy(&context.queue), "sink: {text}");
        }
        context.figures.note_fault(text);
        context.store.stats().count(Counter::SinkErrors);
        let random = context.store.clock().monotonic_us();
        tokio::time::sleep(context.delay.wait(random)).await;
    }
}

/// Connects, and consumes until a fault occurs.
async fn consume(context: &mut PeerContext) -> PeerFault {
    let address = context.address.host_and_port();
    let mut connection = match timeout(CONNECT_TIMEOUT, context.dialer.connect(&address)).await {
        Ok(Ok(connection)) => connection.with_frame_length_max(FRAME_BYTES_MAX),
        Ok(Err(fault)) => return fault.into(),
        Err(_) => return PeerFault::Silent,
    };
    let figures = Arc::clone(&context.figures);
    let _open = figures.open();
    let (mut done, mut is_new) = (BatchReport::default(), true);
    loop {
        if *context.is_suspended.borrow() {
            // Confirm stored entries before the connection becomes idle.
            let farewell = request(context, std::mem::take(&mut done), 0);
            if let Err(fault) = take(&mut connection, &farewell).await {
                return fault;
            }
            if context.is_suspended.wait_for(|is| !is).await.is_err() {
                return PeerFault::Silent;
            }
        }
        let asked = request(context, std::mem::take(&mut done), BATCH_COUNT_MAX);
        let began_us = context.store.clock().monotonic_us();
        let answer = match take(&mut connection, &asked).await {
            Ok(answer) => answer,
            Err(fault) => return fault,
        };
        let source = match source_of(context, &answer) {
            Ok(source) => source,
            Err(fault) => return fault,
        };
        note_answer(context, &answer, source);
        if std::mem::take(&mut is_new) {
            // Clears the fault of the previous connection. The fault of an entry appears again with the
            // entry.
            figures.state.lock().fault = None;
        }
        if answer.entries.is_empty() {
            note_empty(context, answer.queue_exists).await;
            continue;
        }
        let took_us = context.store.clock().monotonic_us() - began_us;
        figures.fetch_us.fetch_add(took_us, Ordering::Relaxed);
        let taken_count = answer.entries.len();
        let _in_hand = figures.hold(taken_count);
        let PeerContext { store, workers, .. } = &*context;
        let BatchOutcome { stored, lacking, fault } =
            store_batch(store, source, answer.entries, workers, &figures).await;
        let (fetched, wanted_whole) =
            fetch_lacking(store, &mut connection, source, lacking, &figures).await;
        done = BatchReport { confirmed: [stored, fetched].concat(), wanted_whole };
        debug_assert!(
            done.confirmed.len() + done.wanted_whole.len() <= taken_count,
            "an entry is confirmed, or wanted whole, or comes again"
        );
        match fault {
            None => {
                context.delay.note(RequestOutcome::Stored);
                figures.state.lock().fault = None;
            }
            Some(fault) => {
                context.store.stats().count(Counter::SinkErrors);
                tracing::debug!(fault, "an entry of another cluster could not be stored");
                tokio::time::sleep(REST_AFTER_FAULT).await;
            }
        }
    }
}

/// Returns the cluster that has answered, which must be another one.
fn source_of(
    context: &PeerContext,
    answer: &RpbQueueTakeResp,
) -> Result<VisitedCluster, PeerFault> {
    let source = VisitedCluster::try_from(&answer.source_cluster[..]);
    let source = source.map_err(|_| PeerFault::Malformed)?;
    let is_other = source != context.store.replication().cluster();
    is_other.then_some(source).ok_or(PeerFault::Itself)
}

/// Counts an answer without entries, and waits if there is no such queue.
async fn note_empty(context: &mut PeerContext, queue_exists: bool) {
    context.figures.empty.fetch_add(1, Ordering::Relaxed);
    context.store.stats().count(Counter::SinkEmpty);
    context.delay.note(RequestOutcome::Empty);
    if !queue_exists {
        tokio::time::sleep(REST_AFTER_FAULT).await;
    }
}

/// Outcome of a batch's entries, which the next request reports.
#[derive(Default)]
struct BatchReport {
    confirmed: Vec<u64>,
    wanted_whole: Vec<u64>,
}

fn request(context: &PeerContext, done: BatchReport, count_max: u32) -> RpbQueueTakeReq {
    RpbQueueTakeReq {
        queue_name: context.queue.clone(),
        sink_cluster: Bytes::copy_from_slice(&context.store.replication().cluster()),
        sink_node: Some(context.node_name.clone()),
        confirmed: done.confirmed,
        count_max: Some(count_max),
        bytes_max: Some(BATCH_BYTES_MAX),
        wait_ms: (count_max > 0).then_some(POLL_MS),
        wanted_whole: done.wanted_whole,
        takes_deltas: Some(true),
    }
}

async fn take(
    connection: &mut Connection,
    request: &RpbQueueTakeReq,
) -> Result<RpbQueueTakeResp, PeerFault> {
    let limit = Duration::from_millis(u64::from(POLL_MS)) + ANSWER_TIMEOUT;
    match timeout(limit, connection.call(request)).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(PeerFault::Silent),
    }
}

fn note_answer(context: &PeerContext, answer: &RpbQueueTakeResp, source: VisitedCluster) {
    context.figures.waiting.store(answer.waiting.unwrap_or(0), Ordering::Relaxed);
    let mut state = context.figures.state.lock();
    state.has_no_queue = !answer.queue_exists;
    if state.kind.is_none() {
        state.kind = Some(PeerKind::Quoit);
        let mut name = String::new();
        for byte in source {
            // Writing to a string can't fail.
            let _ = write!(name, "{byte:02x}");
        }
        state.cluster = Some(name);
        context.kind.send_replace(Some(PeerKind::Quoit));
    }
}
