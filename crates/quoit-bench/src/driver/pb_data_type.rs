//! Requests for data types over one connection.

use std::time::Duration;

use bytes::Bytes;
use quoit_client::wire::messages::{
    CounterOp, DtFetchReq, DtFetchResp, DtOp, DtUpdateReq, DtUpdateResp, MapEntry, MapField,
    MapFieldType, MapOp, MapUpdate, SetOp,
};

use super::pb_link::{CallError, PbLink};

/// A bucket of data types, and the time limits of requests to it.
#[derive(Debug, Clone)]
pub(super) struct DataTypeBucket {
    pub(super) bucket_type: Bytes,
    pub(super) bucket: Bytes,
    pub(super) timeout_read: Duration,
    pub(super) timeout_write: Duration,
}

impl DataTypeBucket {
    /// Reads a record. The answer has no value if the record does not exist.
    pub(super) async fn fetch(
        &self,
        link: &mut PbLink,
        key: &Bytes,
    ) -> Result<DtFetchResp, CallError> {
        self.fetch_of(link, key, None).await
    }

    /// Reads a record and waits for `r` replicas.
    pub(super) async fn fetch_of(
        &self,
        link: &mut PbLink,
        key: &Bytes,
        r: Option<u32>,
    ) -> Result<DtFetchResp, CallError> {
        let request = DtFetchReq {
            bucket: self.bucket.clone(),
            key: key.clone(),
            bucket_type: self.bucket_type.clone(),
            r,
            timeout: u32::try_from(self.timeout_read.as_millis()).ok(),
            ..DtFetchReq::default()
        };
        link.call(&request, self.timeout_read).await
    }

    /// Changes a record. Creates it if it does not exist.
    pub(super) async fn update(
        &self,
        link: &mut PbLink,
        key: &Bytes,
        context: Option<Bytes>,
        op: DtOp,
    ) -> Result<(), CallError> {
        let request = DtUpdateReq {
            bucket: self.bucket.clone(),
            key: Some(key.clone()),
            bucket_type: self.bucket_type.clone(),
            context,
            op,
            ..DtUpdateReq::default()
        };
        let _: DtUpdateResp = link.call(&request, self.timeout_write).await?;
        Ok(())
    }

    /// Reads a record and changes it with the context that was read, as clients that cache records do.
    pub(super) async fn modify(
        &self,
        link: &mut PbLink,
        key: &Bytes,
        change: DtOp,
    ) -> Result<(), CallError> {
        let fetched = self.fetch(link, key).await?;
        self.update(link, key, fetched.context, change).await
    }
}

/// An addition to a counter.
pub(super) fn count(amount: i64) -> DtOp {
    DtOp { counter_op: Some(CounterOp { increment: Some(amount) }), ..DtOp::default() }
}

/// A change of a set.
pub(super) fn change_set(set: SetOp) -> DtOp {
    DtOp { set_op: Some(set), ..DtOp::default() }
}

/// Changes of a map's fields.
pub(super) fn change_map(updates: Vec<MapUpdate>) -> DtOp {
    DtOp { map_op: Some(MapOp { updates, ..MapOp::default() }), ..DtOp::default() }
}

/// An addition of elements to a set.
pub(super) fn adds(elements: Vec<Bytes>) -> SetOp {
    SetOp { adds: elements, ..SetOp::default() }
}

/// The removal of an element from a set.
pub(super) fn removes(element: Bytes) -> SetOp {
    SetOp { removes: vec![element], ..SetOp::default() }
}

/// A change of one field, without the operation, which the caller fills in.
pub(super) fn field(name: &'static str, kind: MapFieldType) -> MapUpdate {
    let field = MapField { name: Bytes::from_static(name.as_bytes()), kind: kind as i32 };
    MapUpdate { field, ..MapUpdate::default() }
}

/// A change of a field that is a set.
pub(super) fn field_of_set(name: &'static str, set: SetOp) -> MapUpdate {
    MapUpdate { set_op: Some(set), ..field(name, MapFieldType::Set) }
}

/// A change of a field that is a counter.
pub(super) fn field_of_counter(name: &'static str, amount: i64) -> MapUpdate {
    let counter_op = Some(CounterOp { increment: Some(amount) });
    MapUpdate { counter_op, ..field(name, MapFieldType::Counter) }
}

/// The elements of a map's field with this name that is a set.
pub(super) fn elements_of_field(map: &DtFetchResp, name: &str) -> Vec<Bytes> {
    let entries = map.value.iter().flat_map(|value| &value.map_value);
    let of_name = |entry: &&MapEntry| {
        entry.field.name == name && entry.field.kind == MapFieldType::Set as i32
    };
    entries.filter(of_name).flat_map(|entry| &entry.set_value).cloned().collect()
}
