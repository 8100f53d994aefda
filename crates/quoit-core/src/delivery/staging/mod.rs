//! Receives large sets and maps that come page by page.
//!
//! The protocol for one record; [`super::paged`] is the sender:
//!
//! 1. `OpenStaging` names the record and its digest. If this node has this version, or another version in
//!    pages, it answers so, and no pages are sent. If it can't stage the record now, it answers `Busy`; if it
//!    can't have pages of it, `Whole`. Otherwise it writes a note, syncs it and gives the staging a number.
//! 2. `StagePages` brings pages, in any order. A page may come again when it has changed on the sender, or
//!    be taken back. Pages are stored aside, where no reader looks.
//! 3. `FinishStaging` brings the root. If the staged pages are those of the root, the record is stored in
//!    one step, merged with the version that is here, if there is one.
//! 4. `DropStaging` ends a staging without a root. So does a time of silence, and the sender's next opening
//!    of the same record.
//!
//! The invariants: no reader sees a page before the root. Each staged page on the disk belongs to a staging
//! in memory or to a note, so that a restarted node finds and removes pages whose root did not come. A
//! record is staged once at a time, one task works on a staging, and there are few stagings ([`state`]).
//! Pages are not synced as they come: the answer to the root waits for a sync of everything.

mod state;

use super::RecordDelivery;
use super::hand::meta_of;
use crate::error::RequestError;
use crate::placement::PlacedKey;
use crate::records::{
    ChangedPages, NeededPages, StagedCallbacks, StagedOutcome, StagedPages, StagedRoot,
};
use crate::refusal::{Refusal, refuse};
use crate::replica::Reaped;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_cluster::{IncomingRequest, NodeId, Responder};
use quoit_model::data_type::CausalClock;
use quoit_model::data_type::pages::{ItemHash, PageName};
use quoit_model::hash::Partition;
use quoit_number::length_u32;
use quoit_store::engine::{IoMode, RecordAt, Ticket};
use quoit_wire::internode::data::MergeRule;
use quoit_wire::internode::staging::{
    DropStaging, FinishStaging, OpenStaging, PagesStaged, StagePages, StagingDecision,
    StagingDropped, StagingFinished, StagingOpened,
};
use state::{LeftoverPages, Staging, StagingState};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Time of silence after which a sender counts as gone. A sender is silent while its transfers rest or its
/// disk is slow.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The same for a sender that can't be reached.
const SILENCE_MAX_UNREACHABLE: Duration = Duration::from_secs(10);
/// Interval at which the node looks for silent senders.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// The records that are being staged.
#[derive(Default)]
pub(super) struct Stagings(Mutex<StagingState>);

/// Result of opening a staging.
enum StagingOpenResult {
    /// No staging was opened, for this reason.
    Declined(StagingDecision),
    /// The number of the new staging, and the write of its note.
    Open(u64, Option<Ticket>),
}

impl Stagings {
    /// Returns the partitions of records that are being staged.
    pub(super) fn partitions(&self) -> BTreeSet<Partition> {
        self.0.lock().by_number.values().map(|staging| staging.pages.partition).collect()
    }
}

impl RecordDelivery {
    /// Removes pages of senders that are gone, until the task is dropped.
    pub(super) async fn run_stagings(self: Arc<Self>) {
        loop {
            self.clear_stagings().await;
            self.drop_silent().await;
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Removes the pages that earlier processes left.
    async fn clear_stagings(self: &Arc<Self>) {
        if self.stagings.0.lock().left == LeftoverPages::Absent {
            return;
        }
        let delivery = Arc::clone(self);
        let cleared = self
            .local
            .settings
            .blocking
            .at_low_priority(move || Ok(delivery.local.records.clear_staged()?))
            .await;
        self.stagings.0.lock().left = match cleared {
            Ok(count) => {
                if count > 0 {
                    tracing::info!(count, "records that had come in part were removed");
                }
                LeftoverPages::Absent
            }
            Err(fault) => {
                tracing::warn!(%fault, "records that had come in part could not be removed");
                LeftoverPages::Remain
            }
        };
    }

    /// Drops the stagings of senders that have been silent for too long.
    async fn drop_silent(self: &Arc<Self>) {
        let is_silent = |staging: &Staging| {
            let silence = staging.heard_at.elapsed();
            silence > SILENCE_MAX
                || silence > SILENCE_MAX_UNREACHABLE && self.local.reachable(staging.from).is_none()
        };
        let silent: Vec<Staging> = {
            let mut state = self.stagings.0.lock();
            let silent = state.by_number.iter().filter(|(_, staging)| is_silent(staging));
            let silent: Vec<u64> = silent.map(|(number, _)| *number).collect();
            silent.into_iter().filter_map(|number| state.drop_staging(number)).collect()
        };
        for staging in silent {
            self.remove_staged(staging).await;
        }
    }

    /// Removes the pages of a record that will not be finished.
    async fn remove_staged(self: &Arc<Self>, staging: Staging) {
        let delivery = Arc::clone(self);
        let Staging { pages, sizes, .. } = staging;
        let remove = move || Ok(delivery.local.records.drop_staged(&pages, sizes.into_keys())?);
        if let Err(fault) = self.local.settings.blocking.at_low_priority(remove).await {
            // The note names them, so the next start removes them.
            tracing::warn!(%fault, "pages of a record that does not come could not be removed");
        }
    }

    pub(crate) fn serve_open_staging(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        if !self.throttle.takes() {
            return refuse(reply, &Refusal::SwitchedOff);
        }
        let open = match self.local.read_header(request, |open: &OpenStaging| open.layout_version) {
            Ok(open) => open,
            Err(refusal) => return refuse(reply, &refusal),
        };
        let pressure_percent = self.yielding.receives(open.is_minimum_rate);
        let from = request.from;
        tokio::spawn(async move {
            self.drop_former(&open.key, from).await;
            let delivery = Arc::clone(&self);
            let look = move || Ok(delivery.open_staging_of(&open, from));
            let opened = match self.local.settings.blocking.at_low_priority(look).await {
                Ok(Ok(opened)) => opened,
                Ok(Err(refusal)) => return refuse(reply, &refusal),
                Err(fault) => return refuse(reply, &fault.into()),
            };
            let (room, staging) = match opened {
                StagingOpenResult::Declined(room) => (room, 0),
                StagingOpenResult::Open(number, ticket) => {
                    // The note must be on disk before any page is.
                    let synced = match ticket {
                        Some(ticket) => self.local.synced(ticket).await,
                        None => Ok(()),
                    };
                    if let Err(fault) = synced {
                        return refuse(reply, &fault.into());
                    }
                    (StagingDecision::Open, number)
                }
            };
            let room = room.into();
            reply.send(&StagingOpened { room, staging, pressure_percent }, b"");
        });
    }

    /// Drops an earlier staging of the same record by the same sender: a sender that begins anew has
    /// given it up.
    async fn drop_former(self: &Arc<Self>, key: &Bytes, from: NodeId) {
        let former: Vec<Staging> = {
            let mut state = self.stagings.0.lock();
            let former = state.by_number.iter();
            let former = former.filter(|(_, each)| each.from == from && each.pages.key == *key);
            let former: Vec<u64> = former.map(|(number, _)| *number).collect();
            former.into_iter().filter_map(|number| state.drop_staging(number)).collect()
        };
        for staging in former {
            self.remove_staged(staging).await;
        }
    }

    /// Opens a staging for a record, unless this node has the record already or can't open one now.
    fn open_staging_of(
        &self,
        open: &OpenStaging,
        from: NodeId,
    ) -> Result<StagingOpenResult, Refusal> {
        let place = self.local.place(&open.key, open.partition)?;
        let at = place.at();
        let needed = self.local.records.needed_pages(&at, open.digest);
        match needed.map_err(RequestError::from)? {
            NeededPages::Nothing => {
                // The sender counts the record as handed over, so it must survive a power failure here.
                self.local.engine.sync().map_err(RequestError::from)?;
                return Ok(StagingOpenResult::Declined(StagingDecision::Known));
            }
            NeededPages::Ranges => {
                return Ok(StagingOpenResult::Declined(StagingDecision::InPages));
            }
            NeededPages::All => {}
        }
        let room = self.stagings.0.lock().begin_opening(&open.key);
        if room != StagingDecision::Open {
            return Ok(StagingOpenResult::Declined(room));
        }
        let begun = self.local.records.begin_staged(&at);
        let opened = match &begun {
            Ok(Some((pages, _))) => Some(Staging::new(from, pages.clone())),
            Ok(None) | Err(_) => None,
        };
        self.stagings.0.lock().end_opening(&open.key, opened);
        Ok(match begun.map_err(RequestError::from)? {
            Some((pages, ticket)) => StagingOpenResult::Open(pages.generation, ticket),
            None => StagingOpenResult::Declined(StagingDecision::Whole),
        })
    }

    pub(crate) fn serve_stage_pages(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        if !self.throttle.takes() {
            return refuse(reply, &Refusal::SwitchedOff);
        }
        // Pages need no layout: the layout of the opening and of the root decides.
        let read = self.local.read_header(request, |_: &StagePages| u64::MAX);
        let read = read.and_then(|stage| {
            let changes = changes_of(&stage, request.payload.clone())?;
            Ok((stage, changes))
        });
        let (stage, changes) = match read {
            Ok(read) => read,
            Err(refusal) => return refuse(reply, &refusal),
        };
        let pressure_percent = self.yielding.receives(stage.is_minimum_rate);
        let (number, from) = (stage.staging, request.from);
        let Some(pages) = self.begin_pages(number, from, &changes) else {
            return reply.send(&PagesStaged { is_lost: true, pressure_percent }, b"");
        };
        tokio::spawn(async move {
            let delivery = Arc::clone(&self);
            let put = move || Ok(delivery.local.records.put_staged(&pages, &changes)?);
            let put = self.local.settings.blocking.at_low_priority(put).await;
            let dropped = self.stagings.0.lock().end(number);
            let is_lost = dropped.is_some();
            if let Some(staging) = dropped {
                self.remove_staged(staging).await;
            }
            match put {
                Ok(()) => reply.send(&PagesStaged { is_lost, pressure_percent }, b""),
                Err(fault) => refuse(reply, &fault.into()),
            }
        });
    }

    /// Notes the sizes of pages before they are stored; `None` if there is no such staging.
    fn begin_pages(
        &self,
        number: u64,
        from: NodeId,
        changes: &ChangedPages,
    ) -> Option<StagedPages> {
        let mut state = self.stagings.0.lock();
        let staging = state.begin(number, from)?;
        for (name, page) in changes {
            match page {
                Some(page) => _ = staging.sizes.insert(*name, length_u32(page.len())),
                None => _ = staging.sizes.remove(name),
            }
        }
        Some(staging.pages.clone())
    }

    pub(crate) fn serve_finish_staging(
        self: Arc<Self>,
        request: &IncomingRequest,
        reply: Responder,
    ) {
        if !self.throttle.takes() {
            return refuse(reply, &Refusal::SwitchedOff);
        }
        let read = self.local.read_header(request, |finish: &FinishStaging| finish.layout_version);
        let finish = match read {
            Ok(finish) => finish,
            Err(refusal) => return refuse(reply, &refusal),
        };
        let (number, root) = (finish.staging, request.payload.clone());
        let begun = {
            let mut state = self.stagings.0.lock();
            let begun = state.begin(number, request.from);
            begun.map(|staging| (staging.pages.clone(), staging.page_bytes()))
        };
        let Some((pages, page_bytes)) = begun else {
            // Here `Open` means that the staging is gone. The sender begins anew in a later round.
            return reply.send(&StagingFinished { room: StagingDecision::Open.into() }, b"");
        };
        tokio::spawn(async move {
            let delivery = Arc::clone(&self);
            let unite = move || delivery.store_staged(&finish, &root, &pages, page_bytes);
            let united = self.local.settings.blocking.at_low_priority(unite).await;
            let is_used = matches!(united, Ok(StagedOutcome::Written(..)));
            let staging = self.stagings.0.lock().finish(number);
            if let Some(staging) = staging.filter(|_| !is_used) {
                self.remove_staged(staging).await;
            }
            let room = match united {
                Ok(StagedOutcome::Written(ticket, _)) => {
                    self.local.synced(ticket).await.map(|()| StagingDecision::Known)
                }
                Ok(StagedOutcome::Known) => {
                    self.all_synced().await.map(|()| StagingDecision::Known)
                }
                Ok(StagedOutcome::InPages) => Ok(StagingDecision::InPages),
                Ok(StagedOutcome::NeedsWhole) => Ok(StagingDecision::Whole),
                Err(fault) => Err(fault),
            };
            match room {
                Ok(room) => reply.send(&StagingFinished { room: room.into() }, b""),
                Err(fault) => refuse(reply, &fault.into()),
            }
        });
    }

    /// Stores the staged record, merged with this node's version, if there is one. Checks first that the root
    /// belongs to the staged pages.
    fn store_staged(
        &self,
        finish: &FinishStaging,
        root: &Bytes,
        pages: &StagedPages,
        page_bytes: u64,
    ) -> Result<StagedOutcome, RequestError> {
        let record = &finish.record;
        let rule = MergeRule::try_from(record.rule).unwrap_or(MergeRule::Causal);
        if record.key != pages.key || rule != MergeRule::Causal {
            return Ok(StagedOutcome::NeedsWhole);
        }
        let place = PlacedKey::new(&pages.key, pages.partition)?;
        let at = place.at();
        let root = StagedRoot { stored: root, meta: meta_of(record), page_bytes };
        let around = StagedCallbacks {
            refused: &|clock| self.refused_staged(&at, clock),
            merged: &|ours, theirs| self.replica.merged(ours, theirs, rule),
        };
        let united = self.local.records.finish_staged(pages, &root, &around)?;
        if let StagedOutcome::Written(_, meta) = &united {
            self.replica.note_written(at.partition, at.encoded);
            if meta.tombstone {
                self.replica.note_tombstone(&at, meta.digest);
            }
        }
        Ok(united)
    }

    /// Checks a staged record against a reap record. If the reap record covers all of its events, nothing
    /// is stored. If it covers a part, the whole object is needed to work out the rest. Returns `None` if
    /// there is no reap record.
    fn refused_staged(&self, at: &RecordAt<'_>, clock: &CausalClock) -> Option<StagedOutcome> {
        match self.replica.reaped_at(at, IoMode::Wait) {
            Ok(Reaped::Nothing) => None,
            Ok(Reaped::Tombstone(tombstone)) => match tombstone.causal_clock() {
                Ok(seen) if seen.covers(clock) => Some(StagedOutcome::Known),
                Ok(_) | Err(_) => Some(StagedOutcome::NeedsWhole),
            },
            Ok(Reaped::WouldBlock) | Err(_) => Some(StagedOutcome::NeedsWhole),
        }
    }

    /// Syncs everything that was written so far.
    pub(crate) async fn all_synced(self: &Arc<Self>) -> Result<(), RequestError> {
        let delivery = Arc::clone(self);
        self.local
            .settings
            .blocking
            .at_low_priority(move || Ok(delivery.local.engine.sync()?))
            .await
    }

    pub(crate) fn serve_drop_staging(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        let read = self.local.read_header(request, |_: &DropStaging| u64::MAX);
        let number = match read {
            Ok(gone) => gone.staging,
            Err(refusal) => return refuse(reply, &refusal),
        };
        let dropped = {
            let mut state = self.stagings.0.lock();
            let is_its_own = |staging: &Staging| staging.from == request.from;
            let is_its_own = state.by_number.get(&number).is_some_and(is_its_own);
            if is_its_own { state.drop_staging(number) } else { None }
        };
        tokio::spawn(async move {
            if let Some(staging) = dropped {
                self.remove_staged(staging).await;
            }
            reply.send(&StagingDropped {}, b"");
        });
    }
}

/// Reads the pages of a message. A page of size 0 stands for one to be removed.
fn changes_of(stage: &StagePages, mut payload: Bytes) -> Result<ChangedPages, Refusal> {
    let mut changes = Vec::with_capacity(stage.pages.len());
    for page in &stage.pages {
        let size_bytes = page.size_bytes as usize;
        if size_bytes > payload.len() {
            return Err(Refusal::Malformed("pages are cut off".to_owned()));
        }
        let name = PageName { branch: page.branch, first: ItemHash(page.first) };
        let stored = payload.split_to(size_bytes);
        changes.push((name, Some(stored).filter(|stored| !stored.is_empty())));
    }
    Ok(changes)
}
