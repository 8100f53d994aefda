//! Names of types: no two types of a crate have the same name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Problem;
use super::source_tree::{Source, is_test_configuration};

/// Checks the library and program sources of each crate. The names in tests are free.
pub(super) fn check(root: &Path, tree: &BTreeMap<PathBuf, Source>, problems: &mut Vec<Problem>) {
    let crates = root.join("crates");
    let mut by_crate: BTreeMap<&str, Vec<(&Path, &Source)>> = BTreeMap::new();
    for (path, source) in tree {
        let Ok(below) = path.strip_prefix(&crates) else { continue };
        let mut parts = below.iter().filter_map(|part| part.to_str());
        if let (Some(name), Some("src")) = (parts.next(), parts.next()) {
            by_crate.entry(name).or_default().push((path, source));
        }
    }
    for sources in by_crate.into_values() {
        check_crate(sources.into_iter(), problems);
    }
}

/// Reports each type whose name another type of these sources has already.
fn check_crate<'s>(
    sources: impl Iterator<Item = (&'s Path, &'s Source)>,
    problems: &mut Vec<Problem>,
) {
    let mut first: BTreeMap<String, (&Path, usize)> = BTreeMap::new();
    for (path, source) in sources.filter(|(_, source)| !source.test_only) {
        for (name, line) in types_of(&source.syntax.items) {
            match first.get(&name) {
                Some((other, at)) => {
                    let text = format!(
                        "the crate has another type {name} ({}:{at}); say in the name what each is",
                        other.file_name().unwrap_or_default().to_string_lossy()
                    );
                    problems.push(Problem::new(path, line, text));
                }
                None => {
                    first.insert(name, (path, line));
                }
            }
        }
    }
}

/// The types in a list of items and in their modules, with their lines.
fn types_of(items: &[syn::Item]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for item in items {
        let (name, attributes) = match item {
            syn::Item::Struct(item) => (&item.ident, &item.attrs),
            syn::Item::Enum(item) => (&item.ident, &item.attrs),
            syn::Item::Trait(item) => (&item.ident, &item.attrs),
            syn::Item::Type(item) => (&item.ident, &item.attrs),
            syn::Item::Union(item) => (&item.ident, &item.attrs),
            syn::Item::Mod(item) if !item.attrs.iter().any(is_test_configuration) => {
                if let Some((_, inner)) = &item.content {
                    found.extend(types_of(inner));
                }
                continue;
            }
            _ => continue,
        };
        if !attributes.iter().any(is_test_configuration) {
            found.push((name.to_string(), name.span().start().line));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(texts: &[&str]) -> usize {
        let sources: Vec<(PathBuf, Source)> = texts
            .iter()
            .enumerate()
            .map(|(number, text)| {
                let syntax = syn::parse_file(text).unwrap();
                let source = Source { text: (*text).to_owned(), syntax, test_only: false };
                (PathBuf::from(format!("{number}.rs")), source)
            })
            .collect();
        let mut problems = Vec::new();
        let sources = sources.iter().map(|(path, source)| (path.as_path(), source));
        check_crate(sources, &mut problems);
        problems.len()
    }

    #[test]
    fn a_name_that_two_types_share_is_reported() {
        assert_eq!(problems_of(&["struct Plan;", "enum Plan {}"]), 1);
        assert_eq!(problems_of(&["struct Plan; mod inner { trait Plan {} }"]), 1);
        assert_eq!(problems_of(&["struct ReadPlan;", "struct WritePlan; fn plan() {}"]), 0);
    }

    #[test]
    fn types_of_tests_may_share_names() {
        assert_eq!(problems_of(&["struct Plan;", "#[cfg(test)] mod tests { struct Plan; }"]), 0);
    }
}
