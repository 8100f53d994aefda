//! `quoit repl`: replication between clusters, of a running node or of all nodes of its cluster.

mod bootstrap;
mod page;
mod riak_words;

use crate::config_command::Format;
use crate::output::say;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use quoit_cli::target::TargetArgs;
use quoit_cli::{Answer, Api};
use quoit_replication::RebaseFrom;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How often it is looked whether all is across.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Talks to a running node about replication between clusters.
#[derive(Args, Debug)]
pub(crate) struct ReplArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Do it on all nodes of the cluster.
    #[arg(long, global = true)]
    all: bool,
    /// Form of the output.
    #[arg(long, global = true, value_enum, default_value = "human")]
    format: Format,
    #[command(subcommand)]
    command: ReplCommand,
}

#[derive(Subcommand, Debug)]
enum ReplCommand {
    /// Print queues, sinks, full-sync, and what needs attention.
    #[command(alias = "clusterstats", alias = "connections", alias = "clusters")]
    Status,
    /// Queues of this cluster that others consume. Changes last.
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Queues of other clusters that this one consumes. Changes last.
    #[command(subcommand)]
    Sink(SinkCommand),
    /// Comparison of all that two clusters have.
    #[command(subcommand)]
    Fullsync(FullSyncCommand),
    /// Wait until all that the other cluster has queued is here, so that clients can be sent here; then print
    /// what is missing, and exit with status 1 if anything is.
    ///
    /// Stop the clients at the other cluster first: what they write meanwhile is waited for as well.
    Promote {
        /// Seconds to wait at most.
        #[arg(long, default_value_t = 60)]
        timeout: u64,
    },
    /// Go on with a queue that has waited for longer than repl.retention.
    ///
    /// Records that were deleted here meanwhile may be live in the other cluster, and nobody knows any more
    /// that they were deleted. Say which cluster is right: with --from here, records that only the other
    /// cluster has are deleted there; with --from there, records that only this cluster has are deleted here.
    /// Records that both have are merged as always, and what was modified in the last ten seconds stays.
    /// Look at the numbers first: --dry-run. All nodes of this cluster are told; the other cluster needs the
    /// same for its own queue if that is stale too.
    #[command(group = clap::ArgGroup::new("way").required(true))]
    Rebase {
        /// Name of the queue.
        name: String,
        /// The cluster that is right about records that the other one lacks: here or there.
        #[arg(long, group = "way", value_name = "here|there")]
        from: Option<RebaseFrom>,
        /// Compare nothing: deleted records may come back, or the other cluster was emptied.
        #[arg(long, group = "way")]
        accept_resurrection: bool,
        /// A node of the other cluster, HOST:PORT:pb, where full-sync has none.
        #[arg(long, requires = "from")]
        peer: Option<String>,
        /// Count what would be deleted and sent, and change nothing.
        #[arg(long, requires = "from")]
        dry_run: bool,
    },
    /// Copy all that another cluster has, at the speed of disks or of the link.
    ///
    /// Link the clusters first (quoit repl sink add), so that writes are brought over meanwhile. Give the
    /// command to one node of the cluster that receives: all nodes copy their shares, go on after a restart,
    /// and keep to transfer_rate.
    #[command(subcommand)]
    Bootstrap(bootstrap::BootstrapCommand),
    #[command(flatten)]
    Riak(riak_words::RiakCommand),
}

#[derive(Subcommand, Debug)]
enum QueueCommand {
    /// Add a queue, or give one another filter.
    Add {
        /// Its name.
        name: String,
        /// any, block_rtq, bucketname.NAME, bucketprefix.TEXT or buckettype.TYPE.
        #[arg(default_value = "any")]
        filter: String,
    },
    /// Remove a queue and all that waits in it.
    Remove {
        /// Its name.
        name: String,
    },
    /// Discard new entries; what waits can still be consumed.
    Suspend {
        /// Its name.
        name: String,
    },
    /// Take entries again.
    Resume {
        /// Its name.
        name: String,
    },
    /// Forget all that waits in a queue.
    Clear {
        /// Its name.
        name: String,
    },
    /// Print how much waits.
    Status {
        /// A name; all queues if there is none.
        name: Option<String>,
    },
}

#[derive(Subcommand, Debug)]
enum SinkCommand {
    /// Consume a queue of another cluster, or consume it at other peers.
    Add {
        /// Name of the queue.
        name: String,
        /// HOST:PORT:pb of nodes of the other cluster, separated by | or blanks.
        #[arg(required = true)]
        peers: Vec<String>,
        /// Objects that are stored at the same time.
        #[arg(long)]
        workers: Option<usize>,
        /// Connections to each peer.
        #[arg(long)]
        per_peer: Option<usize>,
    },
    /// Consume a queue no longer.
    Remove {
        /// Name of the queue.
        name: String,
    },
    /// Have consumption rest.
    Suspend {
        /// Name of the queue.
        name: String,
    },
    /// Go on with consumption.
    Resume {
        /// Name of the queue.
        name: String,
    },
    /// Change how many objects are stored at the same time.
    Workers {
        /// Name of the queue.
        name: String,
        /// Objects that are stored at the same time.
        workers: usize,
        /// Connections to each peer.
        per_peer: Option<usize>,
    },
    /// Print the peers of all queues.
    Peers,
    /// Ask peers for the other nodes of their clusters.
    Discover,
}

#[derive(Subcommand, Debug)]
enum FullSyncCommand {
    /// Print the last check and the next one.
    Status,
    /// Compare now and queue what differs.
    Run {
        /// Scope of the repair: all, day, hour, range or auto.
        #[arg(default_value = "all")]
        check: String,
    },
    /// Have scheduled checks rest.
    Pause,
    /// Go on with scheduled checks.
    Resume,
    /// Leave out the next auto checks.
    Suppress {
        /// How many.
        count: u32,
    },
    /// Say which records the next range check repairs.
    #[command(subcommand)]
    Range(RangeCommand),
    /// Compare with another node until the restart.
    Set {
        /// HOST:PORT:pb.
        #[arg(long)]
        peer: String,
        /// The queue of this cluster for what is newer here.
        #[arg(long, value_name = "NAME")]
        queue: Option<String>,
        /// The queue of the other cluster for what is newer there.
        #[arg(long, value_name = "NAME")]
        peer_queue: Option<String>,
        /// With a Riak, the n_val of the buckets here whose trees are compared.
        #[arg(long, value_name = "N")]
        local_n_val: Option<u32>,
        /// With a Riak, their n_val there.
        #[arg(long, value_name = "N")]
        remote_n_val: Option<u32>,
    },
    #[command(flatten)]
    Riak(riak_words::RiakFullSyncCommand),
}

#[derive(Subcommand, Debug)]
enum RangeCommand {
    /// Records of a bucket, or of all, that were modified between two times.
    Set {
        /// TYPE/BUCKET; all buckets if there is none.
        #[arg(long)]
        bucket: Option<String>,
        /// Leave out records modified earlier, seconds since 1970.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Leave out records modified later, seconds since 1970.
        #[arg(long)]
        until: Option<u64>,
    },
    /// Records that were modified since both clusters were in sync.
    Clear,
}

/// Runs a command about replication.
pub(crate) fn run(args: &ReplArgs) -> Result<()> {
    // Nobody is promoted by halves.
    let all = args.all || matches!(args.command, ReplCommand::Promote { .. });
    let caller = Caller { api: Api::new(&args.target), all, format: args.format };
    match &args.command {
        ReplCommand::Status => caller.show(page::status),
        ReplCommand::Queue(command) => queue(&caller, command),
        ReplCommand::Sink(command) => sink(&caller, command),
        ReplCommand::Fullsync(command) => full_sync(&caller, command),
        ReplCommand::Promote { timeout } => promote(&caller, Duration::from_secs(*timeout)),
        ReplCommand::Rebase { name, from: None, .. } => {
            caller.change(&json!({"command": "accept_resurrection", "name": name}))
        }
        ReplCommand::Rebase { name, from: Some(from), peer, dry_run, .. } => {
            // One node does it for all.
            let caller = Caller { all: false, ..caller };
            caller.rebase(&json!({
                "command": "rebase", "name": name, "from": from, "peer": peer, "dry_run": dry_run,
            }))
        }
        ReplCommand::Bootstrap(command) => bootstrap::run(caller, command),
        ReplCommand::Riak(command) => riak_words::answer(command),
    }
}

fn queue(caller: &Caller, command: &QueueCommand) -> Result<()> {
    let named = |word: &str, name: &str| json!({"command": word, "name": name});
    match command {
        QueueCommand::Add { name, filter } => caller.change(&json!({
            "command": "queue_add", "name": name, "filter": filter,
        })),
        QueueCommand::Remove { name } => caller.change(&named("queue_remove", name)),
        QueueCommand::Suspend { name } => caller.change(&named("queue_suspend", name)),
        QueueCommand::Resume { name } => caller.change(&named("queue_resume", name)),
        QueueCommand::Clear { name } => caller.change(&named("queue_clear", name)),
        QueueCommand::Status { name } => {
            caller.show(|result| page::queues(result, name.as_deref()))
        }
    }
}

fn sink(caller: &Caller, command: &SinkCommand) -> Result<()> {
    let named = |word: &str, name: &str| json!({"command": word, "name": name});
    match command {
        SinkCommand::Add { name, peers, workers, per_peer } => {
            let peers: Vec<&str> = peers.iter().flat_map(|list| list.split('|')).collect();
            caller.change(&json!({
                "command": "sink_add", "name": name, "peers": peers,
                "workers": workers, "per_peer": per_peer,
            }))
        }
        SinkCommand::Remove { name } => caller.change(&named("sink_remove", name)),
        SinkCommand::Suspend { name } => caller.change(&named("sink_suspend", name)),
        SinkCommand::Resume { name } => caller.change(&named("sink_resume", name)),
        SinkCommand::Workers { name, workers, per_peer } => caller.change(&json!({
            "command": "sink_workers", "name": name, "workers": workers, "per_peer": per_peer,
        })),
        SinkCommand::Peers => caller.show(page::sinks),
        SinkCommand::Discover => caller.change(&json!({"command": "sink_discover"})),
    }
}

fn full_sync(caller: &Caller, command: &FullSyncCommand) -> Result<()> {
    match command {
        FullSyncCommand::Status => caller.show(page::full_sync),
        FullSyncCommand::Run { check } => {
            caller.change(&json!({"command": "full_sync_run", "check": check}))
        }
        FullSyncCommand::Pause => caller.change(&json!({"command": "full_sync_pause"})),
        FullSyncCommand::Resume => caller.change(&json!({"command": "full_sync_resume"})),
        FullSyncCommand::Suppress { count } => {
            caller.change(&json!({"command": "full_sync_suppress", "count": count}))
        }
        FullSyncCommand::Set { peer, queue, peer_queue, local_n_val, remote_n_val } => caller
            .change(&json!({
                "command": "full_sync_set", "peer": peer, "queue": queue, "peer_queue": peer_queue,
                "local_n_val": local_n_val, "remote_n_val": remote_n_val,
            })),
        FullSyncCommand::Range(RangeCommand::Set { bucket, from, until }) => {
            caller.change(&json!({
                "command": "full_sync_range_set", "bucket": bucket,
                "from_secs": from, "until_secs": until,
            }))
        }
        FullSyncCommand::Range(RangeCommand::Clear) => {
            caller.change(&json!({"command": "full_sync_range_clear"}))
        }
        FullSyncCommand::Riak(command) => riak_words::answer_full_sync(command),
    }
}

/// Waits until nothing waits at the peers of any node's sinks.
fn promote(caller: &Caller, limit: Duration) -> Result<()> {
    let until = Instant::now() + limit;
    loop {
        let nodes = caller.call(&json!({"command": "status"}))?;
        let left = page::not_across(&nodes);
        if left.count == 0 && left.faults.is_empty() {
            say!("all is across: {} objects of the other cluster were stored here", left.stored);
            return Ok(());
        }
        if Instant::now() >= until {
            left.faults.iter().for_each(|fault| say!("{fault}"));
            bail!(
                "at least {} objects of the other cluster are not across yet; full-sync finds them when it \
                 can be reached: quoit repl fullsync run",
                left.count
            );
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// A node that is asked, for itself or for its cluster.
struct Caller {
    api: Api,
    all: bool,
    format: Format,
}

impl Caller {
    /// Has a command done: results by nodes' names.
    fn call(&self, command: &Value) -> Result<Vec<(String, Value)>> {
        let path = if self.all { "repl?all=true" } else { "repl" };
        let document = match self.api.post(path, Some(command))? {
            Answer::Done(document) => document,
            Answer::Refused { message, document, .. } => {
                if self.format == Format::Json {
                    say!("{document}");
                }
                bail!("{message}");
            }
        };
        Ok(match document["nodes"].as_object() {
            Some(nodes) => nodes.iter().map(|(name, done)| (name.clone(), done.clone())).collect(),
            None => vec![(document["node"].as_str().unwrap_or_default().to_owned(), document)],
        })
    }

    /// Has something changed, and prints what came of it.
    fn change(&self, command: &Value) -> Result<()> {
        let nodes = self.call(command)?;
        let mut failed = 0;
        for (name, done) in &nodes {
            failed += usize::from(!done["error"].is_null());
            match self.format {
                Format::Json => say!("{}", json!({"node": name, "done": done})),
                Format::Human => say!("{name}: {}", page::outcome(done)),
            }
        }
        if failed > 0 {
            bail!("{failed} of {} nodes have not done it", nodes.len());
        }
        Ok(())
    }

    /// Has two clusters made equal, and prints what came of it.
    fn rebase(&self, command: &Value) -> Result<()> {
        let nodes = self.call(command)?;
        let done = nodes.first().map(|(_, done)| &done["result"]).unwrap_or(&Value::Null);
        match self.format {
            Format::Json => say!("{done}"),
            Format::Human => say!("{}", page::rebase(done)),
        }
        if done["state"] == "failed" {
            bail!("the queue is still stale");
        }
        Ok(())
    }

    /// Prints a page about each node.
    fn show(&self, page: impl Fn(&Value) -> String) -> Result<()> {
        for (name, done) in self.call(&json!({"command": "status"}))? {
            match (self.format, done["error"].as_str()) {
                (Format::Json, _) => say!("{}", json!({"node": name, "status": done["result"]})),
                (Format::Human, Some(fault)) => say!("{name}: {fault}\n"),
                (Format::Human, None) => say!("{name}\n{}", page(&done["result"])),
            }
        }
        Ok(())
    }
}
