//! The driver for any HTTP server. It builds its requests from templates in the configuration.

mod plan;
mod text;

use std::io::Write as _;
use std::sync::PoisonError;

use self::plan::TemplatedPlan;
use self::text::{TextTemplate, Writer, index_of};
use super::disconnect::DisconnectTimer;
use super::http_link::{HttpLink, Method, PATH_AND_QUERY, append_to_path, check_status};
use super::{Driver, Inputs, Outcome, StartError, SystemRequirements};
use crate::config::{Config, ConfigError};
use crate::http::HttpRequest;
use crate::keygen::Exhausted;
use crate::term::Term;
use crate::valgen::Sources;
use crate::worker_place::WorkerPlace;

/// Statuses that count as success, by method.
const GET_STATUSES: &[u16] = &[200, 300, 404];
const WRITE_STATUSES: &[u16] = &[200, 201, 202, 204];
const DELETE_STATUSES: &[u16] = &[200, 201, 202, 204, 404, 410];

/// One worker: a connection to each server, and its position in each list of targets.
#[derive(Debug)]
pub(super) struct HttpTemplated {
    links: Vec<HttpLink>,
    next_places: Vec<usize>,
    writer: Writer,
    disconnect: DisconnectTimer,
    path: Vec<u8>,
    head: Vec<u8>,
    body: Vec<u8>,
}

/// An operation, by the indices of its parts in the plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct TemplatedOperation {
    method: Method,
    target: usize,
    headers: Option<usize>,
    value: Option<usize>,
    draws_value: bool,
}

impl Driver for HttpTemplated {
    const NAME: &'static str = "http";
    const OPERATIONS: &'static str = "{get, Target}, {put, Target, Value}, {post, Target, Value}, \
         {delete, Target}, each also with Headers at its end; Target and Value are names of the \
         lists targets and values";

    type Operation = TemplatedOperation;
    type Plan = TemplatedPlan;

    fn plan(config: &Config) -> Result<TemplatedPlan, ConfigError> {
        TemplatedPlan::read(config)
    }

    fn system_requirements(plan: &TemplatedPlan) -> SystemRequirements {
        let durability = "requests ask for nothing but what their templates say".to_owned();
        SystemRequirements {
            targets: plan.servers.clone(),
            additional_lists: Vec::new(),
            durability,
        }
    }

    fn operation(plan: &TemplatedPlan, term: &Term) -> Option<TemplatedOperation> {
        let (method, rest) = term.as_tuple()?.split_first()?;
        let method = match method.as_atom()? {
            "get" => Method::Get,
            "put" => Method::Put,
            "post" => Method::Post,
            "delete" => Method::Delete,
            _ => return None,
        };
        let has_value = matches!(method, Method::Put | Method::Post);
        let (target, value, headers) = match (has_value, rest) {
            (false, [target]) => (target, None, None),
            (false, [target, headers]) => (target, None, Some(headers)),
            (true, [target, value]) => (target, Some(value), None),
            (true, [target, value, headers]) => (target, Some(value), Some(headers)),
            _ => return None,
        };
        let value = match value {
            None => None,
            Some(name) => Some(index_of(name, &plan.values)?),
        };
        let text = value.and_then(|index| plan.values.get(index)).map(|(_, text)| text);
        Some(TemplatedOperation {
            method,
            target: index_of(target, &plan.targets)?,
            // As in basho_bench, an unknown name means no headers.
            headers: headers.and_then(|name| index_of(name, &plan.headers)),
            value,
            draws_value: matches!(text, Some(TextTemplate::Value)),
        })
    }

    fn draws_values(operation: TemplatedOperation) -> bool {
        operation.draws_value
    }

    async fn connect(plan: &TemplatedPlan, place: WorkerPlace) -> Result<Self, StartError> {
        let sources = sources_of(plan)?;
        let mut generators = Vec::new();
        for (_, generator) in &plan.generators {
            let mut generator = generator.clone();
            generator.start(place, &sources);
            generators.push(generator);
        }
        let mut links = Vec::new();
        for server in &plan.servers {
            links.push(HttpLink::open(server, plan.timeout, plan.security.clone()).await?);
        }
        let first_of = |(_, places): &(Term, Vec<_>)| place.number as usize % places.len();
        Ok(Self {
            links,
            next_places: plan.targets.iter().map(first_of).collect(),
            writer: Writer::new(generators, plan.key_kind),
            disconnect: DisconnectTimer::start(plan.disconnect),
            path: Vec::new(),
            head: Vec::new(),
            body: Vec::new(),
        })
    }

    #[expect(clippy::indexing_slicing, reason = "operations and servers have indexes of the plan")]
    async fn perform(
        &mut self,
        plan: &TemplatedPlan,
        operation: TemplatedOperation,
        inputs: &mut Inputs,
    ) -> Outcome {
        let mut left = plan.targets[operation.target].1.len();
        // If a connection is lost, the request is retried at the next target of the list, once at each
        // target.
        let requested = loop {
            let Ok(server) = self.prepare_request(plan, operation, inputs) else {
                return Outcome::Stop;
            };
            let (target, link) = (&plan.servers[server], &mut self.links[server]);
            let request = HttpRequest { head: &self.head, body: &self.body };
            let requested = link.request(target, plan.timeout, operation.method, request).await;
            left -= 1;
            if requested.is_ok() || left == 0 || !link.is_lost() {
                break requested;
            }
        };
        if self.disconnect.is_due() {
            self.links.iter_mut().for_each(HttpLink::close);
        }
        let wanted = match operation.method {
            Method::Get => GET_STATUSES,
            Method::Put | Method::Post => WRITE_STATUSES,
            Method::Delete => DELETE_STATUSES,
        };
        match requested.and_then(|response| check_status(response.status, wanted)) {
            Ok(()) => Outcome::Success,
            Err(reason) => Outcome::Failure(reason),
        }
    }
}

impl HttpTemplated {
    /// Writes head and body of the next request, and returns the index of its server.
    #[expect(clippy::indexing_slicing, reason = "operations and places have indexes of the plan")]
    fn prepare_request(
        &mut self,
        plan: &TemplatedPlan,
        operation: TemplatedOperation,
        inputs: &mut Inputs,
    ) -> Result<usize, Exhausted> {
        let places = &plan.targets[operation.target].1;
        let next = &mut self.next_places[operation.target];
        let place = &places[*next];
        *next = (*next + 1) % places.len();
        self.path.clear();
        self.writer.write(&place.path, inputs, &mut self.path)?;
        if !self.path.starts_with(b"/") {
            self.path.insert(0, b'/');
        }
        self.body.clear();
        if let Some(value) = operation.value {
            self.writer.write(&plan.values[value].1, inputs, &mut self.body)?;
        }
        self.head.clear();
        self.head.extend_from_slice(operation.method.token().as_bytes());
        append_to_path(&mut self.head, &self.path, PATH_AND_QUERY);
        write!(self.head, " HTTP/1.1\r\nHost: {}\r\n", plan.servers[place.server])
            .expect("writing to a vector does not fail");
        self.head.extend_from_slice(&plan.common_headers);
        if let Some(headers) = operation.headers {
            self.head.extend_from_slice(&plan.headers[headers].1);
        }
        if operation.value.is_some() {
            write!(self.head, "Content-Length: {}\r\n", self.body.len())
                .expect("writing to a vector does not fail");
        }
        self.head.extend_from_slice(b"\r\n");
        Ok(place.server)
    }
}

/// The bytes that generators cut values from, created once for all workers.
fn sources_of(plan: &TemplatedPlan) -> Result<Sources, StartError> {
    let mut made = plan.sources.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sources) = &*made {
        return Ok(sources.clone());
    }
    let kinds = plan.generators.iter().flat_map(|(_, generator)| generator.source_kinds());
    let sources = Sources::prepare(&plan.source, kinds)?;
    Ok(made.insert(sources).clone())
}
