//! Changes whose new value is large and in a buffer that can be shared.

use super::pages::can_have_pages;
use super::{Records, Updated, should_be_divided};
use crate::appended::appended;
use crate::shared_value;
use bytes::Bytes;
use quoit_model::data_type::pages::PagedObject;
use quoit_model::object::Object;
use quoit_model::plain::PlainObject;
use quoit_store::engine::{
    BeforeImage, Decision, IoMode, LargeChange, RecordAt, RecordMeta, RecordRef,
};
use quoit_store::error::StoreError;

impl Records {
    /// As [`Records::update`]. If `is_large`, `change` may return the end of the new value in its own buffer
    /// instead of copying it.
    #[inline]
    pub(super) fn update_parts(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        is_large: bool,
        change: &mut impl FnMut(Option<&RecordRef<'_>>, &mut Vec<u8>, Option<&mut Bytes>) -> Decision,
    ) -> Result<Updated, StoreError> {
        if !is_large {
            return self.update(at, before, access, &mut |stored, out| change(stored, out, None));
        }
        self.update_large(at, before, access, &mut |stored, out, rest| {
            change(stored, out, Some(rest))
        })
    }

    /// As [`Records::update`], for a large new value ([`PointAccess::update_large`]).
    fn update_large(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        change: &mut LargeChange<'_>,
    ) -> Result<Updated, StoreError> {
        let (mut is_paged, mut needs_pages) = (false, false);
        let applied = self.engine.update_large(at, before, access, &mut |stored, out, rest| {
            is_paged = stored.is_some_and(|record| PagedObject::is_paged(record.value));
            if is_paged {
                return Decision::Keep;
            }
            let start = out.len();
            let decision = change(stored, out, rest);
            needs_pages = match decision {
                Decision::Put(meta) if can_have_pages(at) => {
                    should_parts_be_divided(meta, appended(out, start), rest)
                }
                _ => false,
            };
            if needs_pages && access == IoMode::NoWait { Decision::Keep } else { decision }
        })?;
        let updated = if is_paged { Updated::InPages } else { Updated::Applied(applied) };
        Ok(self.divided_if(needs_pages, at, updated))
    }
}

/// As [`should_be_divided`], for a stored object in two parts. The parts of an object that is not plain are
/// put together in one buffer.
fn should_parts_be_divided(meta: RecordMeta, front: &[u8], rest: &mut Bytes) -> bool {
    if rest.is_empty() {
        return should_be_divided(front);
    }
    // The front is enough to recognize a plain object, which holds no data type.
    if PlainObject::read_front(front, meta.digest).is_some() {
        return false;
    }
    let stored = shared_value::join(front, rest);
    PagedObject::may_need_pages(&stored)
        && Object::decode(&stored).is_ok_and(|object| PagedObject::needs_pages(&object))
}
