//! Finds every source file that cargo compiles, by following the `mod` declarations.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned;

use super::Problem;
use crate::workspace::Package;

/// A source file that belongs to a crate.
pub(super) struct Source {
    pub(super) text: String,
    pub(super) syntax: syn::File,
    /// True if the whole file is compiled for tests only.
    pub(super) test_only: bool,
}

/// A file that is still to be read.
struct Pending {
    path: PathBuf,
    /// Folder of the modules that the file declares.
    modules: PathBuf,
    test_only: bool,
}

/// All source files of the packages, by path.
pub(super) fn walk(packages: &[Package], problems: &mut Vec<Problem>) -> BTreeMap<PathBuf, Source> {
    let mut tree = BTreeMap::new();
    for target in packages.iter().flat_map(|package| &package.targets) {
        let modules = target.root_file.parent().unwrap_or(Path::new("")).to_path_buf();
        let test_only = matches!(target.kind.as_str(), "test" | "bench");
        let mut pending = vec![Pending { path: target.root_file.clone(), modules, test_only }];
        while let Some(next) = pending.pop() {
            if tree.contains_key(&next.path) {
                continue;
            }
            match read(&next) {
                Ok(source) => {
                    declared_files(&next, &source.syntax.items, problems, &mut pending);
                    tree.insert(next.path, source);
                }
                Err(problem) => problems.push(problem),
            }
        }
    }
    tree
}

fn read(pending: &Pending) -> Result<Source, Problem> {
    let path = &pending.path;
    let text = fs::read_to_string(path)
        .map_err(|error| Problem::new(path, 0, format!("cannot be read: {error}")))?;
    let syntax = syn::parse_file(&text).map_err(|error| {
        Problem::new(path, error.span().start().line, format!("is no Rust: {error}"))
    })?;
    let test_only = pending.test_only || syntax.attrs.iter().any(is_test_configuration);
    Ok(Source { text, syntax, test_only })
}

/// Adds the files of the modules that `items` declare to `pending`.
fn declared_files(
    from: &Pending,
    items: &[syn::Item],
    problems: &mut Vec<Problem>,
    pending: &mut Vec<Pending>,
) {
    for item in items {
        let syn::Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        let test_only = from.test_only || module.attrs.iter().any(is_test_configuration);
        let inner = from.modules.join(&name);
        if let Some((_, items)) = &module.content {
            let inside = Pending { path: from.path.clone(), modules: inner, test_only };
            declared_files(&inside, items, problems, pending);
            continue;
        }
        let given = explicit_path(module)
            .map(|path| from.path.parent().unwrap_or(Path::new("")).join(path));
        let candidates = match given {
            Some(path) => vec![path],
            None => vec![from.modules.join(format!("{name}.rs")), inner.join("mod.rs")],
        };
        match candidates.into_iter().find(|path| path.is_file()) {
            Some(path) => {
                let modules = if path.file_name().is_some_and(|file| file == "mod.rs") {
                    path.parent().unwrap_or(Path::new("")).to_path_buf()
                } else {
                    path.with_extension("")
                };
                pending.push(Pending { path, modules, test_only });
            }
            None => {
                let line = module.span().start().line;
                problems.push(Problem::new(&from.path, line, format!("no file for mod {name}")));
            }
        }
    }
}

/// The value of `#[path = "..."]`.
fn explicit_path(module: &syn::ItemMod) -> Option<String> {
    module.attrs.iter().find(|attribute| attribute.path().is_ident("path")).and_then(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
        let syn::Expr::Lit(literal) = &pair.value else { return None };
        let syn::Lit::Str(text) = &literal.lit else { return None };
        Some(text.value())
    })
}

/// True if an attribute is `#[cfg(test)]`, `#[test]`, or of the kind `#[tokio::test]`.
pub(super) fn is_test_configuration(attribute: &syn::Attribute) -> bool {
    let path = attribute.path();
    if path.segments.last().is_some_and(|segment| segment.ident == "test") {
        return true;
    }
    let syn::Meta::List(list) = &attribute.meta else { return false };
    path.is_ident("cfg") && list.tokens.to_string() == "test"
}
