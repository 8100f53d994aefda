//! The files that a package has.

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder};
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Version of everything in the workspace.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// A sentence on what it is.
pub(crate) const SUMMARY: &str = "distributed key-value store that speaks Riak KV's protocols";
/// Text that a package manager shows of it.
pub(crate) const DESCRIPTION: &str = "\
     Quoit is a Dynamo-class key-value store: any node takes any request, a key lives on several \
     nodes, writes go on through failures of nodes and networks, and concurrent writes are kept as \
     siblings or merged by data types. Clients of Riak KV work unchanged.";
/// Address of the project.
pub(crate) const HOMEPAGE: &str = env!("CARGO_PKG_REPOSITORY");

/// Time of all files, in seconds since 1970, so that the same input gives the same bytes. Debian takes files
/// from before 1975 for a mistake.
pub(crate) const FILES_UNIX_SECS: u32 = 1_767_225_600;
/// Changes of the package in Debian's form; those of the program are in `NEWS.gz`.
const CHANGELOG: &str = concat!(
    "quoit (",
    env!("CARGO_PKG_VERSION"),
    ") unstable; urgency=medium\n\n  * Changes of the program: see NEWS.gz.\n\n -- the authors of Quoit \
     <quoit@example.invalid>  Thu, 01 Jan 2026 00:00:00 +0000\n"
);
/// Debian's form of the licence, whose text every Debian system has.
const COPYRIGHT: &str = concat!(
    "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: quoit\n\
     Source: ",
    env!("CARGO_PKG_REPOSITORY"),
    "\n\nFiles: *\nCopyright: 2026 the authors of Quoit\nLicense: Apache-2.0\n On Debian systems the text \
     is in /usr/share/common-licenses/Apache-2.0.\n .\n The licences of all crates in the program are in \
     third-party-licences.gz.\n"
);
/// Habits of Debian that the package leaves on purpose: it is linked statically so that one binary runs on
/// every Linux, and its scripts call systemctl themselves, since no helper of Debian's build tools is there.
const OVERRIDES: &str = "\
quoit: statically-linked-binary *
quoit: maintainer-script-calls-systemctl *
";

/// A file.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Where it goes, with a slash at the beginning.
    pub(crate) path: String,
    /// Its content.
    pub(crate) bytes: Vec<u8>,
    /// Its permissions.
    pub(crate) mode: u32,
    /// Whether the operator may change it, so that an upgrade leaves it alone.
    pub(crate) is_config: bool,
}

/// Everything that is installed.
#[derive(Debug)]
pub(crate) struct Contents {
    /// The files, by path.
    pub(crate) entries: Vec<Entry>,
    /// Architecture in the words of rustc, for example `x86_64`.
    pub(crate) arch: &'static str,
}

impl Contents {
    /// Gathers the files around a binary.
    pub(crate) fn gather(binary: &Path, root: &Path, licences: &str) -> Result<Self> {
        let mut entries = Vec::new();
        let mut add = |path: &str, bytes: Vec<u8>, mode: u32, is_config: bool| {
            entries.push(Entry { path: path.to_owned(), bytes, mode, is_config });
        };
        let read =
            |path: &str| std::fs::read(root.join(path)).with_context(|| format!("reading {path}"));
        add("/usr/bin/quoit", std::fs::read(binary)?, 0o755, false);
        add("/etc/quoit/quoit.conf", said(binary, ["config", "init", "--print"])?, 0o644, true);
        add(
            "/usr/lib/systemd/system/quoit.service",
            read("packaging/systemd/quoit.service")?,
            0o644,
            false,
        );
        add(
            "/usr/lib/sysusers.d/quoit.conf",
            read("packaging/systemd/sysusers.conf")?,
            0o644,
            false,
        );
        for (shell, path) in [
            ("bash", "/usr/share/bash-completion/completions/quoit"),
            ("fish", "/usr/share/fish/vendor_completions.d/quoit.fish"),
            ("zsh", "/usr/share/zsh/vendor-completions/_quoit"),
        ] {
            add(path, said(binary, ["completions", shell])?, 0o644, false);
        }
        add("/usr/share/doc/quoit/NEWS.gz", packed(&read("CHANGELOG.md")?)?, 0o644, false);
        add("/usr/share/doc/quoit/changelog.gz", packed(CHANGELOG.as_bytes())?, 0o644, false);
        add("/usr/share/doc/quoit/copyright", COPYRIGHT.into(), 0o644, false);
        add("/usr/share/lintian/overrides/quoit", OVERRIDES.into(), 0o644, false);
        add(
            "/usr/share/doc/quoit/third-party-licences.gz",
            packed(licences.as_bytes())?,
            0o644,
            false,
        );
        for (name, page) in pages(binary)? {
            add(&format!("/usr/share/man/man1/{name}.gz"), packed(&page)?, 0o644, false);
        }
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Self { entries, arch: std::env::consts::ARCH })
    }

    /// The directories above the files, each after those that it is in.
    pub(crate) fn directories(&self) -> Vec<String> {
        let mut all = std::collections::BTreeSet::new();
        for entry in &self.entries {
            let mut path = entry.path.as_str();
            while let Some((above, _)) =
                path.rsplit_once('/').filter(|(above, _)| !above.is_empty())
            {
                all.insert(above.to_owned());
                path = above;
            }
        }
        all.into_iter().collect()
    }
}

/// The output of a command of the program itself.
fn said<'a>(binary: &Path, words: impl IntoIterator<Item = &'a str>) -> Result<Vec<u8>> {
    let words: Vec<&str> = words.into_iter().collect();
    let output = Command::new(binary)
        .args(&words)
        .output()
        .with_context(|| format!("running {}", binary.display()))?;
    if !output.status.success() {
        bail!("{} {words:?}: {}", binary.display(), String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// The manual pages of the program, by name.
fn pages(binary: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let directory = std::env::temp_dir().join(format!("quoit-man-{}", std::process::id()));
    let made = said(
        binary,
        ["man", "--dir", directory.to_str().context("a directory with a plain name")?],
    );
    let read = made.and_then(|_| {
        let mut pages = Vec::new();
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.extension() == Some(OsStr::new("1")) {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                pages.push((name, std::fs::read(&path)?));
            }
        }
        Ok(pages)
    });
    // What is left behind is found in the system's directory for such things.
    let _ = std::fs::remove_dir_all(&directory);
    read
}

/// Compressed without the time, so that the same input gives the same bytes.
pub(crate) fn packed(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut writer = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}
