//! One share of a run in the process of an agent. It sends its seconds to the coordinator, which starts and
//! stops it.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;

use super::control::Release;
use super::coordinator::{Prepared, event_loop};
use super::members::RunMembers;
use super::mix::build_mix;
use super::planned_driver::PlannedDriver;
use super::threads::{join, start_threads};
use super::{RunEnd, RunError};
use crate::config::Config;
use crate::link::{FromAgent, GapsForm, ShareEnd, ShareResult};
use crate::measure::{Gaps, ThreadLoad, common_gaps};
use crate::output::RunLog;

/// Commands from the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShareCommand {
    /// Start the workers at this time.
    Start(Instant),
    /// Stop; workers finish the operation that they are at.
    Stop,
}

/// Everything that a share needs, apart from its driver.
#[derive(Debug)]
pub(crate) struct ShareSetup<'a> {
    pub(crate) config: &'a Config,
    pub(crate) log: Arc<RunLog>,
    /// Messages to the coordinator.
    pub(crate) told: mpsc::Sender<FromAgent>,
    /// Commands. The channel closes when the coordinator is gone.
    pub(crate) commands: mpsc::Receiver<ShareCommand>,
}

/// Runs a share to its end, with the driver that was planned for its configuration.
///
/// # Errors
///
/// When the share can't start, or one of its threads is lost.
pub(crate) fn run_share(
    driver: Arc<dyn PlannedDriver>,
    setup: ShareSetup<'_>,
) -> Result<(), RunError> {
    let ShareSetup { config, log, told, mut commands } = setup;
    let (mix, operations) = build_mix(&config.operations);
    let (ready, mut connected) = mpsc::channel(config.worker_count.max(1) as usize);
    let prepared = Prepared { driver, mix, operations: &operations, verifier: None };
    let shared = prepared.shared(config, log, ready)?;
    let threads = start_threads(&shared, config.thread_count as usize)?;
    let course = ShareCourse { members: &*shared, config, told: &told };
    let ran = event_loop()?.block_on(async {
        match course.wait_for_start(&mut connected, &mut commands).await? {
            Some(at) => course.run(at, &mut commands).await,
            None => Ok(ShareResult::default()),
        }
    });
    shared.control.stop();
    join(threads)?;
    // Fails if the coordinator is gone, which then needs no result.
    let _ = told.blocking_send(FromAgent::Done(ran?));
    Ok(())
}

/// A running share.
struct ShareCourse<'a> {
    members: &'a dyn RunMembers,
    config: &'a Config,
    told: &'a mpsc::Sender<FromAgent>,
}

impl ShareCourse<'_> {
    /// Waits until all workers are connected, reports that, and waits for the start. Returns `None` if the
    /// run is stopped first.
    async fn wait_for_start(
        &self,
        connected: &mut mpsc::Receiver<Result<(), RunError>>,
        commands: &mut mpsc::Receiver<ShareCommand>,
    ) -> Result<Option<Instant>, RunError> {
        for _ in 0..self.members.member_count() {
            tokio::select! {
                ready = connected.recv() => ready.unwrap_or(Err(RunError::StartCrash))?,
                () = self.members.control().end_requested() => return Err(RunError::StartCrash),
                _ = commands.recv() => return Ok(None),
            }
        }
        self.tell(FromAgent::Ready).await;
        let Some(ShareCommand::Start(at)) = commands.recv().await else { return Ok(None) };
        let stopped = tokio::select! {
            () = tokio::time::sleep_until(at.into()) => false,
            _ = commands.recv() => true,
        };
        Ok((!stopped).then_some(at))
    }

    /// Runs the workers from `at` on.
    async fn run(
        &self,
        at: Instant,
        commands: &mut mpsc::Receiver<ShareCommand>,
    ) -> Result<ShareResult, RunError> {
        let (control, collector) = (self.members.control(), self.members.collector());
        let cpu_before = self.members.process_cpu();
        let measured_from = at + self.config.warmup;
        let deadline = self.config.length.bound().map(|length| measured_from + length);
        let release = Release { at, measured_from, deadline };
        control.release(release);
        let mut stopped_at = None;
        let mut has_asked = false;
        loop {
            let completed = collector.take_completed();
            for (second, window) in completed.windows {
                self.tell(FromAgent::Second { second, window: Box::new(window.to_form()) }).await;
            }
            if completed.is_finished {
                self.ask_for_end(&mut has_asked).await;
                let over_at = release.end_by(stopped_at.unwrap_or_else(Instant::now));
                let gaps = common_gaps(&self.members.gaps());
                return Ok(ShareResult {
                    elapsed_ns: nanos(self.members.elapsed(measured_from)),
                    unstarted: self.members.unstarted(over_at.saturating_duration_since(at)),
                    process_cpu_ns: nanos(self.members.process_cpu().saturating_sub(cpu_before)),
                    loads: self.members.loads().into_iter().map(ThreadLoad::to_form).collect(),
                    gaps: form_of_gaps(&gaps),
                });
            }
            let loads = self.members.loads().into_iter().map(ThreadLoad::to_form).collect();
            self.tell(FromAgent::Passed { seconds: completed.through_second, loads }).await;
            tokio::select! {
                () = collector.changed() => {}
                () = control.end_requested(), if !has_asked => self.ask_for_end(&mut has_asked).await,
                command = commands.recv(), if stopped_at.is_none() => match command {
                    Some(ShareCommand::Start(_)) => {}
                    Some(ShareCommand::Stop) | None => {
                        stopped_at = Some(Instant::now());
                        control.stop();
                    }
                },
            }
        }
    }

    /// Forwards a worker's request to end the run to the coordinator, once.
    async fn ask_for_end(&self, has_asked: &mut bool) {
        let Some(requested) = self.members.control().requested_end().filter(|_| !*has_asked) else {
            return;
        };
        *has_asked = true;
        let end = match requested {
            RunEnd::Crashed => ShareEnd::Crashed,
            _ => ShareEnd::Failed,
        };
        self.tell(FromAgent::EndRequested { end, reason: self.members.faults().join("; ") }).await;
    }

    /// Sends a message to the coordinator. If the coordinator is gone the message is dropped; the closed
    /// channel of commands then stops the workers.
    async fn tell(&self, message: FromAgent) {
        let _ = self.told.send(message).await;
    }
}

fn form_of_gaps(gaps: &Gaps) -> GapsForm {
    gaps.iter().map(|(start, end)| (nanos(*start), nanos(*end))).collect()
}

fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
