//! Sorting of a large set or map whose items are encoded as they come from the store.
//!
//! The store reads pages by item hash, but clients get elements in the order of bytes, and fields in the
//! order of names and types. Therefore items are encoded as they come and sorted at the end. Sorting takes
//! several times the memory of the answer, so values above [`SORTED_BYTES_MAX`] stay in the store's order.

use quoit_model::data_type::FieldKind;
use quoit_model::data_type::pages::ShownItem;
use std::ops::Range;
use std::panic::resume_unwind;
use tokio::task::spawn_blocking;

/// Stored size in bytes up to which a set or map is sorted.
const SORTED_BYTES_MAX: usize = 4 << 20;
/// Memory of the order as a multiple of the stored size: names, places and a second copy of the items. A
/// place takes 40 bytes for each item, and twice that while its vector grows.
const ORDER_COPIES: usize = 7;
/// Size in bytes of the items that are sorted on the current thread. Sorting more would delay other
/// requests of the thread.
const SHORT_BYTES: usize = 64 << 10;

/// Place of an item in the encoded text.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ItemPlace {
    /// Range of the name in `names`.
    name: Range<usize>,
    kind: Option<FieldKind>,
    /// Range of the item in the buffer.
    at: Range<usize>,
}

/// Items in the order in which they came, with their sort keys.
#[derive(Default)]
pub(crate) struct ItemOrder {
    names: Vec<u8>,
    items: Vec<ItemPlace>,
}

/// Error: the node is stopping, so nothing was sorted.
#[derive(Debug)]
pub(crate) struct Stopping;

impl ItemOrder {
    /// Creates the order for a value of `size_bytes` in the store; `None` if it stays unsorted.
    pub(crate) fn of(size_bytes: usize) -> Option<Self> {
        (size_bytes <= SORTED_BYTES_MAX).then(Self::default)
    }

    /// Upper bound of the memory in bytes for the order of such a value.
    pub(crate) const fn room_bytes(size_bytes: usize) -> usize {
        if size_bytes <= SORTED_BYTES_MAX { size_bytes * ORDER_COPIES } else { 0 }
    }

    /// Adds an item that was written at this range of the buffer.
    pub(crate) fn note(&mut self, item: &ShownItem<'_>, at: Range<usize>) {
        let (name, kind) = match item {
            ShownItem::Element(element) => (*element, None),
            ShownItem::Field(name, _) => (&name.name[..], Some(name.kind)),
        };
        let name_start = self.names.len();
        self.names.extend_from_slice(name);
        self.items.push(ItemPlace { name: name_start..self.names.len(), kind, at });
    }

    /// Sorts the items, which fill the buffer from `start` on, and puts a separator between them. Large
    /// values are sorted on a thread for long work.
    pub(crate) async fn sort_aside(
        self,
        out: &mut Vec<u8>,
        start: usize,
        separator: &'static [u8],
    ) -> Result<(), Stopping> {
        if out.len() - start <= SHORT_BYTES {
            self.sort(out, start, separator);
            return Ok(());
        }
        let mut buffer = std::mem::take(out);
        let sort = spawn_blocking(move || {
            self.sort(&mut buffer, start, separator);
            buffer
        });
        match sort.await {
            Ok(buffer) => *out = buffer,
            Err(stopped) if stopped.is_panic() => resume_unwind(stopped.into_panic()),
            Err(_) => return Err(Stopping),
        }
        Ok(())
    }

    fn sort(mut self, out: &mut Vec<u8>, start: usize, separator: &[u8]) {
        let key = |item: &ItemPlace| (&self.names[item.name.clone()], item.kind);
        if self.items.is_sorted_by(|one, other| key(one) <= key(other)) {
            return;
        }
        self.items.sort_unstable_by(|one, other| key(one).cmp(&key(other)));
        let mut sorted = Vec::with_capacity(out.len() - start);
        for (place, ItemPlace { at, .. }) in self.items.iter().enumerate() {
            if place > 0 {
                sorted.extend_from_slice(separator);
            }
            sorted.extend_from_slice(&out[at.clone()]);
        }
        out.truncate(start);
        out.extend_from_slice(&sorted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quoit_model::data_type::{FieldName, Value};

    proptest! {
        #[test]
        fn elements_are_sorted_by_their_bytes(
            elements in proptest::collection::btree_set(proptest::collection::vec(any::<u8>(), 0..4), 0..20)
                .prop_map(|elements| elements.into_iter().collect::<Vec<_>>())
                .prop_shuffle(),
        ) {
            let (mut order, mut out) = (ItemOrder::default(), b"[".to_vec());
            for (place, element) in elements.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                let start = out.len();
                out.extend_from_slice(format!("{element:?}").as_bytes());
                order.note(&ShownItem::Element(element), start..out.len());
            }
            order.sort(&mut out, 1, b",");
            let mut sorted = elements;
            sorted.sort();
            let texts: Vec<String> = sorted.iter().map(|element| format!("{element:?}")).collect();
            prop_assert_eq!(String::from_utf8(out).expect("text"), format!("[{}", texts.join(",")));
        }
    }

    #[test]
    fn fields_of_one_name_are_sorted_by_their_kinds() {
        let (mut order, mut out) = (ItemOrder::default(), Vec::new());
        let value = Value::Flag(true);
        for (name, kind) in [("b", FieldKind::Set), ("a", FieldKind::Map), ("a", FieldKind::Set)] {
            let start = out.len();
            out.extend_from_slice(format!("{name}{kind:?} ").as_bytes());
            let name = FieldName::new(name, kind);
            order.note(&ShownItem::Field(&name, &value), start..out.len());
        }
        order.sort(&mut out, 0, b"");
        assert_eq!(out, b"aSet aMap bSet ");
    }
}
