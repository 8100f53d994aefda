//! A small object server with the Protocol Buffers interface.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::{Bytes, BytesMut};
use quoit_client::wire::messages::{
    RpbAaeFoldFetchClocksRangeReq, RpbAaeFoldObjectStatsReq, RpbContent, RpbDelReq, RpbDelResp,
    RpbErrorResp, RpbGetLayoutReq, RpbGetReq, RpbGetResp, RpbIndexReq, RpbIndexResp,
    RpbListKeysReq, RpbListKeysResp, RpbMapRedReq, RpbPutReq, RpbPutResp,
};
use quoit_client::wire::{Body, Frame, FrameDecoder, MessageCode, append_message};

/// A request as the server saw it.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    Get(RpbGetReq),
    Put(Box<RpbPutReq>),
    Delete(RpbDelReq),
    ListKeys(RpbListKeysReq),
    Index(RpbIndexReq),
    Layout(RpbGetLayoutReq),
    MapRed(RpbMapRedReq),
    ObjectStats(RpbAaeFoldObjectStatsReq),
    FetchClocks(RpbAaeFoldFetchClocksRangeReq),
}

/// The server's behaviour towards a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServerBehavior {
    Answer,
    Refuse,
    Hang,
    Close,
}

pub struct PbServer {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// The reply to a request: bytes, no reply, or the end of the connection.
pub enum Reply {
    Bytes(Vec<u8>),
    Nothing,
    End,
}

type Respond = dyn Fn(Seen, usize) -> Reply + Send + Sync;

#[derive(Default)]
struct Objects(Mutex<HashMap<Bytes, (u32, RpbContent)>>);

impl PbServer {
    /// Starts a store. `manner_of` decides its behaviour by the number of the request, from 0.
    pub fn start(manner_of: impl Fn(usize) -> ServerBehavior + Send + Sync + 'static) -> Self {
        let objects = Objects::default();
        Self::answering(move |request, number| {
            let mut answer = Vec::new();
            match manner_of(number) {
                ServerBehavior::Answer => objects.answer(request, &mut answer),
                ServerBehavior::Refuse => {
                    let errmsg = Bytes::from_static(b"overload");
                    append(&mut answer, &RpbErrorResp { errmsg, errcode: 0 });
                }
                ServerBehavior::Hang => return Reply::Nothing,
                ServerBehavior::Close => return Reply::End,
            }
            Reply::Bytes(answer)
        })
    }

    /// Starts a server that answers by a function of the request and its number, from 0.
    pub fn answering(respond: impl Fn(Seen, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (shared, respond) = (seen.clone(), Arc::new(respond));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, respond) = (shared.clone(), respond.clone());
                let stream = stream.unwrap();
                thread::spawn(move || serve(stream, &seen, &*respond));
            }
        });
        Self { address, seen }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The puts among the requests.
    pub fn puts(&self) -> Vec<RpbPutReq> {
        let put = |seen| match seen {
            Seen::Put(put) => Some(*put),
            _ => None,
        };
        self.seen().into_iter().filter_map(put).collect()
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<Seen>>, respond: &Respond) {
    let mut buffer = BytesMut::new();
    let mut chunk = [0; 65_536];
    loop {
        while let Some(frame) = FrameDecoder::default().next_frame(&mut buffer).unwrap() {
            let request = decode(frame);
            let number = {
                let mut seen = seen.lock().unwrap();
                seen.push(request.clone());
                seen.len() - 1
            };
            match respond(request, number) {
                // The client may have given up and closed the connection.
                Reply::Bytes(answer) if stream.write_all(&answer).is_err() => return,
                Reply::Bytes(_) | Reply::Nothing => {}
                Reply::End => return,
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(count) => buffer.extend_from_slice(&chunk[..count]),
        }
    }
}

fn decode(frame: Frame) -> Seen {
    match MessageCode::from_byte(frame.code) {
        Some(MessageCode::GetReq) => Seen::Get(frame.decode().unwrap()),
        Some(MessageCode::PutReq) => Seen::Put(Box::new(frame.decode().unwrap())),
        Some(MessageCode::DelReq) => Seen::Delete(frame.decode().unwrap()),
        Some(MessageCode::ListKeysReq) => Seen::ListKeys(frame.decode().unwrap()),
        Some(MessageCode::IndexReq) => Seen::Index(frame.decode().unwrap()),
        Some(MessageCode::GetLayoutReq) => Seen::Layout(frame.decode().unwrap()),
        Some(MessageCode::MapRedReq) => Seen::MapRed(frame.decode().unwrap()),
        Some(MessageCode::AaeFoldObjectStatsReq) => Seen::ObjectStats(frame.decode().unwrap()),
        Some(MessageCode::AaeFoldFetchClocksRangeReq) => Seen::FetchClocks(frame.decode().unwrap()),
        other => panic!("{other:?} is no request of the driver"),
    }
}

/// Appends a message in its frame.
pub fn append<M: Body>(answer: &mut Vec<u8>, message: &M) {
    append_message(answer, message).unwrap();
}

impl Objects {
    fn answer(&self, request: Seen, answer: &mut Vec<u8>) {
        let mut objects = self.0.lock().unwrap();
        match request {
            Seen::Get(get) => {
                let response = match objects.get(&get.key) {
                    None => RpbGetResp::default(),
                    Some((clock, content)) => RpbGetResp {
                        content: vec![content.clone()],
                        vclock: Some(Bytes::from(format!("clock-{clock}"))),
                        unchanged: None,
                    },
                };
                append(answer, &response);
            }
            Seen::Put(put) => {
                let key = put.key.unwrap();
                let clock = objects.get(&key).map_or(0, |(clock, _)| clock + 1);
                let charset = Some(Bytes::from_static(b"kept"));
                objects.insert(key, (clock, RpbContent { charset, ..put.content }));
                append(answer, &RpbPutResp::default());
            }
            Seen::Delete(delete) => {
                objects.remove(&delete.key);
                append(answer, &RpbDelResp {});
            }
            Seen::ListKeys(_) => {
                // One key in each part, and a last part without keys.
                for key in objects.keys() {
                    append(answer, &RpbListKeysResp { keys: vec![key.clone()], done: None });
                }
                append(answer, &RpbListKeysResp { keys: Vec::new(), done: Some(true) });
            }
            Seen::Index(query) => {
                let keys = objects
                    .iter()
                    .filter(|(_, (_, content))| is_asked(content, &query))
                    .map(|(key, _)| key.clone())
                    .collect();
                append(answer, &RpbIndexResp { keys, ..RpbIndexResp::default() });
            }
            Seen::Layout(_) | Seen::MapRed(_) | Seen::ObjectStats(_) | Seen::FetchClocks(_) => {
                let errmsg = Bytes::from_static(b"Unknown message code: 160");
                append(answer, &RpbErrorResp { errmsg, errcode: 0 });
            }
        }
    }
}

/// True if an object has an entry that matches a query of an integer index.
fn is_asked(content: &RpbContent, query: &RpbIndexReq) -> bool {
    let number = |bytes: &Bytes| std::str::from_utf8(bytes).unwrap().parse::<i64>().unwrap();
    let first = query.key.as_ref().or(query.range_min.as_ref()).unwrap();
    let last = query.key.as_ref().or(query.range_max.as_ref()).unwrap();
    content.indexes.iter().any(|entry| {
        let term = number(entry.value.as_ref().unwrap());
        entry.key == query.index && (number(first)..=number(last)).contains(&term)
    })
}
