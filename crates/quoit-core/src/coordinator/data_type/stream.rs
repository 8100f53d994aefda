//! Streams large sets and maps to a client page by page, so that the answer is the only copy in memory.

use super::identity_of;
use crate::coordinator::Coordinator;
use crate::coordinator::first_round::{FirstRound, FirstRoundStart};
use crate::coordinator::get::read_need;
use crate::coordinator::readers::ReadRequestKind;
use crate::error::RequestError;
use crate::options::ReadOptions;
use crate::placement::{object_props, record_at};
use crate::records::Items;
use crate::request_log::AskedNodes;
use crate::stats::Sizes;
use crate::stored::wait_if_blocked;
use bytes::Bytes;
use quoit_model::data_type::context::encode_context;
use quoit_model::data_type::pages::{PagedObject, ShownItem};
use quoit_model::hash::Identity;
use quoit_model::key::KeyRef;
use quoit_model::props::Datatype;
use std::time::Duration;

/// Time that the other replicas have to confirm the local copy, once it has been streamed.
const PATIENCE: Duration = Duration::from_millis(10);

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
    fn begin(&mut self, paged: &PagedObject) {
        let root = paged.root();
        let clock = paged.causal_clock().ok();
        let context = clock
            .filter(|_| root.datatype() != Datatype::Gset)
            .map(|clock| encode_context(&clock, self.identity.0));
        let sizes = Sizes { sibling_count: 1, value_bytes: root.page_bytes() };
        self.read = Some((root.datatype(), sizes));
        self.sink.begin(StreamedItems {
            datatype: root.datatype(),
            context,
            size_bytes: root.page_bytes(),
        });
    }

    fn item(&mut self, item: ShownItem<'_>) {
        self.sink.item(item);
    }
}

impl Coordinator {
    /// As [`ReplicatedStore::stream_items`](crate::ReplicatedStore::stream_items).
    pub(crate) async fn stream_items(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
        sink: &mut (dyn ItemSink + Send),
    ) -> Result<bool, RequestError> {
        self.check_gets()?;
        let started_us = self.local.clock.monotonic_us();
        key.check()?;
        let encoded = key.encoded();
        let topology = self.local.topology();
        let (at, quorums) = {
            let state = self.local.control.read();
            let props = object_props(&state, key.bucket)?;
            (record_at(&state, props, key, &encoded), options.resolve(props)?)
        };
        if !topology.is_alone() && !self.local.internode.is_settled() {
            return Ok(false);
        }
        let blocking = self.local.settings.blocking;
        if !wait_if_blocked(blocking, |access| Ok(self.local.records.is_in_pages(&at, access)?))? {
            return Ok(false);
        }
        let mut first = None;
        if topology.is_alone() {
            self.check_read(&topology, at.partition, &quorums, true)?;
        } else {
            let need = read_need(&self.local.control.read(), key.bucket, &quorums);
            let sloppy = options.is_sloppy();
            match FirstRound::ask(&topology, &at, &need, sloppy, ReadRequestKind::Digest)? {
                FirstRoundStart::Own => {}
                FirstRoundStart::Asked(asked) if asked.has_own() => first = Some(asked),
                FirstRoundStart::Asked(_) | FirstRoundStart::NotHere => return Ok(false),
            }
        }
        let mut handing = SinkAdapter { sink, identity: identity_of(key, &encoded), read: None };
        let shown = blocking.in_place(|| self.local.records.each_item(&at, &mut handing))?;
        let (Some(digest), Some((datatype, sizes))) = (shown, handing.read) else {
            return Ok(false);
        };
        let mut nodes = AskedNodes::default();
        let _waiting = self.waiting_get();
        let own_us = self.local.clock.monotonic_us() - started_us;
        if let Some(mut first) = first {
            if !first.agree(Some(digest), PATIENCE).await {
                return Ok(false);
            }
            nodes = first.nodes;
        }
        let time_us = self.local.clock.monotonic_us() - started_us;
        let found = Ok(Some(sizes));
        self.local.stats.record_get(time_us, &found);
        self.note_get(key, (time_us, own_us), &found, &nodes);
        self.local.stats.data_types().record_get(datatype, time_us, sizes);
        Ok(true)
    }
}
