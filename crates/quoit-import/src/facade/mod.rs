//! Riak's commands for operators, translated to those of Quoit.
//!
//! A command line of `riak-admin` or `riak` becomes a command line of `quoit`, whose output has Riak's
//! phrases. A command that needs no action, or has no counterpart, gets an answer in words. Every refusal
//! names the nearest command of Quoit, or lists the commands.

mod settings;

use crate::api::Api;
use anyhow::{Result, bail};
use settings::{is_limit, set, show};

/// Translation of a command line of Riak.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Translation {
    /// The arguments of `quoit` that do the same.
    Run(Vec<String>),
    /// An answer in words, without running anything.
    Say {
        /// The answer.
        text: String,
        /// True if the exit status is 0.
        is_success: bool,
    },
    /// A question that the node answers, with the arguments of the command.
    Ask(NodeQuery, Vec<String>),
    /// `riak-admin test`: write, read and delete one record at this address.
    Test(String),
    /// `ping`. A failure is reported in a sentence that names the node.
    Ping {
        /// The arguments of `quoit`.
        line: Vec<String>,
        /// The node's address or name, if the command line has one.
        node: Option<String>,
    },
    /// `chkconfig` without a file: check that the default configuration can be read.
    CheckConfig,
}

/// A command of riak-admin whose answer takes several documents of the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeQuery {
    /// `vnode-status`: the partitions with the figures of their stores.
    VnodeStatus,
    /// `diag`: checks of the machine and the cluster.
    Diag,
    /// `top`: the current activity of the node.
    Top,
    /// `cluster-info`: all information, written to a file.
    ClusterInfo,
}

/// Commands that are questions.
const QUESTIONS: [(&str, NodeQuery); 4] = [
    ("vnode-status", NodeQuery::VnodeStatus),
    ("diag", NodeQuery::Diag),
    ("top", NodeQuery::Top),
    ("cluster-info", NodeQuery::ClusterInfo),
];

/// Default HTTP address of a node.
const DEFAULT_URL: &str = "http://127.0.0.1:8098";

/// Commands of riak-admin that `quoit admin` takes with the same words.
const SAME: [&str; 19] = [
    "cluster",
    "down",
    "member-status",
    "ring-status",
    "ringready",
    "join",
    "leave",
    "remove",
    "force-remove",
    "transfers",
    "transfer-limit",
    "handoff",
    "status",
    "stat",
    "aae-status",
    "services",
    "wait-for-service",
    "bucket-type",
    "security",
];

/// Commands that need no action in Quoit, with the reason.
const NOTHING_TO_DO: [(&str, &str); 7] = [
    (
        "repair-2i",
        "the node writes index entries together with their records, so they need no repair",
    ),
    ("reformat-indexes", "indexes have only one format"),
    ("downgrade-objects", "objects have only one format"),
    ("erl-reload", "Quoit runs no Erlang code"),
    ("js-reload", "each MapReduce job brings its own scripts"),
    ("reip", "the identity of a node does not depend on its name; start it with the new name"),
    (
        "reip-manual",
        "the identity of a node does not depend on its name; start it with the new name",
    ),
];

/// Commands without a counterpart, with an explanation and the nearest command.
const NEAREST: [(&str, &str, &str); 8] = [
    (
        "ensemble-status",
        "Quoit has no strong consistency; conditional writes have their own guarantee",
        "quoit admin bucket-type status TYPE (conditional_put_mode)",
    ),
    (
        "backup",
        "back up a node by copying its data directory while the node is stopped",
        "quoit admin cluster status, and a copy of the files",
    ),
    ("restore", "start the node with a copy of its data directory", "quoit serve --data-dir DIR"),
    ("search", "Quoit has secondary indexes, but no Solr", "docs/indexes.md"),
    ("aae-fold", "folds over the records of a bucket", "quoit admin fold --help"),
    ("tictacaae", "the setting anti_entropy controls it", "quoit admin aae-status"),
    (
        "set",
        "a command can change only transfer_limit, handoff.inbound and handoff.outbound; set others in the \
        configuration file",
        "quoit admin transfer-limit [NODE] N and quoit admin handoff enable|disable inbound|outbound",
    ),
    ("repair", "anti-entropy repairs the copies", "quoit admin aae-exchange [PARTITION]"),
];

/// Translates a command line of riak-admin. `--url` may stand anywhere in it.
#[must_use]
pub fn riak_admin(words: &[String]) -> Translation {
    let (words, url) = without_url(words);
    let at = url.clone().into_iter().flat_map(|url| ["--url".to_owned(), url]);
    match translated(&words, url.as_deref()) {
        // The address goes before the command: after it, the address could be mistaken for an argument.
        Translation::Run(mut line)
            if line.first().is_some_and(|word| ["admin", "repl"].contains(&word.as_str())) =>
        {
            line.splice(1..1, at);
            Translation::Run(line)
        }
        Translation::Ping { mut line, node } => {
            line.splice(1..1, at);
            Translation::Ping { line, node }
        }
        Translation::Ask(question, words) => {
            Translation::Ask(question, words.into_iter().chain(at).collect())
        }
        other => other,
    }
}

/// Splits the option `--url` off a command line.
fn without_url(words: &[String]) -> (Vec<String>, Option<String>) {
    let (mut left, mut url) = (Vec::new(), None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match (word.as_str(), word.strip_prefix("--url=")) {
            ("--url", _) => url = words.next().cloned(),
            (_, Some(given)) => url = Some(given.to_owned()),
            _ => left.push(word.clone()),
        }
    }
    (left, url)
}

fn translated(words: &[String], url: Option<&str>) -> Translation {
    let Some((first, rest)) = words.split_first() else { return help_of_admin(None) };
    // Scripts use both spellings, with hyphens and with underscores.
    let command = first.trim_start_matches("--").replace('_', "-");
    match command.as_str() {
        "help" | "-h" => help_of_admin(None),
        "test" => Translation::Test(url.unwrap_or(DEFAULT_URL).to_owned()),
        "ping" => ping(rest, url),
        "cluster" if rest.first().is_some_and(|word| word.replace('_', "-") == "resize-ring") => {
            say(
                "the number of partitions of a cluster can't change; start a cluster of the other size, and \
                 move the data to it by replication or quoit import",
                false,
            )
        }
        "describe" => config("describe", rest),
        "show" => show(rest),
        "set" if rest.iter().any(|word| is_limit(word)) => set(rest),
        "repl" => run(&["repl"], rest),
        "bucket-type" | "cluster" => {
            let mut words: Vec<String> = rest.to_vec();
            if let Some(second) = words.first_mut() {
                *second = second.replace('_', "-");
            }
            run(&["admin", &command], &words)
        }
        command if SAME.contains(&command) => run(&["admin", command], rest),
        command => {
            if let Some((_, question)) = QUESTIONS.iter().find(|(name, _)| *name == command) {
                return Translation::Ask(*question, rest.to_vec());
            }
            if let Some((_, why)) = NOTHING_TO_DO.iter().find(|(name, _)| *name == command) {
                return say(&format!("nothing to do: {why}"), true);
            }
            if let Some(&(_, reason, nearest)) = NEAREST.iter().find(|(name, ..)| *name == command)
            {
                return MissingCommand { command, reason, nearest }.answer();
            }
            help_of_admin(Some(first))
        }
    }
}

/// Translates a command line of `riak`.
#[must_use]
pub fn riak(words: &[String]) -> Translation {
    let Some((first, rest)) = words.split_first() else { return help_of_riak(None) };
    match first.as_str() {
        "admin" => riak_admin(rest),
        "repl" => run(&["repl"], rest),
        "ping" => riak_admin(words),
        "console" | "foreground" => run(&["serve"], rest),
        "version" => run(&["--version"], &[]),
        "chkconfig" if rest.is_empty() => Translation::CheckConfig,
        "chkconfig" => run(&["config", "check"], rest),
        "config" => match rest.split_first().map(|(first, rest)| (first.as_str(), rest)) {
            Some(("describe", rest)) => config("describe", rest),
            Some(("effective", _)) => config("show", &[]),
            _ => say("nothing to do: the node reads the configuration file directly", true),
        },
        "top" => riak_admin(words),
        "help" | "-h" | "--help" => help_of_riak(None),
        _ => without_counterpart(first)
            .map_or_else(|| help_of_riak(Some(first)), |missing| missing.answer()),
    }
}

/// The answer to a command of Riak's node script that Quoit does not have.
fn without_counterpart(command: &str) -> Option<MissingCommand<'_>> {
    let (reason, nearest) = match command {
        "start" | "daemon" => (
            "a node runs in the foreground, under a service manager",
            "systemctl start quoit, or quoit serve --config FILE",
        ),
        "stop" => ("a node shuts down cleanly on SIGTERM", "systemctl stop quoit"),
        "restart" | "reboot" => ("a node shuts down cleanly on SIGTERM", "systemctl restart quoit"),
        "getpid" | "pid" => (
            "the service manager knows it",
            "systemctl show --property MainPID quoit; quoit serve --ready-file FILE writes it",
        ),
        "attach" | "remote_console" | "remote-console" | "attach-direct" | "rpc" | "eval" => {
            ("Quoit has no Erlang shell", "quoit admin --help")
        }
        "debug" => ("one file gathers the facts that a helper asks for", "quoit debug bundle"),
        "ertspath" => ("Quoit has no Erlang runtime", "quoit --version"),
        _ => return None,
    };
    Some(MissingCommand { command, reason, nearest })
}

/// `riak-admin test`: writes, reads and deletes one record, and returns the line that Riak prints.
///
/// # Errors
///
/// If one of the three requests fails.
pub fn test_cycle(url: &str) -> Result<String> {
    let api = Api::new(url);
    let node = api.done(api.get("admin/v1/ping")?)?;
    let node = node.get("node").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    let path = "buckets/__riak_client_test__/keys/key1";
    let value = serde_json::json!("quoit");
    let failed = |what: &str, status: u16| format!("Failed to {what} test value: status {status}");
    let (status, _) = api.put(path, &value)?;
    if status >= 300 {
        bail!(failed("write", status));
    }
    let (status, read) = api.get(path)?;
    if status >= 300 || read != value {
        bail!(failed("read", status));
    }
    let status = api.delete(path)?;
    if status >= 300 {
        bail!(failed("delete", status));
    }
    Ok(format!("Successfully completed 1 read/write cycle to '{node}'"))
}

fn run(first: &[&str], rest: &[String]) -> Translation {
    let first = first.iter().map(|word| (*word).to_owned());
    Translation::Run(first.chain(rest.iter().cloned()).collect())
}

fn say(text: &str, is_success: bool) -> Translation {
    Translation::Say { text: text.to_owned(), is_success }
}

/// A command of Riak that Quoit does not have.
struct MissingCommand<'a> {
    command: &'a str,
    reason: &'static str,
    /// The command or tool that comes nearest.
    nearest: &'static str,
}

impl MissingCommand<'_> {
    fn answer(&self) -> Translation {
        let Self { command, reason, nearest } = self;
        say(&format!("{command}: {reason}; nearest: {nearest}"), false)
    }
}

/// Translates `describe` and `effective`, and drops options that name nodes.
fn config(command: &str, words: &[String]) -> Translation {
    let mut keys = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--node" | "-n" => {
                words.next();
            }
            word if word.starts_with('-') => {}
            word => keys.push(word.to_owned()),
        }
    }
    run(&["config", command], &keys)
}

/// Translates a ping. Options are passed on; any other word can only be the node's name.
fn ping(words: &[String], url: Option<&str>) -> Translation {
    let (mut line, mut named) = (vec!["admin".to_owned(), "ping".to_owned()], None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            named = Some(word.as_str());
            continue;
        }
        line.push(word.clone());
        if !word.contains('=') {
            line.extend(words.next().cloned());
        }
    }
    Translation::Ping { line, node: url.or(named).map(str::to_owned) }
}

/// Lists the commands. The exit status is a failure if the command line has an unknown command.
fn help_of_admin(unknown: Option<&str>) -> Translation {
    let others =
        NOTHING_TO_DO.iter().map(|(name, _)| *name).chain(NEAREST.iter().map(|(name, ..)| *name));
    let questions = QUESTIONS.iter().map(|(name, _)| *name);
    let names: Vec<&str> = SAME
        .into_iter()
        .chain(["ping", "test", "describe", "show", "set", "repl"])
        .chain(questions)
        .chain(others)
        .collect();
    let begins = begins(unknown, "riak-admin");
    say(
        &format!("{begins}Commands of riak-admin that are answered: {}", names.join(", ")),
        unknown.is_none(),
    )
}

fn begins(unknown: Option<&str>, program: &str) -> String {
    unknown.map_or(String::new(), |word| format!("{word} is not a command of {program}. "))
}

fn help_of_riak(unknown: Option<&str>) -> Translation {
    let begins = begins(unknown, "riak");
    let text = "Commands of riak that are answered: admin, repl, ping, console, foreground, version, \
        chkconfig, config, start, daemon, stop, restart, reboot, getpid, pid, attach, remote_console, top, \
        debug, ertspath";
    say(&format!("{begins}{text}"), unknown.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    /// All commands of riak-admin from Riak 1.4 to 3.4.
    const ADMIN: &str = "cluster down member-status ring-status ringready join leave remove force-remove \
        transfers transfer-limit handoff status stat vnode-status aae-status diag services wait-for-service \
        top cluster-info ensemble-status test bucket-type security describe show set repair-2i \
        reformat-indexes downgrade-objects reip reip_manual erl-reload js-reload backup restore search repl";

    const RIAK: &str = "start daemon stop restart reboot ping console foreground attach remote_console \
        version \
        getpid pid chkconfig config top ertspath admin repl debug";

    #[test]
    fn every_command_of_riak_is_run_or_answered_in_words() {
        for command in ADMIN.split_whitespace() {
            let spelled = [command.to_owned(), command.replace('-', "_")];
            for command in spelled {
                if let Translation::Say { text, .. } = riak_admin(&words(&command)) {
                    assert!(!text.contains("is not a command of"), "{command}: {text}");
                }
            }
        }
        for command in RIAK.split_whitespace() {
            if let Translation::Say { text, .. } = riak(&words(command)) {
                assert!(!text.contains("is not a command of"), "{command}: {text}");
            }
        }
    }

    #[test]
    fn the_page_for_users_of_riak_has_every_command() {
        let page = include_str!("../../../../docs/coming-from-riak.md");
        for command in ADMIN.split_whitespace().chain(RIAK.split_whitespace()) {
            let spelled = ["`", " "].map(|end| format!("`{command}{end}"));
            assert!(spelled.iter().any(|word| page.contains(word)), "{command}");
        }
    }

    #[test]
    fn an_answer_begins_with_the_command_that_was_given() {
        for command in ["start", "daemon", "restart", "pid", "remote_console"] {
            let Translation::Say { text, .. } = riak(&words(command)) else {
                panic!("{command} is run")
            };
            assert!(text.starts_with(&format!("{command}: ")), "{text}");
        }
    }

    #[test]
    fn questions_take_the_words_behind_them() {
        let asked = riak_admin(&words("diag disk -d info"));
        assert_eq!(asked, Translation::Ask(NodeQuery::Diag, words("disk -d info")));
        let asked = riak(&words("top -lines 5"));
        assert_eq!(asked, Translation::Ask(NodeQuery::Top, words("-lines 5")));
    }

    #[test]
    fn the_address_of_a_node_may_stand_anywhere() {
        let cases = [
            ("--url h:1 member-status", "admin --url h:1 member-status"),
            ("security status --url h:1", "admin --url h:1 security status"),
            ("--url=h:1 repl status", "repl --url h:1 status"),
            ("set transfer_limit=4 --url h:1", "admin --url h:1 transfer-limit 4"),
            ("describe transfer_limit --url h:1", "config describe transfer_limit"),
        ];
        for (line, expected) in cases {
            assert_eq!(riak_admin(&words(line)), Translation::Run(words(expected)), "{line}");
        }
        let asked = riak_admin(&words("--url h:1 diag disk"));
        assert_eq!(asked, Translation::Ask(NodeQuery::Diag, words("disk --url h:1")));
        assert_eq!(riak_admin(&words("test --url h:1")), Translation::Test("h:1".to_owned()));
    }

    #[test]
    fn lines_that_scripts_use_become_lines_of_quoit() {
        let cases = [
            ("cluster join riak@10.0.0.1", "admin cluster join riak@10.0.0.1"),
            ("cluster plan", "admin cluster plan"),
            ("member_status", "admin member-status"),
            ("wait-for-service riak_kv riak@h", "admin wait-for-service riak_kv riak@h"),
            ("bucket-type create t {\"props\":{}}", "admin bucket-type create t {\"props\":{}}"),
            ("transfer_limit 4", "admin transfer-limit 4"),
            ("set transfer_limit=4", "admin transfer-limit 4"),
            ("set handoff.inbound=off", "admin handoff disable inbound"),
            ("describe transfer_limit --node n", "config describe transfer_limit"),
            ("show transfer_limit handoff.inbound --all", "admin handoff config --all"),
            ("show handoff.outbound -n r@h", "admin handoff config --node r@h"),
            ("show", "config show"),
            ("handoff disable both --all", "admin handoff disable both --all"),
        ];
        for (line, expected) in cases {
            assert_eq!(riak_admin(&words(line)), Translation::Run(words(expected)), "{line}");
        }
        assert_eq!(riak(&words("admin status")), Translation::Run(words("admin status")));
        assert_eq!(
            riak(&words("chkconfig riak.conf")),
            Translation::Run(words("config check riak.conf"))
        );
    }

    #[test]
    fn a_ping_takes_the_name_of_a_node_and_options() {
        let cases = [
            ("ping", "admin ping", None),
            ("ping riak@h", "admin ping", Some("riak@h")),
            ("ping riak@h --url h:1", "admin --url h:1 ping", Some("h:1")),
            ("ping --user u riak@h", "admin ping --user u", Some("riak@h")),
        ];
        for (line, expected, node) in cases {
            let node = node.map(str::to_owned);
            let expected = Translation::Ping { line: words(expected), node };
            assert_eq!(riak(&words(line)), expected, "{line}");
            assert_eq!(riak_admin(&words(line)), expected, "{line}");
        }
    }

    #[test]
    fn a_check_of_the_configuration_needs_no_file() {
        assert_eq!(riak(&words("chkconfig")), Translation::CheckConfig);
    }

    #[test]
    fn a_command_that_never_was_is_a_failure_that_lists_the_others() {
        let Translation::Say { text, is_success } = riak_admin(&words("frobnicate")) else {
            panic!("not run");
        };
        assert!(!is_success && text.contains("member-status"), "{text}");
        assert!(text.starts_with("frobnicate is not a command of riak-admin."), "{text}");
    }
}
