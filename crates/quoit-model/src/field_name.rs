//! Names and kinds of the fields of maps.

use bytes::Bytes;
use std::fmt;

/// Maximum depth of nested maps, the outermost included.
///
/// Bounds the recursion of every function that walks through a map. The parsers of both protocols
/// have limits somewhat deeper.
pub const MAP_DEPTH_MAX: usize = 32;

/// Kind of a map's field. A map can't contain grow-only sets and HyperLogLogs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FieldKind {
    /// A number that is incremented and decremented.
    Counter,
    /// A set of byte strings.
    Set,
    /// A byte string; the assignment with the latest time wins.
    Register,
    /// A boolean; enabling wins over a concurrent disabling.
    Flag,
    /// A map of fields.
    Map,
}

impl FieldKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Counter, Self::Set, Self::Register, Self::Flag, Self::Map];

    /// Suffix of the field's name in JSON (`visits_counter`).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Set => "set",
            Self::Register => "register",
            Self::Flag => "flag",
            Self::Map => "map",
        }
    }
}

/// Name of a field. Fields with one name and different kinds are different fields.
///
/// Ordered by name, then by kind.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FieldName {
    /// The name that the client gave, without the kind.
    pub name: Bytes,
    /// Kind of the field's content.
    pub kind: FieldKind,
}

impl FieldName {
    /// Makes the name of a field.
    #[must_use]
    pub fn new(name: impl Into<Bytes>, kind: FieldKind) -> Self {
        Self { name: name.into(), kind }
    }
}

impl fmt::Display for FieldName {
    /// Writes the name as JSON does; bytes that are not printable ASCII are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.name.escape_ascii(), self.kind.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_shown_as_json_names_them() {
        let field = FieldName::new("page visits", FieldKind::Counter);
        assert_eq!(field.to_string(), "page visits_counter");
        assert_eq!(FieldName::new(&b"\xff"[..], FieldKind::Flag).to_string(), "\\xff_flag");
    }

    #[test]
    fn fields_sort_by_name_before_kind() {
        let mut fields = [
            FieldName::new("b", FieldKind::Counter),
            FieldName::new("a", FieldKind::Map),
            FieldName::new("a", FieldKind::Set),
        ];
        fields.sort();
        assert_eq!(fields.map(|field| field.to_string()), ["a_set", "a_map", "b_counter"]);
    }
}
