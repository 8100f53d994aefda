//! The arguments of `quoit bench capacity`.

use clap::Args;
use quoit_bench::capacity::CapacityOptions;
use quoit_bench::config::RunLength;
use quoit_number::whole;
use std::time::Duration;

/// Requirements of a load, and measured clusters to extrapolate from.
#[derive(Args, Debug)]
pub(crate) struct CapacityArgs {
    /// Measured clusters: NODES=RATE in operations per second, such as 5=12000, or NODES=DIRECTORY of a run
    /// or of a search for the knee.
    #[arg(value_name = "NODES=RATE|DIRECTORY")]
    points: Vec<String>,
    /// Required operations per second, such as 50k or 1.5M.
    #[arg(long, value_name = "N", value_parser = super::line::rate)]
    rate: Option<f64>,
    /// Bound of the 99th percentile, such as 5ms: for a search, the highest rate within it counts; a run
    /// above it is refused.
    #[arg(long, value_name = "TIME", value_parser = time)]
    p99: Option<Duration>,
    /// Size of all data, one copy, in bytes, such as 500G or 2T.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    data: Option<u64>,
    /// Disk of a node in bytes.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    disk: Option<u64>,
    /// Share of a disk that may be filled, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 70)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=100))]
    fill: u8,
    /// Number of keys, such as 100M.
    #[arg(long, value_name = "N", value_parser = super::line::count)]
    keys: Option<u64>,
    /// Memory of a node for keys in bytes, such as 16G.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<u64>,
    /// Memory of a key in bytes; bitcask's index takes 24.
    #[arg(long, value_name = "BYTES", default_value_t = 24)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    key_memory: u64,
    /// Copies of each object (n_val).
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=99))]
    copies: u32,
    /// Price of a node per hour, in any currency.
    #[arg(long, value_name = "PRICE")]
    price: Option<f64>,
}

impl CapacityArgs {
    pub(crate) fn options(&self) -> CapacityOptions {
        CapacityOptions {
            points: self.points.clone(),
            rate_per_s: self.rate,
            p99_max: self.p99,
            data_bytes: self.data,
            disk_bytes: self.disk,
            fill: f64::from(self.fill) / 100.0,
            keys: self.keys,
            memory_bytes: self.memory,
            key_bytes: self.key_memory,
            copies: self.copies,
            node_hour_price: self.price,
        }
    }
}

/// Parses a time with its unit.
fn time(text: &str) -> Result<Duration, String> {
    match RunLength::parse(text) {
        Ok(RunLength::For(time)) => Ok(time),
        _ => Err("wanted a time, such as 5ms or 0.1s".to_owned()),
    }
}

/// Parses a number of bytes of at least 1, with an optional suffix k, M, G, T or P (powers of 1000).
fn bytes(text: &str) -> Result<u64, String> {
    let text = text.strip_suffix('B').unwrap_or(text);
    let units = [("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15)];
    let unit = units.iter().find_map(|(end, unit)| Some((text.strip_suffix(end)?, *unit)));
    let (number, unit) = unit.unwrap_or((text, 1.0));
    let value = number.trim().parse::<f64>().ok().map(|number| number * unit);
    let value = value.filter(|value| (1.0..=1e18).contains(value));
    value.map(whole).ok_or_else(|| "wanted bytes, such as 500G or 2T".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units_of_a_thousand() {
        let read = ["1", "500G", "2T", "1.5kB", "3 M"].map(|text| bytes(text).ok());
        let expected = [1, 500_000_000_000, 2_000_000_000_000, 1500, 3_000_000].map(Some);
        assert_eq!(read, expected);
        assert!(["0", "", "x", "-1G", "NaN", "1E"].iter().all(|text| bytes(text).is_err()));
        assert_eq!(time("5ms"), Ok(Duration::from_millis(5)));
        assert!(time("infinity").is_err());
    }
}
