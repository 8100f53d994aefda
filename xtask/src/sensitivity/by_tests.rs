//! `cargo xtask sensitivity --tests`: runs the tests of the crates that contain planted faults, with each
//! fault in turn, and reports the first test that notices it.
//!
//! This is mutation testing with hand-written mutations and a single build.

use super::Fault;
use super::options::Options;
use crate::soak;
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

/// The crates whose tests run. Crates whose tests are quick and most likely to notice come first.
const CRATES: [&str; 6] = [
    "quoit-model",
    "quoit-core",
    "quoit-cluster",
    "quoit-replication",
    "quoit-planted",
    "quoit-store",
];
/// The environment variable that plants a fault in a test program (`quoit_planted::VARIABLE`).
const VARIABLE: &str = "QUOIT_PLANTED_FAULT";
/// Time after which a test program counts as having noticed the fault. Sound programs take half a minute; a
/// fault may make a program run for ever.
const HANGS_AFTER: Duration = Duration::from_secs(300);

/// A test program, and the folder of its crate, in which it runs.
struct TestProgram {
    name: String,
    path: PathBuf,
    folder: PathBuf,
}

/// Runs the tests with each fault, and prints one row for each.
pub(super) fn measure(root: &Path, faults: &[Fault], options: &Options) -> Result<(), String> {
    let programs = build(root)?;
    let sound = first_failure(&programs, None)?;
    if let Some(test) = sound {
        return Err(format!("{test} fails without a planted fault: mend it first"));
    }
    let queue = Mutex::new(faults.iter());
    let next = || queue.lock().expect("a thread that panics ends the program").next();
    let rows = Mutex::new(Vec::new());
    let work = || -> Result<(), String> {
        while let Some(fault) = next() {
            let noticed = first_failure(&programs, Some(&fault.name))?;
            eprintln!("{}: {}", fault.name, noticed.as_deref().unwrap_or("no test notices"));
            rows.lock().expect("a thread that panics ends the program").push((fault, noticed));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.jobs).map(|_| scope.spawn(work)).collect();
        let mut ends = threads.into_iter().map(|thread| thread.join());
        ends.try_for_each(|end| end.expect("a worker that panics has said why"))
    })?;
    let mut rows = rows.into_inner().expect("a thread that panics ends the program");
    rows.sort_by_key(|(fault, _)| faults.iter().position(|other| other == *fault));
    print!("{}", table(&rows));
    Ok(())
}

fn table(rows: &[(&Fault, Option<String>)]) -> String {
    let mut text =
        "| area | fault | the first test that notices |\n| --- | --- | --- |\n".to_owned();
    for (fault, noticed) in rows {
        let noticed = noticed.as_ref().map_or("none".to_owned(), |test| format!("`{test}`"));
        text += &format!("| {} | `{}` | {noticed} |\n", fault.area, fault.name);
    }
    let unnoticed: Vec<&str> = rows
        .iter()
        .filter(|(_, noticed)| noticed.is_none())
        .map(|(fault, _)| fault.name.as_str())
        .collect();
    match unnoticed.is_empty() {
        true => text + "\nEach is noticed by a test.\n",
        false => text + &format!("\nNoticed by no test: {}.\n", unnoticed.join(", ")),
    }
}

/// Builds the same targets as the test command, so that both share the build. Returns the test programs of
/// [`CRATES`] in their order.
fn build(root: &Path) -> Result<Vec<TestProgram>, String> {
    let others = std::env::var("RUSTFLAGS").unwrap_or_default();
    let mut command = soak::cargo();
    command.current_dir(root).env("RUSTFLAGS", format!("{others} {}", soak::SIMULATOR_FLAGS));
    command.args(["build", "--workspace", "--lib", "--bins", "--tests"]);
    command.args(["--quiet", "--message-format=json"]);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo could not be started: {error}"))?;
    if !output.status.success() {
        return Err("the tests do not build".to_owned());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let mut programs: Vec<TestProgram> = said.lines().filter_map(program_of).collect();
    let place =
        |program: &TestProgram| CRATES.iter().position(|name| program.folder.ends_with(name));
    programs.retain(|program| place(program).is_some());
    programs.sort_by_key(place);
    Ok(programs)
}

/// Parses a line of cargo's output that names a test program.
fn program_of(line: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(line).ok()?;
    message.get("profile")?.get("test")?.as_bool().filter(|is_test| *is_test)?;
    let path = PathBuf::from(message.get("executable")?.as_str()?);
    let manifest = Path::new(message.get("manifest_path")?.as_str()?);
    let name = message.get("target")?.get("name")?.as_str()?.to_owned();
    Some(TestProgram { name, path, folder: manifest.parent()?.to_owned() })
}

/// Runs the programs with a fault, and returns the first test that fails; `None` if all pass.
fn first_failure(programs: &[TestProgram], fault: Option<&str>) -> Result<Option<String>, String> {
    for program in programs {
        if let Some(test) = run(program, fault)? {
            return Ok(Some(format!("{}::{test}", program.name)));
        }
    }
    Ok(None)
}

fn run(program: &TestProgram, fault: Option<&str>) -> Result<Option<String>, String> {
    let mut command = Command::new(&program.path);
    command.current_dir(&program.folder).args(["--quiet", "--test-threads=2"]);
    // Otherwise proptest would store the failing cases, and later runs would repeat them.
    command.env("PROPTEST_FAILURE_PERSISTENCE", "off").env_remove(VARIABLE);
    if let Some(fault) = fault {
        command.env(VARIABLE, fault);
    }
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.map_err(|error| format!("{}: {error}", program.path.display()))?;
    let said = child.stdout.take().expect("it is piped");
    let Some(text) = text_within(said, HANGS_AFTER) else {
        // The program may have ended already.
        let _ = child.kill();
        child.wait().map_err(|error| format!("{}: {error}", program.name))?;
        return Ok(Some("does not end".to_owned()));
    };
    let status = child.wait().map_err(|error| format!("{}: {error}", program.name))?;
    let failed = || failed_test(&text).unwrap_or("a crash").to_owned();
    Ok((!status.success()).then(failed))
}

/// Reads a program's output to its end. `None` if it does not end in time. Bytes that are not UTF-8 are
/// replaced.
fn text_within(mut output: impl Read + Send + 'static, limit: Duration) -> Option<String> {
    let (ended, end) = mpsc::channel();
    // The thread ends with the output. If nobody waits any more, the text is dropped.
    std::thread::spawn(move || {
        let mut said = Vec::new();
        // After a failed read, the text is the part that was read before.
        let _ = output.read_to_end(&mut said);
        let _ = ended.send(String::from_utf8_lossy(&said).into_owned());
    });
    end.recv_timeout(limit).ok()
}

/// The first name in the last "failures:" list of a test program's output.
fn failed_test(said: &str) -> Option<&str> {
    let (_, names) = said.rsplit_once("failures:\n")?;
    names.lines().find_map(|line| line.strip_prefix("    "))
}

#[cfg(test)]
mod tests {
    use super::super::tests::fault;
    use super::*;

    #[test]
    fn the_first_failed_test_is_named() {
        let lines = [
            "failures:",
            "",
            "---- a::b stdout ----",
            "no",
            "",
            "failures:",
            "    a::b",
            "    a::c",
        ];
        let said = lines.join("\n");
        assert_eq!(failed_test(&said), Some("a::b"));
        assert_eq!(failed_test("killed"), None);
    }

    #[test]
    fn output_that_is_no_text_has_an_end_too() {
        let said = text_within(&b"\xff\nfailures:\n    a::b\n"[..], HANGS_AFTER);
        assert_eq!(said.as_deref().and_then(failed_test), Some("a::b"));
    }

    #[test]
    fn output_that_goes_on_has_no_end() {
        let (output, _open) = std::io::pipe().unwrap();
        assert_eq!(text_within(output, Duration::from_millis(1)), None);
    }

    #[test]
    fn a_test_program_is_one_that_cargo_names() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/r/crates/quoit-core/Cargo.toml",
            "target":{"name":"transfers"},"profile":{"test":true},
            "executable":"/r/target/debug/deps/transfers-1"}"#;
        let program = program_of(line).unwrap();
        assert_eq!(
            (program.name.as_str(), program.folder),
            ("transfers", "/r/crates/quoit-core".into())
        );
        assert!(program_of(&line.replace("true", "false")).is_none(), "a program that is tested");
        assert!(program_of(r#"{"reason":"build-finished"}"#).is_none());
        assert!(program_of("no message").is_none());
    }

    #[test]
    fn the_table_tells_what_no_test_notices() {
        let (a, b) = (fault("a"), fault("b"));
        let table = table(&[(&a, Some("core::x".to_owned())), (&b, None)]);
        assert!(
            table.contains("| engine | `a` | `core::x` |\n| engine | `b` | none |\n"),
            "{table}"
        );
        assert!(table.ends_with("Noticed by no test: b.\n"), "{table}");
    }
}
