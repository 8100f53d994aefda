//! The order of the crates: each depends only on crates of lower layers (floors).

use super::Problem;
use crate::workspace::Package;

/// The floors of the crates, as `ARCHITECTURE.md` lists them.
const FLOORS: &[(&str, u8)] = &[
    ("quoit", 10),
    ("quoit-operator", 9),
    ("quoit-serve", 9),
    ("quoit-data-dir", 8),
    ("quoit-config", 7),
    ("quoit-dev-cluster", 7),
    ("quoit-server", 6),
    ("quoit-bench", 6),
    ("quoit-cli", 6),
    ("quoit-node", 5),
    ("quoit-replication", 5),
    ("quoit-import", 5),
    ("quoit-core", 4),
    ("quoit-riak-peer", 4),
    ("quoit-cluster", 3),
    ("quoit-client", 3),
    ("quoit-store", 2),
    ("quoit-mapreduce", 2),
    ("quoit-script", 3),
    ("quoit-riak", 2),
    ("quoit-wire", 2),
    ("quoit-riak-files", 2),
    ("quoit-heap", 1),
    ("quoit-tls", 1),
    ("quoit-model", 1),
    ("quoit-seam", 1),
    ("quoit-security", 1),
    ("quoit-process", 1),
    ("quoit-progress", 1),
    ("quoit-number", 0),
    ("quoit-planted", 0),
];

/// Crates outside the order. They may use every other crate, and no other crate may use them.
const OUTSIDE_THE_FLOORS: [&str; 6] =
    ["quoit-fuzz", "quoit-package", "quoit-perf", "quoit-sim", "quoit-testkit", "xtask"];

/// Dependencies that the floors permit but the purpose of the crate forbids. A client or load generator
/// that contained server code would be larger than what it publishes or measures.
const NEVER: [(&str, &str); 3] = [
    ("quoit-client", "quoit-store"),
    ("quoit-bench", "quoit-cluster"),
    ("quoit-bench", "quoit-core"),
];

fn floor(name: &str) -> Option<u8> {
    FLOORS.iter().find(|(known, _)| *known == name).map(|(_, floor)| *floor)
}

/// Checks the dependencies of every package, except those of its tests.
pub(super) fn check(packages: &[Package]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages {
        let mut say = |text: String| problems.push(Problem::new(&package.manifest, 0, text));
        let name = package.name.as_str();
        let beside = OUTSIDE_THE_FLOORS.contains(&name);
        let own_floor = floor(name);
        if own_floor.is_none() && !beside {
            say(format!(
                "the crate {name} has no floor; give it one in tidy and in ARCHITECTURE.md"
            ));
        }
        for used in package.testing_dependencies.iter().filter(|_| !beside) {
            say(format!(
                "{name} uses {used} with its feature testing; only dependencies of tests may, so that the \
                 released program has no faulty disk in it"
            ));
        }
        for used in package.dependencies.iter().map(String::as_str) {
            if OUTSIDE_THE_FLOORS.contains(&used) {
                say(format!("{name} uses {used}, which stands beside the house"));
            } else if NEVER.contains(&(name, used)) {
                say(format!("{name} must never contain {used}"));
            } else if let (Some(own), Some(below)) = (own_floor, floor(used))
                && below >= own
            {
                say(format!("{name} (floor {own}) uses {used} (floor {below}), not a lower floor"));
            }
        }
    }
    problems
}
