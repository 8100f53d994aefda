//! Pages that another node sends before the record has a root for them.
//!
//! The pages are stored under a new generation that no root names, so no reader sees them. When the root
//! arrives, [`Records::finish_staged`] checks the pages against it and stores the root, or merges the pages
//! with the stored record. A *note* in the engine (a piece that belongs to no record) names each staged
//! generation. If the process ends before the root is stored, [`Records::clear_staged`] finds the note at the
//! next start and removes the pages.

use super::pages::{self, PageFault, ReadPages, WrittenPages};
use super::root_change::NewForm;
use super::{COLLECTED_COUNT, Merge, Records, decoded, put_root, read_root};
use crate::placement::PlacedKey;
use bytes::Bytes;
use quoit_model::data_type::CausalClock;
use quoit_model::data_type::pages::{OtherCopy, PageName, PagedObject, PagesMerged};
use quoit_model::hash::{KeyHash, Partition, PlacementHash};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::object::Object;
use quoit_store::engine::{
    Applied, Fetch, Interrupted, IoMode, KeyRange, RecordAt, RecordMeta, Ticket, Transaction,
};
use quoit_store::error::StoreError;

/// Owner of the notes among the pieces. It is not the name of a record.
const NOTES: &[u8] = b"staged";

/// Bytes in the key of a note: see [`at_note`].
const NOTE_KEY_BYTES: usize = 10;

/// Staged pages of a record under one generation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StagedPages {
    /// Encoded name of the record.
    pub(crate) key: Bytes,
    pub(crate) partition: Partition,
    pub(crate) generation: u64,
}

/// Pages that a node needs of a record that another node has in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NeededPages {
    /// None: this node has the same record. Nothing is known about its sync.
    Nothing,
    /// This node has another version in pages, which can be compared with the other by ranges.
    Ranges,
    All,
}

/// Root of staged pages, as their sender describes it.
pub(crate) struct StagedRoot<'a> {
    pub(crate) stored: &'a Bytes,
    pub(crate) meta: RecordMeta,
    /// Bytes of the pages that were staged for it.
    pub(crate) page_bytes: u64,
}

/// Result of putting staged pages in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StagedOutcome {
    /// The record was written, from the staged pages alone or merged with the stored record; durable
    /// with the ticket.
    Written(Ticket, RecordMeta),
    /// The stored record had already seen everything that the staged one has; nothing was written.
    Known,
    /// The stored record is in pages by now: the two have to be compared by ranges.
    InPages,
    /// The pages fit neither each other nor the stored record: the whole object has to be sent.
    NeedsWhole,
}

/// Decisions of the surrounding store that [`Records::finish_staged`] needs.
pub(crate) struct StagedCallbacks<'a> {
    /// The reason why a record with this clock must not be stored where none is stored at present; `None`
    /// if it may be.
    pub(crate) refused: &'a dyn Fn(&CausalClock) -> Option<StagedOutcome>,
    /// Merges the stored object with the staged one.
    pub(crate) merged: &'a Merge<'a>,
}

impl Records {
    /// Returns which pages this node needs of a record that another node has in pages, with this digest.
    pub(crate) fn needed_pages(
        &self,
        at: &RecordAt<'_>,
        digest: u64,
    ) -> Result<NeededPages, StoreError> {
        Ok(match self.engine.get(at, IoMode::Wait)? {
            Fetch::Found(stored) if stored.meta.digest == digest => NeededPages::Nothing,
            Fetch::Found(stored) if PagedObject::is_paged(&stored.value) => NeededPages::Ranges,
            Fetch::Found(_) | Fetch::Missing | Fetch::WouldBlock => NeededPages::All,
        })
    }

    /// Begins to stage pages of a record: chooses a generation and stores a note of it. `None` if the
    /// record's name is too long for pages.
    pub(crate) fn begin_staged(
        &self,
        at: &RecordAt<'_>,
    ) -> Result<Option<(StagedPages, Option<Ticket>)>, StoreError> {
        if !pages::can_have_pages(at) {
            return Ok(None);
        }
        let generation = self.new_generation(at);
        let key = Bytes::copy_from_slice(at.encoded);
        let staged = StagedPages { key, partition: at.partition, generation };
        let is_new = self.staged.lock().insert(generation);
        debug_assert!(is_new, "a generation is given to one staging");
        let noted = at_note(&staged, |note| {
            self.engine.transact(at.partition, IoMode::Wait, &mut |transaction| {
                transaction.put(note, RecordMeta::PIECE, &staged.key)
            })
        });
        match noted {
            Ok(Applied::Written(ticket)) => Ok(Some((staged, Some(ticket)))),
            Ok(Applied::Kept | Applied::WouldBlock) => Ok(Some((staged, None))),
            Err(fault) => {
                self.staged.lock().remove(&generation);
                Err(fault)
            }
        }
    }

    /// Stores staged pages, and removes the ones that are `None`.
    pub(crate) fn put_staged(
        &self,
        staged: &StagedPages,
        changes: &[(PageName, Option<Bytes>)],
    ) -> Result<(), StoreError> {
        self.assert_staged(staged);
        let Ok(place) = PlacedKey::new(&staged.key, staged.partition) else { return Ok(()) };
        let at = place.at();
        for some in changes.chunks(COLLECTED_COUNT) {
            self.engine.transact(staged.partition, IoMode::Wait, &mut |transaction| {
                some.iter().try_for_each(|(name, page)| {
                    let page = page.as_deref();
                    pages::put_page(transaction, &at, staged.generation, *name, page)
                })
            })?;
        }
        Ok(())
    }

    /// Checks, in debug builds, that pages are being staged: others of them may be removed at any time.
    fn assert_staged(&self, staged: &StagedPages) {
        debug_assert!(
            self.staged.lock().contains(&staged.generation),
            "pages are written and finished between their beginning and their end"
        );
    }

    /// Removes staged pages and their note.
    pub(crate) fn drop_staged(
        &self,
        staged: &StagedPages,
        names: impl Iterator<Item = PageName>,
    ) -> Result<(), StoreError> {
        let names: Vec<PageName> = names.collect();
        if let Ok(place) = PlacedKey::new(&staged.key, staged.partition) {
            let at = place.at();
            for some in names.chunks(COLLECTED_COUNT) {
                self.engine.transact(staged.partition, IoMode::Wait, &mut |transaction| {
                    // An engine may report a failure although the root was written. Pages that have a
                    // root must stay.
                    if generation_of(transaction, &at)? == Some(staged.generation) {
                        return Ok(());
                    }
                    some.iter().try_for_each(|name| {
                        pages::put_page(transaction, &at, staged.generation, *name, None)
                    })
                })?;
            }
        }
        self.forget_staged(staged)
    }

    /// Removes the note of staged pages that have a root by now, or were removed.
    fn forget_staged(&self, staged: &StagedPages) -> Result<(), StoreError> {
        at_note(staged, |note| {
            self.engine.transact(staged.partition, IoMode::Wait, &mut |transaction| {
                transaction.remove(note)
            })
        })?;
        self.staged.lock().remove(&staged.generation);
        Ok(())
    }

    /// Removes the staged pages that earlier processes left, and returns the number of notes that were
    /// found. To be called before pages are staged.
    pub(crate) fn clear_staged(&self) -> Result<usize, StoreError> {
        let notes = KeyRange::Bucket(BucketRef::of_pieces(NOTES));
        let (mut count, mut after) = (0, None);
        loop {
            let listed = self.engine.list_keys(notes, after.as_deref(), COLLECTED_COUNT)?;
            for (key, _) in &listed.entries {
                self.clear_noted(key)?;
                count += 1;
            }
            after = listed.next;
            if after.is_none() {
                return Ok(count);
            }
        }
    }

    fn clear_noted(&self, note: &Bytes) -> Result<(), StoreError> {
        let Some((partition, generation)) = read_note(note) else { return Ok(()) };
        let noted = StagedPages { key: Bytes::new(), partition, generation };
        let fetched = at_note(&noted, |at| self.engine.get(at, IoMode::Wait));
        let staged = match fetched {
            Ok(Fetch::Found(record)) => StagedPages { key: record.value, ..noted },
            Ok(Fetch::Missing | Fetch::WouldBlock) => noted,
            // The note's record is unknown. Its pages stay until that record is replaced as damaged.
            Err(StoreError::Corrupt { .. }) => noted,
            Err(fault) => return Err(fault),
        };
        if let Ok(place) = PlacedKey::new(&staged.key, partition) {
            self.collect_pages(&place.at())?;
        }
        self.forget_staged(&staged)
    }

    /// Stores the root of staged pages, or merges them with the stored record. Unless the answer is
    /// `Written`, the staged pages are still there, and the caller drops them.
    pub(crate) fn finish_staged(
        &self,
        staged: &StagedPages,
        root: &StagedRoot<'_>,
        around: &StagedCallbacks<'_>,
    ) -> Result<StagedOutcome, StoreError> {
        self.assert_staged(staged);
        let (Ok(place), Some((paged, clock))) =
            (PlacedKey::new(&staged.key, staged.partition), root.read())
        else {
            return Ok(StagedOutcome::NeedsWhole);
        };
        let at = place.at();
        let n_val_class = root.meta.n_val_class;
        let paged = paged.with_generation(staged.generation);
        // Only this transfer writes pages of this generation.
        let mut read = ReadPages::new(&*self.engine, &at, staged.generation, IoMode::Wait);
        match paged.check_pages(&mut read) {
            Ok(()) => {}
            Err(PageFault::Form(_)) => return Ok(StagedOutcome::NeedsWhole),
            Err(PageFault::Store(fault)) => return Err(fault),
            Err(PageFault::NeedsWait | PageFault::Interrupted(_)) => {
                unreachable!("pages that are waited for, and not in a transaction")
            }
        }
        let mut outcome = Ok(RecordMeta::of(paged.object(), n_val_class));
        let applied = self.engine.transact(at.partition, IoMode::Wait, &mut |transaction| {
            let refused = || (around.refused)(&clock);
            outcome =
                merge_with_stored(transaction, &at, &paged, n_val_class, &refused, around.merged)?;
            Ok(())
        });
        match (applied, outcome) {
            (Ok(Applied::Written(ticket)), Ok(meta)) => {
                if let Err(fault) = self.forget_staged(staged) {
                    // The next start removes the note. It keeps the pages, because they have a root.
                    tracing::warn!(%fault, "a note of staged pages could not be removed");
                }
                Ok(StagedOutcome::Written(ticket, meta))
            }
            (Ok(_), Err(unstaged)) => Ok(unstaged),
            (Ok(_), Ok(_)) => Ok(StagedOutcome::Known),
            // The stored record is damaged; a whole object can replace it.
            (Err(StoreError::Corrupt { .. }), _) => Ok(StagedOutcome::NeedsWhole),
            (Err(fault), _) => Err(fault),
        }
    }
}

impl StagedRoot<'_> {
    /// Decodes the root; `None` if it is damaged, or does not belong to the staged pages or its metadata.
    fn read(&self) -> Option<(PagedObject, CausalClock)> {
        let paged = PagedObject::decode(self.stored).ok()?;
        let clock = paged.causal_clock().ok()?;
        let is_it = self.meta.digest == paged.object().digest()
            && paged.root().page_bytes() == self.page_bytes;
        is_it.then_some((paged, clock))
    }
}

/// Calls a function with the place of the note of staged pages. The note's key consists of the
/// partition (2 bytes) and the generation (8 bytes), both big-endian; its value is the encoded name of
/// the record.
fn at_note<T>(staged: &StagedPages, look: impl FnOnce(&RecordAt<'_>) -> T) -> T {
    let mut name = [0; NOTE_KEY_BYTES];
    name[..2].copy_from_slice(&staged.partition.0.to_be_bytes());
    name[2..].copy_from_slice(&staged.generation.to_be_bytes());
    let key = BucketRef::of_pieces(NOTES).key(&name);
    let encoded = key.encoded();
    // A note is placed with its record, so its own placement is not computed.
    let identity = KeyHash::of_piece(&encoded, PlacementHash(0)).identity;
    look(&RecordAt { key, encoded: &encoded, identity, partition: staged.partition })
}

/// Partition and generation in the key of a note.
fn read_note(encoded: &[u8]) -> Option<(Partition, u64)> {
    let name: &[u8; NOTE_KEY_BYTES] = KeyRef::decode(encoded).ok()?.key.try_into().ok()?;
    let (partition, generation) = name.split_first_chunk::<2>()?;
    let generation = u64::from_be_bytes(*generation.first_chunk()?);
    Some((Partition(u16::from_be_bytes(*partition)), generation))
}

/// Generation of a record's pages; `None` if the record is not in pages.
fn generation_of(
    transaction: &mut dyn Transaction,
    at: &RecordAt<'_>,
) -> Result<Option<u64>, Interrupted> {
    let stored = transaction.get(at)?.filter(|record| PagedObject::is_paged(&record.value));
    let paged = stored.map(|root| read_root(at, &root)).transpose()?;
    Ok(paged.map(|paged| paged.generation()))
}

/// Stores a staged record, merged with the stored one if there is one. Returns the metadata that was
/// written, or the reason why nothing was.
fn merge_with_stored(
    transaction: &mut dyn Transaction,
    at: &RecordAt<'_>,
    paged: &PagedObject,
    n_val_class: u8,
    refused: &dyn Fn() -> Option<StagedOutcome>,
    merged: &Merge<'_>,
) -> Result<Result<RecordMeta, StagedOutcome>, Interrupted> {
    let told = RecordMeta::of(paged.object(), n_val_class);
    let Some(stored) = transaction.get(at)? else {
        if let Some(unstaged) = refused() {
            return Ok(Err(unstaged));
        }
        return put_root(transaction, at, paged, told).map(|()| Ok(told));
    };
    if stored.meta.digest == told.digest {
        return Ok(Err(StagedOutcome::Known));
    }
    if PagedObject::is_paged(&stored.value) {
        return Ok(Err(StagedOutcome::InPages));
    }
    let ours = decoded(at, &stored.value)?;
    let mut pages = WrittenPages::new(&mut *transaction, at, paged.generation(), IoMode::Wait);
    let becomes = merge_staged_with_whole(paged, &ours, n_val_class, &mut pages, merged);
    let becomes = becomes.map_err(|fault| fault.interrupts(at))?;
    let Some(meta) = becomes.meta() else { return Ok(Err(StagedOutcome::Known)) };
    match becomes {
        NewForm::Paged(_, paged) => pages.finish_with_root(&paged, meta)?,
        NewForm::Whole(_, value) => {
            pages.finish()?;
            transaction.put(at, meta, &value)?;
        }
        NewForm::Same | NewForm::Nothing => unreachable!("what is written has a meta"),
    }
    Ok(Ok(meta))
}

/// Merges a staged record with a stored one that is not in pages, page by page if possible.
fn merge_staged_with_whole(
    paged: &PagedObject,
    ours: &Object,
    n_val_class: u8,
    pages: &mut WrittenPages<'_, '_>,
    merge: &Merge<'_>,
) -> Result<NewForm, PageFault> {
    Ok(match paged.merge(OtherCopy::Whole(ours), pages)? {
        PagesMerged::Known => {
            NewForm::Paged(RecordMeta::of(paged.object(), n_val_class), Box::new(paged.clone()))
        }
        // The stored object has seen everything that the staged one has.
        PagesMerged::Other => NewForm::Same,
        PagesMerged::Paged(merged) => NewForm::paged(merged, n_val_class, pages)?,
        PagesMerged::Whole(object) => NewForm::whole(&object, n_val_class),
        PagesMerged::NeedsWhole => {
            let merged = merge(ours, &paged.whole(pages)?);
            match paged.clone().replace(&merged, pages)? {
                Some(paged) => {
                    NewForm::Paged(RecordMeta::of(&merged, n_val_class), Box::new(paged))
                }
                None => NewForm::whole(&merged, n_val_class),
            }
        }
    })
}
