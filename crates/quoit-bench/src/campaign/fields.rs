//! The fields of a value that is a list of pairs. Each field is read once.

use crate::config::ValueForm;
use crate::names::nearest;
use crate::term::Term;
use std::ops::RangeInclusive;

/// The pairs that are not read yet. A pair that is left at the end has an unknown name.
pub(super) struct FieldReader<'a> {
    of: &'a str,
    pairs: Vec<(String, Term)>,
    known: Vec<&'static str>,
}

impl<'a> FieldReader<'a> {
    /// Takes a list of pairs. `of` names it in errors.
    pub(super) fn of(term: &Term, of: &'a str) -> Result<Self, String> {
        let pairs = pairs(term).ok_or_else(|| {
            format!("{of} is {term}: write a list of pairs [{{Name, Value}}, ...]")
        })?;
        Ok(Self { of, pairs, known: Vec::new() })
    }

    /// Reads a field, if it is there.
    pub(super) fn optional<T>(
        &mut self,
        form: ValueForm,
        read: impl Fn(&Term) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let ValueForm { name, expected } = form;
        self.known.push(name);
        let Some(index) = self.pairs.iter().position(|(key, _)| key == name) else {
            return Ok(None);
        };
        let (_, term) = self.pairs.remove(index);
        let fault = || format!("{}: {name} is {term}: write {expected}", self.of);
        read(&term).map(Some).ok_or_else(fault)
    }

    /// Reads a required field.
    pub(super) fn required<T>(
        &mut self,
        form: ValueForm,
        read: impl Fn(&Term) -> Option<T>,
    ) -> Result<T, String> {
        let ValueForm { name, expected } = form;
        let missing = format!("{} has no {name}: write {{{name}, ...}} with {expected}", self.of);
        self.optional(form, read)?.ok_or(missing)
    }

    /// Rejects fields that were not read.
    pub(super) fn finish(self) -> Result<(), String> {
        match self.pairs.first() {
            None => Ok(()),
            Some((name, _)) => {
                let known = self.known.join(", ");
                let hint = nearest(name, &self.known)
                    .map_or_else(String::new, |near| format!("; did you mean {near}?"));
                Err(format!("{} has no field {name}: it has {known}{hint}", self.of))
            }
        }
    }
}

/// The pairs of a list. Their names must be atoms.
pub(super) fn pairs(term: &Term) -> Option<Vec<(String, Term)>> {
    let pair = |term: &Term| match term.as_tuple()? {
        [Term::Atom(name), value] => Some((name.clone(), value.clone())),
        _ => None,
    };
    term.as_list()?.iter().map(pair).collect()
}

/// Reads an integer within a range.
pub(super) fn unsigned<T: TryFrom<i128> + PartialOrd>(
    term: &Term,
    range: RangeInclusive<T>,
) -> Option<T> {
    T::try_from(term.as_integer()?).ok().filter(|number| range.contains(number))
}
