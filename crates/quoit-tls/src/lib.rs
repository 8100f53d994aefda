//! TLS for all connections of the store: loading certificates, private keys and revocation lists, creating
//! configurations of listeners and clients, and errors that name the file, the place in it and the remedy.
//!
//! The crate knows no users, and opens no sockets except for blocking HTTPS clients (feature `https`).
//! [`ServerTls`] provides the configuration for a handshake, the caller does the handshake with
//! [`tokio_rustls`], and [`peer_certificate`] returns the certificate that the other side has proved to own.
//! All cryptography is that of `ring`, through `rustls`.
//!
//! ```no_run
//! use quoit_tls::{ClientCertificates, Instant, ServerSettings, ServerTls, peer_certificate};
//!
//! # async fn serve(stream: tokio::net::TcpStream) -> Result<(), Box<dyn std::error::Error>> {
//! let tls = ServerTls::open(
//!     ServerSettings {
//!         certificate: "cert.pem".into(),
//!         key: "key.pem".into(),
//!         authorities: Some("authority.pem".into()),
//!         clients: ClientCertificates::Optional,
//!         sessions_max: quoit_tls::SESSIONS_MAX,
//!         ..ServerSettings::default()
//!     },
//!     Instant::now(),
//! )?;
//! let acceptor = quoit_tls::tokio_rustls::TlsAcceptor::from(tls.config());
//! let stream = acceptor.accept(stream).await?;
//! let shown = peer_certificate(stream.get_ref().1.peer_certificates());
//! let login = shown.and_then(|certificate| certificate.common_name);
//! # Ok(())
//! # }
//! ```
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod certificate;
pub mod ciphers;
mod client;
mod error;
mod expiry;
mod files;
#[cfg(feature = "https")]
pub mod https;
mod identity;
mod instant;
mod names;
pub mod nodes;
mod peer;
mod sections;
mod server;
mod versions;

#[cfg(test)]
mod tests;

pub use certificate::{Certificate, Purpose};
pub use ciphers::CipherList;
pub use client::{ClientSettings, client_config, server_name};
pub use error::{FileFault, FilePosition, TlsError};
pub use expiry::{EXPIRY_WARNING_DAYS, Expiry};
pub use files::{
    LoadedCertificate, RevocationList, certificates_in, load_authorities, load_certificates,
    load_password, load_private_key, load_revocation_lists, private_key_in, revocation_lists_in,
};
pub use identity::Identity;
pub use instant::Instant;
pub use peer::{failure_words, is_alert, is_refused_certificate, peer_certificate};
pub use sections::FILE_BYTES_MAX;
pub use server::{ClientCertificates, SESSIONS_MAX, ServerSettings, ServerTls};
pub use versions::Versions;

pub use rustls;
pub use tokio_rustls;

use rustls::SupportedCipherSuite;
use rustls::crypto::CryptoProvider;
use std::sync::Arc;

/// Returns the cryptography provider of all configurations.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn provider_with(suites: Vec<SupportedCipherSuite>) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider { cipher_suites: suites, ..rustls::crypto::ring::default_provider() })
}
