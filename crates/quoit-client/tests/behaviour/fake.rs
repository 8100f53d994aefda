//! A server without behaviour of its own: the test receives each request and answers it.

use bytes::{Bytes, BytesMut};
use quoit_client::Client;
use quoit_client::wire::messages::{Body, RpbErrorResp};
use quoit_client::wire::{Frame, FrameDecoder, append_message};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The fake server. Its events are in the order in which they happened.
pub struct Fake {
    pub address: String,
    events: mpsc::Receiver<Event>,
    accepting: JoinHandle<()>,
}

enum Event {
    Request(Request),
    Closed(usize),
}

/// A request that waits for its answer.
pub struct Request {
    /// The number of its connection, counted from 0.
    pub connection: usize,
    pub frame: Frame,
    writer: Arc<Mutex<OwnedWriteHalf>>,
}

impl Fake {
    pub async fn start() -> Fake {
        Fake::start_at("127.0.0.1:0").await
    }

    pub async fn start_at(address: &str) -> Fake {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (happened, events) = mpsc::channel(1000);
        let accepting = tokio::spawn(accept(listener, happened));
        Fake { address, events, accepting }
    }

    /// A server and a client of it with default settings.
    pub async fn with_client() -> (Fake, Client) {
        let fake = Fake::start().await;
        let client = Client::connect_to(fake.address.clone()).unwrap();
        (fake, client)
    }

    /// Stops listening. No client may be connected.
    pub async fn stop(self) {
        self.accepting.abort();
        assert!(self.accepting.await.unwrap_err().is_cancelled());
    }

    /// Waits for the next event, which must be a request.
    pub async fn next(&mut self) -> Request {
        match self.event().await {
            Event::Request(request) => request,
            Event::Closed(connection) => panic!("connection {connection} was closed"),
        }
    }

    /// Waits for the next event, which must be the closing of a connection by the client. Returns its
    /// number.
    pub async fn closed(&mut self) -> usize {
        match self.event().await {
            Event::Request(request) => panic!("request {:?} came", request.frame),
            Event::Closed(connection) => connection,
        }
    }

    async fn event(&mut self) -> Event {
        // Only a broken client takes this long. A failing test is better than a test that hangs.
        let event = timeout(Duration::from_secs(30), self.events.recv()).await;
        event.expect("something should have happened").unwrap()
    }

    /// True if the test has seen all events so far.
    pub fn is_quiet(&mut self) -> bool {
        self.events.try_recv().is_err()
    }

    /// Takes the next request, which must be a `Q`, and answers it.
    pub async fn answer_next<Q: Body, A: Body>(&mut self, answer: &A) -> Q {
        let request = self.next().await;
        request.answer(answer).await;
        request.message()
    }
}

impl Request {
    pub fn message<Q: Body>(&self) -> Q {
        self.frame.clone().decode().unwrap()
    }

    pub async fn answer<A: Body>(&self, answer: &A) {
        let mut frame = Vec::new();
        append_message(&mut frame, answer).unwrap();
        self.answer_bytes(&frame).await;
    }

    pub async fn refuse(&self, errmsg: &'static str) {
        self.answer(&error(errmsg)).await;
    }

    pub async fn answer_bytes(&self, bytes: &[u8]) {
        self.writer.lock().await.write_all(bytes).await.unwrap();
    }

    /// Closes the connection without an answer.
    pub async fn hang_up(&self) {
        self.writer.lock().await.shutdown().await.unwrap();
    }
}

pub fn error(errmsg: &'static str) -> RpbErrorResp {
    RpbErrorResp { errmsg: Bytes::from_static(errmsg.as_bytes()), errcode: 0 }
}

async fn accept(listener: TcpListener, happened: mpsc::Sender<Event>) {
    let mut connection = 0;
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(read(stream, connection, happened.clone()));
        connection += 1;
    }
}

async fn read(stream: TcpStream, connection: usize, happened: mpsc::Sender<Event>) {
    let (mut reader, writer) = stream.into_split();
    let writer = Arc::new(Mutex::new(writer));
    let decoder = FrameDecoder::default();
    let mut buffer = BytesMut::new();
    while read_some(&mut reader, &mut buffer).await {
        while let Some(frame) = decoder.next_frame(&mut buffer).unwrap() {
            let request = Request { connection, frame, writer: writer.clone() };
            if happened.send(Event::Request(request)).await.is_err() {
                return;
            }
        }
    }
    let _ = happened.send(Event::Closed(connection)).await;
}

async fn read_some(reader: &mut OwnedReadHalf, buffer: &mut BytesMut) -> bool {
    reader.read_buf(buffer).await.is_ok_and(|size_bytes| size_bytes > 0)
}
