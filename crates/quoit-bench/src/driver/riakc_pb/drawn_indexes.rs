//! Indexes of the configuration (`secondary_indexes`). A written object gets one drawn term for each index,
//! and `{get_index, Name, TermCount}` queries a range of one index.

use bytes::Bytes;
use quoit_client::wire::messages::RpbPair;

use super::PbOperation;
use crate::config::{ConfigError, Settings};
use crate::random::Random;
use crate::term::Term;

/// The key of the configuration.
const KEY: &str = "secondary_indexes";

/// The expected form of the key, for error messages.
const EXPECTED: &str = "write a list of {\"name\", integer_index, First, Last} or {\"name\", binary_index, \
                        First, Last} with integers First < Last, 0 or more for a binary_index";

/// The indexes of a run.
#[derive(Debug, Default)]
pub(super) struct DrawnIndexes(Vec<DrawnIndex>);

/// An index whose terms are numbers of a range.
#[derive(Debug)]
struct DrawnIndex {
    /// Name in the configuration, in lower case.
    name: String,
    /// The name with the suffix of the index's type.
    field: Bytes,
    first: i64,
    /// Number of terms in the range.
    count: u64,
    /// Number of digits of a term, padded with zeros; `None` for an integer index, whose terms are not
    /// padded.
    digits: Option<usize>,
}

/// A query of a range of terms.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DrawnQuery {
    pub(super) field: Bytes,
    pub(super) first: Bytes,
    pub(super) last: Bytes,
}

impl DrawnIndexes {
    /// Reads the indexes.
    ///
    /// # Errors
    ///
    /// When an element is not an index.
    pub(super) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        settings.read(KEY, Vec::new(), EXPECTED, indexes_of).map(Self)
    }

    /// True if there are no indexes.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The operation `{get_index, Name, TermCount}`, if it names one of these indexes.
    pub(super) fn operation(&self, term: &Term) -> Option<PbOperation> {
        let [operation, name, term_count] = term.as_tuple()? else { return None };
        if operation.as_atom() != Some("get_index") {
            return None;
        }
        let name = name_of(name)?;
        let index = self.0.iter().position(|index| index.name == name)?;
        let term_count = u64::try_from(term_count.as_integer()?).ok().filter(|count| *count > 0)?;
        Some(PbOperation::QueryDrawn { index, term_count })
    }

    /// One drawn entry for each index.
    pub(super) fn draw(&self, random: &mut Random) -> Vec<RpbPair> {
        let entry = |index: &DrawnIndex| RpbPair {
            key: index.field.clone(),
            value: Some(index.term(index.draw(random).into())),
        };
        self.0.iter().map(entry).collect()
    }

    /// A query of `term_count` consecutive terms, beginning with a drawn one.
    #[expect(clippy::indexing_slicing, reason = "operations have numbers of these indexes")]
    pub(super) fn query(&self, index: usize, term_count: u64, random: &mut Random) -> DrawnQuery {
        let index = &self.0[index];
        let first = i128::from(index.draw(random));
        DrawnQuery {
            field: index.field.clone(),
            first: index.term(first),
            last: index.term(first + i128::from(term_count) - 1),
        }
    }
}

impl DrawnIndex {
    fn draw(&self, random: &mut Random) -> i64 {
        self.first.wrapping_add_unsigned(random.uniform(self.count) - 1)
    }

    fn term(&self, number: i128) -> Bytes {
        match self.digits {
            Some(digits) => format!("{number:0digits$}").into(),
            None => number.to_string().into(),
        }
    }
}

fn indexes_of(term: &Term) -> Option<Vec<DrawnIndex>> {
    term.as_list()?.iter().map(index_of).collect()
}

fn index_of(term: &Term) -> Option<DrawnIndex> {
    let [name, kind, first, last] = term.as_tuple()? else { return None };
    let name = name_of(name).filter(|name| !name.is_empty())?;
    let number = |term: &Term| i64::try_from(term.as_integer()?).ok();
    let (first, last) = (number(first)?, number(last)?);
    let count = last.abs_diff(first).checked_add(1).filter(|_| first < last)?;
    let (suffix, digits) = match kind.as_atom()? {
        "integer_index" => ("int", None),
        "binary_index" if first >= 0 => ("bin", Some(last.to_string().len())),
        _ => return None,
    };
    let field = format!("{name}_{suffix}").into();
    Some(DrawnIndex { name, field, first, count, digits })
}

/// The name of an index, in lower case, because its case does not matter.
fn name_of(term: &Term) -> Option<String> {
    let name = term.as_atom().map(str::to_owned).or_else(|| term.as_text())?;
    Some(name.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{RandomKind, Seed};

    fn read(text: &str) -> Result<DrawnIndexes, ConfigError> {
        let mut settings = Settings::default();
        settings.add("a.config".as_ref(), text.as_bytes()).expect("terms");
        DrawnIndexes::read(&settings)
    }

    const TWO: &str = "{secondary_indexes, [{\"Age\", integer_index, -5, 5}, \
                       {\"day\", binary_index, 1, 100}]}.";

    #[test]
    fn an_object_has_a_term_of_the_range_of_each_index() {
        let indexes = read(TWO).expect("indexes");
        let mut random = Random::new(RandomKind::default(), Seed::default(), 1);
        let mut ages = std::collections::BTreeSet::new();
        for _ in 0..300 {
            let [age, day] = indexes.draw(&mut random).try_into().expect("two entries");
            assert_eq!((&age.key[..], &day.key[..]), (&b"age_int"[..], &b"day_bin"[..]));
            let text = |term: Option<Bytes>| String::from_utf8(term.expect("a term").to_vec());
            ages.insert(text(age.value).expect("text").parse::<i64>().expect("a number"));
            let day = text(day.value).expect("text");
            assert_eq!(day.len(), 3, "{day}");
            assert!((1..=100).contains(&day.parse().expect("a number")), "{day}");
        }
        assert_eq!(ages, (-5..=5).collect());
    }

    #[test]
    fn a_query_has_as_many_terms_as_it_is_told() {
        let indexes = read(TWO).expect("indexes");
        let term = |text: &str| crate::term::parse_terms(text).expect("a term").remove(0).term;
        let Some(PbOperation::QueryDrawn { index, term_count }) =
            indexes.operation(&term("{get_index, \"DAY\", 5}."))
        else {
            panic!("an operation")
        };
        let mut random = Random::new(RandomKind::default(), Seed::default(), 1);
        let query = indexes.query(index, term_count, &mut random);
        let number = |bytes: &Bytes| {
            std::str::from_utf8(bytes).expect("text").parse::<u64>().expect("a number")
        };
        assert_eq!(number(&query.last) - number(&query.first), 4);
        assert_eq!((&query.field[..], query.first.len()), (&b"day_bin"[..], 3));
        for other in ["{get_index, \"week\", 5}.", "{get_index, \"day\", 0}.", "{get, \"day\", 1}."]
        {
            assert_eq!(indexes.operation(&term(other)), None, "{other}");
        }
    }

    #[test]
    fn an_index_without_a_range_is_told() {
        for wrong in ["{\"a\", integer_index, 5, 5}", "{\"a\", text_index, 1, 2}", "{\"a\", 1, 2}"]
        {
            let text = format!("{{secondary_indexes, [{wrong}]}}.");
            let told = read(&text).expect_err(wrong).to_string();
            assert!(told.contains("a.config:1:") && told.contains("binary_index"), "{told}");
        }
    }
}
