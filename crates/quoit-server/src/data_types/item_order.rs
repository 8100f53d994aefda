//! Sorting of a large set or map whose items are encoded as they come from the store.
//!
//! The store reads pages by item hash, but clients get elements in the order of bytes, and fields in the
//! order of names and types. Therefore items are encoded as they come and sorted at the end. Sorting takes
//! several times the memory of the answer, so values above [`SORTED_BYTES_MAX`] stay in the store's order.

use quoit_model::data_type::FieldKind;
use quoit_model::data_type::pages::ShownItem;
use quoit_number::low_u32;
use std::ops::Range;
use std::panic::resume_unwind;
use tokio::task::spawn_blocking;

/// Stored size in bytes up to which a set or map is sorted.
const SORTED_BYTES_MAX: usize = 4 << 20;
/// Stored size in bytes of an element of two bytes, with its length and one write. At most
/// [`SHORTER_COUNT_MAX`] items are shorter.
const ITEM_BYTES_MIN: usize = 6;
/// Number of distinct elements of less than two bytes.
const SHORTER_COUNT_MAX: usize = 257;
/// Memory of names and positions as a multiple of the stored size. The names take as much as is stored, and a
/// position takes 20 bytes for each item of at least [`ITEM_BYTES_MIN`]. Neither vector grows.
const ORDER_COPIES: usize = 5;
/// Size in bytes of the items that are sorted on the current thread. Sorting more would delay other
/// requests of the thread.
const SHORT_BYTES: usize = 64 << 10;

/// Position of an item in the encoded text.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ItemPlace {
    /// Range of the name in `names`.
    name: Range<u32>,
    kind: Option<FieldKind>,
    /// Range of the item in the buffer behind `start`.
    at: Range<u32>,
}

/// Items in the order in which they came, with their sort keys.
#[derive(Default)]
pub(crate) struct ItemOrder {
    names: Vec<u8>,
    items: Vec<ItemPlace>,
    /// Offset of the first item in the buffer.
    start: usize,
}

/// Error: the node is stopping, so nothing was sorted.
#[derive(Debug)]
pub(crate) struct NodeStopping;

/// Maximum ratio of the size of the items in an answer to their size in the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextCopies(pub(crate) usize);

impl ItemOrder {
    /// Creates the order for a value of `size_bytes` in the store, whose items follow the current contents
    /// of the buffer `out`; `None` if it stays unsorted.
    pub(crate) fn of(size_bytes: usize, out: &[u8]) -> Option<Self> {
        (size_bytes <= SORTED_BYTES_MAX).then(|| Self {
            names: Vec::with_capacity(size_bytes),
            items: Vec::with_capacity(size_bytes / ITEM_BYTES_MIN + SHORTER_COUNT_MAX),
            start: out.len(),
        })
    }

    /// Upper bound of the memory in bytes for the order of such a value, and for a second copy of its items.
    pub(crate) const fn room_bytes(size_bytes: usize, texts: TextCopies) -> usize {
        if size_bytes <= SORTED_BYTES_MAX { size_bytes * (ORDER_COPIES + texts.0) } else { 0 }
    }

    /// Adds an item that was written at this range of the buffer.
    pub(crate) fn note(&mut self, item: &ShownItem<'_>, at: Range<usize>) {
        let (name, kind) = match item {
            ShownItem::Element(element) => (*element, None),
            ShownItem::Field(name, _) => (&name.name[..], Some(name.kind)),
        };
        let name_start = self.names.len();
        self.names.extend_from_slice(name);
        // Values of up to `SORTED_BYTES_MAX` in the store have texts of far less than 4 GiB.
        let offset = |place: usize| low_u32(place as u64);
        let name = offset(name_start)..offset(self.names.len());
        let at = offset(at.start - self.start)..offset(at.end - self.start);
        self.items.push(ItemPlace { name, kind, at });
    }

    /// Sorts the items, which fill the buffer from `start` on, and puts a separator between them. Large
    /// values are sorted on a thread for long work. After an error the buffer contains only the bytes before
    /// the items.
    #[expect(
        clippy::indexing_slicing,
        reason = "the items were appended behind the buffer's `start`"
    )]
    pub(crate) async fn sort_aside(
        self,
        out: &mut Vec<u8>,
        separator: &'static [u8],
    ) -> Result<(), NodeStopping> {
        if out.len() - self.start <= SHORT_BYTES {
            self.sort(out, separator);
            return Ok(());
        }
        let before = out[..self.start].to_vec();
        let mut buffer = std::mem::replace(out, before);
        let sort = spawn_blocking(move || {
            self.sort(&mut buffer, separator);
            buffer
        });
        match sort.await {
            Ok(buffer) => *out = buffer,
            Err(stopped) if stopped.is_panic() => resume_unwind(stopped.into_panic()),
            Err(_) => return Err(NodeStopping),
        }
        Ok(())
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the places of items and names are those at which they were appended"
    )]
    fn sort(self, out: &mut Vec<u8>, separator: &[u8]) {
        let Self { names, mut items, start } = self;
        let within = |range: &Range<u32>| range.start as usize..range.end as usize;
        let key = |item: &ItemPlace| (&names[within(&item.name)], item.kind);
        if items.is_sorted_by(|one, other| key(one) <= key(other)) {
            return;
        }
        items.sort_unstable_by(|one, other| key(one).cmp(&key(other)));
        let mut sorted = Vec::with_capacity(out.len() - start);
        for (place, ItemPlace { at, .. }) in items.iter().enumerate() {
            if place > 0 {
                sorted.extend_from_slice(separator);
            }
            sorted.extend_from_slice(&out[start..][within(at)]);
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
            let (mut order, mut out) = (ItemOrder::of(100, b"[").expect("small"), b"[".to_vec());
            for (place, element) in elements.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                let start = out.len();
                out.extend_from_slice(format!("{element:?}").as_bytes());
                order.note(&ShownItem::Element(element), start..out.len());
            }
            order.sort(&mut out, b",");
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
        order.sort(&mut out, b"");
        assert_eq!(out, b"aSet aMap bSet ");
    }

    #[test]
    fn the_order_of_the_shortest_elements_takes_no_more_than_its_bound() {
        for count in [5_000u32, 60_000] {
            let elements = (0..=u16::MAX).map(u16::to_be_bytes).take(count as usize);
            let size_bytes = count as usize * ITEM_BYTES_MIN;
            let mut order = ItemOrder::of(size_bytes, &[0; 7]).expect("small");
            for (place, element) in elements.enumerate() {
                order.note(&ShownItem::Element(&element), 7 + place..8 + place);
            }
            let places_bytes = order.items.capacity() * size_of::<ItemPlace>();
            let bytes = order.names.capacity() + places_bytes;
            assert!(bytes <= ItemOrder::room_bytes(size_bytes, TextCopies(0)), "{count}: {bytes}");
        }
    }

    #[tokio::test]
    async fn what_is_before_the_items_stays_when_many_are_sorted_on_another_thread() {
        let mut out = b"before".to_vec();
        let mut order = ItemOrder::of(1 << 20, &out).expect("small");
        let elements: Vec<_> = (0..20_000u16).map(|number| (!number).to_be_bytes()).collect();
        for element in &elements {
            let start = out.len();
            out.extend_from_slice(element);
            out.extend_from_slice(b"...");
            order.note(&ShownItem::Element(element), start..start + 2);
        }
        order.sort_aside(&mut out, b"").await.expect("the runtime goes on");
        let sorted: Vec<u8> = elements.iter().rev().flatten().copied().collect();
        assert_eq!(out, [&b"before"[..], &sorted].concat());
    }
}
