//! The lints that the root of each library and program takes, outside tests: against casts that change
//! numbers, and against indexes that may panic in the crates of nodes and commands.

use std::collections::BTreeSet;
use std::path::Path;

use syn::Meta;
use syn::punctuated::Punctuated;

use super::Problem;

const CAST_LINTS: [&str; 3] =
    ["clippy::cast_possible_truncation", "clippy::cast_possible_wrap", "clippy::cast_sign_loss"];

/// The crate whose functions are these casts. It takes none of the lints against them.
const CASTING_CRATE: &str = "quoit-number";

/// An index or a range beyond the end panics, and so does a range that cuts a character of a string.
const INDEXING_LINTS: [&str; 2] = ["clippy::indexing_slicing", "clippy::string_slice"];

/// The crates of nodes and of commands that refuse such indexes. Crates only for tests and simulations don't.
const CRATES_WITHOUT_INDEXES: &[&str] = &[
    "quoit",
    "quoit-bench",
    "quoit-cli",
    "quoit-client",
    "quoit-cluster",
    "quoit-config",
    "quoit-core",
    "quoit-data-dir",
    "quoit-dev-cluster",
    "quoit-heap",
    "quoit-import",
    "quoit-mapreduce",
    "quoit-model",
    "quoit-node",
    "quoit-number",
    "quoit-operator",
    "quoit-process",
    "quoit-progress",
    "quoit-replication",
    "quoit-riak",
    "quoit-riak-files",
    "quoit-riak-peer",
    "quoit-script",
    "quoit-security",
    "quoit-serve",
    "quoit-server",
    "quoit-store",
    "quoit-tls",
    "quoit-wire",
];

/// Checks that the root of a crate has clippy report the lints of this crate.
pub(super) fn check(path: &Path, root: &syn::File, problems: &mut Vec<Problem>) {
    if !["src/lib.rs", "src/main.rs"].iter().any(|root| path.ends_with(root)) {
        return;
    }
    let folder = path.ancestors().nth(2).and_then(Path::file_name);
    let name = folder.and_then(|name| name.to_str()).unwrap_or_default();
    let casts = CAST_LINTS.iter().filter(|_| name != CASTING_CRATE);
    let indexes = INDEXING_LINTS.iter().filter(|_| CRATES_WITHOUT_INDEXES.contains(&name));
    let reported = reported_lints(&root.attrs);
    for lint in casts.chain(indexes).filter(|lint| !reported.contains(**lint)) {
        problems.push(Problem::new(path, 0, format!("the crate does not take the lint {lint}")));
    }
}

/// The lints that the attributes switch on for the code outside tests. A later attribute overrides an earlier
/// one.
fn reported_lints(attributes: &[syn::Attribute]) -> BTreeSet<String> {
    let mut reported = BTreeSet::new();
    for attribute in attributes {
        for level in levels_outside_tests(&attribute.meta) {
            let is_reported =
                ["warn", "deny", "forbid"].iter().any(|name| level.path().is_ident(name));
            let is_silent = ["allow", "expect"].iter().any(|name| level.path().is_ident(name));
            let lints: Vec<String> =
                parts(&level).iter().map(|lint| name_of(lint.path())).collect();
            if is_reported {
                reported.extend(lints);
            } else if is_silent {
                reported.retain(|lint| !lints.contains(lint));
            }
        }
    }
    reported
}

/// The attribute itself, or the attributes that a `cfg_attr(not(test), ...)` stands for.
fn levels_outside_tests(attribute: &Meta) -> Vec<Meta> {
    if !attribute.path().is_ident("cfg_attr") {
        return vec![attribute.clone()];
    }
    let mut parts = parts(attribute).into_iter();
    let is_outside_tests = parts.next().is_some_and(|condition| {
        condition.path().is_ident("not")
            && matches!(&condition, Meta::List(list) if list.tokens.to_string() == "test")
    });
    parts.filter(|_| is_outside_tests).collect()
}

/// The parts in the parentheses of an attribute.
fn parts(attribute: &Meta) -> Vec<Meta> {
    let Meta::List(list) = attribute else { return Vec::new() };
    let parts = list.parse_args_with(Punctuated::<Meta, syn::Token![,]>::parse_terminated);
    parts.map(Vec::from_iter).unwrap_or_default()
}

fn name_of(path: &syn::Path) -> String {
    let segments: Vec<String> =
        path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    segments.join("::")
}
