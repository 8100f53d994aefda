//! The requests for each item.

use std::future::Future;
use std::time::{Duration, Instant};

use quoit_client::{
    Bucket, Client, DataTypeOptions, DataTypeUpdate, Error, FetchedDataType, Location, MapUpdate,
    SetUpdate,
};

use super::error::GrowthError;
use super::table::GrowthRow;

/// Name of the field, in maps, whose set grows.
const FIELD: &str = "set";

/// Time limit of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);

/// An item that a container gets. Items of a container and containers are numbered from 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GrowthItem {
    pub(crate) number: u64,
    pub(crate) container: u64,
}

/// The kind of container that grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrowthKind {
    /// Sets, in the bucket type `sets`.
    Sets,
    /// Maps with a set as their only field, in the bucket type `maps`.
    Maps,
}

impl GrowthKind {
    /// Name of the bucket type.
    pub(crate) fn bucket_type(self) -> &'static str {
        match self {
            Self::Sets => "sets",
            Self::Maps => "maps",
        }
    }

    /// The required value of the bucket type's property `datatype`.
    fn datatype(self) -> &'static str {
        match self {
            Self::Sets => "set",
            Self::Maps => "map",
        }
    }

    fn addition(self, item: u64) -> DataTypeUpdate {
        let set = SetUpdate::new().insert(item.to_string());
        match self {
            Self::Sets => set.into(),
            Self::Maps => MapUpdate::new().update_set(FIELD, set).into(),
        }
    }

    fn item_count(self, record: Option<&FetchedDataType>) -> u64 {
        let value = record.map(|record| &record.value);
        let set = match self {
            Self::Sets => value.and_then(|value| value.as_set()),
            Self::Maps => value.and_then(|value| value.as_map()?.sets.get(FIELD.as_bytes())),
        };
        set.map_or(0, |set| set.len() as u64)
    }
}

/// A client that adds items to containers.
pub(crate) struct Experiment {
    client: Client,
    kind: GrowthKind,
    bucket: Bucket,
}

impl Experiment {
    /// Connects, and checks that the server has a suitable bucket type.
    pub(crate) async fn prepare(
        address: &str,
        kind: GrowthKind,
        bucket: &str,
    ) -> Result<Self, GrowthError> {
        let bucket_type = kind.bucket_type();
        let failed = |remedy: String| {
            move |source| GrowthError::BucketType { bucket_type, source: Box::new(source), remedy }
        };
        let client = Client::builder()
            .node(address)
            .connections_per_node_max(1)
            .attempts_max(1)
            .request_timeout(REQUEST_TIMEOUT)
            .build()
            .map_err(failed(String::new()))?;
        let props = client.bucket_type_props(bucket_type).await.map_err(|source| {
            let remedy = if source.server().is_some() { creation(kind) } else { String::new() };
            failed(remedy)(source)
        })?;
        let found = String::from_utf8_lossy(&props.datatype.unwrap_or_default()).into_owned();
        if found != kind.datatype() {
            let expected = kind.datatype();
            return Err(GrowthError::Datatype { bucket_type, found, expected });
        }
        Ok(Self { client, kind, bucket: Bucket::new(bucket).typed(bucket_type) })
    }

    /// Adds an item to its container and measures the requests.
    pub(crate) async fn add(&self, item: GrowthItem) -> Result<GrowthRow, GrowthError> {
        let GrowthItem { number: item, container } = item;
        let location = self.bucket.key(container.to_string());
        let failed = |doing| {
            let location = location.to_string();
            move |source| GrowthError::Request { item, location, doing, source: Box::new(source) }
        };
        let (object, kv_read_s) =
            timed(self.client.get(&location)).await.map_err(failed("the plain read"))?;
        let (before, read_before_s) =
            timed(self.client.fetch(&location)).await.map_err(failed("the read"))?;
        self.check(&location, before.as_ref(), item - 1)?;
        let (update, options) = (self.kind.addition(item), DataTypeOptions::default());
        let (_, write_s) = timed(self.client.update_data_type_with(&location, update, &options))
            .await
            .map_err(failed("the write"))?;
        let (after, read_after_s) = timed(self.client.fetch(&location))
            .await
            .map_err(failed("the read after the write"))?;
        self.check(&location, after.as_ref(), item)?;
        drop(after);
        let (_, read_again_s) =
            timed(self.client.fetch(&location)).await.map_err(failed("the second read"))?;
        let size_bytes = object
            .as_ref()
            .map(|object| object.siblings.iter().map(|sibling| sibling.value.len() as u64).sum());
        Ok(GrowthRow {
            item_count: item,
            container,
            size_bytes: size_bytes.unwrap_or(0),
            kv_read_s: if size_bytes.is_some() { kv_read_s } else { 0.0 },
            read_before_s,
            write_s,
            read_after_s,
            read_again_s,
        })
    }

    fn check(
        &self,
        location: &Location,
        record: Option<&FetchedDataType>,
        expected: u64,
    ) -> Result<(), GrowthError> {
        let found = self.kind.item_count(record);
        if found == expected {
            return Ok(());
        }
        Err(GrowthError::Items { location: location.to_string(), found, expected })
    }
}

/// A hint with the commands that create the bucket type.
fn creation(kind: GrowthKind) -> String {
    let (name, datatype) = (kind.bucket_type(), kind.datatype());
    format!(
        "; make it with: quoit admin bucket-type create {name} \
         '{{\"props\":{{\"datatype\":\"{datatype}\"}}}}' && quoit admin bucket-type activate {name}"
    )
}

/// Awaits a request. Returns its answer and its duration in seconds.
async fn timed<T>(request: impl Future<Output = Result<T, Error>>) -> Result<(T, f64), Error> {
    let start = Instant::now();
    let answer = request.await?;
    Ok((answer, start.elapsed().as_secs_f64()))
}
