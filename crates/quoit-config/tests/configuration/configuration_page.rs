//! Checks that the table of `docs/configuration.md` is the one that the program generates.
//!
//! After a change of the keys, this command rewrites the table:
//!
//! ```text
//! TEST_WRITE_DOCS=1 cargo test -p quoit-config --test configuration
//! ```
use quoit_config::{Key, keys};
use std::path::Path;

/// Beginning of the lines of the table; no other line of the page begins with it.
const ROW: &str = "| `";

fn row(key: &Key) -> String {
    let Key { name, kind, default, about } = key;
    let default = if default.is_empty() { "not set" } else { default };
    let cells = [kind.valid_form(), default.to_owned(), (*about).to_owned()];
    let cells: String =
        cells.iter().map(|cell| format!(" {} |", cell.replace('|', "\\|"))).collect();
    format!("{ROW}{name}` |{cells}\n")
}

#[test]
fn the_page_tells_every_key_as_the_program_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let start = page.find(ROW).expect("a table of keys");
    let table_bytes = page[start..].split_inclusive('\n').take_while(|line| line.starts_with(ROW));
    let end = start + table_bytes.map(str::len).sum::<usize>();
    let table: String = keys().map(row).collect();
    if std::env::var_os("TEST_WRITE_DOCS").is_some() {
        std::fs::write(&path, [&page[..start], &table, &page[end..]].concat()).unwrap();
        return;
    }
    let (told, known): (Vec<_>, Vec<_>) =
        (page[start..end].lines().collect(), table.lines().collect());
    for line in &known {
        assert!(
            told.contains(line),
            "missing in docs/configuration.md (see this test's head): {line}"
        );
    }
    assert_eq!(told, known, "in the order of the program");
}

#[test]
fn nodes_speak_the_newest_version_unless_they_are_told() {
    let key = keys().find(|key| key.name == "internode.version.maximum").unwrap();
    let newest = quoit_wire::internode::VERSION_MAX;
    assert_eq!(key.default, newest.to_string(), "{} does not follow the protocol", key.name);
}
