//! A large set or map in JSON, encoded as its elements or fields come from the store.

use super::to_json::{NotUtf8, append_bytes, append_end, append_entry, append_type};
use super::{ItemOrder, NodeStopping, TextCopies};
use crate::memory::{MemoryReservation, NoMemory};
use bytes::Bytes;
use quoit_core::{ItemSink, StreamedItems};
use quoit_model::data_type::pages::ShownItem;
use quoit_model::props::Datatype;

/// Text of an element as a multiple of its bytes: a control character takes six bytes, as `\u0001`.
const ESCAPED_COPIES: usize = 6;
/// Memory of the text of elements, including separators, as a multiple of their stored size.
const TEXT_COPIES: usize = ESCAPED_COPIES + 1;

/// A value of [`append_value`](super::append_value) that is being written.
pub struct StreamedJson<'o> {
    out: &'o mut Vec<u8>,
    reservation: &'o mut MemoryReservation,
    /// The reason why nothing is written.
    refused: Option<NoMemory>,
    includes_context: bool,
    start: usize,
    is_map: bool,
    context: Option<Bytes>,
    /// True if an item was written.
    has_items: bool,
    /// Order of the items; `None` if they stay in the order in which they come.
    order: Option<ItemOrder>,
    fault: Option<NotUtf8>,
}

impl<'o> StreamedJson<'o> {
    /// Begins a value at the end of a buffer.
    pub fn new(
        out: &'o mut Vec<u8>,
        reservation: &'o mut MemoryReservation,
        includes_context: bool,
    ) -> Self {
        let start = out.len();
        Self {
            out,
            reservation,
            refused: None,
            includes_context,
            start,
            is_map: false,
            context: None,
            has_items: false,
            order: None,
            fault: None,
        }
    }

    /// The fault if there is no memory for the value. Nothing was written then.
    pub const fn refused(&self) -> Option<NoMemory> {
        self.refused
    }

    /// Restores the buffer.
    pub fn discard(self) {
        self.out.truncate(self.start);
    }

    /// Completes the value.
    ///
    /// # Errors
    ///
    /// `NodeStopping` when the node stops, which leaves the buffer as it was before; in the inner result, as
    /// [`append_value`](super::append_value).
    pub(crate) async fn finish(self) -> Result<Result<(), NotUtf8>, NodeStopping> {
        if let Some(order) = self.order {
            let sorted = order.sort_aside(self.out, b",").await;
            if let Err(stopping) = sorted {
                self.out.truncate(self.start);
                return Err(stopping);
            }
        }
        self.out.push(if self.is_map { b'}' } else { b']' });
        append_end(self.out, self.context.as_deref());
        Ok(self.fault.map_or(Ok(()), Err))
    }
}

impl ItemSink for StreamedJson<'_> {
    fn begin(&mut self, items: StreamedItems) {
        self.out.truncate(self.start);
        let size_bytes = usize::try_from(items.size_bytes).unwrap_or(usize::MAX);
        let text_bytes = size_bytes.saturating_mul(TEXT_COPIES);
        let order_bytes = ItemOrder::room_bytes(size_bytes, TextCopies(ESCAPED_COPIES));
        self.refused = self.reservation.hold(text_bytes.saturating_add(order_bytes)).err();
        if self.refused.is_some() {
            return;
        }
        append_type(self.out, items.datatype);
        self.out.extend_from_slice(b",\"value\":");
        self.is_map = items.datatype == Datatype::Map;
        self.out.push(if self.is_map { b'{' } else { b'[' });
        self.context = items.context.filter(|_| self.includes_context);
        (self.has_items, self.fault) = (false, None);
        self.order = ItemOrder::of(size_bytes, self.out);
    }

    fn item(&mut self, item: ShownItem<'_>) {
        if self.fault.is_some() || self.refused.is_some() {
            return;
        }
        if std::mem::replace(&mut self.has_items, true) {
            self.out.push(b',');
        }
        let start = self.out.len();
        let appended = match &item {
            ShownItem::Element(element) => append_bytes(self.out, element, "an element"),
            ShownItem::Field(name, value) => append_entry(self.out, &name.name, name.kind, value),
        };
        if let Some(order) = &mut self.order {
            order.note(&item, start..self.out.len());
        }
        self.fault = appended.err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_types::append_value;
    use crate::memory::reservation_of;
    use quoit_model::data_type::{FieldKind, FieldName, Value};

    fn items(value: &Value) -> Vec<ShownItem<'_>> {
        match value {
            Value::Set(elements) => elements.iter().map(|each| ShownItem::Element(each)).collect(),
            Value::Map(fields) => {
                fields.iter().map(|(name, value)| ShownItem::Field(name, value)).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_streamed_value_equals_the_whole_value() {
        let field = |name: &'static str, value| (FieldName::new(name, FieldKind::Register), value);
        let fields = ["a", "b\""].map(|name| field(name, Value::Register("v".into())));
        for (datatype, value) in [
            (Datatype::Set, Value::Set(vec!["a".into(), "q\"".into()])),
            (Datatype::Gset, Value::Set(Vec::new())),
            (Datatype::Map, Value::Map(fields.into())),
        ] {
            for context in [None, Some(Bytes::from("a context"))] {
                let (mut out, mut reservation) = (b"before".to_vec(), reservation_of(1 << 20));
                let mut streamed = StreamedJson::new(&mut out, &mut reservation, true);
                let begun = StreamedItems { datatype, context: context.clone(), size_bytes: 0 };
                streamed.begin(begun.clone());
                streamed.item(ShownItem::Element(b"\xff of an attempt that was broken off"));
                streamed.begin(begun);
                items(&value).into_iter().for_each(|item| streamed.item(item));
                streamed.finish().await.unwrap().unwrap();
                let mut expected = b"before".to_vec();
                append_value(&mut expected, datatype, &value, context.as_deref()).unwrap();
                assert_eq!(out, expected);
            }
        }
    }

    #[tokio::test]
    async fn bytes_that_are_no_text_are_told_at_the_end() {
        let mut out = Vec::new();
        let mut reservation = reservation_of(1 << 20);
        let mut streamed = StreamedJson::new(&mut out, &mut reservation, false);
        streamed.begin(StreamedItems { datatype: Datatype::Set, context: None, size_bytes: 0 });
        streamed.item(ShownItem::Element(b"\xff"));
        streamed.item(ShownItem::Element(b"x"));
        assert!(streamed.finish().await.unwrap().is_err());
    }
}
