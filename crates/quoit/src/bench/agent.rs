//! `quoit bench agent`, and the options for the trust between agents and coordinators.

use clap::Args;
use quoit_bench::agent::{AgentOptions, serve};
use quoit_bench::cli::AgentSecurity;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run a share of a coordinator's load, on a machine of its own.
///
/// One load generator is limited by its machine. Agents on several machines run the workers of one
/// configuration together, and one coordinator collects the figures of all:
///
/// openssl rand -hex 32 > agents.token && chmod 600 agents.token
///
/// quoit bench agent --listen 10.0.0.1:8077 --token-file agents.token
///
/// quoit bench FILE --agents 10.0.0.1,10.0.0.2 --token-file agents.token
///
/// The agent waits for a coordinator, runs its share, sends its measurements every second, and waits for
/// the next coordinator; Ctrl-C stops it. It does one run at a time and leaves no files. An agent runs what
/// a coordinator tells it to, so it only listens beyond loopback with a token or certificates.
#[derive(Args, Debug)]
pub(crate) struct AgentArgs {
    /// Address and port to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8077")]
    listen: String,
    #[command(flatten)]
    security: AgentSecurityArgs,
    /// Directory for temporary files of a run, such as the stores of in-process drivers [default: the
    /// system's directory for temporary files].
    #[arg(short = 'd', long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Options for authentication between agents and coordinator.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Trust between agents and coordinator")]
pub(crate) struct AgentSecurityArgs {
    /// File with a token of at least 128 bits that agents and coordinator share; only its owner may read
    /// it. The token is never sent, and the connection is encrypted.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tls_cert", "tls_key", "tls_ca"])]
    token_file: Option<PathBuf>,
    /// File of the certificate to present to the other side; an agent's certificate must have its host as a
    /// name.
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    tls_cert: Option<PathBuf>,
    /// File of the private key of --tls-cert.
    #[arg(long, value_name = "FILE", requires_all = ["tls_cert", "tls_ca"])]
    tls_key: Option<PathBuf>,
    /// File of the certificate authorities for the other side's certificate.
    #[arg(long, value_name = "FILE", requires_all = ["tls_cert", "tls_key"])]
    tls_ca: Option<PathBuf>,
}

impl AgentSecurityArgs {
    pub(crate) fn security(&self) -> AgentSecurity {
        let files = [&self.tls_cert, &self.tls_key, &self.tls_ca].map(Clone::clone);
        let tls_files = match files {
            [Some(certificate), Some(key), Some(authorities)] => {
                Some([certificate, key, authorities])
            }
            _ => None,
        };
        AgentSecurity { token_file: self.token_file.clone(), tls_files }
    }
}

impl AgentArgs {
    /// Runs the command.
    pub(crate) fn run(&self) -> ExitCode {
        let served = self.security.security().load().map_err(Into::into).and_then(|security| {
            let options = AgentOptions {
                listen: self.listen.clone(),
                security,
                data_dir: self.data_dir.clone(),
            };
            serve(&options, tell)
        });
        match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                // A closed standard error can't be reported anywhere.
                let _ = writeln!(std::io::stderr(), "quoit bench agent: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

/// Prints a line without buffering, for programs that wait for it.
fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    // If the reader is gone, the agent continues without output.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
