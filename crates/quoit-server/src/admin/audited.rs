//! Changes of operators in the audit log.

use crate::audit::{AuditEntry, AuditOutcome};
use crate::http::{HttpConnection, Method, Refusal, Request};
use serde_json::{Value, json};

/// Paths whose bodies hold no secrets; of others only the path is recorded.
const WITHOUT_SECRETS: [&[u8]; 5] =
    [b"bucket-types", b"cluster", b"folds", b"transfer-limits", b"types"];
/// Members of bodies that are left out all the same.
const SECRETS: [&str; 3] = ["password", "secret", "token"];

/// Records a change that an operator has asked for, and how it ended. Looks are not recorded.
pub(super) fn record(
    connection: &HttpConnection,
    request: &Request,
    method: Method,
    names: &[&[u8]],
    refusal: Option<&Refusal>,
) {
    let audit = &connection.context.audit;
    if !audit.is_on() || matches!(method, Method::Get | Method::Head) {
        return;
    }
    let words: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
    let what = format!("{} {}", method.name(), words.join("/"));
    let is_open = names.first().is_some_and(|first| WITHOUT_SECRETS.contains(first));
    let details = if is_open { body(request) } else { Value::Null };
    let reason = refusal.map(reason);
    let outcome = reason.as_deref().map_or(AuditOutcome::Done, AuditOutcome::Refused);
    let from = if connection.is_local { "" } else { "another machine" };
    audit.record(&AuditEntry { from, outcome, details, ..AuditEntry::new("admin", &what) });
}

fn body(request: &Request) -> Value {
    let Ok(Value::Object(mut members)) = serde_json::from_slice(&request.body) else {
        return Value::Null;
    };
    members.retain(|name, _| !SECRETS.contains(&name.as_str()));
    json!(members)
}

fn reason(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Json(_, document) => document["message"].as_str().unwrap_or_default().to_owned(),
        _ => "refused".to_owned(),
    }
}
