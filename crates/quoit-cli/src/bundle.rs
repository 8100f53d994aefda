//! `quoit debug bundle`: collects in one file the information that support asks an operator for.

use crate::api::{Answer, Api, Call};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Number of bytes taken from the end of each log.
const LOG_BYTES_MAX: u64 = 16 << 20;
/// Documents of the administration API and the names of their files in the bundle.
const DOCUMENTS: [(&str, &str); 10] = [
    ("overview", "overview.json"),
    ("status", "status.json"),
    ("cluster", "cluster.json"),
    ("cluster/ring", "ring.json"),
    ("transfers", "transfers.json"),
    ("aae", "aae.json"),
    ("losses", "losses.json"),
    ("bucket-types", "bucket-types.json"),
    ("slow-log", "slow-log.json"),
    ("hot-keys", "hot-keys.json"),
];
/// Paths of the node's statistics and metrics, and the names of their files.
const TEXTS: [(&str, &str); 2] = [("stats", "stats.json"), ("metrics", "metrics.txt")];
/// Words that mark a setting as secret; the bundle leaves out the values of such settings.
const SECRETS: [&str; 6] = ["password", "secret", "token", "cookie", "private", "credential"];

/// Content of a bundle in addition to the node's answers.
#[derive(Debug, Default)]
pub struct BundleExtras {
    /// Text files with their names.
    pub texts: Vec<(String, String)>,
    /// Log files; the bundle contains the end of each.
    pub logs: Vec<PathBuf>,
}

/// A setting and its value.
#[derive(Clone, Copy, Debug)]
pub struct SettingValue<'v> {
    /// The setting.
    pub key: &'v str,
    /// Its value as text.
    pub value: &'v str,
}

impl<'v> SettingValue<'v> {
    /// Returns the value as the bundle may contain it: values of secret settings are replaced.
    #[must_use]
    pub fn without_secret(self) -> &'v str {
        let key = self.key.to_ascii_lowercase();
        if SECRETS.iter().any(|word| key.contains(word)) && !self.value.is_empty() {
            "(kept back)"
        } else {
            self.value
        }
    }
}

/// Writes a bundle; returns the names of its files.
///
/// The file `missing.txt` lists everything that could not be read. A node that does not answer is not an
/// error, because it is often the reason to write a bundle.
///
/// # Errors
///
/// The file exists already or cannot be written.
pub fn write(api: &Api, extras: BundleExtras, path: &Path) -> Result<Vec<String>> {
    let file = File::create_new(path).with_context(|| {
        format!("can't make {}; name another file with --output", path.display())
    })?;
    let mut bundle =
        Bundle { tar: tar::Builder::new(file), names: Vec::new(), missing: String::new() };
    for (document, name) in DOCUMENTS {
        match api.get(document) {
            Ok(Answer::Done(document)) => bundle.add(name, format!("{document:#}\n").as_bytes())?,
            Ok(Answer::Refused { message: reason, .. }) => {
                bundle.lacks(MissingFile { name, reason });
            }
            Err(fault) => bundle.lacks(MissingFile { name, reason: format!("{fault:#}") }),
        }
    }
    for (document, name) in TEXTS {
        match api.call(&Call { path: document.to_owned(), ..Call::default() }) {
            Ok(reply) if reply.status == 200 => bundle.add(name, &reply.body)?,
            Ok(reply) => bundle.lacks(MissingFile { name, reason: reply.text() }),
            Err(fault) => bundle.lacks(MissingFile { name, reason: format!("{fault:#}") }),
        }
    }
    for (name, text) in &extras.texts {
        bundle.add(name, text.as_bytes())?;
    }
    for log in &extras.logs {
        let name = format!("logs/{}", log.file_name().unwrap_or_default().to_string_lossy());
        match tail(log) {
            Ok(end) => bundle.add(&name, &end)?,
            Err(fault) => bundle.lacks(MissingFile { name: &name, reason: fault.to_string() }),
        }
    }
    bundle.finish().with_context(|| format!("can't write {}", path.display()))
}

/// A file that the bundle should have, and the reason why it could not be read.
struct MissingFile<'a> {
    name: &'a str,
    reason: String,
}

struct Bundle {
    tar: tar::Builder<File>,
    names: Vec<String>,
    missing: String,
}

impl Bundle {
    fn add(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(now);
        self.tar
            .append_data(&mut header, format!("quoit-debug/{name}"), content)
            .with_context(|| format!("can't add {name} to the bundle"))?;
        self.names.push(name.to_owned());
        Ok(())
    }

    fn lacks(&mut self, file: MissingFile<'_>) {
        let MissingFile { name, reason } = file;
        self.missing.push_str(&format!("{name}: {reason}\n"));
    }

    fn finish(mut self) -> Result<Vec<String>> {
        if !self.missing.is_empty() {
            let missing = std::mem::take(&mut self.missing);
            self.add("missing.txt", missing.as_bytes())?;
        }
        self.tar.into_inner()?.sync_all()?;
        Ok(self.names)
    }
}

/// Reads the end of a file.
fn tail(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(LOG_BYTES_MAX)))?;
    let mut end = Vec::new();
    file.take(LOG_BYTES_MAX).read_to_end(&mut end)?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    #[test]
    fn a_bundle_of_a_dead_node_has_the_rest_and_tells_what_is_missing() {
        let directory = tempfile::tempdir().expect("a directory");
        let log = directory.path().join("node.log");
        std::fs::write(&log, "a line\n").expect("it can be written");
        let path = directory.path().join("bundle.tar");
        let api = Api::of(vec![Target::of("127.0.0.1:1")]);
        let extras = || BundleExtras {
            texts: vec![("config.txt".into(), "ring_size = 64\n".into())],
            logs: vec![log.clone(), directory.path().join("no.log")],
        };
        let names = write(&api, extras(), &path).expect("it is written");
        assert_eq!(names, ["config.txt", "logs/node.log", "missing.txt"]);
        let mut archive = tar::Archive::new(File::open(&path).expect("it is there"));
        let mut texts = std::collections::BTreeMap::new();
        for entry in archive.entries().expect("an archive") {
            let mut entry = entry.expect("an entry");
            let name = entry.path().expect("a name").display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("text");
            texts.insert(name, text);
        }
        assert_eq!(texts["quoit-debug/logs/node.log"], "a line\n");
        let missing = &texts["quoit-debug/missing.txt"];
        assert!(missing.contains("status.json") && missing.contains("no.log"), "{missing}");
        let again = write(&api, extras(), &path).expect_err("it is there already");
        assert!(again.to_string().contains("--output"), "{again}");
    }

    #[test]
    fn secrets_stay_on_the_machine() {
        let shown = |key, value| SettingValue { key, value }.without_secret();
        assert_eq!(shown("cluster.token", "abc"), "(kept back)");
        assert_eq!(shown("ring_size", "64"), "64");
        assert_eq!(shown("tls.password", ""), "");
    }
}
