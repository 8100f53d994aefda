//! `security`: users, groups, sources of logins and grants, with the commands and tables of Riak.

use super::{Answer, Api, document_of, print, segment};
use anyhow::{Context, Result, bail};
use clap::Args;
use quoit_cli::{Format, say, value_at};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The list of commands of `quoit admin security`.
const USAGE: &str = "Usage: quoit admin security <command>

The following commands modify users and security ACLs:

    add-user <username> [<option>=<value> [...]]
    add-group <groupname> [<option>=<value> [...]]
    alter-user <username> <option> [<option>=<value> [...]]
    alter-group <groupname> <option> [<option>=<value> [...]]
    del-user <username>
    del-group <groupname>
    add-source all|<users> <CIDR> <source> [<option>=<value> [...]]
    del-source all|<users> <CIDR>
    grant <permissions> on any|<type> [bucket] to <users>
    revoke <permissions> on any|<type> [bucket] from <users>
    print-users
    print-groups
    print-user <user>
    print-group <group>
    print-grants <user|group>
    print-sources
    enable
    disable
    status
    ciphers [cipherlist]

Options of users: password=TEXT, or password-file=FILE or password-env=NAME, which keep it out of the list of
processes; password_hash=pbkdf2:sha:ITERATIONS:SALT:HASH as Riak stores it; groups=A,B. Sources: trust,
password, certificate. Permissions: riak_kv.get, .put, .delete, .index, .list_keys, .list_buckets, .mapreduce,
.get_preflist; riak_core.get_bucket, .set_bucket, .get_bucket_type, .set_bucket_type; quoit.changes, .fold,
.erase, .replicate, .layout, .observe, .operate.
";

/// Manages users, groups, sources of logins and grants.
///
/// Without a command it lists the commands.
#[derive(Args, Debug)]
pub(crate) struct SecurityArgs {
    /// The command and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    words: Vec<String>,
}

/// Executes a command.
pub(crate) fn security(api: &Api, args: &SecurityArgs, format: Format) -> Result<()> {
    let (words, format) = own_format(&args.words, format);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["help" | "--help" | "-h"] => {
            say!("{USAGE}");
            Ok(())
        }
        ["status"] => {
            let document = document_of(api.get("security")?, format)?;
            if format == Format::Human {
                warn(&document);
            }
            print(&document, format, status_text);
            Ok(())
        }
        ["print-users", ..] => show(api, "security/users", format, users_table),
        ["print-user", name] => {
            show(api, &format!("security/users/{}", segment(name)), format, users_table)
        }
        ["print-groups", ..] => show(api, "security/groups", format, groups_table),
        ["print-group", name] => {
            show(api, &format!("security/groups/{}", segment(name)), format, groups_table)
        }
        ["print-sources", ..] => show(api, "security/sources", format, sources_table),
        ["print-grants", name] => {
            show(api, &format!("security/grants/{}", segment(name)), format, grants_tables)
        }
        ["ciphers"] => show(api, "security/ciphers", format, ciphers_text),
        ["print-user", ..] => bail!("Usage: quoit admin security print-user <user>"),
        ["print-group", ..] => bail!("Usage: quoit admin security print-group <group>"),
        ["print-grants", ..] => bail!("Usage: quoit admin security print-grants <user|group>"),
        words => change(api, words, format),
    }
}

/// Splits `--format FORM` off the arguments: it is accepted both before and after the command.
fn own_format(words: &[String], format: Format) -> (Vec<String>, Format) {
    let (mut kept, mut format) = (Vec::new(), format);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--format=json" => format = Format::Json,
            "--format=human" => format = Format::Human,
            "--format" => match words.next().map(String::as_str) {
                Some("json") => format = Format::Json,
                _ => format = Format::Human,
            },
            _ => kept.push(word.clone()),
        }
    }
    (kept, format)
}

/// Prints the node's answer. An empty table prints nothing, as operators' scripts expect.
fn show(api: &Api, path: &str, format: Format, human: impl FnOnce(&Value) -> String) -> Result<()> {
    let document = document_of(api.get(path)?, format)?;
    match format {
        Format::Json => say!("{document}"),
        Format::Human => {
            let text = human(&document);
            if !text.is_empty() {
                say!("{text}");
            }
        }
    }
    Ok(())
}

fn change(api: &Api, words: &[&str], format: Format) -> Result<()> {
    let mut sent = Vec::new();
    for word in words {
        sent.push(with_password(word)?);
    }
    let document = match api.post("security", Some(&json!({ "command": sent })))? {
        Answer::Refused { message, document, .. } => {
            if format == Format::Json {
                say!("{document}");
            }
            bail!("{message}");
        }
        answer => document_of(answer, format)?,
    };
    warn(&document);
    let row = match words {
        ["add-user" | "alter-user", name, ..] => {
            Some((format!("security/users/{}", segment(name)), users_table as fn(&Value) -> String))
        }
        ["add-group" | "alter-group", name, ..] => {
            Some((format!("security/groups/{}", segment(name)), groups_table as _))
        }
        ["ciphers", ..] => Some(("security/ciphers".to_owned(), ciphers_text as _)),
        _ => None,
    };
    if let Some((path, table)) = row {
        return show(api, &path, format, table);
    }
    if format == Format::Json {
        say!("{document}");
        return Ok(());
    }
    match words {
        ["enable" | "disable"] => say!("{}", switched(value_at(&document, "/enabled"))),
        ["add-source", ..] => say!("Successfully added source"),
        ["del-source", ..] => say!("Deleted source"),
        ["grant", ..] => say!("Successfully granted"),
        ["revoke", ..] => say!("Successfully revoked"),
        ["del-user" | "del-group", name] => say!("Successfully deleted {}", name.to_lowercase()),
        _ => {}
    }
    Ok(())
}

/// Prints the node's warnings on the standard error.
fn warn(document: &Value) {
    for warning in document["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(std::io::stderr(), "warning: {warning}");
    }
}

/// Replaces an option with a password from a file or a variable by one with the password itself.
fn with_password(word: &str) -> Result<String> {
    if let Some(path) = word.strip_prefix("password-file=") {
        return Ok(format!("password={}", quoit_tls::load_password(Path::new(path))?));
    }
    if let Some(name) = word.strip_prefix("password-env=") {
        let text = std::env::var(name);
        let text = text.with_context(|| format!("the variable {name} holds no password"))?;
        return Ok(format!("password={text}"));
    }
    Ok(word.to_owned())
}

fn switched(is_enabled: &Value) -> String {
    if is_enabled == true { "Enabled" } else { "Disabled" }.to_owned()
}

/// Security status as Riak prints it, and the clients without TLS that are served anyway.
fn status_text(document: &Value) -> String {
    let mut text = switched(&document["enabled"]);
    if document["enabled"] != true || document["listener_tls"] != "both" {
        return text;
    }
    text += "\nlistener.tls = both: this node serves clients in clear without a login";
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    for client in document["clear_clients"].as_array().into_iter().flatten() {
        let (host, count) = (self::text(&client["host"]), &client["connections"]);
        let secs = now.saturating_sub(client["last_unix_secs"].as_u64().unwrap_or(now));
        text += &format!("\n{count} connections in clear from {host}, the last {secs} s ago");
    }
    text
}

/// Names in reverse order, in lines of about `width` characters, as Riak wraps them.
fn folded(names: &Value, width: usize) -> String {
    let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    let mut lines: Vec<Vec<&str>> = Vec::new();
    for name in names {
        match lines.last_mut() {
            Some(line)
                if name.len()
                    + line.iter().map(|each| each.len()).sum::<usize>()
                    + 2
                    + 2 * line.len()
                    <= width =>
            {
                line.insert(0, name);
            }
            _ => lines.push(vec![name]),
        }
    }
    lines.iter().map(|line| line.join(", ")).collect::<Vec<_>>().join(",\n")
}

fn options_text(options: &Value) -> String {
    let options = options.as_array().into_iter().flatten();
    let pairs = options.map(|pair| format!("{{{},{}}}", pair[0], pair[1]));
    format!("[{}]", pairs.collect::<Vec<_>>().join(","))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn users_table(document: &Value) -> String {
    let users = document["users"].as_array().into_iter().flatten();
    let rows = users.map(|user| {
        vec![
            text(&user["name"]),
            folded(&user["groups"], 20),
            text(&user["password"]),
            options_text(&user["options"]),
        ]
    });
    table(
        &[("username", 10), ("member of", 15), ("password", 40), ("options", 30)],
        &rows.collect::<Vec<_>>(),
    )
}

fn groups_table(document: &Value) -> String {
    let groups = document["groups"].as_array().into_iter().flatten();
    let rows = groups.map(|group| {
        let (name, options) = (text(&group["name"]), options_text(&group["options"]));
        vec![name, folded(&group["groups"], 20), options]
    });
    table(&[("group", 10), ("member of", 15), ("options", 30)], &rows.collect::<Vec<_>>())
}

/// Table of sources, with the users that share each. Longer prefixes come first, and sources for all users
/// last.
fn sources_table(document: &Value) -> String {
    let mut rows: Vec<(Value, Vec<Value>)> = Vec::new();
    let is_of_all = |users: &[Value]| users.first().is_some_and(|user| user == "all");
    for source in document["sources"].as_array().into_iter().flatten() {
        let mut shared = source.clone();
        let user = shared.get_mut("user").map(Value::take).unwrap_or_default();
        let is_all = user == "all";
        let mut others = rows.iter_mut();
        let known = others.find(|(known, users)| *known == shared && !is_all && !is_of_all(users));
        match known {
            Some((_, users)) => users.push(user),
            None => rows.push((shared, vec![user])),
        }
    }
    let prefix_bits = |source: &Value| {
        let bits = source["cidr"].as_str().and_then(|cidr| cidr.rsplit('/').next());
        bits.and_then(|bits| bits.parse::<u8>().ok()).unwrap_or_default()
    };
    rows.sort_by_key(|(source, users)| (std::cmp::Reverse(prefix_bits(source)), is_of_all(users)));
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|(source, users)| {
            vec![
                folded(&json!(users), 20),
                text(&source["cidr"]),
                text(&source["source"]),
                options_text(&source["options"]),
            ]
        })
        .collect();
    table(&[("users", 20), ("cidr", 10), ("source", 10), ("options", 10)], &rows)
}

fn grants_tables(document: &Value) -> String {
    let of = text(&document["of"]);
    let rows = |list: &Value, has_role: bool| -> Vec<Vec<String>> {
        let list = list.as_array().into_iter().flatten();
        list.map(|grant| {
            let mut row = vec![text(&grant["type"]), text(&grant["bucket"])];
            if has_role {
                row.insert(0, text(&grant["role"]));
            }
            row.push(folded(&grant["grants"], 40));
            row
        })
        .collect()
    };
    let columns = [("group", 20), ("type", 10), ("bucket", 10), ("grants", 40)];
    let mut parts = Vec::new();
    for (title, name, has_role) in [
        ("Inherited", "inherited", true),
        ("Dedicated", "dedicated", false),
        ("Cumulative", "cumulative", false),
    ] {
        let rows = rows(&document[name], has_role);
        if !rows.is_empty() {
            let columns = if has_role { &columns[..] } else { &columns[1..] };
            parts.push(format!("{title} permissions ({of})\n{}", table(columns, &rows)));
        }
    }
    parts.join("\n")
}

fn ciphers_text(document: &Value) -> String {
    let list = |name: &str| {
        let names = document[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.collect::<Vec<_>>()
    };
    let (valid, unknown) = (list("valid"), list("unknown"));
    let mut text = format!(
        "Configured ciphers\n\n{}\n\nValid ciphers({})\n\n{}\n",
        text(&document["configured"]),
        valid.len(),
        valid.join(":")
    );
    if !unknown.is_empty() {
        let count = unknown.len();
        text += &format!("\nUnknown/Unsupported ciphers({count})\n\n{}\n", unknown.join(":"));
    }
    text
}

/// A table with centred cells; empty if it has no rows. Columns are at least as wide as Riak's.
fn table(columns: &[(&str, usize)], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let longest = |cell: &str| cell.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(place, (_, width))| {
            let cells = rows.iter().filter_map(|row| row.get(place));
            cells.map(|cell| longest(cell)).fold(*width, usize::max)
        })
        .collect();
    let border: String = widths.iter().map(|width| format!("+{}", "-".repeat(*width))).collect();
    let mut lines = vec![String::new(), format!("{border}+")];
    let names: Vec<String> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    lines.extend(row_lines(&names, &widths));
    lines.push(format!("{border}+"));
    for row in rows {
        lines.extend(row_lines(row, &widths));
    }
    lines.push(format!("{border}+"));
    lines.push(String::new());
    lines.join("\n")
}

/// The lines of a row, as many as its tallest cell has.
fn row_lines(cells: &[String], widths: &[usize]) -> Vec<String> {
    let height = cells.iter().map(|cell| cell.lines().count()).max().unwrap_or(1).max(1);
    let line = |place: usize| {
        let parts = cells.iter().zip(widths).map(|(cell, width)| {
            let part = cell.lines().nth(place).unwrap_or_default();
            let free = width - part.chars().count();
            format!("|{}{part}{}", " ".repeat(free / 2), " ".repeat(free - free / 2))
        });
        format!("{}|", parts.collect::<String>())
    };
    (0..height).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn permissions_are_folded_as_riak_folds_them() {
        let all = json!([
            "riak_kv.get",
            "riak_kv.put",
            "riak_kv.delete",
            "riak_kv.index",
            "riak_kv.list_keys",
            "riak_kv.list_buckets",
            "riak_kv.mapreduce",
            "riak_kv.get_preflist"
        ]);
        assert_eq!(
            folded(&all, 40),
            "riak_kv.get, riak_kv.delete,\nriak_kv.index, riak_kv.get_preflist,\nriak_kv.list_buckets,\n\
             riak_kv.mapreduce, riak_kv.list_keys,\nriak_kv.put"
        );
        assert_eq!(folded(&json!(["bob", "carol"]), 20), "carol, bob");
    }

    #[test]
    fn tables_look_as_operators_know_them() {
        let users = json!({"users": [
            {"name": "alice", "groups": [], "password": "0".repeat(40), "options": [["colour", "red"]]}
        ]});
        let expected = "
+----------+---------------+----------------------------------------+------------------------------+
| username |   member of   |                password                |           options            |
+----------+---------------+----------------------------------------+------------------------------+
|  alice   |               |0000000000000000000000000000000000000000|      [{\"colour\",\"red\"}]      |
+----------+---------------+----------------------------------------+------------------------------+
";
        assert_eq!(users_table(&users), expected);
        assert_eq!(users_table(&json!({"users": []})), "");
    }

    #[test]
    fn the_status_names_clients_in_clear_where_they_are_served() {
        let clients = json!([{"host": "10.0.0.7", "connections": 3, "last_unix_secs": 1}]);
        let shown = |mode: &str, enabled: bool| {
            let document =
                json!({"enabled": enabled, "listener_tls": mode, "clear_clients": clients});
            status_text(&document)
        };
        assert_eq!(shown("required", true), "Enabled");
        assert_eq!(shown("both", false), "Disabled");
        let text = shown("both", true);
        assert!(text.starts_with("Enabled\nlistener.tls = both"), "{text}");
        assert!(text.contains("3 connections in clear from 10.0.0.7, the last "), "{text}");
    }

    #[test]
    fn users_that_share_a_source_share_a_row() {
        let sources = json!({"sources": [
            {"user": "all", "cidr": "127.0.0.1/32", "source": "password", "options": []},
            {"user": "bob", "cidr": "192.168.0.0/16", "source": "certificate", "options": []},
            {"user": "carol", "cidr": "192.168.0.0/16", "source": "certificate", "options": []}
        ]});
        let shown = sources_table(&sources);
        assert!(
            shown.contains("|     carol, bob     |192.168.0.0/16|certificate|    []    |"),
            "{shown}"
        );
        assert!(shown.find("all").unwrap() < shown.find("carol").unwrap(), "{shown}");
    }

    #[test]
    fn a_password_comes_from_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "secret\n").unwrap();
        let word = format!("password-file={}", file.path().display());
        assert_eq!(with_password(&word).unwrap(), "password=secret");
        assert!(with_password("password-file=/nowhere/at/all").is_err());
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
        let refused = with_password(&word).unwrap_err().to_string();
        assert!(refused.contains("chmod o-rwx"), "{refused}");
    }
}
