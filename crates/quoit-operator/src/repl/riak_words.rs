//! Commands of `riak repl` for the older generation of replication. The answer to each names the nearest
//! quoit command.

use anyhow::{Result, bail};
use clap::Subcommand;

/// Commands of riak_repl without a direct counterpart.
#[derive(Subcommand, Debug)]
pub(super) enum RiakCommand {
    /// riak_repl: see quoit repl sink add.
    #[command(hide = true)]
    Connect(Rest),
    /// riak_repl: see quoit repl sink remove.
    #[command(hide = true)]
    Disconnect(Rest),
    /// riak_repl: clusters have ids, which quoit repl status prints.
    #[command(hide = true, alias = "show-local-cluster-id")]
    Clustername(Rest),
    /// riak_repl: see quoit repl queue.
    #[command(hide = true)]
    Realtime(Rest),
    /// riak_repl: see replrtq_sinkpeers.
    #[command(hide = true, alias = "nat_map")]
    NatMap(Rest),
    /// riak_repl: not available.
    #[command(
        hide = true,
        alias = "proxy_get",
        alias = "add-block-provider-redirect",
        alias = "show-block-provider-redirect",
        alias = "delete-block-provider-redirect"
    )]
    ProxyGet(Rest),
    /// riak_repl: there is only one mode.
    #[command(hide = true)]
    Modes(Rest),
}

/// Commands of `riak repl fullsync` without a direct counterpart.
#[derive(Subcommand, Debug)]
pub(super) enum RiakFullSyncCommand {
    /// riak_repl: see quoit repl fullsync run.
    #[command(hide = true)]
    Start(Rest),
    /// riak_repl: see quoit repl fullsync pause.
    #[command(hide = true)]
    Stop(Rest),
    /// riak_repl: see ttaaefs_scope.
    #[command(hide = true)]
    Enable(Rest),
    /// riak_repl: see quoit repl fullsync pause.
    #[command(hide = true)]
    Disable(Rest),
    /// riak_repl: see repl.fullsync.maximum.
    #[command(
        hide = true,
        name = "max_fssource_node",
        alias = "max_fssource_cluster",
        alias = "max_fssink_node"
    )]
    MaxFs(Rest),
}

/// Arguments of a command of riak_repl.
#[derive(clap::Args, Debug)]
pub(super) struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Fails with the name of the equivalent command.
pub(super) fn answer(command: &RiakCommand) -> Result<()> {
    use RiakCommand as C;
    let first = |rest: &Rest| rest.words.first().cloned().unwrap_or_default();
    match command {
        C::Connect(rest) => {
            let peer = first(rest);
            let host = if peer.is_empty() { "HOST".to_owned() } else { host_of(&peer) };
            bail!(
                "the sink asks the source here: on the cluster that is to receive, use quoit repl sink add \
                 QUEUE {host}:PORT:pb --all (with the Protocol Buffers port, 8087 by default), or set \
                 replrtq_sinkpeers"
            )
        }
        C::Disconnect(_) => {
            bail!("on the cluster that receives, use quoit repl sink remove QUEUE --all")
        }
        C::Clustername(_) => {
            bail!(
                "clusters have ids instead of names: quoit repl status --format json prints this one's"
            )
        }
        C::Realtime(rest) => match first(rest).as_str() {
            "enable" | "start" => {
                bail!(
                    "set replrtq_enablesrc = enabled, and use quoit repl queue add QUEUE any --all"
                )
            }
            "disable" | "stop" => bail!("use quoit repl queue suspend QUEUE --all"),
            "cascades" => bail!(
                "objects are forwarded with the list of clusters that they have visited: see repl.forward"
            ),
            _ => bail!("use quoit repl queue add, suspend, resume or status"),
        },
        C::NatMap(_) => {
            bail!(
                "sinks reach the addresses of replrtq_sinkpeers; keep replrtq_peer_discovery disabled"
            )
        }
        C::ProxyGet(_) => bail!("objects are not fetched on demand from another cluster"),
        C::Modes(_) => {
            bail!("there is one mode: queues that sinks consume, and full-sync by digests")
        }
    }
}

/// The host of an address with or without a port. The port is that of Riak's cluster manager, which no Quoit
/// node has. An IPv6 address without brackets has no port; the result has the brackets.
fn host_of(address: &str) -> String {
    match address.rsplit_once(':') {
        Some((host, _)) if host.contains(':') && !host.starts_with('[') => format!("[{address}]"),
        Some((host, port)) if port.parse::<u16>().is_ok() => host.to_owned(),
        _ => address.to_owned(),
    }
}

/// Like [`answer`], for full-sync.
pub(super) fn answer_full_sync(command: &RiakFullSyncCommand) -> Result<()> {
    use RiakFullSyncCommand as C;
    match command {
        C::Start(_) => bail!("use quoit repl fullsync run all"),
        C::Stop(_) | C::Disable(_) => bail!("use quoit repl fullsync pause --all"),
        C::Enable(_) => {
            bail!(
                "set ttaaefs_scope = all with ttaaefs_peerip and ttaaefs_peerport, or use quoit repl \
                   fullsync resume --all"
            )
        }
        C::MaxFs(_) => bail!("set repl.fullsync.maximum: records that a full-sync queues at most"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_connect_asks_for_the_port_of_protocol_buffers() {
        let cases = [
            ("1.2.3.4", "1.2.3.4"),
            ("db:9080", "db"),
            ("[::1]:9080", "[::1]"),
            ("[::1]", "[::1]"),
            ("::1", "[::1]"),
        ];
        for (given, host) in cases {
            let words = vec![given.to_owned()];
            let told = answer(&RiakCommand::Connect(Rest { words })).unwrap_err().to_string();
            assert!(told.contains(&format!("sink add QUEUE {host}:PORT:pb --all")), "{told}");
        }
        let told =
            answer(&RiakCommand::Connect(Rest { words: Vec::new() })).unwrap_err().to_string();
        assert!(told.contains("sink add QUEUE HOST:PORT:pb --all"), "{told}");
    }
}
