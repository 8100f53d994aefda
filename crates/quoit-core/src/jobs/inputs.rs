//! Inputs of a job.

use super::JobError;
use super::Jobs;
use crate::error::RequestError;
use crate::listing::{IndexQuery, IndexResults, KeyListing, MapScan, MapSelection};
use crate::map_work::NodeWork;
use bytes::Bytes;
use quoit_mapreduce::{BucketName, Input, KeyFilter};
use quoit_model::key::BucketRef;
use quoit_model::key_bounds::KeyBounds;
use quoit_wire::internode::maps::MapOutputKind;
use std::sync::Arc;

/// Number of given keys that the first phase gets at once.
const CHUNK_COUNT: usize = 1_000;

/// The records that a job begins with.
#[derive(Debug)]
pub enum JobInputs {
    /// Records given by name.
    Keys(Vec<Input>),
    /// All records of a bucket, or those whose keys a filter accepts.
    Bucket(BucketName, Option<KeyFilter>),
    /// Records that an index query finds. A record with several matching entries comes several times.
    Query(Box<IndexQuery>),
}

impl JobInputs {
    /// The bucket and range of keys, if the inputs are all records of such a range; `None` for other
    /// inputs.
    fn mapped(&self) -> Option<(BucketName, MapSelection<'_>)> {
        match self {
            Self::Keys(_) => None,
            Self::Bucket(bucket, filter) => {
                let bounds = filter.as_ref().map_or(KeyBounds::ALL, KeyFilter::bounds);
                let filter = filter.as_ref();
                Some((bucket.clone(), MapSelection { bounds, filter, with_tombstones: true }))
            }
            Self::Query(query) => {
                let bounds = query.whole_range()?.clone();
                let IndexQuery { bucket_type, bucket, .. } = &**query;
                let (bucket_type, bucket) = (bucket_type.clone(), bucket.clone());
                let wanted = MapSelection { bounds, filter: None, with_tombstones: false };
                Some((BucketName { bucket_type, bucket }, wanted))
            }
        }
    }
}

/// Inputs that are read as the job asks for them.
pub(super) enum InputStream {
    Keys(std::vec::IntoIter<Input>),
    Bucket {
        listing: Box<KeyListing>,
        bucket: BucketName,
        filter: Option<KeyFilter>,
    },
    /// Records of a bucket that nodes map while they scan them.
    Mapped(Box<MapScan>),
    Query {
        results: Box<IndexResults>,
        bucket: BucketName,
    },
}

/// Inputs of the first phase, or its outputs if nodes have mapped them already.
pub(super) enum NextInputs {
    Inputs(Vec<Input>),
    Mapped(Vec<MapOutputKind>),
}

impl InputStream {
    pub(super) async fn open(
        jobs: &Arc<Jobs>,
        inputs: JobInputs,
        first: Option<&NodeWork>,
    ) -> Result<Self, RequestError> {
        // Nodes map the records while they scan them.
        if let Some(work) = first
            && let Some((bucket, wanted)) = inputs.mapped()
        {
            let scan = jobs.listings.scan_maps(&bucket, wanted, &work.sent).await?;
            return Ok(Self::Mapped(Box::new(scan)));
        }
        Ok(match inputs {
            JobInputs::Keys(keys) => Self::Keys(keys.into_iter()),
            JobInputs::Bucket(bucket, filter) => {
                let BucketName { bucket_type, bucket: name } = &bucket;
                let listing =
                    jobs.listings.list_keys(BucketRef { bucket_type, bucket: name }).await?;
                Self::Bucket { listing: Box::new(listing), bucket, filter }
            }
            JobInputs::Query(query) => {
                let (bucket_type, bucket) = (query.bucket_type.clone(), query.bucket.clone());
                let results = Box::new(jobs.listings.query_index(*query).await?);
                Self::Query { results, bucket: BucketName { bucket_type, bucket } }
            }
        })
    }

    /// The next inputs; `None` at the end. A chunk may be empty if the filter accepts none of its keys.
    pub(super) async fn next(&mut self) -> Result<Option<NextInputs>, JobError> {
        if let Self::Mapped(scan) = self {
            return Ok(scan.next().await?.map(NextInputs::Mapped));
        }
        Ok(self.next_keys().await?.map(NextInputs::Inputs))
    }

    async fn next_keys(&mut self) -> Result<Option<Vec<Input>>, JobError> {
        match self {
            Self::Mapped(_) => Ok(None),
            Self::Keys(keys) => {
                let chunk: Vec<Input> = keys.by_ref().take(CHUNK_COUNT).collect();
                Ok((!chunk.is_empty()).then_some(chunk))
            }
            Self::Bucket { listing, bucket, filter } => {
                let Some(keys) = listing.next().await? else { return Ok(None) };
                let keys = keys.into_iter().map(owned);
                let input = |key| Input::new(bucket.clone(), key);
                let Some(filter) = filter else { return Ok(Some(keys.map(input).collect())) };
                let mut chunk = Vec::new();
                for key in keys {
                    if filter.accepts(&key)? {
                        chunk.push(input(key));
                    }
                }
                Ok(Some(chunk))
            }
            Self::Query { results, bucket } => {
                let Some(matches) = results.next().await? else { return Ok(None) };
                let input = |key| Input::new(bucket.clone(), key);
                Ok(Some(matches.into_iter().map(|each| input(owned(each.key))).collect()))
            }
        }
    }
}

/// Copies a key, so that it does not keep the whole answer in memory.
fn owned(key: Bytes) -> Bytes {
    Bytes::copy_from_slice(&key)
}
