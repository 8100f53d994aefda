//! The command `quoit bench capacity`.

use super::CapacityError;
use super::law::{ClusterPoint, ScalingLaw};
use super::needs::{Need, resource_needs};
use super::points::read_point;
use crate::cli::{ExitStatus, failed};
use crate::output::Terminal;
use crate::plot::grouped;
use std::time::Duration;

/// The requirements, and the measured clusters to judge by.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityOptions {
    /// Measured clusters, as `NODES=RATE` or `NODES=DIRECTORY`.
    pub points: Vec<String>,
    /// Required operations per second.
    pub rate_per_s: Option<f64>,
    /// Bound of the 99th percentile that measured rates must keep.
    pub p99_max: Option<Duration>,
    /// Size of one copy of all data, in bytes.
    pub data_bytes: Option<u64>,
    /// Size of a node's disk, in bytes.
    pub disk_bytes: Option<u64>,
    /// Share of a disk that may be filled, above 0 and at most 1.
    pub fill: f64,
    /// Number of keys.
    pub keys: Option<u64>,
    /// Memory of a node for keys, in bytes.
    pub memory_bytes: Option<u64>,
    /// Memory that a key takes, in bytes. The default is that of the index of bitcask.
    pub key_bytes: u64,
    /// Number of copies of each object.
    pub copies: u32,
    /// Price of a node per hour.
    pub node_hour_price: Option<f64>,
}

impl Default for CapacityOptions {
    fn default() -> Self {
        Self {
            points: Vec::new(),
            rate_per_s: None,
            p99_max: None,
            data_bytes: None,
            disk_bytes: None,
            fill: 0.7,
            keys: None,
            memory_bytes: None,
            key_bytes: 24,
            copies: 3,
            node_hour_price: None,
        }
    }
}

/// Prints how many nodes the requirements need.
pub fn capacity(options: &CapacityOptions) -> ExitStatus {
    match lines(options) {
        Ok(lines) => {
            let mut terminal = Terminal::stdout();
            lines.iter().for_each(|line| terminal.line(line));
            ExitStatus::Success
        }
        Err(error) => failed(&error),
    }
}

fn lines(options: &CapacityOptions) -> Result<Vec<String>, CapacityError> {
    let points = options.points.iter().map(|text| read_point(text, options.p99_max));
    let mut points: Vec<ClusterPoint> = points.collect::<Result<_, _>>()?;
    points.sort_by_key(|point| point.nodes);
    let mut needs = resource_needs(options)?;
    let law = ScalingLaw::fit(&points);
    let mut lines = law.map_or_else(Vec::new, |law| describe(&law, &points));
    match (options.rate_per_s, law) {
        (None, _) => {}
        (Some(_), None) => return Err(CapacityError::NoPoint),
        (Some(rate_per_s), Some(law)) => match law.nodes_for(rate_per_s) {
            None => {
                lines.push(beyond(&law, rate_per_s));
                return Ok(lines);
            }
            Some(nodes) => {
                let text = rate_text(&law, &points, rate_per_s, nodes);
                needs.push(Need { nodes: u64::from(nodes), text });
            }
        },
    }
    if needs.is_empty() {
        return if points.is_empty() { Err(CapacityError::NoNeed) } else { Ok(lines) };
    }
    lines.extend(needs.iter().map(|need| format!("{:>6} nodes for {}", need.nodes, need.text)));
    let most =
        needs.iter().map(|need| need.nodes).max().unwrap_or(1).max(u64::from(options.copies));
    lines.push(format!(
        "{most:>6} nodes in all, and {} so that all of that holds while one is down",
        most + 1
    ));
    lines.extend(price(options, most + 1));
    Ok(lines)
}

/// The measured clusters compared with the law, and with the law that is fitted without them.
fn describe(law: &ScalingLaw, points: &[ClusterPoint]) -> Vec<String> {
    let mut lines =
        vec![" nodes    measured      by the law   by the law of the others".to_owned()];
    for (index, point) in points.iter().enumerate() {
        let mut others = points.to_vec();
        others.remove(index);
        let left_out = ScalingLaw::fit(&others).map_or_else(String::new, |law| {
            let error = law.rate_per_s(point.nodes) / point.rate_per_s - 1.0;
            format!("{:+.1} %", error * 100.0)
        });
        lines.push(format!(
            "{:>6} {:>11} {:>15} {left_out:>26}",
            point.nodes,
            grouped(point.rate_per_s, 0),
            grouped(law.rate_per_s(point.nodes), 0),
        ));
    }
    let peak = law.nodes_at_peak().map_or_else(String::new, |nodes| {
        format!("; most with {nodes} nodes, {} op/s", grouped(law.rate_per_s(nodes), 0))
    });
    lines.push(format!(
        "law: {} op/s of one node, contention {:.2} %, coherency {:.4} %{peak}",
        grouped(law.rate_of_one(), 0),
        law.contention() * 100.0,
        law.coherency() * 100.0,
    ));
    lines
}

fn beyond(law: &ScalingLaw, rate_per_s: f64) -> String {
    let most = law.nodes_at_peak().unwrap_or(1);
    format!(
        "No cluster has {} op/s by this law: the most is {} op/s, with {most} nodes. Split the load over \
         several clusters, or measure larger ones",
        grouped(rate_per_s, 0),
        grouped(law.rate_per_s(most), 0),
    )
}

fn rate_text(law: &ScalingLaw, points: &[ClusterPoint], rate_per_s: f64, nodes: u32) -> String {
    let mut text = format!("{} op/s", grouped(rate_per_s, 0));
    text.push_str(&match law.interval_for(points, rate_per_s) {
        Some((low, Some(high))) => format!(" (by 90 % of the fits {low} to {high})"),
        Some((low, None)) => {
            format!(" (by 90 % of the fits {low} or more, and some never reach it)")
        }
        None => " (too few measured clusters for an interval)".to_owned(),
    });
    let sizes = points.iter().map(|point| point.nodes);
    let (least, most) = (sizes.clone().min().unwrap_or(nodes), sizes.max().unwrap_or(nodes));
    if nodes > most || nodes < least {
        text.push_str(&format!(
            "; EXTRAPOLATED: measured were {least} to {most} nodes, and a law is not a measurement"
        ));
    }
    text
}

/// The price of this number of nodes, if the price of a node is given.
fn price(options: &CapacityOptions, nodes: u64) -> Option<String> {
    let per_hour = options.node_hour_price? * nodes as f64;
    let per_million = options.rate_per_s.map_or_else(String::new, |rate| {
        format!(
            ", {:.4} for each million operations at the full rate",
            per_hour / 3600.0 / rate * 1e6
        )
    });
    Some(format!("{nodes:>6} nodes cost {per_hour:.2} an hour{per_million}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(options: CapacityOptions) -> String {
        lines(&options).map(|lines| lines.join("\n")).unwrap_or_else(|fault| fault.to_string())
    }

    fn points(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    const PUBLISHED: [&str; 5] = ["5=6684.7", "8=10680.2", "10=13720.7", "12=15995.8", "14=17790"];

    #[test]
    fn a_rate_has_its_nodes_with_an_interval_and_says_where_it_extrapolates() {
        let of = |rate| CapacityOptions {
            points: points(&PUBLISHED),
            rate_per_s: Some(rate),
            node_hour_price: Some(0.5),
            ..CapacityOptions::default()
        };
        let inside = told(of(12_000.0));
        assert!(
            inside.contains(" 9 nodes for 12") && inside.contains("90 % of the fits"),
            "{inside}"
        );
        assert!(!inside.contains("EXTRAPOLATED"), "{inside}");
        assert!(inside.contains("10 nodes cost 5.00 an hour"), "{inside}");
        let outside = told(of(19_000.0));
        assert!(outside.contains("EXTRAPOLATED: measured were 5 to 14 nodes"), "{outside}");
    }

    #[test]
    fn the_largest_need_decides_and_no_cluster_is_smaller_than_its_copies() {
        let options = CapacityOptions {
            points: points(&["1=1000", "2=2000"]),
            rate_per_s: Some(1500.0),
            ..CapacityOptions::default()
        };
        assert!(
            told(options.clone()).contains("     3 nodes in all, and 4 so that"),
            "{}",
            told(options.clone())
        );
        let data = CapacityOptions {
            data_bytes: Some(7_000_000_000_000),
            disk_bytes: Some(1_000_000_000_000),
            ..options
        };
        assert!(told(data.clone()).contains("    30 nodes in all, and 31"), "{}", told(data));
    }

    #[test]
    fn what_can_not_be_told_names_the_value_and_the_remedy() {
        for (options, words) in [
            (CapacityOptions::default(), "nothing is required"),
            (
                CapacityOptions { rate_per_s: Some(1.0), ..Default::default() },
                "--rate needs measured",
            ),
            (
                CapacityOptions { points: points(&["x=1"]), ..Default::default() },
                "\"x=1\" is not a measured",
            ),
            (
                CapacityOptions { points: points(&["3=0"]), ..Default::default() },
                "\"3=0\" is not a measured",
            ),
            (CapacityOptions { keys: Some(1), ..Default::default() }, "--keys needs --memory"),
        ] {
            let told = told(options);
            assert!(told.contains(words), "{told}");
        }
        let peak = CapacityOptions {
            points: points(&["1=1000", "4=2500", "8=2600", "16=2000"]),
            rate_per_s: Some(50_000.0),
            ..Default::default()
        };
        assert!(told(peak.clone()).contains("No cluster has"), "{}", told(peak));
    }
}
