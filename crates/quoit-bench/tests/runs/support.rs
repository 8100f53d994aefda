//! A small object server, and functions that perform runs.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use quoit_bench::cli::{BenchOptions, check_on, run_on};
use quoit_bench::config::ConfigError;
use quoit_bench::output::Terminal;
use quoit_bench::run::{RunError, RunReport};

/// A request as the server saw it.
#[derive(Debug, Clone)]
pub struct SeenHttpRequest {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

/// Computes the server's answer from a request and its number, from 0.
pub type Answer = dyn Fn(&SeenHttpRequest, usize) -> Vec<u8> + Send + Sync;

/// A server on a free port that records every request.
pub struct HttpServer {
    pub address: SocketAddr,
    pub seen: Arc<Mutex<Vec<SeenHttpRequest>>>,
    connection_count: Arc<AtomicUsize>,
}

impl HttpServer {
    pub fn start(answer: Arc<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let connection_count = Arc::new(AtomicUsize::new(0));
        let (shared, count) = (seen.clone(), connection_count.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                let (stream, seen, answer) = (stream.unwrap(), shared.clone(), answer.clone());
                thread::spawn(move || serve(stream, &seen, &*answer));
            }
        });
        Self { address, seen, connection_count }
    }

    /// Starts a store of objects like Riak's: it answers 404, or 200 with a vector clock, and 204 to a put.
    pub fn store() -> Self {
        let objects = Mutex::new(HashMap::<String, (u32, Vec<u8>)>::new());
        Self::start(Arc::new(move |request, _| {
            let mut objects = objects.lock().unwrap();
            match request.method.as_str() {
                "GET" => match objects.get(&request.path) {
                    None => response("404 Object Not Found", "", b"not found\n"),
                    Some((clock, value)) => {
                        response("200 OK", &format!("X-Riak-Vclock: clock-{clock}\r\n"), value)
                    }
                },
                "PUT" => {
                    let clock = objects.get(&request.path).map_or(0, |(clock, _)| clock + 1);
                    objects.insert(request.path.clone(), (clock, request.body.clone()));
                    response("204 No Content", "", b"")
                }
                "POST" => response("201 Created", "Location: /riak/test/abc\r\n", b""),
                "DELETE" => match objects.remove(&request.path) {
                    None => response("404 Object Not Found", "", b""),
                    Some(_) => response("204 No Content", "", b""),
                },
                _ => response("405 Method Not Allowed", "", b""),
            }
        }))
    }

    /// Number of connections that were opened so far.
    pub fn connection_count(&self) -> usize {
        self.connection_count.load(Ordering::SeqCst)
    }

    pub fn seen(&self) -> Vec<SeenHttpRequest> {
        self.seen.lock().unwrap().clone()
    }
}

/// A response with its length.
pub fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = if status.starts_with("204") {
        String::new()
    } else {
        format!("Content-Length: {}\r\n", body.len())
    };
    [format!("HTTP/1.1 {status}\r\n{headers}{length}\r\n").as_bytes(), body].concat()
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<SeenHttpRequest>>, answer: &Answer) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let mut words = line.split_ascii_whitespace().map(str::to_owned);
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let request = SeenHttpRequest { method, path, headers, body };
        let number = {
            let mut seen = seen.lock().unwrap();
            seen.push(request.clone());
            seen.len() - 1
        };
        let answer = answer(&request, number);
        if answer.is_empty() || stream.write_all(&answer).is_err() {
            return;
        }
    }
}

/// The report and files of a run, and its terminal output.
pub struct Run {
    pub report: RunReport,
    pub shown: String,
    _base: tempfile::TempDir,
}

impl Run {
    pub fn file(&self, name: &str) -> String {
        let path = self.report.directory.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The rows of a table without its header, split into cells.
    pub fn rows(&self, name: &str) -> Vec<Vec<String>> {
        let text = self.file(name);
        assert!(text.ends_with('\n'), "{name} ends with a whole row");
        let split = |line: &str| line.split(", ").map(str::to_owned).collect();
        text.lines().skip(1).map(split).collect()
    }

    /// The sum of a column.
    pub fn sum(&self, name: &str, column: usize) -> u64 {
        self.rows(name).iter().map(|row| row[column].parse::<u64>().unwrap()).sum()
    }
}

/// The errors that a run recorded, without the header.
pub fn errors_of(run: &Run) -> String {
    run.file("errors.csv").lines().skip(1).collect::<Vec<_>>().join("\n")
}

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs a configuration in a directory of its own, with a small source of values.
pub fn try_run(config: &str, change: impl FnOnce(&mut BenchOptions)) -> Result<Run, RunError> {
    let base = tempfile::tempdir().unwrap();
    let path = write_config(base.path(), config);
    let mut options = BenchOptions {
        config_paths: vec![path],
        results_dir: Some(base.path().join("results")),
        ..BenchOptions::default()
    };
    change(&mut options);
    let buffer = Buffer::default();
    let report = run_on(&options, &mut Terminal::to(Box::new(buffer.clone()), false))?;
    let shown = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
    Ok(Run { report, shown, _base: base })
}

/// As [`try_run`], for a configuration that must work.
pub fn run(config: &str) -> Run {
    try_run(config, |_| {}).unwrap_or_else(|error| panic!("{config}: {error}"))
}

/// The output of checking a configuration, which must create no files.
pub fn try_check(config: &str) -> Result<String, ConfigError> {
    let base = tempfile::tempdir().unwrap();
    let plan = plan_of(&write_config(base.path(), config))?;
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 1, "a check leaves no files");
    Ok(plan)
}

/// The plan of a configuration with changed options.
pub fn plan_with(
    config: &str,
    change: impl FnOnce(&mut BenchOptions),
) -> Result<String, ConfigError> {
    let base = tempfile::tempdir().unwrap();
    let path = write_config(base.path(), config);
    let mut options = BenchOptions { config_paths: vec![path], ..Default::default() };
    change(&mut options);
    plan_by(&options)
}

/// The plan of a configuration.
pub fn plan_of(path: &Path) -> Result<String, ConfigError> {
    plan_by(&BenchOptions { config_paths: vec![path.to_owned()], ..Default::default() })
}

fn plan_by(options: &BenchOptions) -> Result<String, ConfigError> {
    let buffer = Buffer::default();
    check_on(options, &mut Terminal::to(Box::new(buffer.clone()), false))?;
    let bytes = buffer.0.lock().unwrap().clone();
    Ok(String::from_utf8(bytes).unwrap())
}

fn write_config(directory: &Path, config: &str) -> PathBuf {
    let path = directory.join("test.config");
    fs::write(&path, format!("{config}\n{{value_generator_source_size, 100000}}.\n")).unwrap();
    path
}
