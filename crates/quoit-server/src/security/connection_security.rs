//! State of TLS and logins that all connections share.

use super::handshake::Handshakes;
use super::login::KnownPasswords;
use super::plaintext::PlaintextClients;
use super::unauthenticated::{
    UnauthenticatedConnection, UnauthenticatedConnections, UnauthenticatedLimits,
};
use crate::refusal_rate::RefusalRate;
use arc_swap::ArcSwapOption;
use quoit_cluster::{ControlPlane, PlainLink};
use quoit_security::{CutOffLoginPolicy, HashingCost};
use quoit_tls::rustls::ServerConfig;
use quoit_tls::tokio_rustls::server::TlsStream;
use quoit_tls::{
    CipherList, ClientCertificates, Expiry, Instant, ServerSettings, ServerTls, TlsError, Versions,
};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Certificate files, and TLS settings for clients.
#[derive(Clone, PartialEq, Debug)]
pub struct TlsFiles {
    /// The certificate (`ssl.certfile`).
    pub certificate: PathBuf,
    /// Its private key (`ssl.keyfile`).
    pub key: PathBuf,
    /// Certificate authorities for client certificates (`ssl.cacertfile`).
    pub authorities: Option<PathBuf>,
    /// Certificate revocation lists (`ssl.crlfile`), used if `check_crl` is on.
    pub revocation_lists: Vec<PathBuf>,
    /// TLS versions (`tls_protocols.*`).
    pub versions: Versions,
    /// True if the server's order of ciphers takes precedence (`honor_cipher_order`).
    pub prefers_own_order: bool,
    /// Number of sessions kept for resumption.
    pub sessions_max: usize,
}

/// Limits for clients that have not logged in, and access without a login.
#[derive(Clone, PartialEq, Debug)]
pub struct SecuritySettings {
    /// Certificates; `None` = no TLS.
    pub tls: Option<TlsFiles>,
    /// Delay of the answer to a refused login.
    pub failure_delay: Duration,
    /// Number of refused logins after which a connection is closed.
    pub attempts_max: u32,
    /// Time limit of a TLS handshake.
    pub handshake_timeout: Duration,
    /// Time limit of a login, from the start of the connection or from the moment at which security is
    /// switched on.
    pub login_timeout: Duration,
    /// Largest message or body of a client that has not logged in, in bytes.
    pub bytes_before_login_max: usize,
    /// Number of connections from one address that have not logged in.
    pub unauthenticated_of_address_max: usize,
    /// Number of connections in total that have not logged in.
    pub unauthenticated_max: usize,
    /// True if clients without TLS are served without a login while security is on (`listener.tls`).
    pub serves_plaintext: bool,
    /// True if `/stats` and `/metrics` are answered without a login.
    pub open_statistics: bool,
    /// Rule for logins on a node that is cut off and does not learn of changed users.
    pub while_cut_off: CutOffLoginPolicy,
    /// Hashing cost of new passwords.
    pub password_cost: HashingCost,
    /// Number of passwords that are hashed at the same time.
    pub hashing_count_max: usize,
}

impl Default for SecuritySettings {
    fn default() -> Self {
        Self {
            tls: None,
            failure_delay: Duration::from_secs(5),
            attempts_max: 3,
            handshake_timeout: Duration::from_secs(10),
            login_timeout: Duration::from_secs(60),
            bytes_before_login_max: 64 << 10,
            unauthenticated_of_address_max: 256,
            unauthenticated_max: 1024,
            serves_plaintext: false,
            open_statistics: false,
            while_cut_off: CutOffLoginPolicy::default(),
            password_cost: HashingCost::default(),
            hashing_count_max: 2,
        }
    }
}

/// Figures of logins and handshakes since the start.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) logins: AtomicU64,
    pub(super) failed_logins: AtomicU64,
    denied: AtomicU64,
    turned_away: AtomicU64,
    handshakes: AtomicU64,
    failed_handshakes: AtomicU64,
    refused_certificates: AtomicU64,
}

/// Figures of logins and handshakes since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SecurityFigures {
    /// Number of logins.
    pub logins: u64,
    /// Number of refused logins.
    pub failed_logins: u64,
    /// Number of requests refused for a missing permission.
    pub denied: u64,
    /// Number of connections closed because too many had not logged in.
    pub turned_away: u64,
    /// Number of TLS handshakes.
    pub handshakes: u64,
    /// Number of TLS handshakes that failed.
    pub failed_handshakes: u64,
    /// Number of TLS handshakes that failed because of the client's certificate.
    pub refused_certificates: u64,
    /// Current number of connections that have not logged in.
    pub unauthenticated: usize,
}

/// TLS configuration for each of the two protocols.
struct Tls {
    pb: ServerTls,
    http: ServerTls,
    handshakes: Arc<Handshakes>,
}

/// State of TLS and logins that all connections share.
pub struct ConnectionSecurity {
    pub(crate) settings: SecuritySettings,
    tls: ArcSwapOption<Tls>,
    unauthenticated: Arc<UnauthenticatedConnections>,
    hashing: Semaphore,
    pub(super) plaintext: PlaintextClients,
    pub(super) known: KnownPasswords,
    pub(super) counts: Counts,
    /// Rate limits of log lines.
    refused_certificates: RefusalRate,
    pub(super) refused_logins: RefusalRate,
}

impl ConnectionSecurity {
    /// Creates a state without TLS.
    #[must_use]
    pub fn closed() -> Self {
        Self::without_tls(SecuritySettings::default())
    }

    /// Creates a state with the certificates of the settings.
    ///
    /// # Errors
    ///
    /// A fault of a certificate, key or revocation list, with the file, the place and the remedy.
    pub fn open(settings: SecuritySettings) -> Result<Self, TlsError> {
        let security = Self::without_tls(settings);
        security.reload(None)?;
        Ok(security)
    }

    fn without_tls(settings: SecuritySettings) -> Self {
        let hashing = Semaphore::new(settings.hashing_count_max.max(1));
        Self {
            plaintext: PlaintextClients::new(settings.serves_plaintext),
            settings,
            tls: ArcSwapOption::empty(),
            unauthenticated: Arc::default(),
            hashing,
            known: KnownPasswords::default(),
            counts: Counts::default(),
            refused_certificates: RefusalRate::default(),
            refused_logins: RefusalRate::default(),
        }
    }

    /// Waits for a permit to hash a password.
    pub(crate) async fn hashing_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.hashing.acquire().await.ok()
    }

    /// Loads certificates, keys and revocation lists again, for new handshakes. `ciphers` is the list that
    /// an operator has set. On a fault, nothing changes.
    ///
    /// # Errors
    ///
    /// Like [`ConnectionSecurity::open`].
    pub fn reload(&self, ciphers: Option<&str>) -> Result<(), TlsError> {
        let Some(files) = &self.settings.tls else { return Ok(()) };
        let ciphers = ciphers.map(CipherList::parse).transpose()?.unwrap_or_default();
        let settings = |protocols: &[&[u8]]| ServerSettings {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
            authorities: files.authorities.clone(),
            clients: match files.authorities {
                Some(_) => ClientCertificates::Optional,
                None => ClientCertificates::Ignored,
            },
            revocation_lists: files.revocation_lists.clone(),
            strict_revocation: false,
            versions: files.versions,
            ciphers: ciphers.clone(),
            prefers_own_order: files.prefers_own_order,
            protocols: protocols.iter().map(|name| name.to_vec()).collect(),
            sessions_max: files.sessions_max,
        };
        let now = Instant::now();
        let handshakes = match &*self.tls.load() {
            Some(tls) => Arc::clone(&tls.handshakes),
            None => Arc::new(
                Handshakes::start().map_err(|fault| TlsError::Configuration(fault.to_string()))?,
            ),
        };
        let tls = Tls {
            pb: ServerTls::open(settings(&[]), now)?,
            http: ServerTls::open(settings(&[b"http/1.1"]), now)?,
            handshakes,
        };
        self.tls.store(Some(Arc::new(tls)));
        Ok(())
    }

    /// True if TLS is configured.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.settings.tls.is_some()
    }

    /// Files that require a call of [`ConnectionSecurity::reload`] when they change.
    #[must_use]
    pub fn tls_files(&self) -> Vec<PathBuf> {
        let Some(files) = &self.settings.tls else { return Vec::new() };
        let mut all = vec![files.certificate.clone(), files.key.clone()];
        all.extend(files.authorities.clone());
        all.extend(files.revocation_lists.iter().cloned());
        all
    }

    /// Expiry of certificates and revocation lists.
    #[must_use]
    pub fn expiry(&self) -> Vec<Expiry> {
        self.tls.load().as_ref().map_or_else(Vec::new, |tls| tls.http.expiry())
    }

    /// Warnings about certificates that do not work with every client.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.tls.load().as_ref().map_or_else(Vec::new, |tls| tls.http.warnings())
    }

    /// Figures since the start.
    #[must_use]
    pub fn figures(&self) -> SecurityFigures {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.counts;
        SecurityFigures {
            logins: read(&counts.logins),
            failed_logins: read(&counts.failed_logins),
            denied: read(&counts.denied),
            turned_away: read(&counts.turned_away),
            handshakes: read(&counts.handshakes),
            failed_handshakes: read(&counts.failed_handshakes),
            refused_certificates: read(&counts.refused_certificates),
            unauthenticated: self.unauthenticated.count(),
        }
    }

    /// True if clients without TLS are served without a login while security is on.
    #[must_use]
    pub fn serves_plaintext(&self) -> bool {
        self.plaintext.are_served()
    }

    /// Clients without TLS that were served while security was on, since the start, by address.
    #[must_use]
    pub fn plaintext_clients(&self) -> BTreeMap<String, PlainLink> {
        self.plaintext.by_host()
    }

    pub(crate) fn note_plaintext(&self, address: IpAddr) {
        self.plaintext.note(address);
    }

    /// Changes whether clients without TLS are served, and makes all connections check the rules again.
    pub(crate) fn serve_plaintext(&self, control: &ControlPlane, serves: bool) {
        if self.plaintext.serve(serves) {
            control.security_epoch().fetch_add(1, Ordering::Release);
        }
    }

    pub(crate) fn note_denied(&self) {
        self.counts.denied.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that has not logged in; `None` if it has to be closed.
    pub(crate) fn admit_unauthenticated(
        &self,
        address: IpAddr,
    ) -> Option<UnauthenticatedConnection> {
        let limits = UnauthenticatedLimits {
            of_address_max: self.settings.unauthenticated_of_address_max,
            all_max: self.settings.unauthenticated_max,
        };
        let admitted = UnauthenticatedConnections::admit(&self.unauthenticated, address, limits);
        if admitted.is_none() {
            self.counts.turned_away.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// Performs the TLS handshake of a Protocol Buffers connection.
    pub(crate) async fn accept_pb(
        &self,
        stream: TcpStream,
    ) -> io::Result<Box<TlsStream<TcpStream>>> {
        self.accept(stream, |tls| tls.pb.config()).await
    }

    /// Performs the TLS handshake of an HTTPS connection.
    pub(crate) async fn accept_http(
        &self,
        stream: TcpStream,
    ) -> io::Result<Box<TlsStream<TcpStream>>> {
        self.accept(stream, |tls| tls.http.config()).await
    }

    fn note_failed_handshake(&self, fault: &io::Error, from: Option<IpAddr>) {
        let reason = quoit_tls::failure_words(fault);
        let is_refused = quoit_tls::is_refused_certificate(fault);
        self.counts.refused_certificates.fetch_add(u64::from(is_refused), Ordering::Relaxed);
        if is_refused && self.refused_certificates.has_room(std::time::Instant::now()) {
            tracing::info!(?from, reason, "the certificate of a client is refused");
        } else {
            tracing::debug!(?from, reason, "a handshake failed");
        }
    }

    async fn accept(
        &self,
        stream: TcpStream,
        config: impl FnOnce(&Tls) -> Arc<ServerConfig>,
    ) -> io::Result<Box<TlsStream<TcpStream>>> {
        let tls =
            self.tls.load_full().ok_or_else(|| io::Error::other("there is no certificate"))?;
        let _ = stream.set_nodelay(true);
        let from = stream.peer_addr().ok().map(|address| address.ip());
        let accepting = tls.handshakes.accept(config(&tls), stream);
        let accepted = tokio::time::timeout(self.settings.handshake_timeout, accepting).await;
        let accepted = accepted.map_err(io::Error::from).and_then(|accepted| accepted);
        match &accepted {
            Ok(_) => self.counts.handshakes.fetch_add(1, Ordering::Relaxed),
            Err(fault) => {
                self.note_failed_handshake(fault, from);
                self.counts.failed_handshakes.fetch_add(1, Ordering::Relaxed)
            }
        };
        accepted
    }
}
