//! Bucket types and properties of buckets in the administration API.

use super::{allow, error, no_such_path, refusal, updates};
use crate::http::{HttpConnection, Method, Refusal, Request};
use quoit_cluster::ChangeError;
use quoit_model::key::BucketRef;
use quoit_model::props::PropUpdates;
use serde_json::{Value, json};

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Refuses a strongly consistent bucket type, because all its requests would fail.
fn refuse_consistent(updates: &PropUpdates) -> Result<(), Refusal> {
    let wanted = updates.iter().any(|(name, value)| {
        name == "consistent" && (*value == Value::Bool(true) || value.as_str() == Some("true"))
    });
    if !wanted {
        return Ok(());
    }
    let reason = "there are no strongly consistent buckets: leave it out, and see conditional_put_mode for \
                  writes of which one wins";
    let message = format!("consistent = true: {reason}");
    let details = json!({"consistent": reason});
    let document = json!({"error": "invalid_props", "message": message, "details": details});
    Err(Refusal::Json(400, document))
}

impl HttpConnection {
    pub(super) async fn bucket_types(
        &mut self,
        request: &Request,
        method: Method,
        names: &[&[u8]],
    ) -> Result<Value, Refusal> {
        let control = self.context.store.control();
        match names {
            [] => {
                allow(method, &[Method::Get, Method::Head])?;
                Ok(self.type_list())
            }
            [name] => {
                allow(method, &[Method::Get, Method::Head, Method::Put])?;
                if method != Method::Put {
                    return self.type_status(name);
                }
                let updates = updates(request)?;
                refuse_consistent(&updates)?;
                let created = control.create_type(name, &updates).await;
                self.changed_type(name, created.map(drop))
            }
            [name, command @ (b"activate" | b"update" | b"reset")] => {
                allow(method, &[Method::Post])?;
                let changed = match *command {
                    b"activate" => control.activate_type(name).await,
                    b"reset" => control.reset_type(name).await,
                    _ => control.update_type(name, &updates(request)?).await,
                };
                self.changed_type(name, changed)
            }
            _ => Err(no_such_path()),
        }
    }

    fn type_list(&self) -> Value {
        let listed = self.context.store.control().read().list_types();
        let types: Vec<_> = listed
            .iter()
            .map(|(name, state)| json!({"name": shown(name), "state": state.as_str()}))
            .collect();
        json!({"types": types})
    }

    fn type_status(&self, name: &[u8]) -> Result<Value, Refusal> {
        let Some(status) = self.context.store.control().read().type_status(name) else {
            let message = format!("{} is not an existing bucket type", shown(name));
            return Err(error(404, "undefined", &message));
        };
        let reason = status.lacking.map(|lacking| lacking.to_string());
        Ok(json!({
            "name": shown(name),
            "state": status.state.as_str(),
            "reason": reason,
            "props": status.props,
        }))
    }

    /// Answers with the state of the bucket type after a change.
    fn changed_type(
        &self,
        name: &[u8],
        changed: Result<(), ChangeError>,
    ) -> Result<Value, Refusal> {
        changed.map_err(|fault| refusal(&fault))?;
        let state = self.context.store.control().read().type_state(name);
        Ok(json!({"name": shown(name), "state": state.as_str()}))
    }

    /// Shows, changes or resets the properties of a bucket. Answers with the resulting properties.
    pub(super) async fn props_of_bucket(
        &mut self,
        request: &Request,
        method: Method,
        bucket: BucketRef<'_>,
    ) -> Result<Value, Refusal> {
        allow(method, &[Method::Get, Method::Head, Method::Put, Method::Delete])?;
        let control = self.context.store.control();
        let changed = match method {
            Method::Put => control.set_bucket_props(bucket, &updates(request)?).await,
            Method::Delete => control.reset_bucket_props(bucket).await,
            _ => Ok(()),
        };
        changed.map_err(|fault| refusal(&fault))?;
        let state = control.read();
        match state.bucket_props_json(bucket) {
            Ok(props) => Ok(json!({"props": props})),
            Err(_) => Err(refusal(&ChangeError::NoSuchType { name: shown(bucket.bucket_type) })),
        }
    }
}
