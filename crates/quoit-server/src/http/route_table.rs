//! Tests that the table of interfaces in the page for users of Riak agrees with the routes and message
//! codes.

use super::fold_route::{FoldRoute, RangeFold};
use super::head::Method;
use super::route::{Route, route};
use quoit_wire::code::MessageCode;
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = include_str!("../../../../docs/coming-from-riak.md");

/// Declares the names of an enum's variants, and a function that returns the name of a variant. A new
/// variant does not compile until it is added here, and fails the test until the page has a row for it.
macro_rules! variants {
    ($all:ident, $of:ident, $kind:ident: $($variant:ident)*) => {
        const $all: &[&str] = &[$(stringify!($variant)),*];

        fn $of(of: &$kind<'_>) -> &'static str {
            match of {
                $($kind::$variant { .. } => stringify!($variant),)*
            }
        }
    };
}

variants!(ROUTES, route_name, Route:
    Root Ping Livez Readyz Stats Metrics Buckets Keys Props TypeProps OldBucket Object Walk Preflist Index
    Changes Mapred Search Datatype Counter Fold Queue Membership Admin
);
variants!(FOLDS, fold_name, FoldRoute: CachedRoot CachedBranches CachedClocks BucketList Range);
variants!(RANGE_FOLDS, range_name, RangeFold:
    Tree Clocks Repl Repair Siblings Sizes Stats Tombs Reap Erase
);

/// The rows of the table below a heading, as lists of cells.
fn rows(heading: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let (_, section) = PAGE.split_once(&format!("\n### {heading}\n")).expect("the heading");
    let section = section.split("\n#").next().unwrap_or_default();
    section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

/// The words in backticks in a cell.
fn code_words(cell: &'static str) -> impl Iterator<Item = &'static str> {
    cell.split('`').skip(1).step_by(2)
}

/// The paths of a pattern, in which `P` stands for an optional bucket type.
fn paths(pattern: &str) -> Vec<String> {
    let path = pattern.split('?').next().unwrap_or_default().replace("...", "x");
    match path.split_once("P/") {
        Some((before, after)) => {
            vec![format!("{before}/{after}"), format!("{before}/types/T/{after}")]
        }
        None => vec![path],
    }
}

fn method_names(methods: &[Method]) -> BTreeSet<String> {
    methods.iter().map(|method| format!("{method:?}").to_uppercase()).collect()
}

#[test]
fn the_page_has_each_route_with_its_methods() {
    let mut found = BTreeSet::new();
    for row in rows("HTTP") {
        let mut told: BTreeSet<String> = row[1].split(", ").map(str::to_owned).collect();
        if told.contains("GET") && !row[2].contains("no HEAD") {
            told.insert("HEAD".to_owned());
        }
        for path in code_words(row[0]).flat_map(paths) {
            let to = route(path.as_bytes(), true).unwrap_or_else(|| panic!("{path} leads nowhere"));
            assert_eq!(method_names(to.methods()), told, "{path}");
            assert_eq!(row[2].starts_with("not there"), to == Route::Search, "{path}");
            found.insert(format!("route {}", route_name(&to)));
            if let Route::Fold(fold) = &to {
                found.insert(format!("fold {}", fold_name(fold)));
            }
            if let Route::Fold(FoldRoute::Range(_, fold)) = &to {
                found.insert(format!("range {}", range_name(fold)));
            }
        }
    }
    let named = |kind: &str, names: &[&str]| -> Vec<String> {
        names.iter().map(|name| format!("{kind} {name}")).collect()
    };
    let all = [named("route", ROUTES), named("fold", FOLDS), named("range", RANGE_FOLDS)].concat();
    assert_eq!(found, all.into_iter().collect());
}

#[test]
fn the_page_has_each_message_code() {
    let mut told = BTreeMap::new();
    for row in rows("Protocol Buffers") {
        let here = row[1].split(':').next().unwrap_or_default();
        for message in row[0].split(", ") {
            let (name, code) = message.split_once(" (").expect("a name and a code");
            let code: u8 = code.trim_end_matches(')').parse().expect("a code");
            let before = told.insert(code, (name.trim_matches('`').to_owned(), here));
            assert_eq!(before, None, "{code} is there twice");
        }
    }
    for (code, (name, here)) in &told {
        let is_own = (160..=177).contains(code);
        match MessageCode::from_byte(*code) {
            None => assert_eq!(*here, "not there", "{code}"),
            Some(known) => {
                assert_eq!(*here, if is_own { "only here" } else { "same" }, "{code}");
                assert_eq!(name.strip_prefix("Rpb").unwrap_or(name), known.name());
            }
        }
    }
    for code in MessageCode::ALL {
        assert!(told.contains_key(&u8::from(*code)), "{code} is not in the page");
    }
}
