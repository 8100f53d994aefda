//! Sets of properties as JSON: for clients, for operators and for storage.

use super::values::placement_to_json;
use super::{BucketProps, CommitHook, Compression, ConditionalPutMode, Reason, SyncOnWrite};
use serde_json::{Map, Value};
use thiserror::Error;

impl BucketProps {
    /// All properties that are present. The holder adds what is not a property of the set: `name`,
    /// and for typed buckets `active` and `claimant`.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let mut object = Map::new();
        for (name, value) in &self.other {
            object.insert(name.clone(), value.clone());
        }
        let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
        put("n_val", self.n_val.into());
        put("allow_mult", self.allow_mult.into());
        put("last_write_wins", self.last_write_wins.into());
        put("dvv_enabled", self.dvv_enabled.into());
        put("r", self.r.to_json());
        put("w", self.w.to_json());
        put("dw", self.dw.to_json());
        put("rw", self.rw.to_json());
        put("pr", self.pr.to_json());
        put("pw", self.pw.to_json());
        put("node_confirms", self.node_confirms.to_json());
        put("basic_quorum", self.basic_quorum.into());
        put("notfound_ok", self.notfound_ok.into());
        put("sync_on_write", SyncOnWrite::as_str(self.sync_on_write).into());
        put("precommit", hooks_to_json(&self.precommit));
        put("postcommit", hooks_to_json(&self.postcommit));
        put("chash_keyfun", placement_to_json(self.chash_keyfun));
        put("linkfun", self.linkfun.to_json());
        put("old_vclock", self.old_vclock.into());
        put("young_vclock", self.young_vclock.into());
        put("big_vclock", self.big_vclock.into());
        put("small_vclock", self.small_vclock.into());
        self.optional_to_json(&mut object);
        object
    }

    fn optional_to_json(&self, object: &mut Map<String, Value>) {
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                object.insert(name.to_owned(), value);
            }
        };
        put("write_once", self.write_once.map(Value::from));
        put("consistent", self.consistent.map(Value::from));
        put("datatype", self.datatype.map(|datatype| datatype.as_str().into()));
        put("hll_precision", self.hll_precision.map(Value::from));
        put("backend", self.backend.clone().map(Value::from));
        put("compression", self.compression.map(|compression| compression.as_str().into()));
        put("conditional_put_mode", self.conditional_put_mode.map(|mode| mode.as_str().into()));
        put("search", self.search.map(Value::from));
        put("search_index", self.search_index.clone().map(Value::from));
        put("repl", self.repl.map(|mode| mode.to_json()));
        put("change_feed", self.change_feed.map(Value::from));
        put("stat_tracked", self.stat_tracked.map(Value::from));
        put("ttl", self.ttl_secs.map(Value::from));
    }

    /// Reads what [`BucketProps::to_json`] wrote for a bucket type or a bucket of one.
    ///
    /// # Errors
    ///
    /// Names the property whose value is not one that was ever written.
    pub fn typed_from_json(object: &Map<String, Value>) -> Result<Self, StoredPropsError> {
        Self::new_type().with_stored(object)
    }

    /// Reads what [`BucketProps::to_json`] wrote for an untyped bucket.
    ///
    /// # Errors
    ///
    /// Names the property whose value is not one that was ever written.
    pub fn untyped_from_json(object: &Map<String, Value>) -> Result<Self, StoredPropsError> {
        let mut object = object.clone();
        let datatype = object.remove("datatype");
        let mut props = Self::untyped().with_stored(&object)?;
        if let Some(datatype) = datatype {
            props.other.insert("datatype".to_owned(), datatype);
        }
        Ok(props)
    }

    fn with_stored(mut self, object: &Map<String, Value>) -> Result<Self, StoredPropsError> {
        for (name, value) in object {
            // Nodes of versions that did not know these properties let any value pass.
            let is_of_no_effect = match name.as_str() {
                "compression" => Compression::from_json(value).is_none(),
                "conditional_put_mode" => ConditionalPutMode::from_json(value).is_none(),
                _ => false,
            };
            if is_of_no_effect {
                let reason = |reason| StoredPropsError { property: name.clone(), reason };
                self.set_unknown(name, value).map_err(reason)?;
                continue;
            }
            self.set(name, value)
                .map_err(|reason| StoredPropsError { property: name.clone(), reason })?;
        }
        Ok(self)
    }
}

fn hooks_to_json(hooks: &[CommitHook]) -> Value {
    hooks.iter().map(CommitHook::to_json).collect()
}

/// A stored set of properties that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("stored property {property}: {reason}")]
pub struct StoredPropsError {
    /// Name of the property.
    pub property: String,
    /// Fault of its value.
    pub reason: Reason,
}

/// Properties as `bucket-type status` lists them: sorted, one `name: value` a line, functions as
/// `{module,function}`.
#[must_use]
pub fn status_lines(props: &Map<String, Value>) -> Vec<String> {
    let mut lines: Vec<String> =
        props.iter().map(|(name, value)| format!("{name}: {}", plain(value))).collect();
    lines.sort();
    lines
}

fn plain(value: &Value) -> String {
    let function = |object: &Map<String, Value>| match (object.get("mod"), object.get("fun")) {
        (Some(Value::String(module)), Some(Value::String(function))) if object.len() == 2 => {
            Some(format!("{{{module},{function}}}"))
        }
        _ => None,
    };
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(plain).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(object) => function(object).unwrap_or_else(|| value.to_string()),
        _ => value.to_string(),
    }
}
