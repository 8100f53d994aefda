//! The real program as a node.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A node of its own for one test; it ends with its handle.
pub struct Node {
    child: Child,
    /// Address for Protocol Buffers.
    pub pb: String,
    /// Address for HTTP.
    #[allow(dead_code, reason = "not every test speaks HTTP")]
    pub http: String,
    _dir: tempfile::TempDir,
}

impl Node {
    /// Starts a node on free ports and waits until it serves.
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ready = dir.path().join("ready");
        let mut child = Command::new(env!("CARGO_BIN_EXE_quoit"))
            .args(["serve", "--pb", "127.0.0.1:0", "--http", "127.0.0.1:0", "--node"])
            .args(["127.0.0.1:0", "--data-dir"])
            .arg(dir.path().join("data"))
            .arg("--ready-file")
            .arg(&ready)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
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
        Self { child, pb: address("pb"), http: address("http"), _dir: dir }
    }

    /// Makes a bucket type with these properties, a JSON object.
    #[allow(dead_code, reason = "not every test needs bucket types")]
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

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
