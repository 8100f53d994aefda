//! The figures of a server at one moment, from `/metrics` or from Riak's `/stats`.

use serde_json::Value;

/// Number of figures of a server.
pub(crate) const FIGURE_COUNT: usize = 10;

/// The kind of a figure, which decides how two readings combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerFigureKind {
    /// The current value counts.
    Gauge,
    /// The value only grows; its growth per second counts.
    Counter,
}

/// A column of the table of servers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerColumn {
    /// Name of the column in the file.
    pub(crate) name: &'static str,
    /// Heading for people, with the unit.
    pub(crate) heading: &'static str,
    /// Size of the heading's unit, in the unit of the figure.
    pub(crate) unit: f64,
    kind: ServerFigureKind,
    /// Lists of metrics that add up to the figure. The first list whose metrics are all present is used.
    metrics: &'static [&'static [&'static str]],
    /// Members of `/stats` that add up to the figure.
    stats: &'static [&'static str],
}

/// Index of the processor time among the figures.
pub(crate) const CPU: usize = 0;
/// Index of the bytes read from disks.
pub(crate) const READ: usize = 2;
/// Index of the bytes written to disks.
pub(crate) const WRITTEN: usize = 3;

const MB: f64 = 1e6;

const fn column(
    name: &'static str,
    (heading, unit): (&'static str, f64),
    kind: ServerFigureKind,
    metrics: &'static [&'static [&'static str]],
    stats: &'static [&'static str],
) -> ServerColumn {
    ServerColumn { name, heading, unit, kind, metrics, stats }
}

/// The columns, in the order of the file.
pub(crate) const COLUMNS: [ServerColumn; FIGURE_COUNT] = [
    column(
        "cpu",
        ("Processors in use", 1.0),
        ServerFigureKind::Counter,
        &[&["quoit_cpu_seconds_total"], &["process_cpu_seconds_total"]],
        &[],
    ),
    column(
        "resident",
        ("Memory, MB", MB),
        ServerFigureKind::Gauge,
        &[&["quoit_resident_bytes"], &["process_resident_memory_bytes"]],
        &["memory_total"],
    ),
    column(
        "read",
        ("Read from disks, MB/s", MB),
        ServerFigureKind::Counter,
        &[&["quoit_disk_read_bytes_total"]],
        &[],
    ),
    column(
        "written",
        ("Written to disks, MB/s", MB),
        ServerFigureKind::Counter,
        &[&["quoit_disk_written_bytes_total"]],
        &[],
    ),
    column(
        "disk",
        ("Size of the store, MB", MB),
        ServerFigureKind::Gauge,
        &[&["quoit_disk_bytes"]],
        &[],
    ),
    column(
        "active",
        ("Requests under way", 1.0),
        ServerFigureKind::Gauge,
        &[&["quoit_gets_active", "quoit_puts_active"]],
        &["node_get_fsm_active", "node_put_fsm_active"],
    ),
    column(
        "queued",
        ("Requests in queues", 1.0),
        ServerFigureKind::Gauge,
        &[],
        &["riak_kv_vnodeq_total"],
    ),
    column(
        "merged",
        ("Merged, MB/s", MB),
        ServerFigureKind::Counter,
        &[&["quoit_merged_bytes_total"]],
        &[],
    ),
    column(
        "moved",
        ("Transfers, MB/s", MB),
        ServerFigureKind::Counter,
        &[&["quoit_transferred_bytes_total"]],
        &[],
    ),
    column("hints", ("Hints that wait", 1.0), ServerFigureKind::Gauge, &[&["quoit_hints"]], &[]),
];

/// Figures of a server, in the order of the columns; `None` for those that the server does not report.
pub(crate) type ServerFigures = [Option<f64>; FIGURE_COUNT];

/// Reads the text format of metrics (Prometheus or OpenMetrics). Samples with labels are ignored.
pub(crate) fn of_metrics(text: &str) -> ServerFigures {
    let value_of = |name: &str| -> Option<f64> {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let value = lines.find(|(sample, _)| *sample == name)?.1.split(' ').next()?.parse().ok();
        value.filter(|value: &f64| value.is_finite())
    };
    let sum = |names: &&[&str]| names.iter().map(|name| value_of(name)).sum::<Option<f64>>();
    COLUMNS.map(|column| column.metrics.iter().find_map(sum))
}

/// Reads the document of Riak's `/stats`.
pub(crate) fn of_stats(document: &Value) -> ServerFigures {
    COLUMNS.map(|column| {
        let values = column.stats.iter().map(|name| document.get(*name)?.as_f64());
        if column.stats.is_empty() { None } else { values.sum() }
    })
}

/// The figures of the time between two readings that are `seconds` apart. Counters become rates per second.
/// A counter that has decreased belongs to a new process, and gives no rate yet.
pub(crate) fn between(before: &ServerFigures, now: &ServerFigures, seconds: f64) -> ServerFigures {
    let mut figures = *now;
    for (column, (figure, before)) in COLUMNS.iter().zip(figures.iter_mut().zip(before)) {
        if column.kind == ServerFigureKind::Counter {
            let grown = before.zip(*figure).map(|(before, now)| now - before);
            *figure = grown.filter(|grown| *grown >= 0.0).map(|grown| grown / seconds);
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str) -> usize {
        COLUMNS.iter().position(|column| column.name == name).expect("a column")
    }

    #[test]
    fn places_are_those_of_their_columns() {
        assert_eq!([CPU, READ, WRITTEN], ["cpu", "read", "written"].map(at));
    }

    #[test]
    fn metrics_of_quoit_of_other_servers_and_stats_of_riak_are_understood() {
        let quoit = "# HELP x y\nquoit_cpu_seconds_total 1.5\nquoit_gets_active 2\n\
                     quoit_puts_active 3\n\
                     quoit_hints{node=\"a\"} 9\n";
        let figures = of_metrics(quoit);
        assert_eq!([figures[CPU], figures[at("active")]], [Some(1.5), Some(5.0)]);
        assert_eq!(figures[at("hints")], None, "one of its samples is not the figure");
        let half = of_metrics("quoit_gets_active 2\n");
        assert_eq!(half[at("active")], None, "a sum with a part missing is no sum");
        let other = of_metrics("process_cpu_seconds_total 7 1700000000\n");
        assert_eq!(other[CPU], Some(7.0));
        assert_eq!(of_metrics("process_cpu_seconds_total NaN\n")[CPU], None);
        let riak = serde_json::json!({
            "node_get_fsm_active": 1, "node_put_fsm_active": 2, "riak_kv_vnodeq_total": 4,
            "memory_total": 1000, "nodename": "riak@a"
        });
        let figures = of_stats(&riak);
        assert_eq!([figures[at("active")], figures[at("queued")]], [Some(3.0), Some(4.0)]);
        assert_eq!([figures[at("resident")], figures[CPU]], [Some(1000.0), None]);
    }

    #[test]
    fn counters_count_by_the_second_and_begin_anew_with_a_process() {
        let mut before = ServerFigures::default();
        let mut now = ServerFigures::default();
        (before[CPU], now[CPU]) = (Some(10.0), Some(11.0));
        (before[WRITTEN], now[WRITTEN]) = (Some(500.0), Some(20.0));
        (before[1], now[1]) = (Some(9.0), Some(7.0));
        now[READ] = Some(5.0);
        let row = between(&before, &now, 2.0);
        assert_eq!([row[CPU], row[WRITTEN], row[1], row[READ]], [Some(0.5), None, Some(7.0), None]);
    }
}
