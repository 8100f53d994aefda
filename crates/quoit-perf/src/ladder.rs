//! Growing clusters on one machine: the processor time of all nodes per operation.
//!
//! On shared processors the rate can't grow with the number of nodes. The cost of an operation shows if it
//! would: if the cost stays the same, twice the machines do twice the work. More processes on the same
//! processors have a cost of their own. A bare mesh of as many processes, which only pass requests on,
//! shows how much that is.

use crate::dev_cluster::DevCluster;
use crate::drive::{Load, drive};
use crate::echo::Sizes;
use crate::mesh::Mesh;
use crate::processors;
use crate::protocol::Exchange;
use crate::servers::NodeProgram;
use crate::summary::RunSummary;
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options of the ladder.
#[derive(Args, Clone, Debug)]
pub(crate) struct LadderOptions {
    /// The quoit binary, a release build [default: the one beside this program].
    #[arg(long, default_value_os_t = crate::beside("quoit"), hide_default_value = true)]
    quoit: PathBuf,
    /// Directory for data; temporary folders are made in it [default: where this program is].
    #[arg(long, default_value_os_t = crate::beside("."), hide_default_value = true)]
    dir: PathBuf,
    /// Sizes of the clusters.
    #[arg(long, value_delimiter = ',', default_value = "3,5,8,10,12,14")]
    nodes: Vec<usize>,
    /// Length of each run in seconds.
    #[arg(long, default_value_t = 20)]
    duration_s: u64,
    /// Length of the warm-up of each cluster in seconds, with replica-aware clients.
    #[arg(long, default_value_t = 10)]
    warm_up_s: u64,
    /// Number of keys.
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// Workers of the load generator per node.
    #[arg(long, default_value_t = 10)]
    workers_per_node: usize,
    /// Settings of the nodes. By default no operation waits for the disk, not even a delete, as in the
    /// published runs.
    #[arg(long = "set", value_name = "KEY=VALUE", default_value = "buckets.default.dw=0")]
    set: Vec<String>,
}

/// Published operations per second and node, for eight and more nodes of Riak.
const PUBLISHED_PER_NODE: u32 = 1300;

/// Sizes of the mesh's requests and answers in bytes: those of a put.
const MESH_SIZES: Sizes = Sizes { request: 1080, response: 5 };
/// Number of requests to the mesh, per process.
const MESH_OPERATIONS: u64 = 20_000;

/// Results of one step: microseconds of all nodes per operation, operations per second, failures.
struct Step {
    cpu_us: f64,
    per_s: f64,
    failed: u64,
}

/// Runs the ladder and prints a row for each size.
pub(crate) fn ladder(options: &LadderOptions) -> Result<()> {
    println!("get 4 : put 4 : delete 1, n_val=3, r=w=2; processor time of all nodes an operation");
    processors::reserve_driver_cpu(true)?;
    println!(
        "| nodes | replica-aware us/op | vs. first | op/s | any node us/op | vs. first | op/s \
         | failed | mesh us/op | vs. first |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut first: Option<(f64, f64, f64)> = None;
    for node_count in &options.nodes {
        let (aware, any) = step(options, *node_count)?;
        let mesh_us = mesh_us(options, *node_count)?;
        let (first_aware, first_any, first_mesh) =
            *first.get_or_insert((aware.cpu_us, any.cpu_us, mesh_us));
        let more = |now: f64, first: f64| (now / first - 1.0) * 100.0;
        println!(
            "| {node_count} | {:.1} | {:+.0} % | {:.0} | {:.1} | {:+.0} % | {:.0} | {} \
             | {mesh_us:.1} | {:+.0} % |",
            aware.cpu_us,
            more(aware.cpu_us, first_aware),
            aware.per_s,
            any.cpu_us,
            more(any.cpu_us, first_any),
            any.per_s,
            aware.failed + any.failed,
            more(mesh_us, first_mesh),
        );
    }
    println!("published for Riak: {PUBLISHED_PER_NODE} op/s a node, each on a machine of its own");
    Ok(())
}

/// The cost of an operation in a bare mesh of that many processes, with as many clients as the cluster has.
fn mesh_us(options: &LadderOptions, node_count: usize) -> Result<f64> {
    let mesh = Mesh::start(node_count, MESH_SIZES)?;
    let Sizes { request, response } = MESH_SIZES;
    let load = Load {
        exchange: Exchange::Echo { request, response },
        connections: options.workers_per_node * node_count,
        operations: MESH_OPERATIONS * node_count as u64,
        value_bytes: 0,
        first_key: 0,
        key_count: 1,
        sequential: false,
        rate: None,
        sleeps: true,
        seed: 0,
    };
    Ok(drive(&mesh.target(), &load)?.cpu_us())
}

fn step(options: &LadderOptions, node_count: usize) -> Result<(Step, Step)> {
    let dir = tempfile::tempdir_in(&options.dir)?;
    let program = NodeProgram { binary: &options.quoit, set: &options.set };
    let cluster = DevCluster::start(program, dir.path(), node_count)?;
    run(options, &cluster, dir.path(), "warm-up", true, options.warm_up_s)?;
    let aware = run(options, &cluster, dir.path(), "aware", true, options.duration_s)?;
    let any = run(options, &cluster, dir.path(), "any", false, options.duration_s)?;
    Ok((aware, any))
}

fn run(
    options: &LadderOptions,
    cluster: &DevCluster,
    dir: &Path,
    name: &str,
    replica_aware: bool,
    duration_s: u64,
) -> Result<Step> {
    let config = dir.join(format!("{name}.config"));
    let workers = options.workers_per_node * cluster.nodes.len();
    std::fs::write(&config, configuration(options, workers, replica_aware))?;
    let target = cluster.target();
    let cpu_before = target.cpu()?;
    let mut command = Command::new(&options.quoit);
    command.arg("bench").arg(&config).args(["--duration", &format!("{duration_s}s")]);
    command.args(["--bench-name", name, "--results-dir"]).arg(dir);
    for node in &cluster.nodes {
        command.args(["--target", &node.pb.to_string()]);
    }
    let status = command.stdout(Stdio::null()).status().context("starting the load generator")?;
    ensure!(status.success(), "the load generator ended with {status}");
    let cpu = target.cpu()?.saturating_sub(cpu_before);
    let summary = RunSummary::read(&dir.join(name))?;
    let operations = (summary.successful + summary.failed).max(1) as f64;
    Ok(Step {
        cpu_us: cpu.as_secs_f64() * 1e6 / operations,
        per_s: summary.successful_per_s,
        failed: summary.failed,
    })
}

fn configuration(options: &LadderOptions, workers: usize, replica_aware: bool) -> String {
    format!(
        "{{mode, max}}.\n\
         {{duration, 1}}.\n\
         {{concurrent, {}}}.\n\
         {{driver, basho_bench_driver_riakc_pb}}.\n\
         {{key_generator, {{int_to_bin_bigendian, {{uniform_int, {}}}}}}}.\n\
         {{value_generator, {{fixed_bin, 1000}}}}.\n\
         {{riakc_pb_ips, [{{127,0,0,1}}]}}.\n\
         {{riakc_pb_replies, 2}}.\n\
         {{riakc_pb_dw, 0}}.\n\
         {{riakc_pb_replica_aware, {replica_aware}}}.\n\
         {{operations, [{{get, 4}}, {{put, 4}}, {{delete, 1}}]}}.\n",
        workers, options.keys,
    )
}
