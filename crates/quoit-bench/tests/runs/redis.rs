//! Whole runs of the Redis driver, against a small server of its protocol and against Redis itself if it is
//! installed.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Run, errors_of, run, try_run};

type Request = Vec<Vec<u8>>;

/// A server that records every request, except those with which connections introduce themselves.
struct RedisServer {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl RedisServer {
    /// Starts a server that closes the connection instead of answering the requests for whose number, from
    /// 0, `drops` returns true.
    fn start(drops: impl Fn(usize) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared = (seen.clone(), Arc::new(drops), Arc::new(Mutex::new(HashMap::new())));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, drops, records) = shared.clone();
                let stream = stream.unwrap();
                thread::spawn(move || serve(stream, &seen, &*drops, &records));
            }
        });
        Self { address, seen }
    }

    fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(
    mut stream: TcpStream,
    seen: &Mutex<Vec<Request>>,
    drops: &dyn Fn(usize) -> bool,
    records: &Mutex<HashMap<Vec<u8>, Vec<u8>>>,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(request) = read_request(&mut reader) {
        if request[0] != b"CLIENT" {
            let number = {
                let mut seen = seen.lock().unwrap();
                seen.push(request.clone());
                seen.len() - 1
            };
            if drops(number) {
                return;
            }
        }
        let mut records = records.lock().unwrap();
        let answer = match request.iter().map(Vec::as_slice).collect::<Vec<_>>().as_slice() {
            [b"CLIENT", ..] => b"+OK\r\n".to_vec(),
            [b"SET", key, value] => {
                records.insert(key.to_vec(), value.to_vec());
                b"+OK\r\n".to_vec()
            }
            [b"GET", key] => match records.get(*key) {
                None => b"$-1\r\n".to_vec(),
                Some(value) => {
                    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
                }
            },
            [b"DEL", key] => {
                format!(":{}\r\n", u8::from(records.remove(*key).is_some())).into_bytes()
            }
            _ => b"-ERR unknown command\r\n".to_vec(),
        };
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

/// Reads a request, which is an array of bulk strings.
fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let count = read_number(reader, '*')?;
    (0..count)
        .map(|_| {
            let mut bytes = vec![0; read_number(reader, '$')? + 2];
            reader.read_exact(&mut bytes).ok()?;
            bytes.truncate(bytes.len() - 2);
            Some(bytes)
        })
        .collect()
}

fn read_number(reader: &mut BufReader<TcpStream>, mark: char) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(mark)?.parse().ok()
}

fn config(address: SocketAddr, operations: &str, rest: &str) -> String {
    format!(
        "{{mode, max}}. {{driver, basho_bench_driver_redis}}. {{concurrent, 1}}.
         {{key_generator, {{sequential_int, 10}}}}. {{value_generator, {{fixed_bin, 100}}}}.
         {{redis_ips, [\"127.0.0.1\"]}}. {{redis_port, {}}}. {{operations, [{operations}]}}. {rest}",
        address.port()
    )
}

fn counts(run: &Run) -> (u64, u64) {
    (run.report.total.success_count(), run.report.total.error_count())
}

#[test]
fn operations_are_commands_one_after_the_other() {
    let server = RedisServer::start(|_| false);
    for operation in ["get", "set", "get", "del", "del"] {
        let run = run(&config(server.address, &format!("{{{operation}, 1}}"), ""));
        assert_eq!(counts(&run), (10, 0), "{operation}");
    }
    let seen = server.seen();
    assert_eq!(seen.len(), 50);
    assert_eq!(seen[3], [b"GET".to_vec(), b"3".to_vec()]);
    assert_eq!((&seen[13][..2], seen[13][2].len()), (&[b"SET".to_vec(), b"3".to_vec()][..], 100));
    assert_eq!(seen[49], [b"DEL".to_vec(), b"9".to_vec()]);
}

#[test]
fn the_bucket_is_part_of_keys() {
    let server = RedisServer::start(|_| false);
    run(&config(server.address, "{get, 1}", "{bucket_name, <<\"cache\">>}."));
    assert_eq!(server.seen()[9], [b"GET".to_vec(), b"cache:9".to_vec()]);
}

#[test]
fn an_invalid_command_is_counted_as_the_servers_error() {
    let server = RedisServer::start(|_| false);
    let run = run(&config(server.address, "{invalid, 1}", ""));
    assert_eq!(errors_of(&run), "\"{{invalid,invalid},{redis_error,\"\"ERR\"\"}}\",\"10\"");
}

#[test]
fn a_lost_connection_is_made_anew_as_often_as_configured() {
    let server = RedisServer::start(|number| (2..5).contains(&number));
    let rest = "{retries, 3}. {retry_delay, 0}.";
    assert_eq!(counts(&run(&config(server.address, "{get, 1}", rest))), (10, 0));
    let server = RedisServer::start(|number| (2..5).contains(&number));
    let run = run(&config(server.address, "{get, 1}", "{retries, 2}. {retry_delay, 0}."));
    assert_eq!(errors_of(&run), "\"{{get,get},max_retries}\",\"1\"");
    assert_eq!(counts(&run), (9, 1));
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let address = "127.0.0.1:1".parse().unwrap();
    for (setting, expected) in [
        ("{retries, many}.", "an integer from 0 to 1000"),
        ("{bucket_name, 5}.", "a binary"),
        ("{operations, [{incr, 1}]}.", "it has set, get, del, invalid"),
    ] {
        let error = try_run(&config(address, "{get, 1}", setting), |_| {}).err().expect(setting);
        assert!(error.to_string().contains(expected), "{setting}: {error}");
    }
}

#[test]
fn a_server_that_is_not_there_fails_the_start() {
    let closed = free_address();
    let error = try_run(&config(closed, "{get, 1}", ""), |_| {}).err().unwrap().to_string();
    assert!(error.contains(&format!("cannot connect to {closed}")), "{error}");
}

/// A process of Redis itself, on a free port and without files. It is stopped on drop.
struct Installed {
    process: Child,
    address: SocketAddr,
}

impl Installed {
    fn start() -> Option<Self> {
        let address = free_address();
        let port = address.port().to_string();
        let process = Command::new("redis-server")
            .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let server = Self { process, address };
        let give_up_at = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < give_up_at, "redis-server does not listen");
            thread::yield_now();
        }
        Some(server)
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn redis_itself_is_driven_where_it_is_installed() {
    let Some(server) = Installed::start() else {
        eprintln!("redis-server is not installed: the driver was tested against our own only");
        return;
    };
    let rest = "{concurrent, 8}. {key_generator, {partitioned_sequential_int, 800}}.";
    let mix = "{get, 2}, {set, 2}, {del, 1}";
    assert_eq!(counts(&run(&config(server.address, mix, rest))), (800, 0));
    let run = run(&config(server.address, "{invalid, 1}", ""));
    assert_eq!(errors_of(&run), "\"{{invalid,invalid},{redis_error,\"\"ERR\"\"}}\",\"10\"");
}

/// An address without a listener.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
