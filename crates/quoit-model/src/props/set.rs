//! Reading one property's value into its field.

use super::values::placement_from_json;
use super::{
    BucketProps, CommitHook, Compression, ConditionalPutMode, Datatype, LinkFun, N_VAL_MAX,
    PROP_NAME_BYTES_MAX, PROP_VALUE_BYTES_MAX, PROP_VALUE_DEPTH_MAX, Quorum, Reason, ReplMode,
    SyncOnWrite, UNKNOWN_PROPS_MAX,
};
use serde_json::Value;

/// Reads true, false, these words in any case, or an integer (positive = true).
pub(super) fn boolean(value: &Value) -> Result<bool, Reason> {
    match value {
        Value::Bool(truth) => Ok(*truth),
        Value::String(word) if word.eq_ignore_ascii_case("true") => Ok(true),
        Value::String(word) if word.eq_ignore_ascii_case("false") => Ok(false),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => Ok(integer > 0),
            (None, Some(_)) => Ok(true),
            (None, None) => Err(Reason::NotBoolean),
        },
        _ => Err(Reason::NotBoolean),
    }
}

fn integer(value: &Value, least: u32, max: u32) -> Result<u32, Reason> {
    match value.as_u64() {
        Some(number) if number > u64::from(max) => Err(Reason::TooLarge { max }),
        Some(number) if number >= u64::from(least) => Ok(number as u32),
        _ => Err(Reason::NotInteger),
    }
}

fn quorum(value: &Value, zero_allowed: bool) -> Result<Quorum, Reason> {
    match Quorum::from_json(value) {
        Some(Quorum::Count(0)) if !zero_allowed => Err(Reason::NotValidQuorum),
        Some(quorum) => Ok(quorum),
        None => Err(Reason::NotValidQuorum),
    }
}

fn text(value: &Value) -> Result<String, Reason> {
    value.as_str().map(str::to_owned).ok_or(Reason::NotText)
}

fn hooks(value: &Value) -> Result<Vec<CommitHook>, Reason> {
    let list = value.as_array().ok_or(Reason::NotHooks)?;
    let read = |hook: &Value| CommitHook::from_json(hook).ok_or(Reason::NotHooks);
    list.iter().map(read).collect()
}

/// The number of a change feed: `true` is the first period, `false` is off.
fn change_feed(value: &Value) -> Result<u32, Reason> {
    match value {
        Value::Number(_) => integer(value, 0, u32::MAX),
        _ => boolean(value).map(u32::from),
    }
}

fn precision(value: &Value) -> Result<u8, Reason> {
    match value.as_u64() {
        Some(number @ 4..=16) => Ok(number as u8),
        _ => Err(Reason::HllPrecision(shown(value))),
    }
}

/// A refused value as it appears in a reason: texts bare, everything else as JSON, shortened.
pub(super) fn shown(value: &Value) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    let whole = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match whole.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &whole[..end]),
        None => whole,
    }
}

/// Refuses names and values that no property may have, whatever it means.
pub(super) fn check_size(name: &str, value: &Value) -> Result<(), Reason> {
    if name.is_empty() || name.len() > PROP_NAME_BYTES_MAX {
        return Err(Reason::NameLength { max: PROP_NAME_BYTES_MAX });
    }
    if !fits_depth(value, PROP_VALUE_DEPTH_MAX) {
        return Err(Reason::ValueTooDeep { max: PROP_VALUE_DEPTH_MAX });
    }
    let may_be_long = value.is_string() || value.is_array() || value.is_object();
    if may_be_long && value.to_string().len() > PROP_VALUE_BYTES_MAX {
        return Err(Reason::ValueTooLong { max: PROP_VALUE_BYTES_MAX });
    }
    Ok(())
}

fn fits_depth(value: &Value, levels: usize) -> bool {
    match (value, levels) {
        (Value::Array(_) | Value::Object(_), 0) => false,
        (Value::Array(list), _) => list.iter().all(|inner| fits_depth(inner, levels - 1)),
        (Value::Object(object), _) => object.values().all(|inner| fits_depth(inner, levels - 1)),
        _ => true,
    }
}

/// Names of all properties that mean something, in alphabetical order, with those that are only shown.
pub const PROPERTY_NAMES: [&str; 38] = [
    "active",
    "allow_mult",
    "backend",
    "basic_quorum",
    "big_vclock",
    "change_feed",
    "chash_keyfun",
    "claimant",
    "compression",
    "conditional_put_mode",
    "consistent",
    "datatype",
    "dvv_enabled",
    "dw",
    "hll_precision",
    "last_write_wins",
    "linkfun",
    "n_val",
    "name",
    "node_confirms",
    "notfound_ok",
    "old_vclock",
    "postcommit",
    "pr",
    "precommit",
    "pw",
    "r",
    "repl",
    "rw",
    "search",
    "search_index",
    "small_vclock",
    "stat_tracked",
    "sync_on_write",
    "ttl",
    "w",
    "write_once",
    "young_vclock",
];

impl BucketProps {
    /// Sets one property, checking the value by itself. Which changes are allowed is checked
    /// elsewhere.
    pub(super) fn set(&mut self, name: &str, value: &Value) -> Result<(), Reason> {
        if let Some(field) = self.boolean_field(name) {
            *field = boolean(value)?;
        } else if let Some(field) = self.optional_boolean_field(name) {
            *field = Some(boolean(value)?);
        } else if let Some((field, least, max)) = self.integer_field(name) {
            *field = integer(value, least, max)?;
        } else if let Some((field, zero_allowed)) = self.quorum_field(name) {
            *field = quorum(value, zero_allowed)?;
        } else {
            self.set_other(name, value)?;
        }
        Ok(())
    }

    fn set_other(&mut self, name: &str, value: &Value) -> Result<(), Reason> {
        match name {
            "sync_on_write" => {
                self.sync_on_write =
                    SyncOnWrite::from_json(value).ok_or(Reason::NotValidSyncParam)?;
            }
            "precommit" => self.precommit = hooks(value)?,
            "postcommit" => self.postcommit = hooks(value)?,
            "chash_keyfun" => {
                self.chash_keyfun = placement_from_json(value).ok_or(Reason::NotPlacement)?;
            }
            "linkfun" => self.linkfun = LinkFun::from_json(value).ok_or(Reason::NotLinkFun)?,
            "datatype" => {
                let unsupported = || Reason::DatatypeUnsupported(shown(value));
                self.datatype = Some(Datatype::from_json(value).ok_or_else(unsupported)?);
            }
            "hll_precision" => self.hll_precision = Some(precision(value)?),
            "backend" => self.backend = Some(text(value)?),
            "compression" => {
                let compression = Compression::from_json(value).ok_or(Reason::NotCompression)?;
                self.compression = Some(compression);
            }
            "conditional_put_mode" => {
                let mode = ConditionalPutMode::from_json(value);
                self.conditional_put_mode = Some(mode.ok_or(Reason::NotConditionalPutMode)?);
            }
            "search_index" => self.search_index = Some(text(value)?),
            "repl" => self.repl = Some(ReplMode::from_json(value).ok_or(Reason::NotReplMode)?),
            "change_feed" => self.change_feed = Some(change_feed(value)?),
            "ttl" => self.ttl_secs = Some(integer(value, 0, u32::MAX)?),
            _ => self.set_unknown(name, value)?,
        }
        Ok(())
    }

    /// Keeps a property as it was given.
    pub(super) fn set_unknown(&mut self, name: &str, value: &Value) -> Result<(), Reason> {
        if !self.other.contains_key(name) && self.other.len() >= UNKNOWN_PROPS_MAX {
            return Err(Reason::TooManyUnknown { max: UNKNOWN_PROPS_MAX });
        }
        self.other.insert(name.to_owned(), value.clone());
        Ok(())
    }

    fn boolean_field(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "allow_mult" => Some(&mut self.allow_mult),
            "last_write_wins" => Some(&mut self.last_write_wins),
            "dvv_enabled" => Some(&mut self.dvv_enabled),
            "basic_quorum" => Some(&mut self.basic_quorum),
            "notfound_ok" => Some(&mut self.notfound_ok),
            _ => None,
        }
    }

    fn optional_boolean_field(&mut self, name: &str) -> Option<&mut Option<bool>> {
        match name {
            "write_once" => Some(&mut self.write_once),
            "consistent" => Some(&mut self.consistent),
            "search" => Some(&mut self.search),
            "stat_tracked" => Some(&mut self.stat_tracked),
            _ => None,
        }
    }

    /// The field with its least and largest value.
    fn integer_field(&mut self, name: &str) -> Option<(&mut u32, u32, u32)> {
        match name {
            "n_val" => Some((&mut self.n_val, 1, N_VAL_MAX)),
            "old_vclock" => Some((&mut self.old_vclock, 1, u32::MAX)),
            "young_vclock" => Some((&mut self.young_vclock, 0, u32::MAX)),
            "big_vclock" => Some((&mut self.big_vclock, 1, u32::MAX)),
            "small_vclock" => Some((&mut self.small_vclock, 1, u32::MAX)),
            _ => None,
        }
    }

    /// The field, and whether it may be 0.
    fn quorum_field(&mut self, name: &str) -> Option<(&mut Quorum, bool)> {
        match name {
            "r" => Some((&mut self.r, false)),
            "w" => Some((&mut self.w, false)),
            "rw" => Some((&mut self.rw, false)),
            "dw" => Some((&mut self.dw, true)),
            "pr" => Some((&mut self.pr, true)),
            "pw" => Some((&mut self.pw, true)),
            "node_confirms" => Some((&mut self.node_confirms, true)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_all_properties_that_are_set() {
        let mut all = BucketProps::untyped();
        for name in
            PROPERTY_NAMES.into_iter().filter(|name| !["active", "claimant", "name"].contains(name))
        {
            // A value that no property has.
            let refused = all.set(name, &Value::Null).is_err();
            assert!(refused && !all.other.contains_key(name), "{name} is not a property");
        }
        assert!(PROPERTY_NAMES.is_sorted());
        let shown = BucketProps::untyped().to_json();
        assert!(shown.keys().all(|name| PROPERTY_NAMES.contains(&name.as_str())), "{shown:?}");
    }
}
