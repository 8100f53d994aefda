//! `environment.json`: machine, program and servers of a run, for its report.

mod host;
mod server;

use std::io;
use std::path::Path;

pub use host::Host;
use serde::{Deserialize, Serialize};
pub use server::Server;

use crate::config::Target;

/// Name of the file in the directory of a run.
pub const ENVIRONMENT_FILE: &str = "environment.json";

/// Machine, program and servers of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Version of the load generator.
    pub quoit_version: String,
    /// The words of the command line.
    pub command_line: Vec<String>,
    /// The machine of the load generator.
    pub host: Host,
    /// The effects of the configuration, as pairs of a name and a text.
    pub plan: Vec<(String, String)>,
    /// File names of the configurations in the run's directory.
    pub configurations: Vec<String>,
    /// The servers, if they were asked.
    pub servers: Vec<Server>,
}

impl Environment {
    /// Collects the facts about this machine and process.
    pub(crate) fn look(plan: Vec<(String, String)>, configurations: Vec<String>) -> Self {
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        Self {
            quoit_version: env!("CARGO_PKG_VERSION").to_owned(),
            command_line: words.collect(),
            host: Host::look(),
            plan,
            configurations,
            servers: Vec::new(),
        }
    }

    /// Asks the servers to describe themselves, over the protocol of the driver.
    pub(crate) fn ask_servers(&mut self, driver: &str, targets: &[Target]) {
        self.servers = server::ask_all(driver, targets);
    }

    /// Reads the file in the directory of a run.
    ///
    /// # Errors
    ///
    /// When the file can't be read or has another format.
    pub fn read(run: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(run.join(ENVIRONMENT_FILE))?)?)
    }

    /// Writes the file to the directory of a run.
    pub(crate) fn write(&self, run: &Path) -> io::Result<()> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        std::fs::write(run.join(ENVIRONMENT_FILE), bytes)
    }
}
