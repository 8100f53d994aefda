//! The setting `verify`.

use super::error::ConfigError;
use super::settings::Settings;
use crate::term::Term;
use crate::verify::{Semantics, VerifySettings};

/// Reads `verify`: `true`, `false`, one of the known words, or a list of them.
pub(super) fn read_verification(
    settings: &Settings,
) -> Result<Option<VerifySettings>, ConfigError> {
    let expected = "write true, or a list of siblings (the bucket keeps them), fresh (nothing is \
                    stored before) and weak_reads (reads may be behind)";
    settings.read("verify", None, expected, |term| match term.as_atom() {
        Some("false") => Some(None),
        Some("true") => Some(Some(VerifySettings::default())),
        Some(_) => of_words(std::slice::from_ref(term)).map(Some),
        None => of_words(&term.as_list()?).map(Some),
    })
}

fn of_words(words: &[Term]) -> Option<VerifySettings> {
    let mut verify = VerifySettings::default();
    for word in words {
        match word.as_atom()? {
            "siblings" => verify.semantics = Semantics::Siblings,
            "fresh" => verify.is_fresh = true,
            "weak_reads" => verify.may_read_behind = true,
            _ => return None,
        }
    }
    Some(verify)
}
