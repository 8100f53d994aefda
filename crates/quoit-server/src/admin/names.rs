//! Statistics by hierarchical names.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Suffixes of the flat names of a distribution, and the names of their datapoints.
const SUMMARY: [(&str, &str); 5] =
    [("_mean", "mean"), ("_median", "median"), ("_95", "95"), ("_99", "99"), ("_100", "max")];

/// Prefixes of flat names and their replacements, longer prefixes first.
const BEGINNINGS: [(&str, &str); 16] = [
    ("node_get_fsm_", "riak.riak_kv.node.gets."),
    ("node_put_fsm_", "riak.riak_kv.node.puts."),
    ("vnode_get_fsm_", "riak.riak_kv.vnode.gets."),
    ("vnode_put_fsm_", "riak.riak_kv.vnode.puts."),
    ("vnode_head_fsm_", "riak.riak_kv.vnode.heads."),
    ("vnode_index_", "riak.riak_kv.vnode.index."),
    ("node_", "riak.riak_kv.node."),
    ("vnode_", "riak.riak_kv.vnode."),
    ("pbc_", "riak.riak_api.pbc_"),
    ("ring_", "riak.riak_core.ring_"),
    ("converge_", "riak.riak_core.converge_"),
    ("rebalance_", "riak.riak_core.rebalance_"),
    ("sys_", "riak.system.sys_"),
    ("memory_", "riak.system.memory_"),
    ("cpu_", "riak.system.cpu_"),
    ("quoit_", "quoit."),
];

/// All statistics by hierarchical name, with their datapoints.
pub(super) fn hierarchy(flat: &Map<String, Value>) -> BTreeMap<String, Map<String, Value>> {
    let mut named: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for (name, value) in flat {
        let (base, datapoint) = split(flat, name);
        named.entry(long_name(base)).or_default().insert(datapoint.to_owned(), value.clone());
    }
    named
}

/// The statistic that a flat name belongs to, and the datapoint that it stands for.
fn split<'n>(flat: &Map<String, Value>, name: &'n str) -> (&'n str, &'static str) {
    for (ending, datapoint) in SUMMARY {
        if let Some(base) = name.strip_suffix(ending)
            && SUMMARY.iter().all(|(other, _)| flat.contains_key(&format!("{base}{other}")))
        {
            return (base, datapoint);
        }
    }
    match name.strip_suffix("_total") {
        Some(base) if flat.contains_key(base) => (base, "count"),
        _ if flat.contains_key(&format!("{name}_total")) => (name, "one"),
        _ => (name, "value"),
    }
}

fn long_name(base: &str) -> String {
    for (short, long) in BEGINNINGS {
        if let Some(rest) = base.strip_prefix(short) {
            return format!("{long}{rest}");
        }
    }
    format!("riak.riak_kv.{base}")
}

/// A pattern of names. `*` matches any text within a level, `**` any number of levels. The part after a `/`
/// (type, state, datapoints) is ignored.
#[derive(Clone, Copy)]
pub(super) struct NamePattern<'p>(pub(super) &'p str);

impl NamePattern<'_> {
    /// True if a name matches the pattern.
    pub(super) fn fits(self, name: &str) -> bool {
        let pattern = self.0.split('/').next().unwrap_or_default();
        let levels: Vec<&str> = name.split('.').collect();
        let wanted: Vec<&str> = pattern.split('.').collect();
        // reached[j]: true if the pattern parts so far can match the first j levels. One row for each part
        // bounds the cost by the product of the lengths, for any pattern.
        let mut reached = vec![true];
        reached.resize(levels.len() + 1, false);
        for part in wanted {
            let mut next = vec![false; levels.len() + 1];
            if part == "**" {
                let mut any = false;
                for (next, here) in next.iter_mut().zip(&reached) {
                    any |= here;
                    *next = any;
                }
            } else {
                let part = LevelPattern(part.as_bytes());
                for ((next, here), level) in next.iter_mut().skip(1).zip(&reached).zip(&levels) {
                    *next = *here && part.fits(level.as_bytes());
                }
            }
            reached = next;
        }
        reached.last() == Some(&true)
    }
}

/// The part of a pattern for one level.
#[derive(Clone, Copy)]
struct LevelPattern<'p>(&'p [u8]);

impl LevelPattern<'_> {
    fn fits(self, level: &[u8]) -> bool {
        let (mut at, mut from) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while from < level.len() {
            if self.0.get(at) == Some(&b'*') {
                star = Some((at, from));
                at += 1;
            } else if self.0.get(at) == level.get(from) {
                (at, from) = (at + 1, from + 1);
            } else if let Some((place, taken)) = star {
                star = Some((place, taken + 1));
                (at, from) = (place + 1, taken + 1);
            } else {
                return false;
            }
        }
        self.0.iter().skip(at).all(|byte| *byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn flat_names_become_statistics_with_datapoints() {
        let mut flat = Map::new();
        for name in ["node_gets", "node_gets_total", "coord_redirs_total", "nodename"] {
            flat.insert(name.into(), json!(1));
        }
        for (ending, _) in SUMMARY {
            flat.insert(format!("node_get_fsm_time{ending}"), json!(2));
        }
        let named = hierarchy(&flat);
        let keys = |name: &str| named[name].keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys("riak.riak_kv.node.gets"), ["count", "one"]);
        assert_eq!(keys("riak.riak_kv.node.gets.time"), ["95", "99", "max", "mean", "median"]);
        assert_eq!(keys("riak.riak_kv.coord_redirs_total"), ["value"]);
    }

    #[test]
    fn stars_stand_for_text_and_double_stars_for_levels() {
        for (pattern, expected) in [
            ("**", true),
            ("riak.riak_kv.node.gets", true),
            ("riak.*.node.g*s", true),
            ("riak.**.gets", true),
            ("**.gets", true),
            ("riak.riak_kv.node.gets.**", true),
            ("riak.riak_kv.node.gets/dp,one", true),
            ("riak.*.gets", false),
            ("riak.riak_kv.node", false),
            ("*", false),
            ("", false),
        ] {
            assert_eq!(NamePattern(pattern).fits("riak.riak_kv.node.gets"), expected, "{pattern}");
        }
        assert!(!NamePattern(&"**.".repeat(2000)).fits("riak.riak_kv.node.gets"));
    }
}
