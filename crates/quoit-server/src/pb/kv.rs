//! Get, put, delete.

use super::connection::PbConnection;
use super::content;
use super::fault::Fault;
use super::in_place::{append_get_answer, has_large_value};
use crate::long_work::ObjectRead;
use bytes::Bytes;
use prost::Message;
use quoit_core::{
    DeleteRequest, Precondition, PutRequest, ReadOptions, RequestError, WriteOptions,
};
use quoit_model::clock::VersionVector;
use quoit_model::context::{decode_context, encode_context};
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE};
use quoit_model::object::{Metadata, Object};
use quoit_model::props::Quorum;
use quoit_wire::messages::{RpbDelReq, RpbGetReq, RpbGetResp, RpbPutReq, RpbPutResp};
use quoit_wire::{AnswerFields, ContentRef, MessageCode, append_put_resp_shared};

/// The bucket that a message names. A missing bucket type means the default type.
pub(super) fn bucket_of<'a>(bucket_type: &'a Option<Bytes>, bucket: &'a Bytes) -> BucketRef<'a> {
    let bucket_type = bucket_type.as_deref().unwrap_or(DEFAULT_BUCKET_TYPE);
    BucketRef { bucket_type, bucket }
}

/// The options of a read, from the fields that all read messages have.
macro_rules! read_options {
    ($request:expr) => {
        quoit_core::ReadOptions {
            r: $crate::pb::kv::quorum($request.r),
            pr: $crate::pb::kv::quorum($request.pr),
            node_confirms: $crate::pb::kv::quorum($request.node_confirms),
            n_val: $request.n_val,
            basic_quorum: $request.basic_quorum,
            notfound_ok: $request.notfound_ok,
            sloppy_quorum: $request.sloppy_quorum,
            timeout_ms: $request.timeout,
        }
    };
}
pub(super) use read_options;

/// A quorum field as a request option. A missing field and `default` give `None`, which stands for the
/// bucket's property.
pub(super) fn quorum(field: Option<u32>) -> Option<Quorum> {
    field.and_then(Quorum::from_pb)
}

fn context(field: Option<&Bytes>) -> Result<VersionVector, Fault> {
    let Some(bytes) = field else { return Ok(VersionVector::default()) };
    decode_context(bytes).map_err(|fault| Fault::Text(fault.to_string()))
}

impl PbConnection {
    pub(super) async fn get(&mut self, request: RpbGetReq) -> Result<(), Fault> {
        let key = bucket_of(&request.bucket_type, &request.bucket).key(&request.key);
        let options = read_options!(request);
        let known = match &request.if_modified {
            Some(bytes) if !bytes.is_empty() => Some(context(Some(bytes))?),
            _ => None,
        };
        let form = GetForm {
            head: request.head == Some(true),
            tombstone_wanted: request.deletedvclock == Some(true),
        };
        let answer = |object| get_response(object, known.as_ref(), form);
        self.read_and_answer(ObjectRead::Whole(key, options), answer).await
    }

    /// Reads an object and answers a get with it.
    pub(super) async fn read_and_answer(
        &mut self,
        read: ObjectRead<'_>,
        answer: impl FnOnce(Object) -> RpbGetResp,
    ) -> Result<(), Fault> {
        let store = &self.context.store;
        let size_bytes_max = || read.size_bytes_max(store);
        let is_aside = self.context.reads_at_low_priority(size_bytes_max);
        if is_aside {
            self.socket.yield_to_ready_tasks().await;
        }
        let admitted = self.memory.admit_read(&mut self.reservation, &self.out, size_bytes_max)?;
        let found = match is_aside {
            // Boxed, because the task of every idle connection would reserve space for it otherwise.
            true => Box::pin(self.context.get_low_priority(read)).await?,
            false => read.run(store).await?,
        };
        drop(admitted);
        let Some(object) = found else {
            self.send_empty(MessageCode::GetResp);
            return Ok(());
        };
        let answer = answer(object);
        // A large value is not copied, so that sending it is no long work.
        match is_aside && !has_large_value(&answer.content) {
            true => self.send_low_priority(answer).await,
            false => self.send_got(&answer),
        }
    }

    /// Appends the answer to a get, if there is memory for it.
    pub(super) fn send_got(&mut self, answer: &RpbGetResp) -> Result<(), Fault> {
        append_get_answer((&mut self.out, &mut self.shared), &mut self.reservation, answer)
    }

    /// Appends the answer to a put, if there is memory for it.
    fn send_put(&mut self, answer: &RpbPutResp) -> Result<(), Fault> {
        if !has_large_value(&answer.content) {
            return self.send(answer);
        }
        self.reservation.hold_shared(&self.out, answer.encoded_len())?;
        let content =
            answer.content.iter().map(|each| (ContentRef::from(each), each.value.clone()));
        let (vclock, key) = (answer.vclock.as_deref(), answer.key.as_deref());
        let fields = AnswerFields { vclock, key };
        Ok(append_put_resp_shared((&mut self.out, &mut self.shared), content, fields)?)
    }

    pub(super) async fn put(&mut self, mut request: RpbPutReq) -> Result<(), Fault> {
        let generated = match &request.key {
            Some(_) => None,
            None => Some(self.context.store.generate_key()?),
        };
        let name = request.key.clone().or_else(|| generated.clone()).unwrap_or_default();
        let key = bucket_of(&request.bucket_type, &request.bucket).key(&name);
        let head = request.return_head == Some(true);
        let return_object = head || request.return_body == Some(true);
        key.check().map_err(RequestError::from)?;
        let clock = context(request.vclock.as_ref())?;
        let not_exists = request.if_none_match == Some(true);
        // A record that must not exist has no version to compare.
        let same_version = request.if_not_modified == Some(true) && !not_exists;
        let precondition = Precondition {
            not_exists,
            clock: same_version.then(|| clock.clone()),
            ..Precondition::default()
        };
        let options = WriteOptions {
            w: quorum(request.w),
            dw: quorum(request.dw),
            pw: quorum(request.pw),
            node_confirms: quorum(request.node_confirms),
            n_val: request.n_val,
            sloppy_quorum: request.sloppy_quorum,
            sync_on_write: None,
            timeout_ms: request.timeout,
        };
        let (meta, vetoed) = match content::metadata(&mut request.content) {
            Ok(meta) => (meta, None),
            Err(text) => (Metadata::default(), Some(text)),
        };
        let stored = self
            .context
            .store
            .put(PutRequest {
                key,
                context: clock,
                meta,
                value: std::mem::take(&mut request.content.value),
                deleted: request.content.deleted == Some(true),
                as_is: request.asis == Some(true),
                precondition,
                return_object,
                options,
                vetoed,
                tag: Bytes::new(),
                given: None,
            })
            .await?;
        match stored {
            None if generated.is_none() => {
                self.send_empty(MessageCode::PutResp);
                Ok(())
            }
            stored => self.send_put(&put_response(stored, head, generated)),
        }
    }

    pub(super) async fn delete(&mut self, request: RpbDelReq) -> Result<(), Fault> {
        let key = bucket_of(&request.bucket_type, &request.bucket).key(&request.key);
        // As in Riak: only get and put report an empty bucket type as an invalid length.
        if key.bucket.bucket_type.is_empty() && !key.bucket.bucket.is_empty() && !key.key.is_empty()
        {
            return Err(RequestError::NoSuchType(Vec::new()).into());
        }
        let context = match &request.vclock {
            Some(bytes) if !bytes.is_empty() => Some(context(Some(bytes))?),
            _ => None,
        };
        let read = ReadOptions {
            r: quorum(request.r),
            pr: quorum(request.pr),
            n_val: request.n_val,
            sloppy_quorum: request.sloppy_quorum,
            timeout_ms: request.timeout,
            ..ReadOptions::default()
        };
        let write = WriteOptions {
            w: quorum(request.w),
            dw: quorum(request.dw),
            pw: quorum(request.pw),
            n_val: request.n_val,
            sloppy_quorum: request.sloppy_quorum,
            timeout_ms: request.timeout,
            ..WriteOptions::default()
        };
        let precondition = Precondition::default();
        let rw = quorum(request.rw);
        let request = DeleteRequest { key, context, precondition, rw, read, write };
        self.context.store.delete(request).await?;
        self.send_empty(MessageCode::DelResp);
        Ok(())
    }
}

/// Form in which a client wants an object.
#[derive(Clone, Copy)]
pub(super) struct GetForm {
    /// Without values.
    pub(super) head: bool,
    /// With the version vector of a tombstone.
    pub(super) tombstone_wanted: bool,
}

/// The answer to a get. `known` is the version vector that the client has; if it equals that of the object,
/// the answer only says so.
pub(super) fn get_response(
    object: Object,
    known: Option<&VersionVector>,
    form: GetForm,
) -> RpbGetResp {
    let GetForm { head, tombstone_wanted } = form;
    if object.is_tombstone() {
        // A client learns of a tombstone only if it asks for tombstones.
        let vclock = tombstone_wanted.then(|| encode_context(&object.clock));
        RpbGetResp { vclock, ..RpbGetResp::default() }
    } else if known.is_some_and(|clock| *clock == object.clock) {
        RpbGetResp { unchanged: Some(true), ..RpbGetResp::default() }
    } else {
        let vclock = Some(encode_context(&object.clock));
        RpbGetResp { content: content::contents(object, head), vclock, unchanged: None }
    }
}

fn put_response(stored: Option<Object>, head: bool, key: Option<Bytes>) -> RpbPutResp {
    match stored {
        None => RpbPutResp { key, ..RpbPutResp::default() },
        Some(object) => {
            let vclock = Some(encode_context(&object.clock));
            RpbPutResp { content: content::contents(object, head), vclock, key }
        }
    }
}
