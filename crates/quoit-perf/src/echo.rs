//! The cheapest possible server: one thread, one epoll instance, requests and answers of fixed sizes.
//!
//! With a log file it is the bare group-committed log writer: it appends each request to a file, and
//! answers after a second thread has synced the file.

use anyhow::{Context, Result};
use rustix::event::epoll;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

const LISTENER: u64 = u64::MAX;
const SYNCED: u64 = u64::MAX - 1;

/// Sizes of the exchange, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sizes {
    pub(crate) request: usize,
    pub(crate) response: usize,
}

struct EchoClient {
    stream: TcpStream,
    /// Bytes received of the current request.
    received: usize,
}

/// Syncs the file in a thread of its own, and reports through a socket that epoll watches.
struct Committer {
    file: Arc<File>,
    end: u64,
    shared: Arc<(Mutex<PendingSyncs>, Condvar)>,
    synced: std::os::unix::net::UnixStream,
}

#[derive(Default)]
struct PendingSyncs {
    /// Connections whose request is in the file and not yet synced.
    waiting: Vec<usize>,
    /// Connections whose request is synced and not yet answered.
    done: Vec<usize>,
}

/// Serves until the process is killed. Prints its port.
pub(crate) fn serve(sizes: Sizes, log: Option<&Path>) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").context("binding a loopback port")?;
    println!("{}", listener.local_addr()?.port());
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut committer = log.map(start_committer).transpose()?;
    if let Some(committer) = &committer {
        let data = epoll::EventData::new_u64(SYNCED);
        epoll::add(&poll, &committer.synced, data, epoll::EventFlags::IN)?;
    }
    let response = vec![b'r'; sizes.response];
    // A connection's number for epoll is its index here.
    let mut clients: Vec<Option<EchoClient>> = Vec::new();
    let mut events = Vec::with_capacity(128);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            match event.data.u64() {
                LISTENER => {
                    let (stream, _) = listener.accept()?;
                    stream.set_nodelay(true)?;
                    let free = clients.iter().position(Option::is_none).unwrap_or(clients.len());
                    let data = epoll::EventData::new_u64(free as u64);
                    epoll::add(&poll, &stream, data, epoll::EventFlags::IN)?;
                    let client = Some(EchoClient { stream, received: 0 });
                    if free < clients.len() { clients[free] = client } else { clients.push(client) }
                }
                SYNCED => {
                    if let Some(committer) = &mut committer {
                        committer.answer(&mut clients, &response)?;
                    }
                }
                id => {
                    let place = quoit_number::index(id);
                    let Some(client) = &mut clients[place] else { continue };
                    let count = client.stream.read(&mut buffer).unwrap_or(0);
                    if count == 0 {
                        clients[place] = None;
                        continue;
                    }
                    if let Some(committer) = &mut committer {
                        committer.append(&buffer[..count])?;
                    }
                    client.received += count;
                    if client.received >= sizes.request {
                        client.received = 0;
                        match &mut committer {
                            None => client.stream.write_all(&response)?,
                            Some(committer) => committer.wait_for_sync(place),
                        }
                    }
                }
            }
        }
    }
}

fn start_committer(path: &Path) -> Result<Committer> {
    let file = Arc::new(File::create(path).context("creating the log file")?);
    let (reader, mut writer) = std::os::unix::net::UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    let shared: Arc<(Mutex<PendingSyncs>, Condvar)> = Arc::default();
    let (log, wanted) = (Arc::clone(&file), Arc::clone(&shared));
    std::thread::spawn(move || -> Result<()> {
        loop {
            let (state, changed) = &*wanted;
            let mut state_now = state.lock().expect("no holder panics");
            while state_now.waiting.is_empty() {
                state_now = changed.wait(state_now).expect("no holder panics");
            }
            let batch = std::mem::take(&mut state_now.waiting);
            drop(state_now);
            log.sync_data()?;
            state.lock().expect("no holder panics").done.extend(batch);
            writer.write_all(&[1])?;
        }
    });
    Ok(Committer { file, end: 0, shared, synced: reader })
}

impl Committer {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn wait_for_sync(&self, place: usize) {
        let (state, changed) = &*self.shared;
        state.lock().expect("no holder panics").waiting.push(place);
        changed.notify_one();
    }

    fn answer(&mut self, clients: &mut [Option<EchoClient>], response: &[u8]) -> Result<()> {
        let mut drained = [0; 64];
        // Reading only resets the wakeup; the connections to answer are in the list.
        let _ = self.synced.read(&mut drained);
        let done = std::mem::take(&mut self.shared.0.lock().expect("no holder panics").done);
        for place in done {
            if let Some(client) = &mut clients[place] {
                client.stream.write_all(response)?;
            }
        }
        Ok(())
    }
}
