//! Riak's `show` and `set` for settings of running nodes.

use super::{Translation, run, say};

/// Settings that can be changed while the node runs.
const LIMITS: [&str; 3] = ["transfer_limit", "handoff.inbound", "handoff.outbound"];

/// Refusal of `show` for settings that a running node does not report.
const NOT_SHOWN: &str = "show: of a running node, only transfer_limit, handoff.inbound and handoff.outbound \
    can be shown, with quoit admin handoff config [--node NODE|--all]; quoit admin status prints ring_size \
    and storage_backend; quoit config show FILE prints the other settings of a file, and quoit config \
    describe KEY their defaults";

/// Parsed arguments of `show` and `set`.
#[derive(Default)]
struct SettingWords {
    /// Settings, with or without values.
    named: Vec<String>,
    /// Node whose settings are meant, if one is named.
    node: Option<String>,
    /// True for the settings of all nodes.
    is_of_all: bool,
    /// Form of the output.
    format: Option<String>,
}

impl SettingWords {
    /// Parses the arguments. An option without its value, or an unknown option, is an error.
    fn of(words: &[String]) -> Result<Self, String> {
        let mut found = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (name, given) = match word.split_once('=') {
                Some((name, value)) if name.starts_with('-') => (name, Some(value.to_owned())),
                _ => (word.as_str(), None),
            };
            let value = || {
                let value = given.or_else(|| words.next().cloned());
                value.ok_or_else(|| format!("{name} needs a value"))
            };
            match name {
                "--node" | "-n" => found.node = Some(value()?),
                "--format" => found.format = Some(value()?),
                "--all" | "-a" => found.is_of_all = true,
                name if name.starts_with('-') => {
                    return Err(format!(
                        "{name} is not an option here; there are --node NODE, --all and --format FORM"
                    ));
                }
                _ => found.named.push(word.clone()),
            }
        }
        if found.node.is_some() && found.is_of_all {
            return Err("--node and --all exclude each other".to_owned());
        }
        Ok(found)
    }

    /// The options in the form of `quoit admin handoff`.
    fn options(&self) -> Vec<String> {
        let mut options = Vec::new();
        if let Some(node) = &self.node {
            options.extend(["--node".to_owned(), node.clone()]);
        }
        if self.is_of_all {
            options.push("--all".to_owned());
        }
        options.extend(self.format_options());
        options
    }

    /// The option for the form of the output, if it is given.
    fn format_options(&self) -> Vec<String> {
        let format = self.format.iter();
        format.flat_map(|format| ["--format".to_owned(), format.clone()]).collect()
    }
}

/// Translates `show`. Nodes report only some of their settings.
pub(super) fn show(words: &[String]) -> Translation {
    let found = match SettingWords::of(words) {
        Ok(found) => found,
        Err(fault) => return say(&format!("show: {fault}"), false),
    };
    if found.named.is_empty() && found.node.is_none() && !found.is_of_all {
        return run(&["config", "show"], &found.format_options());
    }
    if found.named.is_empty() || !found.named.iter().all(|name| LIMITS.contains(&name.as_str())) {
        return say(NOT_SHOWN, false);
    }
    run(&["admin", "handoff", "config"], &found.options())
}

/// True if a word sets one of the settings that can be changed while the node runs.
pub(super) fn is_limit(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| LIMITS.contains(&name))
}

/// Translates `set`, which changes one setting of the running node.
pub(super) fn set(words: &[String]) -> Translation {
    let found = match SettingWords::of(words) {
        Ok(found) => found,
        Err(fault) => return say(&format!("set: {fault}"), false),
    };
    let [pair] = &found.named[..] else {
        let several = found.named.join(" ");
        return say(&format!("set: {several}: nothing is changed; set one at a time"), false);
    };
    let (name, value) = pair.split_once('=').unwrap_or((pair.as_str(), ""));
    let Some(direction) = name.strip_prefix("handoff.") else {
        let line = found.node.iter().cloned().chain([value.to_owned()]);
        let line: Vec<String> = line.chain(found.format_options()).collect();
        return run(&["admin", "transfer-limit"], &line);
    };
    let switch = match value {
        "on" | "enabled" | "true" => "enable",
        "off" | "disabled" | "false" => "disable",
        _ => {
            let fault = format!(
                "set: {name} can't be '{value}': write on or off (or enabled, disabled, true, false)"
            );
            return say(&fault, false);
        }
    };
    run(&["admin", "handoff", switch, direction], &found.options())
}

#[cfg(test)]
mod tests {
    use super::super::{Translation, riak_admin};

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_setting_is_changed_on_the_nodes_that_are_meant() {
        let cases = [
            ("set transfer_limit=4 --all", "admin transfer-limit 4"),
            ("set transfer_limit=4 --node r@h", "admin transfer-limit r@h 4"),
            ("set -n r@h transfer_limit=4", "admin transfer-limit r@h 4"),
            ("set handoff.inbound=enabled -a", "admin handoff enable inbound --all"),
            ("set handoff.outbound=false --node=r@h", "admin handoff disable outbound --node r@h"),
        ];
        for (line, expected) in cases {
            assert_eq!(riak_admin(&words(line)), Translation::Run(words(expected)), "{line}");
        }
    }

    #[test]
    fn what_can_not_be_set_or_shown_is_refused_in_words() {
        let cases = [
            ("set handoff.inbound=of", "'of'"),
            ("set handoff.inbound=", "''"),
            ("set transfer_limit=4 handoff.inbound=off", "one at a time"),
            ("set transfer_limit=4 ring_size=8", "one at a time"),
            ("set transfer_limit=4 --node", "--node needs a value"),
            ("set transfer_limit=4 --node r@h --all", "exclude each other"),
            ("set transfer_limit=4 --nod r@h", "--nod is not an option"),
            ("set ring_size=8", "quoit admin transfer-limit"),
            ("show ring_size", "quoit admin status"),
            ("show ring_size transfer_limit --node r@h", "quoit admin handoff config"),
            ("show --all", "quoit config show FILE"),
        ];
        for (line, expected) in cases {
            let answer = riak_admin(&words(line));
            let Translation::Say { text, is_success: false } = &answer else {
                panic!("{line}: {answer:?}");
            };
            assert!(text.contains(expected), "{line}: {text}");
        }
    }
}
