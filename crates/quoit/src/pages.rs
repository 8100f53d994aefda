//! Output for packages and shells: version, completions, manual pages.

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::OnceLock;

/// The version, with the commit if the build was given `BUILD_COMMIT`.
pub(crate) fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let commit = option_env!("BUILD_COMMIT").filter(|commit| !commit.is_empty());
        format!(
            "{} (commit {})",
            env!("CARGO_PKG_VERSION"),
            commit.unwrap_or("not told at the build")
        )
    })
}

/// Print shell completions of the command line.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  quoit completions bash > /etc/bash_completion.d/quoit\n  \
                        quoit completions fish > ~/.config/fish/completions/quoit.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Prints completions.
pub(crate) fn completions(args: &CompletionsArgs, mut tree: Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut tree, "quoit", &mut script);
    print(&script)
}

/// Print the manual page, or write the pages of all commands to a directory.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  quoit man | man -l -\n  quoit man --dir /usr/local/share/man/man1"
)]
pub(crate) struct ManArgs {
    /// Directory for one page for each command; it is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints or writes manual pages.
pub(crate) fn man(args: &ManArgs, tree: Command) -> Result<()> {
    let Some(directory) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(tree).render(&mut page)?;
        return print(&page);
    };
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(tree, directory))
        .with_context(|| format!("can't write manual pages into {}", directory.display()))
}

/// Prints bytes. A closed standard output is not an error.
fn print(bytes: &[u8]) -> Result<()> {
    match io::stdout().lock().write_all(bytes) {
        Err(fault) if fault.kind() != ErrorKind::BrokenPipe => Err(fault.into()),
        _ => Ok(()),
    }
}
