//! Admission of requests while security is on: TLS, credentials and permissions.

use super::connection::HttpConnection;
use super::head::{Head, Method};
use super::refusal::Refusal;
use super::required_access::{RequiredAccess, access};
use super::route::Route;
use crate::audit::{AuditEntry, AuditedInterface};
use crate::security::{AccessState, Credentials, Login, LoginAttempt, RequiredPermission};
use serde_json::json;
use tokio::time::Instant;

/// Riak's text for credentials without TLS.
const UPGRADE: &str =
    "Security is enabled and Riak does not accept credentials over HTTP. Try HTTPS instead.";
/// Riak's text for link walking, including its line break and indentation: 120 bytes.
const NO_WALK: &str = concat!(
    "Link walking is deprecated in Riak 2.0 and is not compatible with\n",
    "                                             security."
);

/// The proof with which the client of a connection has logged in.
pub(super) enum KnownProof {
    /// The value of the header `Authorization`.
    Header(Box<[u8]>),
    /// The certificate of the connection.
    Certificate,
}

impl HttpConnection {
    /// Refuses a request of a client that has not proved its identity, or that has no grant for the
    /// request. Costs one comparison while security is off.
    pub(super) async fn admit(
        &mut self,
        head: &Head,
        route: &Route<'_>,
        method: Method,
        query: &[u8],
    ) -> Result<(), Refusal> {
        if self.session.is_open() {
            return Ok(());
        }
        // Read before `access_state` is called, which adopts the current security settings.
        let is_current = self.session.is_user();
        if self.session.access_state(self.context.store.control()) == AccessState::Open {
            self.count_as_known();
            return self.admit_plaintext(route);
        }
        let access = access(route, method, query);
        let needs_login = match access {
            RequiredAccess::Denied => return Err(Refusal::Text(403, NO_WALK.into())),
            RequiredAccess::Open => false,
            RequiredAccess::Statistics => !self.context.security.settings.open_statistics,
            RequiredAccess::User | RequiredAccess::Permission(_) => true,
        };
        if !needs_login && head.get("authorization").is_none() {
            return Ok(());
        }
        if !self.socket.is_tls() {
            return if needs_login { Err(self.upgrade(route)) } else { Ok(()) };
        }
        if !is_current || !self.shows_known_proof(head) {
            let identified = self.identify(head, needs_login).await;
            identified.map_err(|refusal| self.for_admin(route, refusal))?;
        }
        match access {
            RequiredAccess::Permission(need) => {
                let denied = self.check(&need);
                denied.map_err(|refusal| self.for_admin(route, refusal))
            }
            _ => Ok(()),
        }
    }

    /// Counts a client without TLS that is served although security is on. Such clients may not use the
    /// administration API.
    pub(super) fn admit_plaintext(&mut self, route: &Route<'_>) -> Result<(), Refusal> {
        match route {
            _ if !self.session.is_served_without_tls() => Ok(()),
            Route::Admin(_) => Err(self.upgrade(route)),
            Route::Ping | Route::Livez | Route::Readyz => Ok(()),
            _ => {
                if !self.is_noted_plaintext {
                    self.is_noted_plaintext = true;
                    self.context.security.note_plaintext(self.address);
                }
                Ok(())
            }
        }
    }

    /// Refuses a request for which the client has no grant, and writes it to the audit log.
    pub(crate) fn check(&mut self, need: &RequiredPermission<'_>) -> Result<(), Refusal> {
        let checked = self.session.check(self.context.store.control(), need);
        if checked.is_ok() && !self.context.audit.records_allowed() {
            return Ok(());
        }
        let by = self.audit_entry(AuditedInterface::Http, need.permission.name());
        self.context.audit.record_checked(by, need, checked.as_ref().err().map(String::as_str));
        checked.map_err(|text| {
            self.context.security.note_denied();
            Refusal::Text(403, text.into())
        })
    }

    /// Begins an audit log entry for an operation of this client.
    pub(crate) fn audit_entry<'a>(
        &'a self,
        via: AuditedInterface,
        what: &'a str,
    ) -> AuditEntry<'a> {
        let from = (!self.is_operator).then_some(self.address);
        AuditEntry { user: self.session.user(), from, ..AuditEntry::new(via, what) }
    }

    /// Admits a request before its body is read. Large bodies of clients that are not known yet are only
    /// read after this.
    pub(super) async fn admit_body(&mut self, head: &Head) -> Result<(), Refusal> {
        if self.session.is_open() {
            return Ok(());
        }
        let (route, method, query) = self.resource(head)?;
        self.admit(head, &route, method, query).await
    }

    /// True if a request has the same proof with which the client has logged in before.
    fn shows_known_proof(&self, head: &Head) -> bool {
        match (&self.known_proof, head.get("authorization")) {
            (Some(KnownProof::Header(known)), Some(header)) => **known == *header,
            (Some(KnownProof::Certificate), None) => true,
            _ => false,
        }
    }

    /// Identifies the user of a request by its header, or by the certificate of the connection. A proof
    /// that was right before is checked again after the security settings have changed: the password may be
    /// different now, and the source of logins may be gone.
    async fn identify(&mut self, head: &Head, is_needed: bool) -> Result<(), Refusal> {
        let header = head.get("authorization");
        self.session.log_out();
        self.known_proof = None;
        let began = Instant::now();
        let login = match header {
            Some(header) => match Credentials::of_header(header) {
                Some(Credentials { user, password }) => self.log_in(&user, &password).await,
                None => None,
            },
            None => self.log_in_by_certificate().await,
        };
        if let Some(login) = login {
            self.session.log_in(login);
            self.known_proof = Some(match header {
                Some(header) => KnownProof::Header(header.into()),
                None => KnownProof::Certificate,
            });
            self.count_as_known();
            // Checks the current settings: the user may have been deleted meanwhile.
            return match self.session.access_state(self.context.store.control()) {
                AccessState::User | AccessState::Open => Ok(()),
                AccessState::Unauthenticated | AccessState::UserDeleted => {
                    Err(Refusal::Unauthorized)
                }
            };
        }
        if header.is_none() {
            return if is_needed { Err(Refusal::Unauthorized) } else { Ok(()) };
        }
        let settings = &self.context.security.settings;
        let (delay, attempts_max) = (settings.failure_delay, settings.attempts_max);
        self.socket.rest_until(began + delay).await?;
        self.failed_logins += 1;
        if self.failed_logins >= attempts_max {
            self.form.keep_alive = false;
        }
        Err(Refusal::Unauthorized)
    }

    async fn log_in(&self, user: &str, password: &[u8]) -> Option<Login> {
        let certificate = self.socket.certificate_name();
        let certificate = certificate.as_deref();
        let attempt = LoginAttempt { user, password, certificate, address: self.address };
        let login = self.context.security.log_in(self.context.store.control(), &attempt).await;
        if login.is_none() {
            self.context.audit.record_refused_login(AuditedInterface::Http, user, self.address);
        }
        login
    }

    /// Logs a client without credentials in by its certificate, if the matching source of logins asks for
    /// certificates.
    async fn log_in_by_certificate(&self) -> Option<Login> {
        let name = self.socket.certificate_name()?;
        let is_source = {
            let state = self.context.store.control().read();
            let source = state.security().source_for(&name, self.address);
            source.is_some_and(|source| source.kind == quoit_security::SourceKind::Certificate)
        };
        if is_source { self.log_in(&name, b"").await } else { None }
    }

    fn upgrade(&self, route: &Route<'_>) -> Refusal {
        match route {
            Route::Admin(_) => self.for_admin(route, Refusal::Upgrade(UPGRADE, false)),
            Route::Datatype(..) => Refusal::Upgrade(UPGRADE, true),
            _ => Refusal::Upgrade(UPGRADE, false),
        }
    }

    /// Converts a refusal to that of the administration API. Clients on this machine are told the path of
    /// the local socket.
    fn for_admin(&self, route: &Route<'_>, refusal: Refusal) -> Refusal {
        if !matches!(route, Route::Admin(_)) {
            return refusal;
        }
        let (status, word, message) = match refusal {
            Refusal::Upgrade(..) => (
                426,
                "security",
                "security is on: administration is answered at the node's local socket (quoit admin --socket \
                 DATA_DIR/admin.sock), or over HTTPS to users with the permission quoit.operate or \
                 quoit.observe"
                    .to_owned(),
            ),
            Refusal::Unauthorized => {
                (401, "unauthorized", "the user or the password is wrong".to_owned())
            }
            Refusal::Text(403, text) => (403, "denied", text.into_owned()),
            refusal => return refusal,
        };
        let socket = self.context.admin_socket.get().filter(|_| self.is_local);
        let socket = socket.map(|path| path.to_string_lossy().into_owned());
        Refusal::Locked(status, json!({"error": word, "message": message}), socket)
    }

    /// Counts the connection as one that has not logged in, if it has not. Returns false if there are too
    /// many such connections.
    pub(super) fn count_as_unauthenticated(&mut self) -> bool {
        if self.session.is_open() || self.unauthenticated.is_some() {
            return true;
        }
        let control = self.context.store.control();
        if self.session.access_state(control) != AccessState::Unauthenticated
            || self.known_proof.is_some()
        {
            return true;
        }
        let security = &self.context.security;
        let Some(unauthenticated) = security.admit_unauthenticated(self.address) else {
            return false;
        };
        self.unauthenticated = Some(unauthenticated);
        self.socket.set_deadline(Some(Instant::now() + security.settings.login_timeout));
        true
    }

    /// Lifts the limits for clients that have not logged in.
    fn count_as_known(&mut self) {
        self.unauthenticated = None;
        self.socket.set_deadline(None);
    }

    /// True if the permissions of this client must be checked. For permissions that depend on the body of
    /// the request.
    pub(crate) fn is_secured(&self) -> bool {
        !self.session.is_open()
    }

    /// Checks the permissions that the body of a request requires.
    pub(super) fn check_all<'n>(
        &mut self,
        needs: impl IntoIterator<Item = RequiredPermission<'n>>,
    ) -> Result<(), Refusal> {
        needs.into_iter().try_for_each(|need| self.check(&need))
    }
}
