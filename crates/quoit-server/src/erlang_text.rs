//! Error texts of the Protocol Buffers interface. They are Erlang terms in printed form, which clients
//! compare.

use crate::index_entries::IndexFault;
use crate::index_query::QueryFault;
use quoit_core::{DataTypeError, QuorumKind, RequestError, UnmetCondition};
use quoit_model::data_type::{ApplyError, UpdateError};
use quoit_model::props::{CommitHook, ModFun};
use quoit_model::riak_data_type::field_module;
use std::fmt::Write;

/// Prints a byte string as an Erlang binary: `<<"text">>` when printable, else `<<1,2,3>>`.
pub(crate) fn binary(bytes: &[u8]) -> String {
    let printable = |byte: &u8| matches!(byte, 0x20..=0x7e | 0xa0..=0xff | 8..=13 | 27);
    let mut text = String::from("<<");
    if !bytes.is_empty() && bytes.iter().all(printable) {
        text.push('"');
        // Riak prints the bytes unchanged, so UTF-8 stays as it is.
        match std::str::from_utf8(bytes) {
            Ok(shown) => shown.chars().for_each(|shown| append_shown(&mut text, shown)),
            Err(_) => bytes.iter().for_each(|byte| append_shown(&mut text, char::from(*byte))),
        }
        text.push('"');
    } else {
        for (index, byte) in bytes.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(text, "{comma}{byte}");
        }
    }
    text.push_str(">>");
    text
}

fn append_shown(text: &mut String, shown: char) {
    match shown {
        '"' => text.push_str("\\\""),
        '\\' => text.push_str("\\\\"),
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        '\u{8}' => text.push_str("\\b"),
        '\u{b}' => text.push_str("\\v"),
        '\u{c}' => text.push_str("\\f"),
        '\u{1b}' => text.push_str("\\e"),
        shown => text.push(shown),
    }
}

/// Prints a text as an Erlang string, in double quotes.
pub(crate) fn string(text: &str) -> String {
    binary(text.as_bytes()).trim_start_matches("<<").trim_end_matches(">>").to_owned()
}

/// Prints a text as an Erlang atom, quoted where the language needs that.
fn atom(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'@');
    match text.bytes().next() {
        Some(b'a'..=b'z') if text.bytes().all(is_plain) => text.to_owned(),
        _ => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")),
    }
}

/// The failure of a pre-commit hook, as a Riak node that lacks the hook's function prints it.
fn hook_failure(hook: &CommitHook) -> String {
    match hook {
        CommitHook::ModFun(ModFun { module, function }) => {
            format!("{{hook_crashed,{{{},{},error,undef}}}}", atom(module), atom(function))
        }
        CommitHook::JavaScript(name) => {
            let name = binary(name.as_bytes());
            format!("{{invalid_hook_def,{{struct,[{{<<\"name\">>,{name}}}]}}}}")
        }
    }
}

/// The text of a failed get, put or delete.
pub(crate) fn request_error(fault: &RequestError) -> String {
    match fault {
        RequestError::Key(fault) => fault.to_string(),
        RequestError::NoSuchType(_) => "no_type".into(),
        RequestError::Consistent(_) => fault.to_string(),
        RequestError::NVal(violation) => violation.to_string(),
        RequestError::Unsatisfied { kind, wanted, got } => {
            // Riak reports a missed W as a missed DW, and clients know that text.
            let name = match kind {
                QuorumKind::W => QuorumKind::Dw.name(),
                kind => kind.name(),
            };
            format!("{{{name}_val_unsatisfied,{wanted},{got}}}")
        }
        RequestError::InsufficientNodes { have, wanted } => {
            format!("{{insufficient_nodes,{have},need,{wanted}}}")
        }
        RequestError::InsufficientVnodes { have, wanted } => {
            format!("{{insufficient_vnodes,{have},need,{wanted}}}")
        }
        RequestError::InsufficientCoverage => "insufficient_vnodes_available".into(),
        RequestError::AllNodesDown => "all_nodes_down".into(),
        RequestError::Unmet(UnmetCondition::Exists) => "match_found".into(),
        RequestError::Unmet(UnmetCondition::Modified | UnmetCondition::Http) => "modified".into(),
        RequestError::Unmet(UnmetCondition::Missing) => "notfound".into(),
        RequestError::DataType(fault) => data_type_error(fault),
        RequestError::Precommit(text) => {
            format!("{{precommit_fail,{}}}", binary(text.as_bytes()))
        }
        RequestError::HookNotRun(hook) => format!("{{precommit_fail,{}}}", hook_failure(hook)),
        RequestError::Vetoed(text)
        | RequestError::RemoteDataType(text)
        | RequestError::RemoteContext(text)
        | RequestError::Remote(text) => text.clone(),
        RequestError::ObjectTooLarge { size_bytes } => format!("{{too_large,{size_bytes}}}"),
        RequestError::TooManySiblings(count) => format!("{{too_many_siblings,{count}}}"),
        RequestError::Timeout => "timeout".into(),
        RequestError::Overload => "overload".into(),
        RequestError::Context(fault) => fault.to_string(),
        RequestError::Store(fault) => fault.to_string(),
        RequestError::Damaged(_) => fault.to_string(),
    }
}

/// The text of a data type operation that failed.
fn data_type_error(fault: &DataTypeError) -> String {
    let missing = |what: String| format!("{{precondition,{{not_present,{what}}}}}");
    match fault {
        DataTypeError::Update(UpdateError::Apply(ApplyError::NoSuchElement { element })) => {
            missing(binary(element))
        }
        DataTypeError::Update(UpdateError::Apply(ApplyError::NoSuchField { field })) => {
            missing(format!("{{{},{}}}", binary(&field.name), field_module(field.kind)))
        }
        fault => fault.to_string(),
    }
}

/// The text of an invalid index entry, or of an invalid field or term of a query.
pub(crate) fn index_fault(fault: &IndexFault) -> String {
    match fault {
        IndexFault::UnknownFieldType(field) => {
            format!("{{unknown_field_type,{}}}", binary(field))
        }
        IndexFault::NotAnInteger { field, term } => {
            let (field, term) = (binary(field), binary(term));
            format!("{{field_parsing_failed,{{{field},{term}}}}}")
        }
    }
}

/// The text of an invalid index query.
pub(crate) fn query_fault(fault: &QueryFault) -> String {
    match fault {
        QueryFault::Entry(fault) => index_fault(fault),
        QueryFault::PatternOfIntegers => {
            "Can not use term regular expression in integer query".into()
        }
        QueryFault::Pattern { text, reason, at } => {
            let (pattern, reason) = (binary(text), string(reason));
            format!("Invalid term regular expression {pattern} : {{{reason},{at}}}")
        }
        QueryFault::Continuation(sent) => {
            format!("{{invalid_continuation,{}}}", binary(sent))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_model::data_type::{FieldKind, FieldName};

    #[test]
    fn binaries_print_as_erlang_prints_them() {
        assert_eq!(binary(b"sets"), "<<\"sets\">>");
        assert_eq!(binary(b"a\"b"), "<<\"a\\\"b\">>");
        assert_eq!(binary(&[0, 1, 255]), "<<0,1,255>>");
        assert_eq!(binary("é".as_bytes()), "<<\"é\">>");
        assert_eq!(binary(b""), "<<>>");
    }

    #[test]
    fn a_missed_w_is_reported_as_a_missed_dw() {
        let missed = RequestError::Unsatisfied { kind: QuorumKind::W, wanted: 2, got: 1 };
        assert_eq!(request_error(&missed), "{dw_val_unsatisfied,2,1}");
    }

    #[test]
    fn what_is_not_there_to_be_removed_is_named_as_in_riak() {
        let text = |fault: ApplyError| {
            request_error(&DataTypeError::from(UpdateError::from(fault)).into())
        };
        let element = text(ApplyError::NoSuchElement { element: "m".into() });
        assert_eq!(element, "{precondition,{not_present,<<\"m\">>}}");
        let field = FieldName::new("name", FieldKind::Set);
        let field = text(ApplyError::NoSuchField { field });
        assert_eq!(field, "{precondition,{not_present,{<<\"name\">>,riak_dt_orswot}}}");
    }
}
