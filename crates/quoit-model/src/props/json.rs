//! Sets of properties as JSON, for clients, operators and storage.

use super::{BucketProps, Compression, ConditionalPutMode, Reason};
use serde_json::{Map, Value};
use thiserror::Error;

impl BucketProps {
    /// Reads the JSON form of the properties of a bucket type, or of a bucket of one.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first property whose value is not valid.
    pub fn typed_from_json(object: &Map<String, Value>) -> Result<Self, StoredPropsError> {
        Self::new_type().with_stored(object)
    }

    /// Reads the JSON form of the properties of an untyped bucket.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first property whose value is not valid.
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
            // Versions that did not know these properties accepted any value, so other values may
            // be stored.
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

/// Error of reading a stored set of properties.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("stored property {property}: {reason}")]
pub struct StoredPropsError {
    /// Name of the property.
    pub property: String,
    /// Reason why its value is not valid.
    pub reason: Reason,
}

/// Properties as `bucket-type status` lists them: sorted, one `name: value` on a line, functions as
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
