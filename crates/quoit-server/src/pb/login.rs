//! Clients that have not logged in. They get STARTTLS, the TLS handshake and AuthReq; every other request
//! gets one of two errors.

use super::connection::PbConnection;
use super::fault::Fault;
use super::input::Input;
use crate::audit::AuditedInterface;
use crate::security::{Login, LoginAttempt};
use crate::stream::Stream;
use quoit_wire::frame::Frame;
use quoit_wire::messages::RpbAuthReq;
use quoit_wire::{FrameError, MessageCode};
use std::io;
use tokio::time::Instant;

/// Result of handling the next message.
pub(super) enum LoginProgress {
    /// It is answered.
    Answered,
    /// The input has no complete message.
    Missing,
    /// The connection has to be closed.
    Last,
}

impl PbConnection {
    /// Counts the connection as one that has not logged in. Returns false if there are too many such
    /// connections.
    pub(super) fn count_as_unauthenticated(&mut self, input: &mut Input) -> bool {
        let security = &self.context.security;
        if self.unauthenticated.is_none() {
            let Some(unauthenticated) = security.admit_unauthenticated(self.address) else {
                return false;
            };
            self.unauthenticated = Some(unauthenticated);
            self.socket.set_deadline(Some(Instant::now() + security.settings.login_timeout));
            input.limit_frames(security.settings.bytes_before_login_max);
        }
        true
    }

    /// Lifts the limits for clients that have not logged in.
    pub(super) fn count_as_known(&mut self, input: &mut Input) {
        if self.unauthenticated.take().is_some() {
            self.socket.set_deadline(None);
            input.limit_frames(self.context.settings.request_bytes_limit());
        }
    }

    /// Answers the next message of a client that has not logged in.
    pub(super) async fn answer_unauthenticated(
        &mut self,
        input: &mut Input,
    ) -> io::Result<LoginProgress> {
        if !self.count_as_unauthenticated(input) {
            return Ok(LoginProgress::Last);
        }
        let frame = match input.decoder.next_frame(&mut input.bytes) {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(LoginProgress::Missing),
            Err(FrameError::ZeroLength) => return Ok(LoginProgress::Last),
            Err(fault) => {
                self.error(&format!("Invalid message packet, reason: {fault}"));
                return Ok(LoginProgress::Last);
            }
        };
        let code = MessageCode::from_byte(frame.code);
        match (self.socket.is_tls(), code) {
            (false, Some(MessageCode::StartTls)) => self.start_tls(input).await,
            (false, _) => {
                self.error("Security is enabled, please STARTTLS first");
                Ok(LoginProgress::Answered)
            }
            (true, Some(MessageCode::AuthReq)) => self.authenticate(frame, input).await,
            (true, _) => {
                self.error("Security is enabled, please authenticate first");
                Ok(LoginProgress::Answered)
            }
        }
    }

    /// Accepts STARTTLS, and does the handshake.
    async fn start_tls(&mut self, input: &Input) -> io::Result<LoginProgress> {
        if !self.context.security.has_tls() {
            self.error(
                "TLS is not possible: the node has no certificate (ssl.certfile, ssl.keyfile)",
            );
            return Ok(LoginProgress::Answered);
        }
        self.send_empty(MessageCode::StartTls);
        self.flush().await?;
        // Plain text that follows the request would be taken as if it had come through TLS.
        if !input.bytes.is_empty() {
            return Ok(LoginProgress::Last);
        }
        let Stream::Tcp(stream) = self.socket.take_stream() else {
            return Ok(LoginProgress::Last);
        };
        match self.context.security.accept_pb(stream).await {
            Ok(stream) => {
                self.socket.put_stream(Stream::Tls(stream));
                self.session.leave_plaintext();
                Ok(LoginProgress::Answered)
            }
            Err(fault) => {
                self.context.audit.record_failed_handshake(
                    AuditedInterface::Pb,
                    &fault,
                    self.address,
                );
                Err(fault)
            }
        }
    }

    /// Checks a login. The answer to a failed one is delayed, and too many failed ones close the
    /// connection.
    async fn authenticate(&mut self, frame: Frame, input: &mut Input) -> io::Result<LoginProgress> {
        let began = Instant::now();
        // As in Riak: a malformed request gets no answer.
        let Ok(request) = frame.decode::<RpbAuthReq>() else { return Ok(LoginProgress::Last) };
        let login = match std::str::from_utf8(&request.user) {
            Ok(user) => self.log_in(user, &request.password).await,
            Err(_) => None,
        };
        if let Some(login) = login {
            self.session.log_in(login);
            self.count_as_known(input);
            self.send_empty(MessageCode::AuthResp);
            return Ok(LoginProgress::Answered);
        }
        let (delay, attempts_max) = {
            let settings = &self.context.security.settings;
            (settings.failure_delay, settings.attempts_max)
        };
        self.socket.rest_until(began + delay).await?;
        self.failed_logins += 1;
        self.error("Authentication failed");
        Ok(if self.failed_logins >= attempts_max {
            LoginProgress::Last
        } else {
            LoginProgress::Answered
        })
    }

    async fn log_in(&self, user: &str, password: &[u8]) -> Option<Login> {
        let certificate = self.socket.certificate_name();
        let certificate = certificate.as_deref();
        let attempt = LoginAttempt { user, password, certificate, address: self.address };
        let login = self.context.security.log_in(self.context.store.control(), &attempt).await;
        if login.is_none() {
            self.context.audit.record_refused_login(AuditedInterface::Pb, user, self.address);
        }
        login
    }

    /// The error for a request of a user that was deleted.
    pub(super) fn user_deleted(&self) -> Fault {
        let user = self.session.user().unwrap_or_default();
        Fault::Closing(format!(
            "Error processing incoming message: error:unknown_user:the user '{user}' was deleted"
        ))
    }
}
