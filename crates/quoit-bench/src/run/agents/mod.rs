//! The coordinator's side of a run whose workers are run by agents, each of which runs its share.

mod conversation;
mod summary;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::conversation::{AgentConversation, AgentOrder};
pub use self::summary::AgentSummary;
use super::control::Control;
use super::coordinator::event_loop;
use super::members::RunMembers;
use super::{RunEnd, RunError};
use crate::config::{AgentPlan, Config};
use crate::link::{ClockReading, LinkError, ShareResult};
use crate::measure::{Collector, CollectorSize, Gaps, ThreadLoad};
use crate::share::Share;

/// Time between sending the start time to the agents and the start: enough for a message to travel around the
/// world.
const NOTICE: Duration = Duration::from_millis(500);

/// The agents of a run.
pub(super) struct RunAgents {
    control: Control,
    collector: Collector,
    agents: Mutex<Vec<AgentState>>,
}

/// The coordinator's knowledge of one agent.
struct AgentState {
    address: String,
    worker_count: u32,
    reading: Option<ClockReading>,
    loads: Vec<ThreadLoad>,
    result: Option<ShareResult>,
    /// The reason why the agent was lost, if it was.
    fault: Option<String>,
}

impl RunAgents {
    /// The agents of a plan, not connected yet.
    pub(super) fn new(
        config: &Config,
        plan: &AgentPlan,
        operation_count: usize,
    ) -> Result<Self, RunError> {
        let count = u32::try_from(plan.addresses.len()).unwrap_or(u32::MAX);
        let agent = |(index, address): (u32, &crate::config::Target)| {
            let workers = Share::new(index, count).map(|share| share.workers(config.worker_count));
            AgentState {
                address: address.to_string(),
                worker_count: workers.map_or(0, |it| u32::try_from(it.count()).unwrap_or(u32::MAX)),
                reading: None,
                loads: Vec::new(),
                result: None,
                fault: None,
            }
        };
        let agents: Vec<AgentState> = (0..count).zip(&plan.addresses).map(agent).collect();
        Ok(Self {
            control: Control::new(),
            collector: Collector::new(CollectorSize {
                thread_count: agents.len(),
                operation_count,
            }),
            agents: Mutex::new(agents),
        })
    }

    /// Starts a thread that leads all agents. `ready` receives one message for each agent, when its workers
    /// are connected or when it failed.
    ///
    /// # Errors
    ///
    /// When a file of the configuration can't be read, the certificates can't be used, or the thread can't
    /// be started.
    pub(super) fn start(
        self: &Arc<Self>,
        config: &Config,
        plan: &AgentPlan,
        ready: mpsc::Sender<Result<(), RunError>>,
    ) -> Result<JoinHandle<std::io::Result<()>>, RunError> {
        let fault = |error: LinkError| RunError::Link(Box::new(error));
        let connector = plan.security.connector().map_err(fault)?;
        let count = u32::try_from(plan.addresses.len()).unwrap_or(u32::MAX);
        let shares = (0..count).filter_map(|index| Share::new(index, count));
        let files: Arc<[_]> = config.named_files().map_err(fault)?.into();
        let mut leaders = Vec::new();
        for (share, address) in shares.zip(&plan.addresses) {
            let order = AgentOrder {
                address: address.clone(),
                order: config.order(plan, share, &files),
                files: Arc::clone(&files),
            };
            let (run_agents, ready, connector) =
                (Arc::clone(self), ready.clone(), connector.clone());
            leaders.push(AgentConversation::new(
                run_agents,
                share.index() as usize,
                order,
                connector,
                ready,
            ));
        }
        let runtime = event_loop()?;
        let lead = move || {
            runtime.block_on(async {
                let all: JoinSet<()> = leaders.into_iter().map(AgentConversation::lead).collect();
                all.join_all().await;
            });
            Ok(())
        };
        std::thread::Builder::new().name("agents".to_owned()).spawn(lead).map_err(RunError::Thread)
    }

    /// Changes the state of an agent under the lock.
    #[expect(clippy::indexing_slicing, reason = "agents have the numbers of their shares")]
    fn change<T>(&self, index: usize, change: impl FnOnce(&mut AgentState) -> T) -> T {
        change(&mut self.agents()[index])
    }

    fn agents(&self) -> MutexGuard<'_, Vec<AgentState>> {
        // Each agent's state is consistent even if a thread panicked with the lock held.
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that an agent was lost before its share was done, and ends the run.
    fn lose(&self, index: usize, error: &LinkError) {
        let reason = self.change(index, |agent| {
            agent.fault = Some(error.to_string());
            format!(
                "AGENT LOST: {}: {error}; {} of the workers are gone and the run ends: its figures lack \
                 their share from here on",
                agent.address, agent.worker_count
            )
        });
        self.control.request_end_because(RunEnd::AgentLost, reason);
    }

    /// The agents' entries in the summary of the run.
    pub(super) fn summaries(&self) -> Vec<AgentSummary> {
        self.agents().iter().map(AgentSummary::of).collect()
    }

    fn of_results<T>(&self, of: impl Fn(&ShareResult) -> T) -> Vec<T> {
        self.agents().iter().filter_map(|agent| agent.result.as_ref()).map(of).collect()
    }
}

impl RunMembers for RunAgents {
    fn control(&self) -> &Control {
        &self.control
    }

    fn collector(&self) -> &Collector {
        &self.collector
    }

    fn member_count(&self) -> u32 {
        u32::try_from(self.agents().len()).unwrap_or(u32::MAX)
    }

    fn notice_before_start(&self) -> Duration {
        NOTICE
    }

    fn unstarted(&self, _: Duration) -> u64 {
        self.of_results(|result| result.unstarted).into_iter().fold(0, u64::saturating_add)
    }

    fn replayed(&self) -> Option<f64> {
        None
    }

    fn process_cpu(&self) -> Duration {
        let of_agents = self.of_results(|result| Duration::from_nanos(result.process_cpu_ns));
        of_agents.into_iter().fold(Duration::ZERO, Duration::saturating_add)
    }

    fn elapsed(&self, measured_from: Instant) -> Duration {
        let has_lost = self.agents().iter().any(|agent| agent.fault.is_some());
        let longest = self.of_results(|result| Duration::from_nanos(result.elapsed_ns));
        match longest.into_iter().max() {
            Some(longest) if !has_lost => longest,
            // A lost agent has not reported how long it ran.
            _ => measured_from.elapsed(),
        }
    }

    fn loads(&self) -> Vec<ThreadLoad> {
        self.agents().iter().flat_map(|agent| agent.loads.clone()).collect()
    }

    fn gaps(&self) -> Vec<Gaps> {
        let duration =
            |(start, end): &(u64, u64)| (Duration::from_nanos(*start), Duration::from_nanos(*end));
        self.of_results(|result| result.gaps.iter().map(duration).collect())
    }
}
