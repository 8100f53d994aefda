//! Writes of plain objects, which take the short path of most requests.

use super::Records;
use bytes::Bytes;
use quoit_model::data_type::pages::PagedObject;
use quoit_store::engine::{Applied, BeforeImage, Decision, IoMode, RecordAt, RecordRef};
use quoit_store::error::StoreError;

impl Records {
    /// As [`PointAccess::update`], with a change that stores no data type: the result is never divided into
    /// pages. If the new value ends with `shared`, `change` gets that buffer, from which it is written, and
    /// encodes the rest ([`PointAccess::update_large`]).
    ///
    /// `None` if the record is a large set or map. `change` was not called then, and nothing was written.
    ///
    /// [`PointAccess::update`]: quoit_store::engine::PointAccess::update
    /// [`PointAccess::update_large`]: quoit_store::engine::PointAccess::update_large
    #[inline]
    pub(crate) fn update_plain(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        shared: Option<&Bytes>,
        change: &mut impl FnMut(Option<&RecordRef<'_>>, &mut Vec<u8>, Option<&mut Bytes>) -> Decision,
    ) -> Result<Option<Applied>, StoreError> {
        let mut is_paged = false;
        let applied = match shared {
            None => self.engine.update(at, before, access, &mut |stored, out| {
                is_paged = stored.is_some_and(|record| PagedObject::is_paged(record.value));
                if is_paged { Decision::Keep } else { change(stored, out, None) }
            }),
            Some(value) => {
                self.engine.update_large(at, before, access, &mut |stored, out, rest| {
                    is_paged = stored.is_some_and(|record| PagedObject::is_paged(record.value));
                    if is_paged {
                        return Decision::Keep;
                    }
                    *rest = value.clone();
                    change(stored, out, Some(rest))
                })
            }
        }?;
        Ok((!is_paged).then_some(applied))
    }
}
