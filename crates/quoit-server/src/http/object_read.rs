//! Reading objects.

use super::conditions::{ConditionOutcome, ReadConditions, ReadTimes};
use super::connection::{HttpConnection, Request};
use super::head::Head;
use super::negotiate::{accepts_charset, accepts_encoding, accepts_media_type, choose_media_type};
use super::params::ObjectParams;
use super::refusal::Refusal;
use super::render::{
    Rendered, ValueForm, append_clock, append_version, write_plain, write_plain_head,
};
use super::response::{MULTIPART, ReplyForm, TEXT, reply};
use super::route::RecordName;
use crate::long_work::ObjectRead;
use crate::memory::READ_COPIES;
use quoit_core::{Confirmation, ReadInPlace, ReadOptions, ShownObject, StartedRead};
use quoit_model::object::{Object, Sibling};
use quoit_model::sibling_order::sort_for_clients;
use quoit_seam::Clock;
use quoit_wire::SHARED_BYTES_MIN;

const US_PER_SEC: u64 = 1_000_000;
/// Media types in which siblings can be sent, the default first.
const SIBLING_FORMS: [&[u8]; 2] = [TEXT, MULTIPART];

impl HttpConnection {
    /// Answers GET and HEAD.
    pub(super) async fn get_object(
        &mut self,
        request: &Request,
        name: &RecordName<'_>,
        query: &[u8],
    ) -> Result<(), Refusal> {
        let params = ObjectParams::parse(query).map_err(Refusal::bad)?;
        self.check_origin(&request.head)?;
        let options = params.read_options();
        let read = match self.get_in_place(request, name, &params, &options).await? {
            GetInPlace::Answered => return Ok(()),
            GetInPlace::Found(object) => {
                return self.answer_object(request, name, &params, *object);
            }
            GetInPlace::Started(started) => ObjectRead::Started(started),
            GetInPlace::Declined => ObjectRead::Whole(name.as_ref(), options),
        };
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
        let object = found.ok_or_else(Refusal::not_found)?;
        self.answer_object(request, name, &params, object)
    }

    /// Answers a plain object directly from the memory that it was read to, if that needs no waiting except
    /// for confirmations of other replicas.
    async fn get_in_place(
        &mut self,
        request: &Request,
        name: &RecordName<'_>,
        params: &ObjectParams,
        options: &ReadOptions,
    ) -> Result<GetInPlace, Refusal> {
        let Self { context, out, shared, reservation, form, .. } = self;
        // While memory is short or many large requests are in progress, the size of an object is checked
        // before it is read.
        if params.vtag.is_some() || context.memory.has_large() || context.memory.is_scarce() {
            return Ok(GetInPlace::Declined);
        }
        let (start, key) = (out.len(), name.as_ref());
        let shown = context.store.get_in_place(key, options, |found| match found {
            None => Err(Refusal::not_found()),
            Some(ShownObject::Whole(object)) => Ok(GetInPlace::Found(Box::new(object))),
            Some(ShownObject::Plain(object)) => {
                if !form.head_only {
                    reservation.hold_answer(out, object.value.len())?;
                }
                let mut answer = Answer { out, form: *form, clock: context.store.clock() };
                if answer.is_wanted(&request.head, &ValueForm::from(&object))? {
                    write_plain(answer.out, *form, (key, name.bucket.form), &object);
                }
                Ok(GetInPlace::Answered)
            }
            Some(ShownObject::Large(object, owner)) => {
                if !form.head_only {
                    reservation.hold_shared(out, object.value.len())?;
                }
                let mut answer = Answer { out, form: *form, clock: context.store.clock() };
                if answer.is_wanted(&request.head, &ValueForm::from(&object))? {
                    write_plain_head(answer.out, *form, (key, name.bucket.form), &object);
                    if !form.head_only {
                        shared.push(answer.out.len(), owner.slice_ref(object.value));
                    }
                }
                Ok(GetInPlace::Answered)
            }
        })?;
        match shown {
            None => Ok(GetInPlace::Declined),
            Some(ReadInPlace::Started(started)) => Ok(GetInPlace::Started(started)),
            Some(ReadInPlace::Answer(answered)) => answered,
            Some(ReadInPlace::IfConfirmed(answered, unconfirmed)) => {
                let confirmed = context.store.confirm_read(unconfirmed).await;
                if !matches!(confirmed, Ok(Confirmation::Same)) {
                    out.truncate(start);
                    shared.truncate(0);
                }
                match confirmed? {
                    Confirmation::Same => answered,
                    Confirmation::Other(found) => {
                        let object = found.ok_or_else(Refusal::not_found)?;
                        Ok(GetInPlace::Found(object))
                    }
                }
            }
        }
    }

    /// Answers an object that was read. A large value is sent from the buffer that it is in.
    fn answer_object(
        &mut self,
        request: &Request,
        name: &RecordName<'_>,
        params: &ObjectParams,
        mut object: Object,
    ) -> Result<(), Refusal> {
        sort_for_clients(&mut object);
        if object.is_tombstone() {
            self.write_tombstone(&object);
            return Ok(());
        }
        let chosen = selected(&object, params.vtag.as_deref());
        let is_shared = matches!(&chosen, Ok(Some(sibling)) if self.shares(sibling));
        if is_shared {
            self.reservation.hold_shared(&self.out, value_bytes(&object))?;
        } else if !self.form.head_only {
            self.hold_answer(answer_bytes(&object))?;
        }
        let rendered = Rendered { key: name.as_ref(), form: name.bucket.form, object: &object };
        match chosen? {
            Some(sibling) if !self.answer_to().is_wanted(&request.head, &sibling.into())? => {}
            Some(sibling) if is_shared => {
                rendered.write_head(&mut self.out, self.form, 200, sibling, false);
                self.shared.push(self.out.len(), sibling.value.clone());
            }
            Some(sibling) => rendered.write_value(&mut self.out, self.form, 200, sibling, false),
            None => self.write_siblings(request, rendered)?,
        }
        Ok(())
    }

    /// True if a value is sent, and is so large that it is sent from the buffer that it is in.
    pub(super) const fn shares(&self, sibling: &Sibling) -> bool {
        !self.form.head_only && sibling.value.len() >= SHARED_BYTES_MIN
    }

    fn answer_to(&mut self) -> Answer<'_> {
        let Self { context, out, form, .. } = self;
        Answer { out, form: *form, clock: context.store.clock() }
    }

    fn write_tombstone(&mut self, object: &Object) {
        reply(&mut self.out, self.form, 404)
            .lines(|out| {
                out.extend_from_slice(b"X-Riak-Deleted: true\r\n");
                append_clock(out, &object.clock);
            })
            .content_type(TEXT)
            .finish(b"not found\n");
    }

    fn write_siblings(&mut self, request: &Request, rendered: Rendered<'_>) -> Result<(), Refusal> {
        let form = choose_media_type(request.head.get_list("accept").as_deref(), &SIBLING_FORMS)
            .ok_or(Refusal::Page(406))?;
        let object = rendered.object;
        let (etag, last_modified_us) = (object.etag(), object.last_modified_us());
        if self.answer_to().is_settled_by_conditions(&request.head, &etag, last_modified_us)? {
            return Ok(());
        }
        if form == MULTIPART {
            rendered.write_multipart(&mut self.out, self.form, 300);
        } else {
            rendered.write_tags(&mut self.out, self.form, 300);
        }
        Ok(())
    }
}

/// Result of a read in place.
enum GetInPlace {
    /// The request is answered.
    Answered,
    /// The object was read and is not plain.
    Found(Box<Object>),
    /// The read has begun and has to wait.
    Started(Box<StartedRead>),
    /// Nothing was done.
    Declined,
}

/// Context for making an answer, with the clock for evaluating its conditions.
struct Answer<'o> {
    out: &'o mut Vec<u8>,
    form: ReplyForm,
    clock: &'o dyn Clock,
}

impl Answer<'_> {
    /// True if the value is to be sent: the client accepts its form and does not have this version.
    /// Otherwise the answer is already written.
    fn is_wanted(&mut self, head: &Head, value: &ValueForm<'_>) -> Result<bool, Refusal> {
        let fits = accepts_media_type(head.get_list("accept").as_deref(), value.content_type)
            && value.charset.is_none_or(|charset| {
                accepts_charset(head.get_list("accept-charset").as_deref(), charset)
            })
            && value.content_encoding.is_none_or(|encoding| {
                accepts_encoding(head.get_list("accept-encoding").as_deref(), encoding)
            });
        if !fits {
            return Err(Refusal::Page(406));
        }
        Ok(!self.is_settled_by_conditions(head, value.vtag, value.last_modified_us)?)
    }

    /// True if the client already has this version. The answer is then written.
    fn is_settled_by_conditions(
        &mut self,
        head: &Head,
        etag: &[u8],
        last_modified_us: u64,
    ) -> Result<bool, Refusal> {
        let conditions = ReadConditions::of(head);
        if conditions.is_none() {
            return Ok(false);
        }
        let now_secs = self.clock.unix_us() / US_PER_SEC;
        let times = ReadTimes { last_modified_secs: last_modified_us / US_PER_SEC, now_secs };
        match conditions.verdict(etag, times) {
            ConditionOutcome::Proceed => Ok(false),
            ConditionOutcome::Failed => Err(Refusal::Page(412)),
            ConditionOutcome::NotModified => {
                reply(self.out, self.form, 304)
                    .lines(|out| append_version(out, etag, last_modified_us))
                    .finish(b"");
                Ok(true)
            }
        }
    }
}

/// Memory of an object on its way to the client, in bytes: as it was read, as it is sent, and for siblings
/// once more as the parts of one body.
pub(super) fn answer_bytes(object: &Object) -> usize {
    let copies = READ_COPIES + usize::from(object.siblings.len() > 1);
    value_bytes(object).saturating_mul(copies)
}

/// Bytes of the values of an object, which share one buffer.
pub(super) fn value_bytes(object: &Object) -> usize {
    object.siblings.iter().map(|sibling| sibling.value.len()).sum()
}

/// The value that a request asks for; `None` = all siblings.
fn selected<'o>(object: &'o Object, vtag: Option<&[u8]>) -> Result<Option<&'o Sibling>, Refusal> {
    match (vtag, object.siblings.as_slice()) {
        (None, [single]) => Ok(Some(single)),
        (None, _) => Ok(None),
        (Some(vtag), siblings) => {
            let named = siblings.iter().find(|sibling| *sibling.vtag == *vtag);
            named.map(Some).ok_or(Refusal::Page(404))
        }
    }
}
