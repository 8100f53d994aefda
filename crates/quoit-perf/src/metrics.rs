//! Metrics of a node.

use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Reads one metric of a node.
pub(crate) fn gauge(node: SocketAddr, name: &str) -> Result<u64> {
    let mut stream = TcpStream::connect(node).context("connecting for metrics")?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text).context("reading metrics")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.with_context(|| format!("{name} in the metrics"))?.trim().parse().context("a figure")
}
