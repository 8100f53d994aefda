//! The licences of all crates that are in the program, with their texts.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Beginnings of the names of files that hold licences.
const FILES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];
/// The crate of the program.
const PROGRAM: &str = "quoit";

/// A list of the crates, and the text of every licence once.
pub(crate) fn text(root: &Path) -> Result<String> {
    let metadata = metadata(root)?;
    let mut list = String::from("Crates in the program, by name, with their licences\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages(&metadata)? {
        let part = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
        let (name, version) = (part("name"), part("version"));
        let licence = package["license"].as_str().unwrap_or("see the text below");
        list.push_str(&format!("{name} {version}: {licence}  {}\n", part("repository")));
        for text in texts_of(&part("manifest_path"))? {
            texts.entry(text).or_default().push(format!("{name} {version}"));
        }
    }
    for (text, names) in texts {
        list.push_str(&format!(
            "\n{}\n{}\n\n{}\n",
            "-".repeat(80),
            names.join(", "),
            text.trim_end()
        ));
    }
    Ok(list)
}

fn metadata(root: &Path) -> Result<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["metadata", "--format-version", "1", "--locked"]);
    command.args(["--filter-platform", &format!("{}-unknown-linux-gnu", std::env::consts::ARCH)]);
    let output = command.output().context("asking cargo for the crates")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The packages that the program is linked with, those of the workspace left out, by name.
fn packages(metadata: &Value) -> Result<Vec<&Value>> {
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = metadata["packages"].as_array().context("cargo tells packages")?;
    let members: BTreeSet<String> = list(&metadata["workspace_members"]).iter().map(text).collect();
    let nodes = list(&metadata["resolve"]["nodes"]);
    let nodes: BTreeMap<String, &Value> =
        nodes.iter().map(|node| (text(&node["id"]), node)).collect();
    let program =
        all.iter().find(|package| package["name"] == PROGRAM).context("there is the program")?;
    let (mut reached, mut waiting) = (BTreeSet::new(), vec![text(&program["id"])]);
    while let Some(id) = waiting.pop() {
        let Some(node) = nodes.get(&id).filter(|_| reached.insert(id.clone())) else { continue };
        for used in list(&node["deps"]) {
            // Those of tests and of the build are not in the program.
            if list(&used["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()) {
                waiting.push(text(&used["pkg"]));
            }
        }
    }
    let is_foreign = |package: &&Value| {
        let id = text(&package["id"]);
        reached.contains(&id) && !members.contains(&id)
    };
    let mut found: Vec<&Value> = all.iter().filter(is_foreign).collect();
    found.sort_by_key(|package| (text(&package["name"]), text(&package["version"])));
    Ok(found)
}

/// The texts of licences beside a manifest.
fn texts_of(manifest: &str) -> Result<Vec<String>> {
    let Some(directory) = Path::new(manifest).parent() else { return Ok(Vec::new()) };
    let mut texts = Vec::new();
    for entry in
        std::fs::read_dir(directory).with_context(|| format!("reading {}", directory.display()))?
    {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_file() && FILES.iter().any(|start| name.starts_with(start)) {
            texts.push(String::from_utf8_lossy(&std::fs::read(&path)?).replace("\r\n", "\n"));
        }
    }
    texts.sort();
    Ok(texts)
}
