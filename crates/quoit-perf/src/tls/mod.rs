//! Costs of TLS and of permissions: processor time over TLS, handshakes, permission checks.

mod files;
mod handshakes;
mod nodes;
mod rights;

pub(crate) use handshakes::{HandshakeOptions, handshakes};
pub(crate) use nodes::nodes;
pub(crate) use rights::rights;

use crate::CommonOptions;
use crate::drive::Target;
use crate::link::Transport;
use crate::protocol::Exchange;
use crate::report::{Row, interleave, print};
use crate::servers;
use anyhow::{Context, Result};
use files::TlsFiles;

/// Measures gets and puts over TLS 1.3 on open connections, compared with unencrypted ones.
pub(crate) fn tls(common: &CommonOptions) -> Result<()> {
    let dir = tempfile::tempdir_in(&common.dir)?;
    let files = TlsFiles::make(dir.path())?;
    let mut set = common.set.clone();
    set.extend(files.node_settings());
    let (node, _) = servers::quoit(common.program_with(&set), &dir.path().join("data"))?;
    common.fill(&node, node.address, common.put(Some(0)))?;
    let address = node.pb_tls.context("the address for TLS")?;
    let over_tls = node.over(address, Transport::Tls(files.client(true)?, None));
    for (kind, exchange) in [("get", Exchange::PbGet), ("put dw=0", common.put(Some(0)))] {
        println!("PB {kind}, {} bytes", common.value_bytes);
        let row = |name: &'static str, target: Target| {
            Row::new(name, target, common.load(exchange.clone()))
        };
        let mut rows = [row("plain", node.target()), row("TLS 1.3", over_tls.clone())];
        interleave(&mut rows, common.rounds)?;
        print(&rows, &["plain"]);
        println!();
    }
    Ok(())
}
