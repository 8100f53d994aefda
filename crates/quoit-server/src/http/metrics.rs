//! `/metrics`: figures with histograms, in Prometheus' text format or as OpenMetrics.

use super::connection::{HttpConnection, Request};
use super::data_type_figures::data_type_metrics;
use super::internode_figures::internode_metrics;
use super::negotiate::choose_media_type;
use super::refusal::Refusal;
use super::replication_figures::{change_feed_metrics, replication_metrics};
use super::response::{TEXT, reply};
use super::security_figures::security_metrics;
use crate::context::ServerContext;
use crate::jobs::Jobs;
use crate::machine::SystemFigures;
use crate::memory::MemoryFigures;
use quoit_core::{Counter, Cumulative, Distribution, LongRequest, Stats, StatsSnapshot};
use std::fmt::Write;
use std::sync::Arc;

/// The two text formats. They differ in the names of counter families and in the last line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// The Prometheus text format, which nearly every collector reads.
    Prometheus,
    /// OpenMetrics, for collectors that ask for it.
    OpenMetrics,
}

impl Form {
    /// The format that a client prefers. A client that accepts neither gets the Prometheus format.
    fn of(accept: Option<&[u8]>) -> Self {
        let other: &[u8] = b"application/openmetrics-text";
        match choose_media_type(accept, &[TEXT, other]) {
            Some(chosen) if chosen == other => Self::OpenMetrics,
            _ => Self::Prometheus,
        }
    }

    const fn media_type(self) -> &'static [u8] {
        match self {
            Self::Prometheus => b"text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => b"application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

pub(super) const US_PER_SEC: f64 = 1e6;

/// Bucket bounds of times: powers of two from 16 us to about a minute.
pub(super) const TIMES_US: &[u64] = &powers::<23>(Exponents { first: 4, step: 1 });
/// Bucket bounds of sizes: powers of four from 16 bytes to 64 MiB.
pub(super) const BYTES: &[u64] = &powers::<12>(Exponents { first: 4, step: 2 });
/// Bucket bounds of result counts: powers of four from 1 to 4 million.
const RESULTS: &[u64] = &powers::<12>(Exponents { first: 0, step: 2 });
/// Bucket bounds of small counts.
pub(super) const COUNTS: &[u64] = &[2, 3, 5, 9, 17, 33, 65, 129];

/// A sequence of exponents.
struct Exponents {
    first: u32,
    step: u32,
}

/// Returns powers of two.
#[expect(clippy::indexing_slicing, reason = "the index is below the number of bounds")]
const fn powers<const COUNT: usize>(exponents: Exponents) -> [u64; COUNT] {
    let Exponents { first, step } = exponents;
    let mut bounds = [0; COUNT];
    let mut index = 0;
    let mut exponent = first;
    while index < COUNT {
        bounds[index] = 1 << exponent;
        exponent += step;
        index += 1;
    }
    bounds
}

impl HttpConnection {
    /// Answers with all metrics, in the format that the client prefers.
    pub(super) async fn metrics(&mut self, request: &Request) -> Result<(), Refusal> {
        self.check_origin(&request.head)?;
        let form = Form::of(request.head.get_list("accept").as_deref());
        let context = Arc::clone(&self.context);
        let text = self.context.run_at_low_priority(async move { render(&context, form) }).await?;
        reply(&mut self.out, self.form, 200)
            .content_type(form.media_type())
            .finish(text.as_bytes());
        Ok(())
    }
}

fn render(context: &ServerContext, form: Form) -> String {
    let mut text = MetricsText::new(form);
    let snapshot = context.store.figures();
    requests(&mut text, &snapshot);
    long_requests(&mut text, context.store.stats(), &snapshot);
    mapreduce(&mut text, &context.jobs);
    data_type_metrics(&mut text, context.store.stats());
    exchanges(&mut text, &snapshot);
    replication_metrics(&mut text, context, &snapshot);
    change_feed_metrics(&mut text, context);
    let engine = context.store.engine().stats();
    text.gauge("quoit_keys", "Records stored, tombstones included.", engine.key_count);
    text.gauge("quoit_tombstones", "Tombstones stored.", engine.tombstone_count);
    text.gauge("quoit_index_bytes", "Memory of the index.", engine.index_bytes);
    text.gauge("quoit_disk_bytes", "Bytes of the data files.", engine.disk_bytes);
    text.gauge("quoit_dead_bytes", "Bytes that no key refers to any more.", engine.dead_bytes);
    text.gauge("quoit_segments", "Data files.", engine.segment_count);
    text.gauge(
        "quoit_disk_full",
        "1 while writes are refused for lack of room.",
        engine.disk_full.into(),
    );
    text.counter("quoit_syncs", "Syncs of data files.", engine.sync_count);
    text.counter("quoit_synced_writes", "Writes made durable by them.", engine.synced_write_count);
    text.counter("quoit_merges", "Merges of data files.", engine.merge_count);
    text.counter("quoit_merged_bytes", "Bytes written by merges.", engine.merged_bytes);
    text.counter(
        "quoit_corrupt_records",
        "Records skipped because they were damaged.",
        engine.corrupt_record_count,
    );
    let active = context.store.active();
    text.gauge("quoit_gets_active", "Reads that wait for disks or nodes.", active.gets.into());
    text.gauge("quoit_puts_active", "Writes that wait for disks or nodes.", active.puts.into());
    let transfers = context.store.transfers().stats();
    text.family(
        "quoit_transfer_share",
        "Part of the time in which transfers work.",
        FamilyKind::Gauge,
    );
    text.line(format_args!("quoit_transfer_share {}", transfers.share));
    text.counter("quoit_transferred_bytes", "Bytes handed over.", transfers.byte_count);
    let hints: u64 = transfers.hints.iter().map(|each| each.record_count).sum();
    text.gauge("quoit_hints", "Records that other nodes have missed.", hints);
    let reaped = context.store.reap_record_stats();
    text.gauge("quoit_reap_records", "Reaped tombstones that are remembered.", reaped.count as u64);
    text.gauge("quoit_reap_records_maximum", "How many there may be.", reaped.count_max as u64);
    text.gauge("quoit_reap_record_bytes", "Bytes of their files.", reaped.size_bytes);
    text.gauge(
        "quoit_reap_record_losses",
        "Partitions of which reap records were lost.",
        reaped.lost_partition_count as u64,
    );
    internode_metrics(&mut text, context.store.internode());
    super::link_figures::link_metrics(&mut text, context);
    connections(&mut text, context);
    memory(&mut text, &context.memory.figures());
    security_metrics(&mut text, context);
    let machine = SystemFigures::read();
    text.gauge("quoit_resident_bytes", "Memory of the process.", machine.resident_bytes);
    text.family("quoit_cpu_seconds", "Processor time of the process.", FamilyKind::Counter);
    let seconds = machine.processor_time.as_secs_f64();
    text.line(format_args!("quoit_cpu_seconds_total {seconds}"));
    let (read_bytes, written_bytes) = machine.disk_bytes;
    text.counter("quoit_disk_read_bytes", "Bytes that were read from disks.", read_bytes);
    text.counter("quoit_disk_written_bytes", "Bytes that were written to disks.", written_bytes);
    text.gauge("quoit_threads", "Threads of the process.", machine.thread_count);
    text.gauge("quoit_open_files", "Open files and sockets.", machine.open_file_count);
    text.finish()
}

fn requests(text: &mut MetricsText, snapshot: &StatsSnapshot) {
    for (name, help, counter) in [
        ("quoit_gets", "Reads coordinated here.", Counter::Gets),
        ("quoit_puts", "Writes coordinated here.", Counter::Puts),
        ("quoit_get_errors", "Reads that failed.", Counter::GetErrors),
        ("quoit_put_errors", "Writes that failed.", Counter::PutErrors),
        ("quoit_gets_rejected", "Reads refused: too many under way.", Counter::GetsRejected),
        ("quoit_puts_rejected", "Writes refused: too many under way.", Counter::PutsRejected),
    ] {
        text.counter(name, help, snapshot.total(counter));
    }
    for (name, help, distribution, bounds, unit) in [
        (
            "quoit_get_duration_seconds",
            "Time of reads.",
            Distribution::GetTimeUs,
            TIMES_US,
            US_PER_SEC,
        ),
        (
            "quoit_put_duration_seconds",
            "Time of writes.",
            Distribution::PutTimeUs,
            TIMES_US,
            US_PER_SEC,
        ),
        (
            "quoit_get_object_bytes",
            "Sizes of objects read.",
            Distribution::GetObjectBytes,
            BYTES,
            1.0,
        ),
        ("quoit_get_siblings", "Siblings of objects read.", Distribution::GetSiblings, COUNTS, 1.0),
    ] {
        text.histogram(name, help, &snapshot.cumulative(distribution, bounds), unit);
    }
}

/// MapReduce jobs that clients started on this node.
fn mapreduce(text: &mut MetricsText, jobs: &Jobs) {
    let (begun, failed, refused) = jobs.counts();
    text.counter("quoit_mapreduce_jobs", "MapReduce jobs begun here.", begun);
    text.counter("quoit_mapreduce_job_errors", "MapReduce jobs that failed.", failed);
    text.counter(
        "quoit_mapreduce_jobs_refused",
        "MapReduce jobs that waited for a place until their time was over.",
        refused,
    );
    text.gauge(
        "quoit_mapreduce_jobs_active",
        "MapReduce jobs that run.",
        jobs.active_count() as u64,
    );
}

/// Index queries, listings and folds started on this node, and reads and writes of the indexes of this
/// node's copies.
fn long_requests(text: &mut MetricsText, stats: &Stats, snapshot: &StatsSnapshot) {
    for (name, help, counter) in [
        ("quoit_index_queries", "Index queries begun here.", Counter::IndexQueries),
        (
            "quoit_index_queries_complete",
            "Index queries answered to the end.",
            Counter::IndexQueriesComplete,
        ),
        (
            "quoit_index_query_errors",
            "Index queries that could not be begun.",
            Counter::IndexQueryErrors,
        ),
        ("quoit_listings", "Listings of keys and of buckets begun here.", Counter::Listings),
        ("quoit_listing_errors", "Listings that could not be begun.", Counter::ListingErrors),
        ("quoit_folds", "Folds over records and over all buckets begun here.", Counter::Folds),
        ("quoit_fold_errors", "Folds that could not be begun.", Counter::FoldErrors),
        ("quoit_index_reads", "Chunks of indexes read here.", Counter::IndexReads),
        ("quoit_index_writes", "Records stored here with index entries.", Counter::IndexWrites),
        (
            "quoit_index_entries_written",
            "Index entries that records here got.",
            Counter::IndexEntriesWritten,
        ),
        (
            "quoit_index_deletes",
            "Records here that lost all of their index entries.",
            Counter::IndexDeletes,
        ),
        (
            "quoit_index_entries_deleted",
            "Index entries that records here lost.",
            Counter::IndexEntriesDeleted,
        ),
    ] {
        text.counter(name, help, snapshot.total(counter));
    }
    for (name, help, kind) in [
        ("quoit_index_queries_active", "Index queries under way.", LongRequest::IndexQuery),
        ("quoit_listings_active", "Listings under way.", LongRequest::Listing),
        ("quoit_folds_active", "Folds under way.", LongRequest::Fold),
    ] {
        text.gauge(name, help, stats.active(kind) as u64);
    }
    for (name, help, distribution, bounds, unit) in [
        (
            "quoit_index_query_duration_seconds",
            "Time of index queries, the client's reading included.",
            Distribution::IndexTimeUs,
            TIMES_US,
            US_PER_SEC,
        ),
        (
            "quoit_index_query_results",
            "Results of index queries.",
            Distribution::IndexResults,
            RESULTS,
            1.0,
        ),
    ] {
        text.histogram(name, help, &snapshot.cumulative(distribution, bounds), unit);
    }
}

fn exchanges(text: &mut MetricsText, snapshot: &StatsSnapshot) {
    for (name, help, counter) in [
        ("quoit_aae_exchanges", "Comparisons of copies with other nodes.", Counter::Exchanges),
        (
            "quoit_aae_exchanges_in_sync",
            "Comparisons that found everything equal.",
            Counter::ExchangesInSync,
        ),
        (
            "quoit_aae_exchanges_settled",
            "Comparisons whose differences had vanished after a moment.",
            Counter::ExchangesSettled,
        ),
        (
            "quoit_aae_exchanges_repaired",
            "Comparisons that repaired something.",
            Counter::ExchangesRepaired,
        ),
        ("quoit_aae_exchange_errors", "Comparisons that failed.", Counter::ExchangeErrors),
        (
            "quoit_aae_exchange_timeouts",
            "Comparisons whose other side did not answer in time.",
            Counter::ExchangeTimeouts,
        ),
        (
            "quoit_aae_keys_repaired",
            "Records repaired by comparisons.",
            Counter::ExchangeKeysRepaired,
        ),
        (
            "quoit_aae_bytes_repaired",
            "Bytes of objects sent and fetched for that.",
            Counter::ExchangeBytesRepaired,
        ),
        (
            "quoit_copies_restored",
            "Copies of partitions made in the place of lost ones.",
            Counter::CopiesRestored,
        ),
        ("quoit_verified_bytes", "Bytes of data read to find damage.", Counter::VerifiedBytes),
        ("quoit_damaged_records", "Damaged records found by that.", Counter::DamagedRecords),
        (
            "quoit_healed_records",
            "Damaged records replaced by those of other replicas.",
            Counter::HealedRecords,
        ),
    ] {
        text.counter(name, help, snapshot.total(counter));
    }
}

fn connections(text: &mut MetricsText, context: &ServerContext) {
    let counts = [("pb", &context.pb_connections), ("http", &context.http_connections)];
    text.family("quoit_connections_open", "Client connections open.", FamilyKind::Gauge);
    for (protocol, counts) in counts {
        let active = counts.active();
        text.line(format_args!("quoit_connections_open{{protocol=\"{protocol}\"}} {active}"));
    }
    text.family("quoit_connections", "Client connections since the start.", FamilyKind::Counter);
    for (protocol, counts) in counts {
        let total = counts.total();
        text.line(format_args!("quoit_connections_total{{protocol=\"{protocol}\"}} {total}"));
    }
}

/// Memory of requests and answers.
fn memory(text: &mut MetricsText, figures: &MemoryFigures) {
    for (name, help, value) in [
        (
            "quoit_request_memory_budget_bytes",
            "Memory that requests and answers may take.",
            figures.budget_bytes,
        ),
        ("quoit_request_memory_used_bytes", "Memory that they take.", figures.used_bytes),
        ("quoit_request_memory_used_bytes_maximum", "The most ever.", figures.used_bytes_max),
    ] {
        text.gauge(name, help, value);
    }
    for (name, help, value) in [
        (
            "quoit_request_memory_refused",
            "Requests and answers refused because others had the memory.",
            figures.refused_count,
        ),
        (
            "quoit_request_memory_too_large",
            "Requests and answers refused because they exceed a connection's share.",
            figures.too_large_count,
        ),
        (
            "quoit_slow_requests",
            "Connections closed because a request stood still.",
            figures.slow_request_count,
        ),
        (
            "quoit_slow_answers",
            "Connections closed because an answer was not read.",
            figures.slow_answer_count,
        ),
    ] {
        text.counter(name, help, value);
    }
}

/// Builder of the metrics text.
pub(super) struct MetricsText {
    text: String,
    form: Form,
}

/// Kind of a family of metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FamilyKind {
    Counter,
    Gauge,
    Histogram,
}

impl FamilyKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl MetricsText {
    pub(super) fn new(form: Form) -> Self {
        Self { text: String::new(), form }
    }

    pub(super) fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{line}");
    }

    pub(super) fn family(&mut self, name: &str, help: &str, kind: FamilyKind) {
        // In OpenMetrics, the suffix `_total` belongs to the samples of a counter, and not to its family.
        let is_whole = kind == FamilyKind::Counter && self.form == Form::Prometheus;
        let end = if is_whole { "_total" } else { "" };
        self.line(format_args!("# HELP {name}{end} {help}"));
        self.line(format_args!("# TYPE {name}{end} {}", kind.as_str()));
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, help, FamilyKind::Gauge);
        self.line(format_args!("{name} {value}"));
    }

    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, help, FamilyKind::Counter);
        self.line(format_args!("{name}_total {value}"));
    }

    /// `unit`: number of measured units in one unit of the output.
    fn histogram(&mut self, name: &str, help: &str, histogram: &Cumulative, unit: f64) {
        self.histograms(name, help, &[(String::new(), histogram.clone())], unit);
    }

    /// Like `histogram`, for several histograms with different labels.
    pub(super) fn histograms(
        &mut self,
        name: &str,
        help: &str,
        histograms: &[(String, Cumulative)],
        unit: f64,
    ) {
        self.family(name, help, FamilyKind::Histogram);
        for (labels, histogram) in histograms {
            let comma = if labels.is_empty() { "" } else { "," };
            for (bound, count) in &histogram.at_most {
                let bound = *bound as f64 / unit;
                self.line(format_args!("{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}"));
            }
            let Cumulative { count, sum, .. } = histogram;
            self.line(format_args!("{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}"));
            let (sum, braced) = (*sum as f64 / unit, braced(labels));
            self.line(format_args!("{name}_sum{braced} {sum}"));
            self.line(format_args!("{name}_count{braced} {count}"));
        }
    }

    fn finish(mut self) -> String {
        if self.form == Form::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

fn braced(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counters_family_has_its_samples_name_where_prometheus_reads_it() {
        let text = |form| {
            let mut text = MetricsText::new(form);
            text.counter("t", "Things.", 3);
            text.finish()
        };
        let plain = "# HELP t_total Things.\n# TYPE t_total counter\nt_total 3\n";
        assert_eq!(text(Form::Prometheus), plain);
        let open = "# HELP t Things.\n# TYPE t counter\nt_total 3\n# EOF\n";
        assert_eq!(text(Form::OpenMetrics), open);
    }

    #[test]
    fn the_form_follows_what_the_client_prefers() {
        assert_eq!(Form::of(None), Form::Prometheus);
        assert_eq!(Form::of(Some(b"*/*")), Form::Prometheus);
        assert_eq!(Form::of(Some(b"text/plain")), Form::Prometheus);
        let collector: &[u8] = b"application/openmetrics-text;version=1.0.0;q=0.75,\
                                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Form::of(Some(collector)), Form::OpenMetrics);
    }

    #[test]
    fn a_histogram_is_cumulative_and_ends_at_infinity() {
        let mut text = MetricsText::new(Form::OpenMetrics);
        let histogram =
            Cumulative { at_most: vec![(499_999, 2), (999_999, 3)], count: 5, sum: 3_000_000 };
        text.histogram("t_seconds", "Time.", &histogram, US_PER_SEC);
        let lines: Vec<_> = text.text.lines().collect();
        assert_eq!(lines[2], "t_seconds_bucket{le=\"0.499999\"} 2");
        assert_eq!(lines[4], "t_seconds_bucket{le=\"+Inf\"} 5");
        assert_eq!(lines[5], "t_seconds_sum 3");
        text.histograms("t", "Of a type.", &[("of=\"x\"".to_owned(), histogram)], 1.0);
        assert!(text.text.contains("t_bucket{of=\"x\",le=\"+Inf\"} 5\nt_sum{of=\"x\"} 3000000\n"));
        assert!(text.finish().ends_with("# EOF\n"));
    }
}
