//! Data type operations from JSON.

use super::json::Json;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use quoit_model::data_type::{
    FieldKind, FieldName, FieldOperation, FieldUpdate, MapOperation, Operation, SetChange,
};
use quoit_model::props::Datatype;
use thiserror::Error;

/// The body of a POST to a data type.
#[derive(Clone, PartialEq, Debug)]
pub struct JsonUpdate {
    /// The operation.
    pub operation: Operation,
    /// Causal context that the client has received with a read.
    pub context: Option<Bytes>,
}

/// Reasons why a body is not an operation. Clients know the texts, including the line feeds.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum JsonFault {
    /// The body is not UTF-8.
    #[error("Malformed JSON submitted, invalid UTF-8")]
    NotUtf8,
    /// The body is not JSON, or a required part of it has another type.
    #[error("Couldn't decode JSON: {0}\n")]
    Undecodable(String),
    /// JSON that is not an operation of its data type.
    #[error("Invalid operation on datatype '{datatype}': {operation}\n")]
    Operation {
        /// Name of the data type.
        datatype: &'static str,
        /// The operation as it was sent.
        operation: String,
    },
    /// The name of a field does not end in a type.
    #[error("Invalid map field name '{0}'\n")]
    FieldName(String),
}

/// Parses the body of a POST to a record of this data type.
///
/// # Errors
///
/// The first fault in the body, with the text for the client.
pub fn read_update(datatype: Datatype, body: &[u8]) -> Result<JsonUpdate, JsonFault> {
    let text = std::str::from_utf8(body).map_err(|_| JsonFault::NotUtf8)?;
    let parsed = Json::parse(text.as_bytes());
    let mut json = parsed.map_err(|fault| JsonFault::Undecodable(fault.to_string()))?;
    let context = take_context(&mut json)?;
    let operation = match datatype {
        Datatype::Counter => Operation::Counter(amount(&json)?),
        Datatype::Set => Operation::Set(set_changes(&json)?),
        Datatype::Gset => Operation::Gset(additions(&json, "gset")?),
        Datatype::Hll => Operation::Hll(additions(&json, "hll")?),
        Datatype::Map => Operation::Map(map(json)?),
    };
    Ok(JsonUpdate { operation, context })
}

/// Takes the member `context` out of an object. Of several, the first counts.
fn take_context(json: &mut Json) -> Result<Option<Bytes>, JsonFault> {
    let Json::Object(members) = json else { return Ok(None) };
    let contexts: Vec<_> = members.extract_if(.., |(name, _)| *name == "context").collect();
    let undecodable = || JsonFault::Undecodable("the context is not base64 text".into());
    match contexts.into_iter().next().map(|(_, context)| context) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Text(text)) => {
            let context = STANDARD.decode(text.trim()).map_err(|_| undecodable())?;
            Ok((!context.is_empty()).then(|| context.into()))
        }
        Some(_) => Err(undecodable()),
    }
}

fn invalid(datatype: &'static str, operation: &Json) -> JsonFault {
    JsonFault::Operation { datatype, operation: operation.to_string() }
}

/// Parses the amount that is added to a counter.
fn amount(json: &Json) -> Result<i64, JsonFault> {
    let amount = match json {
        Json::Integer(amount) => Some(*amount),
        Json::Text(word) if word == "increment" => Some(1),
        Json::Text(word) if word == "decrement" => Some(-1),
        Json::Object(members) => match members.as_slice() {
            [(name, Json::Integer(amount))] if name == "increment" => Some(*amount),
            [(name, Json::Integer(amount))] if name == "decrement" => amount.checked_neg(),
            _ => None,
        },
        _ => None,
    };
    amount.ok_or_else(|| invalid("counter", json))
}

/// Direction of a change: elements are added or removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChangeDirection {
    Add,
    Remove,
}

fn set_changes(json: &Json) -> Result<Vec<SetChange>, JsonFault> {
    let mut changes = Vec::new();
    let mut change = |direction, element| match direction {
        ChangeDirection::Add => changes.push(SetChange::Add(element)),
        ChangeDirection::Remove => changes.push(SetChange::Remove(element)),
    };
    match each_element(json, &mut change) {
        Some(()) => Ok(changes),
        None => Err(invalid("set", json)),
    }
}

/// Parses the elements to add to a data type that can only grow.
fn additions(json: &Json, datatype: &'static str) -> Result<Vec<Bytes>, JsonFault> {
    let mut elements = Vec::new();
    let mut removes = false;
    let change = &mut |direction, element| {
        removes |= direction == ChangeDirection::Remove;
        elements.push(element);
    };
    match each_element(json, change) {
        Some(()) if !removes => Ok(elements),
        _ => Err(invalid(datatype, json)),
    }
}

/// Calls `change` for all elements in order; `None` if something is malformed.
fn each_element(json: &Json, change: &mut dyn FnMut(ChangeDirection, Bytes)) -> Option<()> {
    let Json::Object(members) = json else { return None };
    for (name, value) in members {
        let direction = match name.as_str() {
            "add" | "add_all" => ChangeDirection::Add,
            "remove" | "remove_all" => ChangeDirection::Remove,
            "update" => {
                match value {
                    Json::List(updates) => {
                        updates.iter().try_for_each(|update| each_element(update, change))?;
                    }
                    update => each_element(update, change)?,
                }
                continue;
            }
            _ => return None,
        };
        match (value, name.ends_with("_all")) {
            (Json::Text(element), false) => {
                change(direction, Bytes::copy_from_slice(element.as_bytes()))
            }
            (Json::List(elements), true) => {
                for element in elements {
                    let Json::Text(element) = element else { return None };
                    change(direction, Bytes::copy_from_slice(element.as_bytes()));
                }
            }
            _ => return None,
        }
    }
    Some(())
}

fn map(json: Json) -> Result<MapOperation, JsonFault> {
    let mut operation = MapOperation::default();
    let members = match json {
        Json::Object(members)
            if members.iter().all(|(name, _)| name == "update" || name == "remove") =>
        {
            members
        }
        json => return Err(invalid("map", &json)),
    };
    for (name, value) in members {
        match (name.as_str(), value) {
            ("update", Json::Object(fields)) => {
                for (field, value) in fields {
                    operation.updates.push(field_update(&field, value)?);
                }
            }
            ("update", _) => {
                let fault = "the fields to update are not an object";
                return Err(JsonFault::Undecodable(fault.into()));
            }
            (_, Json::Text(field)) => operation.removes.push(field_name(&field)?),
            (_, value) => {
                let Json::List(fields) = &value else { return Err(invalid("map", &value)) };
                for field in fields {
                    let Json::Text(field) = field else { return Err(invalid("map", &value)) };
                    operation.removes.push(field_name(field)?);
                }
            }
        }
    }
    Ok(operation)
}

fn field_name(text: &str) -> Result<FieldName, JsonFault> {
    read_field_name(text).ok_or_else(|| JsonFault::FieldName(text.to_owned()))
}

/// Splits the name of a field and its type, which is the word after the last underscore. `None` if the word
/// is not a type of fields. Grow-only sets and HyperLogLogs can't be in maps.
#[must_use]
pub fn read_field_name(text: &str) -> Option<FieldName> {
    let (name, word) = text.rsplit_once('_')?;
    let kind = FieldKind::ALL.into_iter().find(|kind| kind.as_str() == word)?;
    Some(FieldName::new(Bytes::copy_from_slice(name.as_bytes()), kind))
}

fn field_update(field: &str, value: Json) -> Result<FieldUpdate, JsonFault> {
    let FieldName { name, kind } = field_name(field)?;
    let operation = match kind {
        FieldKind::Counter => FieldOperation::Counter(amount(&value)?),
        FieldKind::Set => FieldOperation::Set(set_changes(&value)?),
        FieldKind::Register => FieldOperation::Register(assigned(value)?),
        FieldKind::Flag => FieldOperation::Flag(match &value {
            Json::Text(word) if word == "enable" => true,
            Json::Text(word) if word == "disable" => false,
            _ => return Err(invalid("flag", &value)),
        }),
        FieldKind::Map => FieldOperation::Map(map(value)?),
    };
    Ok(FieldUpdate { name, operation })
}

/// Parses the value that a register is assigned.
fn assigned(json: Json) -> Result<Bytes, JsonFault> {
    match json {
        Json::Text(text) => Ok(text.into()),
        Json::Object(mut members) => match members.pop() {
            Some((name, Json::Text(text))) if name == "assign" && members.is_empty() => {
                Ok(text.into())
            }
            last => {
                members.extend(last);
                Err(invalid("register", &Json::Object(members)))
            }
        },
        json => Err(invalid("register", &json)),
    }
}

#[cfg(test)]
mod tests;
