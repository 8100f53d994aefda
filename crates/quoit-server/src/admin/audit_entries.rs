//! Audit log entries for changes by operators.

use crate::audit::{AuditEntry, AuditOutcome, AuditedInterface, REFUSED_BYTES_MAX};
use crate::http::{HttpConnection, Method, Refusal, Request};
use serde_json::{Value, json};

/// First path parts of requests whose bodies may be recorded. For other paths, only the path is recorded.
const WITHOUT_SECRETS: [&[u8]; 7] =
    [b"bucket-types", b"cluster", b"folds", b"repl", b"security", b"transfer-limits", b"types"];
/// Members of bodies that are never recorded.
const SECRETS: [&str; 3] = ["password", "secret", "token"];
/// Options of security commands whose values are never recorded.
const SECRET_OPTIONS: [&str; 2] = ["password=", "password_hash="];

/// Records a change that an operator has requested, and its outcome. Reads are not recorded.
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
    let what = what(method, names);
    let is_open = names.first().is_some_and(|first| WITHOUT_SECRETS.contains(first));
    let details = if is_open { body(request) } else { Value::Null };
    let reason = refusal.map(reason);
    let outcome = reason.as_deref().map_or(AuditOutcome::Done, AuditOutcome::Refused);
    audit.record(&AuditEntry {
        outcome,
        details,
        ..connection.audit_entry(AuditedInterface::Admin, &what)
    });
}

/// Records a change whose request was refused because of its form or its origin. Its body is not recorded.
/// `names` is the whole path below `/admin`.
pub(super) fn record_refused(
    connection: &HttpConnection,
    method: Method,
    names: &[&[u8]],
    refusal: &Refusal,
) {
    let audit = &connection.context.audit;
    if matches!(method, Method::Get | Method::Head) || !audit.records_refused_change() {
        return;
    }
    let names = names.strip_prefix(&[b"v1".as_slice()]).unwrap_or(names);
    let what = what(method, names);
    let (what, _) = what.split_at(what.floor_char_boundary(REFUSED_BYTES_MAX));
    let reason = reason(refusal);
    let outcome = AuditOutcome::Refused(&reason);
    audit.record(&AuditEntry { outcome, ..connection.audit_entry(AuditedInterface::Admin, what) });
}

fn what(method: Method, names: &[&[u8]]) -> String {
    let words: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
    format!("{} {}", method.name(), words.join("/"))
}

fn body(request: &Request) -> Value {
    let Ok(Value::Object(mut members)) = serde_json::from_slice(&request.body) else {
        return Value::Null;
    };
    members.retain(|name, _| !SECRETS.contains(&name.as_str()));
    if let Some(Value::Array(words)) = members.get_mut("command") {
        words.iter_mut().for_each(hide_secret);
    }
    json!(members)
}

/// Hides the value of a word such as `password=...` in a security command. The command accepts option names
/// in any case.
fn hide_secret(word: &mut Value) {
    let Some(text) = word.as_str() else { return };
    let is_option = |option: &&&str| {
        text.split_at_checked(option.len())
            .is_some_and(|(name, _)| name.eq_ignore_ascii_case(option))
    };
    if let Some(option) = SECRET_OPTIONS.iter().find(is_option) {
        *word = format!("{option}...").into();
    }
}

fn reason(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Json(_, document) => document["message"].as_str().unwrap_or_default().to_owned(),
        _ => "refused".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_commands_are_hidden_whatever_the_case_of_their_name() {
        let hidden = |word: &str| {
            let mut word = Value::from(word);
            hide_secret(&mut word);
            word
        };
        assert_eq!(hidden("password=x"), "password=...");
        assert_eq!(hidden("PassWord=x"), "password=...");
        assert_eq!(hidden("password_hash=pbkdf2:sha:1:a:b"), "password_hash=...");
        for kept in ["add-user", "alice", "groups=a,b", "password", "p\u{e4}ssword=x"] {
            assert_eq!(hidden(kept), kept);
        }
    }
}
