//! `quoit admin cluster init`, `token` and `tls`: the cluster's certificate authority, join tokens, and the
//! security of connections between nodes.

use super::{Api, document_of, plain, print, segment};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use quoit_cli::{Format, value_at};
use serde_json::{Value, json};
use std::fmt::Write;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Environment variable that may contain the token.
const TOKEN_VARIABLE: &str = "QUOIT_JOIN_TOKEN";

/// Source of the join token. The command line is not one, because other users of the machine can see it.
#[derive(Args, Debug)]
pub(crate) struct TokenSource {
    /// File with the join token that `quoit admin cluster token` on a member has printed; - reads standard
    /// input [default: the variable QUOIT_JOIN_TOKEN, if it is set].
    #[arg(long, alias = "token", value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl TokenSource {
    /// The token, if one is given.
    pub(super) fn read(&self) -> Result<Option<String>> {
        let text = match &self.token_file {
            Some(file) if file.as_os_str() == "-" => {
                std::io::read_to_string(std::io::stdin()).context("reading the token")?
            }
            Some(file) => {
                warn_of_readers(file);
                std::fs::read_to_string(file).with_context(|| {
                    format!(
                        "reading the join token from {} (--token-file takes a file)",
                        file.display()
                    )
                })?
            }
            None => match std::env::var(TOKEN_VARIABLE) {
                Ok(token) => token,
                Err(_) => return Ok(None),
            },
        };
        let token = text.trim();
        if token.is_empty() {
            bail!("the join token is empty: make one with `quoit admin cluster token` on a member");
        }
        Ok(Some(token.to_owned()))
    }
}

/// Warns about a token file that other users of the machine may read. The token is used anyway: shells
/// create files with such permissions, and tokens are short-lived.
fn warn_of_readers(file: &Path) {
    if std::fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o004 != 0) {
        let _ = writeln!(
            std::io::stderr(),
            "warning: every user of the machine may read the token in {}: chmod o-rwx",
            file.display()
        );
    }
}

#[derive(Args, Debug)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: Option<TokenCommand>,
    /// Lifetime of the token: 60s to 30d.
    #[arg(long, default_value = "1h", value_parser = lifetime)]
    ttl: Duration,
    /// Number of nodes that may join with it.
    #[arg(long, default_value_t = 1)]
    nodes: u32,
}

#[derive(Subcommand, Debug)]
enum TokenCommand {
    /// List the valid tokens, without their secrets.
    List,
    /// Revoke a token.
    Revoke {
        /// Id of the token, as in the list.
        id: String,
    },
}

#[derive(Args, Debug)]
pub(crate) struct TlsArgs {
    #[command(subcommand)]
    command: Option<TlsCommand>,
}

#[derive(Subcommand, Debug)]
enum TlsCommand {
    /// Replace the certificate authority and all certificates by new ones, step by step, without
    /// interrupting connections.
    Rotate,
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let (number, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let secs = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err("a number with s, m, h or d, such as 30m or 2d".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "a number with s, m, h or d".to_owned())?;
    Ok(Duration::from_secs(number.saturating_mul(secs)))
}

/// Creates the certificate authority.
pub(super) fn init(api: &Api, format: Format) -> Result<()> {
    let answer = document_of(api.post("cluster/tls/init", None)?, format)?;
    print(&answer, format, |document| plain(&document["message"]));
    Ok(())
}

/// Creates, lists or revokes tokens.
pub(super) fn token(api: &Api, args: &TokenArgs, format: Format) -> Result<()> {
    match &args.command {
        None => {
            let body = json!({ "nodes": args.nodes, "secs": args.ttl.as_secs() });
            let answer = document_of(api.post("cluster/tls/tokens", Some(&body))?, format)?;
            // Only the token on standard output, because it is redirected to a file or a variable.
            print(&answer, format, |document| plain(&document["token"]));
        }
        Some(TokenCommand::List) => {
            let answer = document_of(api.get("cluster/tls")?, format)?;
            print(value_at(&answer, "/tokens"), format, tokens);
        }
        Some(TokenCommand::Revoke { id }) => {
            let path = format!("cluster/tls/tokens/{}", segment(id));
            let answer = document_of(api.delete(&path)?, format)?;
            print(&answer, format, |document| plain(&document["message"]));
        }
    }
    Ok(())
}

/// Prints the security of connections, or begins a rotation.
pub(super) fn tls(api: &Api, args: &TlsArgs, format: Format) -> Result<()> {
    match args.command {
        None => {
            let answer = document_of(api.get("cluster/tls")?, format)?;
            print(&answer, format, shown);
        }
        Some(TlsCommand::Rotate) => {
            let answer = document_of(api.post("cluster/tls/rotate", None)?, format)?;
            print(&answer, format, |document| plain(&document["message"]));
        }
    }
    Ok(())
}

fn tokens(tokens: &Value) -> String {
    let mut text = String::new();
    for token in tokens.as_array().into_iter().flatten() {
        let (id, left, end) = (plain(&token["id"]), &token["uses_left"], plain(&token["expires"]));
        _ = writeln!(text, "{id}  for {left} more nodes until {end}");
    }
    if text.is_empty() { "No tokens".to_owned() } else { text.trim_end().to_owned() }
}

fn shown(document: &Value) -> String {
    let mut text = format!("internode.tls = {} on this node\n", plain(&document["mode"]));
    for authority in document["authorities"].as_array().into_iter().flatten() {
        let issues = if authority["issues"] == true { ", issues certificates" } else { "" };
        let (id, end) = (plain(&authority["id"]), plain(&authority["expires"]));
        _ = writeln!(text, "authority {id} until {end}{issues}");
    }
    if document["authorities"].as_array().is_none_or(Vec::is_empty) {
        text.push_str("no authority yet: make one with `quoit admin cluster init`\n");
    }
    let waits = list(&document["rotation_waits_for"]);
    if !waits.is_empty() {
        _ = writeln!(text, "the rotation waits for {waits}");
    }
    for member in document["members"].as_array().into_iter().flatten() {
        let certificate = match member["expires"].as_str() {
            Some(end) => format!("certificate of {} until {end}", plain(&member["authority"])),
            None => "no certificate yet".to_owned(),
        };
        let link = match member["plain"].as_bool() {
            Some(true) => ", connected without TLS",
            Some(false) => ", connected",
            None => "",
        };
        _ = writeln!(text, "{}: {certificate}{link}", plain(&member["name"]));
    }
    for link in document["plain"].as_array().into_iter().flatten() {
        let reason =
            link["reason"].as_str().map_or_else(String::new, |reason| format!(" ({reason})"));
        let (host, count) = (plain(&link["host"]), &link["connections"]);
        _ = writeln!(text, "{host}: connections without TLS: {count}{reason}");
    }
    text.trim_end().to_owned()
}

fn list(names: &Value) -> String {
    let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_have_units() {
        assert_eq!(lifetime("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(lifetime("2d"), Ok(Duration::from_secs(172_800)));
        for wrong in ["", "5", "h", "1w", "-1h", "99999999999999999999h"] {
            assert!(lifetime(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mixed_cluster_is_shown_with_what_keeps_it_from_being_closed() {
        let text = shown(&json!({
            "mode": "both",
            "authorities": [{"id": "ab", "expires": "2036", "issues": true}],
            "rotation_waits_for": [],
            "members": [
                {"name": "a@h", "authority": "ab", "expires": "2027", "plain": null},
                {"name": "b@h", "authority": null, "expires": null, "plain": true},
            ],
            "plain": [{"host": "h", "connections": 3, "reason": null}],
        }));
        assert_eq!(
            text,
            "internode.tls = both on this node\nauthority ab until 2036, issues certificates\n\
             a@h: certificate of ab until 2027\nb@h: no certificate yet, connected without TLS\n\
             h: connections without TLS: 3"
        );
    }
}
