//! The administration API over HTTP: `/admin/v1/`. `docs/admin-api.md` is its contract.

mod aae;
mod audit_entries;
mod bucket_types;
mod cluster;
mod folds;
mod import;
mod jobs;
mod losses;
mod names;
mod replication;
mod request_body;
mod request_log;
mod security;
mod status;
mod trees;

use crate::http::{HttpConnection, Method, PathSegment, Refusal, Request};
use quoit_cluster::{ChangeError, MembershipError, TrustError};
use quoit_model::key::BucketRef;
use quoit_model::props::{PropUpdates, TypeError, TypeState};
use serde_json::{Value, json};

use request_body::RequestBody;

/// Creates an error answer: a word for programs and a sentence for people.
fn error(status: u16, word: &str, message: &str) -> Refusal {
    Refusal::Json(status, json!({"error": word, "message": message}))
}

impl HttpConnection {
    /// Answers a request below `/admin`; `parts` is the path after it.
    pub(crate) async fn admin(
        &mut self,
        request: &Request,
        method: Method,
        parts: &[PathSegment<'_>],
        query: &[u8],
    ) -> Result<(), Refusal> {
        let names: Vec<&[u8]> = parts.iter().map(|part| &**part).collect();
        let checked = self.check_operator(request, method, import::takes_records(&names));
        if let Err(refusal) = checked {
            audit_entries::record_refused(self, method, &names, &refusal);
            return Err(refusal);
        }
        let [b"v1", names @ ..] = names.as_slice() else { return Err(no_such_path()) };
        let outcome = self.answer_operator(request, method, names, query).await;
        audit_entries::record(self, request, method, names, outcome.as_ref().err());
        self.write_json(&outcome?);
        Ok(())
    }

    async fn answer_operator(
        &mut self,
        request: &Request,
        method: Method,
        names: &[&[u8]],
        query: &[u8],
    ) -> Result<Value, Refusal> {
        Ok(match names {
            [b"ping"] => {
                allow(method, &[Method::Get, Method::Head])?;
                json!({"ping": "pong", "node": self.context.node_name})
            }
            [b"status"] => {
                allow(method, &[Method::Get, Method::Head])?;
                status::status(&self.context)
            }
            [b"stat"] => {
                allow(method, &[Method::Get, Method::Head])?;
                status::named(&self.context, query)
            }
            [b"overview"] => {
                allow(method, &[Method::Get, Method::Head])?;
                self.overview().await
            }
            [b"slow-log"] => {
                allow(method, &[Method::Get, Method::Head])?;
                request_log::slow(&self.context)
            }
            [b"hot-keys"] => {
                allow(method, &[Method::Get, Method::Head])?;
                request_log::keys(&self.context)
            }
            [b"cluster", rest @ ..] => self.cluster(request, method, rest, query).await?,
            [b"services"] => {
                allow(method, &[Method::Get, Method::Head])?;
                self.services(query)?
            }
            [b"aae"] => {
                allow(method, &[Method::Get, Method::Head])?;
                aae::status(&self.context)
            }
            [b"aae", b"exchange"] => {
                allow(method, &[Method::Post])?;
                aae::exchange(&self.context, query)?
            }
            [b"security", rest @ ..] => self.security(request, method, rest).await?,
            [b"folds", rest @ ..] => self.folds(request, method, rest, query).await?,
            [b"jobs", rest @ ..] => self.jobs(method, rest)?,
            [b"repl"] => self.replication(request, method, query).await?,
            [b"trees", rest @ ..] => self.trees(method, rest, query).await?,
            [b"import", rest @ ..] => {
                import::answer(&self.context, request, method, rest, query).await?
            }
            [b"losses"] => {
                allow(method, &[Method::Get, Method::Head])?;
                losses::losses(&self.context.store, &self.context.store.control().read())
            }
            [b"losses", b"accept"] => losses::accept(&self.context, method).await?,
            [b"transfers"] => {
                allow(method, &[Method::Get, Method::Head])?;
                self.transfers().await
            }
            [b"transfer-limits"] => self.transfer_limits(request, method, query).await?,
            [b"bucket-types", rest @ ..] => self.bucket_types(request, method, rest).await?,
            [b"types", bucket_type, b"buckets", bucket, b"props"] => {
                self.props_of_bucket(request, method, BucketRef { bucket_type, bucket }).await?
            }
            _ => return Err(no_such_path()),
        })
    }

    /// Checks that the request comes from an operator: by default from this machine, and never from a web
    /// page.
    fn check_operator(
        &self,
        request: &Request,
        method: Method,
        takes_records: bool,
    ) -> Result<(), Refusal> {
        if !self.is_operator {
            // While security is on, the user's permission decides, and the address does not matter.
            if !self.is_secured() {
                check_place(self.is_local, self.context.settings.admin_remote)?;
            }
            crate::http::check_no_page(&request.head, self.is_local, &self.context.node_name)
                .map_err(|reason| error(403, "origin", reason))?;
        }
        if takes_records {
            return import::check_content_type(request);
        }
        let has_body = !request.body.is_empty() || method == Method::Put;
        if has_body && !crate::http::is_json(request) {
            return Err(error(
                415,
                "content_type",
                "the body must be declared as Content-Type: application/json",
            ));
        }
        Ok(())
    }
}

fn check_place(is_local: bool, admin_remote: bool) -> Result<(), Refusal> {
    if is_local || admin_remote {
        return Ok(());
    }
    Err(error(
        403,
        "not_local",
        "administration is answered only from this machine; run the command on the node, or set \
         admin_remote = on",
    ))
}

fn no_such_path() -> Refusal {
    error(404, "not_found", "there is no such path below /admin; see docs/admin-api.md")
}

fn allow(method: Method, allowed: &'static [Method]) -> Result<(), Refusal> {
    if allowed.contains(&method) {
        return Ok(());
    }
    let message = format!("{} is not a method of this path; see the header Allow", method.name());
    Err(Refusal::MethodJson(allowed, json!({"error": "method", "message": message})))
}

/// The changes in a body of the form `{"props":{...}}`.
fn updates(request: &Request) -> Result<PropUpdates, Refusal> {
    let document: Value = serde_json::from_slice(&request.body)
        .map_err(|fault| error(400, "invalid_json", &format!("the body is not JSON: {fault}")))?;
    match document.get("props") {
        Some(Value::Object(props)) => Ok(PropUpdates::from(props.clone())),
        _ => Err(error(400, "no_props", "the body must be of the form {\"props\":{...}}")),
    }
}

/// Converts a refused change to an answer.
fn refusal(fault: &ChangeError) -> Refusal {
    let message = fault.to_string();
    match fault {
        ChangeError::NoSuchType { .. } => error(404, "no_type", &message),
        ChangeError::Name(_) => error(400, "invalid_name", &message),
        ChangeError::InvalidProps(invalid) | ChangeError::Type(TypeError::Invalid(invalid)) => {
            let details = invalid.http_json();
            let document =
                json!({"error": "invalid_props", "message": message, "details": details});
            Refusal::Json(400, document)
        }
        ChangeError::Type(TypeError::NotActive { state: TypeState::Undefined, .. }) => {
            error(404, "undefined", &message)
        }
        ChangeError::Type(fault) => {
            let status = match fault {
                TypeError::Undefined { .. } => 404,
                TypeError::ReservedName | TypeError::NameLength { .. } => 400,
                _ => 409,
            };
            error(status, fault.word(), &message)
        }
        ChangeError::MembersOutdated(_) => error(409, "not_ready", &message),
        ChangeError::TooManyTypes { .. } | ChangeError::TooManyBuckets { .. } => {
            error(409, "too_many", &message)
        }
        ChangeError::Security(_) => error(409, "refused", &message),
        ChangeError::Membership(fault) => {
            let (status, word) = membership_word(fault);
            error(status, word, &message)
        }
        ChangeError::Trust(fault) => {
            let (status, word) = trust_word(fault);
            error(status, word, &message)
        }
        ChangeError::Departed(_) => error(503, "departed", &message),
        ChangeError::NoLeader => error(503, "no_leader", &message),
        ChangeError::Store(_) => {
            tracing::error!(%fault, "a change of the control plane failed");
            error(500, "internal", &message)
        }
    }
}

/// Status and word for a refused change of the certificate authority or of tokens.
fn trust_word(fault: &TrustError) -> (u16, &'static str) {
    use TrustError as T;
    match fault {
        T::NoAuthority => (409, "no_authority"),
        T::Rotating { .. } => (409, "rotating"),
        T::TooManyTokens => (409, "too_many"),
        T::NoToken { .. } => (404, "no_token"),
        T::TokenExpired { .. } => (409, "token_expired"),
        T::TokenUsed { .. } => (409, "token_used"),
        T::TokenBounds { .. } => (400, "invalid_bounds"),
        T::Removed { .. } => (409, "removed"),
        T::Malformed(_) => (400, "malformed"),
        T::Tls(_) => (500, "internal"),
    }
}

/// Status and word for a refused change of membership.
fn membership_word(fault: &MembershipError) -> (u16, &'static str) {
    use MembershipError as M;
    match fault {
        M::NotAMember { .. } => (404, "no_node"),
        M::OnlyMember { .. } => (409, "only_member"),
        M::Status { .. } => (409, "status"),
        M::AlreadyStaged { .. } => (409, "already_staged"),
        M::HoldsPartitions { .. } => (409, "holds_partitions"),
        M::SameNode { .. } => (409, "same_node"),
        M::Location { .. } => (400, "invalid_location"),
        M::Capacity { .. } => (400, "invalid_capacity"),
        M::NothingStaged => (409, "nothing_staged"),
        M::NotPlanned => (409, "not_planned"),
        M::PlanChanged => (409, "plan_changed"),
        M::NotUp { .. } => (409, "not_up"),
        M::IsUp { .. } => (409, "is_up"),
        M::TooManyLayouts { .. } => (409, "too_many_layouts"),
        M::Layout(_) => (409, "no_layout"),
        M::Removed { .. } => (409, "removed"),
        M::NameInUse { .. } => (409, "name_in_use"),
        M::AlreadyMember { .. } => (409, "already_member"),
        M::RingSize { .. } => (409, "ring_size"),
        M::Outdated(_) | M::MembersOutdated(_) => (409, "outdated"),
        M::TypeContradicts { .. } | M::BucketContradicts { .. } => (409, "contradicts"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(fault: ChangeError) -> (u16, String) {
        match refusal(&fault) {
            Refusal::Json(status, document) => {
                (status, document["error"].as_str().expect("a word").to_owned())
            }
            _ => panic!("not a JSON answer"),
        }
    }

    #[test]
    fn other_machines_are_refused_unless_the_setting_lets_them() {
        assert!(check_place(true, false).is_ok() && check_place(false, true).is_ok());
        assert!(matches!(check_place(false, false), Err(Refusal::Json(403, _))));
    }

    #[test]
    fn refusals_have_the_words_of_the_contract() {
        let name = || "t".to_owned();
        let not_active = |state| TypeError::NotActive { name: name(), state };
        for (fault, expected) in [
            (TypeError::Undefined { name: name() }, (404, "undefined")),
            (not_active(TypeState::Undefined), (404, "undefined")),
            (not_active(TypeState::Ready), (409, "not_active")),
            (TypeError::AlreadyActive { name: name() }, (409, "already_active")),
            (TypeError::NotReady { name: name() }, (409, "not_ready")),
            (TypeError::DefaultType, (409, "default_type")),
            (TypeError::NoDefaultUpdate, (409, "no_default_update")),
            (TypeError::ReservedName, (400, "reserved_name")),
        ] {
            let (status, word) = word(fault.into());
            assert_eq!((status, word.as_str()), expected);
        }
        assert_eq!(word(ChangeError::NoSuchType { name: name() }), (404, "no_type".to_owned()));
    }
}
