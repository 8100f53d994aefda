//! Administration of a running node by the commands of operators.

use anyhow::{Context, Result};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Asks the node whose HTTP interface has this address with `quoit admin`, and returns its answer.
pub(crate) fn admin(binary: &Path, http: SocketAddr, arguments: &[&str]) -> Result<Value> {
    let mut command = Command::new(binary);
    let url = format!("http://{http}");
    command.args(["admin", "--url", &url, "--format", "json"]).args(arguments);
    let done = command.output().context("starting quoit admin")?;
    // The exit status is ignored: `ring-status` and other commands report findings by it.
    serde_json::from_slice(&done.stdout).with_context(|| {
        format!("quoit admin {arguments:?}: {}", String::from_utf8_lossy(&done.stderr))
    })
}

/// True if no partition of the cluster is moving, by the node with this address.
pub(crate) fn is_settled(binary: &Path, http: SocketAddr) -> Result<bool> {
    let transfers = admin(binary, http, &["transfers"])?;
    let is_quiet = |name: &str| transfers[name].as_array().is_some_and(Vec::is_empty);
    let ring = admin(binary, http, &["ring-status"])?;
    let is_ready = ring["ring_ready"] == true && ring["pending"] == Value::Array(vec![]);
    Ok(is_ready && is_quiet("waiting") && is_quiet("active"))
}
