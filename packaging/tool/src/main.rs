//! Makes packages and images of a built Quoit: a deb, an rpm, an OCI image, and the list of licences.
//!
//!     cargo run --package quoit-package -- --binary target/dist/quoit --out target/package
//!
//! Everything comes from the binary itself (manual pages, completions, the commented configuration), from
//! `packaging/`, and from what cargo knows of the crates that are in it. No daemon and no other tool is
//! needed, and the same input gives the same bytes.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod contents;
mod deb;
mod licences;
mod oci;
mod rpm_file;

use anyhow::{Context, Result, bail};
use clap::Parser;
use contents::Contents;
use std::path::{Path, PathBuf};

/// Make packages of a built Quoit.
#[derive(Parser)]
struct Args {
    /// The program, as it was built.
    #[arg(long, default_value = "target/dist/quoit")]
    binary: PathBuf,
    /// Directory of the packages.
    #[arg(long, default_value = "target/package")]
    out: PathBuf,
    /// Only these; all by default.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Kind>,
}

/// A kind of package.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// For Debian and its kin.
    Deb,
    /// For Red Hat and its kin.
    Rpm,
    /// An image for containers, as an OCI layout in a tar file.
    Oci,
    /// The licences of all crates in the program.
    Licences,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let wants = |kind: Kind| args.only.is_empty() || args.only.contains(&kind);
    if !args.binary.is_file() {
        bail!(
            "{} is not there: build it with `cargo build --profile dist --package quoit`, or name another \
             with \
             --binary",
            args.binary.display()
        );
    }
    std::fs::create_dir_all(&args.out).with_context(|| format!("making {}", args.out.display()))?;
    let root = workspace_root()?;
    let licences = licences::text(&root)?;
    let contents = Contents::gather(&args.binary, &root, &licences)?;
    if wants(Kind::Licences) {
        write(&args.out.join("THIRD-PARTY-LICENCES.txt"), licences.as_bytes())?;
    }
    if wants(Kind::Deb) {
        let (name, bytes) = deb::build(&contents, &root.join("packaging/debian"))?;
        write(&args.out.join(name), &bytes)?;
    }
    if wants(Kind::Rpm) {
        let (name, bytes) = rpm_file::build(&contents)?;
        write(&args.out.join(name), &bytes)?;
    }
    if wants(Kind::Oci) {
        let (name, bytes) = oci::build(&contents)?;
        write(&args.out.join(name), &bytes)?;
    }
    Ok(())
}

/// The directory of the repository.
fn workspace_root() -> Result<PathBuf> {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = tool
        .parent()
        .and_then(Path::parent)
        .context("the tool lies two directories below the root")?;
    Ok(root.to_owned())
}

#[expect(clippy::print_stdout, reason = "what a chore has made is its output")]
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))?;
    println!("{}  {} bytes", path.display(), bytes.len());
    Ok(())
}
