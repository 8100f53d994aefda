//! Instructions of a permission check, counted by callgrind.

use super::files::TlsFiles;
use crate::CommonOptions;
use crate::drive::Target;
use crate::instructions::CountedLoad;
use crate::link::{Login, Transport};
use crate::protocol::Exchange;
use crate::servers::{self, Running};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

const USER: Login = Login { user: "bench", password: "" };
/// The user's credentials for HTTP.
const CREDENTIALS: &str = "Authorization: Basic YmVuY2g6";

/// Commands that make a user with grants on its bucket, on another bucket, and by groups on the type and on
/// any bucket, so that the check has several rules to choose from.
const COMMANDS: [&str; 7] = [
    "add-group readers",
    "add-user bench groups=readers",
    "add-source bench 127.0.0.1/32 trust",
    "grant riak_kv.get on default test to bench",
    "grant riak_kv.get,riak_kv.put on default other to bench",
    "grant riak_kv.list_keys on default to readers",
    "grant riak_kv.index on any to readers",
];

/// Counts the instructions of a get by a user with a grant, compared with a get on a node with security
/// off, over both protocols. All nodes start from copies of one data directory, with the same records and
/// rules.
pub(crate) fn rights(common: &CommonOptions) -> Result<()> {
    let dir = tempfile::tempdir_in(&common.dir)?;
    let files = TlsFiles::make(dir.path())?;
    let client = files.client(true)?;
    let mut set = common.set.clone();
    set.extend(files.node_settings());
    let filled = dir.path().join("filled");
    let (node, _) = servers::quoit(common.program_with(&set), &filled)?;
    common.fill(&node, node.address, common.put(Some(0)))?;
    run(&common.quoit, &COMMANDS, &filled)?;
    node.stop()?;
    let over_pb = |node: &Running, login: Option<Login>| -> Result<Target> {
        let address = node.pb_tls.context("the address for TLS")?;
        Ok(node.over(address, Transport::Tls(client.clone(), login)))
    };
    let over_http = |node: &Running| -> Result<Target> {
        let address = node.https.context("the address for HTTPS")?;
        Ok(node.over(address, Transport::Tls(client.clone(), None)))
    };
    let count = |exchange: Exchange, target_of: &dyn Fn(&Running, &Path) -> Result<Target>| {
        let load = common.load(exchange);
        let (binary, filled) = (&common.quoit, Some(filled.as_path()));
        CountedLoad { binary, set: set.clone(), filled, load, target_of }.count(common)
    };
    let switch = |data: &Path, state| run(&common.quoit, &[state], data);
    println!(
        "instructions of a get over TLS 1.3, {} gets, {} keys",
        common.operations, common.keys
    );
    println!("| get | security off | on, granted | the check | share |\n|---|---|---|---|---|");
    let print = |name: &str, unchecked: f64, checked: f64| {
        let (check, share) = (checked - unchecked, (checked - unchecked) / unchecked * 100.0);
        println!("| {name} | {unchecked:.0} | {checked:.0} | {check:.0} | {share:.2} % |");
    };
    print(
        "Protocol Buffers",
        count(Exchange::PbGet, &|node, data| {
            switch(data, "disable")?;
            over_pb(node, None)
        })?,
        count(Exchange::PbGet, &|node, data| {
            switch(data, "enable")?;
            over_pb(node, Some(USER))
        })?,
    );
    let get = Exchange::HttpGetAs(CREDENTIALS);
    print(
        "HTTPS",
        count(get.clone(), &|node, data| {
            switch(data, "disable")?;
            over_http(node)
        })?,
        count(get, &|node, data| {
            switch(data, "enable")?;
            over_http(node)
        })?,
    );
    let clear = count(Exchange::PbGet, &|node, data| {
        switch(data, "disable")?;
        Ok(node.target())
    })?;
    println!("\na Protocol Buffers get in clear, security off: {clear:.0} instructions");
    Ok(())
}

/// Runs security commands through the local socket of the node whose data directory is `data`.
fn run(binary: &Path, commands: &[&str], data: &Path) -> Result<()> {
    for words in commands {
        let done = Command::new(binary)
            .args(["admin", "--url", &format!("unix:{}", data.display()), "security"])
            .args(words.split(' '))
            .output()
            .context("starting the command")?;
        let text = String::from_utf8_lossy(&done.stdout);
        ensure!(done.status.success(), "security {words}: {text}");
    }
    Ok(())
}
