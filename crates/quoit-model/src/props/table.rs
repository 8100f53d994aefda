//! The table of properties: a new property is a row here, and its use.

use super::forms::{
    FeedPeriod, Flag, Hooks, Number, Parsed, PrecisionForm, PropertyForm, QuorumForm, Text, shown,
};
use super::values::{placement_from_json, placement_to_json};
use super::{
    CommitHook, Compression, ConditionalPutMode, Datatype, LinkFun, N_VAL_MAX, Quorum, Reason,
    ReplMode, SyncOnWrite, UNKNOWN_PROPS_MAX,
};
use crate::hash::PlacementRule;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Declares the properties. A row has a name, a field with its type, the default of untyped buckets, and the
/// form of its value in all protocols. Those of `optional` are absent, and not shown, unless they were set:
/// buckets then have the value of their type.
macro_rules! properties {
    (
        always { $(
            $(#[$doc:meta])* $name:literal $field:ident: $type:ty = $default:expr, $form:expr;
        )* }
        optional { $(
            $(#[$own_doc:meta])* $own_name:literal $own_field:ident: $own_type:ty
                = $own_default:expr, $own_form:expr;
        )* }
    ) => {
        /// A full set of properties. `Option` fields are absent (and not shown) unless they were set.
        #[derive(Clone, PartialEq, Debug)]
        pub struct BucketProps {
            $( $(#[$doc])* pub $field: $type, )*
            $( $(#[$own_doc])* pub $own_field: Option<$own_type>, )*
            /// Properties that the server does not know or does not act upon, as they were given.
            pub other: BTreeMap<String, Value>,
        }

        /// Names of the properties of a set, in the order of the table.
        const NAMES: &[&str] = &[$( $name, )* $( $own_name, )*];

        impl BucketProps {
            /// Properties of untyped buckets where the server's configuration says nothing.
            #[must_use]
            pub fn untyped() -> Self {
                Self {
                    $( $field: $default, )*
                    $( $own_field: $own_default, )*
                    other: BTreeMap::new(),
                }
            }

            /// Sets one property, checking the value by itself. Which changes are allowed is checked
            /// elsewhere.
            pub(super) fn set(&mut self, name: &str, value: &Value) -> Result<(), Reason> {
                match name {
                    $( $name => self.$field = $form.read(value)?, )*
                    $( $own_name => self.$own_field = Some($own_form.read(value)?), )*
                    _ => self.set_unknown(name, value)?,
                }
                Ok(())
            }

            /// All properties that are present. The holder adds what is not a property of the set: `name`,
            /// and for typed buckets `active` and `claimant`.
            #[must_use]
            pub fn to_json(&self) -> Map<String, Value> {
                let mut object = Map::new();
                for (name, value) in &self.other {
                    object.insert(name.clone(), value.clone());
                }
                $( object.insert($name.to_owned(), $form.write(&self.$field)); )*
                $( if let Some(value) = &self.$own_field {
                    object.insert($own_name.to_owned(), $own_form.write(value));
                } )*
                object
            }

            /// This bucket's own set laid over the set of its type: what the own set lacks is the type's.
            #[must_use]
            pub fn over(&self, type_props: &Self) -> Self {
                let mut effective = self.clone();
                $( if effective.$own_field.is_none() {
                    effective.$own_field.clone_from(&type_props.$own_field);
                } )*
                for (name, value) in &type_props.other {
                    effective.other.entry(name.clone()).or_insert_with(|| value.clone());
                }
                effective
            }
        }
    };
}

properties! {
    always {
        /// Number of replicas, 1 to [`N_VAL_MAX`].
        "n_val" n_val: u32 = 3, Number { least: 1, max: N_VAL_MAX };
        /// Whether concurrent writes are kept as siblings.
        "allow_mult" allow_mult: bool = false, Flag;
        /// Whether the newest write replaces all others, whatever its causality.
        "last_write_wins" last_write_wins: bool = false, Flag;
        /// Whether siblings carry dots.
        "dvv_enabled" dvv_enabled: bool = false, Flag;
        /// Read quorum, at least 1.
        "r" r: Quorum = Quorum::Quorum, QuorumForm { zero_allowed: false };
        /// Write quorum: accepted, at least 1.
        "w" w: Quorum = Quorum::Quorum, QuorumForm { zero_allowed: false };
        /// Write quorum: durable.
        "dw" dw: Quorum = Quorum::Quorum, QuorumForm { zero_allowed: true };
        /// Quorum of both halves of a delete, at least 1.
        "rw" rw: Quorum = Quorum::Quorum, QuorumForm { zero_allowed: false };
        /// Read quorum among primaries.
        "pr" pr: Quorum = Quorum::Count(0), QuorumForm { zero_allowed: true };
        /// Write quorum among primaries.
        "pw" pw: Quorum = Quorum::Count(0), QuorumForm { zero_allowed: true };
        /// Distinct nodes that must answer.
        "node_confirms" node_confirms: Quorum = Quorum::Count(0), QuorumForm { zero_allowed: true };
        /// Whether a read gives up when a majority has failed or found nothing.
        "basic_quorum" basic_quorum: bool = false, Flag;
        /// Whether "not found" counts towards `r`.
        "notfound_ok" notfound_ok: bool = true, Flag;
        /// Replicas that sync a put before it is acknowledged.
        "sync_on_write" sync_on_write: SyncOnWrite = SyncOnWrite::Backend, Parsed {
            read: SyncOnWrite::from_json,
            write: |mode| mode.as_str().into(),
            refused: |_| Reason::NotValidSyncParam,
        };
        /// Hooks run before storing.
        "precommit" precommit: Vec<CommitHook> = Vec::new(), Hooks;
        /// Hooks run after storing.
        "postcommit" postcommit: Vec<CommitHook> = Vec::new(), Hooks;
        /// Rule for the placement of the bucket's records.
        "chash_keyfun" chash_keyfun: PlacementRule = PlacementRule::BucketAndKey, Parsed {
            read: placement_from_json,
            write: |rule| placement_to_json(*rule),
            refused: |_| Reason::NotPlacement,
        };
        /// Extraction of links.
        "linkfun" linkfun: LinkFun = LinkFun::default(), Parsed {
            read: LinkFun::from_json,
            write: LinkFun::to_json,
            refused: |_| Reason::NotLinkFun,
        };
        /// Age in seconds beyond which clock entries are dropped.
        "old_vclock" old_vclock: u32 = 86_400, Number { least: 1, max: u32::MAX };
        /// Age in seconds below which clock entries are kept.
        "young_vclock" young_vclock: u32 = 20, Number { least: 0, max: u32::MAX };
        /// Number of clock entries above which the oldest is dropped.
        "big_vclock" big_vclock: u32 = 50, Number { least: 1, max: u32::MAX };
        /// Number of clock entries up to which all are kept.
        "small_vclock" small_vclock: u32 = 50, Number { least: 1, max: u32::MAX };
    }
    optional {
        /// Whether objects are written once; see [`BucketProps::is_write_once`].
        "write_once" write_once: bool = Some(false), Flag;
        /// Whether objects are strongly consistent; see [`BucketProps::is_consistent`].
        "consistent" consistent: bool = None, Flag;
        /// Data type of all objects. Never present on untyped buckets: theirs has no effect and is kept
        /// among [`BucketProps::other`].
        "datatype" datatype: Datatype = None, Parsed {
            read: Datatype::from_json,
            write: |datatype| datatype.as_str().into(),
            refused: |value| Reason::DatatypeUnsupported(shown(value)),
        };
        /// HyperLogLog precision, 4 to 16.
        "hll_precision" hll_precision: u8 = None, PrecisionForm;
        /// Name of the storage engine, where several are configured.
        "backend" backend: String = None, Text;
        /// How values are stored, as it was set; see [`BucketProps::compresses`].
        "compression" compression: Compression = None, Parsed {
            read: Compression::from_json,
            write: |compression| compression.as_str().into(),
            refused: |_| Reason::NotCompression,
        };
        /// The promise of conditional writes, as it was set; see [`BucketProps::conditional_put_mode`].
        "conditional_put_mode" conditional_put_mode: ConditionalPutMode = None, Parsed {
            read: ConditionalPutMode::from_json,
            write: |mode| mode.as_str().into(),
            refused: |_| Reason::NotConditionalPutMode,
        };
        /// Legacy search flag. Kept and shown.
        "search" search: bool = None, Flag;
        /// Search index. Kept and shown.
        "search_index" search_index: String = None, Text;
        /// Replication to other clusters.
        "repl" repl: ReplMode = None, Parsed {
            read: ReplMode::from_json,
            write: |mode| mode.to_json(),
            refused: |_| Reason::NotReplMode,
        };
        /// The change feed of the bucket, as it was set: 0 is off, any other number names a period in which
        /// it is on; see [`BucketProps::feeds_changes`].
        "change_feed" change_feed: u32 = None, FeedPeriod;
        /// Whether statistics of the bucket are kept.
        "stat_tracked" stat_tracked: bool = None, Flag;
        /// Life of an object after its last write, in seconds, as it was set (property `ttl`; 0 = for
        /// ever); see [`BucketProps::expires_after_secs`].
        "ttl" ttl_secs: u32 = None, Number { least: 0, max: u32::MAX };
    }
}

impl BucketProps {
    /// Keeps a property as it was given.
    pub(super) fn set_unknown(&mut self, name: &str, value: &Value) -> Result<(), Reason> {
        if !self.other.contains_key(name) && self.other.len() >= UNKNOWN_PROPS_MAX {
            return Err(Reason::TooManyUnknown { max: UNKNOWN_PROPS_MAX });
        }
        self.other.insert(name.to_owned(), value.clone());
        Ok(())
    }
}

/// Names of all properties that mean something, with those that are only shown.
pub fn property_names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().copied().chain(["active", "claimant", "name"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_property_is_read_as_it_was_written() {
        let mut all = BucketProps::untyped();
        for (name, value) in [
            ("consistent", Value::from(true)),
            ("datatype", "map".into()),
            ("hll_precision", 12.into()),
            ("backend", "b".into()),
            ("compression", "lz4".into()),
            ("conditional_put_mode", "require_token".into()),
            ("search", false.into()),
            ("search_index", "i".into()),
            ("repl", "realtime".into()),
            ("change_feed", 7.into()),
            ("stat_tracked", true.into()),
            ("ttl", 60.into()),
        ] {
            all.set(name, &value).unwrap();
        }
        let shown = all.to_json();
        let names: Vec<&str> = shown.keys().map(String::as_str).collect();
        let mut expected = NAMES.to_vec();
        expected.sort_unstable();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected);
        assert_eq!(BucketProps::typed_from_json(&shown).unwrap(), all);
    }

    #[test]
    fn no_property_takes_a_value_of_any_type() {
        for name in NAMES {
            let mut props = BucketProps::untyped();
            assert!(props.set(name, &Value::Null).is_err(), "{name}");
            assert!(props.other.is_empty(), "{name}");
        }
    }
}
