//! Values of properties that are neither numbers nor booleans, with their JSON forms.

use crate::hash::PlacementRule;
use serde_json::{Value, json};

/// Replicas that sync a put before it is acknowledged (property `sync_on_write`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SyncOnWrite {
    /// As the node's storage is configured.
    #[default]
    Backend,
    /// The coordinating replica.
    One,
    /// Every replica.
    All,
}

impl SyncOnWrite {
    /// The word in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::One => "one",
            Self::All => "all",
        }
    }

    /// Reads the JSON form.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        match value.as_str()? {
            "backend" => Some(Self::Backend),
            "one" => Some(Self::One),
            "all" => Some(Self::All),
            _ => None,
        }
    }
}

/// Guarantee of conditional writes (property `conditional_put_mode`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ConditionalPutMode {
    /// No guarantee for writes that two nodes coordinate at the same time.
    #[default]
    ApiOnly,
    /// Conditional writes wait for each other where possible, without a guarantee.
    PreferToken,
    /// Of the conditional writes that are based on one version, at most one is acknowledged.
    RequireToken,
}

impl ConditionalPutMode {
    /// The word in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ApiOnly => "api_only",
            Self::PreferToken => "prefer_token",
            Self::RequireToken => "require_token",
        }
    }

    /// Reads the JSON form.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        match value.as_str()? {
            "api_only" => Some(Self::ApiOnly),
            "prefer_token" => Some(Self::PreferToken),
            "require_token" => Some(Self::RequireToken),
            _ => None,
        }
    }
}

/// Compression of stored values (property `compression`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compression {
    /// Values are stored uncompressed.
    None,
    /// Values are compressed with LZ4 if that makes them smaller.
    Lz4,
}

impl Compression {
    /// The word in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
        }
    }

    /// Reads the JSON form.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        match value.as_str()? {
            "none" => Some(Self::None),
            "lz4" => Some(Self::Lz4),
            _ => None,
        }
    }
}

/// Data type of all objects of a bucket type (property `datatype`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Datatype {
    /// A number that is incremented and decremented.
    Counter,
    /// A set of byte strings.
    Set,
    /// A map of counters, sets, registers, flags and maps.
    Map,
    /// A HyperLogLog: an estimate of the number of distinct elements.
    Hll,
    /// A set that only grows.
    Gset,
}

impl Datatype {
    /// The word in JSON and Protocol Buffers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Set => "set",
            Self::Map => "map",
            Self::Hll => "hll",
            Self::Gset => "gset",
        }
    }

    /// Reads the JSON form.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        match value.as_str()? {
            "counter" => Some(Self::Counter),
            "set" => Some(Self::Set),
            "map" => Some(Self::Map),
            "hll" => Some(Self::Hll),
            "gset" => Some(Self::Gset),
            _ => None,
        }
    }
}

/// Replication to other clusters (property `repl`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplMode {
    /// No replication.
    Off,
    /// Realtime and full-sync; shown as `true`.
    On,
    /// Realtime and full-sync; shown as `both`.
    Both,
    /// Realtime replication.
    Realtime,
    /// Full-sync.
    Fullsync,
}

impl ReplMode {
    /// Number of the mode in Protocol Buffers.
    #[must_use]
    pub const fn to_pb(self) -> i32 {
        match self {
            Self::Off => 0,
            Self::Realtime => 1,
            Self::Fullsync => 2,
            Self::On | Self::Both => 3,
        }
    }

    /// Reads the number of a Protocol Buffers message.
    #[must_use]
    pub const fn from_pb(number: i32) -> Option<Self> {
        match number {
            0 => Some(Self::Off),
            1 => Some(Self::Realtime),
            2 => Some(Self::Fullsync),
            3 => Some(Self::On),
            _ => None,
        }
    }

    /// The JSON form: a boolean or a word.
    #[must_use]
    pub fn to_json(self) -> Value {
        match self {
            Self::Off => Value::Bool(false),
            Self::On => Value::Bool(true),
            Self::Both => Value::from("both"),
            Self::Realtime => Value::from("realtime"),
            Self::Fullsync => Value::from("fullsync"),
        }
    }

    /// Reads the JSON form; booleans may be text.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(true) => Some(Self::On),
            Value::Bool(false) => Some(Self::Off),
            Value::String(word) => match word.as_str() {
                "true" => Some(Self::On),
                "false" => Some(Self::Off),
                "both" => Some(Self::Both),
                "realtime" => Some(Self::Realtime),
                "fullsync" => Some(Self::Fullsync),
                _ => None,
            },
            _ => None,
        }
    }
}

/// A function by module and name, as Riak names server-side code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModFun {
    /// Module.
    pub module: String,
    /// Function of the module.
    pub function: String,
}

impl ModFun {
    /// Names a function.
    #[must_use]
    pub fn new(module: &str, function: &str) -> Self {
        Self { module: module.to_owned(), function: function.to_owned() }
    }

    /// The JSON form.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({"mod": self.module, "fun": self.function})
    }

    /// Reads the JSON form.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        let module = value.get("mod")?.as_str()?;
        let function = value.get("fun")?.as_str()?;
        Some(Self::new(module, function))
    }
}

/// A commit hook (properties `precommit` and `postcommit`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommitHook {
    /// A function of the server.
    ModFun(ModFun),
    /// A named JavaScript function. It is kept and never run.
    JavaScript(String),
}

impl CommitHook {
    /// The JSON form.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::ModFun(function) => function.to_json(),
            Self::JavaScript(name) => json!({"name": name}),
        }
    }

    /// Reads the JSON form. A function has precedence over a name.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        if let Some(function) = ModFun::from_json(value) {
            return Some(Self::ModFun(function));
        }
        let name = value.get("name")?.as_str()?;
        Some(Self::JavaScript(name.to_owned()))
    }
}

/// Function that extracts an object's links (property `linkfun`). It is kept and shown; links are
/// always read from the object's metadata.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkFun {
    /// A function of the server.
    ModFun(ModFun),
    /// A JavaScript form, `{"jsfun":...}` or `{"jsanon":...}`, as it was given.
    JavaScript(Value),
}

impl LinkFun {
    /// The JSON form.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::ModFun(function) => function.to_json(),
            Self::JavaScript(form) => form.clone(),
        }
    }

    /// Reads the JSON form.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        if let Some(function) = ModFun::from_json(value) {
            return Some(Self::ModFun(function));
        }
        let is_javascript = value.get("jsfun").is_some() || value.get("jsanon").is_some();
        is_javascript.then(|| Self::JavaScript(value.clone()))
    }
}

impl Default for LinkFun {
    fn default() -> Self {
        Self::ModFun(ModFun::new("riak_kv_wm_link_walker", "mapreduce_linkfun"))
    }
}

const PLACEMENT_MODULE: &str = "riak_core_util";
const PLACEMENT_BY_KEY: &str = "chash_std_keyfun";
const PLACEMENT_BY_BUCKET: &str = "chash_bucketonly_keyfun";

/// The module and function by which Riak's clients name a placement rule (property `chash_keyfun`).
#[must_use]
pub const fn placement_name(rule: PlacementRule) -> (&'static str, &'static str) {
    match rule {
        PlacementRule::BucketAndKey => (PLACEMENT_MODULE, PLACEMENT_BY_KEY),
        PlacementRule::BucketOnly => (PLACEMENT_MODULE, PLACEMENT_BY_BUCKET),
    }
}

/// The JSON form of a placement rule.
#[must_use]
pub(super) fn placement_to_json(rule: PlacementRule) -> Value {
    let (module, function) = placement_name(rule);
    json!({"mod": module, "fun": function})
}

/// Reads the JSON form of a placement rule.
#[must_use]
pub(super) fn placement_from_json(value: &Value) -> Option<PlacementRule> {
    let named = ModFun::from_json(value)?;
    match (named.module.as_str(), named.function.as_str()) {
        (PLACEMENT_MODULE, PLACEMENT_BY_KEY) => Some(PlacementRule::BucketAndKey),
        (PLACEMENT_MODULE, PLACEMENT_BY_BUCKET) => Some(PlacementRule::BucketOnly),
        _ => None,
    }
}
