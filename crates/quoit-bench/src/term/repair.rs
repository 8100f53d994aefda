//! Repair of configurations that were copied from a mail or a web page, for two kinds of damage.

use super::parser::{LocatedTerm, parse_terms, text_of};
use super::syntax_error::SyntaxError;
use super::{Position, Term};

/// The value that replaces `[ ... ]`, which pages write to leave something out.
const LEFT_OUT: &str = "...";

/// The terms of a file, with remarks on the repairs.
#[derive(Debug, Clone)]
pub(crate) struct RepairedTerms {
    pub(crate) terms: Vec<LocatedTerm>,
    pub(crate) remarks: Vec<&'static str>,
}

/// True for a value that the file leaves out.
pub(crate) fn is_left_out(value: &Term) -> bool {
    value.as_atom() == Some(LEFT_OUT)
}

/// Reads every term of a file as [`parse_bytes`](super::parse_bytes) does. If that fails, it is tried again
/// with `_` for `\_`, which mail programs write, and with a value that is [left out](is_left_out) for `[
/// ... ]`.
///
/// # Errors
///
/// The first syntax error of the unrepaired file, with its position.
pub(crate) fn parse_with_repair(text: &str) -> Result<RepairedTerms, SyntaxError> {
    let error = match parse_terms(text) {
        Ok(terms) => return Ok(RepairedTerms { terms, remarks: Vec::new() }),
        Err(error) => error,
    };
    let mut remarks = Vec::new();
    if text.contains("\\_") {
        remarks.push("`\\_`, which mail programs write, is read as `_`");
    }
    let mended = without_ellipses(&text.replace("\\_", "_"));
    match parse_terms(&mended) {
        Ok(terms) => Ok(RepairedTerms { terms, remarks }),
        Err(_) => Err(error),
    }
}

/// As [`parse_with_repair`], from the bytes of a file.
///
/// # Errors
///
/// As [`parse_with_repair`].
pub(crate) fn parse_bytes_with_repair(bytes: &[u8]) -> Result<RepairedTerms, SyntaxError> {
    parse_with_repair(&text_of(bytes))
}

/// The remark on a key whose value is left out.
pub(crate) fn left_out_remark(key: &str, position: Position) -> String {
    format!(
        "line {}: the value of `{key}` is left out (`[ ... ]`): its default is used",
        position.line
    )
}

/// The text with the atom `'...'` in place of each list that contains only an ellipsis: three dots, or
/// their one character.
fn without_ellipses(text: &str) -> String {
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, list)) = rest.split_once('[') {
        mended.push_str(before);
        let inner = list.trim_start();
        let after = inner.strip_prefix(LEFT_OUT).or_else(|| inner.strip_prefix('…'));
        rest = match after.and_then(|after| after.trim_start().strip_prefix(']')) {
            Some(after) => {
                mended.push_str("'...'");
                after
            }
            None => {
                mended.push('[');
                list
            }
        };
    }
    mended + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mail_programs_and_pages_do_is_mended() {
        let mended =
            parse_with_repair("{key\\_generator, {uniform\\_int, 5}}.\n{http_raw_ips, [ ... ]}.")
                .expect("two terms");
        let plain = parse_terms("{key_generator, {uniform_int, 5}}.").expect("a term");
        assert_eq!(mended.terms[0].term, plain[0].term);
        assert!(mended.terms[1].term.as_tuple().is_some_and(|pair| is_left_out(&pair[1])));
        assert_eq!(mended.remarks.len(), 1);
    }

    #[test]
    fn dots_may_be_one_character() {
        let mended =
            parse_with_repair("{pb_ips, [ \u{2026} ]}. {http_ips, [...]}.").expect("two terms");
        let is_left =
            |at: usize| mended.terms[at].term.as_tuple().is_some_and(|pair| is_left_out(&pair[1]));
        assert!(is_left(0) && is_left(1), "{mended:?}");
    }

    #[test]
    fn a_file_without_fault_is_read_as_it_stands() {
        let text = "{a, \"[ ... ] and \\\\_\"}.";
        let read = parse_with_repair(text).expect("a term");
        assert_eq!(read.terms[0].term, parse_terms(text).expect("a term")[0].term);
        assert_eq!(read.remarks, [""; 0]);
    }

    #[test]
    fn other_faults_are_told_of_the_file_as_it_stands() {
        let error = parse_with_repair("{a\\_b, [ ... ], }.").expect_err("a comma too many");
        assert_eq!((error.position.line, error.position.column), (1, 3));
    }
}
