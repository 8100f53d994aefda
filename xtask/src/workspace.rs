//! The workspace as cargo describes it: packages, targets and dependencies.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A package of the workspace.
pub struct Package {
    pub name: String,
    /// Path of the manifest, `Cargo.toml`.
    pub manifest: PathBuf,
    /// Names of the packages that the package's code and build script use. Dependencies of tests only are
    /// left out.
    pub dependencies: Vec<String>,
    /// The dependencies that are compiled with the feature `testing`.
    pub testing_dependencies: Vec<String>,
    pub targets: Vec<Target>,
}

/// One crate of a package: library, program, test, example or benchmark.
pub struct Target {
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "tests hold the benchmarks to the targets' names")
    )]
    pub name: String,
    /// The kind in cargo's terms, for example `lib`, `bin` or `test`.
    pub kind: String,
    /// The root source file of the crate.
    pub root_file: PathBuf,
}

/// Asks cargo for the packages of the workspace at `root`.
pub fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    parse(&output.stdout).ok_or_else(|| "cargo metadata printed what is no metadata".to_string())
}

fn parse(json: &[u8]) -> Option<Vec<Package>> {
    let metadata: Value = serde_json::from_slice(json).ok()?;
    metadata["packages"].as_array()?.iter().map(package).collect()
}

fn package(json: &Value) -> Option<Package> {
    let all = json["dependencies"].as_array()?;
    let of_code = || all.iter().filter(|dependency| dependency["kind"] != "dev");
    let has_testing = |dependency: &&Value| {
        let features = dependency["features"].as_array();
        features.is_some_and(|features| features.iter().any(|feature| feature == "testing"))
    };
    let name = |dependency: &Value| dependency["name"].as_str().map(str::to_string);
    let dependencies = of_code().filter_map(name).collect();
    let testing_dependencies = of_code().filter(has_testing).filter_map(name).collect();
    let targets = json["targets"].as_array()?.iter().map(target).collect::<Option<Vec<_>>>()?;
    Some(Package {
        name: json["name"].as_str()?.to_string(),
        manifest: json["manifest_path"].as_str()?.into(),
        dependencies,
        testing_dependencies,
        targets,
    })
}

fn target(json: &Value) -> Option<Target> {
    Some(Target {
        name: json["name"].as_str()?.to_string(),
        kind: json["kind"][0].as_str()?.to_string(),
        root_file: json["src_path"].as_str()?.into(),
    })
}
