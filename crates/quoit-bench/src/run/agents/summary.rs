//! An agent's entry in the summary of a run.

use serde::{Deserialize, Serialize};

use super::AgentState;

/// An agent that ran a share of the workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentSummary {
    /// Host and port of the agent.
    pub address: String,
    /// Number of workers in its share.
    pub workers: u32,
    /// Number of arrivals of its share that were due and never started.
    pub unstarted: u64,
    /// Milliseconds by which the agent's clock was ahead of the coordinator's.
    pub clock_ahead_ms: f64,
    /// Uncertainty of that reading, and so of the agent's start, in milliseconds: half of a round trip.
    pub clock_uncertainty_ms: f64,
    /// Number of threads of its load generator.
    pub threads: usize,
    /// Processor time in seconds; 0 if the agent was lost.
    pub process_cpu_s: f64,
    /// The largest share of time, over the agent's threads, in which a thread was near saturation; from 0
    /// to 1.
    pub saturated_share: f64,
    /// True if that share makes the agent client-bound.
    pub client_bound: bool,
    /// The reason why the agent was lost; `None` if it worked to the end.
    pub lost: Option<String>,
}

impl AgentSummary {
    pub(super) fn of(agent: &AgentState) -> Self {
        let ms = |ns: f64| ns / 1e6;
        let shares = agent.loads.iter().map(|load| load.saturated_s / load.watched_s);
        let result = agent.result.as_ref();
        Self {
            address: agent.address.clone(),
            workers: agent.worker_count,
            unstarted: result.map_or(0, |result| result.unstarted),
            clock_ahead_ms: agent.reading.map_or(0.0, |reading| ms(reading.ahead_ns as f64)),
            clock_uncertainty_ms: agent
                .reading
                .map_or(0.0, |reading| ms(reading.uncertainty.as_nanos() as f64)),
            threads: agent.loads.len(),
            process_cpu_s: result.map_or(0.0, |result| result.process_cpu_ns as f64 / 1e9),
            saturated_share: shares.filter(|share| share.is_finite()).fold(0.0, f64::max),
            client_bound: agent.loads.iter().any(crate::measure::ThreadLoad::is_bound),
            lost: agent.fault.clone(),
        }
    }

    /// One line about the agent, for people.
    pub(crate) fn text(&self) -> String {
        let Self { address, workers, clock_ahead_ms, clock_uncertainty_ms, .. } = self;
        let bound = match (&self.lost, self.client_bound) {
            (Some(fault), _) => format!("LOST: {fault}"),
            (None, true) => "CLIENT-BOUND".to_owned(),
            (None, false) => "not client-bound".to_owned(),
        };
        format!(
            "agent {address}: {workers} workers, clock {clock_ahead_ms:+.3} ms within \
             {clock_uncertainty_ms:.3} ms, {bound}"
        )
    }
}
