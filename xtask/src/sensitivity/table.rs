//! The table of findings that `docs/design/simulation.md` shows.

use super::results::{Finding, Results};
use super::{Fault, NO_FAULT};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Number of seeds among which each fault should be found at least once.
const SEEDS_A_FINDING: u64 = 100;

/// The table in Markdown. Its last line lists the faults that are found too seldom.
pub(super) fn table(
    faults: &[Fault],
    places: &BTreeMap<String, PathBuf>,
    results: &Results,
) -> String {
    let mut out = String::new();
    out.push_str(
        "| part | fault | wrong decision | where | seeds of | found | first seed | by |\n",
    );
    out.push_str("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for fault in faults {
        let place = places.get(&fault.variant).map_or_else(String::new, |path| short(path));
        let Fault { name, area, description, family, .. } = fault;
        let row = row(results, name);
        _ = writeln!(out, "| {area} | `{name}` | {description} | `{place}` | {family} | {row} |");
    }
    _ = writeln!(out, "| | no fault | | | mix | {} |", row(results, NO_FAULT));
    let seldom: Vec<&str> = faults.iter().map(|fault| fault.name.as_str()).collect();
    let seldom: Vec<&str> = seldom.into_iter().filter(|name| is_seldom(results, name)).collect();
    let count = faults.len();
    _ = match seldom.len() {
        0 => writeln!(out, "\nAll {count} are found in one of {SEEDS_A_FINDING} seeds or more."),
        _ => {
            writeln!(out, "\nFound in fewer than one of {SEEDS_A_FINDING}: {}.", seldom.join(", "))
        }
    };
    out
}

/// The number of findings, the first seed, and the checkers with their counts, most frequent first.
fn row(results: &Results, fault: &str) -> String {
    let mut first = None;
    let mut checkers: BTreeMap<&str, u64> = BTreeMap::new();
    for (seed, finding) in results.of(fault) {
        if let Finding::By(checker) = finding {
            first.get_or_insert(seed);
            *checkers.entry(checker).or_default() += 1;
        }
    }
    let mut checkers: Vec<(&str, u64)> = checkers.into_iter().collect();
    checkers.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let by: Vec<String> =
        checkers.into_iter().map(|(checker, count)| format!("{checker} {count}")).collect();
    let (found, all) = (results.found_count(fault), results.of(fault).count());
    let first = first.map_or_else(String::new, |seed| seed.to_string());
    format!("{found} of {all} | {first} | {}", by.join(", "))
}

fn is_seldom(results: &Results, fault: &str) -> bool {
    results.found_count(fault) * SEEDS_A_FINDING < (results.of(fault).count() as u64).max(1)
}

/// Shortens a path in the way that readers of the repository use: `quoit-core/votes/read.rs`.
fn short(path: &Path) -> String {
    let text = path.display().to_string();
    text.strip_prefix("crates/").unwrap_or(&text).replacen("/src/", "/", 1)
}

#[cfg(test)]
mod tests {
    use super::super::results::Start;
    use super::super::tests::fault;
    use super::*;

    #[test]
    fn the_table_tells_how_often_and_by_whom() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.tsv");
        let mut results = Results::open(&path, "one", Start::Same).unwrap();
        for seed in 0..200 {
            let finding = match seed {
                7 | 9 => Finding::By("Lost".to_owned()),
                8 => Finding::By("Broken".to_owned()),
                _ => Finding::Nothing,
            };
            results.add("a", seed, finding).unwrap();
            let once = if seed == 5 { Finding::By("Lost".to_owned()) } else { Finding::Nothing };
            results.add("b", seed, once).unwrap();
        }
        let places = BTreeMap::from([("A".to_owned(), "crates/quoit-core/src/a.rs".into())]);
        let table = table(&[fault("a"), fault("b")], &places, &results);
        let row = "| engine | `a` | a is wrong | `quoit-core/a.rs` | mix | 3 of 200 | 7 | Lost 2, Broken 1 |";
        assert!(table.contains(row), "{table}");
        assert!(table.contains("| | no fault | | | mix | 0 of 0 |"), "{table}");
        assert!(table.ends_with("Found in fewer than one of 100: b.\n"), "{table}");
    }
}
