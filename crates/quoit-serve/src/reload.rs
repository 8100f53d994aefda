//! Reloading of settings at SIGHUP.

use crate::logs::Log;
use anyhow::{Context, Result};
use quoit_cluster::InternodeTlsMode;
use quoit_config::{Settings, keys};
use quoit_core::{LimitChange, ReplicatedStore};
use quoit_server::ServerContext;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Keys that take effect at once. All others take effect at the next start.
const RELOADABLE_KEYS: [&str; 7] = [
    "log.level",
    "transfer_limit",
    "transfer_rate",
    "handoff.inbound",
    "handoff.outbound",
    "internode.tls",
    "listener.tls",
];

/// Operator signals that do not end a node.
///
/// SIGUSR1 and SIGUSR2 are ignored: other programs use them, and they would end a process that does not
/// handle them.
pub(crate) struct OperatorSignals {
    reload: Signal,
    user_first: Signal,
    user_second: Signal,
}

impl OperatorSignals {
    /// Installs the handlers. From now on, none of these signals ends the process.
    pub(crate) fn listen() -> Result<Self> {
        Ok(Self {
            reload: signal(SignalKind::hangup()).context("listening for SIGHUP")?,
            user_first: signal(SignalKind::user_defined1()).context("listening for SIGUSR1")?,
            user_second: signal(SignalKind::user_defined2()).context("listening for SIGUSR2")?,
        })
    }

    /// Reloads settings at each SIGHUP, for as long as it is polled. `load` reads all sources of settings
    /// again.
    pub(crate) async fn answer<L>(
        mut self,
        mut running: Settings,
        load: L,
        log: &Log,
        opened: &OnceLock<Arc<ServerContext>>,
    ) -> !
    where
        L: Fn() -> Result<Settings>,
    {
        loop {
            let ignored = tokio::select! {
                _ = self.reload.recv() => None,
                _ = self.user_first.recv() => Some("SIGUSR1"),
                _ = self.user_second.recv() => Some("SIGUSR2"),
            };
            if let Some(signal) = ignored {
                tracing::info!("{signal} has no meaning here and is ignored");
                continue;
            }
            match load() {
                Ok(settings) => {
                    let change = SettingsChange::between(&running, &settings);
                    change.apply(&settings, log, opened.get().map(|context| &**context));
                    change.log();
                    running = settings;
                }
                Err(fault) => {
                    tracing::error!("SIGHUP: nothing is reloaded, all settings stay: {fault:#}");
                }
            }
        }
    }
}

/// Keys whose values differ.
#[derive(Debug, PartialEq, Eq)]
struct SettingsChange {
    at_once: Vec<&'static str>,
    at_next_start: Vec<String>,
}

impl SettingsChange {
    fn between(before: &Settings, after: &Settings) -> Self {
        let names: BTreeSet<&str> = before
            .entries()
            .chain(after.entries())
            .map(|(name, _)| name)
            .chain(keys().map(|key| key.name))
            .collect();
        let differs = |name: &str| before.get(name) != after.get(name);
        let at_once: Vec<&str> = RELOADABLE_KEYS.into_iter().filter(|name| differs(name)).collect();
        let others =
            names.into_iter().filter(|name| !RELOADABLE_KEYS.contains(name) && differs(name));
        Self { at_once, at_next_start: others.map(str::to_owned).collect() }
    }

    /// Applies the changed settings that take effect at once, and no others: limits that an operator has
    /// changed by a command stay.
    fn apply(&self, settings: &Settings, log: &Log, context: Option<&ServerContext>) {
        let has = |name: &str| self.at_once.contains(&name);
        if has("log.level") {
            log.set_level(settings);
        }
        let limits = settings.store().transfer_limits;
        let change = LimitChange {
            partition_count_max: has("transfer_limit").then_some(limits.partition_count_max),
            bytes_per_sec_max: has("transfer_rate").then_some(limits.bytes_per_sec_max),
            inbound: has("handoff.inbound").then_some(limits.inbound),
            outbound: has("handoff.outbound").then_some(limits.outbound),
        };
        if let Some(context) = context {
            let store = &context.store;
            if has("listener.tls") {
                change_plaintext(context, settings.serves_plaintext());
            }
            if has("internode.tls") {
                change_link_mode(store, settings.link_mode());
            }
            store.transfers().set_limits(change.of(store.transfers().limits()));
        }
    }

    fn log(&self) {
        if self.at_once.is_empty() && self.at_next_start.is_empty() {
            tracing::info!("SIGHUP: no setting has changed");
            return;
        }
        let at_once = self.at_once.join(" ");
        tracing::info!(reloaded = at_once, "SIGHUP: settings were read again");
        if !self.at_next_start.is_empty() {
            let waiting = self.at_next_start.join(" ");
            tracing::warn!(
                keys = waiting,
                "these settings have changed and take effect at the next start"
            );
        }
    }
}

/// Applies another TLS mode for connections between nodes. Warns if the change to `required` shuts out
/// hosts.
fn change_link_mode(store: &ReplicatedStore, mode: InternodeTlsMode) {
    let hosts = store.control().set_link_mode(mode);
    tracing::info!(mode = mode.as_str(), "internode.tls has changed");
    if !hosts.is_empty() {
        tracing::warn!(
            hosts = hosts.join(" "),
            "internode.tls = required: these hosts have had connections without TLS, and are shut out if \
             they still do; internode.tls = both lets them in again"
        );
    }
}

/// Applies the setting for clients without TLS while security is on. Warns if the change to `required`
/// shuts out clients.
fn change_plaintext(context: &ServerContext, serves: bool) {
    let hosts = context.serve_plaintext(serves);
    tracing::info!(mode = if serves { "both" } else { "required" }, "listener.tls has changed");
    if !hosts.is_empty() {
        tracing::warn!(
            hosts = hosts.join(" "),
            "listener.tls = required: clients of these addresses have connected in clear, and are told to \
             begin TLS and to log in; listener.tls = both serves them again"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_config::{Sources, load};

    fn settings(lines: &[&str]) -> Settings {
        let command_line = lines.iter().map(|line| (*line).to_owned()).collect();
        load(&Sources { command_line, ..Sources::default() }).expect("good settings")
    }

    #[test]
    fn only_keys_that_differ_are_taken_up_or_told() {
        let before = settings(&["ring_size = 16", "transfer_limit = 3", "listener.http.a = h:1"]);
        let after = settings(&["ring_size = 32", "transfer_limit = 3", "log.level = debug"]);
        let change = SettingsChange::between(&before, &after);
        assert_eq!(change.at_once, ["log.level"]);
        assert_eq!(change.at_next_start, ["listener.http.a", "ring_size"]);
        let same = SettingsChange::between(&before, &before);
        assert_eq!(same, SettingsChange { at_once: Vec::new(), at_next_start: Vec::new() });
    }
}
