//! Reports of operations that failed.

use super::RunReport;
use crate::config::LogLevel;
use crate::output::{RunLog, Terminal};

/// Maximum number of reasons that are printed. `summary.json` has all of them.
const TOLD_COUNT_MAX: usize = 5;

/// Writes the reasons of failures to the terminal and the log, the most frequent first. They are red if no
/// operation succeeded.
pub(super) fn print_failures(report: &RunReport, terminal: &mut Terminal, log: &RunLog) {
    let in_vain = report.all_operations_failed();
    let level = if in_vain { LogLevel::Error } else { LogLevel::Warning };
    for line in lines(report) {
        log.write(level, &line);
        match in_vain {
            true => terminal.alarm(&line),
            false => terminal.line(&line),
        }
    }
}

fn lines(report: &RunReport) -> Vec<String> {
    let failed = report.total.error_count();
    if failed == 0 {
        return Vec::new();
    }
    let all = failed + report.total.success_count();
    let verdict = if report.all_operations_failed() { "NO OPERATION SUCCEEDED: " } else { "" };
    let mut lines = vec![format!("{verdict}{failed} of {all} operations failed")];
    let mut reasons: Vec<_> = report.total.errors_of(&report.operations).collect();
    reasons.sort_by_key(|(_, _, count)| std::cmp::Reverse(*count));
    lines.extend(
        reasons
            .iter()
            .take(TOLD_COUNT_MAX)
            .map(|(operation, reason, count)| format!("  {count} {}: {reason}", operation.name())),
    );
    let left: u64 = reasons.iter().skip(TOLD_COUNT_MAX).map(|(_, _, count)| *count).sum();
    if left > 0 {
        lines.push(format!("  and {left} for other reasons"));
    }
    lines
}
