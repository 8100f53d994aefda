//! Names of types: no two types of a crate share one, in the crates that have reached that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Problem;
use super::source_tree::{Source, is_test_configuration};

/// Crates in which each type has a name of its own. A crate joins the list when it has none twice.
const CRATES: [&str; 6] =
    ["quoit-bench", "quoit-client", "quoit-heap", "quoit-perf", "quoit-planted", "quoit-sim"];

/// Checks the library and program sources of the crates of the list; tests may name their helpers as they
/// like.
pub(super) fn check(root: &Path, tree: &BTreeMap<PathBuf, Source>, problems: &mut Vec<Problem>) {
    for name in CRATES {
        let folder = root.join("crates").join(name).join("src");
        let sources = tree.iter().filter(|(path, _)| path.starts_with(&folder));
        check_crate(sources.map(|(path, source)| (path.as_path(), source)), problems);
    }
}

/// Reports each type whose name an earlier one of these sources has.
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

/// The types of a list of items and of the modules in it, with their lines.
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
        check_crate(sources.iter().map(|(path, source)| (path.as_path(), source)), &mut problems);
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
