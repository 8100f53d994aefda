//! Requests about data types.

use bytes::{Bytes, BytesMut};
use quoit_wire::MessageCode;
use quoit_wire::frame::append_message;
use quoit_wire::messages::{
    CounterOp, DtFetchReq, DtOp, DtQueryReq, DtUpdateReq, MapField, MapFieldType, MapOp, MapUpdate,
    SetOp,
};

/// The bucket of all records.
const BUCKET: &[u8] = b"test";

/// The field of a map that holds a set.
const FIELD: &[u8] = b"tags";

/// An operation on a data type. The load's keys are the names of elements or fields.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DataTypeOperation {
    /// Adds an element to a set.
    Add,
    /// Asks if an element is in a set.
    Contains,
    /// Asks for the size of a set.
    Size,
    /// Reads a whole set.
    Fetch,
    /// Adds an element to a set in a map.
    AddInMap,
    /// Increments a counter field of a map.
    CountField,
    /// Increments a counter. Here the load's keys are the names of records.
    Count,
}

/// A request about a data type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataExchange {
    pub(crate) asked: DataTypeOperation,
    /// Key of the record.
    pub(crate) record: &'static str,
}

impl DataExchange {
    const fn bucket_type(self) -> &'static str {
        match self.asked {
            DataTypeOperation::Add
            | DataTypeOperation::Contains
            | DataTypeOperation::Size
            | DataTypeOperation::Fetch => "sets",
            DataTypeOperation::AddInMap | DataTypeOperation::CountField => "maps",
            DataTypeOperation::Count => "counters",
        }
    }

    /// The message code of the answer to this request.
    pub(crate) const fn answer_code(self) -> u8 {
        (match self.asked {
            DataTypeOperation::Add
            | DataTypeOperation::AddInMap
            | DataTypeOperation::CountField
            | DataTypeOperation::Count => MessageCode::DtUpdateResp,
            DataTypeOperation::Fetch => MessageCode::DtFetchResp,
            DataTypeOperation::Contains | DataTypeOperation::Size => MessageCode::DtQueryResp,
        }) as u8
    }

    /// Writes a request for one element or field.
    pub(crate) fn request(self, name: &[u8], out: &mut BytesMut) {
        match self.asked {
            DataTypeOperation::Add
            | DataTypeOperation::AddInMap
            | DataTypeOperation::CountField
            | DataTypeOperation::Count => {
                self.update(&[name], out);
            }
            DataTypeOperation::Fetch => {
                let [bucket_type, bucket, key] = self.names();
                let message = DtFetchReq { bucket, key, bucket_type, ..DtFetchReq::default() };
                append_message(out, &message).expect("a small message fits a frame");
            }
            DataTypeOperation::Contains | DataTypeOperation::Size => {
                let [bucket_type, bucket, key] = self.names();
                let element = matches!(self.asked, DataTypeOperation::Contains);
                let element = element.then(|| Bytes::copy_from_slice(name));
                let message =
                    DtQueryReq { bucket, key, bucket_type, element, ..DtQueryReq::default() };
                append_message(out, &message).expect("a small message fits a frame");
            }
        }
    }

    /// Writes one request that adds several elements, or increments several fields.
    pub(crate) fn update(self, names: &[&[u8]], out: &mut BytesMut) {
        let [bucket_type, bucket, mut key] = self.names();
        let mut names = names.iter().map(|name| Bytes::copy_from_slice(name));
        let one = || Some(CounterOp { increment: Some(1) });
        let op = match self.asked {
            DataTypeOperation::CountField => {
                let updates = names.map(|name| MapUpdate {
                    field: MapField { name, kind: MapFieldType::Counter as i32 },
                    counter_op: one(),
                    ..MapUpdate::default()
                });
                let map = MapOp { updates: updates.collect(), ..MapOp::default() };
                DtOp { map_op: Some(map), ..DtOp::default() }
            }
            DataTypeOperation::AddInMap => {
                let set = SetOp { adds: names.collect(), ..SetOp::default() };
                let name = Bytes::from_static(FIELD);
                let update = MapUpdate {
                    field: MapField { name, kind: MapFieldType::Set as i32 },
                    set_op: Some(set),
                    ..MapUpdate::default()
                };
                let map = MapOp { updates: vec![update], ..MapOp::default() };
                DtOp { map_op: Some(map), ..DtOp::default() }
            }
            DataTypeOperation::Count => {
                key = names.next().unwrap_or_default();
                DtOp { counter_op: one(), ..DtOp::default() }
            }
            DataTypeOperation::Add
            | DataTypeOperation::Contains
            | DataTypeOperation::Size
            | DataTypeOperation::Fetch => {
                let set = SetOp { adds: names.collect(), ..SetOp::default() };
                DtOp { set_op: Some(set), ..DtOp::default() }
            }
        };
        let message = DtUpdateReq {
            bucket,
            key: Some(key),
            bucket_type,
            op,
            dw: Some(0),
            ..DtUpdateReq::default()
        };
        append_message(out, &message).expect("such a message fits a frame");
    }

    fn names(self) -> [Bytes; 3] {
        [self.bucket_type().as_bytes(), BUCKET, self.record.as_bytes()].map(Bytes::from_static)
    }
}
