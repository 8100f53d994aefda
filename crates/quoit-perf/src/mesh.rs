//! A lower bound for the cost of a replicated write on this kernel: processes that pass each request on to
//! two others, and answer when the first of these has confirmed it.
//!
//! Each process has one thread and one epoll instance, messages of fixed sizes, and stores nothing. The
//! output of a round of events leaves each connection in one write. If an operation costs more among many
//! of these processes than among three, the machine is the cause: smaller batches, more switches between
//! processes, colder caches.

use crate::drive::Target;
use crate::echo::Sizes;
use crate::link::Transport;
use anyhow::{Context, Result};
use rustix::event::epoll;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

const LISTENER: u64 = u64::MAX;
/// First byte of a connection between two processes of the mesh. No request begins with it.
const PEER: u8 = b'P';
/// Size of a confirmation, in bytes.
const CONFIRMATION_BYTES: usize = 24;
/// Number of other processes to which a request is passed on.
const COPIES: usize = 2;

/// A mesh of processes that know each other. They end when this handle is dropped.
pub(crate) struct Mesh {
    children: Vec<Child>,
    ports: Vec<u16>,
}

impl Mesh {
    /// Starts that many processes.
    pub(crate) fn start(count: usize, sizes: Sizes) -> Result<Self> {
        let mut mesh = Self { children: Vec::new(), ports: Vec::new() };
        for _ in 0..count {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("mesh").args(["--request-bytes", &sizes.request.to_string()]);
            command.args(["--response-bytes", &sizes.response.to_string()]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().context("starting a process of the mesh")?;
            let output = child.stdout.take().context("the process's output")?;
            mesh.children.push(child);
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line)?;
            mesh.ports.push(line.trim().parse().context("the process's port")?);
        }
        for (own, child) in mesh.children.iter_mut().enumerate() {
            let others = mesh.ports.iter().enumerate().filter(|(place, _)| *place != own);
            let others: Vec<String> = others.map(|(_, port)| port.to_string()).collect();
            let mut input = child.stdin.take().context("the process's input")?;
            writeln!(input, "{}", others.join(" "))?;
        }
        Ok(mesh)
    }

    /// All processes, as a target of the driver.
    pub(crate) fn target(&self) -> Target {
        let address = |port: &u16| SocketAddr::from(([127, 0, 0, 1], *port));
        Target {
            addresses: self.ports.iter().map(address).collect(),
            pids: self.children.iter().map(Child::id).collect(),
            transport: Transport::Plain,
        }
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        for child in &mut self.children {
            // The process may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The kind of the peer on a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PeerKind {
    /// Not known before the first byte.
    Unknown,
    /// A client, with the number of its request that waits for a confirmation, or 0.
    Client { waiting: u32 },
    /// A process that passes requests on to this one.
    Requester,
    /// A process to which this one passes requests on.
    Confirmer,
}

struct MeshConnection {
    stream: TcpStream,
    end: PeerKind,
    input: Vec<u8>,
    output: Vec<u8>,
}

struct Process {
    sizes: Sizes,
    poll: rustix::fd::OwnedFd,
    /// Connections by their number in epoll; `None` when closed.
    connections: Vec<Option<MeshConnection>>,
    confirmers: Vec<usize>,
    request_count: u32,
    /// Connections with pending output.
    written_to: Vec<usize>,
}

/// Serves until the process is killed. Prints its port, and reads the ports of the others.
pub(crate) fn serve(sizes: Sizes) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").context("binding a loopback port")?;
    println!("{}", listener.local_addr()?.port());
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut process = Process {
        sizes,
        poll,
        connections: Vec::new(),
        confirmers: Vec::new(),
        request_count: 0,
        written_to: Vec::new(),
    };
    let mut others = String::new();
    std::io::stdin().lock().read_line(&mut others)?;
    for port in others.split_whitespace() {
        let mut stream = TcpStream::connect(("127.0.0.1", port.parse()?))?;
        stream.write_all(&[PEER])?;
        let place = process.add(stream, PeerKind::Confirmer)?;
        process.confirmers.push(place);
    }
    let mut events = Vec::with_capacity(128);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        events.clear();
        epoll::wait(&process.poll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            match event.data.u64() {
                LISTENER => {
                    let (stream, _) = listener.accept()?;
                    process.add(stream, PeerKind::Unknown)?;
                }
                place => process.receive(quoit_number::index(place), &mut buffer),
            }
        }
        process.flush();
    }
}

impl Process {
    fn add(&mut self, stream: TcpStream, end: PeerKind) -> Result<usize> {
        stream.set_nodelay(true)?;
        let place = self.connections.len();
        let data = epoll::EventData::new_u64(place as u64);
        epoll::add(&self.poll, &stream, data, epoll::EventFlags::IN)?;
        let connection = MeshConnection { stream, end, input: Vec::new(), output: Vec::new() };
        self.connections.push(Some(connection));
        Ok(place)
    }

    fn receive(&mut self, place: usize, buffer: &mut [u8]) {
        let Some(connection) = &mut self.connections[place] else { return };
        let count = connection.stream.read(buffer).unwrap_or(0);
        if count == 0 {
            self.connections[place] = None;
            return;
        }
        let mut received = &buffer[..count];
        if connection.end == PeerKind::Unknown {
            connection.end = match received[0] {
                PEER => PeerKind::Requester,
                _ => PeerKind::Client { waiting: 0 },
            };
            if connection.end == PeerKind::Requester {
                received = &received[1..];
            }
        }
        connection.input.extend_from_slice(received);
        let frame_bytes = match connection.end {
            PeerKind::Confirmer => CONFIRMATION_BYTES,
            PeerKind::Unknown | PeerKind::Client { .. } | PeerKind::Requester => self.sizes.request,
        };
        let input = std::mem::take(&mut connection.input);
        let end = connection.end;
        let frames = input.chunks_exact(frame_bytes);
        let rest = frames.remainder().to_vec();
        for frame in frames {
            self.take(place, end, frame);
        }
        if let Some(connection) = &mut self.connections[place] {
            connection.input = rest;
        }
    }

    fn take(&mut self, place: usize, end: PeerKind, frame: &[u8]) {
        let number_at = |at: usize| frame[at..at + 4].try_into().map_or(0, u32::from_be_bytes);
        match end {
            PeerKind::Requester => self.send(place, |output| {
                output.extend_from_slice(&frame[..CONFIRMATION_BYTES]);
            }),
            PeerKind::Confirmer => {
                let (client, request) = (number_at(0) as usize, number_at(4));
                let response_bytes = self.sizes.response;
                let Some(Some(connection)) = self.connections.get_mut(client) else { return };
                if connection.end == (PeerKind::Client { waiting: request }) {
                    connection.end = PeerKind::Client { waiting: 0 };
                    self.send(client, |output| output.resize(output.len() + response_bytes, b'r'));
                }
            }
            PeerKind::Unknown | PeerKind::Client { .. } => {
                self.request_count = self.request_count.wrapping_add(1).max(1);
                let request = self.request_count;
                if let Some(connection) = &mut self.connections[place] {
                    connection.end = PeerKind::Client { waiting: request };
                }
                let client = u32::try_from(place).expect("a process has few connections");
                for copy in 0..COPIES.min(self.confirmers.len()) {
                    let to = self.confirmers[(request as usize + copy) % self.confirmers.len()];
                    self.send(to, |output| {
                        output.extend_from_slice(&client.to_be_bytes());
                        output.extend_from_slice(&request.to_be_bytes());
                        output.extend_from_slice(&frame[8..]);
                    });
                }
            }
        }
    }

    fn send(&mut self, place: usize, append: impl FnOnce(&mut Vec<u8>)) {
        let Some(Some(connection)) = self.connections.get_mut(place) else { return };
        if connection.output.is_empty() {
            self.written_to.push(place);
        }
        append(&mut connection.output);
    }

    fn flush(&mut self) {
        for place in self.written_to.drain(..) {
            let Some(connection) = &mut self.connections[place] else { continue };
            // All pending output fits into the sockets' buffers, since every client waits for its answer.
            if connection.stream.write_all(&connection.output).is_err() {
                self.connections[place] = None;
                continue;
            }
            connection.output.clear();
        }
    }
}
