//! Findings of the verification, for runs that verify.

use std::fmt::Write as _;

use super::parts::{self, Section};
use crate::plot::{escape, grouped};
use crate::verify::VerifyReport;

/// Maximum number of wrong reads that are listed.
const CASES_SHOWN_MAX: usize = 20;

/// Class and text of the badge.
pub(super) fn badge(report: &VerifyReport) -> (&'static str, String) {
    if report.is_clean() {
        ("good", "verified".to_owned())
    } else if report.fault_count() > 0 {
        ("bad", format!("verification failed: {} faults", grouped(report.fault_count() as f64, 0)))
    } else {
        ("bad", "not all writes could be verified".to_owned())
    }
}

/// The section of the page.
pub(super) fn section(report: &VerifyReport) -> String {
    let hint = if report.is_clean() {
        "Every value that was read is one that had to be read, and every acknowledged write is \
         accounted for."
    } else {
        "Something that was acknowledged is not accounted for, or something was read that was not \
         to be read."
    };
    let count = |count: u64| grouped(count as f64, 0);
    let mut facts = vec![
        ("reads checked", count(report.reads_checked)),
        ("writes acknowledged", count(report.writes_acknowledged)),
        ("writes in doubt", count(report.writes_in_doubt)),
        ("keys written", count(report.keys_written)),
        ("keys read back", count(report.keys_read_back)),
    ];
    if report.keys_unread > 0 {
        facts.push(("keys not readable", count(report.keys_unread)));
    }
    if report.reads_behind > 0 {
        facts.push(("reads behind", count(report.reads_behind)));
    }
    let faults = report.faults.iter().map(|(fault, n)| (fault.to_string(), count(*n)));
    let facts: Vec<(String, String)> =
        facts.into_iter().map(|(name, text)| (name.to_owned(), text)).chain(faults).collect();
    let html = parts::facts(&facts) + &cases(report);
    let html = Section { id: "verification", heading: "Verification", hint, content: &html }.html();
    match report.is_clean() {
        true => html,
        false => html.replacen("<section", "<section class=\"notice\"", 1),
    }
}

/// The table of the first wrong reads.
fn cases(report: &VerifyReport) -> String {
    if report.cases.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<div class=\"scroll\"><table class=\"sortable cases\">\n<thead><tr><th scope=\"col\">fault</th>\
         <th scope=\"col\">key</th><th scope=\"col\">expected</th><th scope=\"col\">found</th>\
         </tr></thead>\n<tbody>\n",
    );
    for case in report.cases.iter().take(CASES_SHOWN_MAX) {
        let fault = case.fault;
        let [key, expected, found] = [&case.key, &case.expected, &case.found].map(|t| escape(t));
        let _ = writeln!(
            html,
            "<tr><td>{fault}</td><td class=\"text\">{key}</td><td class=\"text\">{expected}</td>\
             <td class=\"text\">{found}</td></tr>"
        );
    }
    html + "</tbody></table></div>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::{Fault, FaultCase};

    #[test]
    fn what_was_verified_is_told() {
        let report =
            VerifyReport { reads_checked: 12_345, keys_written: 7, ..VerifyReport::default() };
        assert_eq!(badge(&report), ("good", "verified".to_owned()));
        let html = section(&report);
        assert!(html.contains("accounted for.") && html.contains("12\u{202f}345"), "{html}");
        assert!(!html.contains("<table") && !html.contains("notice"));
    }

    #[test]
    fn faults_are_told_with_the_first_wrong_reads() {
        let case = FaultCase {
            fault: Fault::Stale,
            key: "<k>".to_owned(),
            expected: "write 2".to_owned(),
            found: "write 1".to_owned(),
            by_read_back: true,
        };
        let report = VerifyReport {
            faults: [(Fault::Stale, 3)].into(),
            cases: vec![case],
            ..VerifyReport::default()
        };
        assert_eq!(badge(&report), ("bad", "verification failed: 3 faults".to_owned()));
        let html = section(&report);
        assert!(
            html.contains("<section class=\"notice\"") && html.contains("<dt>stale</dt><dd>3</dd>")
        );
        assert!(html.contains("&lt;k&gt;") && html.contains("write 1"), "{html}");
        let unread = VerifyReport { keys_unread: 1, ..VerifyReport::default() };
        assert_eq!(badge(&unread).0, "bad");
    }
}
