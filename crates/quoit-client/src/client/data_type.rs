//! Counters, sets, grow-only sets, HyperLogLogs and maps.

use super::Client;
use crate::data_type::{DataTypeUpdate, DataTypeValue};
use crate::error::Error;
use crate::location::{Bucket, Location};
use crate::object::Context;
use crate::options::{DataTypeOptions, FetchOptions, timeout_ms};
use crate::pool::Repeatable;
use bytes::Bytes;
use quoit_wire::messages::{
    DataType, DtFetchReq, DtFetchResp, DtUpdateReq, DtUpdateResp, DtValue, RpbCounterGetReq,
    RpbCounterGetResp, RpbCounterUpdateReq, RpbCounterUpdateResp,
};

/// A data type that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchedDataType {
    /// Its value.
    pub value: DataTypeValue,
    /// Causal context of the value, to send back with removes. Only sets and maps have one.
    pub context: Option<Context>,
}

/// The outcome of an update of a data type.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdatedDataType {
    /// The key, if the server chose it.
    pub key: Option<Bytes>,
    /// The record after the update, if [`DataTypeOptions::return_body`] asked for it.
    pub body: Option<FetchedDataType>,
}

/// The bucket type's name in the form that the messages need.
pub(super) fn type_name(bucket: &Bucket) -> Bytes {
    bucket.bucket_type.clone().unwrap_or(Bytes::from_static(b"default"))
}

impl Client {
    /// Reads a data type. `None` if there is no such record.
    ///
    /// # Errors
    ///
    /// Any [`Error`]. The client repeats the read where that may help.
    pub async fn fetch(&self, location: &Location) -> Result<Option<FetchedDataType>, Error> {
        self.fetch_with(location, &FetchOptions::default()).await
    }

    /// Reads a data type with options.
    ///
    /// # Errors
    ///
    /// As [`fetch`](Self::fetch).
    pub async fn fetch_with(
        &self,
        location: &Location,
        options: &FetchOptions,
    ) -> Result<Option<FetchedDataType>, Error> {
        let request = DtFetchReq {
            bucket: location.bucket.name.clone(),
            key: location.key.clone(),
            bucket_type: type_name(&location.bucket),
            r: options.r.to_field(),
            pr: options.pr.to_field(),
            basic_quorum: options.basic_quorum,
            notfound_ok: options.notfound_ok,
            timeout: timeout_ms(options.timeout),
            sloppy_quorum: options.sloppy_quorum,
            n_val: options.n_val,
            include_context: options.without_context.then_some(false),
            node_confirms: options.node_confirms,
        };
        let location_ref = Some(location.location_ref());
        let answer: DtFetchResp =
            self.pool.call(&request, Repeatable::Safe, options.timeout, location_ref).await?;
        let kind = answer.kind();
        Ok(answer.value.map(|value| FetchedDataType {
            value: DataTypeValue::of(kind, value),
            context: answer.context.map(Context),
        }))
    }

    /// Updates a data type. Creates the record if it does not exist.
    ///
    /// ```no_run
    /// # use quoit_client::{Bucket, Client, DataTypeOptions, DataTypeUpdate, SetUpdate};
    /// # async fn example(client: Client) -> Result<(), quoit_client::Error> {
    /// let visits = Bucket::new("visits").typed("counters").key("2031-05-04");
    /// client.update_data_type(&visits, DataTypeUpdate::counter(1)).await?;
    ///
    /// let guests = Bucket::new("guests").typed("sets").key("tonight");
    /// client.update_data_type(&guests, SetUpdate::new().insert("ann")).await?;
    /// if let Some(seen) = client.fetch(&guests).await? {
    ///     let options = DataTypeOptions { context: seen.context, ..Default::default() };
    ///     client.update_data_type_with(&guests, SetUpdate::new().remove("ann"), &options).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Any [`Error`]. After [`Error::Lost`], [`Error::Timeout`] or an error that too few replicas answered,
    /// the update may or may not have been made; repeating it may count it twice. [`Error::ContextRequired`]
    /// for removes, which need [`update_data_type_with`](Self::update_data_type_with).
    pub async fn update_data_type(
        &self,
        location: &Location,
        update: impl Into<DataTypeUpdate>,
    ) -> Result<(), Error> {
        let options = DataTypeOptions::default();
        self.update_data_type_with(location, update, &options).await.map(drop)
    }

    /// Updates a data type with options.
    ///
    /// # Errors
    ///
    /// As [`update_data_type`](Self::update_data_type).
    pub async fn update_data_type_with(
        &self,
        location: &Location,
        update: impl Into<DataTypeUpdate>,
        options: &DataTypeOptions,
    ) -> Result<UpdatedDataType, Error> {
        self.change(&location.bucket, Some(location.key.clone()), update.into(), options).await
    }

    /// Creates a data type under a new key that the server chooses. [`UpdatedDataType::key`] returns the
    /// key.
    ///
    /// # Errors
    ///
    /// As [`update_data_type`](Self::update_data_type).
    pub async fn insert_data_type(
        &self,
        bucket: &Bucket,
        update: impl Into<DataTypeUpdate>,
        options: &DataTypeOptions,
    ) -> Result<UpdatedDataType, Error> {
        self.change(bucket, None, update.into(), options).await
    }

    async fn change(
        &self,
        bucket: &Bucket,
        key: Option<Bytes>,
        update: DataTypeUpdate,
        options: &DataTypeOptions,
    ) -> Result<UpdatedDataType, Error> {
        if update.needs_context && options.context.is_none() && !options.without_context {
            return Err(Error::ContextRequired);
        }
        let kind = kind_of(&update);
        let request = DtUpdateReq {
            bucket: bucket.name.clone(),
            key,
            bucket_type: type_name(bucket),
            context: options.context.clone().map(|context| context.0),
            op: update.operation,
            w: options.w.to_field(),
            dw: options.dw.to_field(),
            pw: options.pw.to_field(),
            return_body: options.return_body.then_some(true),
            timeout: timeout_ms(options.timeout),
            sloppy_quorum: options.sloppy_quorum,
            n_val: options.n_val,
            include_context: None,
            node_confirms: options.node_confirms.to_field(),
        };
        let key = request.key.clone();
        let location_ref = key.as_deref().map(|key| bucket.location_ref(key));
        let repeat = Repeatable::if_safe(options.resend);
        let answer: DtUpdateResp =
            self.pool.call(&request, repeat, options.timeout, location_ref).await?;
        let value = DtValue {
            counter_value: answer.counter_value,
            set_value: answer.set_value,
            map_value: answer.map_value,
            hll_value: answer.hll_value,
            gset_value: answer.gset_value,
        };
        let body = options.return_body.then(|| FetchedDataType {
            value: DataTypeValue::of(kind, value),
            context: answer.context.map(Context),
        });
        Ok(UpdatedDataType { key: answer.key, body })
    }

    /// The value of a counter of Riak 1.4's kind, in a bucket of the type `default` that keeps siblings.
    /// `None` if there is no such record.
    ///
    /// # Errors
    ///
    /// As [`fetch`](Self::fetch).
    pub async fn legacy_counter(&self, location: &Location) -> Result<Option<i64>, Error> {
        let request = RpbCounterGetReq {
            bucket: location.bucket.name.clone(),
            key: location.key.clone(),
            ..RpbCounterGetReq::default()
        };
        let location_ref = Some(location.location_ref());
        let answer: RpbCounterGetResp =
            self.pool.call(&request, Repeatable::Safe, None, location_ref).await?;
        Ok(answer.value)
    }

    /// Adds to a counter of Riak 1.4's kind, and returns its new value.
    ///
    /// # Errors
    ///
    /// As [`update_data_type`](Self::update_data_type).
    pub async fn update_legacy_counter(
        &self,
        location: &Location,
        amount: i64,
    ) -> Result<i64, Error> {
        let request = RpbCounterUpdateReq {
            bucket: location.bucket.name.clone(),
            key: location.key.clone(),
            amount,
            returnvalue: Some(true),
            ..RpbCounterUpdateReq::default()
        };
        let location_ref = Some(location.location_ref());
        let answer: RpbCounterUpdateResp =
            self.pool.call(&request, Repeatable::if_safe(false), None, location_ref).await?;
        Ok(answer.value.unwrap_or_default())
    }
}

/// The data type that an update is for.
fn kind_of(update: &DataTypeUpdate) -> DataType {
    let operation = &update.operation;
    if operation.counter_op.is_some() {
        DataType::Counter
    } else if operation.set_op.is_some() {
        DataType::Set
    } else if operation.hll_op.is_some() {
        DataType::Hll
    } else if operation.gset_op.is_some() {
        DataType::Gset
    } else {
        DataType::Map
    }
}
