//! Conditions that a live move needs.

use super::facts::Facts;
use serde_json::{Value, json};

/// Outcome of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CheckOutcome {
    Good,
    /// A step of the plan will fulfil the condition.
    ToDo,
    Bad,
    /// The fact is not known.
    Unknown,
}

impl CheckOutcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::ToDo => "to do",
            Self::Bad => "bad",
            Self::Unknown => "unknown",
        }
    }
}

/// One condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Check {
    pub(super) condition: String,
    pub(super) verdict: CheckOutcome,
    /// The fact that was found.
    pub(super) found: String,
    /// Remedy, unless the condition is fulfilled.
    pub(super) remedy: String,
    /// True if only a move in both directions needs the condition.
    pub(super) is_for_both_ways: bool,
}

impl Check {
    fn new(condition: &str, verdict: CheckOutcome, found: impl Into<String>) -> Self {
        Self {
            condition: condition.to_owned(),
            verdict,
            found: found.into(),
            remedy: String::new(),
            is_for_both_ways: false,
        }
    }

    fn both_ways(mut self, remedy: &str) -> Self {
        self.is_for_both_ways = true;
        if self.verdict != CheckOutcome::Good {
            self.remedy = remedy.to_owned();
        }
        self
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        if self.verdict != CheckOutcome::Good {
            self.remedy = remedy.into();
        }
        self
    }

    /// True if a move in both directions must be refused because of this condition.
    pub(super) fn forbids_both_ways(&self) -> bool {
        self.is_for_both_ways && self.verdict != CheckOutcome::Good
    }

    pub(super) fn document(&self) -> Value {
        json!({
            "what": self.condition,
            "verdict": self.verdict.as_str(),
            "found": self.found,
            "remedy": self.remedy,
            "for_both_ways": self.is_for_both_ways,
        })
    }
}

const fn good_if(is_good: bool) -> CheckOutcome {
    if is_good { CheckOutcome::Good } else { CheckOutcome::Bad }
}

/// Judges all conditions of a move.
pub(super) fn checks(facts: &Facts, queue: &str) -> Vec<Check> {
    let mut checks = vec![version(facts)];
    checks.extend(riaks_deletes(facts));
    checks.extend(own_deletes(facts));
    let verdict = |is_there| if is_there { CheckOutcome::Good } else { CheckOutcome::ToDo };
    let has = if facts.has_queue { "is there" } else { "is not there yet" };
    checks.push(Check::new(&format!("Riak's queue {queue}"), verdict(facts.has_queue), has));
    let folds = match &facts.folds_fault {
        None => Check::new(
            "Riak's folds (tictacaae_active)",
            CheckOutcome::Good,
            format!("answered: {} buckets have keys", facts.buckets.len()),
        ),
        Some(fault) => Check::new("Riak's folds (tictacaae_active)", CheckOutcome::ToDo, fault.clone())
            .remedy(
                "full-sync needs tictacaae_active = active, and its trees take a while; without them keys \
                 are brought over by listing, and the bucket types have to be named by --type",
            ),
    };
    checks.push(folds);
    let missing: Vec<&str> =
        facts.types.iter().filter(|(_, one)| !one.is_here).map(|(name, _)| name.as_str()).collect();
    let found = match missing.as_slice() {
        [] => format!("all {} are here", facts.types.len()),
        missing => format!("not here yet: {}", missing.join(" ")),
    };
    checks.push(Check::new("bucket types", verdict(missing.is_empty()), found));
    checks
}

/// Checks for replication queues that sinks fetch from, which came with Riak 3.0.
fn version(facts: &Facts) -> Check {
    let version = &facts.riak.version;
    let major = version.trim_start_matches("riak-").split('.').next();
    let major: Option<u32> = major.and_then(|text| text.parse().ok());
    let verdict = match major {
        // A Quoit cluster as the source reports its own version, and has the same queues.
        Some(0 | 3..) => CheckOutcome::Good,
        Some(_) => CheckOutcome::Bad,
        None => CheckOutcome::Unknown,
    };
    Check::new("Riak's version", verdict, version.clone()).remedy(
        "the queues of this plan came with Riak 3.0 (2.9.1 in part): move the data directories by quoit \
         import run, or upgrade Riak first",
    )
}

/// Remedy if reaps are replicated from one cluster to the other.
const SENT_REAPS_REMEDY: &str = "a reap that is sent on removes a tombstone for which \
    the other side may still have the value: set repl_reap = disabled on every node and reap no \
    tombstones until the move is over";

/// Checks if Riak removes tombstones or old records by itself, which only its configuration files say.
fn riaks_deletes(facts: &Facts) -> [Check; 3] {
    let ask = "give --riak-conf FILE for each node (advanced.config is read beside it): Riak does not report \
               this over the network";
    if facts.confs.is_empty() {
        return ["Riak's delete_mode", "Riak's repl_reap", "expiry of Riak's engines"].map(
            |condition| Check::new(condition, CheckOutcome::Unknown, "not known").both_ways(ask),
        );
    }
    let modes: Vec<String> = facts
        .confs
        .iter()
        .filter(|(_, conf)| conf.delete_mode() != "keep")
        .map(|(file, conf)| format!("{} in {file}", conf.delete_mode()))
        .collect();
    let found = if modes.is_empty() { "keep".to_owned() } else { modes.join(", ") };
    let mode = Check::new("Riak's delete_mode", good_if(modes.is_empty()), found).both_ways(
        "Riak removes tombstones, so a value left on the other side would come back: set {riak_kv, \
         [{delete_mode, keep}]} in advanced.config of every node and restart them, or move one way",
    );
    let expiry: Vec<String> = facts
        .confs
        .iter()
        .flat_map(|(file, conf)| {
            conf.expiry().into_iter().map(move |line| format!("{line} in {file}"))
        })
        .collect();
    let found = if expiry.is_empty() { "off".to_owned() } else { expiry.join(", ") };
    let expiry = Check::new("expiry of Riak's engines", good_if(expiry.is_empty()), found)
        .both_ways(
            "what expired in one cluster would come back from the other: switch it off, or move one way",
        );
    let reaping = facts.confs.iter().filter(|(_, conf)| conf.sends_reaps());
    let reaping: Vec<String> = reaping.map(|(file, _)| format!("enabled in {file}")).collect();
    let found = if reaping.is_empty() { "off".to_owned() } else { reaping.join(", ") };
    let reap = Check::new("Riak's repl_reap", good_if(reaping.is_empty()), found)
        .both_ways(SENT_REAPS_REMEDY);
    [mode, reap, expiry]
}

fn own_deletes(facts: &Facts) -> [Check; 3] {
    let mode = &facts.here_delete_mode;
    let mode = Check::new("the cluster's delete_mode", good_if(mode == "keep"), mode.clone())
        .both_ways(
            "set delete_mode = keep in the configuration of every node until the move is over",
        );
    let mut expiring: Vec<String> = facts
        .types
        .iter()
        .filter(|(_, one)| one.here_ttl_secs > 0)
        .map(|(name, one)| format!("ttl of type {name}: {} s", one.here_ttl_secs))
        .collect();
    let buckets = facts.here_ttl_buckets.iter();
    expiring.extend(buckets.map(|(name, secs)| format!("ttl of bucket {name}: {secs} s")));
    expiring.extend(facts.here_expires_after_secs.map(|secs| format!("bitcask.expiry: {secs} s")));
    let found = if expiring.is_empty() { "off".to_owned() } else { expiring.join(", ") };
    let expiry = Check::new("expiry in the cluster", good_if(expiring.is_empty()), found)
        .both_ways("switch bitcask.expiry off and set ttl to 0 until the move is over");
    let found = if facts.here_sends_reaps { "enabled" } else { "off" };
    let reap = Check::new("the cluster's repl_reap", good_if(!facts.here_sends_reaps), found)
        .both_ways(SENT_REAPS_REMEDY);
    [mode, reap, expiry]
}

#[cfg(test)]
mod tests {
    use super::super::facts::{SideFacts, TypeFacts};
    use super::super::riak_conf::RiakConf;
    use super::*;

    fn facts(conf: Option<&str>, here: &str) -> Facts {
        let riak = SideFacts { version: "3.2.2".to_owned(), ..SideFacts::default() };
        let confs = conf.map(|text| ("riak.conf".to_owned(), RiakConf::of(text)));
        Facts {
            riak,
            here_delete_mode: here.to_owned(),
            confs: confs.into_iter().collect(),
            ..Facts::default()
        }
    }

    fn forbidding(facts: &Facts) -> Vec<String> {
        let checks = checks(facts, "quoit").into_iter();
        checks.filter(Check::forbids_both_ways).map(|check| check.condition).collect()
    }

    #[test]
    fn both_ways_need_tombstones_that_stay_on_both_sides() {
        assert_eq!(forbidding(&facts(Some("delete_mode = keep"), "keep")), [""; 0]);
        assert_eq!(forbidding(&facts(Some(""), "keep")), ["Riak's delete_mode"]);
        let unknown = ["Riak's delete_mode", "Riak's repl_reap", "expiry of Riak's engines"];
        assert_eq!(forbidding(&facts(None, "keep")), unknown);
        let own = forbidding(&facts(Some("delete_mode = keep"), "3000"));
        assert_eq!(own, ["the cluster's delete_mode"]);
        let expiring = "delete_mode = keep\nbitcask.expiry = 1d";
        assert_eq!(forbidding(&facts(Some(expiring), "keep")), ["expiry of Riak's engines"]);
        let reaping = "delete_mode = keep\nrepl_reap = enabled";
        assert_eq!(forbidding(&facts(Some(reaping), "keep")), ["Riak's repl_reap"]);
    }

    #[test]
    fn both_ways_need_a_cluster_where_nothing_expires_or_is_reaped_for_others() {
        let good = facts(Some("delete_mode = keep"), "keep");
        let own = |change: &dyn Fn(&mut Facts)| {
            let mut facts = good.clone();
            change(&mut facts);
            forbidding(&facts)
        };
        assert_eq!(own(&|facts| facts.here_sends_reaps = true), ["the cluster's repl_reap"]);
        let expiring = ["expiry in the cluster"];
        assert_eq!(own(&|facts| facts.here_expires_after_secs = Some(60)), expiring);
        assert_eq!(own(&|facts| facts.here_ttl_buckets = vec![("t/b".to_owned(), 5)]), expiring);
        let typed = TypeFacts { here_ttl_secs: 5, ..TypeFacts::default() };
        let type_expires = |facts: &mut Facts| {
            facts.types.insert("t".to_owned(), typed);
        };
        assert_eq!(own(&type_expires), expiring);
    }

    #[test]
    fn a_riak_without_queues_is_told_apart() {
        let mut facts = facts(None, "keep");
        for (version, verdict) in [
            ("2.2.3", CheckOutcome::Bad),
            ("3.0.9", CheckOutcome::Good),
            ("x", CheckOutcome::Unknown),
        ] {
            facts.riak.version = version.to_owned();
            assert_eq!(super::version(&facts).verdict, verdict, "{version}");
        }
    }
}
