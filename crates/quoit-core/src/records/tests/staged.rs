//! Tests of pages that are sent from one engine to another.

use super::*;
use crate::placement::PlacedKey;
use quoit_store::engine::Maintenance;

use quoit_model::data_type::pages::{ItemHash, PageName};

/// Bytes of pages that are read for one message.
const READ_BYTES: usize = 20_000;

/// A store with its disk.
struct Store {
    disk: Arc<FaultyDisk>,
    engine: Arc<BitcaskEngine>,
    records: Records,
}

impl Store {
    fn new(seed: u64) -> Self {
        let disk = Arc::new(FaultyDisk::new(seed));
        let engine = open(&disk);
        Self { records: Records::new(engine.clone(), seed), disk, engine }
    }

    /// Power is cut after a sync: synced data stays.
    fn restart(self, started_us: u64) -> Self {
        self.engine.sync().expect("the disk is good");
        let disk = Arc::new(self.disk.crash());
        let engine = open(&disk);
        Self { records: Records::new(engine.clone(), started_us), disk, engine }
    }

    fn note_count(&self) -> usize {
        page_count(&*self.engine, b"staged")
    }

    fn stage(&self, at: &RecordAt<'_>) -> StagedPages {
        self.records.begin_staged(at).expect("the disk is good").expect("its name is short").0
    }

    fn finish(&self, pages: &StagedPages, sent: &SentPages) -> StagedOutcome {
        let Record { meta, value } = sent.root();
        let page_bytes = PagedObject::decode(value).expect("a root").root().page_bytes();
        let root = StagedRoot { stored: value, meta: *meta, page_bytes };
        self.finish_with(pages, &root)
    }

    fn finish_with(&self, pages: &StagedPages, root: &StagedRoot<'_>) -> StagedOutcome {
        let around = StagedCallbacks {
            refused: &|_| None,
            merged: &|_, _| panic!("what came in pages was put together"),
        };
        self.records.finish_staged(pages, root, &around).expect("the disk is good")
    }
}

/// Sends all pages once. Calls `between` between two messages.
fn send_pass(
    from: &Store,
    to: &Store,
    (at, pages): (&RecordAt<'_>, &StagedPages),
    sent: &mut SentPages,
    mut between: impl FnMut(),
) -> usize {
    let mut page_count = 0;
    loop {
        let next = from.records.next_pages(at, sent, READ_BYTES);
        let (news, is_through) = next.expect("the disk is good");
        let size_bytes: usize = news.iter().flat_map(|(_, page)| page).map(Bytes::len).sum();
        assert!(size_bytes < READ_BYTES + 3_500, "{size_bytes} bytes at once");
        page_count += news.len();
        to.records.put_staged(pages, &news).expect("the disk is good");
        if is_through {
            return page_count;
        }
        between();
    }
}

/// Two stores; the first one holds a large set.
fn with_set(name: &Bytes) -> (Store, Store) {
    let (from, to) = (Store::new(1), Store::new(2));
    let place = PlacedKey::new(name, PARTITION).expect("a good name");
    assert!(update(&from.records, &place.at(), &changes(0..5_000, true)));
    (from, to)
}

#[test]
fn pages_that_come_are_the_record_as_soon_as_there_is_a_root() {
    let name = name("set");
    let (from, to) = with_set(&name);
    let place = PlacedKey::new(&name, PARTITION).expect("a good name");
    let at = place.at();
    let pages = to.stage(&at);
    let mut sent = from.records.begin_sending(&at).expect("good").expect("it lies in pages");
    let count = send_pass(&from, &to, (&at, &pages), &mut sent, || {});
    assert_eq!(count, page_count(&*from.engine, &name));
    assert!(matches!(from.records.end_pass(&at, &mut sent), Ok(PassEnd::Complete)));
    assert!(found(&to.records, &at).is_none(), "nothing is shown before");
    assert_eq!(to.note_count(), 1);
    assert!(matches!(to.finish(&pages, &sent), StagedOutcome::Written(..)));
    let (own, copy) = (found(&from.records, &at).unwrap(), found(&to.records, &at).unwrap());
    assert_eq!((own.meta, own.value), (copy.meta, copy.value));
    assert_eq!(page_count(&*to.engine, &name), count);
    assert_eq!(to.note_count(), 0);
    assert!(update(&to.records, &at, &changes(5_000..5_100, true)));
    assert_eq!(elements(&found(&to.records, &at).unwrap()).len(), 5_100);
}

#[test]
fn what_is_written_while_pages_are_sent_comes_as_of_one_moment() {
    let name = name("set");
    let (from, to) = with_set(&name);
    let place = PlacedKey::new(&name, PARTITION).expect("a good name");
    let at = place.at();
    let pages = to.stage(&at);
    let mut sent = from.records.begin_sending(&at).expect("good").expect("it lies in pages");
    let mut written = 5_000;
    let mut write = || {
        assert!(update(&from.records, &at, &changes(written..written + 20, true)));
        // Removes so many elements that pages are joined.
        assert!(update(&from.records, &at, &changes(written - 5_000..written - 4_940, false)));
        written += 60;
    };
    let first = send_pass(&from, &to, (&at, &pages), &mut sent, &mut write);
    assert!(matches!(from.records.end_pass(&at, &mut sent), Ok(PassEnd::Changed)));
    let second = send_pass(&from, &to, (&at, &pages), &mut sent, &mut write);
    assert!(second > 0 && second <= first);
    assert!(matches!(from.records.end_pass(&at, &mut sent), Ok(PassEnd::Changed)));
    let last = from.records.last_pages(&at, &mut sent).expect("good").expect("it lies in pages");
    write();
    assert!(!last.is_empty());
    to.records.put_staged(&pages, &last).expect("the disk is good");
    let root = PagedObject::decode(&sent.root().value).expect("a root");
    assert_eq!(page_count(&*to.engine, &name), root.root().table().page_count() as usize);
    assert!(matches!(to.finish(&pages, &sent), StagedOutcome::Written(..)));
    let copy = found(&to.records, &at).expect("a record");
    assert_eq!(copy.meta.digest, sent.root().meta.digest);
    assert_ne!(copy.meta.digest, found(&from.records, &at).expect("a record").meta.digest);
    let _ = elements(&copy);
}

#[test]
fn pages_without_a_root_are_removed_after_a_start() {
    let name = name("set");
    let (from, to) = with_set(&name);
    let place = PlacedKey::new(&name, PARTITION).expect("a good name");
    let at = place.at();
    let pages = to.stage(&at);
    let mut sent = from.records.begin_sending(&at).expect("good").expect("it lies in pages");
    send_pass(&from, &to, (&at, &pages), &mut sent, || {});
    let to = to.restart(3);
    assert!(page_count(&*to.engine, &name) > 10);
    assert_eq!(to.records.clear_staged().expect("the disk is good"), 1);
    assert_eq!((page_count(&*to.engine, &name), to.note_count()), (0, 0));
    // A note that was left although its pages have a root removes none of them.
    let pages = to.stage(&at);
    let mut sent = from.records.begin_sending(&at).expect("good").expect("it lies in pages");
    let count = send_pass(&from, &to, (&at, &pages), &mut sent, || {});
    assert!(matches!(to.finish(&pages, &sent), StagedOutcome::Written(..)));
    let other = to.stage(&at);
    to.records.put_staged(&other, &[(first_page(), Some("page".into()))]).expect("good");
    let to = to.restart(4);
    assert_eq!(page_count(&*to.engine, &name), count + 1);
    assert_eq!(to.records.clear_staged().expect("the disk is good"), 1);
    assert_eq!((page_count(&*to.engine, &name), to.note_count()), (count, 0));
    assert_eq!(elements(&found(&to.records, &at).expect("a record")).len(), 5_000);
}

fn first_page() -> PageName {
    PageName { branch: 0, first: ItemHash(0) }
}

#[test]
fn pages_that_do_not_belong_together_get_no_root() {
    let name = name("set");
    let (from, to) = with_set(&name);
    let place = PlacedKey::new(&name, PARTITION).expect("a good name");
    let at = place.at();
    let pages = to.stage(&at);
    let mut sent = from.records.begin_sending(&at).expect("good").expect("it lies in pages");
    send_pass(&from, &to, (&at, &pages), &mut sent, || {});
    to.records.put_staged(&pages, &[(first_page(), None)]).expect("the disk is good");
    assert_eq!(to.finish(&pages, &sent), StagedOutcome::NeedsWhole);
    assert!(found(&to.records, &at).is_none());
    let all: Vec<PageName> = from_names(&from, &at);
    to.records.drop_staged(&pages, all.into_iter()).expect("the disk is good");
    assert_eq!((page_count(&*to.engine, &name), to.note_count()), (0, 0));
}

fn from_names(store: &Store, at: &RecordAt<'_>) -> Vec<PageName> {
    let mut sent = store.records.begin_sending(at).expect("good").expect("it lies in pages");
    let all = store.records.next_pages(at, &mut sent, usize::MAX).expect("the disk is good");
    all.0.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_root_of_other_pages_or_of_another_version_is_not_stored() {
    let name = name("set");
    let (from, to) = with_set(&name);
    let place = PlacedKey::new(&name, PARTITION).expect("a good name");
    let at = place.at();
    let pages = to.stage(&at);
    let mut sent = from.records.begin_sending(&at).expect("good").expect("it lies in pages");
    send_pass(&from, &to, (&at, &pages), &mut sent, || {});
    let Record { meta, value: stored } = sent.root();
    let page_bytes = PagedObject::decode(stored).expect("a root").root().page_bytes();
    let root = |meta, page_bytes| StagedRoot { stored, meta, page_bytes };
    let cut_off = stored.slice(..stored.len() - 1);
    let other = RecordMeta { digest: meta.digest ^ 1, ..*meta };
    for bad in [
        root(*meta, page_bytes - 1),
        root(other, page_bytes),
        StagedRoot { stored: &cut_off, ..root(*meta, page_bytes) },
    ] {
        assert_eq!(to.finish_with(&pages, &bad), StagedOutcome::NeedsWhole);
        assert!(found(&to.records, &at).is_none());
    }
    assert!(matches!(to.finish_with(&pages, &root(*meta, page_bytes)), StagedOutcome::Written(..)));
}

#[test]
fn a_node_needs_the_pages_that_it_lacks() {
    let name = name("set");
    let (from, to) = with_set(&name);
    let place = PlacedKey::new(&name, PARTITION).expect("a good name");
    let at = place.at();
    let digest = found(&from.records, &at).expect("a record").meta.digest;
    let needed = |store: &Store| store.records.needed_pages(&at, digest).expect("the disk is good");
    assert_eq!((needed(&from), needed(&to)), (NeededPages::Nothing, NeededPages::All));
    assert!(update(&to.records, &at, &changes(0..10, true)));
    assert_eq!(needed(&to), NeededPages::All, "a small set has no pages");
    assert!(update(&to.records, &at, &changes(10..1_000, true)));
    assert_eq!(needed(&to), NeededPages::Ranges);
}

#[test]
fn pages_that_come_become_one_with_what_is_there() {
    let name = name("set");
    let (from, to) = with_set(&name);
    let place = PlacedKey::new(&name, PARTITION).expect("a good name");
    let at = place.at();
    let own = Actor(b"own"[..].into());
    let mut change = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        assert!(stored.is_none());
        let add = changes(9_000..9_010, true);
        let object = Object::update_data_type(None, &add, None, author(&own), None);
        let object = object.expect("elements can be added");
        object.encode_into(out);
        Decision::Put(RecordMeta::of(&object, 3))
    };
    to.records.update(&at, BeforeImage::Read, IoMode::Wait, &mut change).expect("the disk is good");
    let pages = to.stage(&at);
    let mut sent = from.records.begin_sending(&at).expect("good").expect("it lies in pages");
    send_pass(&from, &to, (&at, &pages), &mut sent, || {});
    assert!(matches!(to.finish(&pages, &sent), StagedOutcome::Written(..)));
    let copy = found(&to.records, &at).expect("a record");
    assert_eq!(elements(&copy).len(), 5_010);
    assert_eq!(to.note_count(), 0);
}

#[test]
fn pages_that_come_stay_while_those_of_a_damaged_record_are_removed() {
    let name = name("set");
    let (from, to) = with_set(&name);
    let place = PlacedKey::new(&name, PARTITION).expect("a good name");
    let at = place.at();
    assert!(update(&to.records, &at, &changes(0..1_000, true)));
    damage_log(&to.disk);
    let pages = to.stage(&at);
    let mut sent = from.records.begin_sending(&at).expect("good").expect("it lies in pages");
    let count = send_pass(&from, &to, (&at, &pages), &mut sent, || {});
    let mut change = |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        let object = Object::default();
        object.encode_into(out);
        Decision::Put(RecordMeta::of(&object, 3))
    };
    to.records
        .replace_damaged(&at, IoMode::Wait, &|| Ok(()), &mut change)
        .expect("the disk is good");
    assert_eq!(page_count(&*to.engine, &name), count);
}

#[test]
fn a_record_that_is_as_it_was_is_removed_with_its_pages_and_no_other() {
    let name = name("set");
    let (from, _) = with_set(&name);
    let place = PlacedKey::new(&name, PARTITION).expect("a good name");
    let at = place.at();
    let digest = found(&from.records, &at).expect("a record").meta.digest;
    assert!(!from.records.delete(&at, digest + 1).expect("the disk is good"));
    assert_eq!(elements(&found(&from.records, &at).expect("a record")).len(), 5_000);
    assert!(from.records.delete(&at, digest).expect("the disk is good"));
    assert_eq!(page_count(&*from.engine, &name), 0);
    assert!(found(&from.records, &at).is_none());
    assert!(from.records.delete(&at, digest).expect("the disk is good"));
}
