//! Messages about the findings of a verified run.

use crate::config::LogLevel;
use crate::output::{RunLog, Terminal};
use crate::verify::VerifyReport;

/// Writes the findings of the verification to the terminal and the log, in red if something is wrong.
pub(super) fn print_verification(report: &VerifyReport, terminal: &mut Terminal, log: &RunLog) {
    let is_clean = report.is_clean();
    let level = if is_clean { LogLevel::Info } else { LogLevel::Error };
    for line in lines(report) {
        log.write(level, &line);
        match is_clean {
            true => terminal.line(&line),
            false => terminal.alarm(&line),
        }
    }
}

fn lines(report: &VerifyReport) -> Vec<String> {
    let VerifyReport { writes_acknowledged, writes_in_doubt, keys_written, .. } = report;
    let verdict = if report.is_clean() { "Verified" } else { "VERIFICATION FAILED" };
    let mut lines = vec![format!(
        "{verdict}: {} reads checked, {writes_acknowledged} writes acknowledged, \
         {writes_in_doubt} in doubt; {} of {keys_written} written keys read back",
        report.reads_checked, report.keys_read_back,
    )];
    if report.reads_behind > 0 {
        lines.push(format!("{} reads were behind an acknowledged write", report.reads_behind));
    }
    if report.keys_unread > 0 {
        lines.push(format!("{} keys could not be read back", report.keys_unread));
    }
    lines.extend(report.faults.iter().map(|(fault, count)| format!("{count} {fault}")));
    lines.extend(report.cases.iter().map(|case| {
        let place = if case.by_read_back { " at the end" } else { "" };
        let (fault, key) = (case.fault, &case.key);
        format!("  {fault}{place}: key {key}: expected {}, found {}", case.expected, case.found)
    }));
    let left = report.fault_count() - report.cases.len() as u64;
    if left > 0 {
        lines.push(format!("  and {left} more"));
    }
    lines
}
