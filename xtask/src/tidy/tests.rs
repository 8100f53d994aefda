use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::source_tree::{Source, walk};
use super::*;
use crate::workspace::Target;

fn package(name: &str, uses: &[&str]) -> Package {
    Package {
        name: name.into(),
        manifest: PathBuf::from(format!("{name}/Cargo.toml")),
        dependencies: uses.iter().map(|used| used.to_string()).collect(),
        testing_dependencies: Vec::new(),
        targets: Vec::new(),
    }
}

/// The problems that the rules of Rust files find in a text.
fn rust(text: &str) -> Vec<String> {
    let source =
        Source { text: text.into(), syntax: syn::parse_file(text).unwrap(), test_only: false };
    let mut problems = Vec::new();
    rust_rules::check(Path::new("x.rs"), &source, &mut problems);
    problems.into_iter().map(|problem| problem.to_string()).collect()
}

/// The problems that the rules of text find in a file of that name.
fn text(name: &str, text: &str) -> Vec<String> {
    let path = Path::new(name);
    let known = BTreeSet::from([path, Path::new("docs/there.md")]);
    let mut problems = Vec::new();
    text_rules::check(path, text_rules::Kind::of(path).unwrap(), text, &known, &mut problems);
    problems.into_iter().map(|problem| problem.to_string()).collect()
}

#[test]
fn a_crate_uses_only_lower_floors() {
    let good = [package("quoit-core", &["quoit-store", "quoit-model", "bytes"])];
    assert!(floors::check(&good).is_empty());
    for (name, used) in [
        ("quoit-store", "quoit-core"),
        ("quoit-store", "quoit-wire"),
        ("quoit-model", "xtask"),
        ("quoit-bench", "quoit-core"),
        ("quoit-client", "quoit-store"),
    ] {
        assert_eq!(floors::check(&[package(name, &[used])]).len(), 1, "{name} uses {used}");
    }
}

#[test]
fn only_crates_beside_the_house_are_compiled_with_faulty_disks() {
    for (name, problem_count) in [("quoit-core", 1), ("quoit-sim", 0)] {
        let testing_dependencies = vec!["quoit-seam".to_owned()];
        let package = Package { testing_dependencies, ..package(name, &["quoit-seam"]) };
        assert_eq!(floors::check(&[package]).len(), problem_count, "{name}");
    }
}

#[test]
fn a_crate_without_a_floor_is_reported() {
    assert_eq!(floors::check(&[package("quoit-extra", &[])]).len(), 1);
    assert!(floors::check(&[package("quoit-fuzz", &["quoit"])]).is_empty());
}

#[test]
fn a_paragraph_of_a_doc_comment_that_begins_with_what_or_who_is_reported() {
    for refused in [
        "/// What it is.\nstruct A;\n",
        "//! Who calls it.\n",
        "struct A {\n    /// What it is.\n    b: u8,\n}\n",
        "/// A thing.\n///\n/// What it does is told here.\nstruct A;\n",
        "declare! {\n    /// What it is.\n    b = 1;\n}\n",
    ] {
        assert_eq!(rust(refused).len(), 1, "{refused}");
    }
    for taken in [
        "/// Whatever it is.\nstruct A;\n",
        "/// A thing that says\n/// What is on the next line.\nstruct A;\n",
        "// What follows is no doc comment.\nstruct A;\n",
    ] {
        assert!(rust(taken).is_empty(), "{taken}");
    }
}

#[test]
fn a_long_function_is_reported_and_one_of_seventy_lines_is_not() {
    let function = |lines: usize| format!("fn f() {{\n{}}}\n", "g();\n".repeat(lines - 2));
    assert!(rust(&function(70)).is_empty());
    assert_eq!(rust(&function(71)), ["error: x.rs:1: fn f has 71 lines; at most 70"]);
    let method = format!("impl X {{\n{}}}\n", function(71));
    assert_eq!(rust(&method), ["error: x.rs:2: fn f has 71 lines; at most 70"]);
}

#[test]
fn a_long_file_is_a_warning_first_and_an_error_later() {
    let file = |lines: usize| "const A: u8 = 0;\n".repeat(lines);
    assert!(rust(&file(500)).is_empty());
    assert!(rust(&file(501))[0].starts_with("warning"));
    assert!(rust(&file(901))[0].starts_with("error"));
}

#[test]
fn lines_of_tests_do_not_count_for_the_length_of_a_file() {
    let file = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "const A: u8 = 0;\n".repeat(2000));
    assert!(rust(&file).is_empty());
}

#[test]
fn unwrap_is_reported_outside_tests_only() {
    assert_eq!(rust("fn f() { g().unwrap(); }").len(), 1);
    assert_eq!(rust("fn f() { assert!(g().unwrap()); }").len(), 1);
    assert!(rust("fn f() { g().unwrap_or(1); }").is_empty());
    assert!(rust("#[cfg(test)]\nmod tests { fn f() { g().unwrap(); } }").is_empty());
    assert!(rust("#[tokio::test]\nasync fn f() { assert!(g().unwrap()); }").is_empty());
}

/// The problems that the rule of a crate's lints finds in a file.
fn lints(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    crate_lints::check(Path::new(path), &syn::parse_file(text).unwrap(), &mut problems);
    problems.into_iter().map(|problem| problem.to_string()).collect()
}

const ALL_CAST_LINTS: &str =
    "clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss";

#[test]
fn the_root_of_a_crate_takes_the_lints_against_casts() {
    let some = "#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]";
    let all = "#![warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]\n\
               #![deny(clippy::cast_sign_loss, reason = \"it is no cast\")]";
    assert_eq!(lints("crates/a/src/lib.rs", "fn f() {}").len(), 3);
    assert_eq!(lints("crates/a/src/main.rs", some).len(), 2);
    assert!(lints("crates/a/src/lib.rs", all).is_empty());
    assert!(lints("crates/a/src/other.rs", "fn f() {}").is_empty());
    let no_casts = "#![warn(clippy::indexing_slicing, clippy::string_slice)]";
    assert!(lints("crates/quoit-number/src/lib.rs", no_casts).is_empty());
}

#[test]
fn a_lint_that_the_root_of_a_crate_switches_off_is_not_taken() {
    let warned = format!("#![cfg_attr(not(test), warn({ALL_CAST_LINTS}))]\n");
    assert!(lints("crates/a/src/lib.rs", &warned).is_empty());
    for silent in [
        format!("#![allow({ALL_CAST_LINTS})]"),
        format!("#![expect({ALL_CAST_LINTS}, reason = \"a few\")]"),
        format!("#![cfg_attr(not(test), allow({ALL_CAST_LINTS}))]"),
        format!("#![cfg_attr(test, warn({ALL_CAST_LINTS}))]"),
        format!("#![cfg_attr(not(test), warn({ALL_CAST_LINTS}), allow({ALL_CAST_LINTS}))]"),
        format!("{warned}#![allow({ALL_CAST_LINTS})]"),
        format!("//! It has no {ALL_CAST_LINTS}."),
    ] {
        assert_eq!(lints("crates/a/src/lib.rs", &silent).len(), 3, "{silent}");
    }
}

#[test]
fn crates_that_read_bytes_from_outside_take_the_lints_against_indexes() {
    let casts = format!("#![warn({ALL_CAST_LINTS})]\n");
    let both = format!("{casts}#![warn(clippy::indexing_slicing, clippy::string_slice)]");
    assert_eq!(lints("crates/quoit-wire/src/lib.rs", &casts).len(), 2);
    assert!(lints("crates/quoit-wire/src/lib.rs", &both).is_empty());
    assert!(lints("crates/quoit-perf/src/lib.rs", &casts).is_empty());
}

#[test]
fn the_file_of_a_module_stands_in_the_folder_of_its_parts() {
    let folder = tempfile::tempdir().unwrap();
    let parts = folder.path().join("whole");
    fs::create_dir(&parts).unwrap();
    let [beside, inside] = [parts.with_extension("rs"), parts.join("mod.rs")];
    assert!(beside_its_folder(&beside).is_some());
    assert!(beside_its_folder(&inside).is_none());
    assert!(beside_its_folder(&folder.path().join("single.rs")).is_none());
}

#[test]
fn unfinished_work_and_ignored_tests_are_reported() {
    assert_eq!(rust("fn f() { todo!() }").len(), 1);
    assert_eq!(rust("fn f() { let x = dbg!(1); }").len(), 1);
    assert_eq!(rust("fn f() { unimplemented!(\"later\") }").len(), 1);
    assert_eq!(rust("#[test]\n#[ignore]\nfn f() {}").len(), 1);
    assert_eq!(rust("#[test]\n#[ignore = \"slow\"]\nfn f() {}").len(), 1);
}

#[test]
fn banned_words_are_reported_as_words() {
    let word = concat!("TO", "DO");
    assert_eq!(text("a.rs", &format!("// {word}: later\n")).len(), 1);
    assert!(text("a.rs", &format!("let {word}S = 1;\n")).is_empty());
    assert_eq!(text("a.toml", &format!("path = \"{}x\"\n", concat!("/ho", "me/"))).len(), 1);
}

#[test]
fn long_lines_are_reported_except_in_tables_examples_and_addresses() {
    let long = "word ".repeat(23);
    assert_eq!(text("a.md", &long).len(), 1);
    assert_eq!(text("a.py", &long).len(), 1);
    assert!(text("a.md", &format!("| {long} |\n")).is_empty());
    assert!(text("a.md", &format!("```\n{long}\n```\n")).is_empty());
    assert!(text("a.md", &format!("    {long}\n")).is_empty());
    assert!(text("a.md", &format!("see https://example.com {long}\n")).is_empty());
    assert!(text("a.toml", &long).is_empty());
}

#[test]
fn links_must_lead_somewhere() {
    assert!(text("docs/a.md", "[x](there.md) [y](https://example.com) [z](../docs)\n").is_empty());
    assert!(text("docs/a.md", "`[x](nowhere.md)`\n").is_empty());
    assert_eq!(text("docs/a.md", "[x](nowhere.md)\n").len(), 1);
    assert_eq!(text("docs/a.md", "[x](there.md#no-such-heading)\n").len(), 1);
}

#[test]
fn a_link_to_a_heading_is_checked_in_the_file_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.md");
    let body = "# A tour, in brief\n\n[x](#a-tour-in-brief) [y](#elsewhere)\n";
    fs::write(&path, body).unwrap();
    let known = BTreeSet::from([path.as_path()]);
    let mut problems = Vec::new();
    text_rules::check(&path, text_rules::Kind::Markdown, body, &known, &mut problems);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].text.contains("#elsewhere"));
}

#[test]
fn files_are_followed_through_modules_and_their_tests_are_known_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let src = folder.path().join("src");
    fs::create_dir_all(src.join("deep")).unwrap();
    let files = [
        ("lib.rs", "mod flat;\nmod deep;\nmod inline { mod far; }\n#[cfg(test)]\nmod tests;\n"),
        ("flat.rs", ""),
        ("deep/mod.rs", "mod well;"),
        ("deep/well.rs", ""),
        ("inline/far.rs", ""),
        ("tests.rs", "mod more;"),
        ("tests/more.rs", ""),
        ("dead.rs", ""),
    ];
    for (name, text) in files {
        let path = src.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut one = package("p", &[]);
    one.targets.push(Target {
        name: "p".into(),
        kind: "lib".into(),
        root_file: src.join("lib.rs"),
    });
    let mut problems = Vec::new();
    let tree = walk(&[one], &mut problems);
    assert!(problems.is_empty(), "{problems:?}");
    let found: BTreeSet<_> =
        tree.keys().map(|path| path.strip_prefix(&src).unwrap().to_str().unwrap()).collect();
    let expected: BTreeSet<_> =
        files.iter().map(|(name, _)| *name).filter(|name| *name != "dead.rs").collect();
    assert_eq!(found, expected);
    assert!(tree[&src.join("tests/more.rs")].test_only);
    assert!(!tree[&src.join("deep/well.rs")].test_only);
}

#[test]
fn a_module_without_a_file_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let root_file = folder.path().join("lib.rs");
    fs::write(&root_file, "mod absent;").unwrap();
    let mut one = package("p", &[]);
    one.targets.push(Target { name: "p".into(), kind: "lib".into(), root_file });
    let mut problems = Vec::new();
    walk(&[one], &mut problems);
    assert_eq!(problems.len(), 1);
}
