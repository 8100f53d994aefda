//! Queries for parts of data types: an extension of Riak's messages.

use super::connection::PbConnection;
use super::data_types::DatatypeFault;
use super::fault::Fault;
use super::kv::read_options;
use crate::data_types::{cursor_of, data_type_of, fetched_value, field_name, place_of};
use quoit_core::RequestError;
use quoit_model::data_type::{Answer, Query, Question, Value};
use quoit_model::key::BucketRef;
use quoit_model::props::Datatype;
use quoit_wire::messages::{DtQueryReq, DtQueryResp};

impl PbConnection {
    pub(super) async fn query_data_type(&mut self, request: DtQueryReq) -> Result<(), Fault> {
        let bucket = BucketRef { bucket_type: &request.bucket_type, bucket: &request.bucket };
        let key = bucket.key(&request.key);
        key.check().map_err(RequestError::from)?;
        let datatype = self.datatype_of(bucket).map_err(DatatypeFault::for_read)?;
        let mut options = read_options!(request);
        options.timeout_ms = options.timeout_ms.filter(|timeout_ms| *timeout_ms > 0);
        let path = request.path.iter().cloned().map(field_name).collect();
        let question = Question { path, query: query_of(&request)? };
        let answer = self.context.store.query_data_type(key, &question, &options).await?;
        // The store has refused paths that do not suit the bucket's data type, so the fallback is never
        // used.
        let datatype = question.datatype_in(datatype).unwrap_or(datatype);
        self.send(&answered(datatype, &question.query, answer))
    }
}

fn query_of(request: &DtQueryReq) -> Result<Query, Fault> {
    match (&request.element, &request.field, request.page_size) {
        (None, None, None) if request.cursor.is_none() => Ok(Query::Size),
        (Some(element), None, None) => Ok(Query::Contains(element.clone())),
        (None, Some(field), None) => Ok(Query::Field(field_name(field.clone()))),
        (None, None, Some(page_size)) => {
            let from = request.cursor.as_ref().map_or(Some(0), |cursor| place_of(cursor));
            let from = from.ok_or_else(|| {
                let fault =
                    "the cursor does not belong to a page of this record; begin again without one";
                Fault::Text(fault.into())
            })?;
            Ok(Query::Page { from, count: page_size as usize })
        }
        _ => Err(Fault::Text(
            "ask for one of element, field and page_size, or for none of them for the size".into(),
        )),
    }
}

fn answered(datatype: Datatype, query: &Query, answer: Option<Answer>) -> DtQueryResp {
    let kind = data_type_of(datatype) as i32;
    let mut message = DtQueryResp { kind, found: answer.is_some(), ..DtQueryResp::default() };
    match answer {
        None => {}
        Some(Answer::Size(size)) => message.size = Some(size),
        Some(Answer::Contains(contains)) => message.contains = Some(contains),
        Some(Answer::Field(value)) => {
            let name = if let Query::Field(name) = query { Some(name.clone()) } else { None };
            let fields = name.zip(value).into_iter().collect();
            message.value = Some(fetched_value(datatype, Value::Map(fields)));
        }
        Some(Answer::Page { value, next }) => {
            message.value = Some(fetched_value(datatype, value));
            message.cursor = next.map(|place| cursor_of(place).into());
        }
    }
    message
}
