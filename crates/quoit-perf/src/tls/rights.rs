//! Instructions of the check of a right, counted by callgrind.

use super::files::TlsFiles;
use crate::Common;
use crate::drive::Target;
use crate::instructions::CountedLoad;
use crate::link::{Login, Transport};
use crate::protocol::Exchange;
use crate::servers::Running;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

const USER: Login = Login { user: "bench", password: "" };

/// A user with grants on its bucket, its neighbours, the type, and by groups, so that the check has rules to
/// choose from.
const COMMANDS: [&str; 8] = [
    "add-group readers",
    "add-user bench groups=readers",
    "add-source bench 127.0.0.1/32 trust",
    "grant riak_kv.get on default test to bench",
    "grant riak_kv.get,riak_kv.put on default other to bench",
    "grant riak_kv.list_keys on default to readers",
    "grant riak_kv.index on any to readers",
    "enable",
];

/// Instructions of a get of a user with a grant, beside one on a node where security is off, both over TLS,
/// and one in clear.
pub(crate) fn rights(common: &Common) -> Result<()> {
    let dir = tempfile::tempdir_in(&common.dir)?;
    let files = TlsFiles::make(dir.path())?;
    let client = files.client(true)?;
    let mut set = common.set.clone();
    set.extend(files.node_settings());
    let over_tls = |node: &Running, login: Option<Login>| -> Result<Target> {
        let address = node.pb_tls.context("the address for TLS")?;
        Ok(node.over(address, Transport::Tls(client.clone(), login)))
    };
    let in_clear = |node: &Running, _: &Path| Ok(node.target());
    let unchecked = |node: &Running, _: &Path| over_tls(node, None);
    let checked = |node: &Running, data: &Path| {
        secure(&common.quoit, data)?;
        over_tls(node, Some(USER))
    };
    let count = |reach: &dyn Fn(&Running, &Path) -> Result<Target>| {
        let load = common.load(Exchange::PbGet);
        CountedLoad { binary: &common.quoit, set: set.clone(), load, reach }.count(common)
    };
    let (clear, unchecked, checked) = (count(&in_clear)?, count(&unchecked)?, count(&checked)?);
    println!("instructions a PB get, {} gets on {} keys", common.operations, common.keys);
    println!("| get | instructions |\n|---|---|");
    println!("| in clear, security off | {clear:.0} |");
    println!("| over TLS 1.3, security off | {unchecked:.0} |");
    println!("| over TLS 1.3, security on, granted | {checked:.0} |");
    let check = checked - unchecked;
    println!(
        "\nthe check: {check:.0} instructions, {:.2} % of a get in clear",
        check / clear * 100.0
    );
    Ok(())
}

/// Makes the user and switches security on, by the node's own socket.
fn secure(binary: &Path, data: &Path) -> Result<()> {
    for words in COMMANDS {
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
