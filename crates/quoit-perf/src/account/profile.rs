//! Parser of callgrind's files: sums costs by part of the program.
//!
//! Valgrind's manual describes the format as the *Callgrind Format Specification*. Code of the standard
//! library and of small crates is mostly inlined; its cost counts for the function into which it is
//! inlined.

use std::collections::{BTreeMap, HashMap};
use std::ops::{AddAssign, Sub};

/// A part of the program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Part {
    /// Sockets, tasks, timers: Tokio and mio.
    Runtime,
    /// Connections and messages of the client protocols.
    Protocol,
    /// Quorums, replicas, and the request's view of the cluster.
    Coordination,
    /// Objects, version vectors, hashes of names.
    Objects,
    /// Log, index, record locks.
    Engine,
    /// Copying, comparing and memory allocation in the C library.
    CLibrary,
    /// All other libraries, unless inlined.
    Libraries,
}

impl Part {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Runtime => "runtime (Tokio, mio)",
            Self::Protocol => "connection and messages",
            Self::Coordination => "coordination",
            Self::Objects => "objects, clocks, hashes",
            Self::Engine => "log and index",
            Self::CLibrary => "C library: copying, comparing, memory",
            Self::Libraries => "other libraries",
        }
    }

    /// The part to which a source file belongs; `None` for code that counts where it is inlined.
    fn of_file(path: &str) -> Option<Self> {
        const PARTS: [(&str, Part); 9] = [
            ("quoit-server/", Part::Protocol),
            ("quoit-wire/", Part::Protocol),
            ("quoit-core/", Part::Coordination),
            ("quoit-cluster/", Part::Coordination),
            ("quoit-model/", Part::Objects),
            ("quoit-riak/", Part::Objects),
            ("quoit-store/", Part::Engine),
            ("/tokio-", Part::Runtime),
            ("/mio-", Part::Runtime),
        ];
        PARTS.iter().find(|(piece, _)| path.contains(piece)).map(|(_, part)| *part)
    }
}

/// Costs that callgrind counts.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct PartCost {
    pub(super) instructions: f64,
    /// Misses of the first-level caches, for code and data.
    pub(super) first_misses: f64,
    /// Misses of the last-level cache.
    pub(super) last_misses: f64,
}

impl AddAssign for PartCost {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.first_misses += other.first_misses;
        self.last_misses += other.last_misses;
    }
}

impl Sub for PartCost {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            instructions: self.instructions - other.instructions,
            first_misses: self.first_misses - other.first_misses,
            last_misses: self.last_misses - other.last_misses,
        }
    }
}

/// Costs of one thread.
pub(super) type ThreadCosts = BTreeMap<Part, PartCost>;

/// The sum of the costs of all parts.
pub(super) fn total(costs: &ThreadCosts) -> PartCost {
    let mut sum = PartCost::default();
    costs.values().for_each(|cost| sum += *cost);
    sum
}

/// Callgrind's name compression: a name is written out once, and referred to by its number afterwards.
#[derive(Default)]
struct Names<'t>(HashMap<&'t str, &'t str>);

impl<'t> Names<'t> {
    /// Resolves `(NUMBER) NAME` or `(NUMBER)` to the name.
    fn read(&mut self, text: &'t str) -> &'t str {
        let Some((number, name)) = text.split_once(')') else { return text };
        match name.trim() {
            "" => self.0.get(number).copied().unwrap_or(""),
            name => {
                self.0.insert(number, name);
                name
            }
        }
    }
}

/// Parses the file of one thread.
pub(super) fn costs_of(text: &str) -> ThreadCosts {
    let mut costs = ThreadCosts::new();
    let (mut files, mut objects) = (Names::default(), Names::default());
    let mut place = CodePlace::default();
    let (mut events, mut is_call) = (Vec::new(), false);
    for line in text.lines() {
        if let Some(names) = line.strip_prefix("events:") {
            events = names.split_whitespace().collect();
        } else if line.starts_with(['+', '-', '*'])
            || line.starts_with(|c: char| c.is_ascii_digit())
        {
            // The line after `calls=` has the inclusive cost of the callee, which is counted at the callee
            // itself.
            if !std::mem::take(&mut is_call) {
                *costs.entry(place.part()).or_default() += cost(line, &events);
            }
        } else if let Some((key, value)) = line.split_once('=') {
            match key {
                "ob" => place.object = objects.read(value),
                "cob" => _ = objects.read(value),
                "fl" | "fi" | "fe" => place.file = files.read(value),
                "cfi" | "cfl" => _ = files.read(value),
                "fn" => place.function_file = place.file,
                "calls" => is_call = true,
                _ => {}
            }
        }
    }
    costs
}

/// The code that a line of costs is about.
#[derive(Default)]
struct CodePlace<'t> {
    /// The executable or library.
    object: &'t str,
    /// The source file of the code, which differs from that of its function if the code was inlined.
    file: &'t str,
    /// The source file of the function.
    function_file: &'t str,
}

impl CodePlace<'_> {
    fn part(&self) -> Part {
        if ["/libc", "/ld-linux", "/libm"].iter().any(|name| self.object.contains(name)) {
            return Part::CLibrary;
        }
        let of_function = || Part::of_file(self.function_file);
        Part::of_file(self.file).or_else(of_function).unwrap_or(Part::Libraries)
    }
}

fn cost(line: &str, events: &[&str]) -> PartCost {
    let mut cost = PartCost::default();
    let counts = line.split_whitespace().skip(1).map(|count| count.parse().unwrap_or(0.0));
    for (event, count) in events.iter().zip(counts) {
        match *event {
            "Ir" => cost.instructions += count,
            "I1mr" | "D1mr" | "D1mw" => cost.first_misses += count,
            "ILmr" | "DLmr" | "DLmw" => cost.last_misses += count,
            _ => {}
        }
    }
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_go_to_the_part_of_their_file_and_calls_are_counted_once() {
        let text = "events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\n\
            ob=(1) /bin/quoit\nfl=(1) crates/quoit-core/src/get.rs\nfn=(1) get\n10 100\n\
            fi=(2) /rustc/1/library/core/src/slice.rs\n+3 7 1 1 1 2 0 0 0 1\n\
            cob=(2) /lib/libc.so.6\ncfi=(3) memcpy.S\ncfn=(2) memcpy\ncalls=1 5\n* 50\n\
            fe=(1)\n* 3\n\
            ob=(2)\nfl=(3)\nfn=(2)\n5 50\n\
            ob=(1)\nfl=(4) crates/quoit-store/src/bitcask/log.rs\nfn=(3) append\n-2 20 0 0 0 0 4\n";
        let costs = costs_of(text);
        let of = |part| costs.get(&part).copied().unwrap_or_default();
        let coordination = PartCost { instructions: 110.0, first_misses: 3.0, last_misses: 1.0 };
        assert_eq!(of(Part::Coordination), coordination);
        assert_eq!(of(Part::CLibrary).instructions, 50.0);
        assert_eq!(
            of(Part::Engine),
            PartCost { instructions: 20.0, first_misses: 4.0, last_misses: 0.0 }
        );
        assert_eq!(total(&costs).instructions, 180.0);
    }
}
