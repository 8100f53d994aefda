//! Whole runs of the memcached driver, against a small server of its protocol and against memcached itself
//! if it is installed.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Run, errors_of, run};

/// The values of the server's keys.
type Records = Mutex<HashMap<String, Vec<u8>>>;

/// Starts a server that closes the connection instead of answering every `drops_every`th request; 0 for
/// never.
fn serve(drops_every: usize) -> (SocketAddr, Arc<Records>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let records = Arc::new(Records::default());
    let kept = Arc::clone(&records);
    let number = Arc::new(Mutex::new(0));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (kept, number) = (Arc::clone(&kept), Arc::clone(&number));
            thread::spawn(move || answer_all(stream.unwrap(), &kept, &number, drops_every));
        }
    });
    (address, records)
}

fn answer_all(mut stream: TcpStream, records: &Records, number: &Mutex<usize>, drops_every: usize) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let drops = {
            let mut number = number.lock().unwrap();
            *number += 1;
            number.is_multiple_of(drops_every)
        };
        if drops {
            return;
        }
        let mut records = records.lock().unwrap();
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let answer = match words[..] {
            ["get", key] => match records.get(key) {
                None => b"END\r\n".to_vec(),
                Some(value) => {
                    let head = format!("VALUE {key} 0 {}\r\n", value.len());
                    [head.as_bytes(), value, b"\r\nEND\r\n"].concat()
                }
            },
            ["set", key, "0", "0", size] => {
                let mut value = vec![0; size.parse::<usize>().unwrap() + 2];
                reader.read_exact(&mut value).unwrap();
                value.truncate(value.len() - 2);
                records.insert(key.to_owned(), value);
                b"STORED\r\n".to_vec()
            }
            ["incr", key, "1"] if records.contains_key(key) => b"8\r\n".to_vec(),
            ["incr", _, "1"] => b"NOT_FOUND\r\n".to_vec(),
            ["delete", key] if records.remove(key).is_some() => b"DELETED\r\n".to_vec(),
            ["delete", _] => b"NOT_FOUND\r\n".to_vec(),
            _ => b"ERROR\r\n".to_vec(),
        };
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

fn config(address: SocketAddr, operation: &str, keys: &str) -> String {
    format!(
        "{{mode, max}}. {{driver, basho_bench_driver_memcached}}. {{concurrent, 1}}.
         {{key_generator, {keys}}}. {{value_generator, {{fixed_bin, 100}}}}.
         {{memcached_ips, [\"127.0.0.1\"]}}. {{memcached_default_port, {}}}.
         {{operations, [{{{operation}, 1}}]}}.",
        address.port()
    )
}

const KEYS: &str = "{int_to_str, {sequential_int, 10}}";

fn counts(run: &Run) -> (u64, u64) {
    (run.report.total.success_count(), run.report.total.error_count())
}

/// Runs each operation on the same ten keys, one operation after another.
fn drive(address: SocketAddr) {
    for (operation, expected) in [
        ("get", (0, 10)),
        ("get_any", (10, 0)),
        ("incr", (0, 10)),
        ("set", (10, 0)),
        ("get", (10, 0)),
        ("delete", (10, 0)),
        ("delete", (10, 0)),
        ("get", (0, 10)),
    ] {
        let run = run(&config(address, operation, KEYS));
        assert_eq!(counts(&run), expected, "{operation}: {}", errors_of(&run));
    }
}

#[test]
fn operations_are_commands_and_missing_keys_are_errors_where_they_should_be() {
    let (address, records) = serve(0);
    drive(address);
    run(&config(address, "set", KEYS));
    let records = records.lock().unwrap();
    assert_eq!(records.len(), 10);
    assert!(records.iter().all(|(key, value)| key.len() == 1 && value.len() == 100));
}

#[test]
fn a_lost_connection_is_an_error_and_the_worker_goes_on_with_another() {
    let (address, records) = serve(4);
    let run = run(&config(address, "set", KEYS));
    assert_eq!(counts(&run), (8, 2), "{}", errors_of(&run));
    assert!(errors_of(&run).contains("disconnected"), "{}", errors_of(&run));
    assert!(records.lock().unwrap().len() >= 8);
}

#[test]
fn a_key_that_would_break_the_protocol_is_never_sent() {
    let (address, records) = serve(0);
    let run = run(&config(address, "set", "{int_to_bin_bigendian, {sequential_int, 10}}"));
    assert_eq!(counts(&run), (0, 10));
    assert!(errors_of(&run).contains("bad_key"), "{}", errors_of(&run));
    assert!(records.lock().unwrap().is_empty());
}

/// A process of memcached itself; `None` if it is not installed.
struct Memcached(Child);

impl Memcached {
    fn start(port: u16) -> Option<Self> {
        let port = port.to_string();
        let arguments = ["-l", "127.0.0.1", "-U", "0", "-u", "nobody", "-p", &port];
        let process = Command::new("memcached").args(arguments).stderr(Stdio::null()).spawn();
        process.ok().map(Self)
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn memcached_itself_is_driven_where_it_is_installed() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let Some(_server) = Memcached::start(free.port()) else {
        eprintln!("memcached is not installed: the driver was tested against our own server only");
        return;
    };
    let give_up_at = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(free).is_err() {
        assert!(Instant::now() < give_up_at, "memcached does not listen");
        thread::yield_now();
    }
    drive(free);
}
