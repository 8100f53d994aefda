//! A node's answers to readers of its log.

use super::ChangeFeeds;
use super::log::{LogGap, LogPosition, LogRead, ReadFrom};
use crate::error::RequestError;
use crate::queues::{Cursor, EntryReference};
use crate::refusal::{Refusal, refuse};
use quoit_cluster::{IncomingRequest, Responder};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_wire::internode::changes::{
    ChangesFrom, ChangesPlace, ChangesRead, FeedChange, ReadChanges,
};
use std::sync::Arc;

/// Number of pieces of the log, of 64 KiB each, that are read for one answer while none has a matching
/// entry. A file has fewer.
const PIECE_COUNT_MAX: usize = 512;

pub(super) const fn to_wire(place: LogPosition) -> ChangesPlace {
    ChangesPlace { log: place.log, file: place.cursor.file, offset: place.cursor.offset }
}

pub(super) const fn of_wire(place: ChangesPlace) -> LogPosition {
    LogPosition { log: place.log, cursor: Cursor { file: place.file, offset: place.offset } }
}

impl ChangeFeeds {
    pub(crate) fn serve_ask(self: Arc<Self>, request: &IncomingRequest, reply: Responder) {
        // A log does not depend on the layout.
        let asked = match self.local.read_header(request, |_: &ReadChanges| u64::MAX) {
            Ok(asked) => asked,
            Err(refusal) => return refuse(reply, &refusal),
        };
        tokio::spawn(async move {
            match self.own_changes(asked).await {
                Ok(told) => reply.send(&told, b""),
                Err(fault) => refuse(reply, &Refusal::Storage(fault)),
            }
        });
    }

    /// The next writes in this node's log.
    pub(super) async fn own_changes(
        self: &Arc<Self>,
        asked: ReadChanges,
    ) -> Result<ChangesRead, RequestError> {
        let feeds = Arc::clone(self);
        self.local.settings.blocking.on_pool(move || feeds.read_changes(&asked)).await
    }

    fn read_changes(&self, asked: &ReadChanges) -> Result<ChangesRead, RequestError> {
        let Some(log) = &self.log else {
            let gap = "the node keeps no changes: its storage_backend is memory".to_owned();
            return Ok(ChangesRead { gap, ..ChangesRead::default() });
        };
        let mut from = match (asked.from(), asked.place) {
            (ChangesFrom::Time, _) => ReadFrom::Time(asked.since_us),
            (ChangesFrom::Place, Some(place)) => ReadFrom::Position(of_wire(place)),
            _ => ReadFrom::Oldest,
        };
        let bucket = BucketRef { bucket_type: &asked.bucket_type, bucket: &asked.bucket };
        let mut told = ChangesRead::default();
        for _ in 0..PIECE_COUNT_MAX {
            let read = match log.read(from, self.local.clock.unix_us())? {
                Ok(read) => read,
                // Changes before the gap are sent first.
                Err(_) if !told.changes.is_empty() => break,
                Err(LogGap { text, resume }) => {
                    told.gap = text;
                    told.next = Some(to_wire(resume));
                    break;
                }
            };
            let LogRead { entries, begin, next, at_end, complete_us } = read;
            told.begin.get_or_insert(to_wire(begin));
            for (entry, end) in entries {
                let entry = entry.entry;
                if entry.sequence.0 < asked.since_us {
                    continue;
                }
                let EntryReference::Change { is_delete, context } = entry.reference else {
                    continue;
                };
                let Ok(name) = KeyRef::decode(&entry.key) else { continue };
                if name.bucket != bucket || !name.key.starts_with(&asked.prefix) {
                    continue;
                }
                told.changes.push(FeedChange {
                    key: entry.key.slice_ref(name.key),
                    is_delete,
                    context,
                    time_us: entry.sequence.0,
                    file: end.file,
                    offset: end.offset,
                });
            }
            (told.next, told.at_end) = (Some(to_wire(next)), at_end);
            told.complete_us = complete_us;
            from = ReadFrom::Position(next);
            if at_end || !told.changes.is_empty() {
                break;
            }
        }
        Ok(told)
    }
}
