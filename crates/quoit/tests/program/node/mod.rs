//! A node process for tests.
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A node process of a single test. Dropping the handle kills the process.
pub struct Node {
    child: Child,
    /// Address of the Protocol Buffers listener.
    pub pb: String,
    /// Address of the HTTP listener.
    pub http: String,
    settings: Vec<String>,
    dir: tempfile::TempDir,
}

impl Node {
    /// Starts a node on free ports and waits until it is ready.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Like [`Node::start`], with settings in the form `KEY=VALUE`.
    pub fn start_with(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let (child, pb, http) = start(dir.path(), &settings);
        Self { child, pb, http, settings, dir }
    }

    /// Data directory of the node.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Shuts the node down gracefully.
    pub fn stop(&mut self) {
        let told = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(told.success());
        assert!(self.child.wait().unwrap().success(), "the node did not stop in good order");
    }

    /// Stops the node, gracefully or by killing it, and starts it again on its data.
    pub fn restart(&mut self, in_good_order: bool) {
        if in_good_order {
            self.stop();
        } else {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
        (self.child, self.pb, self.http) = start(self.dir.path(), &self.settings);
    }

    /// Starts the stopped node again.
    pub fn start_again(&mut self) {
        (self.child, self.pb, self.http) = start(self.dir.path(), &self.settings);
    }

    /// The settings `KEY=VALUE` that the node was given.
    pub fn settings(&self) -> &[String] {
        &self.settings
    }

    /// Replaces one of the settings for the next start.
    pub fn set(&mut self, number: usize, setting: &str) {
        self.settings[number] = setting.to_owned();
    }

    /// Starts the program on the data of this stopped node, which must fail; returns its output.
    pub fn refused(&self, settings: &[&str]) -> String {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let output = command(self.dir.path(), &settings).output().unwrap();
        assert!(!output.status.success(), "the node has started and stopped");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn run_admin(&self, words: &[&str]) -> Output {
        let url = format!("http://{}", self.http);
        let mut command = Command::new(env!("CARGO_BIN_EXE_quoit"));
        command.args(["admin", "--url", &url]).args(words).output().unwrap()
    }

    /// Runs an administration command that must succeed; returns its output.
    pub fn admin(&self, words: &[&str]) -> String {
        let output = self.run_admin(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs an administration command that must fail; returns its output.
    pub fn admin_refused(&self, words: &[&str]) -> String {
        let output = self.run_admin(words);
        assert!(!output.status.success(), "{words:?} was done");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Creates a bucket type with these properties, given as a JSON object.
    pub fn create_type(&self, name: &str, props: &str) {
        let props = format!("{{\"props\":{props}}}");
        let url = format!("http://{}", self.http);
        for words in [&["create", name, &props][..], &["activate", name]] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_quoit"));
            command.args(["admin", "--url", &url, "bucket-type"]).args(words);
            assert!(command.stdout(Stdio::null()).status().unwrap().success(), "{words:?}");
        }
    }
}

fn command(dir: &Path, settings: &Vec<String>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quoit"));
    command
        .args(["serve", "--pb", "127.0.0.1:0", "--http", "127.0.0.1:0", "--node"])
        .args(["127.0.0.1:0", "--data-dir"])
        .arg(dir.join("data"))
        .arg("--ready-file")
        .arg(dir.join("ready"));
    for setting in settings {
        command.arg("--set").arg(setting);
    }
    command
}

/// Starts the program; returns the process and the addresses of its Protocol Buffers and HTTP listeners.
fn start(dir: &Path, settings: &Vec<String>) -> (Child, String, String) {
    let ready = dir.join("ready");
    // A killed node leaves its ready file behind.
    let _ = std::fs::remove_file(&ready);
    let mut child = command(dir, settings).stdout(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    let record = loop {
        if let Ok(text) = std::fs::read_to_string(&ready) {
            break text;
        }
        assert_eq!(child.try_wait().unwrap(), None, "the node ended before it served");
        assert!(started.elapsed() < Duration::from_secs(60), "the node does not serve");
        std::thread::yield_now();
    };
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let address = |name: &str| record[name].as_str().unwrap().to_owned();
    (child, address("pb"), address("http"))
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
