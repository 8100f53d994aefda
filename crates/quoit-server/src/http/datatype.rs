//! Data types, and the counters of Riak 1.4.

use super::connection::{HttpConnection, Request};
use super::datatype_query::parse_part_query;
use super::negotiate::accepts_media_type;
use super::params::{ObjectParams, parse_timeout};
use super::refusal::{Refusal, n_val_text};
use super::response::{JSON, TEXT, append_location, reply};
use super::route::{BucketName, RecordName};
use super::uri;
use crate::data_types::{
    JsonUpdate, NodeStopping, NotUtf8, StreamedJson, append_answer, append_missing, append_value,
    read_update,
};
use crate::memory::MemoryReservation;
use quoit_core::{DataTypeRequest, FetchedDataType, ReadOptions, StartedRead, StreamOutcome};
use quoit_model::data_type::{Operation, Question, Value};
use quoit_model::key::{DEFAULT_BUCKET_TYPE, KeyRef};
use quoit_model::props::{BucketProps, Datatype, NValViolation};

/// Parameters of a data type request in its query string.
struct DatatypeParams {
    object: ObjectParams,
    includes_context: bool,
    /// Query for a part of the value, if the request has one.
    part: Option<Question>,
}

impl DatatypeParams {
    /// Parses a query string. `allowed` describes the valid timeouts in an error.
    fn parse(query: &[u8], allowed: &str) -> Result<Self, Refusal> {
        if let Some(text) = uri::query_value(query, "timeout")
            && parse_timeout(&text).is_err()
        {
            let text = String::from_utf8_lossy(&text);
            return Err(Refusal::bad(format!(
                "timeout query parameter must be {allowed}, {text} is invalid\n"
            )));
        }
        let mut object = ObjectParams::parse(query).map_err(Refusal::bad)?;
        object.disable_zero_timeout();
        let context = uri::query_value(query, "include_context");
        let part = parse_part_query(query).map_err(Refusal::bad)?;
        Ok(Self { object, includes_context: context.as_deref() != Some(b"false"), part })
    }
}

/// Result of streaming a set or map.
enum Streamed {
    /// It is written, or can't be written as JSON.
    Written(Result<(), NotUtf8>),
    /// The read continues with the whole value.
    Started(Box<StartedRead>),
    /// No read has begun.
    Declined,
}

/// Parses a body as an update of each data type, for fuzzing.
pub fn fuzz(body: &[u8]) {
    for datatype in [Datatype::Counter, Datatype::Set, Datatype::Gset, Datatype::Hll, Datatype::Map]
    {
        let _ = read_update(datatype, body);
    }
}

impl HttpConnection {
    /// The data type of a bucket, if its records can be read or written with quorums that `check` accepts.
    fn datatype_of(
        &self,
        bucket: &BucketName<'_>,
        check: impl FnOnce(&BucketProps) -> Result<(), NValViolation>,
    ) -> Result<Datatype, Refusal> {
        let state = self.context.store.control().read();
        let Ok(props) = state.bucket_props(bucket.as_ref()) else {
            let name = String::from_utf8_lossy(&bucket.bucket_type);
            return Err(Refusal::Text(404, format!("Unknown bucket type: {name}\n").into()));
        };
        if !props.allow_mult {
            return Err(Refusal::Text(403, "Bucket must be allow_mult=true\n".into()));
        }
        let Some(datatype) = props.datatype else {
            let name = props.datatype_name().unwrap_or("undefined");
            let text = format!("Bucket datatype '{name}' is not a supported type.\n");
            return Err(Refusal::Text(403, text.into()));
        };
        check(props).map_err(|fault| Refusal::bad(n_val_text(fault.n_val)))?;
        Ok(datatype)
    }

    /// GET and HEAD of `/types/T/buckets/B/datatypes/K`.
    pub(super) async fn get_datatype(
        &mut self,
        request: &Request,
        name: &RecordName<'_>,
        query: &[u8],
    ) -> Result<(), Refusal> {
        let RecordName { bucket, key } = name;
        let params = DatatypeParams::parse(query, "an integer greater than 0")?;
        self.check_origin(&request.head)?;
        if *bucket.bucket_type == *DEFAULT_BUCKET_TYPE {
            self.point_to_counter(bucket.as_ref().key(key));
            return Ok(());
        }
        if !accepts_media_type(request.head.get_list("accept").as_deref(), JSON) {
            return Err(Refusal::Page(406));
        }
        let (key, options) = (bucket.as_ref().key(key), params.object.read_options());
        let quorums = options.params();
        let mut datatype =
            self.datatype_of(bucket, |props| props.read_quorums(&quorums).map(drop))?;
        let mut body = Vec::new();
        let mut reservation = self.memory.reservation(0);
        let written = if let Some(part) = &params.part {
            let answer = self.context.store.query_data_type(key, part, &options).await?;
            // The store has refused paths that do not suit the bucket's data type, so the fallback is never
            // used.
            datatype = part.datatype_in(datatype).unwrap_or(datatype);
            answer.map(|answer| append_answer(&mut body, datatype, &part.query, &answer))
        } else {
            let streamed = self.stream(&mut body, &mut reservation, key, &options, &params).await?;
            let store = &self.context.store;
            let mut append = |found: Option<FetchedDataType>| {
                found.map(|found| append_fetched(&mut body, &found, params.includes_context))
            };
            match streamed {
                Streamed::Written(written) => Some(written),
                Streamed::Started(read) => append(store.finish_fetch(*read).await?),
                Streamed::Declined => append(store.fetch_data_type(key, &options).await?),
            }
        };
        let Some(written) = written else {
            append_missing(&mut body, datatype);
            reply(&mut self.out, self.form, 404).content_type(JSON).finish(&body);
            return Ok(());
        };
        written.map_err(|fault| Refusal::Text(406, fault.to_string().into()))?;
        self.hold_answer(body.len())?;
        reply(&mut self.out, self.form, 200).content_type(JSON).finish(&body);
        Ok(())
    }

    /// Writes a large set or map as it is read. Writes nothing if the value can't be streamed.
    async fn stream(
        &self,
        body: &mut Vec<u8>,
        reservation: &mut MemoryReservation,
        key: KeyRef<'_>,
        options: &ReadOptions,
        params: &DatatypeParams,
    ) -> Result<Streamed, Refusal> {
        let mut answer = StreamedJson::new(body, reservation, params.includes_context);
        let streamed = self.context.store.stream_items(key, options, &mut answer).await;
        if let Some(fault) = answer.refused() {
            return Err(fault.into());
        }
        match streamed {
            Ok(StreamOutcome::Complete) => match answer.finish().await {
                Ok(written) => Ok(Streamed::Written(written)),
                Err(NodeStopping) => Err(Refusal::Text(503, "the node stops\n".into())),
            },
            Ok(StreamOutcome::Started(read)) => {
                answer.discard();
                Ok(Streamed::Started(read))
            }
            Ok(StreamOutcome::Declined) => {
                answer.discard();
                Ok(Streamed::Declined)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// POST to `/types/T/buckets/B/datatypes`, with or without a key.
    pub(super) async fn post_datatype(
        &mut self,
        request: &Request,
        bucket: &BucketName<'_>,
        key: Option<&[u8]>,
        query: &[u8],
    ) -> Result<(), Refusal> {
        let params = DatatypeParams::parse(query, "an integer greater than 0 (or 0 for disabled)")?;
        self.check_origin(&request.head)?;
        if let (DEFAULT_BUCKET_TYPE, Some(key)) = (&*bucket.bucket_type, key) {
            self.point_to_counter(bucket.as_ref().key(key));
            return Ok(());
        }
        let options = params.object.write_options();
        let quorums = options.params();
        let datatype = self.datatype_of(bucket, |props| props.write_quorums(&quorums).map(drop))?;
        if !super::props::is_json(request) {
            return Err(Refusal::Page(406));
        }
        let update = read_update(datatype, &request.body);
        let JsonUpdate { operation, context } =
            update.map_err(|fault| Refusal::bad(fault.to_string()))?;
        let generated = match key {
            Some(_) => None,
            None => Some(self.context.store.generate_key()?),
        };
        let key = bucket.as_ref().key(key.or(generated.as_deref()).unwrap_or_default());
        let updated = self
            .context
            .store
            .update_data_type(DataTypeRequest {
                key,
                operation,
                context,
                return_value: params.object.return_body,
                options,
            })
            .await?;
        let mut body = Vec::new();
        // The update is done, even if its result can't be shown.
        let is_shown = updated.is_some_and(|updated| {
            append_fetched(&mut body, &updated, params.includes_context).is_ok()
        });
        let status = match (generated.is_some(), is_shown) {
            (true, _) => 201,
            (false, true) => 200,
            (false, false) => 204,
        };
        let answer = reply(&mut self.out, self.form, status).lines(|out| {
            if generated.is_some() {
                append_location(out, bucket.form, key);
            }
        });
        if is_shown {
            answer.content_type(JSON).finish(&body)
        } else {
            answer.finish(b"")
        }
        Ok(())
    }

    fn point_to_counter(&mut self, key: KeyRef<'_>) {
        reply(&mut self.out, self.form, 301)
            .lines(|out| {
                out.extend_from_slice(b"Location: /buckets/");
                uri::encode_into(out, key.bucket.bucket);
                out.extend_from_slice(b"/counters/");
                uri::encode_into(out, key.key);
                out.extend_from_slice(b"\r\n");
            })
            .content_type(TEXT)
            .finish(b"Counters in the default bucket-type should use the legacy URL\n");
    }

    /// GET and HEAD of `/buckets/B/counters/K`.
    pub(super) async fn get_counter(
        &mut self,
        request: &Request,
        name: &RecordName<'_>,
        query: &[u8],
    ) -> Result<(), Refusal> {
        let params = ObjectParams::parse(query).map_err(Refusal::bad)?;
        self.check_origin(&request.head)?;
        if !accepts_media_type(request.head.get_list("accept").as_deref(), TEXT) {
            return Err(Refusal::Page(406));
        }
        let options = params.read_options();
        let found = self.context.store.fetch_data_type(name.as_ref(), &options).await?;
        let number = found.as_ref().and_then(counted).ok_or(Refusal::not_found())?;
        reply(&mut self.out, self.form, 200)
            .content_type(TEXT)
            .finish(number.to_string().as_bytes());
        Ok(())
    }

    /// POST to `/buckets/B/counters/K`.
    pub(super) async fn post_counter(
        &mut self,
        request: &Request,
        name: &RecordName<'_>,
        query: &[u8],
    ) -> Result<(), Refusal> {
        let params = ObjectParams::parse(query).map_err(Refusal::bad)?;
        let amount = std::str::from_utf8(&request.body).ok().map(|text| text.parse::<i64>());
        let Some(Ok(amount)) = amount else { return Err(Refusal::Page(400)) };
        self.check_origin(&request.head)?;
        let keeps_siblings = {
            let state = self.context.store.control().read();
            state.bucket_props(name.bucket.as_ref()).is_ok_and(|props| props.allow_mult)
        };
        if !keeps_siblings {
            let text = "Counters require bucket property 'allow_mult=true'";
            return Err(Refusal::Text(409, text.into()));
        }
        let returns = uri::query_value(query, "returnvalue");
        let updated = self
            .context
            .store
            .update_data_type(DataTypeRequest {
                key: name.as_ref(),
                operation: Operation::Counter(amount),
                context: None,
                return_value: returns.as_deref() == Some(b"true"),
                options: params.write_options(),
            })
            .await?;
        match updated.as_ref().and_then(counted) {
            Some(number) => {
                reply(&mut self.out, self.form, 200)
                    .content_type(TEXT)
                    .finish(number.to_string().as_bytes());
            }
            None => reply(&mut self.out, self.form, 204).finish(b""),
        }
        Ok(())
    }
}

/// Appends a value as JSON.
fn append_fetched(
    out: &mut Vec<u8>,
    found: &FetchedDataType,
    includes_context: bool,
) -> Result<(), NotUtf8> {
    let context = found.context.as_deref().filter(|_| includes_context);
    append_value(out, found.datatype, &found.value, context)
}

fn counted(found: &FetchedDataType) -> Option<i128> {
    if let Value::Counter(number) = found.value { Some(number) } else { None }
}
