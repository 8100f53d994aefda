//! The results of the runs, in a file with one line for each run.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// The outcome of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Finding {
    /// The run found no fault.
    Nothing,
    /// This checker found a fault.
    By(String),
}

/// Treatment of existing results of other sources or other arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
    /// Refuse them.
    Same,
    /// Count them as if they were results of these sources.
    Keep,
    /// Delete them.
    Anew,
}

/// Results by fault and seed.
#[derive(Debug)]
pub(super) struct Results {
    found: BTreeMap<String, BTreeMap<u64, Finding>>,
    file: File,
}

impl Results {
    /// Opens a file of results, or creates it. `setting` names the sources and the arguments of the runs.
    pub(super) fn open(path: &Path, setting: &str, start: Start) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        if start == Start::Anew && path.exists() {
            fs::remove_file(path).map_err(failed)?;
        }
        let text =
            if path.exists() { fs::read_to_string(path).map_err(failed)? } else { String::new() };
        let mut lines = text.lines();
        let former = lines.next().and_then(|line| line.strip_prefix("# "));
        if start == Start::Same
            && let Some(former) = former.filter(|former| *former != setting)
        {
            return Err(format!(
                "{} has results of {former:?}, and this is {setting:?}; --keep counts them in, --anew \
                 deletes them",
                path.display()
            ));
        }
        let mut found: BTreeMap<String, BTreeMap<u64, Finding>> = BTreeMap::new();
        for (fault, seed, finding) in lines.filter_map(read_line) {
            found.entry(fault).or_default().insert(seed, finding);
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
        if former.is_none() {
            writeln!(file, "# {setting}").map_err(failed)?;
        } else if !text.ends_with('\n') {
            // The incomplete last line stays; its run is measured again.
            writeln!(file).map_err(failed)?;
        }
        Ok(Self { found, file })
    }

    /// Adds the result of a run.
    pub(super) fn add(&mut self, fault: &str, seed: u64, finding: Finding) -> Result<(), String> {
        let checker = match &finding {
            Finding::Nothing => "-",
            Finding::By(checker) => checker,
        };
        writeln!(self.file, "{fault}\t{seed}\t{checker}\t.")
            .map_err(|error| format!("the results could not be written: {error}"))?;
        self.found.entry(fault.to_owned()).or_default().insert(seed, finding);
        Ok(())
    }

    /// The result of a run, if it has been made.
    pub(super) fn get(&self, fault: &str, seed: u64) -> Option<&Finding> {
        self.found.get(fault)?.get(&seed)
    }

    /// The results of a fault, by seed.
    pub(super) fn of(&self, fault: &str) -> impl Iterator<Item = (u64, &Finding)> {
        self.found.get(fault).into_iter().flatten().map(|(seed, finding)| (*seed, finding))
    }

    /// The number of runs in which a fault was found.
    pub(super) fn found_count(&self, fault: &str) -> u64 {
        self.of(fault).filter(|(_, finding)| **finding != Finding::Nothing).count() as u64
    }

    /// The number of runs.
    pub(super) fn count(&self) -> usize {
        self.found.values().map(BTreeMap::len).sum()
    }
}

/// Parses a line; `None` if it is incomplete.
fn read_line(line: &str) -> Option<(String, u64, Finding)> {
    let parts: Vec<&str> = line.split('\t').collect();
    let [fault, seed, checker, "."] = parts[..] else { return None };
    let finding = match checker {
        "-" => Finding::Nothing,
        checker => Finding::By(checker.to_owned()),
    };
    Some((fault.to_owned(), seed.parse().ok()?, finding))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_goes_on_where_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/results.tsv");
        let open = |setting, start| Results::open(&path, setting, start);
        let mut first = open("one", Start::Same).unwrap();
        first.add("a", 3, Finding::By("Lost".to_owned())).unwrap();
        first.add("a", 4, Finding::Nothing).unwrap();
        drop(first);
        // Leave an incomplete line.
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("a\t5\tLo");
        fs::write(&path, text).unwrap();
        let mut again = open("one", Start::Same).unwrap();
        assert_eq!((again.count(), again.found_count("a")), (2, 1));
        assert_eq!(again.get("a", 5), None);
        again.add("a", 5, Finding::Nothing).unwrap();
        drop(again);
        assert_eq!(open("one", Start::Same).unwrap().count(), 3);
        assert!(open("two", Start::Same).is_err_and(|what| what.contains("--keep")));
        assert_eq!(open("two", Start::Keep).unwrap().count(), 3);
        assert_eq!(open("two", Start::Anew).unwrap().count(), 0);
    }
}
