//! The TLS configuration of a client: the authorities that it trusts, and the certificate that it
//! presents.

use crate::certificate::Purpose;
use crate::ciphers::CipherList;
use crate::error::TlsError;
use crate::files::{load_authorities, load_usable_lists};
use crate::identity::Identity;
use crate::instant::Instant;
use crate::versions::Versions;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Settings of a client.
#[derive(Debug, Clone, Default)]
pub struct ClientSettings {
    /// File of the authorities that the client trusts to issue the server's certificate.
    pub authorities: PathBuf,
    /// Files of the client's certificate and of its key, if the server requests a certificate.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Files of revocation lists for the server's certificate.
    pub revocation_lists: Vec<PathBuf>,
    /// Versions of TLS.
    pub versions: Versions,
    /// Cipher suites.
    pub ciphers: CipherList,
    /// Protocol names for ALPN, in order of preference.
    pub protocols: Vec<Vec<u8>>,
}

/// Loads the files of `settings` and creates the configuration of a client, which resumes sessions.
///
/// # Errors
///
/// The first [`TlsError`] in a file or between settings.
pub fn client_config(
    settings: &ClientSettings,
    now: Instant,
) -> Result<Arc<ClientConfig>, TlsError> {
    let refused = |fault: rustls::Error| TlsError::Configuration(fault.to_string());
    let provider = crate::provider_with(settings.ciphers.suites());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&settings.versions.list()?)
        .map_err(refused)?
        .dangerous()
        .with_custom_certificate_verifier(server_verifier(settings, now)?);
    let mut config = match &settings.identity {
        Some((certificate, key)) => {
            let identity = Identity::load(certificate, key, &[], Purpose::Client, now)?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity.key())))
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols.clone_from(&settings.protocols);
    Ok(Arc::new(config))
}

/// Creates the verifier of server certificates: it checks chain, time, purpose and name.
fn server_verifier(
    settings: &ClientSettings,
    now: Instant,
) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let refused = |fault: &dyn fmt::Display| TlsError::Configuration(fault.to_string());
    let mut roots = RootCertStore::empty();
    for authority in load_authorities(&settings.authorities, now)? {
        roots.add(authority.der).map_err(|fault| refused(&fault))?;
    }
    let roots = Arc::new(roots);
    let lists = load_usable_lists(&settings.revocation_lists, &roots)?;
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, crate::provider())
        .with_crls(lists.into_iter().map(|(_, list)| list.der))
        .allow_unknown_revocation_status()
        .build()
        .map_err(|fault| refused(&fault))?;
    Ok(verifier)
}

/// Returns the name that the certificate of a server at `host` must have. `host` is a host name, or an IP
/// address with or without brackets.
///
/// # Errors
///
/// [`TlsError::ServerName`] if it is neither.
pub fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(bare.to_owned())
        .map_err(|_| TlsError::ServerName { name: host.to_owned() })
}
