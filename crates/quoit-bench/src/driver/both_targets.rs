//! Server lists of drivers that use both interfaces of Riak.

use super::http_link::read_security;
use crate::config::{Config, ConfigError, Target, TargetKeys};
use crate::login::HttpSecurity;
use std::sync::Arc;

/// The servers of both interfaces, each list in the order in which workers take its servers.
#[derive(Debug)]
pub(super) struct BothTargets {
    pub(super) pb: Vec<Target>,
    pub(super) http: Vec<Target>,
    /// TLS and login for HTTP.
    pub(super) security: Option<Arc<HttpSecurity>>,
}

impl BothTargets {
    /// Reads `pb_ips` and `http_ips`. Servers of the command line without a list name are for Protocol
    /// Buffers. HTTP then uses the same hosts, unless the command line names HTTP servers too.
    pub(super) fn read(config: &Config) -> Result<Self, ConfigError> {
        let pb =
            config.targets(TargetKeys { ips: "pb_ips", port: "pb_port", default_port: 8087 })?;
        let mut http = without_unnamed_overrides(config).targets(TargetKeys {
            ips: "http_ips",
            port: "http_port",
            default_port: 8098,
        })?;
        if !config.overrides(None).is_empty() && config.overrides(Some("http")).is_empty() {
            let port = config.settings.integer("http_port", 8098, 1..=u16::MAX)?;
            let on_port = |target: &Target| Target { host: target.host.clone(), port };
            http = pb.iter().map(on_port).collect();
        }
        let security = read_security(&config.settings)?;
        Ok(Self { pb, http, security })
    }
}

/// The configuration without those servers of the command line that have no list name.
pub(super) fn without_unnamed_overrides(config: &Config) -> Config {
    let mut named = config.clone();
    named.target_overrides.retain(|target| target.list.is_some());
    named
}
