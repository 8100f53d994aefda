//! Regular expressions that terms of an index must match.

use bytes::Bytes;
use regex::bytes::{Regex, RegexBuilder};
use thiserror::Error;

/// Bytes that an expression may have.
pub const PATTERN_BYTES_MAX: usize = 4 * 1024;
/// Memory that a compiled expression may take, and once more for the states that it has come to.
const COMPILED_BYTES_MAX: usize = 1024 * 1024;
/// How deep the parts of an expression may be nested.
const NESTING_MAX: u32 = 64;

/// A regular expression of a query. It is found anywhere in a term unless it is anchored, and takes time
/// proportional to the term's length whatever it is: look-around and back-references, which would not, are
/// refused. Terms are bytes; a dot is any of them but a line feed.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: Bytes,
    regex: Regex,
}

/// Why a text is no expression that is served.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("not a regular expression that is served: {reason}")]
pub struct PatternError {
    /// Why, in words without line breaks.
    pub reason: String,
    /// The byte of the text where that was noticed; 0 where it is no matter of one place.
    pub at: usize,
}

impl Pattern {
    /// Reads an expression. Costs up to some milliseconds for the largest.
    ///
    /// # Errors
    ///
    /// Texts that are none, that need look-around or back-references, and that would take too much memory.
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

    /// The expression as it was given.
    #[must_use]
    pub const fn text(&self) -> &Bytes {
        &self.text
    }

    /// Whether the expression is found in a text.
    #[must_use]
    pub fn is_in(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }
}

/// The last line of a message that shows the expression with a mark in several lines.
fn last_words(message: &str) -> String {
    let line = message.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("unknown");
    line.trim().trim_start_matches("error: ").trim_end_matches('.').to_owned()
}

/// The place of the mark below an expression of one line, which is indented, in a message.
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
    fn what_is_no_expression_is_named_in_one_line() {
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

    /// The classic of engines that go back: it would take longer than the universe has existed.
    #[test]
    fn nothing_explodes() {
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
