//! Messages for operators of nodes that do not serve.

use crate::NodeId;
use std::sync::Arc;
use std::time::Duration;

/// A clock that is behind its last recorded time by no more than this is not reported: NTP
/// sets clocks back a little.
const BEHIND_MAX: Duration = Duration::from_secs(1);

/// A seed that was asked, with its answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Seed {
    pub(super) address: Arc<str>,
    pub(super) answer: SeedAnswer,
}

impl Seed {
    /// True if no other node answers at the address.
    pub(super) const fn is_silent(&self) -> bool {
        matches!(self.answer, SeedAnswer::Silent(_) | SeedAnswer::Itself)
    }
}

/// Answer of a seed about its cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum SeedAnswer {
    /// The seed did not answer, for this reason.
    Silent(String),
    /// The seed is the node that asks.
    Itself,
    /// The seed's cluster has the asking node as a member.
    KnowsIt,
    /// The seed's cluster has another member with the asking node's name; contains the identity of that
    /// member.
    Namesake(NodeId),
    /// The seed's cluster has this many members, and the asking node is not one of them; 0 if the seed does
    /// not report the number.
    Members(u32),
}

/// Returns the reason why a node that is alone does not serve, and the remedy.
pub(super) fn unexpectedly_alone_text(name: &str, seeds: &[Seed]) -> String {
    let begin = format!(
        "{name} does not serve clients: cluster.seeds says that it is part of a cluster, and it is alone"
    );
    if let Some(seed) = seeds.iter().find(|seed| seed.answer == SeedAnswer::KnowsIt) {
        return format!(
            "{begin}. In the cluster of {} this node is a member: its data directory is a copy from before \
             it joined, and all data that it has stored since is missing. Start it with the right directory \
             (platform_data_dir). If that is lost, start the node with an empty directory under another name \
             (nodename), let it join, and `cluster force-replace {name} NEW-NAME`",
            seed.address
        );
    }
    let namesake = seeds.iter().find_map(|seed| match seed.answer {
        SeedAnswer::Namesake(id) => Some((&seed.address, id)),
        _ => None,
    });
    if let Some((seed, id)) = namesake {
        return format!(
            "{begin}. The cluster of {seed} has a member {name} with another identity ({id}). If this node \
             has lost its data directory: start it under another name (nodename), run `quoit admin cluster \
             join {seed}` on it and then `cluster force-replace {name} NEW-NAME`; it gets its data back from \
             the others. If the data is in another directory, start the node with that one \
             (platform_data_dir)"
        );
    }
    let clusters = seeds.iter().filter_map(|seed| match seed.answer {
        SeedAnswer::Members(count) => Some((count, &seed.address)),
        _ => None,
    });
    if let Some((count, seed)) = clusters.max_by_key(|(count, _)| *count) {
        let cluster =
            if count > 1 { format!("is in a cluster of {count}") } else { "is up".to_owned() };
        return format!(
            "{begin}. {seed} {cluster}: let this node join with `quoit admin cluster join {seed}`, `cluster \
             plan` and `cluster commit`. If it was a member before and has lost its data directory, replace \
             the old member by this node: `cluster force-replace OLD-NAME NEW-NAME`"
        );
    }
    let silent = seeds.iter().filter_map(|seed| match &seed.answer {
        SeedAnswer::Silent(reason) => Some(format!("{} ({reason})", seed.address)),
        _ => None,
    });
    let silent: Vec<_> = silent.collect();
    let silence = match silent.is_empty() {
        true => String::new(),
        false => format!(", and no seed answers: {}", silent.join(", ")),
    };
    format!(
        "{begin}{silence}. Start the others, or correct cluster.seeds; the first node of a new cluster is \
         started without it"
    )
}

/// Returns the reason why a node does not serve if its clock differs from the clocks of all members that it
/// has heard of.
pub(super) fn clock_disagreement_text(name: &str, complaint: &str) -> String {
    format!(
        "{name} does not serve clients: its clock differs from those of the other members, and where the \
         last write wins, a wrong clock would let wrong values win. {complaint}. It serves when it has \
         reached a member whose clock is near its own; if most members disagree with it, it stops"
    )
}

/// Returns the reason why a node that was just started does not serve yet.
pub(super) fn not_compared_text(name: &str) -> String {
    format!("{name} does not serve clients yet: it waits a moment for the time of another member")
}

/// Times of a node's clock, in microseconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct OwnTimes {
    pub(super) now_us: u64,
    /// The last time that the node recorded before it was stopped.
    pub(super) recorded_us: u64,
}

/// Returns a warning about a clock that is behind the time that the node last recorded; `None` if it is
/// not.
pub(super) fn clock_behind_text(name: &str, times: OwnTimes) -> Option<String> {
    let behind = Duration::from_micros(times.recorded_us.saturating_sub(times.now_us));
    (behind > BEHIND_MAX).then(|| {
        format!(
            "the clock of {name} is {:.0} s behind what it was when this node ran last: either it is wrong \
             now, or it was wrong then. Where the last write wins, values of that time win until the clock \
             gets there. Set the clock (NTP)",
            behind.as_secs_f64()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed(address: &str, answer: SeedAnswer) -> Seed {
        Seed { address: address.into(), answer }
    }

    #[test]
    fn a_clock_that_went_back_is_reported() {
        const SECS: u64 = 1_000_000;
        let text =
            |recorded_us| clock_behind_text("n1", OwnTimes { now_us: 100 * SECS, recorded_us });
        assert_eq!(text(90 * SECS), None);
        assert_eq!(text(101 * SECS), None);
        let words = text(3_700 * SECS).unwrap();
        assert!(words.starts_with("the clock of n1 is 3600 s behind"), "{words}");
    }

    #[test]
    fn words_name_a_way_on_that_the_answers_leave() {
        let words = |seeds: &[Seed]| unexpectedly_alone_text("n1@a", seeds);
        let silent = || seed("b:1", SeedAnswer::Silent("refused".to_owned()));
        let own = || seed("a:1", SeedAnswer::Itself);
        let nobody = words(&[own(), silent()]);
        assert!(nobody.contains("no seed answers: b:1 (refused)"), "{nobody}");
        assert!(nobody.contains("first node of a new cluster"), "{nobody}");
        assert!(!words(&[own()]).contains("no seed answers"));
        let found = words(&[
            silent(),
            seed("c:1", SeedAnswer::Members(1)),
            seed("d:1", SeedAnswer::Members(4)),
        ]);
        assert!(found.contains("d:1 is in a cluster of 4: let this node join"), "{found}");
        let member =
            words(&[seed("d:1", SeedAnswer::Members(4)), seed("e:1", SeedAnswer::KnowsIt)]);
        assert!(member.contains("a copy from before it joined"), "{member}");
        let namesake = SeedAnswer::Namesake(NodeId([7; 16]));
        let known = words(&[seed("d:1", SeedAnswer::Members(4)), seed("e:1", namesake)]);
        assert!(known.contains("The cluster of e:1 has a member n1@a"), "{known}");
        assert!(known.contains("`cluster force-replace n1@a NEW-NAME`"), "{known}");
    }
}
