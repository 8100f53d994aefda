//! `quoit repl`: replication between clusters, for one running node or for all nodes of its cluster.

mod bootstrap;
mod page;
mod riak_words;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use quoit_cli::target::TargetArgs;
use quoit_cli::{Answer, Api, Format, say, value_at};
use quoit_replication::RebaseFrom;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Interval between checks while waiting for the queues to be empty.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Manages replication between clusters at a running node.
#[derive(Args, Debug)]
pub struct ReplArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Apply to all nodes of the cluster.
    #[arg(long, global = true)]
    all: bool,
    /// Output format.
    #[arg(long, global = true, value_enum, default_value = "human")]
    format: Format,
    #[command(subcommand)]
    command: ReplCommand,
}

#[derive(Subcommand, Debug)]
enum ReplCommand {
    /// Print queues, sinks, full-sync, and problems.
    #[command(alias = "clusterstats", alias = "connections", alias = "clusters")]
    Status,
    /// Queues of this cluster that other clusters consume. Changes are persistent.
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Queues of other clusters that this cluster consumes. Changes are persistent.
    #[command(subcommand)]
    Sink(SinkCommand),
    /// Comparison of all records of two clusters.
    #[command(subcommand)]
    Fullsync(FullSyncCommand),
    /// Wait until all entries that the other cluster has queued are stored here, so that clients can switch
    /// to this cluster; then print what is missing, and exit with status 1 if anything is.
    ///
    /// Stop the clients of the other cluster first; otherwise the command also waits for their new writes.
    Promote {
        /// Longest wait in seconds.
        #[arg(long, default_value_t = 60)]
        timeout: u64,
    },
    /// Resume a queue that has waited for longer than repl.retention.
    ///
    /// Records that were deleted here meanwhile may still exist in the other cluster, and this cluster no
    /// longer knows of their deletion. Decide which cluster is right: with --from here, records that only the
    /// other cluster has are deleted there; with --from there, records that only this cluster has are
    /// deleted here. Records in both clusters are merged as always, and records modified in the last ten
    /// seconds stay. Check the numbers with --dry-run first. The command applies to all nodes of this
    /// cluster; the other cluster needs the same for its own queue if that is stale, too.
    #[command(group = clap::ArgGroup::new("way").required(true))]
    Rebase {
        /// Name of the queue.
        name: String,
        /// The cluster that is right about records that the other one lacks: here or there.
        #[arg(long, group = "way", value_name = "here|there")]
        from: Option<RebaseFrom>,
        /// Resume without a comparison. Deleted records may come back, unless the other cluster is empty.
        #[arg(long, group = "way")]
        accept_resurrection: bool,
        /// A node of the other cluster, HOST:PORT:pb, if full-sync has no peer.
        #[arg(long, requires = "from")]
        peer: Option<String>,
        /// Count the records that would be deleted and sent, and change nothing.
        #[arg(long, requires = "from")]
        dry_run: bool,
    },
    /// Copy all records of another cluster, at the speed of the disks or of the link.
    ///
    /// Link the clusters first (quoit repl sink add), so that new writes are replicated meanwhile. Run the
    /// command at one node of the receiving cluster: all nodes copy their shares, continue after a restart,
    /// and keep to transfer_rate.
    #[command(subcommand)]
    Bootstrap(bootstrap::BootstrapCommand),
    #[command(flatten)]
    Riak(riak_words::RiakCommand),
}

#[derive(Subcommand, Debug)]
enum QueueCommand {
    /// Add a queue, or change the filter of an existing one.
    Add {
        /// Name of the queue.
        name: String,
        /// any, block_rtq, bucketname.NAME, bucketprefix.TEXT or buckettype.TYPE.
        #[arg(default_value = "any")]
        filter: String,
    },
    /// Remove a queue with all its entries.
    Remove {
        /// Name of the queue.
        name: String,
    },
    /// Discard new entries; entries in the queue can still be consumed.
    Suspend {
        /// Name of the queue.
        name: String,
    },
    /// Accept entries again.
    Resume {
        /// Name of the queue.
        name: String,
    },
    /// Remove all entries of a queue.
    Clear {
        /// Name of the queue.
        name: String,
    },
    /// Print the number of waiting entries.
    Status {
        /// Name of the queue [default: all queues].
        name: Option<String>,
    },
}

#[derive(Subcommand, Debug)]
enum SinkCommand {
    /// Consume a queue of another cluster, or change its peers.
    Add {
        /// Name of the queue.
        name: String,
        /// HOST:PORT:pb of nodes of the other cluster, separated by | or spaces.
        #[arg(required = true)]
        peers: Vec<String>,
        /// Number of objects stored at the same time.
        #[arg(long)]
        workers: Option<usize>,
        /// Number of connections to each peer.
        #[arg(long)]
        per_peer: Option<usize>,
    },
    /// Stop consuming a queue.
    Remove {
        /// Name of the queue.
        name: String,
    },
    /// Pause consumption.
    Suspend {
        /// Name of the queue.
        name: String,
    },
    /// Resume consumption.
    Resume {
        /// Name of the queue.
        name: String,
    },
    /// Change the number of objects stored at the same time.
    Workers {
        /// Name of the queue.
        name: String,
        /// Number of objects stored at the same time.
        workers: usize,
        /// Number of connections to each peer.
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
    /// Compare now, and queue the differences.
    Run {
        /// Scope of the repair: all, day, hour, range or auto.
        #[arg(default_value = "all")]
        check: String,
    },
    /// Pause scheduled checks.
    Pause,
    /// Resume scheduled checks.
    Resume,
    /// Skip the next auto checks.
    Suppress {
        /// Number of checks.
        count: u32,
    },
    /// Select the records that the next range check repairs.
    #[command(subcommand)]
    Range(RangeCommand),
    /// Compare with another node until the next restart.
    Set {
        /// HOST:PORT:pb.
        #[arg(long)]
        peer: String,
        /// Queue of this cluster for records that are newer here.
        #[arg(long, value_name = "NAME")]
        queue: Option<String>,
        /// Queue of the other cluster for records that are newer there.
        #[arg(long, value_name = "NAME")]
        peer_queue: Option<String>,
        /// For a Riak cluster: the n_val here of the buckets to compare.
        #[arg(long, value_name = "N")]
        local_n_val: Option<u32>,
        /// For a Riak cluster: the n_val there of the buckets to compare.
        #[arg(long, value_name = "N")]
        remote_n_val: Option<u32>,
    },
    #[command(flatten)]
    Riak(riak_words::RiakFullSyncCommand),
}

#[derive(Subcommand, Debug)]
enum RangeCommand {
    /// Records of one bucket or of all, modified between two times.
    Set {
        /// TYPE/BUCKET [default: all buckets].
        #[arg(long)]
        bucket: Option<String>,
        /// Skip records modified earlier, in seconds since 1970.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Skip records modified later, in seconds since 1970.
        #[arg(long)]
        until: Option<u64>,
    },
    /// Records modified since both clusters were last in sync.
    Clear,
}

/// Executes a replication command.
///
/// # Errors
///
/// If no node answers, the node refuses, or a wait ends without success.
pub fn run(args: &ReplArgs) -> Result<()> {
    // Promoting only makes sense for all nodes of a cluster.
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
            // The node that is asked does it for the whole cluster.
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

/// Waits until no entries wait at the peers of any node's sinks.
fn promote(caller: &Caller, limit: Duration) -> Result<()> {
    let until = Instant::now() + limit;
    loop {
        let nodes = caller.call(&json!({"command": "status"}))?;
        let left = page::pending_at_peers(&nodes);
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

/// A connection to a node, with the scope and format of the command.
struct Caller {
    api: Api,
    all: bool,
    format: Format,
}

impl Caller {
    /// Executes a command. Returns the results by node name.
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
        Ok(match value_at(&document, "/nodes").as_object() {
            Some(nodes) => nodes.iter().map(|(name, done)| (name.clone(), done.clone())).collect(),
            None => vec![(
                value_at(&document, "/node").as_str().unwrap_or_default().to_owned(),
                document,
            )],
        })
    }

    /// Executes a change, and prints the outcome of each node.
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
            bail!("{failed} of {} nodes could not do it", nodes.len());
        }
        Ok(())
    }

    /// Executes a rebase, and prints its outcome.
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

    /// Prints a page for each node.
    fn show(&self, page: impl Fn(&Value) -> String) -> Result<()> {
        for (name, done) in self.call(&json!({"command": "status"}))? {
            let status = value_at(&done, "/result");
            match (self.format, value_at(&done, "/error").as_str()) {
                (Format::Json, _) => say!("{}", json!({"node": name, "status": status})),
                (Format::Human, Some(fault)) => say!("{name}: {fault}\n"),
                (Format::Human, None) => say!("{name}\n{}", page(status)),
            }
        }
        Ok(())
    }
}
