//! The compared servers, as child processes that end when their handles are dropped.

use crate::drive::Target;
use crate::echo::Sizes;
use crate::link::Transport;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(120);

/// A running server.
pub(crate) struct Running {
    child: Child,
    /// Address at which the measured exchange is served.
    pub(crate) address: SocketAddr,
    /// Quoit's HTTP address.
    pub(crate) http: Option<SocketAddr>,
    /// Quoit's address for Protocol Buffers over TLS.
    pub(crate) pb_tls: Option<SocketAddr>,
    /// Quoit's HTTPS address.
    pub(crate) https: Option<SocketAddr>,
}

impl Running {
    /// The server at one of its addresses, as a target of the driver.
    pub(crate) fn at(&self, address: SocketAddr) -> Target {
        self.over(address, Transport::Plain)
    }

    /// The server at one of its addresses, over a transport, as a target of the driver.
    pub(crate) fn over(&self, address: SocketAddr, transport: Transport) -> Target {
        Target { addresses: vec![address], pids: vec![self.pid()], transport }
    }

    /// Switches callgrind's counting on or off.
    pub(crate) fn switch_counting(&self, state: &str) -> Result<()> {
        let pid = self.pid().to_string();
        let done = Command::new("callgrind_control").args(["-i", state, &pid]).output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        anyhow::ensure!(done.status.success(), "callgrind_control -i {state} {pid}: {said}");
        Ok(())
    }

    /// The server at its first address, as a target of the driver.
    pub(crate) fn target(&self) -> Target {
        self.at(self.address)
    }

    /// Process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks the process to stop and waits for it.
    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        self.child.wait()?;
        Ok(())
    }

    /// Kills the process and waits for it.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program of a node and the settings that it is started with.
#[derive(Clone, Copy)]
pub(crate) struct NodeProgram<'a> {
    /// The quoit binary.
    pub(crate) binary: &'a Path,
    /// Settings, each as `KEY=VALUE`.
    pub(crate) set: &'a [String],
}

/// Starts a node. Returns it with the time until it served.
pub(crate) fn quoit(program: NodeProgram<'_>, data: &Path) -> Result<(Running, Duration)> {
    start(Command::new(program.binary), data, program.set)
}

/// A command that starts a program in the control group whose process file is `cgroup_procs`.
fn inside(cgroup_procs: Option<&Path>, binary: &Path) -> Command {
    let Some(cgroup_procs) = cgroup_procs else { return Command::new(binary) };
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(cgroup_procs).arg(binary);
    command
}

/// Starts a node under callgrind. When the node ends, callgrind writes the counts of each thread to a file
/// of its own, whose name begins with `counts`. Counting begins with the node's start; with the option
/// `--instr-atstart=no` it begins when it is [switched on](Running::switch_counting).
pub(crate) fn quoit_counted(
    program: NodeProgram<'_>,
    data: &Path,
    options: &[&str],
    counts: &Path,
) -> Result<Running> {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind", "--separate-threads=yes"]);
    command.args(options).arg(format!("--callgrind-out-file={}", counts.display()));
    command.arg(program.binary);
    start(command, data, program.set).map(|(node, _)| node).context("is valgrind installed?")
}

/// Starts a node, in the control group whose process file is `cgroup_procs` if it is given. Returns it with
/// the time until it served.
pub(crate) fn quoit_in(
    program: NodeProgram<'_>,
    data: &Path,
    cgroup_procs: Option<&Path>,
) -> Result<(Running, Duration)> {
    start(inside(cgroup_procs, program.binary), data, program.set)
}

/// Starts a node with a command that takes the program's arguments.
fn start(mut command: Command, data: &Path, set: &[String]) -> Result<(Running, Duration)> {
    let ready = data.with_extension("ready");
    let _ = std::fs::remove_file(&ready);
    let started = Instant::now();
    command.arg("serve").args([
        "--pb",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        "--node",
        "127.0.0.1:0",
    ]);
    command.arg("--data-dir").arg(data).arg("--ready-file").arg(&ready);
    for setting in set {
        command.args(["--set", setting]);
    }
    let mut child = command.stdout(Stdio::null()).spawn().context("starting quoit")?;
    let record = loop {
        if let Ok(text) = std::fs::read_to_string(&ready) {
            break text;
        }
        if let Some(status) = child.try_wait()? {
            bail!("quoit ended with {status} before it served");
        }
        if started.elapsed() > START_LIMIT {
            let _ = child.kill();
            bail!("quoit did not serve within {START_LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let took = started.elapsed();
    let record: serde_json::Value = serde_json::from_str(&record).context("reading ready file")?;
    let address = |name: &str| -> Result<SocketAddr> {
        Ok(record[name].as_str().context("an address in the ready file")?.parse()?)
    };
    let http = Some(address("http")?);
    let (pb_tls, https) = (address("pb_tls").ok(), address("https").ok());
    Ok((Running { address: address("pb")?, http, pb_tls, https, child }, took))
}

/// Starts the echo server, or with a log file the log writer.
pub(crate) fn echo(sizes: Sizes, log: Option<PathBuf>) -> Result<Running> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("echo");
    command.args(["--request-bytes", &sizes.request.to_string()]);
    command.args(["--response-bytes", &sizes.response.to_string()]);
    if let Some(log) = log {
        command.arg("--log").arg(log);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().context("starting the echo")?;
    let output = child.stdout.take().context("the echo's output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    let port: u16 = line.trim().parse().context("the echo's port")?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    Ok(Running { child, address, http: None, pb_tls: None, https: None })
}

/// Starts Redis with an append-only file that is synced every second; `None` if Redis is not installed.
pub(crate) fn redis(dir: &Path) -> Result<Option<Running>> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let spawned = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .args(["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""])
        .arg("--dir")
        .arg(dir)
        .stdout(Stdio::null())
        .spawn();
    let Ok(child) = spawned else { return Ok(None) };
    let running = Running { child, address, http: None, pb_tls: None, https: None };
    let started = Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        if started.elapsed() > START_LIMIT {
            bail!("redis-server did not listen on {address}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(Some(running))
}
