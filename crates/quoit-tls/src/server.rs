//! The TLS configuration of a listener. Its files can be loaded again without ending connections.

use crate::certificate::Purpose;
use crate::ciphers::CipherList;
use crate::error::TlsError;
use crate::expiry::Expiry;
use crate::files::{load_authorities, load_usable_lists};
use crate::identity::Identity;
use crate::instant::Instant;
use crate::versions::Versions;
use arc_swap::ArcSwap;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{RootCertStore, ServerConfig};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Default number of sessions that a listener remembers, for TLS 1.2 clients that resume without tickets.
pub const SESSIONS_MAX: usize = 4096;

/// Policy for client certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    /// They are not requested.
    #[default]
    Ignored,
    /// A client may show one. An invalid one ends the handshake.
    Optional,
    /// A client without a valid one is refused.
    Required,
}

/// Settings of a listener.
#[derive(Debug, Clone, Default)]
pub struct ServerSettings {
    /// File of the certificate. It must contain the chain, too, unless that is in `authorities`.
    pub certificate: PathBuf,
    /// File of the private key.
    pub key: PathBuf,
    /// File of the authorities that verify client certificates. It may also complete the server's own
    /// chain.
    pub authorities: Option<PathBuf>,
    /// Policy for client certificates.
    pub clients: ClientCertificates,
    /// Files of revocation lists for client certificates.
    pub revocation_lists: Vec<PathBuf>,
    /// If true, the listener refuses a client certificate that no revocation list covers, or whose list is
    /// outdated.
    pub strict_revocation: bool,
    /// Versions of TLS.
    pub versions: Versions,
    /// Cipher suites.
    pub ciphers: CipherList,
    /// True if the server's order of suites takes precedence over the client's.
    pub prefers_own_order: bool,
    /// Protocol names for ALPN, in order of preference. If empty, the extension is not answered.
    pub protocols: Vec<Vec<u8>>,
    /// Maximum number of sessions that are remembered; 0 disables resumption.
    pub sessions_max: usize,
}

/// The TLS configuration of a listener. Handshakes that begin after a [`reload`](Self::reload) use the new
/// files; existing connections continue.
pub struct ServerTls {
    settings: ServerSettings,
    state: ArcSwap<Loaded>,
}

struct Loaded {
    config: Arc<ServerConfig>,
    expiry: Vec<Expiry>,
    warnings: Vec<String>,
}

impl ServerTls {
    /// Loads the files of `settings`.
    ///
    /// # Errors
    ///
    /// The first [`TlsError`] in a file or between settings.
    pub fn open(settings: ServerSettings, now: Instant) -> Result<ServerTls, TlsError> {
        let loaded = load(&settings, now)?;
        Ok(ServerTls { settings, state: ArcSwap::from_pointee(loaded) })
    }

    /// Loads the files again. If one of them has a fault, nothing changes.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn reload(&self, now: Instant) -> Result<(), TlsError> {
        self.state.store(Arc::new(load(&self.settings, now)?));
        Ok(())
    }

    /// Returns the configuration for the next handshake. Costs an atomic load and a reference count.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.state.load().config)
    }

    /// Returns the ends of validity of all certificates and lists that this listener uses.
    #[must_use]
    pub fn expiry(&self) -> Vec<Expiry> {
        self.state.load().expiry.clone()
    }

    /// Returns warnings about settings that work, but not with every client.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.state.load().warnings.clone()
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ServerTls")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

fn load(settings: &ServerSettings, now: Instant) -> Result<Loaded, TlsError> {
    let more: Vec<_> = settings.authorities.as_deref().into_iter().collect();
    let identity =
        Identity::load(&settings.certificate, &settings.key, &more, Purpose::Server, now)?;
    let mut expiry = vec![Expiry::of(&settings.certificate, identity.certificate())];
    let mut warnings = Vec::new();
    if identity.certificate().has_only_a_common_name() {
        warnings.push(format!(
            "{}: the certificate of '{}' names its host only in the common name, and clients that follow \
             RFC 6125 refuse it: have it issued with the names as subject alternative names",
            settings.certificate.display(),
            identity.certificate().subject,
        ));
    }
    if identity.certificate().is_authority {
        warnings.push(format!(
            "{}: the certificate of '{}' is that of an authority itself (CA true, as `openssl req -x509` \
             makes it), and clients that follow RFC 5280 refuse it from a server: have one issued by it, \
             with `basicConstraints = CA:FALSE`",
            settings.certificate.display(),
            identity.certificate().subject,
        ));
    }
    for name in &settings.ciphers.unknown {
        warnings.push(format!("the cipher '{name}' is not supported, and is passed over"));
    }
    let verifier = client_verifier(settings, now, &mut expiry)?;
    let provider = crate::provider_with(settings.ciphers.suites());
    let refused = |fault: rustls::Error| TlsError::Configuration(fault.to_string());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&settings.versions.list()?)
        .map_err(refused)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity.key())));
    config.ignore_client_order = settings.prefers_own_order;
    config.alpn_protocols.clone_from(&settings.protocols);
    if settings.sessions_max == 0 {
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    } else {
        config.session_storage = ServerSessionMemoryCache::new(settings.sessions_max);
        config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(refused)?;
    }
    Ok(Loaded { config: Arc::new(config), expiry, warnings })
}

fn client_verifier(
    settings: &ServerSettings,
    now: Instant,
    expiry: &mut Vec<Expiry>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    if settings.clients == ClientCertificates::Ignored {
        return Ok(WebPkiClientVerifier::no_client_auth());
    }
    let file = settings.authorities.as_deref().ok_or(TlsError::NoAuthorities)?;
    let mut roots = RootCertStore::empty();
    let refused = |fault: &dyn fmt::Display| TlsError::Configuration(fault.to_string());
    for authority in load_authorities(file, now)? {
        expiry.push(Expiry::of(file, &authority.certificate));
        roots.add(authority.der).map_err(|fault| refused(&fault))?;
    }
    let roots = Arc::new(roots);
    let lists = load_usable_lists(&settings.revocation_lists, &roots)?;
    expiry.extend(lists.iter().filter_map(|(file, list)| Expiry::of_list(file, list)));
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, crate::provider())
        .with_crls(lists.into_iter().map(|(_, list)| list.der));
    if settings.strict_revocation {
        builder = builder.enforce_revocation_expiration();
    } else {
        builder = builder.allow_unknown_revocation_status();
    }
    if settings.clients == ClientCertificates::Optional {
        builder = builder.allow_unauthenticated();
    }
    builder.build().map_err(|fault| refused(&fault))
}
