//! `quoit bench agent`: a process that waits for coordinators and runs its share of the load of each.
//!
//! An agent does one run at a time, and has no settings of the run before a coordinator sends them. It
//! sends its results to the coordinator and keeps none; the directory of a run is deleted when the run
//! ends.

mod session;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::session::{AgentSession, refuse};
use crate::link::{LinkAcceptor, LinkClock, LinkError, LinkSecurity, TOKEN_ADVICE};
use crate::run::Signals;

/// Settings of an agent.
#[derive(Debug, Clone, Default)]
pub struct AgentOptions {
    /// Address to listen on, as `host:port`.
    pub listen: String,
    /// How the agent and coordinators authenticate each other.
    pub security: LinkSecurity,
    /// Directory for the files of a run in progress. Default: the directory for temporary files.
    pub data_dir: Option<PathBuf>,
}

/// Reasons why an agent does not serve.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The address can't be listened on.
    #[error("cannot listen on {listen}: {error}")]
    Listen {
        /// The address.
        listen: String,
        /// The fault.
        error: io::Error,
    },
    /// The agent would execute orders from any process that reaches the port.
    #[error(
        "{0} can be reached from other machines, and an agent runs everything that a coordinator sends: give \
         it a token that the coordinator has, too (--token-file FILE, made by `{TOKEN_ADVICE}`), or \
         certificates (--tls-cert, --tls-key and --tls-ca), or listen on 127.0.0.1"
    )]
    Exposed(SocketAddr),
    /// The token or the certificates can't be used.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The operating system provides no event loop or signals.
    #[error("can't start the event loop: {0}")]
    System(io::Error),
}

/// Serves coordinators, one after another, until SIGINT or SIGTERM. `tell` receives lines for people.
///
/// # Errors
///
/// When the agent can't begin to serve.
pub fn serve(options: &AgentOptions, tell: fn(&str)) -> Result<(), AgentError> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(AgentError::System)?;
    let served = runtime.block_on(async {
        let acceptor = options.security.acceptor()?;
        let fault = |error| AgentError::Listen { listen: options.listen.clone(), error };
        let listener = TcpListener::bind(&options.listen).await.map_err(fault)?;
        let address = listener.local_addr().map_err(fault)?;
        if !options.security.is_proved() && !address.ip().is_loopback() {
            return Err(AgentError::Exposed(address));
        }
        let signals = Signals::listen().map_err(AgentError::System)?;
        let (stop, stopped) = watch::channel(false);
        let clock = LinkClock::start();
        let data_dir = options.data_dir.clone();
        let listening = Listening { listener, acceptor, clock, data_dir, tell, stopped };
        tell(&format!("Waiting for a coordinator on {address}; Ctrl-C stops."));
        listening.serve(signals, stop).await;
        Ok(())
    });
    // The session has ended already. Only handshakes of refused coordinators may be left.
    runtime.shutdown_background();
    served
}

/// The state of a listening agent.
struct Listening {
    listener: TcpListener,
    acceptor: LinkAcceptor,
    clock: LinkClock,
    data_dir: Option<PathBuf>,
    tell: fn(&str),
    /// Becomes true when the agent must stop.
    stopped: watch::Receiver<bool>,
}

impl Listening {
    async fn serve(&self, mut signals: Signals, stop: watch::Sender<bool>) {
        let mut current: Option<(SocketAddr, JoinHandle<()>)> = None;
        loop {
            tokio::select! {
                () = signals.next() => break,
                () = finished(&mut current) => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => self.welcome(stream, peer, &mut current),
                    Err(error) => {
                        (self.tell)(&format!("A connection could not be taken: {error}"));
                        tokio::task::yield_now().await;
                    }
                },
            }
        }
        stop.send_replace(true);
        finished_within_run(&mut current).await;
        (self.tell)("Stopped.");
    }

    /// Begins a session, or refuses the connection while another session is in progress.
    fn welcome(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        current: &mut Option<(SocketAddr, JoinHandle<()>)>,
    ) {
        if let Some((busy_with, _)) = current.as_ref().filter(|(_, task)| !task.is_finished()) {
            let reason = format!("it is busy with a run of {busy_with}");
            tokio::spawn(refuse(self.acceptor.clone(), stream, reason));
            return;
        }
        let session = AgentSession {
            peer,
            acceptor: self.acceptor.clone(),
            clock: self.clock,
            data_dir: self.data_dir.clone(),
            tell: self.tell,
            stopped: self.stopped.clone(),
        };
        *current = Some((peer, tokio::spawn(session.run(stream))));
    }
}

/// Waits for the end of the session. Never returns if there is no session.
async fn finished(current: &mut Option<(SocketAddr, JoinHandle<()>)>) {
    match current {
        Some((_, task)) => {
            // A session that panicked has ended, too.
            let _ = task.await;
            *current = None;
        }
        None => std::future::pending().await,
    }
}

/// Waits for the end of the session, if there is one.
async fn finished_within_run(current: &mut Option<(SocketAddr, JoinHandle<()>)>) {
    if current.is_some() {
        finished(current).await;
    }
}
