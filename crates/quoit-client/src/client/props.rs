//! Properties of buckets and bucket types, and information about nodes.

use super::Client;
use crate::error::Error;
use crate::layout::Layout;
use crate::location::{Bucket, Location};
use crate::pool::Repeatable;
use bytes::Bytes;
use quoit_wire::messages::{
    RpbBucketProps, RpbGetBucketKeyPreflistReq, RpbGetBucketKeyPreflistResp, RpbGetBucketReq,
    RpbGetBucketResp, RpbGetBucketTypeReq, RpbGetServerInfoReq, RpbGetServerInfoResp,
    RpbResetBucketReq, RpbResetBucketResp, RpbSetBucketReq, RpbSetBucketResp, RpbSetBucketTypeReq,
};

/// Properties of a bucket or bucket type. A read returns all of them. A write leaves properties that are
/// `None` as they are. Quorums are encoded as by [`Quorum::to_wire`](crate::Quorum::to_wire).
pub type BucketProps = RpbBucketProps;

/// A node's name and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// The node's name, such as `quoit@127.0.0.1`.
    pub node: Bytes,
    /// The version: three numbers separated by dots.
    pub server_version: Bytes,
}

/// One replica of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreflistItem {
    /// The partition's number, from 0 to ring_size - 1.
    pub partition: i64,
    /// The node's name.
    pub node: Bytes,
    /// False for a fallback.
    pub primary: bool,
}

impl Client {
    /// The name and version of one of the nodes.
    ///
    /// # Errors
    ///
    /// Any [`Error`]. The client repeats this and all other operations of this module where that may help.
    pub async fn server_info(&self) -> Result<ServerInfo, Error> {
        let answer: RpbGetServerInfoResp =
            self.pool.call(&RpbGetServerInfoReq {}, Repeatable::Safe, None, None).await?;
        Ok(ServerInfo {
            node: answer.node.unwrap_or_default(),
            server_version: answer.server_version.unwrap_or_default(),
        })
    }

    /// The effective properties of a bucket.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn bucket_props(&self, bucket: &Bucket) -> Result<BucketProps, Error> {
        let request = RpbGetBucketReq {
            bucket: bucket.name.clone(),
            bucket_type: bucket.bucket_type.clone(),
        };
        let answer: RpbGetBucketResp =
            self.pool.call(&request, Repeatable::Safe, None, None).await?;
        Ok(answer.props)
    }

    /// Changes properties of a bucket.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn set_bucket_props(&self, bucket: &Bucket, props: BucketProps) -> Result<(), Error> {
        let request = RpbSetBucketReq {
            bucket: bucket.name.clone(),
            props,
            bucket_type: bucket.bucket_type.clone(),
        };
        self.pool
            .call::<_, RpbSetBucketResp>(&request, Repeatable::Safe, None, None)
            .await
            .map(drop)
    }

    /// Resets a bucket's own properties to those of its type.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn reset_bucket_props(&self, bucket: &Bucket) -> Result<(), Error> {
        let request = RpbResetBucketReq {
            bucket: bucket.name.clone(),
            bucket_type: bucket.bucket_type.clone(),
        };
        self.pool
            .call::<_, RpbResetBucketResp>(&request, Repeatable::Safe, None, None)
            .await
            .map(drop)
    }

    /// The properties of a bucket type.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn bucket_type_props(&self, name: impl AsRef<[u8]>) -> Result<BucketProps, Error> {
        let request = RpbGetBucketTypeReq { bucket_type: Bytes::copy_from_slice(name.as_ref()) };
        let answer: RpbGetBucketResp =
            self.pool.call(&request, Repeatable::Safe, None, None).await?;
        Ok(answer.props)
    }

    /// Changes properties of an active bucket type.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn set_bucket_type_props(
        &self,
        name: impl AsRef<[u8]>,
        props: BucketProps,
    ) -> Result<(), Error> {
        let bucket_type = Bytes::copy_from_slice(name.as_ref());
        let request = RpbSetBucketTypeReq { bucket_type, props };
        self.pool
            .call::<_, RpbSetBucketResp>(&request, Repeatable::Safe, None, None)
            .await
            .map(drop)
    }

    /// Asks a node for the cluster's layout, even if the client is not replica-aware.
    ///
    /// # Errors
    ///
    /// Any [`Error`]; servers other than Quoit answer [`Error::Server`].
    pub async fn layout(&self) -> Result<Layout, Error> {
        self.pool.layout().await
    }

    /// The preference list of a key: its primaries and fallbacks.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn preflist(&self, location: &Location) -> Result<Vec<PreflistItem>, Error> {
        let request = RpbGetBucketKeyPreflistReq {
            bucket: location.bucket.name.clone(),
            key: location.key.clone(),
            bucket_type: location.bucket.bucket_type.clone(),
        };
        let answer: RpbGetBucketKeyPreflistResp =
            self.pool.call(&request, Repeatable::Safe, None, None).await?;
        let items = answer.preflist.into_iter().map(|item| PreflistItem {
            partition: item.partition,
            node: item.node,
            primary: item.primary,
        });
        Ok(items.collect())
    }
}
