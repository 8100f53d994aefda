//! Data types, and the counters of Riak 1.4.

use super::connection::PbConnection;
use super::fault::Fault;
use super::kv::{quorum, read_options};
use super::streamed_answer::StreamedAnswer;
use crate::data_types::{
    UpdateFault, data_type_of, fetched_value, operation_of, updated_value, within_64_bits,
};
use crate::erlang_text;
use quoit_core::{
    DataTypeRequest, FetchedDataType, ReadOptions, RequestError, StreamOutcome, WriteOptions,
};
use quoit_model::data_type::{Operation, Value};
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE, KeyRef};
use quoit_model::props::Datatype;
use quoit_wire::messages::{
    DtFetchReq, DtFetchResp, DtUpdateReq, DtUpdateResp, RpbCounterGetReq, RpbCounterGetResp,
    RpbCounterUpdateReq, RpbCounterUpdateResp,
};

impl From<UpdateFault> for Fault {
    fn from(fault: UpdateFault) -> Self {
        Self::Text(fault.to_string())
    }
}

/// Reasons why a bucket can't take a data type request.
pub(super) enum DatatypeFault {
    /// The bucket type has no data type. The text for the client depends on its request.
    NoDatatype(String),
    /// Another reason, as text for the client.
    Text(String),
}

impl DatatypeFault {
    /// Returns the error for a client that reads.
    pub(super) fn for_read(self) -> Fault {
        Fault::Text(match self {
            Self::NoDatatype(name) => format!("`{name}` is not a supported type"),
            Self::Text(text) => text,
        })
    }
}

impl PbConnection {
    /// The data type of the records in a bucket.
    pub(super) fn datatype_of(&self, bucket: BucketRef<'_>) -> Result<Datatype, DatatypeFault> {
        let state = self.context.store.control().read();
        let Ok(props) = state.bucket_props(bucket) else {
            let name = erlang_text::binary(bucket.bucket_type);
            return Err(DatatypeFault::Text(format!("Error no bucket type `{name}`")));
        };
        if !props.allow_mult {
            return Err(DatatypeFault::Text("\"Bucket must be allow_mult=true\"".into()));
        }
        match props.datatype {
            Some(datatype) => Ok(datatype),
            // The counters of Riak 1.4 are in buckets of the default type.
            None if bucket.bucket_type == DEFAULT_BUCKET_TYPE => Ok(Datatype::Counter),
            None => {
                let name = props.datatype_name().unwrap_or("undefined");
                Err(DatatypeFault::NoDatatype(name.to_owned()))
            }
        }
    }

    pub(super) async fn fetch_data_type(&mut self, request: DtFetchReq) -> Result<(), Fault> {
        let bucket = BucketRef { bucket_type: &request.bucket_type, bucket: &request.bucket };
        let key = bucket.key(&request.key);
        key.check().map_err(RequestError::from)?;
        let datatype = self.datatype_of(bucket).map_err(DatatypeFault::for_read)?;
        let mut options = read_options!(request);
        options.timeout_ms = options.timeout_ms.filter(|timeout_ms| *timeout_ms > 0);
        let includes_context = request.include_context != Some(false);
        let mut started = None;
        if matches!(datatype, Datatype::Set | Datatype::Gset | Datatype::Map) {
            let mut answer =
                StreamedAnswer::new(&mut self.out, &mut self.reservation, includes_context);
            match self.context.store.stream_items(key, &options, &mut answer).await {
                Ok(StreamOutcome::Complete) => return answer.finish().await,
                Ok(StreamOutcome::Started(read)) => {
                    answer.discard();
                    started = Some(read);
                }
                Ok(StreamOutcome::Declined) => answer.discard(),
                Err(fault) => {
                    answer.discard();
                    return Err(fault.into());
                }
            }
        }
        let store = &self.context.store;
        let found = match started {
            Some(read) => {
                self.reservation.hold_read(&self.out, store.size_bytes_max_of(&read))?;
                store.finish_fetch(*read).await?
            }
            None => {
                self.reservation.hold_read(&self.out, store.size_bytes_max(key))?;
                store.fetch_data_type(key, &options).await?
            }
        };
        let kind = data_type_of(datatype) as i32;
        self.send(&match found {
            None => DtFetchResp { context: None, kind, value: None },
            Some(FetchedDataType { datatype, value, context }) => DtFetchResp {
                context: context.filter(|_| includes_context),
                kind,
                value: Some(fetched_value(datatype, value)),
            },
        })
    }

    pub(super) async fn update_data_type(&mut self, request: DtUpdateReq) -> Result<(), Fault> {
        let generated = match &request.key {
            Some(_) => None,
            None => Some(self.context.store.generate_key()?),
        };
        let name = request.key.clone().or_else(|| generated.clone()).unwrap_or_default();
        let bucket = BucketRef { bucket_type: &request.bucket_type, bucket: &request.bucket };
        let key = bucket.key(&name);
        key.check().map_err(RequestError::from)?;
        let datatype = self.datatype_of(bucket).map_err(|unusable| match unusable {
            DatatypeFault::NoDatatype(name) => {
                Fault::Text(format!("Bucket datatype `{name}` is not a supported type"))
            }
            DatatypeFault::Text(text) => Fault::Text(text),
        })?;
        let operation = operation_of(request.op)?;
        check_type(&operation, datatype, key)?;
        let updated = self
            .context
            .store
            .update_data_type(DataTypeRequest {
                key,
                operation,
                context: request.context.filter(|context| !context.is_empty()),
                return_value: request.return_body == Some(true),
                options: WriteOptions {
                    w: quorum(request.w),
                    dw: quorum(request.dw),
                    pw: quorum(request.pw),
                    node_confirms: quorum(request.node_confirms),
                    n_val: request.n_val,
                    sloppy_quorum: request.sloppy_quorum,
                    sync_on_write: None,
                    timeout_ms: request.timeout.filter(|timeout_ms| *timeout_ms > 0),
                },
            })
            .await?;
        let answer = match updated {
            None => DtUpdateResp { key: generated, ..DtUpdateResp::default() },
            Some(FetchedDataType { datatype, value, context }) => DtUpdateResp {
                key: generated,
                context: context.filter(|_| request.include_context != Some(false)),
                ..updated_value(datatype, value)
            },
        };
        self.send(&answer)
    }

    pub(super) async fn get_counter(&mut self, request: RpbCounterGetReq) -> Result<(), Fault> {
        let bucket = BucketRef { bucket_type: DEFAULT_BUCKET_TYPE, bucket: &request.bucket };
        let options = ReadOptions {
            r: quorum(request.r),
            pr: quorum(request.pr),
            node_confirms: quorum(request.node_confirms),
            basic_quorum: request.basic_quorum,
            notfound_ok: request.notfound_ok,
            ..ReadOptions::default()
        };
        let key = bucket.key(&request.key);
        let found = self.context.store.fetch_data_type(key, &options).await?;
        self.send(&RpbCounterGetResp { value: found.and_then(|found| counted(&found.value)) })
    }

    pub(super) async fn update_counter(
        &mut self,
        request: RpbCounterUpdateReq,
    ) -> Result<(), Fault> {
        let bucket = BucketRef { bucket_type: DEFAULT_BUCKET_TYPE, bucket: &request.bucket };
        let key = bucket.key(&request.key);
        key.check().map_err(RequestError::from)?;
        if !self.keeps_siblings(bucket) {
            let text = "\"Counters require bucket property 'allow_mult=true'\"";
            return Err(Fault::Text(text.into()));
        }
        let options = WriteOptions {
            w: quorum(request.w),
            dw: quorum(request.dw),
            pw: quorum(request.pw),
            node_confirms: quorum(request.node_confirms),
            ..WriteOptions::default()
        };
        let updated = self
            .context
            .store
            .update_data_type(DataTypeRequest {
                key,
                operation: Operation::Counter(request.amount),
                context: None,
                return_value: request.returnvalue == Some(true),
                options,
            })
            .await?;
        let value = updated.and_then(|updated| counted(&updated.value));
        self.send(&RpbCounterUpdateResp { value })
    }

    fn keeps_siblings(&self, bucket: BucketRef<'_>) -> bool {
        let state = self.context.store.control().read();
        state.bucket_props(bucket).is_ok_and(|props| props.allow_mult)
    }
}

/// Refuses an operation on another data type than the bucket's.
fn check_type(operation: &Operation, datatype: Datatype, key: KeyRef<'_>) -> Result<(), Fault> {
    let asked = operation.datatype();
    if asked == datatype {
        return Ok(());
    }
    Err(Fault::Text(if key.bucket.bucket_type == DEFAULT_BUCKET_TYPE {
        "\"non-counter operation on default bucket\"".into()
    } else {
        let (asked, datatype) = (asked.as_str(), datatype.as_str());
        format!("Operation type is `{asked}` but  bucket type is `{datatype}`.")
    }))
}

/// The value of a counter as messages hold it; `None` for other data types.
fn counted(value: &Value) -> Option<i64> {
    if let Value::Counter(number) = value { Some(within_64_bits(*number)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn operations_for_other_types_are_told_apart() {
        let check = |operation: &Operation, datatype, bucket_type: &'static [u8]| {
            let bucket = BucketRef { bucket_type, bucket: b"b" };
            match check_type(operation, datatype, bucket.key(b"k")) {
                Ok(()) => String::new(),
                Err(Fault::Text(text)) => text,
                Err(_) => panic!("the connection goes on"),
            }
        };
        let set = Operation::Set(Vec::new());
        assert_eq!(check(&set, Datatype::Set, b"t"), "");
        let text = "Operation type is `set` but  bucket type is `counter`.";
        assert_eq!(check(&set, Datatype::Counter, b"t"), text);
        let text = "\"non-counter operation on default bucket\"";
        assert_eq!(check(&set, Datatype::Counter, b"default"), text);
    }

    #[test]
    fn numbers_of_counters_alone_are_counted() {
        assert_eq!(counted(&Value::Counter(-3)), Some(-3));
        assert_eq!(counted(&Value::Register(Bytes::new())), None);
    }
}
