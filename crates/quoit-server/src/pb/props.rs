//! Properties of buckets and bucket types.

use super::connection::PbConnection;
use super::fault::Fault;
use super::kv::bucket_of;
use crate::audit::PropsChange;
use crate::erlang_text;
use bytes::Bytes;
use quoit_cluster::ChangeError;
use quoit_core::RequestError;
use quoit_model::key::BucketRef;
use quoit_model::props::{
    BucketProps, CommitHook, LinkFun, ModFun, PropUpdates, Quorum, ReplMode, placement_name,
};
use quoit_wire::MessageCode;
use quoit_wire::messages::{
    RpbBucketProps, RpbCommitHook, RpbGetBucketReq, RpbGetBucketResp, RpbGetBucketTypeReq,
    RpbModFun, RpbResetBucketReq, RpbSetBucketReq, RpbSetBucketTypeReq,
};
use serde_json::{Value, json};

impl From<ChangeError> for Fault {
    fn from(fault: ChangeError) -> Self {
        if fault.is_server_fault() {
            tracing::error!(%fault, "a change of properties failed");
        }
        Self::Text(fault.pb_text())
    }
}

fn check(bucket: BucketRef<'_>) -> Result<(), RequestError> {
    Ok(bucket.key(b"*").check()?)
}

impl PbConnection {
    pub(super) fn get_bucket(&mut self, request: RpbGetBucketReq) -> Result<(), Fault> {
        let bucket = bucket_of(&request.bucket_type, &request.bucket);
        check(bucket)?;
        let state = self.context.store.control().read();
        let Ok(props) = state.bucket_props(bucket) else {
            let name = String::from_utf8_lossy(bucket.bucket_type);
            return Err(Fault::Text(format!("No bucket-type named '{name}'")));
        };
        let props = props_message(props);
        drop(state);
        self.send(&RpbGetBucketResp { props })
    }

    pub(super) async fn set_bucket(&mut self, request: RpbSetBucketReq) -> Result<(), Fault> {
        self.check_change(bucket_of(&request.bucket_type, &request.bucket))?;
        let updates = updates(&request.props);
        let (bucket_type, name) = (request.bucket_type, request.bucket);
        let control = self.context.store.control();
        let bucket = bucket_of(&bucket_type, &name);
        let changed = control.set_bucket_props(bucket, &updates).await;
        self.record_props(&PropsChange::of_bucket(bucket, Some(&updates)), &changed);
        changed?;
        self.send_empty(MessageCode::SetBucketResp);
        Ok(())
    }

    pub(super) async fn reset_bucket(&mut self, request: RpbResetBucketReq) -> Result<(), Fault> {
        self.check_change(bucket_of(&request.bucket_type, &request.bucket))?;
        let (bucket_type, name) = (request.bucket_type, request.bucket);
        let control = self.context.store.control();
        let bucket = bucket_of(&bucket_type, &name);
        let changed = control.reset_bucket_props(bucket).await;
        self.record_props(&PropsChange::of_bucket(bucket, None), &changed);
        match changed {
            // A bucket of an unknown type has no properties of its own, so there is nothing to reset.
            Err(ChangeError::NoSuchType { .. }) => {}
            result => result?,
        }
        self.send_empty(MessageCode::ResetBucketResp);
        Ok(())
    }

    pub(super) fn get_bucket_type(&mut self, request: RpbGetBucketTypeReq) -> Result<(), Fault> {
        let state = self.context.store.control().read();
        let Ok(props) = state.type_props(&request.bucket_type) else {
            let name = erlang_text::binary(&request.bucket_type);
            return Err(Fault::Text(format!("Invalid bucket type: {name}")));
        };
        let props = props_message(props);
        drop(state);
        self.send(&RpbGetBucketResp { props })
    }

    pub(super) async fn set_bucket_type(
        &mut self,
        request: RpbSetBucketTypeReq,
    ) -> Result<(), Fault> {
        let updates = updates(&request.props);
        let control = self.context.store.control();
        let changed = control.update_type(&request.bucket_type, &updates).await;
        self.record_props(&PropsChange::of_type(&request.bucket_type, Some(&updates)), &changed);
        changed?;
        self.send_empty(MessageCode::SetBucketResp);
        Ok(())
    }

    /// Refuses a change of a bucket whose name is not valid, and records that.
    fn check_change(&self, bucket: BucketRef<'_>) -> Result<(), RequestError> {
        let checked = check(bucket);
        if let Err(fault) = &checked {
            let change = PropsChange::of_bucket(bucket, None);
            let by = self.audit_entry(change.permission.name());
            self.context.audit.record_refused_props(by, &change, &fault.to_string());
        }
        checked
    }

    fn record_props<T>(&self, change: &PropsChange<'_>, changed: &Result<T, ChangeError>) {
        let by = self.audit_entry(change.permission.name());
        self.context.audit.record_props(by, change, changed.as_ref().err());
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// All effective properties, as clients expect them.
fn props_message(props: &BucketProps) -> RpbBucketProps {
    let (module, function) = placement_name(props.chash_keyfun);
    RpbBucketProps {
        n_val: Some(props.n_val),
        allow_mult: Some(props.allow_mult),
        last_write_wins: Some(props.last_write_wins),
        precommit: props.precommit.iter().map(hook_message).collect(),
        has_precommit: Some(true),
        postcommit: props.postcommit.iter().map(hook_message).collect(),
        has_postcommit: Some(true),
        chash_keyfun: Some(RpbModFun { module: bytes(module), function: bytes(function) }),
        linkfun: match &props.linkfun {
            LinkFun::ModFun(function) => Some(function_message(function)),
            LinkFun::JavaScript(_) => None,
        },
        old_vclock: Some(props.old_vclock),
        young_vclock: Some(props.young_vclock),
        big_vclock: Some(props.big_vclock),
        small_vclock: Some(props.small_vclock),
        pr: Some(props.pr.to_pb()),
        r: Some(props.r.to_pb()),
        w: Some(props.w.to_pb()),
        pw: Some(props.pw.to_pb()),
        dw: Some(props.dw.to_pb()),
        rw: Some(props.rw.to_pb()),
        basic_quorum: Some(props.basic_quorum),
        notfound_ok: Some(props.notfound_ok),
        backend: props.backend.as_deref().map(bytes),
        search: props.search,
        repl: props.repl.map(ReplMode::to_pb),
        search_index: props.search_index.as_deref().map(bytes),
        datatype: props.datatype_name().map(bytes),
        consistent: props.consistent,
        write_once: props.write_once,
        hll_precision: props.hll_precision.map(u32::from),
    }
}

fn function_message(function: &ModFun) -> RpbModFun {
    RpbModFun { module: bytes(&function.module), function: bytes(&function.function) }
}

fn hook_message(hook: &CommitHook) -> RpbCommitHook {
    match hook {
        CommitHook::ModFun(function) => {
            RpbCommitHook { modfun: Some(function_message(function)), name: None }
        }
        CommitHook::JavaScript(name) => RpbCommitHook { modfun: None, name: Some(bytes(name)) },
    }
}

/// The changes of a message, in the form that all protocols share.
fn updates(message: &RpbBucketProps) -> PropUpdates {
    let mut updates = PropUpdates::default();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            updates.set(name, value);
        }
    };
    let quorum = |field: Option<u32>| field.map(Quorum::prop_value_from_pb);
    let text = |field: &Option<Bytes>| {
        field.as_ref().map(|text| Value::from(String::from_utf8_lossy(text).into_owned()))
    };
    set("n_val", message.n_val.map(Value::from));
    set("allow_mult", message.allow_mult.map(Value::from));
    set("last_write_wins", message.last_write_wins.map(Value::from));
    set("precommit", hooks(message.has_precommit, &message.precommit));
    set("postcommit", hooks(message.has_postcommit, &message.postcommit));
    set("chash_keyfun", message.chash_keyfun.as_ref().map(function_json));
    set("linkfun", message.linkfun.as_ref().map(function_json));
    set("old_vclock", message.old_vclock.map(Value::from));
    set("young_vclock", message.young_vclock.map(Value::from));
    set("big_vclock", message.big_vclock.map(Value::from));
    set("small_vclock", message.small_vclock.map(Value::from));
    set("pr", quorum(message.pr));
    set("r", quorum(message.r));
    set("w", quorum(message.w));
    set("pw", quorum(message.pw));
    set("dw", quorum(message.dw));
    set("rw", quorum(message.rw));
    set("basic_quorum", message.basic_quorum.map(Value::from));
    set("notfound_ok", message.notfound_ok.map(Value::from));
    set("backend", text(&message.backend));
    set("search", message.search.map(Value::from));
    set("repl", message.repl.and_then(ReplMode::from_pb).map(ReplMode::to_json));
    set("search_index", text(&message.search_index));
    set("datatype", text(&message.datatype));
    set("consistent", message.consistent.map(Value::from));
    set("write_once", message.write_once.map(Value::from));
    set("hll_precision", message.hll_precision.map(Value::from));
    updates
}

/// A list of hooks counts only if the message says so: Protocol Buffers can't tell an empty list from a
/// missing one.
fn hooks(meant: Option<bool>, list: &[RpbCommitHook]) -> Option<Value> {
    if meant != Some(true) {
        return None;
    }
    let hooks = list.iter().filter_map(|hook| match (&hook.modfun, &hook.name) {
        (Some(function), _) => Some(function_json(function)),
        (None, Some(name)) => Some(json!({"name": String::from_utf8_lossy(name)})),
        (None, None) => None,
    });
    Some(hooks.collect())
}

fn function_json(function: &RpbModFun) -> Value {
    json!({
        "mod": String::from_utf8_lossy(&function.module),
        "fun": String::from_utf8_lossy(&function.function),
    })
}
