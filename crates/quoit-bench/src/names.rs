//! Suggesting the known name that a misspelt one is nearest to.

/// The known name closest to `name`, if at most a third of the letters (and at least one) differ.
pub(crate) fn nearest(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let distance_of = |candidate: &str| strsim::damerau_levenshtein(name, candidate);
    let (distance, best) =
        known.iter().map(|candidate| (distance_of(candidate), *candidate)).min()?;
    (distance <= (name.chars().count() / 3).max(1)).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_name_is_near() {
        let known = ["duration", "concurrent", "mode"];
        assert_eq!(nearest("durations", &known), Some("duration"));
        assert_eq!(nearest("concurent", &known), Some("concurrent"));
        assert_eq!(nearest("something_else", &known), None);
        assert_eq!(nearest("", &known), None);
        assert_eq!(nearest("x", &[]), None);
    }
}
