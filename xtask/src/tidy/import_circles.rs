//! Circular imports between the parts of a crate.
//!
//! A part is a module that the root of a crate declares. Parts that import each other in a circle can only
//! be read and tested together, so tidy forbids such circles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

use super::Problem;
use super::source_tree::{Source, is_test_configuration};

/// For each part the parts that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Checks the library of each crate.
pub(super) fn check(root: &Path, tree: &BTreeMap<PathBuf, Source>, problems: &mut Vec<Problem>) {
    let crates = root.join("crates");
    let mut by_crate: BTreeMap<String, Vec<(Vec<String>, &Source)>> = BTreeMap::new();
    for (path, source) in tree.iter().filter(|(_, source)| !source.test_only) {
        let Ok(below) = path.strip_prefix(&crates) else { continue };
        if let Some((name, module)) = module_of(below) {
            by_crate.entry(name).or_default().push((module, source));
        }
    }
    for (name, sources) in by_crate {
        let path = crates.join(&name).join("src/lib.rs");
        for text in faults(&imports_of(&sources)) {
            problems.push(Problem::new(&path, 0, text));
        }
    }
}

/// Crate and module of a file: `quoit-core/src/delivery/hand.rs` is the module `delivery::hand` of
/// `quoit-core`. `None` for files outside a library.
fn module_of(below: &Path) -> Option<(String, Vec<String>)> {
    let mut names = below.with_extension("");
    if names.ends_with("mod") {
        names.pop();
    }
    let mut names = names.iter().map(|name| name.to_string_lossy().into_owned());
    let name = names.next()?;
    if names.next()? != "src" {
        return None;
    }
    let module: Vec<String> = names.collect();
    match module.first().map(String::as_str) {
        Some("main" | "bin") => None,
        Some("lib") => Some((name, Vec::new())),
        _ => Some((name, module)),
    }
}

/// Violations of the rule among the parts of one crate.
fn faults(imports: &Imports) -> Vec<String> {
    let mut texts = Vec::new();
    let circular: BTreeSet<&str> = imports
        .keys()
        .map(String::as_str)
        .filter(|part| reachable(imports, part).contains(part))
        .collect();
    for part in circular {
        let back = reachable(imports, part);
        let back: Vec<&str> =
            back.into_iter().filter(|other| reachable(imports, other).contains(part)).collect();
        texts.push(format!("module {part} is in a circle of imports with {}", back.join(", ")));
    }
    texts
}

/// All parts that a part imports, directly or indirectly.
fn reachable<'i>(imports: &'i Imports, part: &str) -> BTreeSet<&'i str> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> = imports.get(part).into_iter().flatten().map(String::as_str).collect();
    while let Some(part) = next.pop() {
        if found.insert(part) {
            next.extend(imports.get(part).into_iter().flatten().map(String::as_str));
        }
    }
    found
}

/// The imports between the parts in these sources, which come with their modules.
fn imports_of(sources: &[(Vec<String>, &Source)]) -> Imports {
    let parts: BTreeSet<String> =
        sources.iter().filter_map(|(module, _)| module.first().cloned()).collect();
    let mut exported = BTreeMap::new();
    for (_, source) in sources.iter().filter(|(module, _)| module.is_empty()) {
        let mut paths = Paths::default();
        paths.visit_file(&source.syntax);
        for path in paths.found.iter().filter(|path| parts.contains(&path[0])) {
            exported.insert(path[path.len() - 1].clone(), path[0].clone());
        }
    }
    let mut imports: Imports = parts.iter().map(|part| (part.clone(), BTreeSet::new())).collect();
    for (module, source) in sources {
        let Some(own) = module.first() else { continue };
        let mut paths = Paths::default();
        paths.visit_file(&source.syntax);
        for path in &paths.found {
            let Some(first) = first_below_root(module, path) else { continue };
            let part = exported.get(first).map_or(first, String::as_str);
            if parts.contains(part) && part != own {
                imports.entry(own.clone()).or_default().insert(part.to_owned());
            }
        }
    }
    imports
}

/// The top-level name of the crate to which a path in a module leads. `None` for paths that stay within the
/// module or lead to another crate.
fn first_below_root<'p>(module: &[String], path: &'p [String]) -> Option<&'p str> {
    let ups = path.iter().take_while(|name| *name == "super").count();
    match path.first()?.as_str() {
        "crate" => path.get(1).map(String::as_str),
        "super" if ups >= module.len() => path.get(ups).map(String::as_str),
        _ => None,
    }
}

/// Collects the paths of imports and expressions, except those of tests.
#[derive(Default)]
struct Paths {
    found: Vec<Vec<String>>,
}

impl Paths {
    fn add_tree(&mut self, tree: &syn::UseTree, before: &[String]) {
        let mut path = before.to_vec();
        match tree {
            syn::UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.add_tree(&part.tree, &path);
            }
            syn::UseTree::Name(name) => {
                path.push(name.ident.to_string());
                self.found.push(path);
            }
            syn::UseTree::Rename(name) => {
                path.push(name.ident.to_string());
                self.found.push(path);
            }
            syn::UseTree::Glob(_) => self.found.push(path),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_tree(tree, before));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !item.attrs.iter().any(is_test_configuration) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !item.attrs.iter().any(is_test_configuration) {
            self.add_tree(&item.tree, &[]);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.found.push(path.segments.iter().map(|part| part.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(files: &[(&str, &str)]) -> Imports {
        let sources: Vec<(Vec<String>, Source)> = files
            .iter()
            .map(|(path, text)| {
                let syntax = syn::parse_file(text).unwrap();
                let (_, module) = module_of(&Path::new("a/src").join(path)).unwrap();
                (module, Source { text: (*text).to_owned(), syntax, test_only: false })
            })
            .collect();
        let sources: Vec<(Vec<String>, &Source)> =
            sources.iter().map(|(module, source)| (module.clone(), source)).collect();
        imports_of(&sources)
    }

    #[test]
    fn a_circle_is_reported_for_each_part_of_it() {
        let found = imports(&[
            ("lib.rs", "mod store; mod reaper; mod clock; pub use store::Store;"),
            ("store.rs", "use crate::reaper::Reaper;"),
            ("reaper/mod.rs", "mod scan;"),
            ("reaper/scan.rs", "use crate::Store; fn now() { super::super::clock::now() }"),
            ("clock.rs", ""),
        ]);
        let texts = faults(&found);
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[0].contains("module reaper is in a circle of imports with reaper, store"));
        assert!(found["reaper"].contains("clock"));
    }

    #[test]
    fn imports_of_tests_do_not_count() {
        let found = imports(&[("one.rs", "use crate::two;"), ("two.rs", TESTS)]);
        assert_eq!(faults(&found), [""; 0]);
    }

    const TESTS: &str = "#[cfg(test)] mod tests { use crate::one::First; }";
}
