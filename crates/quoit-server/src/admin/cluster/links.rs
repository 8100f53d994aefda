//! The cluster's certificate authority, join tokens, and the security of connections between nodes.

use crate::admin::{RequestBody, allow, error, refusal};
use crate::http::{HttpConnection, Method, Refusal, Request};
use quoit_cluster::{ControlPlane, JoinProof, LinkView, TokenView};
use quoit_tls::Instant;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Default lifetime of a token, in seconds.
const TOKEN_SECS_DEFAULT: u64 = 3600;

impl HttpConnection {
    /// Answers a request below `/admin/v1/cluster/tls`.
    #[expect(clippy::indexing_slicing, reason = "the document is an object of this node")]
    pub(super) async fn links(
        &self,
        request: &Request,
        method: Method,
        names: &[&[u8]],
    ) -> Result<Value, Refusal> {
        let control = self.context.store.control();
        match names {
            [] => {
                allow(method, &[Method::Get, Method::Head])?;
                let view = control.link_view();
                Ok(view.map_or_else(|| json!({}), |view| shown(&view, Instant::now())))
            }
            [b"init"] => {
                allow(method, &[Method::Post])?;
                control.init_authority().await.map_err(|fault| refusal(&fault))?;
                Ok(json!({"message": "The cluster has an authority"}))
            }
            [b"rotate"] => {
                allow(method, &[Method::Post])?;
                control.rotate_authority().await.map_err(|fault| refusal(&fault))?;
                Ok(json!({"message": "The rotation of the cluster's authority has begun"}))
            }
            [b"tokens"] => {
                allow(method, &[Method::Post])?;
                let asked = RequestBody::read(request)?;
                let nodes = asked.number("nodes")?.unwrap_or(1);
                let secs = asked.number("secs")?.unwrap_or(TOKEN_SECS_DEFAULT);
                let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
                let issued = control.issue_token(nodes, Duration::from_secs(secs)).await;
                let issued = issued.map_err(|fault| refusal(&fault))?;
                let mut document = token(&issued.view);
                document["token"] = issued.secret_text.into();
                Ok(document)
            }
            [b"tokens", id] => {
                allow(method, &[Method::Delete])?;
                let id = String::from_utf8_lossy(id);
                control.revoke_token(&id).await.map_err(|fault| refusal(&fault))?;
                Ok(json!({"message": format!("The token {id} lets no node join any more")}))
            }
            _ => Err(super::no_such_path()),
        }
    }
}

/// The proof with which a node joins: the token in the request, or else the node's shared secret if it has
/// one.
pub(super) fn join_proof(
    control: &ControlPlane,
    asked: &RequestBody,
) -> Result<Option<JoinProof>, Refusal> {
    match asked.given("token") {
        Some(text) => match text.parse() {
            Ok(token) => Ok(Some(JoinProof::Token(token))),
            Err(fault) => Err(error(400, "invalid_token", &format!("{fault}"))),
        },
        None => Ok(control.shared_secret().map(JoinProof::Secret)),
    }
}

fn token(view: &TokenView) -> Value {
    json!({
        "id": view.id,
        "expires": view.expires.to_string(),
        "uses_left": view.uses_left,
        "nodes": texts(&view.nodes),
    })
}

fn texts(names: &[Arc<str>]) -> Vec<String> {
    names.iter().map(|name| (**name).to_owned()).collect()
}

/// The view as a JSON document.
pub(crate) fn shown(view: &LinkView, now: Instant) -> Value {
    let days = |end: Option<Instant>| end.map(|end| end.days_after(now));
    let authority = |(digest, end): &(String, Instant)| {
        let issues = view.issuing.as_ref() == Some(digest);
        let (expires, days_left) = (end.to_string(), end.days_after(now));
        json!({"id": digest, "expires": expires, "days_left": days_left, "issues": issues})
    };
    let members = view.members.iter().map(|member| {
        json!({
            "name": &*member.name,
            "authority": member.authority,
            "expires": member.not_after.map(|end| end.to_string()),
            "days_left": days(member.not_after),
            "plain": member.is_plain,
        })
    });
    let plain = view.plain.iter().map(|(host, link)| {
        json!({
            "host": host,
            "connections": link.connection_count,
            "last_unix_secs": link.last_unix_secs,
            "reason": link.reason,
        })
    });
    json!({
        "mode": view.mode.as_str(),
        "authorities": view.authorities.iter().map(authority).collect::<Vec<_>>(),
        "rotation_waits_for": texts(&view.awaited),
        "expires": view.not_after.map(|end| end.to_string()),
        "days_left": days(view.not_after),
        "shared_secret": view.has_secret,
        "members": members.collect::<Vec<_>>(),
        "tokens": view.tokens.iter().map(token).collect::<Vec<_>>(),
        "plain": plain.collect::<Vec<_>>(),
    })
}
