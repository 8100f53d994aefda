//! Verification: reads all data, compares checksums, and compares records with the data derived from them.

use super::backend::Space;
use super::derived_data::LOOK_BYTES;
use super::keys::{RecordKey, records_end};
use super::overlay::ScanRange;
use super::store::StoreShared;
use super::value::{HEAD_BYTES, ValueHead};
use crate::engine::{DataLocation, RecordAt, Verified};
use crate::error::StoreError;
use crate::index::Tag;
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::KeyRef;

/// Number of records that are read at once.
const READ_COUNT: usize = 16;

impl StoreShared {
    /// See `Engine::verify`. Records are read by partition and hash: the segment of a position is the
    /// partition, and its offset is an identity. If a page of the store itself is damaged, the records in
    /// it are not known; the damage is reported, and the rest of their tally bucket is skipped. After the
    /// partitions come two more segments: names, which also report records on damaged pages, and index
    /// entries.
    pub(super) fn verify(
        &self,
        from: Option<DataLocation>,
        limit_bytes: u64,
    ) -> Result<Verified, StoreError> {
        self.check_open()?;
        let mut verified = Verified::default();
        let mut place = from.unwrap_or_default();
        while verified.byte_count < limit_bytes {
            let number = u16::try_from(place.segment).ok();
            let Some(partition) =
                number.map(Partition).filter(|each| usize::from(each.0) < self.partitions.len())
            else {
                match self.verify_other(place, &mut verified)? {
                    Some(next) => place = next,
                    None => return Ok(verified),
                }
                continue;
            };
            let from = Identity(place.offset);
            let next = match self.verify_from(partition, from, &mut verified) {
                // After the repair, the lost records are found one by one.
                Err(StoreError::Corrupt { .. })
                    if matches!(self.overlay.backend.repair(), Ok(true)) =>
                {
                    continue;
                }
                Err(error @ StoreError::Corrupt { .. }) => {
                    self.note_damage(&error);
                    let tallies = self.partition(partition).tallies.read();
                    tallies.bucket_end(Tag::of(from)).map(Tag::identity_min)
                }
                next => next?,
            };
            place = match next {
                Some(identity) => DataLocation { offset: identity.0, ..place },
                None => DataLocation { segment: place.segment + 1, ..DataLocation::default() },
            };
        }
        verified.next = Some(place);
        Ok(verified)
    }

    /// Verifies some names or index entries. Returns the position from which the next call continues.
    fn verify_other(
        &self,
        place: DataLocation,
        verified: &mut Verified,
    ) -> Result<Option<DataLocation>, StoreError> {
        let spaces = [Space::Names, Space::Indexes];
        let number = place.segment as usize - self.partitions.len();
        let Some(space) = spaces.get(number) else { return Ok(None) };
        let mut reached = self.verified_to.lock();
        // A position has no room for a key, so the key is kept in memory. After a restart verification of
        // the space begins again.
        let from = if place.offset == 0 { Bytes::new() } else { std::mem::take(&mut *reached) };
        let next = self.verify_derived(*space, &from, verified)?;
        let end = DataLocation { segment: place.segment + 1, ..DataLocation::default() };
        Ok(Some(next.map_or(end, |next| {
            *reached = next;
            DataLocation { offset: place.offset + 1, ..place }
        })))
    }

    /// Verifies some records from an identity on. Returns the identity from which the next call continues.
    fn verify_from(
        &self,
        partition: Partition,
        from: Identity,
        verified: &mut Verified,
    ) -> Result<Option<Identity>, StoreError> {
        let end = records_end(partition, self.partition(partition).epoch());
        let start = self.place_of(partition, from);
        let range = ScanRange {
            space: Space::Records,
            from: &start,
            to: Some(&end),
            value_bytes_max: usize::MAX,
        };
        let scanned = self.overlay.scan(range, READ_COUNT)?;
        for (key, value) in &scanned.entries {
            let Some(RecordKey { identity, encoded, .. }) = RecordKey::read(key) else { continue };
            verified.byte_count += value.len() as u64 + LOOK_BYTES;
            match self.verify_record(key, value) {
                Ok(head) => {
                    verified.byte_count += if head.is_apart { head.body_bytes() } else { 0 };
                    let Ok(name) = KeyRef::decode(encoded) else { continue };
                    let at = RecordAt { key: name, encoded, identity, partition };
                    self.repair_entries(&at, &head.meta)?;
                }
                Err(error) => {
                    self.note_damage(&error);
                    verified.damaged.push((partition, Tag::of(identity)));
                }
            }
        }
        // Continues where the scan ended, which may be far after the last returned record, because waiting
        // removals hide what they remove. Identities are rarely shared, and reading a record twice does no
        // harm, but the next step must get further.
        Ok(scanned.next.and_then(|next| {
            let reached = RecordKey::read(&next).map(|read| read.identity);
            let further = reached.filter(|reached| *reached > from);
            further.or_else(|| from.0.checked_add(1).map(Identity))
        }))
    }

    /// Verifies a record that was read.
    fn verify_record(&self, key: &Bytes, value: &Bytes) -> Result<ValueHead, StoreError> {
        let head = ValueHead::read(key, value).map_err(|reason| self.damaged(reason))?;
        let wrong = || self.damaged("the body is not the one that was written");
        if !head.is_apart {
            let body = value.get(HEAD_BYTES..).unwrap_or_default();
            return head.has_body(body).then_some(head).ok_or_else(wrong);
        }
        let body = self.overlay.get(Space::Bodies, key)?;
        if body.is_some_and(|body| head.has_body(&body)) {
            return Ok(head);
        }
        // The record may have been written again between the two reads.
        let again = self.overlay.get(Space::Records, key)?;
        if again.as_ref() == Some(value) { Err(wrong()) } else { Ok(head) }
    }
}
