//! A package for Debian: an `ar` archive of two compressed `tar` archives.

use crate::contents::{Contents, DESCRIPTION, FILES_UNIX_SECS, HOMEPAGE, SUMMARY, VERSION, packed};
use anyhow::{Context, Result};
use md5::{Digest, Md5};
use std::path::Path;

/// Scripts of the package manager, from `packaging/debian`.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// Columns of the description.
const WIDTH: usize = 78;

/// Makes the package; gives its name, too.
pub(crate) fn build(contents: &Contents, scripts: &Path) -> Result<(String, Vec<u8>)> {
    let arch = match contents.arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let mut files = vec![("control", control(contents, arch).into_bytes(), 0o644)];
    let config: String = contents
        .entries
        .iter()
        .filter(|entry| entry.is_config)
        .map(|entry| format!("{}\n", entry.path))
        .collect();
    files.push(("conffiles", config.into_bytes(), 0o644));
    files.push(("md5sums", sums(contents).into_bytes(), 0o644));
    for name in SCRIPTS {
        let path = scripts.join(name);
        let script = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        files.push((name, script, 0o755));
    }
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes, mode) in files {
        append(&mut archive, &format!("./{name}"), &bytes, mode)?;
    }
    let control = packed(&archive.into_inner()?)?;
    let data = packed(&data(contents)?)?;
    let mut package = ar::Builder::new(Vec::new());
    for (name, bytes) in
        [("debian-binary", &b"2.0\n"[..]), ("control.tar.gz", &control), ("data.tar.gz", &data)]
    {
        let mut header = ar::Header::new(name.as_bytes().to_vec(), bytes.len() as u64);
        header.set_mode(0o100_644);
        package.append(&header, bytes)?;
    }
    Ok((format!("quoit_{VERSION}_{arch}.deb"), package.into_inner()?))
}

fn control(contents: &Contents, arch: &str) -> String {
    let bytes: usize = contents.entries.iter().map(|entry| entry.bytes.len()).sum();
    let mut text = format!(
        "Package: quoit\nVersion: {VERSION}\nArchitecture: {arch}\nMaintainer: the authors of Quoit \
         <quoit@example.invalid>\nInstalled-Size: {}\nSection: database\nPriority: optional\nHomepage: \
         {HOMEPAGE}\n\
         Description: {SUMMARY}\n",
        bytes.div_ceil(1024)
    );
    let mut line = String::new();
    for word in DESCRIPTION.split_whitespace() {
        if line.len() + word.len() + 1 > WIDTH {
            text.push_str(&format!("{line}\n"));
            line.clear();
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&format!("{line}\n"));
    text
}

fn sums(contents: &Contents) -> String {
    let files = contents.entries.iter().filter(|entry| !entry.is_config);
    let sums = files.map(|entry| {
        let digest: String =
            Md5::digest(&entry.bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{digest}  {}\n", entry.path.trim_start_matches('/'))
    });
    sums.collect()
}

fn data(contents: &Contents) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for directory in contents.directories() {
        let mut header = header(0, 0o755);
        header.set_entry_type(tar::EntryType::Directory);
        archive.append_data(&mut header, format!(".{directory}/"), &[][..])?;
    }
    for entry in &contents.entries {
        append(&mut archive, &format!(".{}", entry.path), &entry.bytes, entry.mode)?;
    }
    Ok(archive.into_inner()?)
}

fn header(size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(FILES_UNIX_SECS.into());
    header
}

fn append(archive: &mut tar::Builder<Vec<u8>>, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
    let mut header = header(bytes.len() as u64, mode);
    Ok(archive.append_data(&mut header, path, bytes)?)
}
