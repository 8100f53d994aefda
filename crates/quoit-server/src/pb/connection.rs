//! One client connection.

use super::in_place::{InPlace, too_large};
use super::text;
use crate::context::ServerContext;
use crate::socket::{Incoming, Socket, StopSignal};
use bytes::{Buf, Bytes, BytesMut};
use quoit_core::RequestError;
use quoit_wire::frame::{Frame, FrameDecoder, append_empty, append_message};
use quoit_wire::messages::{Body, RpbErrorResp};
use quoit_wire::{DecodeError, FrameError, MessageCode};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use tokio::net::TcpStream;

/// Room made for a read when nothing more is known.
const READ_BYTES: usize = 8 * 1024;
/// Room made at most for a frame that is still arriving: a claim of the client is not believed at once.
const READ_BYTES_MAX: usize = 1024 * 1024;
/// Answers are written when so many bytes have gathered, even if further requests are at hand.
const FLUSH_BYTES: usize = 64 * 1024;

/// Why a request was not answered with its own message.
pub(super) enum Fault {
    /// The client gets this text; the connection goes on.
    Text(String),
    /// The client gets this text and the connection is closed.
    Closing(String),
    /// The client is gone.
    Socket(io::Error),
}

impl From<RequestError> for Fault {
    fn from(fault: RequestError) -> Self {
        if matches!(fault, RequestError::Store(_) | RequestError::Damaged(_)) {
            tracing::error!(%fault, "request failed");
        }
        Self::Text(text::request_error(&fault))
    }
}

impl From<DecodeError> for Fault {
    fn from(fault: DecodeError) -> Self {
        Self::Closing(format!("Error processing incoming message: error:{fault}:[]"))
    }
}

impl From<io::Error> for Fault {
    fn from(fault: io::Error) -> Self {
        Self::Socket(fault)
    }
}

/// State of a connection.
pub(super) struct Connection {
    pub(super) context: Arc<ServerContext>,
    socket: Socket,
    /// Answers that have not been written yet.
    pub(super) out: Vec<u8>,
    /// Room for the clock of an answer.
    pub(super) clock_bytes: Vec<u8>,
    pub(super) client_id: Bytes,
}

/// Serves a client until it closes, errs, or the server stops.
pub async fn serve(context: Arc<ServerContext>, stream: TcpStream, signal: Arc<StopSignal>) {
    let counts = Arc::clone(&context);
    let _open = counts.pb_connections.open();
    let mut connection = Connection {
        context,
        socket: Socket::new(stream, signal),
        out: Vec::new(),
        clock_bytes: Vec::new(),
        client_id: Bytes::from_static(&[0; 4]),
    };
    // A client that is gone needs no answer, and a log line for each would only help an attacker.
    let _ = connection.run().await;
}

impl Connection {
    async fn run(&mut self) -> io::Result<()> {
        let limit = u32::try_from(self.context.settings.request_bytes_max).unwrap_or(u32::MAX);
        let decoder = FrameDecoder::new(limit);
        let mut input = BytesMut::new();
        loop {
            let room = match decoder.missing_bytes(&input) {
                Ok(missing) => missing.clamp(READ_BYTES, READ_BYTES_MAX),
                Err(_) => READ_BYTES,
            };
            if self.socket.read(&mut input, room).await? == Incoming::End {
                return self.socket.shutdown().await;
            }
            if let Some(reason) = self.context.readiness.refusal() {
                if !self.refuse_all(&decoder, &mut input, &reason).await? {
                    return self.close().await;
                }
                continue;
            }
            loop {
                if let Some(answered) = self.take_in_place(&decoder, &mut input) {
                    let result = match answered {
                        Ok((InPlace::Written(pending), _)) => self.finish_put(pending).await,
                        Ok((InPlace::Shown(unconfirmed, start), size_bytes)) => {
                            if !self.context.store.confirm_read(unconfirmed).await {
                                self.out.truncate(start);
                                let Ok(Some(frame)) = decoder.next_frame(&mut input) else {
                                    return self.close().await;
                                };
                                self.dispatch(frame).await
                            } else {
                                input.advance(size_bytes);
                                Ok(())
                            }
                        }
                        other => other.map(drop),
                    };
                    if !self.settle(result).await? {
                        return self.close().await;
                    }
                    continue;
                }
                match decoder.next_frame(&mut input) {
                    Ok(Some(frame)) => {
                        let result = self.dispatch(frame).await;
                        if !self.settle(result).await? {
                            return self.close().await;
                        }
                    }
                    Ok(None) => break,
                    // As Riak: what has no message code gets no message.
                    Err(FrameError::ZeroLength) => return self.close().await,
                    Err(fault) => {
                        self.error(&format!("Invalid message packet, reason: {fault}"));
                        return self.close().await;
                    }
                }
            }
            self.flush().await?;
        }
    }

    /// Answers all requests at hand with an error. Whether the connection goes on.
    async fn refuse_all(
        &mut self,
        decoder: &FrameDecoder,
        input: &mut BytesMut,
        reason: &str,
    ) -> io::Result<bool> {
        while let Ok(Some(_)) = decoder.next_frame(input) {
            if !self.settle(Err(Fault::Text(reason.to_owned()))).await? {
                return Ok(false);
            }
        }
        self.flush().await?;
        Ok(decoder.missing_bytes(input).is_ok())
    }

    /// Takes the next request, of so many bytes, if it can be answered without taking it out of the buffer.
    /// One that is only shown stays there.
    fn take_in_place(
        &mut self,
        decoder: &FrameDecoder,
        input: &mut BytesMut,
    ) -> Option<Result<(InPlace, usize), Fault>> {
        let frame = decoder.peek_frame(input)?;
        let size_bytes = frame.size_bytes;
        match self.answer_in_place(frame) {
            Ok(InPlace::Declined) => None,
            Ok(shown @ InPlace::Shown(..)) => Some(Ok((shown, size_bytes))),
            answered => {
                input.advance(size_bytes);
                Some(answered.map(|answered| (answered, size_bytes)))
            }
        }
    }

    /// Ends a request: answers it if it failed, and writes answers that have become many. False when the
    /// connection has to be closed.
    async fn settle(&mut self, result: Result<(), Fault>) -> io::Result<bool> {
        let go_on = match result {
            Ok(()) => true,
            Err(Fault::Text(text)) => {
                self.error(&text);
                true
            }
            Err(Fault::Closing(text)) => {
                self.error(&text);
                false
            }
            Err(Fault::Socket(fault)) => return Err(fault),
        };
        if self.out.len() >= FLUSH_BYTES {
            self.flush().await?;
        }
        Ok(go_on)
    }

    async fn dispatch(&mut self, frame: Frame) -> Result<(), Fault> {
        let Some(code) = MessageCode::from_byte(frame.code) else {
            return Err(unserved_fold(frame.code).unwrap_or_else(|| unknown_code(frame.code)));
        };
        match code {
            MessageCode::GetReq => self.get(frame.decode()?).await,
            MessageCode::PutReq => self.put(frame.decode()?).await,
            MessageCode::DelReq => self.delete(frame.decode()?).await,
            MessageCode::PingReq => self.ping(),
            MessageCode::GetClientIdReq => self.get_client_id(),
            MessageCode::SetClientIdReq => self.set_client_id(frame.decode()?),
            MessageCode::GetServerInfoReq => self.server_info(),
            MessageCode::ListBucketsReq => self.list_buckets(frame.decode()?).await,
            MessageCode::ListKeysReq => self.list_keys(frame.decode()?).await,
            MessageCode::IndexReq => self.query_index(frame.decode()?).await,
            MessageCode::CSBucketReq => self.fold_bucket(frame.decode()?).await,
            MessageCode::CoverageReq => self.coverage(frame.decode()?).await,
            MessageCode::GetBucketReq => self.get_bucket(frame.decode()?),
            MessageCode::SetBucketReq => self.set_bucket(frame.decode()?).await,
            MessageCode::ResetBucketReq => self.reset_bucket(frame.decode()?).await,
            MessageCode::GetBucketTypeReq => self.get_bucket_type(frame.decode()?),
            MessageCode::SetBucketTypeReq => self.set_bucket_type(frame.decode()?).await,
            MessageCode::GetBucketKeyPreflistReq => self.preflist(frame.decode()?),
            MessageCode::GetLayoutReq => self.layout(&frame.decode()?),
            MessageCode::DtFetchReq => self.fetch_data_type(frame.decode()?).await,
            MessageCode::DtUpdateReq => self.update_data_type(frame.decode()?).await,
            MessageCode::DtQueryReq => self.query_data_type(frame.decode()?).await,
            MessageCode::AaeFoldFetchClocksRangeReq => self.fetch_clocks(frame.decode()?).await,
            MessageCode::AaeFoldFindKeysReq => self.find_keys(frame.decode()?).await,
            MessageCode::AaeFoldObjectStatsReq => self.object_stats(frame.decode()?).await,
            MessageCode::AaeFoldFindTombsReq => self.find_tombs(frame.decode()?).await,
            MessageCode::AaeFoldRepairKeysReq => self.repair_keys(frame.decode()?).await,
            MessageCode::AaeFoldReapTombsReq => self.reap_tombs(frame.decode()?).await,
            MessageCode::AaeFoldEraseKeysReq => self.erase_keys(frame.decode()?).await,
            MessageCode::AaeFoldListBucketsReq => self.fold_buckets(frame.decode()?).await,
            MessageCode::CounterGetReq => self.get_counter(frame.decode()?).await,
            MessageCode::CounterUpdateReq => self.update_counter(frame.decode()?).await,
            MessageCode::StartTls => {
                Err(Fault::Text("Security not enabled; STARTTLS not allowed.".into()))
            }
            code if is_response(code) => Err(Fault::Closing(format!(
                "Error processing incoming message: error:{code} is an answer, not a request:[]"
            ))),
            code => Err(unknown_code(code as u8)),
        }
    }

    /// Appends an answer.
    pub(super) fn send(&mut self, message: &impl Body) -> Result<(), Fault> {
        append_message(&mut self.out, message).map_err(|fault| too_large(&fault))
    }

    /// Appends an answer without fields.
    pub(super) fn send_empty(&mut self, code: MessageCode) {
        append_empty(&mut self.out, code);
    }

    fn error(&mut self, text: &str) {
        let message = RpbErrorResp { errmsg: Bytes::copy_from_slice(text.as_bytes()), errcode: 0 };
        if append_message(&mut self.out, &message).is_err() {
            tracing::error!(size_bytes = text.len(), "error text does not fit a frame");
        }
    }

    /// As [`Socket::unless_gone`].
    pub(super) async fn unless_gone<T>(
        &self,
        work: Pin<Box<impl Future<Output = Result<T, Fault>>>>,
    ) -> Result<T, Fault> {
        self.socket.unless_gone(work).await?
    }

    /// Writes what has gathered. Streams call it after each of their frames, so that a slow reader slows
    /// the listing down instead of filling memory.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.socket.write_all(&self.out).await?;
        if self.out.capacity() > READ_BYTES_MAX {
            self.out = Vec::new();
        } else {
            self.out.clear();
        }
        Ok(())
    }

    async fn close(&mut self) -> io::Result<()> {
        self.flush().await?;
        self.socket.shutdown().await
    }
}

fn unknown_code(code: u8) -> Fault {
    Fault::Text(format!("Unknown message code: {code}"))
}

/// What is said of folds that are known and not served.
fn unserved_fold(code: u8) -> Option<Fault> {
    let text = match code {
        210..=213 => {
            "trees of hashes by segments are not kept here, copies are compared by ranges of other hashes; \
             to compare what two clusters have, fetch clocks by ranges of keys (code 214)"
        }
        217 => "there are no queues of a replication to other clusters here to put keys on",
        _ => return None,
    };
    Some(Fault::Text(text.into()))
}

/// Whether the code is the answer of a service that has requests as well. Answers that belong to no
/// service are unknown codes.
fn is_response(code: MessageCode) -> bool {
    use MessageCode as M;
    matches!(
        code,
        M::PingResp
            | M::GetClientIdResp
            | M::SetClientIdResp
            | M::GetServerInfoResp
            | M::GetResp
            | M::PutResp
            | M::DelResp
            | M::ListBucketsResp
            | M::ListKeysResp
            | M::GetBucketResp
            | M::SetBucketResp
            | M::MapRedResp
            | M::IndexResp
            | M::ResetBucketResp
            | M::GetBucketKeyPreflistResp
            | M::GetLayoutResp
            | M::CSBucketResp
            | M::CounterUpdateResp
            | M::CounterGetResp
            | M::CoverageResp
            | M::DtFetchResp
            | M::DtUpdateResp
            | M::DtQueryResp
            | M::AaeFoldKeyValueResp
            | M::AaeFoldKeyCountResp
            | M::AaeFoldListBucketsResp
    )
}
