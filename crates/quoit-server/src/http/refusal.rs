//! Error answers.

use super::head::Method;
use super::response::{HTML, JSON, ReplyForm, TEXT, reply};
use crate::memory::NoMemory;
use quoit_core::{DataTypeError, QuorumKind, RequestError, UnmetCondition};
use quoit_model::data_type::{ApplyError, UpdateError};
use serde_json::Value;
use std::borrow::Cow;
use std::io;

/// Reasons why a request gets an error instead of its answer.
#[derive(Debug)]
pub enum Refusal {
    /// A status and a text for the client.
    Text(u16, Cow<'static, str>),
    /// A status, and a page that only shows the status.
    Page(u16),
    /// A status, and a page that shows the status with a text that explains it.
    PageWithText(u16, String),
    /// A status and a JSON document.
    Json(u16, Value),
    /// The resource does not accept the method; it accepts these.
    Method(&'static [Method]),
    /// Like `Method`, with a JSON document.
    MethodJson(&'static [Method], Value),
    /// The request needs TLS: a text, and true if the answer has a media type. As in Riak, most resources
    /// omit it.
    Upgrade(&'static str, bool),
    /// The credentials are missing or wrong.
    Unauthorized,
    /// The administration API needs a login: a status, a document, and for clients on this machine the path
    /// of the administration socket, which needs no login.
    Locked(u16, Value, Option<String>),
    /// The connection has failed.
    Socket(io::Error),
}

impl From<NoMemory> for Refusal {
    fn from(fault: NoMemory) -> Self {
        Self::Text(503, format!("The answer is not sent: {fault}\n").into())
    }
}

impl From<io::Error> for Refusal {
    fn from(fault: io::Error) -> Self {
        Self::Socket(fault)
    }
}

impl Refusal {
    /// 400 with a text.
    pub fn bad(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Text(400, text.into())
    }

    /// The object does not exist.
    pub const fn not_found() -> Self {
        Self::Text(404, Cow::Borrowed("not found\n"))
    }

    /// Writes the error answer.
    ///
    /// # Errors
    ///
    /// When the connection has failed.
    pub fn write(self, out: &mut Vec<u8>, form: ReplyForm) -> io::Result<()> {
        match self {
            Self::Text(status, text) => {
                reply(out, form, status).content_type(TEXT).finish(text.as_bytes())
            }
            Self::Page(status) => write_page(out, form, status, None, ""),
            Self::PageWithText(status, text) => write_page(out, form, status, None, &text),
            Self::Upgrade(text, true) => {
                reply(out, form, 426).content_type(TEXT).finish(text.as_bytes())
            }
            Self::Upgrade(text, false) => reply(out, form, 426).finish(text.as_bytes()),
            Self::Locked(status, value, socket) => {
                let mut answer = reply(out, form, status);
                if status == 401 {
                    answer = answer.header("WWW-Authenticate", b"Basic realm=\"Riak\"");
                }
                if let Some(socket) = socket {
                    answer = answer.header("Quoit-Admin-Socket", socket.as_bytes());
                }
                answer.content_type(JSON).finish(value.to_string().as_bytes());
            }
            Self::Unauthorized => {
                let challenge = Some(("WWW-Authenticate", "Basic realm=\"Riak\""));
                write_page(out, form, 401, challenge, "");
            }
            Self::Json(status, value) => {
                reply(out, form, status).content_type(JSON).finish(value.to_string().as_bytes());
            }
            Self::Method(allowed) => {
                write_page(out, form, 405, Some(("Allow", &names(allowed))), "");
            }
            Self::MethodJson(allowed, value) => reply(out, form, 405)
                .header("Allow", names(allowed).as_bytes())
                .content_type(JSON)
                .finish(value.to_string().as_bytes()),
            Self::Socket(fault) => return Err(fault),
        }
        Ok(())
    }
}

fn names(methods: &[Method]) -> String {
    methods.iter().map(|method| method.name()).collect::<Vec<_>>().join(", ")
}

/// Writes a page with the status and, unless it is empty, a text.
fn write_page(
    out: &mut Vec<u8>,
    form: ReplyForm,
    status: u16,
    header: Option<(&str, &str)>,
    text: &str,
) {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let paragraph = if text.is_empty() { String::new() } else { format!("<p>{escaped}</p>") };
    let page = format!(
        "<!DOCTYPE html><html><head><title>{status}</title></head>\
         <body><h1>{}</h1>{paragraph}</body></html>\n",
        super::response::status_line(status)
    );
    let mut answer = reply(out, form, status);
    if let Some((name, value)) = header {
        answer = answer.header(name, value.as_bytes());
    }
    answer.content_type(HTML).finish(page.as_bytes());
}

impl From<RequestError> for Refusal {
    /// Uses the texts that clients of Riak's object resources know.
    fn from(fault: RequestError) -> Self {
        let (status, text) = match &fault {
            RequestError::Key(fault) => (400, format!("{fault}\n")),
            RequestError::NoSuchType(name) => {
                (404, format!("Unknown bucket type: {}", String::from_utf8_lossy(name)))
            }
            RequestError::Consistent(_) => (501, format!("{fault}\n")),
            RequestError::NVal(fault) => (400, n_val_text(fault.n_val)),
            RequestError::Unsatisfied { kind: QuorumKind::W, .. } => {
                (503, "Too Many write failures to satisfy W/DW\n".into())
            }
            RequestError::Unsatisfied { kind, wanted, got } => {
                (503, format!("{}-value unsatisfied: {got}/{wanted}\n", quorum_name(*kind)))
            }
            RequestError::Unmet(UnmetCondition::Http | UnmetCondition::Exists) => {
                return Self::Page(412);
            }
            RequestError::Unmet(UnmetCondition::Modified | UnmetCondition::Missing) => {
                return Self::Page(409);
            }
            RequestError::Context(_) | RequestError::RemoteContext(_) => {
                (400, format!("{fault}\n"))
            }
            RequestError::DataType(DataTypeError::Update(UpdateError::Apply(
                ApplyError::NoSuchElement { .. } | ApplyError::NoSuchField { .. },
            ))) => (500, format!("Error:\n{}\n", crate::erlang_text::request_error(&fault))),
            RequestError::DataType(_) | RequestError::RemoteDataType(_) => {
                (400, format!("{fault}\n"))
            }
            RequestError::Vetoed(text) | RequestError::Precommit(text) => (403, text.clone()),
            RequestError::HookNotRun(_) => return Self::PageWithText(500, fault.to_string()),
            RequestError::Timeout => (503, "request timed out\n".into()),
            RequestError::Overload => (503, "Error:\noverload\n".into()),
            RequestError::InsufficientNodes { .. }
            | RequestError::InsufficientVnodes { .. }
            | RequestError::InsufficientCoverage
            | RequestError::AllNodesDown
            | RequestError::ObjectTooLarge { .. }
            | RequestError::TooManySiblings(_) => {
                (500, format!("Error:\n{}\n", crate::erlang_text::request_error(&fault)))
            }
            RequestError::Store(_) | RequestError::Damaged(_) | RequestError::Remote(_) => {
                tracing::error!(%fault, "request failed");
                (500, format!("Error:\n{fault}\n"))
            }
        };
        Self::Text(status, text.into())
    }
}

/// The text for a quorum that exceeds the number of replicas.
pub fn n_val_text(n_val: u32) -> String {
    format!("Specified w/dw/pw/node_confirms values invalid for bucket n value of {n_val}\n")
}

const fn quorum_name(kind: QuorumKind) -> &'static str {
    match kind {
        QuorumKind::R => "R",
        QuorumKind::Pr => "PR",
        QuorumKind::W => "W",
        QuorumKind::Dw => "DW",
        QuorumKind::Pw => "PW",
        QuorumKind::NodeConfirms => "node_confirms",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_model::props::NValViolation;

    const FORM: ReplyForm = ReplyForm { head_only: false, keep_alive: true, is_http_11: true };

    fn written(refusal: Refusal) -> String {
        let mut out = Vec::new();
        refusal.write(&mut out, FORM).expect("a vector takes everything");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn quorum_faults_have_the_words_that_clients_match() {
        let text = written(RequestError::from(NValViolation { n_val: 3 }).into());
        assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
        let words = "Specified w/dw/pw/node_confirms values invalid for bucket n value of 3\n";
        assert!(text.ends_with(words), "{text}");
        let missed = RequestError::Unsatisfied { kind: QuorumKind::Pw, wanted: 2, got: 1 };
        assert!(written(missed.into()).ends_with("\r\n\r\nPW-value unsatisfied: 1/2\n"));
        let text = written(RequestError::NoSuchType(b"t".to_vec()).into());
        assert!(text.starts_with("HTTP/1.1 404 ") && text.ends_with("Unknown bucket type: t"));
    }

    #[test]
    fn a_wrong_method_is_told_the_right_ones() {
        let text = written(Refusal::Method(&[Method::Get, Method::Head]));
        assert!(text.starts_with("HTTP/1.1 405 ") && text.contains("\r\nAllow: GET, HEAD\r\n"));
    }
}
