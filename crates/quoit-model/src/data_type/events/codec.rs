//! Stored form of sets of events, which is a part of larger forms; see `docs/design/data-types.md`.

use super::{EventSet, Run, Runs};
use crate::clock::Actor;
use crate::cursor::{Cursor, put_counted, put_varint};
use crate::data_type::StoredFormError;
use smallvec::SmallVec;

impl EventSet {
    /// Appends the stored form. Equal sets give equal bytes.
    pub(in crate::data_type) fn encode_into(&self, out: &mut Vec<u8>) {
        put_varint(out, self.runs.len() as u64);
        for (actor, runs) in &self.runs {
            put_counted(out, &actor.0);
            put_varint(out, runs.len() as u64);
            let mut known = 0;
            for run in runs {
                // Between two runs is a gap of at least one event; the first run may begin with
                // event 1.
                put_varint(out, run.first - known - 1);
                put_varint(out, run.last - run.first);
                known = run.last;
            }
        }
    }

    /// Decodes the stored form. Returns an error for bytes that [`EventSet::encode_into`] would not
    /// write.
    pub(in crate::data_type) fn decode(cursor: &mut Cursor<'_>) -> Result<Self, StoredFormError> {
        let mut set = Self::default();
        for _ in 0..cursor.count()? {
            let actor = Actor(SmallVec::from_slice(cursor.counted_slice()?));
            if set.runs.last().is_some_and(|(before, _)| *before >= actor) {
                return Err(bad(cursor, "actors that are not sorted"));
            }
            let runs = decode_runs(cursor)?;
            set.runs.push((actor, runs));
        }
        Ok(set)
    }
}

fn decode_runs(cursor: &mut Cursor<'_>) -> Result<Runs, StoredFormError> {
    let mut runs = Runs::new();
    let count = cursor.count()?;
    for _ in 0..count {
        let (gap, more) = (cursor.varint()?, cursor.varint()?);
        if gap == 0 && !runs.is_empty() {
            return Err(bad(cursor, "runs of events without a gap between them"));
        }
        let known = runs.last().map_or(0, |run| run.last);
        let first = known.checked_add(1).and_then(|next| next.checked_add(gap));
        let run = first.and_then(|first| Some(Run { first, last: first.checked_add(more)? }));
        runs.push(run.ok_or_else(|| bad(cursor, "events beyond 2^64"))?);
    }
    if runs.is_empty() {
        return Err(bad(cursor, "an actor without events"));
    }
    Ok(runs)
}

fn bad(cursor: &Cursor<'_>, what: &'static str) -> StoredFormError {
    StoredFormError::BadForm { what, at: cursor.at() }
}
