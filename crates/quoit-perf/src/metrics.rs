//! Metrics of a node.

use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Reads one metric of a node.
pub(crate) fn gauge(node: SocketAddr, name: &str) -> Result<u64> {
    let [value] = gauges(node, [name])?;
    Ok(value)
}

/// Reads metrics of a node, all at the same time.
pub(crate) fn gauges<const COUNT: usize>(
    node: SocketAddr,
    names: [&str; COUNT],
) -> Result<[u64; COUNT]> {
    let mut stream = TcpStream::connect(node).context("connecting for metrics")?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text).context("reading metrics")?;
    let mut values = [0; COUNT];
    for (name, value) in names.into_iter().zip(&mut values) {
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let found = found.with_context(|| format!("{name} in the metrics"))?;
        *value = found.trim().parse().context("a figure")?;
    }
    Ok(values)
}
