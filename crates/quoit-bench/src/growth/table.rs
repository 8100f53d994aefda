//! The table of results of the experiment.

use std::fmt;

/// Column headers of the table.
pub(crate) const COLUMNS: [&str; 8] = [
    "items",
    "id",
    "size",
    "kv_read_elapsed",
    "read_prewrite_elapsed",
    "write_elapsed",
    "read_postwrite_elapsed",
    "read_postwrite_elapsed2",
];

/// The measurements for one item that is added to one container. Times are in seconds on the monotonic
/// clock, from before the request is encoded until the answer is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GrowthRow {
    /// Number of items in the container after the write.
    pub item_count: u64,
    /// Number of the container, from 1.
    pub container: u64,
    /// Size of the record as a plain object before the write, in bytes; 0 if it did not exist.
    pub size_bytes: u64,
    /// Time to read it as a plain object; 0 if it did not exist.
    pub kv_read_s: f64,
    /// Time to read it as a data type before the write.
    pub read_before_s: f64,
    /// Time to add the item.
    pub write_s: f64,
    /// Time to read it as a data type after the write.
    pub read_after_s: f64,
    /// Time to read it as a data type once more.
    pub read_again_s: f64,
}

/// A column of times.
#[derive(Debug, Clone, Copy)]
pub struct TimeColumn {
    /// Name of the request, for people.
    pub name: &'static str,
    /// The time in a row.
    pub seconds: fn(&GrowthRow) -> f64,
}

/// The columns of times, in their order.
pub const TIMES: [TimeColumn; 5] = [
    TimeColumn { name: "plain read", seconds: |row| row.kv_read_s },
    TimeColumn { name: "read before", seconds: |row| row.read_before_s },
    TimeColumn { name: "write", seconds: |row| row.write_s },
    TimeColumn { name: "read after", seconds: |row| row.read_after_s },
    TimeColumn { name: "read again", seconds: |row| row.read_again_s },
];

impl fmt::Display for GrowthRow {
    /// Writes the line of the row, without a line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.item_count, self.container, self.size_bytes)?;
        TIMES.iter().try_for_each(|time| write!(f, ", {}", (time.seconds)(self)))
    }
}

/// The medians of the first and the last tenth of a column. Items without a value are left out.
pub(crate) fn ends(rows: &[GrowthRow], time_s: fn(&GrowthRow) -> f64) -> Option<(f64, f64)> {
    let times: Vec<f64> = rows.iter().map(time_s).filter(|seconds| *seconds > 0.0).collect();
    let count = times.len().div_ceil(10);
    Some((median(times.get(..count)?)?, median(times.get(times.len() - count..)?)?))
}

/// The median. If the number of values is even, the upper one of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_plain_decimal_numbers_in_the_order_of_the_header() {
        let row = GrowthRow {
            item_count: 15_000,
            container: 1,
            size_bytes: 0,
            kv_read_s: 0.0,
            read_before_s: 0.000_000_8,
            write_s: 0.001_25,
            read_after_s: 12.5,
            read_again_s: 1.0,
        };
        assert_eq!(row.to_string(), "15000, 1, 0, 0, 0.0000008, 0.00125, 12.5, 1");
        assert_eq!(row.to_string().split(", ").count(), COLUMNS.len());
    }

    #[test]
    fn the_ends_are_the_medians_of_the_first_and_last_tenth() {
        let mut rows: Vec<GrowthRow> =
            (1..=30).map(|n| GrowthRow { write_s: f64::from(n), ..Default::default() }).collect();
        assert_eq!(ends(&rows, |row| row.write_s), Some((2.0, 29.0)));
        assert_eq!(ends(&rows, |row| row.kv_read_s), None, "nothing was there to be read");
        rows.truncate(1);
        assert_eq!(ends(&rows, |row| row.write_s), Some((1.0, 1.0)));
    }
}
