//! The driver of Riak's object HTTP API, with the requests that basho_bench makes.

mod plan;
mod requests;
mod target_links;

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::disconnect::DisconnectTimer;
use super::http_link::{HttpLink, Method, SEGMENT, append_to_path};
use super::inputs::acknowledge;
use super::{Driver, Inputs, Outcome, StartError, SystemRequirements, check_values_are_bytes};
use crate::config::{Config, ConfigError};
use crate::keygen::Exhausted;
use crate::random::mix;
use crate::term::Term;
use crate::verify::Read;
use crate::worker_place::WorkerPlace;
use plan::{HttpRawPlan, read_plan, write_path};
use target_links::TargetLinks;

/// One worker: a keep-alive connection to each target. Operations take the targets in turn.
#[derive(Debug)]
pub(super) struct HttpRaw {
    links: TargetLinks,
    client_id: String,
    path: Vec<u8>,
    head: Vec<u8>,
    /// Index of the next file that `put_file` stores.
    next_file: usize,
    disconnect: DisconnectTimer,
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HttpRawOperation {
    Get,
    GetExisting,
    Update,
    UpdateExisting,
    Put,
    Insert,
    Delete,
    Stat,
    PutFile,
}

impl Driver for HttpRaw {
    const NAME: &'static str = "http_raw";
    const OPERATIONS: &'static str = "get, get_existing, update, update_existing, put, insert, delete, stat, \
         put_file";

    type Operation = HttpRawOperation;
    type Plan = HttpRawPlan;

    fn plan(config: &Config) -> Result<HttpRawPlan, ConfigError> {
        check_values_are_bytes(config, Self::NAME)?;
        read_plan(config)
    }

    fn system_requirements(plan: &HttpRawPlan) -> SystemRequirements {
        let durability = match String::from_utf8_lossy(&plan.params) {
            params if params.is_empty() => {
                "w, dw: requests carry none, the bucket decides".to_owned()
            }
            params => {
                format!("every request has {params}; otherwise the bucket's properties apply")
            }
        };
        SystemRequirements {
            targets: plan.targets.clone(),
            additional_lists: Vec::new(),
            durability,
        }
    }

    fn operation(plan: &HttpRawPlan, term: &Term) -> Option<HttpRawOperation> {
        Some(match term.as_atom()? {
            "get" => HttpRawOperation::Get,
            "get_existing" => HttpRawOperation::GetExisting,
            "update" => HttpRawOperation::Update,
            "update_existing" => HttpRawOperation::UpdateExisting,
            "put" => HttpRawOperation::Put,
            "insert" => HttpRawOperation::Insert,
            "delete" => HttpRawOperation::Delete,
            "stat" => HttpRawOperation::Stat,
            "put_file" if plan.files.is_some() => HttpRawOperation::PutFile,
            _ => return None,
        })
    }

    fn missing(term: &Term) -> Option<&'static str> {
        let name = term.as_tuple().and_then(|parts| parts.first()).unwrap_or(term).as_atom()?;
        match name {
            "search" => Some("Quoit has no search"),
            "put_file" => Some("name the directory of the files: {file_dir, \"path\"}"),
            _ => None,
        }
    }

    fn draws_values(operation: HttpRawOperation) -> bool {
        use HttpRawOperation::{Insert, Put, Update, UpdateExisting};
        matches!(operation, Put | Insert | Update | UpdateExisting)
    }

    async fn connect(plan: &HttpRawPlan, place: WorkerPlace) -> Result<Self, StartError> {
        let count = plan.targets.len();
        let first = quoit_number::index(mix(u64::from(place.number)) % count as u64);
        let mut links = Vec::with_capacity(count);
        for (number, target) in plan.targets.iter().enumerate() {
            let security = plan.security.clone();
            links.push(match number == first {
                true => HttpLink::open(target, plan.timeout, security).await?,
                false => HttpLink::new(security),
            });
        }
        if plan.is_verified {
            links.iter_mut().for_each(HttpLink::verify);
        }
        Ok(Self {
            links: TargetLinks::new(links, first),
            client_id: STANDARD.encode(place.number.to_be_bytes()),
            path: Vec::new(),
            head: Vec::new(),
            next_file: 0,
            disconnect: DisconnectTimer::start(plan.disconnect),
        })
    }

    async fn perform(
        &mut self,
        plan: &HttpRawPlan,
        operation: HttpRawOperation,
        inputs: &mut Inputs,
    ) -> Outcome {
        let mut file = None;
        match operation {
            HttpRawOperation::Stat => {
                self.path.clear();
                self.path.extend_from_slice(b"/stats");
            }
            HttpRawOperation::PutFile => match self.take_file(plan) {
                Some(path) => file = Some(path),
                None => return Outcome::Stop,
            },
            _ => match inputs.next_key() {
                Ok(key) => write_path(&mut self.path, plan, key),
                Err(_) => return Outcome::Stop,
            },
        }
        let done = self.attempt_anywhere(plan, operation, inputs, file).await;
        if self.disconnect.is_due() {
            self.links.close();
        }
        match done {
            Ok(()) => Outcome::Success,
            Err(HttpAttemptError::Failed(reason)) => Outcome::Failure(reason),
            Err(HttpAttemptError::Exhausted) => Outcome::Stop,
        }
    }

    const VERIFIES: bool = true;

    async fn read_back(&mut self, plan: &HttpRawPlan, key: &[u8], read: Read) -> Result<(), Term> {
        self.path.clear();
        self.path.extend_from_slice(&plan.key_prefix);
        self.path.extend_from_slice(key);
        self.path.extend_from_slice(&plan.params);
        let (mut read, mut left) = (Some(read), self.links.count());
        loop {
            let target = self.links.take_turn();
            let answered = self.get(plan, target, &[200, 300, 404], &mut read).await;
            left -= 1;
            if answered.is_ok() || left == 0 || !self.links.link(target).is_lost() {
                return answered.map(drop);
            }
        }
    }
}

/// Reasons why an operation did not complete.
#[derive(Debug)]
enum HttpAttemptError {
    /// The operation failed, and is not retried.
    Failed(Term),
    /// A finite generator has ended.
    Exhausted,
}

impl From<Term> for HttpAttemptError {
    fn from(reason: Term) -> Self {
        Self::Failed(reason)
    }
}

impl From<Exhausted> for HttpAttemptError {
    fn from(_: Exhausted) -> Self {
        Self::Exhausted
    }
}

impl HttpRaw {
    /// The next file to store. The last segment of the path becomes its name. `None` after the last file.
    fn take_file<'p>(&mut self, plan: &'p HttpRawPlan) -> Option<&'p Path> {
        let file = plan.files.as_ref()?.get(self.next_file)?;
        self.next_file += 1;
        self.path.clear();
        self.path.extend_from_slice(&plan.key_prefix);
        let name = file.file_name().unwrap_or_default();
        append_to_path(&mut self.path, name.as_encoded_bytes(), SEGMENT);
        self.path.extend_from_slice(&plan.params);
        Some(file)
    }

    /// The key in the current path, percent-encoded. Verification uses this form.
    fn key(&self, plan: &HttpRawPlan) -> &[u8] {
        let range = plan.key_prefix.len()..self.path.len().saturating_sub(plan.params.len());
        self.path.get(range).unwrap_or_default()
    }

    /// Performs the operation at the next target. If the connection to the server is lost, the operation
    /// starts over at another target, at most once at each.
    async fn attempt_anywhere(
        &mut self,
        plan: &HttpRawPlan,
        operation: HttpRawOperation,
        inputs: &mut Inputs,
        file: Option<&Path>,
    ) -> Result<(), HttpAttemptError> {
        let mut left = self.links.count();
        loop {
            let target = self.links.take_turn();
            let done = self.attempt(plan, target, operation, inputs, file).await;
            left -= 1;
            if done.is_ok() || left == 0 || !self.links.link(target).is_lost() {
                return done;
            }
        }
    }

    /// Performs the operation at one target.
    async fn attempt(
        &mut self,
        plan: &HttpRawPlan,
        target: usize,
        operation: HttpRawOperation,
        inputs: &mut Inputs,
        file: Option<&Path>,
    ) -> Result<(), HttpAttemptError> {
        let found: &[u16] = match operation {
            HttpRawOperation::GetExisting | HttpRawOperation::UpdateExisting => &[200, 300],
            _ => &[200, 300, 404],
        };
        match operation {
            HttpRawOperation::Get | HttpRawOperation::GetExisting => {
                let mut read = inputs.begin_read(self.key(plan));
                self.get(plan, target, found, &mut read).await?;
                Ok(())
            }
            HttpRawOperation::Stat => {
                self.get(plan, target, &[200], &mut None).await?;
                Ok(())
            }
            HttpRawOperation::Update | HttpRawOperation::UpdateExisting => {
                let mut read = inputs.begin_read(self.key(plan));
                let answer = self.get(plan, target, found, &mut read).await?;
                let (write, value) = inputs.begin_put(self.key(plan), answer.context.as_ref())?;
                self.store(plan, target, Method::Put, answer.has_vclock, &value).await?;
                acknowledge(write);
                Ok(())
            }
            HttpRawOperation::Put => {
                let (write, value) = inputs.begin_put(self.key(plan), None)?;
                self.store(plan, target, Method::Put, false, &value).await?;
                acknowledge(write);
                Ok(())
            }
            HttpRawOperation::Insert => {
                self.path.clear();
                self.path.extend_from_slice(&plan.bucket_path);
                self.path.extend_from_slice(&plan.params);
                self.store(plan, target, Method::Post, false, inputs.next_bytes()?).await?;
                Ok(())
            }
            HttpRawOperation::Delete => {
                let write = inputs.begin_delete(self.key(plan));
                self.delete(plan, target).await?;
                acknowledge(write);
                Ok(())
            }
            HttpRawOperation::PutFile => {
                let value = file.map_or_else(|| Ok(Vec::new()), read_file)?;
                self.store(plan, target, Method::Put, false, &value).await?;
                Ok(())
            }
        }
    }
}

/// The content of a file. Reading blocks the worker's thread.
fn read_file(path: &Path) -> Result<Vec<u8>, Term> {
    std::fs::read(path).map_err(|error| {
        let (path, error) = (path.display().to_string(), error.to_string());
        Term::Tuple(vec![Term::atom("file"), Term::String(path), Term::String(error)])
    })
}
