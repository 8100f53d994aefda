//! The requests of the driver.

use std::io::Write as _;

use super::HttpRaw;
use super::plan::HttpRawPlan;
use crate::driver::http_link::{Method, check_status};
use crate::http::{HttpRequest, Response, ResponseContent, multipart};
use crate::term::Term;
use crate::verify::{Context, Read};

/// The parts of a GET's answer that the driver keeps.
pub(super) struct HttpRawAnswer {
    /// True if the answer had a vector clock to send back.
    pub(super) has_vclock: bool,
    /// The causal context of the values that were read, if the run verifies.
    pub(super) context: Option<Context>,
}

/// The values of an answer: none, one, or the parts of a multipart body.
fn values_of(status: u16, content: ResponseContent<'_>) -> Result<Vec<&[u8]>, Term> {
    match status {
        200 => Ok(vec![content.body]),
        300 => multipart::values_of(content).map_err(|error| {
            let reason = [Term::atom("bad_response"), Term::String(error.to_string())];
            Term::Tuple(vec![Term::atom("get"), Term::Tuple(reason.into())])
        }),
        _ => Ok(Vec::new()),
    }
}

impl HttpRaw {
    /// Gets the current path. A complete answer ends the read that is verified.
    pub(super) async fn get(
        &mut self,
        plan: &HttpRawPlan,
        target: usize,
        wanted: &[u16],
        read: &mut Option<Read>,
    ) -> Result<HttpRawAnswer, Term> {
        self.start_head(plan, target, Method::Get);
        if plan.is_verified {
            self.head.extend_from_slice(b"Accept: multipart/mixed, */*;q=0.5\r\n");
        }
        self.head.extend_from_slice(b"\r\n");
        let Response { status, has_vclock } = self.request(plan, target, Method::Get, &[]).await?;
        let mut context = None;
        if matches!(status, 200 | 300 | 404) && read.is_some() {
            let values = values_of(status, self.links.link(target).content())?;
            context = read.take().map(|read| read.found(values));
        }
        if status == 404 && !wanted.contains(&404) {
            let url = self.url(plan, target);
            return Err(Term::Tuple(vec![Term::atom("not_found"), Term::String(url)]));
        }
        check_status(status, wanted)?;
        Ok(HttpRawAnswer { has_vclock: has_vclock && status != 404, context })
    }

    /// Sends a value to the current path with PUT or POST.
    pub(super) async fn store(
        &mut self,
        plan: &HttpRawPlan,
        target: usize,
        method: Method,
        with_vclock: bool,
        value: &[u8],
    ) -> Result<(), Term> {
        self.start_head(plan, target, method);
        self.push_client_id();
        if with_vclock {
            self.head.extend_from_slice(b"X-Riak-Vclock: ");
            self.head.extend_from_slice(self.links.link(target).vclock());
            self.head.extend_from_slice(b"\r\n");
        }
        self.head.extend_from_slice(b"Content-Type: application/octet-stream\r\n");
        write!(self.head, "Content-Length: {}\r\n\r\n", value.len())
            .expect("writing to a vector does not fail");
        let response = self.request(plan, target, method, value).await?;
        let wanted: &[u16] = if method == Method::Post { &[201, 204] } else { &[204] };
        check_status(response.status, wanted)
    }

    pub(super) async fn delete(&mut self, plan: &HttpRawPlan, target: usize) -> Result<(), Term> {
        self.start_head(plan, target, Method::Delete);
        self.push_client_id();
        self.head.extend_from_slice(b"\r\n");
        let response = self.request(plan, target, Method::Delete, &[]).await?;
        check_status(response.status, &[204, 404])
    }

    fn start_head(&mut self, plan: &HttpRawPlan, target: usize, method: Method) {
        self.head.clear();
        self.head.extend_from_slice(method.token().as_bytes());
        self.head.extend_from_slice(&self.path);
        self.head.extend_from_slice(b" HTTP/1.1\r\n");
        self.head.extend_from_slice(plan.headers(target));
    }

    fn push_client_id(&mut self) {
        self.head.extend_from_slice(b"X-Riak-ClientId: ");
        self.head.extend_from_slice(self.client_id.as_bytes());
        self.head.extend_from_slice(b"\r\n");
    }

    /// Sends the request whose head is `self.head`.
    async fn request(
        &mut self,
        plan: &HttpRawPlan,
        target: usize,
        method: Method,
        body: &[u8],
    ) -> Result<Response, Term> {
        let link = self.links.link_mut(target);
        let request = HttpRequest { head: &self.head, body };
        link.request(plan.target(target), plan.timeout, method, request).await
    }

    fn url(&self, plan: &HttpRawPlan, target: usize) -> String {
        let path = String::from_utf8_lossy(&self.path);
        format!("http://{}{path}", plan.target(target))
    }
}
