//! One node of a development cluster: a child process that runs `quoit serve`.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Instant, sleep};

/// Time limit for the start of a node.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Interval between checks for the ready file.
const START_POLL: Duration = Duration::from_millis(10);
/// Number of log lines that are printed when a node does not start.
const LOG_LINES: usize = 15;

/// The record that a node writes when it serves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) pb: String,
    pub(super) http: String,
    pub(super) node: String,
}

/// Name, directory and start options of a node.
#[derive(Clone, Debug)]
pub(super) struct NodeSetup {
    pub(super) name: String,
    dir: PathBuf,
    /// Addresses to listen on: Protocol Buffers, HTTP, other nodes.
    listen: [String; 3],
    /// `KEY=VALUE` settings for its command line.
    settings: Vec<String>,
    /// The program that it runs; `None` = this program.
    program: Option<PathBuf>,
}

impl NodeSetup {
    /// The place of the node with this number, counted from 1. Its ports are derived from `base_port`, or
    /// else they are those of its last start if they are free, or any.
    pub(super) fn new(
        base_dir: &Path,
        number: u16,
        base_port: Option<u16>,
        settings: &[String],
    ) -> Result<Self> {
        let dir = base_dir.join(format!("dev{number}"));
        let listen = match base_port {
            Some(base_port) => BasePort(base_port).addresses_of(number)?,
            None => last_addresses(&dir).map(|address| free_or_any(&address)),
        };
        let (name, settings) = (name(number), settings.to_vec());
        Ok(Self { name, dir, listen, settings, program: None })
    }

    /// Makes the node run another program than this one, if one is given.
    pub(super) fn run_by(self, program: Option<PathBuf>) -> Self {
        Self { program, ..self }
    }

    pub(super) fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    fn ready_file(&self) -> PathBuf {
        self.dir.join("ready.json")
    }

    /// The copy of the ready file that remains after the node has stopped.
    fn last_record(&self) -> PathBuf {
        last_record(&self.dir)
    }
}

/// The name of the node with this number.
pub(super) fn name(number: u16) -> String {
    format!("dev{number}@127.0.0.1")
}

/// Numbers of further nodes with data in the directory. They were started by hand and may be members.
pub(super) fn others(base_dir: &Path, count: u16) -> Vec<u16> {
    let names = std::fs::read_dir(base_dir).into_iter().flatten().flatten();
    let numbers = names.filter_map(|entry| {
        let number = entry.file_name().to_str()?.strip_prefix("dev")?.parse::<u16>().ok()?;
        let holds_data = entry.path().join("data").is_dir();
        (number > count && holds_data).then_some(number)
    });
    let mut numbers: Vec<u16> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

fn last_record(dir: &Path) -> PathBuf {
    dir.join("last.json")
}

/// The port to which the numbers of the nodes' ports are added.
struct BasePort(u16);

impl BasePort {
    /// The addresses of the node with this number. Each node has ten ports, as in a development cluster of
    /// Riak: 7 for Protocol Buffers, 8 for HTTP, 9 for other nodes.
    fn addresses_of(&self, number: u16) -> Result<[String; 3]> {
        let base = self.0;
        let port = |last: u16| {
            let port = number.checked_mul(10).and_then(|tens| base.checked_add(tens + last));
            port.with_context(|| format!("--base-port {base} leaves no ports for node {number}"))
        };
        let address = |last: u16| port(last).map(|port| format!("127.0.0.1:{port}"));
        Ok([address(7)?, address(8)?, address(9)?])
    }
}

/// The addresses of the last start, so that clients find the nodes again.
fn last_addresses(dir: &Path) -> [String; 3] {
    let text = std::fs::read_to_string(last_record(dir)).unwrap_or_default();
    match serde_json::from_str::<Record>(&text) {
        Ok(record) => [record.pb, record.http, record.node],
        Err(_) => std::array::from_fn(|_| ANY.to_owned()),
    }
}

const ANY: &str = "127.0.0.1:0";

fn free_or_any(address: &str) -> String {
    let is_free = TcpListener::bind(address).is_ok();
    if is_free { address.to_owned() } else { ANY.to_owned() }
}

/// A node that serves.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) place: NodeSetup,
    pub(super) record: Record,
    /// The node stops when this pipe closes. The system closes it even if this process is killed.
    _lifeline: ChildStdin,
}

/// A process that was started and does not serve yet.
pub(super) struct Starting {
    place: NodeSetup,
    child: Child,
    lifeline: ChildStdin,
}

impl Starting {
    /// Starts a node.
    pub(super) fn spawn(place: NodeSetup) -> Result<Self> {
        std::fs::create_dir_all(&place.dir).with_context(|| {
            format!("can't make the directory {}; see --base-dir", place.dir.display())
        })?;
        // The file of a killed node has addresses that are out of date.
        let _ = std::fs::remove_file(place.ready_file());
        let log = place.log();
        let opened = File::options().create(true).append(true).open(&log);
        let output = opened.with_context(|| format!("can't write the log {}", log.display()))?;
        let own = || std::env::current_exe().context("finding this program's own file");
        let program = place.program.clone().map_or_else(own, Ok)?;
        let mut command = Command::new(&program);
        let [pb, http, node] = &place.listen;
        command.args(["serve", "--while-stdin-is-open", "--name", &place.name]);
        command.args(["--pb", pb, "--http", http, "--node", node]);
        command.arg("--data-dir").arg(place.data_dir());
        command.arg("--ready-file").arg(place.ready_file());
        for setting in &place.settings {
            command.args(["--set", setting]);
        }
        command.stdin(Stdio::piped()).stderr(output.try_clone().context("sharing the log")?);
        // A process group of its own: Ctrl-C in the terminal is for this process, which then stops the
        // nodes.
        command.stdout(output).process_group(0).kill_on_drop(true);
        let mut child = command
            .spawn()
            .with_context(|| format!("starting a node that runs {}", program.display()))?;
        let lifeline = child.stdin.take().expect("it was asked for");
        Ok(Self { place, child, lifeline })
    }

    /// Waits until the node serves.
    pub(super) async fn ready(mut self) -> Result<(Node, Child)> {
        let Self { place, child, .. } = &mut self;
        let name = &place.name;
        let limit = Instant::now() + START_LIMIT;
        let record = loop {
            // The file is renamed into place, so it is complete.
            if let Ok(text) = std::fs::read_to_string(place.ready_file()) {
                break text;
            }
            if let Some(status) = child.try_wait().context("looking after a node")? {
                let end = describe_exit(status);
                bail!("{name} {end} before it served:\n{}", log_end(&place.log()));
            }
            if Instant::now() > limit {
                let log = place.log();
                bail!("{name} does not serve after {START_LIMIT:?}:\n{}", log_end(&log));
            }
            sleep(START_POLL).await;
        };
        let read: Record = serde_json::from_str(&record)
            .with_context(|| format!("the ready file of {name} can't be read"))?;
        std::fs::write(place.last_record(), record).context("keeping the node's addresses")?;
        let Self { place, child, lifeline } = self;
        Ok((Node { place, record: read, _lifeline: lifeline }, child))
    }
}

impl Node {
    /// The command that starts the node again by hand.
    pub(super) fn command(&self) -> String {
        let Record { name, pb, http, node, .. } = &self.record;
        let data_dir = self.place.data_dir();
        let settings = self.place.settings.iter().map(|setting| format!(" --set '{setting}'"));
        format!(
            "{} serve --name {name} --pb {pb} --http {http} --node {node} --data-dir {}{}",
            program(),
            data_dir.display(),
            settings.collect::<String>()
        )
    }
}

/// The path by which this program was started, which may differ from `quoit`.
pub(super) fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "quoit".to_owned())
}

/// Sends a signal to a process.
pub(super) fn signal(pid: u32, signal: Signal) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    // A process that has already ended needs no signal.
    let _ = kill_process(pid, signal);
}

/// Describes the end of a process, as a phrase to follow its name.
pub(super) fn describe_exit(status: ExitStatus) -> String {
    let signal = match status.signal() {
        Some(2) => "SIGINT".to_owned(),
        Some(6) => "SIGABRT".to_owned(),
        Some(9) => "SIGKILL".to_owned(),
        Some(11) => "SIGSEGV".to_owned(),
        Some(15) => "SIGTERM".to_owned(),
        Some(number) => format!("signal {number}"),
        None => match status.code() {
            Some(0) => return "stopped".to_owned(),
            code => return format!("ended with status {}", code.unwrap_or(-1)),
        },
    };
    format!("was killed by {signal}")
}

/// The last lines of a log.
fn log_end(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<&str> = text.lines().rev().take(LOG_LINES).collect();
    lines.reverse();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_ports_are_ten_for_each_node() {
        let addresses = BasePort(10_000).addresses_of(3).unwrap();
        assert_eq!(addresses, ["127.0.0.1:10037", "127.0.0.1:10038", "127.0.0.1:10039"]);
        assert!(BasePort(65_500).addresses_of(4).is_err());
    }

    #[test]
    fn nodes_that_were_started_by_hand_are_found_by_their_data() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["dev1/data", "dev8/data", "dev6/data", "dev9", "other/data", "devx/data"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        assert_eq!(others(dir.path(), 5), [6, 8]);
        assert_eq!(others(&dir.path().join("none"), 5), Vec::<u16>::new());
    }

    #[test]
    fn a_node_comes_back_to_its_addresses_unless_somebody_else_has_them() {
        let dir = tempfile::tempdir().unwrap();
        let holder = TcpListener::bind(ANY).unwrap();
        let taken = holder.local_addr().unwrap().to_string();
        let free = TcpListener::bind(ANY).unwrap().local_addr().unwrap().to_string();
        let record = Record {
            pid: 1,
            name: "dev2@127.0.0.1".to_owned(),
            pb: taken.clone(),
            http: free.clone(),
            node: free.clone(),
        };
        let place = NodeSetup::new(dir.path(), 2, None, &[]).unwrap();
        assert_eq!(place.listen, [ANY, ANY, ANY]);
        std::fs::create_dir(&place.dir).unwrap();
        std::fs::write(place.last_record(), serde_json::to_vec(&record).unwrap()).unwrap();
        let place = NodeSetup::new(dir.path(), 2, None, &[]).unwrap();
        assert_eq!(place.listen, [ANY, &free, &free]);
        drop(holder);
    }

    #[test]
    fn an_end_is_told_in_words() {
        let of = |raw| describe_exit(ExitStatus::from_raw(raw));
        assert_eq!(of(0), "stopped");
        assert_eq!(of(1 << 8), "ended with status 1");
        assert_eq!(of(9), "was killed by SIGKILL");
        assert_eq!(of(64), "was killed by signal 64");
    }
}
