//! Commands on data types: `quoit counter`, `set`, `gset`, `map` and `hll`.

use super::refused;
use crate::api::{Api, Call};
use crate::document::value_at;
use crate::format::Format;
use crate::names::RecordName;
use crate::say;
use crate::target::TargetArgs;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use ureq::http::Method;

/// A data type on a node, and the output format.
#[derive(Args, Debug)]
pub struct DataTypeTarget {
    #[command(flatten)]
    target: TargetArgs,
    /// TYPE/BUCKET/KEY; the bucket type determines the data type.
    name: RecordName,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Counters: the increments of all nodes and clients add up.
#[derive(Subcommand, Debug)]
#[command(after_help = "Example:\n  quoit counter incr counters/pages/home 5")]
pub enum CounterCommand {
    /// Print the value.
    Get(DataTypeTarget),
    /// Add a number to a counter and print the new value.
    Incr {
        /// The counter.
        #[command(flatten)]
        place: DataTypeTarget,
        /// Number to add; can be negative.
        #[arg(default_value_t = 1, allow_hyphen_values = true)]
        by: i64,
    },
}

/// Sets of texts: if an element is added and removed concurrently, the addition wins.
#[derive(Subcommand, Debug)]
#[command(
    after_help = "Examples:\n  quoit set add sets/guests/party ann bob\n  quoit set get sets/guests/party"
)]
pub enum SetCommand {
    /// Print the elements, one on each line.
    Get(DataTypeTarget),
    /// Add elements.
    Add(Elements),
    /// Remove elements.
    Remove(Elements),
}

/// Sets that only grow.
#[derive(Subcommand, Debug)]
#[command(after_help = "Example:\n  quoit gset add seen/visitors/2026 ann bob")]
pub enum GsetCommand {
    /// Print the elements, one on each line.
    Get(DataTypeTarget),
    /// Add elements.
    Add(Elements),
}

/// HyperLogLogs: estimates of the number of distinct elements.
#[derive(Subcommand, Debug)]
#[command(after_help = "Example:\n  quoit hll add uniques/visitors/today ann bob")]
pub enum HllCommand {
    /// Print the estimate.
    Get(DataTypeTarget),
    /// Add elements to the estimate.
    Add(Elements),
}

/// Maps of registers, flags, counters, sets and maps.
#[derive(Subcommand, Debug)]
#[command(
    after_help = "Examples:\n  quoit map update people/all/ann name_register=Ann visits_counter=+1 \
     member_flag=true\n  \
                  quoit map update people/all/ann tags_set=+rust tags_set=-erlang \
                  address_map.city_register=Paris\n  \
                  quoit map remove people/all/ann visits_counter"
)]
pub enum MapCommand {
    /// Print the fields, one on each line.
    Get(DataTypeTarget),
    /// Change fields. A field's name ends in its type, as in name_register, visits_counter, tags_set,
    /// member_flag and address_map; a dot separates a map from a field inside it.
    Update {
        /// The map.
        #[command(flatten)]
        place: DataTypeTarget,
        /// FIELD=VALUE: the text of a register, true or false for a flag, +N or -N for a counter, +TEXT or
        /// -TEXT for a set.
        #[arg(required = true, value_name = "FIELD=VALUE")]
        changes: Vec<String>,
    },
    /// Remove fields.
    Remove {
        /// The map.
        #[command(flatten)]
        place: DataTypeTarget,
        /// Names of fields of the map itself, not of maps inside it.
        #[arg(required = true)]
        fields: Vec<String>,
    },
}

/// Elements of a set.
#[derive(Args, Debug)]
pub struct Elements {
    #[command(flatten)]
    place: DataTypeTarget,
    /// Elements.
    #[arg(required = true)]
    elements: Vec<String>,
}

/// Kind of a data type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DataTypeKind {
    Counter,
    Set,
    Gset,
    Hll,
    Map,
}

impl DataTypeKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Set => "set",
            Self::Gset => "gset",
            Self::Hll => "hll",
            Self::Map => "map",
        }
    }
}

impl DataTypeTarget {
    /// Reads the value; `None` if it does not exist yet.
    fn read(&self, api: &Api, kind: DataTypeKind) -> Result<Option<Value>> {
        let reply = api.call(&Call { path: self.name.data_type_path(), ..Call::default() })?;
        match (reply.status, serde_json::from_slice::<Value>(&reply.body)) {
            (200, Ok(document)) if value_at(&document, "/type") == kind.word() => {
                Ok(Some(document))
            }
            (200, Ok(document)) => {
                let found = value_at(&document, "/type").as_str().unwrap_or("something else");
                bail!("{} is a {found}: use `quoit {found}`", self.name)
            }
            (404, Ok(document)) if value_at(&document, "/error") == "notfound" => Ok(None),
            _ => Err(self.refused(&reply, kind)),
        }
    }

    fn refused(&self, reply: &crate::api::Reply, kind: DataTypeKind) -> anyhow::Error {
        let bucket_type = crate::names::shown(&self.name.bucket.bucket_type);
        if self.name.bucket.is_untyped() {
            return anyhow::anyhow!(
                "{}: buckets of the type default hold objects, no {}; make a type with \
                 `quoit admin bucket-type create TYPE '{{\"props\":{{\"datatype\":\"{}\"}}}}'`, activate \
                 it, and \
                 write TYPE/BUCKET/KEY",
                self.name,
                kind.word(),
                kind.word()
            );
        }
        let told = reply.text();
        if told.contains("not a supported type") || told.contains("Operation type") {
            return anyhow::anyhow!(
                "{}: buckets of the type {bucket_type} hold no {}: {told}",
                self.name,
                kind.word()
            );
        }
        refused(reply, &self.name.bucket, &self.name)
    }

    fn get(&self, kind: DataTypeKind) -> Result<()> {
        let Some(document) = self.read(&Api::new(&self.target), kind)? else {
            bail!("there is no {}", self.name);
        };
        match self.format {
            Format::Json => say!("{document}"),
            Format::Human => show(value_at(&document, "/value"), ""),
        }
        Ok(())
    }

    /// Applies an operation. If `needs_context` is set, it first reads the value and sends the value's causal
    /// context with the operation, so that a removal affects only elements and fields that the client has
    /// seen.
    fn change(
        &self,
        kind: DataTypeKind,
        mut operation: Value,
        needs_context: bool,
    ) -> Result<Option<Value>> {
        let api = Api::new(&self.target);
        if needs_context {
            let Some(seen) = self.read(&api, kind)? else { bail!("there is no {}", self.name) };
            if let (Some(operation), Some(context)) =
                (operation.as_object_mut(), value_at(&seen, "/context").as_str())
            {
                operation.insert("context".to_owned(), context.into());
            }
        }
        let wants_value = kind == DataTypeKind::Counter;
        let query = if wants_value { "?returnbody=true" } else { "" };
        let reply = api.call(&Call {
            method: Method::POST,
            path: format!("{}{query}", self.name.data_type_path()),
            headers: vec![("Content-Type".into(), "application/json".into())],
            body: operation.to_string().into_bytes(),
        })?;
        match reply.status {
            200 | 201 | 204 => Ok(serde_json::from_slice(&reply.body).ok()),
            _ => Err(self.refused(&reply, kind)),
        }
    }
}

/// Prints a value: elements one on each line, fields of a map with their names. Fields of an inner map are
/// prefixed with its name and a dot.
fn show(value: &Value, within: &str) {
    match value {
        Value::Array(elements) => elements.iter().for_each(|element| show(element, within)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::Object(_) => show(value, &format!("{within}{name}.")),
                    Value::Array(elements) => {
                        let elements: Vec<String> = elements.iter().map(plain).collect();
                        say!("{within}{name}: {}", elements.join(", "));
                    }
                    _ => say!("{within}{name}: {}", plain(value)),
                }
            }
        }
        _ => say!("{}", plain(value)),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Runs `quoit counter`.
///
/// # Errors
///
/// The counter does not exist, or the node refuses.
pub fn counter(command: &CounterCommand) -> Result<()> {
    match command {
        CounterCommand::Get(place) => place.get(DataTypeKind::Counter),
        CounterCommand::Incr { place, by } => {
            if let Some(document) =
                place.change(DataTypeKind::Counter, json!({"increment": by}), false)?
            {
                match place.format {
                    Format::Json => say!("{document}"),
                    Format::Human => show(value_at(&document, "/value"), ""),
                }
            }
            Ok(())
        }
    }
}

fn add(elements: &Elements, kind: DataTypeKind) -> Result<()> {
    elements.place.change(kind, json!({"add_all": elements.elements}), false).map(drop)
}

/// Runs `quoit set`.
///
/// # Errors
///
/// The set does not exist, or the node refuses.
pub fn set(command: &SetCommand) -> Result<()> {
    match command {
        SetCommand::Get(place) => place.get(DataTypeKind::Set),
        SetCommand::Add(elements) => add(elements, DataTypeKind::Set),
        SetCommand::Remove(elements) => {
            let operation = json!({"remove_all": elements.elements});
            elements.place.change(DataTypeKind::Set, operation, true).map(drop)
        }
    }
}

/// Runs `quoit gset`.
///
/// # Errors
///
/// Like [`set`].
pub fn gset(command: &GsetCommand) -> Result<()> {
    match command {
        GsetCommand::Get(place) => place.get(DataTypeKind::Gset),
        GsetCommand::Add(elements) => add(elements, DataTypeKind::Gset),
    }
}

/// Runs `quoit hll`.
///
/// # Errors
///
/// Like [`set`].
pub fn hll(command: &HllCommand) -> Result<()> {
    match command {
        HllCommand::Get(place) => place.get(DataTypeKind::Hll),
        HllCommand::Add(elements) => add(elements, DataTypeKind::Hll),
    }
}

/// Runs `quoit map`.
///
/// # Errors
///
/// The map does not exist, a change cannot be parsed, or the node refuses.
pub fn map(command: &MapCommand) -> Result<()> {
    match command {
        MapCommand::Get(place) => place.get(DataTypeKind::Map),
        MapCommand::Update { place, changes } => {
            let update = Update::of(changes)?;
            place.change(DataTypeKind::Map, update.operation, update.is_removal).map(drop)
        }
        MapCommand::Remove { place, fields } => {
            place.change(DataTypeKind::Map, json!({"remove": fields}), true).map(drop)
        }
    }
}

/// An update of a map.
#[derive(PartialEq, Debug)]
struct Update {
    operation: Value,
    /// True if the update disables a flag or removes an element, and so needs a causal context.
    is_removal: bool,
}

impl Update {
    fn of(changes: &[String]) -> Result<Self> {
        let (mut fields, mut is_removal) = (Map::new(), false);
        for change in changes {
            let Some((path, value)) = change.split_once('=') else {
                bail!("'{change}' is not of the form FIELD=VALUE");
            };
            is_removal |= put(&mut fields, FieldChange { argument: change, path, value })?;
        }
        Ok(Self { operation: json!({"update": fields}), is_removal })
    }
}

/// A change of a field of a map.
#[derive(Clone, Copy)]
struct FieldChange<'c> {
    /// The whole argument of the command.
    argument: &'c str,
    /// Name of the field, after those of the maps that contain it and that have not been entered yet.
    path: &'c str,
    /// The new value of the field, or the change of its value.
    value: &'c str,
}

impl FieldChange<'_> {
    /// Says that the name of the field has no known ending.
    fn no_kind(self) -> String {
        let Self { argument, path, .. } = self;
        format!(
            "'{argument}': {path} does not tell its kind: the name of a field ends in _register, _flag, \
             _counter, _set \
             or _map"
        )
    }
}

/// Adds a change to the update of a map; returns true if it disables a flag or removes an element.
fn put(fields: &mut Map<String, Value>, change: FieldChange<'_>) -> Result<bool> {
    let FieldChange { argument, path, value } = change;
    if let Some((outer, inner)) = path.split_once('.') {
        if !outer.ends_with("_map") {
            bail!("'{argument}': {outer} is not the name of a map, which ends in _map");
        }
        let within = fields.entry(outer).or_insert_with(|| json!({"update": {}}));
        let Some(within) = within["update"].as_object_mut() else {
            bail!("'{argument}': {outer} is changed in two ways");
        };
        return put(within, FieldChange { path: inner, ..change });
    }
    let Some((_, kind)) = path.rsplit_once('_') else { bail!("{}", change.no_kind()) };
    match kind {
        "register" => {
            put_once(fields, json!({"assign": value}), change)?;
            Ok(false)
        }
        "flag" => {
            let (word, disables) = match value {
                "true" | "on" | "enable" => ("enable", false),
                "false" | "off" | "disable" => ("disable", true),
                _ => bail!("'{argument}': a flag is true or false"),
            };
            put_once(fields, word.into(), change)?;
            Ok(disables)
        }
        "counter" => {
            let Ok(by) = value.parse::<i64>() else {
                bail!("'{argument}': a counter changes by a whole number, as in {path}=+1");
            };
            put_once(fields, json!({"increment": by}), change)?;
            Ok(false)
        }
        "set" => {
            let (member, element) = match (value.strip_prefix('+'), value.strip_prefix('-')) {
                (Some(element), _) => ("add_all", element),
                (_, Some(element)) => ("remove_all", element),
                _ => bail!(
                    "'{argument}': write {path}=+{value} to add the element, {path}=-{value} to remove it"
                ),
            };
            let change_of = fields.entry(path).or_insert_with(|| json!({}));
            let Some(change_of) = change_of.as_object_mut() else {
                bail!("'{argument}': {path} is changed in two ways");
            };
            if let Some(elements) =
                change_of.entry(member).or_insert_with(|| json!([])).as_array_mut()
            {
                elements.push(element.into());
            }
            Ok(member == "remove_all")
        }
        "map" => bail!("'{argument}': name a field of the map, as in {path}.city_register=Paris"),
        _ => bail!("{}", change.no_kind()),
    }
}

/// Adds a change of a field that a command can change only once.
fn put_once(fields: &mut Map<String, Value>, of: Value, change: FieldChange<'_>) -> Result<()> {
    let FieldChange { argument, path, .. } = change;
    if fields.insert(path.to_owned(), of).is_some() {
        bail!("'{argument}': {path} is changed twice; name each register, flag and counter once");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(changes: &[&str]) -> Result<Update> {
        Update::of(&changes.iter().map(|change| (*change).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn changes_of_a_map_become_one_operation() {
        let changes = [
            "name_register=Ann=Lee",
            "visits_counter=+2",
            "member_flag=true",
            "tags_set=+a",
            "tags_set=+b",
            "tags_set=-c",
            "address_map.city_register=Paris",
            "address_map.geo_map.seen_counter=-1",
        ];
        let update = update(&changes).expect("changes");
        let expected = json!({"update": {
            "name_register": {"assign": "Ann=Lee"},
            "visits_counter": {"increment": 2},
            "member_flag": "enable",
            "tags_set": {"add_all": ["a", "b"], "remove_all": ["c"]},
            "address_map": {"update": {
                "city_register": {"assign": "Paris"},
                "geo_map": {"update": {"seen_counter": {"increment": -1}}},
            }},
        }});
        assert_eq!(update, Update { operation: expected, is_removal: true });
    }

    #[test]
    fn only_what_takes_something_away_needs_a_context() {
        for (change, is_removal) in [
            ("a_flag=on", false),
            ("a_flag=off", true),
            ("s_set=+x", false),
            ("m_map.s_set=-x", true),
        ] {
            assert_eq!(update(&[change]).expect("a change").is_removal, is_removal, "{change}");
        }
    }

    #[test]
    fn a_second_change_of_a_field_is_refused_unless_it_is_a_set() {
        for changes in [
            ["a_counter=+1", "a_counter=+2"],
            ["a_register=x", "a_register=y"],
            ["a_flag=on", "a_flag=off"],
            ["m_map.a_counter=+1", "m_map.a_counter=+1"],
        ] {
            let said = update(&changes).expect_err("twice").to_string();
            assert!(said.contains(changes[1]) && said.contains("is changed twice"), "{said}");
        }
        assert!(update(&["a_counter=+1", "m_map.a_counter=+1", "b_set=+x", "b_set=+y"]).is_ok());
    }

    #[test]
    fn a_change_that_cannot_be_read_is_named() {
        for (change, words) in [
            ("name_register", "not of the form FIELD=VALUE"),
            ("name=Ann", "does not tell its kind"),
            ("a_flag=maybe", "a flag is true or false"),
            ("n_counter=many", "a whole number"),
            ("tags_set=rust", "write tags_set=+rust"),
            ("a_map=x", "name a field of the map"),
            ("a_set.b_set=+x", "is not the name of a map"),
        ] {
            let said = update(&[change]).expect_err("no change").to_string();
            assert!(said.contains(words) && said.contains(change), "{said}");
        }
    }
}
