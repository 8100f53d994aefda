//! `/stats`: the node's figures with the names that collectors for Riak read.

use super::connection::{HttpConnection, Request};
use super::data_type_figures::{DATATYPES, data_types};
use super::negotiate::choose_media_type;
use super::refusal::Refusal;
use super::replication_figures::replication;
use super::response::{JSON, TEXT, reply};
use super::ring_figures::ring_figures;
use crate::context::{RIAK_KV_VERSION, ServerContext};
use crate::disks::{Disk, disks};
use crate::machine::SystemFigures;
use quoit_core::{Counter, Distribution, LatencySummary, LongRequest, Stats, StatsSnapshot};
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(super) type Figures = Map<String, Value>;

/// Suffixes of the figures of a distribution over the last minute.
const SUMMARY: [&str; 5] = ["mean", "median", "95", "99", "100"];

impl HttpConnection {
    /// Answers with all figures, as JSON or as indented text.
    pub(super) async fn stats(&mut self, request: &Request) -> Result<(), Refusal> {
        self.check_origin(&request.head)?;
        let offers = [JSON, TEXT];
        let chosen = choose_media_type(request.head.get_list("accept").as_deref(), &offers);
        let chosen = chosen.ok_or(Refusal::Page(406))?;
        let (context, is_text) = (Arc::clone(&self.context), chosen == TEXT);
        let document = self.context.run_at_low_priority(async move {
            let figures = Value::Object(statistics(&context));
            if is_text { format!("{figures:#}\n") } else { figures.to_string() }
        });
        let document = document.await?;
        reply(&mut self.out, self.form, 200)
            .varies_by_accept()
            .content_type(chosen)
            .finish(document.as_bytes());
        Ok(())
    }
}

/// All figures of the node by name. Reads some files of `/proc` and asks the system about each local file
/// system.
pub(crate) fn statistics(context: &ServerContext) -> Figures {
    let mut figures = Figures::new();
    let snapshot = context.store.figures();
    absent(&mut figures);
    requests(&mut figures, &snapshot);
    long_requests(&mut figures, context.store.stats(), &snapshot);
    data_types(&mut figures, context.store.stats());
    replication(&mut figures, context, &snapshot);
    node(&mut figures, context);
    machine(&mut figures);
    figures
}

pub(super) fn put(figures: &mut Figures, name: &str, value: impl Into<Value>) {
    figures.insert(name.to_owned(), value.into());
}

pub(super) fn put_summary(figures: &mut Figures, name: &str, summary: LatencySummary) {
    let LatencySummary { mean, median, p95, p99, max, .. } = summary;
    for (suffix, value) in SUMMARY.iter().zip([mean, median, p95, p99, max]) {
        put(figures, &format!("{name}_{suffix}"), value);
    }
}

/// Adds 0 for figures of Riak that have no counterpart in this node.
fn absent(figures: &mut Figures) {
    let mut zero = |name: &str| put(figures, name, 0);
    for name in ZERO {
        zero(name);
    }
    for name in ZERO_WITH_TOTAL {
        zero(name);
        zero(&format!("{name}_total"));
    }
    for name in ZERO_SUMMARIES {
        for suffix in SUMMARY {
            zero(&format!("{name}_{suffix}"));
        }
    }
    for (datatype, _) in DATATYPES {
        let name = format!("read_repairs_{datatype}");
        zero(&name);
        zero(&format!("{name}_total"));
    }
    for target in ["primary", "fallback"] {
        for reason in ["notfound", "outofdate"] {
            zero(&format!("read_repairs_{target}_{reason}_one"));
            zero(&format!("read_repairs_{target}_{reason}_count"));
        }
    }
    for pool in [
        "vnode_pool",
        "unregistered",
        "node_worker_pool",
        "af1_pool",
        "af2_pool",
        "af3_pool",
        "af4_pool",
        "be_pool",
    ] {
        for suffix in ["total", "queuetime_mean", "queuetime_100", "worktime_mean", "worktime_100"]
        {
            zero(&format!("worker_{pool}_{suffix}"));
        }
    }
    for suffix in ["min", "max", "mean", "last"] {
        zero(&format!("converge_delay_{suffix}"));
        zero(&format!("rebalance_delay_{suffix}"));
    }
    for suffix in ["min", "median", "mean", "max", "total"] {
        zero(&format!("riak_kv_vnodeq_{suffix}"));
        zero(&format!("riak_pipe_vnodeq_{suffix}"));
    }
    put(figures, "leveldb_read_block_error", "undefined");
}

/// Index queries, listings and folds started on this node.
fn long_requests(figures: &mut Figures, stats: &Stats, snapshot: &StatsSnapshot) {
    for (name, counter) in [
        ("index_fsm_create", Counter::IndexQueries),
        ("index_fsm_create_error", Counter::IndexQueryErrors),
        ("index_fsm_complete", Counter::IndexQueriesComplete),
        ("list_fsm_create", Counter::Listings),
        ("list_fsm_create_error", Counter::ListingErrors),
        ("clusteraae_fsm_create", Counter::Folds),
        ("clusteraae_fsm_create_error", Counter::FoldErrors),
    ] {
        put(figures, name, snapshot.last_minute(counter));
    }
    put(figures, "list_fsm_create_total", snapshot.total(Counter::Listings));
    put(figures, "list_fsm_create_error_total", snapshot.total(Counter::ListingErrors));
    for (name, kind) in [
        ("index_fsm_active", LongRequest::IndexQuery),
        ("list_fsm_active", LongRequest::Listing),
        ("clusteraae_fsm_active", LongRequest::Fold),
    ] {
        put(figures, name, stats.active(kind));
    }
    put_summary(figures, "index_fsm_results", snapshot.summary(Distribution::IndexResults));
    put_summary(figures, "index_fsm_time", snapshot.summary(Distribution::IndexTimeUs));
}

/// Requests. A node that coordinates a request also executes it on its own copy, so it counts as a vnode
/// request, too.
fn requests(figures: &mut Figures, snapshot: &StatsSnapshot) {
    for (name, counters) in [
        ("node_gets", &[Counter::Gets][..]),
        ("node_puts", &[Counter::Puts]),
        ("vnode_gets", &[Counter::Gets, Counter::ReplicaGets]),
        ("vnode_puts", &[Counter::Puts, Counter::ReplicaPuts]),
        ("vnode_index_reads", &[Counter::IndexReads]),
        ("vnode_index_writes", &[Counter::IndexWrites]),
        ("vnode_index_writes_postings", &[Counter::IndexEntriesWritten]),
        ("vnode_index_deletes", &[Counter::IndexDeletes]),
        ("vnode_index_deletes_postings", &[Counter::IndexEntriesDeleted]),
        ("object_merge", &[Counter::Merges]),
        ("read_repairs", &[Counter::ReadRepairs]),
        ("skipped_read_repairs", &[Counter::ReadRepairsSkipped]),
        ("tictacaae_exchange", &[Counter::Exchanges]),
        ("tictacaae_root_compare", &[Counter::ExchangesInSync]),
        ("tictacaae_branch_compare", &[Counter::ExchangesSettled]),
        ("tictacaae_clock_compare", &[Counter::ExchangesRepaired]),
        ("tictacaae_error", &[Counter::ExchangeErrors]),
        ("tictacaae_timeout", &[Counter::ExchangeTimeouts]),
        ("quoit_aae_keys_repaired", &[Counter::ExchangeKeysRepaired]),
        ("quoit_copies_restored", &[Counter::CopiesRestored]),
        ("quoit_damaged_records", &[Counter::DamagedRecords]),
        ("quoit_healed_records", &[Counter::HealedRecords]),
    ] {
        let last_minute: u64 = counters.iter().map(|each| snapshot.last_minute(*each)).sum();
        let total: u64 = counters.iter().map(|each| snapshot.total(*each)).sum();
        put(figures, name, last_minute);
        put(figures, &format!("{name}_total"), total);
    }
    let redirects = snapshot.total(Counter::CoordinatorRedirects);
    // The two totals are not read atomically, so one may be ahead of the other.
    let loaded = snapshot.total(Counter::CoordinatorRedirectsLoaded).min(redirects);
    put(figures, "coord_redirs_total", redirects);
    put(figures, "precommit_fail", snapshot.total(Counter::PrecommitFailures));
    put(figures, "coord_redir_unloaded_total", redirects - loaded);
    put(figures, "coord_redir_least_loaded_total", loaded);
    put(figures, "node_get_fsm_errors", snapshot.last_minute(Counter::GetErrors));
    put(figures, "node_get_fsm_errors_total", snapshot.total(Counter::GetErrors));
    for (distribution, names) in [
        (Distribution::GetTimeUs, &["node_get_fsm_time", "vnode_get_fsm_time"][..]),
        (Distribution::PutTimeUs, &["node_put_fsm_time", "vnode_put_fsm_time"]),
        (Distribution::GetSiblings, &["node_get_fsm_siblings"]),
        (Distribution::GetObjectBytes, &["node_get_fsm_objsize"]),
        (Distribution::MergeTimeUs, &["object_merge_time"]),
    ] {
        let summary = snapshot.summary(distribution);
        names.iter().for_each(|name| put_summary(figures, name, summary));
    }
    for (name, counter) in [("get", Counter::Gets), ("put", Counter::Puts)] {
        let per_second = snapshot.last_minute(counter) / 60;
        put(figures, &format!("node_{name}_fsm_in_rate"), per_second);
        put(figures, &format!("node_{name}_fsm_out_rate"), per_second);
    }
    for (name, time, rejected) in [
        ("get", Distribution::GetTimeUs, Counter::GetsRejected),
        ("put", Distribution::PutTimeUs, Counter::PutsRejected),
    ] {
        let rejected_60s = snapshot.last_minute(rejected);
        put(
            figures,
            &format!("node_{name}_fsm_active_60s"),
            snapshot.sum_per_sec(time) / 1_000_000,
        );
        put(figures, &format!("node_{name}_fsm_rejected"), rejected_60s / 60);
        put(figures, &format!("node_{name}_fsm_rejected_60s"), rejected_60s);
        put(figures, &format!("node_{name}_fsm_rejected_total"), snapshot.total(rejected));
    }
}

fn node(figures: &mut Figures, context: &ServerContext) {
    put(figures, "nodename", context.node_name.as_str());
    for (name, value) in ring_figures(context.store.control()) {
        put(figures, name, value);
    }
    put(figures, "riak_pipe_vnodes_running", 0);
    let module = match context.storage_backend {
        "leveldb" => "eleveldb",
        name => name,
    };
    put(figures, "storage_backend", format!("riak_kv_{module}_backend"));
    put(figures, "pbc_active", context.pb_connections.active());
    put(figures, "pbc_connects_total", context.pb_connections.total());
    put(figures, "pbc_connects", context.pb_connections.last_minute());
    let active = context.store.active();
    put(figures, "node_get_fsm_active", active.gets);
    put(figures, "node_put_fsm_active", active.puts);
    put(figures, "riak_kv_stat_ts", context.store.clock().unix_secs());
    for application in ["riak_kv", "riak_core", "riak_api", "riak_pb", "riak_pipe", "riak_sysmon"] {
        put(figures, &format!("{application}_version"), RIAK_KV_VERSION);
    }
    put(figures, "quoit_version", env!("CARGO_PKG_VERSION"));
    let engine = context.store.engine().stats();
    put(figures, "quoit_keys", engine.key_count);
    put(figures, "quoit_tombstones", engine.tombstone_count);
    put(figures, "quoit_index_bytes", engine.index_bytes);
    put(figures, "quoit_disk_bytes", engine.disk_bytes);
}

fn machine(figures: &mut Figures) {
    let disk = |disk: Disk| json!({"id": disk.mount_point, "size": disk.size_kib, "used": disk.used_percent});
    put(figures, "disk", disks().into_iter().map(disk).collect::<Value>());
    let machine = SystemFigures::read();
    put(figures, "mem_total", machine.memory_total_bytes);
    put(figures, "mem_allocated", machine.memory_used_bytes);
    for name in ["total", "processes", "processes_used"] {
        put(figures, &format!("memory_{name}"), machine.resident_bytes);
    }
    for name in ["system", "atom", "atom_used", "binary", "code", "ets"] {
        put(figures, &format!("memory_{name}"), 0);
    }
    put(figures, "cpu_nprocs", machine.process_count);
    for (name, load) in ["cpu_avg1", "cpu_avg5", "cpu_avg15"].iter().zip(machine.load_256ths) {
        put(figures, name, load);
    }
    put(figures, "sys_process_count", machine.thread_count);
    put(figures, "sys_port_count", machine.open_file_count);
    put(figures, "sys_logical_processors", machine.processor_count);
    put(figures, "sys_thread_pool_size", machine.processor_count);
    put(figures, "sys_monitor_count", 0);
    put(figures, "sys_global_heaps_size", "deprecated");
    put(figures, "sys_heap_type", "private");
    put(figures, "sys_driver_version", "0");
    put(figures, "sys_otp_release", "none");
    put(figures, "sys_smp_support", true);
    put(figures, "sys_threads_enabled", true);
    put(figures, "sys_wordsize", usize::BITS / 8);
    put(figures, "sys_system_version", concat!("Quoit ", env!("CARGO_PKG_VERSION")));
    put(figures, "sys_system_architecture", std::env::consts::ARCH);
}

/// Figures without a counterpart. Writes are coordinated where they arrive, whatever the load
/// (`coord_local_*`, `coord_redir_loaded_local_total`). There is no queue in front of a partition: excess
/// requests are refused when they arrive (`node_put_fsm_rejected_total`), so none are dropped later.
const ZERO: &[&str] = &[
    "coord_local_soft_loaded_total",
    "coord_local_unloaded_total",
    "coord_redir_loaded_local_total",
    "dropped_vnode_requests_total",
    "executing_mappers",
    "gossip_received",
    "handoff_timeouts",
    "ignored_gossip_total",
    "late_put_fsm_coordinator_ack",
    "pipeline_active",
    "pipeline_create_count",
    "pipeline_create_error_count",
    "pipeline_create_error_one",
    "pipeline_create_one",
    "postcommit_fail",
    "rejected_handoffs",
    "soft_loaded_vnode_mbox_total",
    "tictacaae_queue_microsec__max",
    "tictacaae_queue_microsec_mean",
    "vnode_mbox_check_timeout_total",
    "write_once_merge",
];

const ZERO_WITH_TOTAL: &[&str] = &[
    "consistent_gets",
    "consistent_puts",
    "rings_reconciled",
    "tictacaae_bucket",
    "tictacaae_modtime",
    "tictacaae_not_supported",
    "vnode_heads",
    "vnode_index_refreshes",
    "write_once_puts",
];

const ZERO_SUMMARIES: &[&str] = &[
    "consistent_get_objsize",
    "consistent_get_time",
    "consistent_put_objsize",
    "consistent_put_time",
    "vnode_head_fsm_time",
    "write_once_put_objsize",
    "write_once_put_time",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_collectors_read_are_there_before_anything_has_happened() {
        let mut figures = Figures::new();
        absent(&mut figures);
        let stats = Stats::default();
        requests(&mut figures, &stats.snapshot());
        long_requests(&mut figures, &stats, &stats.snapshot());
        data_types(&mut figures, &stats);
        machine(&mut figures);
        for name in [
            "node_gets",
            "node_puts_total",
            "vnode_gets",
            "node_get_fsm_time_mean",
            "node_put_fsm_time_99",
            "node_get_fsm_siblings_100",
            "read_repairs_total",
            "index_fsm_create",
            "vnode_index_reads",
            "vnode_index_writes_postings_total",
            "vnode_index_deletes_postings_total",
            "vnode_index_refreshes_total",
            "index_fsm_active",
            "index_fsm_time_99",
            "list_fsm_active",
            "list_fsm_create_total",
            "clusteraae_fsm_create",
            "index_fsm_results_mean",
            "read_repairs_primary_notfound_count",
            "node_gets_counter_total",
            "vnode_set_update_time_95",
            "read_repairs_hll_total",
            "object_counter_merge",
            "map_actor_counts_mean",
            "hll_bytes_total",
            "sys_process_count",
            "disk",
            "memory_total",
            "converge_delay_last",
            "riak_kv_vnodeq_max",
        ] {
            assert!(figures.contains_key(name), "{name}");
        }
        let root = figures["disk"]
            .as_array()
            .and_then(|disks| disks.iter().find(|disk| disk["id"] == "/"));
        assert!(root.is_some_and(|root| root["size"].as_u64() > Some(0) && root["used"].is_u64()));
    }
}
