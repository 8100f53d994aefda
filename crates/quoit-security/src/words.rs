//! The words of commands: names, usage, lists.

use crate::refusal::Refusal;

/// Usage of each command.
pub(crate) const USAGE: [(&str, &str); 20] = [
    ("add-user", "<user> [<option>=<value> [...]]"),
    ("add-group", "<group> [<option>=<value> [...]]"),
    ("alter-user", "<user> <option> [<option>=<value> [...]]"),
    ("alter-group", "<group> <option> [<option>=<value> [...]]"),
    ("del-user", "<user>"),
    ("del-group", "<group>"),
    ("add-source", "all|<users> <CIDR> <source> [<option>=<value> [...]]"),
    ("del-source", "all|<users> <CIDR>"),
    ("grant", "<permissions> on any|<type> [bucket] to <users>"),
    ("revoke", "<permissions> on any|<type> [bucket] from <users>"),
    ("print-users", ""),
    ("print-groups", ""),
    ("print-user", "<user>"),
    ("print-group", "<group>"),
    ("print-grants", "<user|group>"),
    ("print-sources", ""),
    ("enable", ""),
    ("disable", ""),
    ("status", ""),
    ("ciphers", "[cipherlist]"),
];

/// Returns a refusal with the usage of a command.
pub(crate) fn usage(command: &str) -> Refusal {
    let words = USAGE.iter().find(|(name, _)| *name == command).map_or("", |(_, words)| words);
    Refusal::Usage(format!("quoit admin security {command} {words}").trim_end().to_owned())
}

/// Splits a comma-separated list. Empty parts are left out.
pub(crate) fn list(text: &str) -> Vec<&str> {
    text.split(',').filter(|part| !part.is_empty()).collect()
}
