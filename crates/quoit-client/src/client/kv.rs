//! Get, put, delete.

use super::Client;
use crate::error::Error;
use crate::location::{Bucket, Location};
use crate::object::{Content, Context, Object};
use crate::options::{DeleteOptions, GetOptions, PutOptions, timeout_ms};
use crate::pool::Repeatable;
use bytes::Bytes;
use quoit_wire::messages::{
    RpbContent, RpbDelReq, RpbDelResp, RpbGetReq, RpbGetResp, RpbPutReq, RpbPutResp,
};

/// The outcome of a read.
#[derive(Debug, Clone, PartialEq)]
pub enum Fetched {
    /// There is no such object.
    NotFound,
    /// The object was deleted; only with [`GetOptions::tombstone`]. A write that is to replace the
    /// tombstone needs this context.
    Tombstone(Context),
    /// The object still has the context of [`GetOptions::if_modified`].
    Unchanged,
    /// The object.
    Found(Object),
}

/// The outcome of a write.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// The key, if the server chose it.
    pub key: Option<Bytes>,
    /// The object as stored, if [`PutOptions::return_body`] or `return_head` asked for it.
    pub object: Option<Object>,
}

impl Client {
    /// Reads an object. `None` if there is no such object.
    ///
    /// # Errors
    ///
    /// Any [`Error`]. The client repeats the read where that may help.
    pub async fn get(&self, location: &Location) -> Result<Option<Object>, Error> {
        Ok(match self.get_with(location, &GetOptions::default()).await? {
            Fetched::Found(object) => Some(object),
            Fetched::NotFound | Fetched::Tombstone(_) | Fetched::Unchanged => None,
        })
    }

    /// Reads an object with options.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn get_with(
        &self,
        location: &Location,
        options: &GetOptions,
    ) -> Result<Fetched, Error> {
        let request = RpbGetReq {
            bucket: location.bucket.name.clone(),
            key: location.key.clone(),
            r: options.r.to_field(),
            pr: options.pr.to_field(),
            basic_quorum: options.basic_quorum,
            notfound_ok: options.notfound_ok,
            if_modified: options.if_modified.clone().map(|context| context.0),
            head: options.head.then_some(true),
            deletedvclock: options.tombstone.then_some(true),
            timeout: timeout_ms(options.timeout),
            sloppy_quorum: options.sloppy_quorum,
            n_val: options.n_val,
            bucket_type: location.bucket.bucket_type.clone(),
            node_confirms: options.node_confirms,
        };
        let answer: RpbGetResp = self
            .pool
            .call(&request, Repeatable::Safe, options.timeout, Some(location.location_ref()))
            .await?;
        if answer.unchanged == Some(true) {
            return Ok(Fetched::Unchanged);
        }
        Ok(match (object(answer.content, answer.vclock.clone()), answer.vclock) {
            (Some(object), _) => Fetched::Found(object),
            (None, Some(context)) => Fetched::Tombstone(Context(context)),
            (None, None) => Fetched::NotFound,
        })
    }

    /// Writes a value without a context. In a bucket that keeps siblings, the value becomes one more
    /// sibling. To replace the siblings that were read, use [`put_with`](Self::put_with) with their
    /// context, or [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// Any [`Error`]. After [`Error::Lost`], [`Error::Timeout`] or an error that too few replicas answered,
    /// the value may or may not have been stored.
    pub async fn put(&self, location: &Location, content: Content) -> Result<(), Error> {
        self.put_with(location, content, &PutOptions::default()).await.map(drop)
    }

    /// Writes a value with options.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub async fn put_with(
        &self,
        location: &Location,
        content: Content,
        options: &PutOptions,
    ) -> Result<Stored, Error> {
        self.store(&location.bucket, Some(location.key.clone()), content, options).await
    }

    /// Writes a value under a new key that the server chooses. [`Stored::key`] returns the key.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub async fn insert(
        &self,
        bucket: &Bucket,
        content: Content,
        options: &PutOptions,
    ) -> Result<Stored, Error> {
        self.store(bucket, None, content, options).await
    }

    async fn store(
        &self,
        bucket: &Bucket,
        key: Option<Bytes>,
        content: Content,
        options: &PutOptions,
    ) -> Result<Stored, Error> {
        let request = RpbPutReq {
            bucket: bucket.name.clone(),
            key,
            vclock: options.context.clone().map(|context| context.0),
            content: content.into_wire(),
            w: options.w.to_field(),
            dw: options.dw.to_field(),
            return_body: options.return_body.then_some(true),
            pw: options.pw.to_field(),
            if_not_modified: options.if_not_modified.then_some(true),
            if_none_match: options.if_none_match.then_some(true),
            return_head: options.return_head.then_some(true),
            timeout: timeout_ms(options.timeout),
            asis: options.asis.then_some(true),
            sloppy_quorum: options.sloppy_quorum,
            n_val: options.n_val,
            bucket_type: bucket.bucket_type.clone(),
            node_confirms: options.node_confirms.to_field(),
        };
        let repeat = Repeatable::if_safe(options.resend);
        let key = request.key.clone();
        let location_ref = key.as_deref().map(|key| bucket.location_ref(key));
        let answer: RpbPutResp =
            self.pool.call(&request, repeat, options.timeout, location_ref).await?;
        Ok(Stored { key: answer.key, object: object(answer.content, answer.vclock) })
    }

    /// Deletes an object. Deleting an object that does not exist is not an error.
    ///
    /// The server deletes all siblings that it finds. To delete only the siblings that were read, give
    /// their context to [`delete_with`](Self::delete_with).
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub async fn delete(&self, location: &Location) -> Result<(), Error> {
        self.delete_with(location, &DeleteOptions::default()).await
    }

    /// Deletes an object with options.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub async fn delete_with(
        &self,
        location: &Location,
        options: &DeleteOptions,
    ) -> Result<(), Error> {
        let request = RpbDelReq {
            bucket: location.bucket.name.clone(),
            key: location.key.clone(),
            rw: options.rw.to_field(),
            vclock: options.context.clone().map(|context| context.0),
            r: options.r.to_field(),
            w: options.w.to_field(),
            pr: options.pr.to_field(),
            pw: options.pw.to_field(),
            dw: options.dw.to_field(),
            timeout: timeout_ms(options.timeout),
            sloppy_quorum: options.sloppy_quorum,
            n_val: options.n_val,
            bucket_type: location.bucket.bucket_type.clone(),
        };
        // With a context a repeated delete deletes the same siblings; without one it may delete a later
        // write.
        let repeat = Repeatable::if_safe(options.context.is_some() || options.resend);
        let location_ref = Some(location.location_ref());
        self.pool
            .call::<_, RpbDelResp>(&request, repeat, options.timeout, location_ref)
            .await
            .map(drop)
    }
}

/// The object in an answer, if the answer has one.
fn object(content: Vec<RpbContent>, vclock: Option<Bytes>) -> Option<Object> {
    if content.is_empty() {
        return None;
    }
    let siblings = content.into_iter().map(Content::from_wire).collect();
    Some(Object { context: Context(vclock.unwrap_or_default()), siblings })
}
