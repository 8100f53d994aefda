//! `quoit status`: the whole cluster on one screen, and the problems that need attention.

mod attention;
mod screen;

use crate::api::{Answer, Api};
use crate::format::Format;
use crate::output;
use crate::say;
use crate::target::TargetArgs;
use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::thread::sleep;
use std::time::Duration;

/// Default number of seconds between two screens.
const WATCH_SECS: &str = "2";
/// Escape sequences that clear the terminal and its scrollback.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J\x1b[3J";

/// Show the cluster on one screen: nodes, load, sizes, transfers, and problems that need attention.
///
/// With --check, the exit status is 1 if something needs attention.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  quoit status\n  quoit status --watch\n  quoit status --check --format json"
)]
pub struct StatusArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Refresh the screen every SECS seconds (2 if not given) until Ctrl-C.
    #[arg(long, value_name = "SECS", num_args = 0..=1, default_missing_value = WATCH_SECS,
          value_parser = clap::value_parser!(u64).range(1..))]
    watch: Option<u64>,
    /// Exit with status 1 if something needs attention.
    #[arg(long, conflicts_with = "watch")]
    check: bool,
    /// Output format.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// Shows the cluster.
///
/// # Errors
///
/// No node answers; with `--check`, something needs attention.
pub fn status(args: &StatusArgs) -> Result<()> {
    let api = Api::new(&args.target);
    let Some(secs) = args.watch else {
        let overview = overview(&api)?;
        let found = attention::of(&overview);
        show(&overview, &found, args.format);
        if args.check && !found.is_empty() {
            bail!("{} things need attention", found.len());
        }
        return Ok(());
    };
    loop {
        let overview = overview(&api)?;
        if std::io::stdout().is_terminal() {
            output::bytes(CLEAR);
        }
        show(&overview, &attention::of(&overview), args.format);
        if output::is_gone() {
            return Ok(());
        }
        sleep(Duration::from_secs(secs));
    }
}

fn overview(api: &Api) -> Result<Value> {
    match api.get("overview")? {
        Answer::Done(overview) => Ok(overview),
        Answer::Refused { message, .. } => bail!("{message}"),
    }
}

fn show(overview: &Value, found: &[attention::Finding], format: Format) {
    match format {
        Format::Human => say!("{}", screen::of(overview, found)),
        Format::Json => {
            let mut overview = overview.clone();
            let found =
                found.iter().map(|each| json!({"problem": each.problem, "remedy": each.remedy}));
            if let Some(overview) = overview.as_object_mut() {
                overview.insert("attention".to_owned(), found.collect());
            }
            say!("{overview}");
        }
    }
}
