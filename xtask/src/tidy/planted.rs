//! Planted faults: each listed fault must be used somewhere in the code.

use super::Problem;
use super::source_tree::Source;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file that lists the faults.
const LIST: &str = "crates/quoit-planted/src/faults.rs";

/// Checks that non-test code uses each listed fault.
pub(super) fn check(root: &Path, tree: &BTreeMap<PathBuf, Source>, problems: &mut Vec<Problem>) {
    let list = root.join(LIST);
    let Some(listed) = tree.get(&list) else { return };
    let places = tree.iter().filter(|(path, source)| **path != list && !source.test_only);
    let texts: Vec<&str> = places.map(|(_, source)| source.text.as_str()).collect();
    for (line, fault) in faults(&listed.text) {
        if !texts.iter().any(|text| is_planted_in(text, fault)) {
            let text = format!("the fault {fault} is planted nowhere");
            problems.push(Problem::new(&list, line, text));
        }
    }
}

/// The faults in a list with their lines: entries that begin with `Variant, "name", StorePart,`.
fn faults(list: &str) -> impl Iterator<Item = (usize, &str)> {
    list.lines().enumerate().filter_map(|(line, text)| {
        let (variant, rest) = text.trim().split_once(", \"")?;
        let is_entry = rest.ends_with(',') && variant.chars().all(char::is_alphanumeric);
        is_entry.then_some((line + 1, variant))
    })
}

/// True if a source uses the fault.
pub(crate) fn is_planted_in(text: &str, fault: &str) -> bool {
    text.contains(&format!("planted!({fault})"))
        || text.contains(&format!("planted::has(PlantedFault::{fault})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_a_line_of_the_list_and_a_place() {
        let list = "faults! {\n    Slips, \"slips\", Engine,\n        \"a step is left out\";\n}\n";
        assert_eq!(faults(list).collect::<Vec<_>>(), [(2, "Slips")]);
        assert!(is_planted_in("if !planted!(Slips) { step()?; }", "Slips"));
        assert!(is_planted_in("planted::has(PlantedFault::Slips)", "Slips"));
        assert!(!is_planted_in("if !planted!(SlipsTwice) {}", "Slips"));
    }
}
