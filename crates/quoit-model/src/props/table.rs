//! The table of properties. A new property needs a row here, and the code that uses it.

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

/// Declares the properties. A row has the name of the property, its field and type, the default of
/// untyped buckets, and the form of its value in all protocols. Properties under `optional` are
/// absent and not shown until they are set; a bucket then has the value of its type.
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
        /// A full set of properties. Fields of type `Option` are absent and not shown until they
        /// are set.
        #[derive(Clone, PartialEq, Debug)]
        pub struct BucketProps {
            $( $(#[$doc])* pub $field: $type, )*
            $( $(#[$own_doc])* pub $own_field: Option<$own_type>, )*
            /// Properties that the server does not know or does not use, as they were given.
            pub other: BTreeMap<String, Value>,
        }

        /// Names of the properties in the order of the table.
        const NAMES: &[&str] = &[$( $name, )* $( $own_name, )*];

        impl BucketProps {
            /// Default properties of untyped buckets; the server's configuration may change them.
            #[must_use]
            pub fn untyped() -> Self {
                Self {
                    $( $field: $default, )*
                    $( $own_field: $own_default, )*
                    other: BTreeMap::new(),
                }
            }

            /// Checks and sets one property. The rules for changes are checked elsewhere.
            pub(super) fn set(&mut self, name: &str, value: &Value) -> Result<(), Reason> {
                match name {
                    $( $name => self.$field = $form.read(value)?, )*
                    $( $own_name => self.$own_field = Some($own_form.read(value)?), )*
                    _ => self.set_unknown(name, value)?,
                }
                Ok(())
            }

            /// All properties that are present. The caller adds what is not part of the set:
            /// `name`, and for typed buckets `active` and `claimant`.
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

            /// Combines this bucket's own set with the set of its type, which supplies the
            /// properties that the own set lacks.
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
        /// True to keep concurrent writes as siblings.
        "allow_mult" allow_mult: bool = false, Flag;
        /// True if the latest write replaces all others, regardless of causality.
        "last_write_wins" last_write_wins: bool = false, Flag;
        /// True if siblings carry dots.
        "dvv_enabled" dvv_enabled: bool = false, Flag;
        /// Read quorum, at least 1.
        "r" r: Quorum = Quorum::Quorum, QuorumForm { zero_allowed: false };
        /// Write quorum of replicas that accepted the write, at least 1.
        "w" w: Quorum = Quorum::Quorum, QuorumForm { zero_allowed: false };
        /// Write quorum of replicas on which the write is durable.
        "dw" dw: Quorum = Quorum::Quorum, QuorumForm { zero_allowed: true };
        /// Quorum of both the read and the write of a delete, at least 1.
        "rw" rw: Quorum = Quorum::Quorum, QuorumForm { zero_allowed: false };
        /// Read quorum among primaries.
        "pr" pr: Quorum = Quorum::Count(0), QuorumForm { zero_allowed: true };
        /// Write quorum among primaries.
        "pw" pw: Quorum = Quorum::Count(0), QuorumForm { zero_allowed: true };
        /// Number of distinct nodes that must answer.
        "node_confirms" node_confirms: Quorum = Quorum::Count(0), QuorumForm { zero_allowed: true };
        /// True if a read gives up once a majority has failed or found nothing.
        "basic_quorum" basic_quorum: bool = false, Flag;
        /// True if "not found" counts towards `r`.
        "notfound_ok" notfound_ok: bool = true, Flag;
        /// Replicas that sync a put before it is acknowledged.
        "sync_on_write" sync_on_write: SyncOnWrite = SyncOnWrite::Backend, Parsed {
            read: SyncOnWrite::from_json,
            write: |mode| mode.as_str().into(),
            refused: |_| Reason::NotValidSyncParam,
        };
        /// Hooks that run before a value is stored.
        "precommit" precommit: Vec<CommitHook> = Vec::new(), Hooks;
        /// Hooks that run after a value was stored.
        "postcommit" postcommit: Vec<CommitHook> = Vec::new(), Hooks;
        /// Rule for the placement of the bucket's records.
        "chash_keyfun" chash_keyfun: PlacementRule = PlacementRule::BucketAndKey, Parsed {
            read: placement_from_json,
            write: |rule| placement_to_json(*rule),
            refused: |_| Reason::NotPlacement,
        };
        /// Function that extracts links.
        "linkfun" linkfun: LinkFun = LinkFun::default(), Parsed {
            read: LinkFun::from_json,
            write: LinkFun::to_json,
            refused: |_| Reason::NotLinkFun,
        };
        /// Age in seconds above which clock entries are dropped.
        "old_vclock" old_vclock: u32 = 86_400, Number { least: 1, max: u32::MAX };
        /// Age in seconds below which clock entries are kept.
        "young_vclock" young_vclock: u32 = 20, Number { least: 0, max: u32::MAX };
        /// Number of clock entries above which the oldest are dropped.
        "big_vclock" big_vclock: u32 = 50, Number { least: 1, max: u32::MAX };
        /// Number of clock entries up to which all are kept.
        "small_vclock" small_vclock: u32 = 50, Number { least: 1, max: u32::MAX };
    }
    optional {
        /// True if objects are written once; see [`BucketProps::is_write_once`].
        "write_once" write_once: bool = Some(false), Flag;
        /// True if objects are strongly consistent; see [`BucketProps::is_consistent`].
        "consistent" consistent: bool = None, Flag;
        /// Data type of all objects. Never present on untyped buckets, where the property has no
        /// effect and is kept in [`BucketProps::other`].
        "datatype" datatype: Datatype = None, Parsed {
            read: Datatype::from_json,
            write: |datatype| datatype.as_str().into(),
            refused: |value| Reason::DatatypeUnsupported(shown(value)),
        };
        /// Precision of HyperLogLogs, 4 to 16.
        "hll_precision" hll_precision: u8 = None, PrecisionForm;
        /// Name of the storage engine, if several are configured.
        "backend" backend: String = None, Text;
        /// Compression of stored values, as it was set; see [`BucketProps::compresses`].
        "compression" compression: Compression = None, Parsed {
            read: Compression::from_json,
            write: |compression| compression.as_str().into(),
            refused: |_| Reason::NotCompression,
        };
        /// Guarantee of conditional writes, as it was set; see
        /// [`BucketProps::conditional_put_mode`].
        "conditional_put_mode" conditional_put_mode: ConditionalPutMode = None, Parsed {
            read: ConditionalPutMode::from_json,
            write: |mode| mode.as_str().into(),
            refused: |_| Reason::NotConditionalPutMode,
        };
        /// Riak's legacy search flag, kept and shown.
        "search" search: bool = None, Flag;
        /// Riak's search index, kept and shown.
        "search_index" search_index: String = None, Text;
        /// Replication to other clusters.
        "repl" repl: ReplMode = None, Parsed {
            read: ReplMode::from_json,
            write: |mode| mode.to_json(),
            refused: |_| Reason::NotReplMode,
        };
        /// Period of the bucket's change feed, as it was set. 0 is off; any other number names a
        /// period in which the feed is on. See [`BucketProps::feeds_changes`].
        "change_feed" change_feed: u32 = None, FeedPeriod;
        /// True to keep statistics of the bucket.
        "stat_tracked" stat_tracked: bool = None, Flag;
        /// Time after its last write at which an object expires, in seconds, as it was set
        /// (property `ttl`). 0 stands for never; see [`BucketProps::expires_after_secs`].
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

/// Names of all properties that have a meaning, including those that are only shown.
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
