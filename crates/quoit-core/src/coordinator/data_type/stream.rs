//! Streams large sets and maps to a client page by page, so that the answer is the only copy in memory.

use super::identity_of;
use crate::coordinator::Coordinator;
use crate::coordinator::confirm::OwnedRead;
use crate::coordinator::first_round::{FirstRound, FirstRoundStart};
use crate::coordinator::read_replicas::{KnownAnswers, ReadRequest};
use crate::coordinator::started::StartedRead;
use crate::error::RequestError;
use crate::options::ReadOptions;
use crate::records::{ItemStream, Items, ItemsOutline, RecordContent};
use crate::replica::Copy;
use crate::request_log::AskedNodes;
use crate::stats::Sizes;
use crate::stored::wait_if_blocked;
use crate::topology::Topology;
use bytes::Bytes;
use quoit_model::data_type::context::encode_context;
use quoit_model::data_type::pages::ShownItem;
use quoit_model::hash::Identity;
use quoit_model::key::KeyRef;
use quoit_model::props::Datatype;
use quoit_store::error::StoreError;

/// Description of a set or map, which precedes its elements or fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamedItems {
    /// The data type: set, grow-only set or map.
    pub datatype: Datatype,
    /// Causal context of the value, which the client sends back with removes. Grow-only sets have none.
    pub context: Option<Bytes>,
    /// Estimate of the size of all elements in bytes, with room for the length of each. Enough for sets;
    /// the fields of maps may take more.
    pub size_bytes: u64,
}

/// Receives the elements of a set or the fields of a map.
pub trait ItemSink {
    /// Begins a set or map. If one was begun before, everything received for it is void.
    fn begin(&mut self, items: StreamedItems);

    /// Receives one element or field, in no particular order.
    fn item(&mut self, item: ShownItem<'_>);
}

/// Passes elements or fields on to the client's sink.
struct SinkAdapter<'s> {
    sink: &'s mut (dyn ItemSink + Send),
    identity: Identity,
    /// Data type and sizes of the record, once they are known.
    read: Option<(Datatype, Sizes)>,
}

impl Items for SinkAdapter<'_> {
    fn begin(&mut self, outline: ItemsOutline) {
        let ItemsOutline { datatype, clock, size_bytes } = outline;
        let context = clock
            .filter(|_| datatype != Datatype::Gset)
            .map(|clock| encode_context(&clock, self.identity.0));
        let sizes = Sizes { sibling_count: 1, value_bytes: size_bytes };
        self.read = Some((datatype, sizes));
        self.sink.begin(StreamedItems { datatype, context, size_bytes });
    }

    fn item(&mut self, item: ShownItem<'_>) {
        self.sink.item(item);
    }
}

/// Outcome of streaming a set or map.
#[derive(Debug)]
pub enum StreamOutcome {
    /// The sink has received all of it.
    Complete,
    /// The value has to be read whole: it is small, or another replica has a different copy, failed or is
    /// late. The caller discards everything that the sink has received, and continues
    /// the read with [`ReplicatedStore::finish_fetch`](crate::ReplicatedStore::finish_fetch).
    Started(Box<StartedRead>),
    /// This node has no copy that counts, it does not know yet which peers are up, or the read can't begin
    /// with the fewest replicas. The caller uses
    /// [`ReplicatedStore::fetch_data_type`](crate::ReplicatedStore::fetch_data_type).
    Declined,
}

impl Coordinator {
    /// As [`ReplicatedStore::stream_items`](crate::ReplicatedStore::stream_items).
    pub(crate) async fn stream_items(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
        sink: &mut (dyn ItemSink + Send),
    ) -> Result<StreamOutcome, RequestError> {
        self.check_gets()?;
        let started_us = self.local.clock.monotonic_us();
        key.check()?;
        let encoded = key.encoded();
        let topology = self.local.topology();
        let read = self.planned_read(&topology, key, &encoded, options)?;
        if !topology.is_alone() && !self.local.internode.is_settled() {
            return Ok(StreamOutcome::Declined);
        }
        let name = || Bytes::copy_from_slice(&encoded);
        let started = |known: KnownAnswers| {
            let read = OwnedRead::new(&read, name());
            Ok(StreamOutcome::Started(Box::new(StartedRead { read, known, started_us })))
        };
        let blocking = self.local.settings.blocking;
        let stream = match self.own_content(&topology, &read)? {
            OwnContent::Stream(stream) => stream,
            OwnContent::Value(known) => return started(known),
        };
        let first = if topology.is_alone() {
            None
        } else {
            match FirstRound::ask(&topology, &read.at, &read.need, read.sloppy, None)? {
                FirstRoundStart::Own => None,
                FirstRoundStart::Asked(first) => Some(first),
                FirstRoundStart::NotHere => return Ok(StreamOutcome::Declined),
            }
        };
        let mut handing = SinkAdapter { sink, identity: identity_of(key, &encoded), read: None };
        let each = || self.local.records.each_item(&read.at, Some(stream), &mut handing);
        let shown = match blocking.in_place(each).map_err(RequestError::from) {
            Err(fault) if is_healed(&topology, &fault) => None,
            shown => shown?,
        };
        let (Some(digest), Some((datatype, sizes))) = (shown, handing.read) else {
            // The record was replaced by a small one, all items were removed, or some are damaged.
            return started(first.unwrap_or_else(|| FirstRound::of_own(&topology, name())).into());
        };
        let mut nodes = AskedNodes::default();
        let _waiting = self.waiting_get();
        let own_us = self.local.clock.monotonic_us() - started_us;
        if let Some(mut first) = first {
            let patience = first.patience(&topology);
            if !first.agree(Some(digest), patience).await {
                first.answer_own(Some(digest));
                return started(first.into());
            }
            nodes = first.nodes;
        }
        let time_us = self.local.clock.monotonic_us() - started_us;
        let found = Ok(Some(sizes));
        self.local.stats.record_get(time_us, &found);
        self.note_get(key, (time_us, own_us), &found, &nodes);
        self.local.stats.data_types().record_get(datatype, time_us, sizes);
        Ok(StreamOutcome::Complete)
    }

    /// Reads this node's copy, but not the items of a large set or map.
    fn own_content(
        &self,
        topology: &Topology,
        read: &ReadRequest<'_>,
    ) -> Result<OwnContent, RequestError> {
        let content = wait_if_blocked(self.local.settings.blocking, |access| {
            let content = || self.local.records.content(&read.at, access);
            Ok(self.replica.healing.with_vote(&read.at, content)?)
        });
        let value = |own| OwnContent::Value(KnownAnswers::of_copy(topology, own));
        Ok(match content {
            Ok(RecordContent::Stream(stream)) => OwnContent::Stream(stream),
            Ok(RecordContent::Missing) => value(Copy::Missing),
            Ok(RecordContent::Value(digest, object)) => value(Copy::Found(digest, Some(object))),
            Err(fault) if is_healed(topology, &fault) => {
                let name = Bytes::copy_from_slice(read.at.encoded);
                OwnContent::Value(FirstRound::of_own(topology, name).into())
            }
            Err(fault) => return Err(fault),
        })
    }
}

/// True if a read heals a fault of this node's copy: in a cluster other replicas have what a damaged copy
/// lacks.
fn is_healed(topology: &Topology, fault: &RequestError) -> bool {
    matches!(fault, RequestError::Store(StoreError::Corrupt { .. })) && !topology.is_alone()
}

/// This node's copy of a record, as far as it was read.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
enum OwnContent {
    /// A large set or map.
    Stream(ItemStream),
    /// The record has to be read whole, with these facts.
    Value(KnownAnswers),
}
