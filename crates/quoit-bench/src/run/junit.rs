//! `junit.xml`: the expectations of a run as test cases, in the JUnit format that build servers read.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::expectations::Judgement;
use crate::plot::escape;

/// Name of the file in the directory of a run.
pub(crate) const JUNIT_FILE: &str = "junit.xml";

/// Writes `junit.xml`.
pub(crate) fn write_junit(
    run: &Path,
    judgements: &[Judgement],
    elapsed: Duration,
) -> io::Result<()> {
    std::fs::write(run.join(JUNIT_FILE), document(judgements, elapsed))
}

/// The document: one suite with a test case for each expectation.
pub(super) fn document(judgements: &[Judgement], elapsed: Duration) -> String {
    let missed = judgements.iter().filter(|judgement| !judgement.is_met).count();
    let (count, seconds) = (judgements.len(), elapsed.as_secs_f64());
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let mut line = |text: String| {
        // Writing to a string does not fail.
        let _ = writeln!(xml, "{text}");
    };
    line(format!(
        "<testsuite name=\"quoit bench\" tests=\"{count}\" failures=\"{missed}\" errors=\"0\" \
         time=\"{seconds:.3}\">"
    ));
    for Judgement { expectation, is_met, measured } in judgements {
        let (name, measured) = (escape(expectation), escape(measured));
        let case = format!("  <testcase classname=\"quoit bench\" name=\"{name}\">");
        match is_met {
            true => line(format!("{case}<system-out>{measured}</system-out></testcase>")),
            false => line(format!("{case}<failure message=\"{measured}\"/></testcase>")),
        }
    }
    line("</testsuite>".to_owned());
    xml
}
