//! Properties of buckets and bucket types.

use super::connection::{HttpConnection, Request};
use super::negotiate::accepts_media_type;
use super::refusal::Refusal;
use super::response::{JSON, reply};
use super::route::BucketName;
use crate::audit::{AuditedInterface, PropsChange};
use quoit_cluster::ChangeError;
use quoit_core::RequestError;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE};
use quoit_model::props::{PropUpdates, TypeState};
use serde_json::{Map, Value, json};

impl From<ChangeError> for Refusal {
    fn from(fault: ChangeError) -> Self {
        if fault.is_server_fault() {
            tracing::error!(%fault, "a change of properties failed");
            return Self::Json(500, fault.http_json());
        }
        Self::Json(400, fault.http_json())
    }
}

impl HttpConnection {
    /// Answers with the effective properties of a bucket.
    pub(super) fn get_props(
        &mut self,
        request: &Request,
        bucket: &BucketName<'_>,
    ) -> Result<(), Refusal> {
        self.check_origin(&request.head)?;
        accepts_json(request)?;
        let props = self.bucket_props(bucket)?;
        self.write_props(&props);
        Ok(())
    }

    fn write_props(&mut self, props: &Map<String, Value>) {
        let text = format!("{{\"props\":{}}}", module_first(props));
        reply(&mut self.out, self.form, 200).content_type(JSON).finish(text.as_bytes());
    }

    pub(super) fn bucket_props(
        &self,
        bucket: &BucketName<'_>,
    ) -> Result<Map<String, Value>, Refusal> {
        let state = self.context.store.control().read();
        state.bucket_props_json(bucket.as_ref()).map_err(|_| Refusal::Page(404))
    }

    /// Changes properties of a bucket.
    pub(super) async fn put_props(
        &mut self,
        request: &Request,
        bucket: &BucketName<'_>,
    ) -> Result<(), Refusal> {
        let checked = self.checked_updates(request, "bucket").and_then(|updates| {
            let key = bucket.as_ref().key(b"*");
            key.check().map_err(|fault| Refusal::from(RequestError::from(fault)))?;
            Ok(updates)
        });
        let updates = self.admitted(&PropsChange::of_bucket(bucket.as_ref(), None), checked)?;
        let changed =
            self.context.store.control().set_bucket_props(bucket.as_ref(), &updates).await;
        self.record_props(&PropsChange::of_bucket(bucket.as_ref(), Some(&updates)), &changed);
        changed?;
        reply(&mut self.out, self.form, 204).finish(b"");
        Ok(())
    }

    /// Removes a bucket's own properties, so that it follows its bucket type again.
    pub(super) async fn reset_props(
        &mut self,
        request: &Request,
        bucket: &BucketName<'_>,
    ) -> Result<(), Refusal> {
        let change = PropsChange::of_bucket(bucket.as_ref(), None);
        let checked = self.check_origin(&request.head);
        self.admitted(&change, checked.and_then(|()| self.check_type(bucket.as_ref())))?;
        let changed = self.context.store.control().reset_bucket_props(bucket.as_ref()).await;
        self.record_props(&change, &changed);
        changed?;
        reply(&mut self.out, self.form, 204).finish(b"");
        Ok(())
    }

    /// Answers with the properties that the buckets of a type inherit.
    pub(super) fn get_type_props(&mut self, request: &Request, name: &[u8]) -> Result<(), Refusal> {
        self.check_origin(&request.head)?;
        accepts_json(request)?;
        self.check_type(BucketRef { bucket_type: name, bucket: b"*" })?;
        let status = self.context.store.control().read().type_status(name);
        let Some(status) = status else { return Err(Refusal::Page(404)) };
        self.write_props(&status.props);
        Ok(())
    }

    /// Changes properties of an active type.
    pub(super) async fn put_type_props(
        &mut self,
        request: &Request,
        name: &[u8],
    ) -> Result<(), Refusal> {
        let checked = self.checked_updates(request, "bucket type").and_then(|updates| {
            if self.is_secured() {
                self.check_type_exists(name)?;
            }
            Ok(updates)
        });
        let updates = self.admitted(&PropsChange::of_type(name, None), checked)?;
        let changed = self.context.store.control().update_type(name, &updates).await;
        self.record_props(&PropsChange::of_type(name, Some(&updates)), &changed);
        changed?;
        reply(&mut self.out, self.form, 204).finish(b"");
        Ok(())
    }

    /// The changes in the body of a request that may make changes.
    fn checked_updates(&self, request: &Request, what: &str) -> Result<PropUpdates, Refusal> {
        let updates = updates(request, what)?;
        self.check_origin(&request.head)?;
        has_json_body(request)?;
        Ok(updates)
    }

    /// Passes on the outcome of the checks before a change. A refusal is recorded, without the new values.
    fn admitted<T>(
        &self,
        change: &PropsChange<'_>,
        checked: Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        if let Err(refusal) = &checked {
            let by = self.audit_entry(AuditedInterface::Http, change.permission.name());
            self.context.audit.record_refused_props(by, change, reason(refusal));
        }
        checked
    }

    fn record_props<T>(&self, change: &PropsChange<'_>, changed: &Result<T, ChangeError>) {
        let by = self.audit_entry(AuditedInterface::Http, change.permission.name());
        self.context.audit.record_props(by, change, changed.as_ref().err());
    }
}

impl HttpConnection {
    /// Refuses a bucket type that does not exist, as Riak does while security is on.
    fn check_type_exists(&self, name: &[u8]) -> Result<(), Refusal> {
        let state = self.context.store.control().read();
        if state.type_state(name) != TypeState::Undefined || name == DEFAULT_BUCKET_TYPE {
            return Ok(());
        }
        let name = crate::erlang_text::binary(name);
        Err(Refusal::Text(404, format!("Cannot modify unknown bucket type: {name}").into()))
    }
}

/// The reason of a refusal, for the audit log.
fn reason(refusal: &Refusal) -> &str {
    match refusal {
        Refusal::Text(_, text) => text.trim_end(),
        Refusal::Page(404) => "there is no such bucket type",
        Refusal::Page(415) => "the body is not declared as application/json",
        _ => "refused",
    }
}

/// Properties as JSON text. A function has its module before its name, because Riak's Erlang client reads
/// the two by their order.
pub(super) fn module_first(props: &Map<String, Value>) -> String {
    let members = props.iter().map(|(name, value)| format!("{}:{}", json!(name), shown(value)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Array(values) => {
            format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(","))
        }
        Value::Object(members) => match (members.get("mod"), members.get("fun")) {
            (Some(module), Some(function)) if members.len() == 2 => {
                format!("{{\"mod\":{module},\"fun\":{function}}}")
            }
            _ => value.to_string(),
        },
        _ => value.to_string(),
    }
}

fn accepts_json(request: &Request) -> Result<(), Refusal> {
    if accepts_media_type(request.head.get_list("accept").as_deref(), JSON) {
        Ok(())
    } else {
        Err(Refusal::Page(406))
    }
}

/// True if the body is declared as JSON.
pub(crate) fn is_json(request: &Request) -> bool {
    let header = request.head.get("content-type").unwrap_or_default();
    let media = header.split(|byte| *byte == b';').next().unwrap_or_default();
    media.trim_ascii().eq_ignore_ascii_case(JSON)
}

fn has_json_body(request: &Request) -> Result<(), Refusal> {
    if is_json(request) { Ok(()) } else { Err(Refusal::Page(415)) }
}

/// The changes in a body of the form `{"props":{...}}`.
fn updates(request: &Request, what: &str) -> Result<PropUpdates, Refusal> {
    let document = serde_json::from_slice::<Value>(&request.body).ok();
    match document.and_then(|mut document| document.get_mut("props").map(Value::take)) {
        Some(Value::Object(props)) => Ok(PropUpdates::from(props)),
        _ => Err(Refusal::bad(format!(
            "{what} PUT must be a JSON object of the form:\n\
             {{\"props\":{{...bucket properties...}}}}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_shown_with_their_module_first() {
        let props = json!({
            "linkfun": {"fun": "f", "mod": "m"},
            "n_val": 3,
            "precommit": [{"mod": "a", "fun": "b"}, {"name": "js"}],
        });
        let Value::Object(props) = props else { panic!("an object") };
        let expected = "{\"linkfun\":{\"mod\":\"m\",\"fun\":\"f\"},\"n_val\":3,\"precommit\":[{\"mod\":\"a\",\
                        \"fun\":\"b\"},{\"name\":\"js\"}]}";
        assert_eq!(module_first(&props), expected);
    }
}
