//! Regular expressions that the terms of an index query must match.

use bytes::Bytes;
use regex::bytes::{Regex, RegexBuilder};
use thiserror::Error;

/// Maximum bytes of an expression.
pub const PATTERN_BYTES_MAX: usize = 4 * 1024;
/// Maximum memory of a compiled expression, in bytes, and as much again for the cache of states.
const COMPILED_BYTES_MAX: usize = 1024 * 1024;
/// Maximum depth to which parts of an expression may be nested.
const NESTING_MAX: u32 = 64;

/// A regular expression of a query. It matches anywhere in a term unless it is anchored. A match takes
/// time proportional to the term's length; look-around and back-references, which would break that, are
/// refused. Terms are bytes; a dot matches any byte except a line feed.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: Bytes,
    regex: Regex,
}

/// Reason why a text is refused as an expression.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("not a supported regular expression: {reason}")]
pub struct PatternError {
    /// Explanation in one line.
    pub reason: String,
    /// Byte of the text at which the error was found; 0 if it concerns the whole text.
    pub at: usize,
}

impl Pattern {
    /// Compiles an expression. Takes up to some milliseconds for the largest ones.
    ///
    /// # Errors
    ///
    /// Texts that are no regular expression, need look-around or back-references, or would take too
    /// much memory.
    pub fn new(text: &[u8]) -> Result<Self, PatternError> {
        let refused = |reason: String| PatternError { reason, at: 0 };
        if text.len() > PATTERN_BYTES_MAX {
            let reason = format!("it has {} bytes, more than {PATTERN_BYTES_MAX}", text.len());
            return Err(refused(reason));
        }
        let as_text =
            std::str::from_utf8(text).map_err(|_| refused("it is not UTF-8".to_owned()))?;
        let regex = RegexBuilder::new(as_text)
            .unicode(false)
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(COMPILED_BYTES_MAX)
            .nest_limit(NESTING_MAX)
            .build()
            .map_err(|fault| {
                let message = fault.to_string();
                PatternError { reason: last_words(&message), at: marked(&message, text.len()) }
            })?;
        Ok(Self { text: Bytes::copy_from_slice(text), regex })
    }

    /// Text of the expression, as it was given.
    #[must_use]
    pub const fn text(&self) -> &Bytes {
        &self.text
    }

    /// True if the expression matches somewhere in `text`.
    #[must_use]
    pub fn is_in(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }
}

/// Last line of an error message that shows the expression with a mark in several lines.
fn last_words(message: &str) -> String {
    let line = message.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("unknown");
    line.trim().trim_start_matches("error: ").trim_end_matches('.').to_owned()
}

/// Position of the mark below the (indented, one-line) expression in an error message.
fn marked(message: &str, text_bytes: usize) -> usize {
    const INDENTATION: usize = 4;
    let is_mark = |line: &&str| line.contains('^') && line.trim_matches([' ', '^']).is_empty();
    let mark = message.lines().skip(2).find(is_mark).and_then(|line| line.find('^'));
    mark.map_or(0, |at| at.saturating_sub(INDENTATION).min(text_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_in(pattern: &str, text: &[u8]) -> bool {
        Pattern::new(pattern.as_bytes()).expect("an expression").is_in(text)
    }

    #[test]
    fn expressions_are_found_anywhere_unless_anchored() {
        assert!(is_in("lu", b"blue") && !is_in("^lu", b"blue") && is_in("e$", b"blue"));
        assert!(is_in("^.b$", b"\xffb"), "a dot is any byte");
        assert!(is_in("(?i)BLUE", b"blue") && !is_in("BLUE", b"blue"));
        assert!(is_in("", b""));
    }

    #[test]
    fn an_invalid_expression_has_a_one_line_reason() {
        let reason = |text: &[u8]| Pattern::new(text).expect_err("no expression").reason;
        assert_eq!(reason(b"["), "unclosed character class");
        assert!(reason(b"(?=a)b").contains("look-around"));
        assert!(reason(br"(a)\1").contains("backreferences"));
        assert!(reason(b"(?:a{1000}){1000}").contains("size limit"));
        assert_eq!(reason(b"\xff"), "it is not UTF-8");
        assert!(reason(&[b'a'; PATTERN_BYTES_MAX + 1]).contains("4097"));
        assert!(!reason("(".repeat(1000).as_bytes()).contains('\n'));
    }

    #[test]
    fn the_place_of_what_is_wrong_is_told() {
        let at = |text: &str| Pattern::new(text.as_bytes()).expect_err("no expression").at;
        assert_eq!([at("["), at("ab["), at("a(?=b)"), at("a{2,1}")], [0, 2, 1, 1]);
        assert_eq!(at("^ab)"), 3);
        assert_eq!(at("(?:a{1000}){1000}"), 0, "it is too large as a whole");
    }

    /// Classic expressions whose time is exponential in engines that backtrack.
    #[test]
    fn matching_takes_linear_time() {
        let text = vec![b'a'; 64 * 1024];
        assert!(!is_in("^(a+)+$", &[&text[..], b"!"].concat()));
        assert!(!is_in("^(a|aa)+$", &[&text[..], b"!"].concat()));
    }

    proptest! {
        #[test]
        fn any_text_is_an_expression_or_an_error(text: Vec<u8>, term: Vec<u8>) {
            if let Ok(pattern) = Pattern::new(&text) {
                let _ = pattern.is_in(&term);
            }
        }
    }
}
