//! An agent's session with one coordinator, from the handshake to the end of the run.

use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::cli::raise_file_limit;
use crate::config::Config;
use crate::link::{
    BEAT, FromAgent, FromCoordinator, LinkAcceptor, LinkClock, LinkError, LinkReader, LinkWriter,
    PROTOCOL, RunOrder, check_files_size, halves,
};
use crate::notices::Notices;
use crate::output::RunLog;
use crate::run::{RunError, ShareCommand, ShareSetup, plan_driver, run_share};

/// Capacity of the queue of messages to the coordinator.
const TOLD_MAX: usize = 64;

/// Capacity of the queue of commands: one start and one stop, and some repetitions.
const COMMANDS_MAX: usize = 8;

/// One session.
pub(super) struct AgentSession {
    pub(super) peer: SocketAddr,
    pub(super) acceptor: LinkAcceptor,
    pub(super) clock: LinkClock,
    pub(super) data_dir: Option<PathBuf>,
    pub(super) tell: fn(&str),
    pub(super) stopped: watch::Receiver<bool>,
}

/// Refuses a coordinator.
pub(super) async fn refuse(acceptor: LinkAcceptor, stream: TcpStream, reason: String) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let (mut reader, mut writer) = halves(stream);
    if writer.send(&FromAgent::Refused { reason }).await.is_ok() {
        writer.close().await;
        // Let the coordinator close the connection first. If this side closed it with unread data, the
        // kernel would reset the connection and could discard the refusal.
        while reader.next::<FromCoordinator>().await.is_ok() {}
    }
}

impl AgentSession {
    /// Serves the coordinator until its run has ended.
    pub(super) async fn run(mut self, stream: TcpStream) {
        let peer = self.peer;
        match self.serve(stream).await {
            Ok(()) => (self.tell)(&format!("{peer}: the run has ended.")),
            Err(error) => (self.tell)(&format!("{peer}: {error}")),
        }
    }

    async fn serve(&mut self, stream: TcpStream) -> Result<(), LinkError> {
        let (mut reader, mut writer) = halves(self.acceptor.accept(stream).await?);
        let ours = env!("CARGO_PKG_VERSION").to_owned();
        writer.send(&FromAgent::Greeting { protocol: PROTOCOL, version: ours.clone() }).await?;
        let FromCoordinator::Hello { protocol, version } = reader.next().await? else {
            return Err(LinkError::Unexpected { expected: "a greeting" });
        };
        if protocol != PROTOCOL || version != ours {
            let reason = format!(
                "the agent is version {ours} (protocol {PROTOCOL}), and the coordinator is {version} \
                 (protocol {protocol}): start the same version on both"
            );
            return refuse_politely(&mut reader, &mut writer, reason).await;
        }
        let directory = self.directory().map_err(LinkError::Broken)?;
        let received = self.receive(&mut reader, &mut writer, directory.path()).await?;
        let (share, shares) = (received.order.share.saturating_add(1), received.order.shares);
        (self.tell)(&format!("{}: runs share {share} of {shares}.", self.peer));
        self.work(received, directory, &mut reader, &mut writer).await
    }

    /// Creates a directory for the files of the run, which is deleted with it.
    fn directory(&self) -> io::Result<TempDir> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("quoit-agent-");
        match &self.data_dir {
            Some(base) => {
                fs::create_dir_all(base)?;
                builder.tempdir_in(base)
            }
            None => builder.tempdir(),
        }
    }

    /// Answers requests for the time and receives files, until the order arrives.
    async fn receive(
        &self,
        reader: &mut LinkReader,
        writer: &mut LinkWriter,
        directory: &Path,
    ) -> Result<Received, LinkError> {
        let mut paths: Vec<PathBuf> = Vec::new();
        let mut bytes_received = 0;
        loop {
            match reader.next().await? {
                FromCoordinator::AskClock => {
                    let (agent_ns, unix_ns) = (self.clock.now_ns(), LinkClock::unix_ns());
                    writer.send(&FromAgent::Clock { agent_ns, unix_ns }).await?;
                }
                FromCoordinator::File { index, bytes } => {
                    bytes_received += bytes.len() as u64;
                    check_files_size(bytes_received)?;
                    if index == paths.len() {
                        paths.push(directory.join(format!("file-{index}")));
                    }
                    let path = match paths.last() {
                        Some(path) if index + 1 == paths.len() => path.clone(),
                        _ => return Err(LinkError::Unexpected { expected: "the next file" }),
                    };
                    append(&path, &bytes).map_err(|error| LinkError::File { path, error })?;
                }
                FromCoordinator::Order(order) => {
                    // A file without bytes is sent in no message, so it is created here.
                    while paths.len() < order.files.len() {
                        let path = directory.join(format!("file-{}", paths.len()));
                        append(&path, b"")
                            .map_err(|error| LinkError::File { path: path.clone(), error })?;
                        paths.push(path);
                    }
                    return Ok(Received { order: *order, paths });
                }
                FromCoordinator::Alive => {}
                _ => return Err(LinkError::Unexpected { expected: "an order" }),
            }
        }
    }

    /// Runs the share on a thread of its own, and forwards messages between the share and the coordinator.
    async fn work(
        &mut self,
        received: Received,
        directory: TempDir,
        reader: &mut LinkReader,
        writer: &mut LinkWriter,
    ) -> Result<(), LinkError> {
        let (told, mut telling) = mpsc::channel(TOLD_MAX);
        let (command, commands) = mpsc::channel(COMMANDS_MAX);
        let mut command = Some(command);
        let work = move || run_order(&received, directory.path(), told, commands);
        let thread = std::thread::Builder::new().name("share".to_owned()).spawn(work);
        let thread = thread.map_err(LinkError::Broken)?;
        let mut beats = interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut outcome = Ok(());
        loop {
            let is_led = command.is_some();
            let passed = tokio::select! {
                message = telling.recv() => match message {
                    Some(message) if is_led => {
                        let sent = writer.send(&message).await;
                        if matches!(message, FromAgent::Done(_) | FromAgent::Refused { .. }) {
                            // After the last message, wait only for the share; the coordinator closes the
                            // connection.
                            command = None;
                        }
                        sent
                    }
                    // The coordinator is no longer listening, so the message is dropped.
                    Some(_) => Ok(()),
                    None => break,
                },
                _ = beats.tick(), if is_led => writer.send(&FromAgent::Alive).await,
                message = reader.next(), if is_led => {
                    message.and_then(|message| pass_on(&message, self.clock, command.as_ref()))
                }
                () = told_to_stop(&mut self.stopped), if is_led => {
                    let reason = "it was stopped".to_owned();
                    // The agent stops even if it can't notify the coordinator.
                    let _ = writer.send(&FromAgent::Refused { reason }).await;
                    command = None;
                    Ok(())
                }
            };
            if let Err(error) = passed
                && command.take().is_some()
            {
                (self.tell)(&format!("{}: {error}; its run is ended.", self.peer));
                outcome = Err(error);
            }
        }
        // A share that panicked has sent no result. The coordinator notices the end of the connection.
        let _ = thread.join();
        writer.close().await;
        outcome
    }
}

/// Forwards a command of the coordinator to the share.
fn pass_on(
    message: &FromCoordinator,
    clock: LinkClock,
    command: Option<&mpsc::Sender<ShareCommand>>,
) -> Result<(), LinkError> {
    let passed = match message {
        FromCoordinator::Alive => return Ok(()),
        FromCoordinator::Start { at_ns } => {
            ShareCommand::Start(clock.instant(*at_ns).unwrap_or_else(Instant::now))
        }
        FromCoordinator::Stop => ShareCommand::Stop,
        _ => return Err(LinkError::Unexpected { expected: "start or stop" }),
    };
    // A share that has ended accepts no commands.
    let _ = command.map(|command| command.try_send(passed));
    Ok(())
}

/// Waits until the agent must stop.
async fn told_to_stop(stopped: &mut watch::Receiver<bool>) {
    // A closed channel means that the agent has stopped.
    let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
}

/// An order, with the paths of the files that came before it.
struct Received {
    order: RunOrder,
    paths: Vec<PathBuf>,
}

fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::OpenOptions::new().create(true).append(true).open(path)?.write_all(bytes)
}

/// Refuses the run, and waits until the coordinator closes the connection.
async fn refuse_politely(
    reader: &mut LinkReader,
    writer: &mut LinkWriter,
    reason: String,
) -> Result<(), LinkError> {
    writer.send(&FromAgent::Refused { reason: reason.clone() }).await?;
    writer.close().await;
    while reader.next::<FromCoordinator>().await.is_ok() {}
    Err(LinkError::Refused(reason))
}

/// Runs a share. If it can't run, tells the coordinator why.
fn run_order(
    received: &Received,
    directory: &Path,
    told: mpsc::Sender<FromAgent>,
    commands: mpsc::Receiver<ShareCommand>,
) {
    let refusals = told.clone();
    let prepared = || -> Result<(), RunError> {
        let mut config = Config::of_order(&received.order, &received.paths)?;
        directory.clone_into(&mut config.run_directory);
        let log = Arc::new(RunLog::create(directory, config.log_level)?);
        let of_run = log.clone();
        config.notices = Notices::to(move |level, text| of_run.write(level, text));
        config.key_generator.set_notices(&config.notices);
        raise_file_limit(u64::from(config.worker_count), &log);
        let setup = ShareSetup { config: &config, log, told, commands };
        run_share(plan_driver(&config)?, setup)
    };
    if let Err(error) = prepared() {
        // Fails if the coordinator is gone, which then needs no reason.
        let _ = refusals.blocking_send(FromAgent::Refused { reason: error.to_string() });
    }
}
