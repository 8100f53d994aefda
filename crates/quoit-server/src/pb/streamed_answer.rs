//! The answer with a large set or map. Its elements or fields are encoded as they come from the store,
//! without building the message first.
//!
//! The length of the value is not known at the beginning. The encoder reserves the longest varint for it,
//! and moves the value to its place at the end.

use super::fault::Fault;
use crate::data_types::{ItemOrder, NodeStopping, TextCopies, map_entry};
use crate::memory::{MemoryReservation, NoMemory};
use bytes::BufMut;
use prost::Message;
use quoit_core::{ItemSink, StreamedItems};
use quoit_model::data_type::pages::ShownItem;
use quoit_model::props::Datatype;
use quoit_number::low_u8;
use quoit_wire::messages::DataType;
use quoit_wire::{FrameError, MessageCode};

/// Size of the frame's length and code, in bytes.
const HEAD_BYTES: usize = 5;
/// Reserved space for the length of the value, in bytes.
const LENGTH_BYTES_MAX: usize = 5;

/// Size of a set or map, in bytes, up to which no memory is requested for its order.
const SMALL_BYTES: usize = 64 << 10;

/// Tags of the fields of `DtFetchResp` and, in its value, of `DtValue`, with their wire types.
const CONTEXT: u8 = 1 << 3 | 2;
const KIND: u8 = 2 << 3;
const VALUE: u8 = 3 << 3 | 2;
const SET_VALUE: u8 = 2 << 3 | 2;
const MAP_VALUE: u8 = 3 << 3 | 2;
const GSET_VALUE: u8 = 5 << 3 | 2;

/// A frame with a `DtFetchResp` at the end of a buffer.
pub(super) struct StreamedAnswer<'o> {
    out: &'o mut Vec<u8>,
    reservation: &'o mut MemoryReservation,
    /// The reason why nothing is written.
    refused: Option<NoMemory>,
    includes_context: bool,
    start: usize,
    /// Offset of the length of the value.
    length_at: usize,
    item_tag: u8,
    /// Order of the items; `None` if they stay in the order in which they come.
    order: Option<ItemOrder>,
}

impl<'o> StreamedAnswer<'o> {
    pub(super) fn new(
        out: &'o mut Vec<u8>,
        reservation: &'o mut MemoryReservation,
        includes_context: bool,
    ) -> Self {
        let start = out.len();
        let (refused, length_at) = (None, start);
        Self {
            out,
            reservation,
            refused,
            includes_context,
            start,
            length_at,
            item_tag: SET_VALUE,
            order: None,
        }
    }

    /// Restores the buffer.
    pub(super) fn discard(self) {
        self.out.truncate(self.start);
    }

    /// Completes the frame.
    ///
    /// # Errors
    ///
    /// When the answer is too large for a frame, or there is no memory for it. The buffer is then as it was
    /// before.
    #[expect(
        clippy::indexing_slicing,
        reason = "the frame, with room for the lengths, was appended at `start`"
    )]
    pub(super) async fn finish(self) -> Result<(), Fault> {
        let Self { out, start, length_at, .. } = self;
        if let Some(fault) = self.refused {
            return Err(fault.into());
        }
        let value_at = length_at + LENGTH_BYTES_MAX;
        if let Some(order) = self.order {
            let sorted = order.sort_aside(out, b"").await;
            if let Err(NodeStopping) = sorted {
                out.truncate(start);
                return Err(Fault::Text("the node stops".into()));
            }
        }
        let mut length = Vec::with_capacity(LENGTH_BYTES_MAX);
        put_varint(&mut length, (out.len() - value_at) as u64);
        let end = out.len() - (LENGTH_BYTES_MAX - length.len());
        let frame_bytes = (end - start - 4) as u64;
        let Ok(frame_length) = u32::try_from(frame_bytes) else {
            out.truncate(start);
            let length_bytes_max = u32::MAX;
            return Err(FrameError::TooLarge { length_bytes: frame_bytes, length_bytes_max }.into());
        };
        out[length_at..length_at + length.len()].copy_from_slice(&length);
        out.copy_within(value_at.., length_at + length.len());
        out.truncate(end);
        out[start..start + 4].copy_from_slice(&frame_length.to_be_bytes());
        Ok(())
    }
}

impl ItemSink for StreamedAnswer<'_> {
    fn begin(&mut self, items: StreamedItems) {
        let out = &mut *self.out;
        out.truncate(self.start);
        let context = items.context.filter(|_| self.includes_context);
        let context_bytes = context.as_ref().map_or(0, |context| context.len() + 6);
        let size_bytes = usize::try_from(items.size_bytes).unwrap_or(usize::MAX);
        let heads_bytes = HEAD_BYTES + 8 + LENGTH_BYTES_MAX + context_bytes;
        let answer_bytes = size_bytes.saturating_add(heads_bytes);
        let order_bytes = ItemOrder::room_bytes(size_bytes, TextCopies(1));
        let held = self.reservation.hold_answer(out, answer_bytes);
        let held = held.and_then(|()| match size_bytes > SMALL_BYTES {
            true => self.reservation.hold(out.len().saturating_add(answer_bytes + order_bytes)),
            false => Ok(()),
        });
        self.refused = held.err();
        if self.refused.is_some() {
            return;
        }
        out.put_slice(&[0, 0, 0, 0, MessageCode::DtFetchResp as u8]);
        if let Some(context) = context {
            out.put_u8(CONTEXT);
            put_varint(out, context.len() as u64);
            out.put_slice(&context);
        }
        let (kind, tag) = match items.datatype {
            Datatype::Gset => (DataType::Gset, GSET_VALUE),
            Datatype::Map => (DataType::Map, MAP_VALUE),
            _ => (DataType::Set, SET_VALUE),
        };
        self.item_tag = tag;
        out.put_slice(&[KIND, kind as u8, VALUE]);
        self.length_at = out.len();
        out.put_slice(&[0; LENGTH_BYTES_MAX]);
        self.order = ItemOrder::of(size_bytes, out);
    }

    fn item(&mut self, item: ShownItem<'_>) {
        if self.refused.is_some() {
            return;
        }
        let start = self.out.len();
        self.out.push(self.item_tag);
        match &item {
            ShownItem::Element(element) => {
                put_varint(self.out, element.len() as u64);
                self.out.extend_from_slice(element);
            }
            ShownItem::Field(name, value) => {
                let entry = map_entry(((*name).clone(), (*value).clone()));
                entry.encode_length_delimited(self.out).expect("a vector takes everything");
            }
        }
        if let Some(order) = &mut self.order {
            order.note(&item, start..self.out.len());
        }
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_u8(value) | 0x80);
        value >>= 7;
    }
    out.push(low_u8(value));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_types::fetched_value;
    use crate::memory::reservation_of;
    use bytes::Bytes;
    use quoit_model::data_type::{FieldKind, FieldName, Value};
    use quoit_wire::append_message;
    use quoit_wire::messages::{DtFetchResp, DtValue};

    #[tokio::test]
    async fn an_answer_that_there_is_no_memory_for_is_refused_before_it_is_written() {
        let (mut out, mut reservation) = (b"before".to_vec(), reservation_of(1 << 20));
        let mut answer = StreamedAnswer::new(&mut out, &mut reservation, true);
        answer.begin(StreamedItems { datatype: Datatype::Set, context: None, size_bytes: 2 << 20 });
        answer.item(ShownItem::Element(b"x"));
        assert!(matches!(answer.finish().await, Err(Fault::Text(text)) if text.contains("memory")));
        assert_eq!((out.as_slice(), reservation.held_bytes()), (&b"before"[..], 0));
    }

    /// The streamed bytes equal those of a message that is built as a whole, with its items sorted.
    #[tokio::test]
    async fn the_answer_is_the_message() {
        for (datatype, count, context) in [
            (Datatype::Set, 3, Some("a context")),
            (Datatype::Set, 10, None),
            (Datatype::Gset, 3_000, None),
            (Datatype::Set, 0, Some("")),
        ] {
            let elements: Vec<Bytes> =
                (0..count).map(|number| format!("element {number}").into()).collect();
            let context = context.map(Bytes::from);
            let (mut out, mut reservation) = (b"before".to_vec(), reservation_of(1 << 20));
            let mut answer = StreamedAnswer::new(&mut out, &mut reservation, true);
            let set = StreamedItems { datatype, context: context.clone(), size_bytes: 10 };
            answer.begin(set.clone());
            answer.item(ShownItem::Element(b"of an attempt that was broken off"));
            answer.begin(set);
            elements.iter().for_each(|element| answer.item(ShownItem::Element(element)));
            assert!(answer.finish().await.is_ok());
            let is_set = datatype == Datatype::Set;
            let kind = if is_set { DataType::Set } else { DataType::Gset } as i32;
            let mut value = DtValue::default();
            let mut elements = elements;
            elements.sort();
            *(if is_set { &mut value.set_value } else { &mut value.gset_value }) = elements;
            let mut expected = b"before".to_vec();
            append_message(&mut expected, &DtFetchResp { context, kind, value: Some(value) })
                .expect("it is small");
            assert_eq!(out, expected);
        }
    }

    #[tokio::test]
    async fn the_answer_with_a_map_is_the_message() {
        let fields: Vec<(FieldName, Value)> = (0..100)
            .map(|number| {
                let name = FieldName::new(number.to_string(), FieldKind::Set);
                (name, Value::Set(vec!["x".into(), "y".into()]))
            })
            .collect();
        let (mut out, mut reservation) = (Vec::new(), reservation_of(1 << 20));
        let mut answer = StreamedAnswer::new(&mut out, &mut reservation, true);
        let (datatype, context) = (Datatype::Map, Some(Bytes::from("a context")));
        answer.begin(StreamedItems { datatype, context: context.clone(), size_bytes: 10 });
        fields.iter().for_each(|(name, value)| answer.item(ShownItem::Field(name, value)));
        assert!(answer.finish().await.is_ok());
        let mut fields = fields;
        fields.sort_by(|(one, _), (other, _)| one.cmp(other));
        let value = Some(fetched_value(datatype, Value::Map(fields)));
        let mut expected = Vec::new();
        append_message(&mut expected, &DtFetchResp { context, kind: DataType::Map as i32, value })
            .expect("it is small");
        assert_eq!(out, expected);
    }

    #[test]
    fn a_discarded_answer_leaves_the_output_unchanged() {
        let (mut out, mut reservation) = (b"before".to_vec(), reservation_of(1 << 20));
        let mut answer = StreamedAnswer::new(&mut out, &mut reservation, false);
        let context = Some(Bytes::from("a context"));
        answer.begin(StreamedItems { datatype: Datatype::Set, context, size_bytes: 0 });
        answer.item(ShownItem::Element(b"x"));
        answer.discard();
        assert_eq!(out, b"before");
    }
}
