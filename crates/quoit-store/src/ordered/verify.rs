//! Reading what is stored and comparing checksums.

use super::backend::Space;
use super::keys::{RecordKey, records_end};
use super::overlay::Range;
use super::store::Store;
use super::value::{HEAD_BYTES, Head};
use crate::engine::{DataPlace, Verified};
use crate::error::StoreError;
use crate::index::Tag;
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};

/// Records that are read at once.
const READ_COUNT: usize = 16;

impl Store {
    /// See `Engine::verify`. Records are read by partition and hash: a place's segment is the partition, its
    /// offset an identity. Where the store's own pages are damaged, so that what is in them can't be told,
    /// that is reported and the rest of their bucket of hashes passed over.
    pub(super) fn verify(
        &self,
        from: Option<DataPlace>,
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
                return Ok(verified);
            };
            let from = Identity(place.offset);
            let next = match self.verify_from(partition, from, &mut verified) {
                Err(error @ StoreError::Corrupt { .. }) => {
                    self.note_damage(&error);
                    let tallies = self.partition(partition).tallies.read();
                    tallies.bucket_end(Tag::of(from)).map(Tag::identity_min)
                }
                next => next?,
            };
            place = match next {
                Some(identity) => DataPlace { offset: identity.0, ..place },
                None => DataPlace { segment: place.segment + 1, ..DataPlace::default() },
            };
        }
        verified.next = Some(place);
        Ok(verified)
    }

    /// Verifies some records from an identity on. Where to go on.
    fn verify_from(
        &self,
        partition: Partition,
        from: Identity,
        verified: &mut Verified,
    ) -> Result<Option<Identity>, StoreError> {
        let end = records_end(partition, self.partition(partition).epoch());
        let start = self.place_of(partition, from);
        let range = Range {
            space: Space::Records,
            from: &start,
            to: Some(&end),
            value_bytes_max: usize::MAX,
        };
        let scanned = self.overlay.scan(range, READ_COUNT)?;
        for (key, value) in &scanned.entries {
            let Some(RecordKey { identity, .. }) = RecordKey::read(key) else { continue };
            verified.byte_count += value.len() as u64;
            match self.verify_record(key, value) {
                Ok(body_bytes) => verified.byte_count += body_bytes,
                Err(error) => {
                    self.note_damage(&error);
                    verified.damaged.push((partition, Tag::of(identity)));
                }
            }
        }
        // Where the scan broke off, which may be far behind what is left of it: removals that wait hide what
        // they remove. Identities are rarely shared, and to read a record twice does no harm; but the next
        // step has to get further.
        Ok(scanned.next.and_then(|next| {
            let reached = RecordKey::read(&next).map(|read| read.identity);
            let further = reached.filter(|reached| *reached > from);
            further.or_else(|| from.0.checked_add(1).map(Identity))
        }))
    }

    /// Verifies a record as it was read. The size of its body if that is apart.
    fn verify_record(&self, key: &Bytes, value: &Bytes) -> Result<u64, StoreError> {
        let head = Head::read(key, value).map_err(|reason| self.damaged(reason))?;
        let wrong = || self.damaged("the body is not the one that was written");
        if !head.is_apart {
            return head.has_body(&value[HEAD_BYTES..]).then_some(0).ok_or_else(wrong);
        }
        let body = self.overlay.get(Space::Bodies, key)?;
        if body.is_some_and(|body| head.has_body(&body)) {
            return Ok(head.body_bytes());
        }
        // Written again between the two reads?
        let again = self.overlay.get(Space::Records, key)?;
        if again.as_ref() == Some(value) { Err(wrong()) } else { Ok(head.body_bytes()) }
    }
}
