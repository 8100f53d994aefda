//! Results of a comparison, and their printing.

use crate::drive::{Load, Measured, Target, drive};
use anyhow::{Context, Result};

/// The median; the larger of the two middle values of an even number. NaN if there are no values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Formats the smallest and the largest value.
pub(crate) fn spread(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{low:.2}..{high:.2}")
}

/// One line of a comparison: a server with its load and its results.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    target: Target,
    load: Load,
    pub(crate) runs: Vec<Measured>,
}

impl Row {
    pub(crate) const fn new(name: &'static str, target: Target, load: Load) -> Self {
        Self { name, target, load, runs: Vec::new() }
    }

    pub(crate) fn each(&self, figure: impl Fn(&Measured) -> f64) -> Vec<f64> {
        self.runs.iter().map(figure).collect()
    }

    /// A figure of this row divided by that of another row, round by round.
    pub(crate) fn ratios(
        &self,
        other: &Self,
        figure: impl Fn(&Measured) -> f64 + Copy,
    ) -> Vec<f64> {
        let pairs = self.each(figure).into_iter().zip(other.each(figure));
        pairs.map(|(mine, theirs)| mine / theirs).collect()
    }

    /// Runs the load for a round. Round 0 is the warm-up, with a tenth of the operations.
    fn run(&self, round: u64) -> Result<Measured> {
        let mut load = Load { seed: round * 1_000_003, ..self.load.clone() };
        if round == 0 {
            load.operations = (load.operations / 10).max(1);
        }
        if load.sequential {
            load.first_key += round * self.load.operations;
        }
        drive(&self.target, &load).context(self.name)
    }
}

/// Runs all rows in turn for `rounds` rounds, each beginning with another row, after a warm-up round. Loads
/// on new keys continue with further keys in each round.
pub(crate) fn interleave(rows: &mut [Row], rounds: usize) -> Result<()> {
    for row in rows.iter() {
        row.run(0)?;
    }
    for round in 0..rounds {
        for turn in 0..rows.len() {
            let row = (round + turn) % rows.len();
            let run = rows[row].run(round as u64 + 1)?;
            rows[row].runs.push(run);
        }
    }
    Ok(())
}

/// Prints a table. Its last columns compare the processor time with that of the rows named in `against`.
pub(crate) fn print(rows: &[Row], against: &[&str]) {
    let heads: Vec<String> = against.iter().map(|name| format!(" CPU vs. {name} |")).collect();
    println!("| what | CPU us/op | op/s | p50 us | p99 us |{}", heads.concat());
    println!("|---|---|---|---|---|{}", "---|".repeat(against.len()));
    for row in rows {
        let cpu = row.each(Measured::cpu_us);
        let at = |share: f64| median(row.each(|run| f64::from(run.percentile_us(share))));
        let ratio = |name: &&str| {
            let Some(other) = rows.iter().find(|other| other.name == *name) else {
                return " - |".to_owned();
            };
            let ratios = row.ratios(other, Measured::cpu_us);
            format!(" {:.2} ({}) |", median(ratios.clone()), spread(&ratios))
        };
        println!(
            "| {} | {:.2} ({}) | {:.0} | {:.0} | {:.0} |{}",
            row.name,
            median(cpu.clone()),
            spread(&cpu),
            median(row.each(Measured::rate)),
            at(0.50),
            at(0.99),
            against.iter().map(ratio).collect::<String>()
        );
    }
}
