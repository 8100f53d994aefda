//! Gets and puts answered directly from the read buffer, without copies and without allocations for the
//! request.
//!
//! A message or object that is not plain (see [`quoit_wire::plain`] and [`quoit_core::ShownObject`]) is
//! declined, and is decoded and dispatched like all other requests.

use super::connection::PbConnection;
use super::content::modified;
use super::fault::Fault;
use super::kv::{GetForm, get_response, quorum, read_options};
use crate::long_work::ObjectRead;
use crate::memory::{MemoryReservation, NoMemory, is_large};
use crate::security::RequiredPermission;
use bytes::Bytes;
use prost::Message;
use quoit_core::{
    Confirmation, Pending, PlainWrite, ReadInPlace, ShownObject, StartedRead, UnconfirmedRead,
    WriteOptions,
};
use quoit_model::clock::VersionVector;
use quoit_model::context::{decode_context, encode_context_into};
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE, KeyRef};
use quoit_model::object::Object;
use quoit_model::plain::PlainObject;
use quoit_security::Permission;
use quoit_wire::frame::{append_empty, append_message};
use quoit_wire::messages::{RpbContent, RpbGetResp};
use quoit_wire::{
    ContentRef, FrameError, FrameRef, MessageCode, PlainGet, PlainPut, SHARED_BYTES_MIN,
    SharedParts, append_get_resp, append_get_resp_shared,
};

/// An encoded answer that other replicas have to confirm before it is sent.
pub(super) struct UnconfirmedAnswer {
    unconfirmed: UnconfirmedRead,
    /// Length of the output before the answer.
    start: usize,
    form: GetForm,
}

/// A get that has begun and has to wait.
pub(super) struct StartedGet {
    started: Box<StartedRead>,
    form: GetForm,
}

/// Result of an attempt to answer in place.
pub(super) enum InPlaceOutcome {
    /// The request is answered.
    Answered,
    /// The value is written. The answer has to wait for replicas or for durability.
    Written(Pending),
    /// The answer is encoded. It may be sent if other replicas confirm it.
    UnconfirmedAnswer(UnconfirmedAnswer),
    /// The read has begun and has to wait.
    Started(StartedGet),
    /// Nothing was done.
    Declined,
}

impl GetForm {
    fn answer(self, object: Object) -> RpbGetResp {
        get_response(object, None, self)
    }
}

/// The bucket that a message names. A missing bucket type means the default type.
fn bucket_of<'a>(bucket_type: Option<&'a [u8]>, bucket: &'a [u8]) -> BucketRef<'a> {
    BucketRef { bucket_type: bucket_type.unwrap_or(DEFAULT_BUCKET_TYPE), bucket }
}

fn required_permission(permission: Permission, key: KeyRef<'_>) -> RequiredPermission<'_> {
    RequiredPermission::of_bucket(permission, key.bucket).of_key(Some(key.key))
}

impl PbConnection {
    /// Answers a request if that is possible in place. `shared` is the body of a large frame, in a buffer
    /// that can be shared.
    pub(super) fn answer_in_place(
        &mut self,
        frame: FrameRef<'_>,
        shared: Option<&Bytes>,
    ) -> Result<InPlaceOutcome, Fault> {
        if frame.is(MessageCode::GetReq)
            && let Some(get) = PlainGet::read(frame.body)
        {
            if !self.session.is_open() {
                let key = bucket_of(get.bucket_type, get.bucket).key(get.key);
                self.check(&required_permission(Permission::Get, key))?;
            }
            let memory = &self.context.memory;
            if (memory.has_large() || memory.is_scarce()) && self.is_large(&get)? {
                return Ok(InPlaceOutcome::Declined);
            }
            return self.get_in_place(&get);
        }
        if frame.is(MessageCode::PutReq)
            && let Some(put) = PlainPut::read(frame.body)
        {
            if !self.session.is_open() {
                let key = bucket_of(put.bucket_type, put.bucket).key(put.key);
                self.check(&required_permission(Permission::Put, key))?;
            }
            return self.put_in_place(&put, shared);
        }
        Ok(InPlaceOutcome::Declined)
    }

    /// True if an object is so large that its read has to run on a thread of low priority. If memory is
    /// scarce, asks for the object's memory, so that a read that would be refused is not made.
    #[cold]
    fn is_large(&mut self, get: &PlainGet<'_>) -> Result<bool, NoMemory> {
        let key = bucket_of(get.bucket_type, get.bucket).key(get.key);
        let size_bytes_max = self.context.store.size_bytes_max(key);
        if self.context.memory.is_scarce() {
            self.reservation.hold_read(&self.out, size_bytes_max)?;
        }
        Ok(is_large(size_bytes_max))
    }

    fn get_in_place(&mut self, get: &PlainGet<'_>) -> Result<InPlaceOutcome, Fault> {
        let options = read_options!(get);
        let form = GetForm {
            head: get.head == Some(true),
            tombstone_wanted: get.deletedvclock == Some(true),
        };
        let Self { context, out, shared, clock_bytes, reservation, .. } = self;
        let start = out.len();
        let answered: Option<ReadInPlace<Result<(), Fault>>> = context.store.get_in_place(
            bucket_of(get.bucket_type, get.bucket).key(get.key),
            &options,
            |found| match found {
                None => {
                    append_empty(out, MessageCode::GetResp);
                    Ok(())
                }
                Some(ShownObject::Plain(object)) => {
                    clock_bytes.clear();
                    encode_context_into(&object.clock, clock_bytes);
                    let content = content(&object, form.head);
                    reservation.hold_answer(out, content.value.len())?;
                    Ok(append_get_resp(out, [content], Some(clock_bytes))?)
                }
                Some(ShownObject::Large(object, owner)) => {
                    clock_bytes.clear();
                    encode_context_into(&object.clock, clock_bytes);
                    let content = content(&object, form.head);
                    reservation.hold_shared(out, content.value.len())?;
                    let value =
                        if form.head { Bytes::new() } else { owner.slice_ref(object.value) };
                    let content = [(content, value)];
                    let out = (&mut *out, &mut *shared);
                    Ok(append_get_resp_shared(out, content, Some(clock_bytes))?)
                }
                Some(ShownObject::Whole(object)) => {
                    let answer = form.answer(object);
                    append_get_answer((&mut *out, &mut *shared), reservation, &answer)
                }
            },
        )?;
        match answered {
            None => {
                debug_assert_eq!(out.len(), start, "a declined request has no answer yet");
                Ok(InPlaceOutcome::Declined)
            }
            Some(ReadInPlace::Started(started)) => {
                debug_assert_eq!(out.len(), start, "a read that has to wait has no answer yet");
                Ok(InPlaceOutcome::Started(StartedGet { started, form }))
            }
            Some(ReadInPlace::Answer(Ok(()))) => Ok(InPlaceOutcome::Answered),
            Some(ReadInPlace::IfConfirmed(Ok(()), unconfirmed)) => {
                Ok(InPlaceOutcome::UnconfirmedAnswer(UnconfirmedAnswer {
                    unconfirmed,
                    start,
                    form,
                }))
            }
            Some(ReadInPlace::Answer(Err(fault)) | ReadInPlace::IfConfirmed(Err(fault), _)) => {
                // Otherwise the client would mistake the beginning of an answer for the whole answer.
                debug_assert_eq!(out.len(), start, "an answer that fails leaves nothing behind");
                Err(fault)
            }
        }
    }

    /// Waits until other replicas confirm an answer. If one has another version, replaces the answer by the
    /// merged object.
    pub(super) async fn confirm(&mut self, answer: UnconfirmedAnswer) -> Result<(), Fault> {
        let UnconfirmedAnswer { unconfirmed, start, form } = answer;
        debug_assert!(start < self.out.len(), "the answer waits at the end of the output");
        let confirmed = self.context.store.confirm_read(unconfirmed).await;
        if !matches!(confirmed, Ok(Confirmation::Same)) {
            self.out.truncate(start);
            self.shared.truncate(0);
        }
        match confirmed? {
            Confirmation::Same => Ok(()),
            Confirmation::Other(Some(object)) => self.send_got(&form.answer(*object)),
            Confirmation::Other(None) => {
                self.send_empty(MessageCode::GetResp);
                Ok(())
            }
        }
    }

    /// Continues a get that has to wait, and answers it.
    pub(super) async fn finish_get(&mut self, get: StartedGet) -> Result<(), Fault> {
        let StartedGet { started, form } = get;
        self.read_and_answer(ObjectRead::Started(started), |object| form.answer(object)).await
    }

    fn put_in_place(
        &mut self,
        put: &PlainPut<'_>,
        shared: Option<&Bytes>,
    ) -> Result<InPlaceOutcome, Fault> {
        let context = match put.vclock {
            None => VersionVector::default(),
            Some(bytes) => match decode_context(bytes) {
                Ok(context) => context,
                Err(_) => return Ok(InPlaceOutcome::Declined),
            },
        };
        let options = WriteOptions {
            w: quorum(put.w),
            dw: quorum(put.dw),
            pw: quorum(put.pw),
            node_confirms: quorum(put.node_confirms),
            n_val: put.n_val,
            sloppy_quorum: put.sloppy_quorum,
            sync_on_write: None,
            timeout_ms: put.timeout,
        };
        let write = PlainWrite {
            key: bucket_of(put.bucket_type, put.bucket).key(put.key),
            context,
            content_type: put.content_type,
            value: put.value,
            shared: shared.map(|body| body.slice_ref(put.value)),
            options,
        };
        Ok(self
            .context
            .store
            .put_in_place(&write)?
            .map_or(InPlaceOutcome::Declined, InPlaceOutcome::Written))
    }

    /// Waits for the quorum of a write, and answers it.
    pub(super) async fn finish_put(&mut self, pending: Pending) -> Result<(), Fault> {
        self.context.store.finish(pending).await?;
        self.send_empty(MessageCode::PutResp);
        Ok(())
    }
}

/// Appends the answer to a get, if there is memory for it.
pub(super) fn append_get_answer(
    (out, shared): (&mut Vec<u8>, &mut SharedParts),
    reservation: &mut MemoryReservation,
    answer: &RpbGetResp,
) -> Result<(), Fault> {
    if !has_large_value(&answer.content) {
        reservation.hold_answer(out, answer.encoded_len())?;
        return Ok(append_message(out, answer)?);
    }
    debug_assert!(answer.unchanged.is_none(), "an unchanged object is not sent");
    reservation.hold_shared(out, answer.encoded_len())?;
    let content = answer.content.iter().map(|each| (ContentRef::from(each), each.value.clone()));
    Ok(append_get_resp_shared((out, shared), content, answer.vclock.as_deref())?)
}

/// True if a value is so large that it is sent from the buffer that it is in.
pub(super) fn has_large_value(content: &[RpbContent]) -> bool {
    content.iter().any(|each| each.value.len() >= SHARED_BYTES_MIN)
}

impl From<FrameError> for Fault {
    /// The answer does not fit into a frame.
    fn from(fault: FrameError) -> Self {
        Self::Text(fault.to_string())
    }
}

fn content<'a>(object: &PlainObject<'a>, head: bool) -> ContentRef<'a> {
    let (last_mod, last_mod_usecs) = modified(object.last_modified_us);
    ContentRef {
        value: if head { &[] } else { object.value },
        content_type: object.content_type,
        charset: object.charset,
        content_encoding: object.content_encoding,
        vtag: (!object.vtag.is_empty()).then_some(object.vtag),
        last_mod,
        last_mod_usecs,
        ..ContentRef::default()
    }
}
