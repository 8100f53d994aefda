//! The coordinator's side of the conversation with one agent.
//!
//! The steps are: exchange versions; compare clocks; send the files and the order; wait until the agent
//! reports that its workers are connected; send the start time on the agent's clock when the run is
//! released; then take the agent's seconds until its result arrives. Both sides send a sign of life at
//! intervals. A fault before the release keeps the run from starting, a later one ends the run as
//! [`RunEnd::AgentLost`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::RunAgents;
use crate::config::{NamedFile, Target};
use crate::link::{
    BEAT, CHUNK_BYTES, FromAgent, FromCoordinator, LinkClock, LinkConnector, LinkError, LinkReader,
    LinkWriter, PROTOCOL, RoundTrip, RunOrder, SILENCE_MAX, ShareEnd, best_reading, halves,
};
use crate::measure::{Delivery, ThreadLoad, Window};
use crate::run::control::{Phase, Release, ending};
use crate::run::{RunEnd, RunError};

/// Number of round trips by which the clocks are compared.
const ROUND_TRIPS: usize = 32;

/// Maximum time from the end of the run to an agent's results. Operations in flight get five seconds of it.
const END_PATIENCE: Duration = Duration::from_secs(15);

/// Maximum number of seconds by which an agent's clock can run ahead of the coordinator's within a run.
const SECONDS_AHEAD_MAX: u64 = 60;

/// The information that an agent is sent about its share.
pub(super) struct AgentOrder {
    pub(super) address: Target,
    pub(super) order: RunOrder,
    pub(super) files: Arc<[NamedFile]>,
}

/// The coordinator's side of the conversation with one agent.
pub(super) struct AgentConversation {
    run_agents: Arc<RunAgents>,
    index: usize,
    order: AgentOrder,
    connector: LinkConnector,
    ready: mpsc::Sender<Result<(), RunError>>,
    /// The release of the workers; `None` before it.
    release: Option<Release>,
    /// Number of seconds that the agent has completed.
    passed_seconds: u64,
}

impl AgentConversation {
    pub(super) fn new(
        run_agents: Arc<RunAgents>,
        index: usize,
        order: AgentOrder,
        connector: LinkConnector,
        ready: mpsc::Sender<Result<(), RunError>>,
    ) -> Self {
        Self { run_agents, index, order, connector, ready, release: None, passed_seconds: 0 }
    }

    /// Leads the agent to the end of its share. A fault before the release keeps the run from starting; a
    /// later fault ends the run.
    pub(super) async fn lead(mut self) {
        if let Err(error) = self.work().await {
            if self.release.is_some() {
                self.run_agents.lose(self.index, &error);
            } else {
                let address = self.order.address.to_string();
                let refusal = RunError::Agent { address, error: Box::new(error) };
                // If the run has already ended for another reason, nobody receives this.
                let _ = self.ready.send(Err(refusal)).await;
            }
        }
        self.run_agents.collector.finish(self.index);
    }

    async fn work(&mut self) -> Result<(), LinkError> {
        let Target { host, port } = &self.order.address;
        let stream = self.connector.connect(host, *port).await?;
        let (mut reader, mut writer) = halves(stream);
        greet(&mut reader, &mut writer).await?;
        let reading = compare_clocks(&mut reader, &mut writer).await?;
        self.run_agents.change(self.index, |agent| agent.reading = Some(reading));
        self.give_order(&mut writer).await?;
        let mut phases = self.run_agents.control.phases();
        let mut until_end = self.run_agents.control.phases();
        let over = async move {
            ending(&mut until_end).await;
            sleep(END_PATIENCE).await;
        };
        tokio::pin!(over);
        let mut beats = interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = reader.next::<FromAgent>() => {
                    if self.take(message?)? {
                        // Wait for the agent to close the connection: only then is it free for the next
                        // run.
                        let _ = timeout(SILENCE_MAX, closed(&mut reader)).await;
                        return Ok(());
                    }
                }
                _ = beats.tick() => writer.send(&FromCoordinator::Alive).await?,
                changed = phases.changed() => {
                    let phase = *phases.borrow_and_update();
                    match (changed, phase) {
                        (Ok(()), Phase::Running(release)) => {
                            self.release = Some(release);
                            let at_ns = reading.agent_ns_at(release.at);
                            writer.send(&FromCoordinator::Start { at_ns }).await?;
                        }
                        (Ok(()), Phase::Starting) => {}
                        (_, Phase::Stopping) | (Err(_), _) => {
                            writer.send(&FromCoordinator::Stop).await?;
                        }
                    }
                }
                () = &mut over => return Err(LinkError::Unended(END_PATIENCE)),
            }
        }
    }

    /// Sends the files and the order.
    async fn give_order(&self, writer: &mut LinkWriter) -> Result<(), LinkError> {
        for (index, file) in self.order.files.iter().enumerate() {
            for bytes in file.content.chunks(CHUNK_BYTES) {
                writer.send(&FromCoordinator::File { index, bytes: bytes.to_vec() }).await?;
            }
        }
        writer.send(&FromCoordinator::Order(Box::new(self.order.order.clone()))).await
    }

    /// Handles a message. Returns true for the last one.
    fn take(&mut self, message: FromAgent) -> Result<bool, LinkError> {
        match message {
            FromAgent::Alive => {}
            FromAgent::Ready => {
                // The queue has room for one message from each agent, so it is only full if an agent
                // repeats the message.
                let _ = self.ready.try_send(Ok(()));
            }
            FromAgent::Second { second, window } => {
                self.check_second(second)?;
                let count = self.run_agents.collector.operation_count();
                let window = Window::of_form(&window, count)
                    .map_err(|error| LinkError::Malformed(error.to_string()))?;
                self.deliver(second, &window);
            }
            FromAgent::Passed { seconds, loads } => {
                self.check_second(seconds)?;
                self.passed_seconds = self.passed_seconds.max(seconds);
                let loads = loads.into_iter().map(ThreadLoad::of_form).collect();
                self.run_agents.change(self.index, |agent| agent.loads = loads);
                self.deliver(seconds, &Window::new(self.run_agents.collector.operation_count()));
            }
            FromAgent::EndRequested { end, reason } => {
                let end = match end {
                    ShareEnd::Failed => RunEnd::Failed,
                    ShareEnd::Crashed => RunEnd::Crashed,
                };
                match reason.as_str() {
                    "" => self.run_agents.control.request_end(end),
                    reason => {
                        let told = format!("error: agent {}: {reason}", self.order.address);
                        self.run_agents.control.request_end_because(end, told);
                    }
                }
            }
            FromAgent::Done(result) => {
                self.run_agents.change(self.index, |agent| {
                    agent.loads = result.loads.iter().copied().map(ThreadLoad::of_form).collect();
                    agent.result = Some(result);
                });
                return Ok(true);
            }
            FromAgent::Refused { reason } => return Err(LinkError::Refused(reason)),
            FromAgent::Greeting { .. } | FromAgent::Clock { .. } => {
                return Err(LinkError::Unexpected { expected: "figures of the run" });
            }
        }
        Ok(false)
    }

    /// Checks that `second` can already have happened, because the coordinator creates windows up to it.
    fn check_second(&self, second: u64) -> Result<(), LinkError> {
        let since = |release: Release| release.measured_from.elapsed().as_secs();
        match self.release {
            // A share that has ended reports `u64::MAX`: all seconds are complete.
            Some(_) if second == u64::MAX => Ok(()),
            Some(release) if second <= since(release) + SECONDS_AHEAD_MAX => Ok(()),
            _ => Err(LinkError::Malformed(format!("second {second} of the run has not come yet"))),
        }
    }

    fn deliver(&self, second: u64, window: &Window) {
        let (passed_seconds, load) = (self.passed_seconds, ThreadLoad::default());
        self.run_agents
            .collector
            .deliver(self.index, &Delivery { second, window, passed_seconds, load });
    }
}

/// Waits until the agent closes the connection.
async fn closed(reader: &mut LinkReader) {
    while reader.next::<FromAgent>().await.is_ok() {}
}

/// Exchanges versions with the agent. Both sides must run the same version.
async fn greet(reader: &mut LinkReader, writer: &mut LinkWriter) -> Result<(), LinkError> {
    let (protocol, version) = match reader.next().await? {
        FromAgent::Greeting { protocol, version } => (protocol, version),
        FromAgent::Refused { reason } => return Err(LinkError::Refused(reason)),
        _ => return Err(LinkError::Unexpected { expected: "a greeting" }),
    };
    let ours = env!("CARGO_PKG_VERSION");
    if protocol != PROTOCOL || version != ours {
        return Err(LinkError::Version {
            theirs: version,
            their_protocol: protocol,
            ours: ours.to_owned(),
            our_protocol: PROTOCOL,
        });
    }
    writer.send(&FromCoordinator::Hello { protocol: PROTOCOL, version: ours.to_owned() }).await
}

/// Compares the clocks over a number of round trips and returns the most exact reading.
async fn compare_clocks(
    reader: &mut LinkReader,
    writer: &mut LinkWriter,
) -> Result<crate::link::ClockReading, LinkError> {
    let mut trips = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let (asked, asked_unix_ns) = (Instant::now(), LinkClock::unix_ns());
        writer.send(&FromCoordinator::AskClock).await?;
        match reader.next().await? {
            FromAgent::Clock { agent_ns, unix_ns } => trips.push(RoundTrip {
                asked,
                asked_unix_ns,
                took: asked.elapsed(),
                agent_ns,
                agent_unix_ns: unix_ns,
            }),
            FromAgent::Refused { reason } => return Err(LinkError::Refused(reason)),
            _ => return Err(LinkError::Unexpected { expected: "the time of its clock" }),
        }
    }
    best_reading(&trips).ok_or(LinkError::Silent(SILENCE_MAX))
}
