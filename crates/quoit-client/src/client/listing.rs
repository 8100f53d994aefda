//! Listings of buckets and keys, as streams.

use super::Client;
use crate::answer::answer;
use crate::connection::Connection;
use crate::error::Error;
use crate::location::Bucket;
use crate::options::timeout_ms;
use bytes::Bytes;
use quoit_wire::messages::{
    RpbListBucketsReq, RpbListBucketsResp, RpbListKeysReq, RpbListKeysResp,
};
use quoit_wire::{Body, Frame};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// The frames of an answer in several frames. Dropping it closes the connection, which ends the work on the
/// server too.
#[derive(Debug)]
pub(super) struct Frames {
    /// The connection; `None` once the answer has ended.
    connection: Option<(Connection, OwnedSemaphorePermit)>,
    operation: &'static str,
    time_limit: Duration,
}

impl Frames {
    /// Waits for the next frame and decodes it; `None` after the last one. The future may be dropped and
    /// `next` called again without loss.
    pub(super) async fn next<P>(
        &mut self,
        decode: fn(Frame, &str) -> Result<P, Error>,
        is_last: fn(&P) -> bool,
    ) -> Option<Result<P, Error>> {
        let (connection, _) = self.connection.as_mut()?;
        let late = Error::Timeout { operation: self.operation, waited: self.time_limit };
        let received = timeout(self.time_limit, connection.receive_part()).await;
        let part = match received.unwrap_or(Err(late)) {
            Ok(frame) => decode(frame, connection.address()),
            Err(error) => Err(error),
        };
        if part.as_ref().map_or(true, is_last) {
            self.connection = None;
        }
        Some(part)
    }
}

/// A listing as a stream. Dropping it ends the listing on the server too.
///
/// A listing reads all keys of the node or cluster. It is meant for maintenance, not for serving requests.
#[derive(Debug)]
pub struct Listing {
    frames: Frames,
    decode: fn(Frame, &str) -> Result<Part, Error>,
}

/// One frame of a listing.
struct Part {
    names: Vec<Bytes>,
    done: bool,
}

impl Listing {
    /// Waits for the next names, some at a time; `None` at the end and after it.
    ///
    /// The future may be dropped and `next` called again without loss.
    ///
    /// # Errors
    ///
    /// Any [`Error`], which ends the listing.
    pub async fn next(&mut self) -> Option<Result<Vec<Bytes>, Error>> {
        loop {
            match self.frames.next(self.decode, |part| part.done).await? {
                Err(error) => return Some(Err(error)),
                Ok(part) if !part.names.is_empty() => return Some(Ok(part.names)),
                Ok(_) => {}
            }
        }
    }

    /// Waits for all remaining names.
    ///
    /// # Errors
    ///
    /// Any [`Error`]. Names that came before the error are lost.
    pub async fn collect(mut self) -> Result<Vec<Bytes>, Error> {
        let mut all = Vec::new();
        while let Some(names) = self.next().await {
            all.append(&mut names?);
        }
        Ok(all)
    }
}

impl Client {
    /// Lists the keys of a bucket, each once and in no order. The list may contain keys that were deleted
    /// recently. `server_timeout` bounds the whole listing; the server's default is one minute.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn list_keys(
        &self,
        bucket: &Bucket,
        server_timeout: Option<Duration>,
    ) -> Result<Listing, Error> {
        let request = RpbListKeysReq {
            bucket: bucket.name.clone(),
            timeout: timeout_ms(server_timeout),
            bucket_type: bucket.bucket_type.clone(),
        };
        self.list(&request, server_timeout, |frame, address| {
            let part: RpbListKeysResp = answer(frame, address)?;
            Ok(Part { names: part.keys, done: part.done == Some(true) })
        })
        .await
    }

    /// Lists the buckets of a bucket type that have keys, each once and in no order. The type `None` means
    /// `default`. `server_timeout` bounds the whole listing.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn list_buckets(
        &self,
        bucket_type: Option<&[u8]>,
        server_timeout: Option<Duration>,
    ) -> Result<Listing, Error> {
        let request = RpbListBucketsReq {
            timeout: timeout_ms(server_timeout),
            stream: Some(true),
            bucket_type: bucket_type.map(Bytes::copy_from_slice),
        };
        self.list(&request, server_timeout, |frame, address| {
            let part: RpbListBucketsResp = answer(frame, address)?;
            Ok(Part { names: part.buckets, done: part.done == Some(true) })
        })
        .await
    }

    async fn list<Q: Body>(
        &self,
        request: &Q,
        server_timeout: Option<Duration>,
        decode: fn(Frame, &str) -> Result<Part, Error>,
    ) -> Result<Listing, Error> {
        Ok(Listing { frames: self.frames(request, server_timeout).await?, decode })
    }

    /// Sends a request whose answer comes in several frames.
    pub(super) async fn frames<Q: Body>(
        &self,
        request: &Q,
        server_timeout: Option<Duration>,
    ) -> Result<Frames, Error> {
        let operation = Q::CODE.name();
        let (mut connection, permit) = self.pool.exclusive(operation).await?;
        connection.queue(request)?;
        let time_limit = self.pool.time_limit(server_timeout);
        let late = |_| Error::Timeout { operation, waited: time_limit };
        timeout(time_limit, connection.flush()).await.map_err(late)??;
        Ok(Frames { connection: Some((connection, permit)), operation, time_limit })
    }
}
