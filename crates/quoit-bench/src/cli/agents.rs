//! The options about agents: their addresses, and the secrets by which agents and a coordinator
//! authenticate.

use std::path::{Path, PathBuf};

use super::BenchOptions;
use crate::config::{Config, ConfigError, LINE_FILE, agent_address};
use crate::link::{LinkError, LinkSecurity};
use crate::term::text_of;

/// A file with a token, or files of certificates. Both are `None` for agents on loopback addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentSecurity {
    /// The file whose first line is the token.
    pub token_file: Option<PathBuf>,
    /// The files of this process's certificate, of its private key, and of the certificate authorities that
    /// the peer's certificate is checked against.
    pub tls_files: Option<[PathBuf; 3]>,
}

impl AgentSecurity {
    /// Reads the token. Files of certificates are only read when a connection needs them.
    ///
    /// # Errors
    ///
    /// When the token can't be read or used.
    pub fn load(&self) -> Result<LinkSecurity, LinkError> {
        Ok(match (&self.tls_files, &self.token_file) {
            (Some([certificate, key, authorities]), _) => LinkSecurity::Certificates {
                certificate: certificate.clone(),
                key: key.clone(),
                authorities: authorities.clone(),
            },
            (None, Some(path)) => LinkSecurity::token(path)?,
            (None, None) => LinkSecurity::Open,
        })
    }
}

/// Takes the agents of the command line and what they need to know, and checks that they can share the run.
pub(super) fn plan_agents(
    config: &mut Config,
    options: &BenchOptions,
    text_of_line: Option<&str>,
) -> Result<(), ConfigError> {
    if !options.agents.is_empty() {
        let plan = config.agents.get_or_insert_default();
        plan.addresses =
            options.agents.iter().map(|text| agent_address(text)).collect::<Result<_, _>>()?;
    }
    let Some(plan) = &mut config.agents else { return Ok(()) };
    let fault = |error| ConfigError::AgentSecurity(Box::new(error));
    plan.security = options.agent_security.load().map_err(fault)?;
    plan.targets.clone_from(&options.targets);
    plan.texts = match text_of_line {
        Some(text) => vec![(LINE_FILE.to_owned(), text.to_owned())],
        None => {
            options.config_paths.iter().map(|path| text_of_file(path)).collect::<Result<_, _>>()?
        }
    };
    config.check_agents()
}

/// Reads a configuration file. Returns its path and its text.
fn text_of_file(path: &Path) -> Result<(String, String), ConfigError> {
    let bytes =
        std::fs::read(path).map_err(|error| ConfigError::Read { path: path.to_owned(), error })?;
    Ok((path.display().to_string(), text_of(&bytes)))
}
