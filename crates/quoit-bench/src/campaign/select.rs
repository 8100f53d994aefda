//! Selection of the cells that a command line names.

use super::cell::CampaignCell;
use super::error::CampaignError;

/// The cells whose labels match one of the patterns, in their order. Without patterns, all cells.
pub(super) fn select<'a>(
    cells: &'a [CampaignCell],
    patterns: &[String],
) -> Result<Vec<&'a CampaignCell>, CampaignError> {
    let labels = || cells.iter().map(|cell| cell.label.as_str());
    for pattern in patterns {
        if !labels().any(|label| LabelPattern(pattern).matches(label)) {
            let known = labels().collect::<Vec<_>>().join(", ");
            return Err(CampaignError::NoCell { pattern: pattern.clone(), known });
        }
    }
    let is_wanted = |cell: &&CampaignCell| {
        patterns.is_empty()
            || patterns.iter().any(|pattern| LabelPattern(pattern).matches(&cell.label))
    };
    Ok(cells.iter().filter(is_wanted).collect())
}

/// A pattern of labels, in which `*` stands for any text. Without `*` it matches any part of a label.
struct LabelPattern<'a>(&'a str);

impl LabelPattern<'_> {
    fn matches(&self, label: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(first) = parts.next().filter(|_| self.0.contains('*')) else {
            return label.contains(self.0);
        };
        let Some(mut rest) = label.strip_prefix(first) else { return false };
        let mut parts: Vec<&str> = parts.collect();
        let last = parts.pop().unwrap_or_default();
        for part in parts {
            match rest.split_once(part) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::LabelPattern;

    #[test]
    fn a_star_stands_for_any_text_and_a_pattern_without_one_is_a_part() {
        for (pattern, label, expected) in [
            ("bitcask", "bitcask-uniform", true),
            ("uniform", "bitcask-uniform", true),
            ("bitcask*", "bitcask-uniform", true),
            ("*uniform", "bitcask-uniform", true),
            ("uniform*", "bitcask-uniform", false),
            ("*", "", true),
            ("b*k-*m", "bitcask-uniform", true),
            ("a*a", "a", false),
            ("leveled", "leveldb", false),
        ] {
            assert_eq!(LabelPattern(pattern).matches(label), expected, "{pattern} {label}");
        }
    }
}
