//! A certificate with its private key, which one side of a connection presents.

use crate::certificate::{Certificate, Purpose};
use crate::error::{FileFault, FilePosition, TlsError};
use crate::files::{LoadedCertificate, load_certificates, load_private_key};
use crate::instant::Instant;
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A certificate chain, beginning with the leaf, and the private key of the leaf.
#[derive(Clone)]
pub struct Identity {
    certificate: Certificate,
    chain: Vec<CertificateDer<'static>>,
    key: Arc<CertifiedKey>,
}

impl Identity {
    /// Loads the chain from `certificate` and the key from `key`, which may be the same file. `more` are
    /// files with further certificates of authorities that complete the chain. Certificates in `more`
    /// that did not issue any certificate of the chain are left out. `purpose` is the side of connections
    /// that presents the identity.
    ///
    /// # Errors
    ///
    /// [`TlsError::File`] if a file cannot be read or decoded, or a certificate cannot be used at the time
    /// `now`; [`TlsError::KeyMismatch`] if the key is not that of the certificate.
    pub fn load(
        certificate: &Path,
        key: &Path,
        more: &[&Path],
        purpose: Purpose,
        now: Instant,
    ) -> Result<Identity, TlsError> {
        let mut loaded = load_certificates(certificate)?;
        for LoadedCertificate { certificate: parsed, place, .. } in &loaded {
            parsed
                .check_presentable(now)
                .map_err(|fault| TlsError::file(certificate, *place, fault))?;
        }
        let faulty = |place, fault| TlsError::file(certificate, place, fault);
        let first = loaded.first().expect("a file without a certificate is refused");
        let (leaf, place) = (first.certificate.clone(), first.place);
        leaf.check_purpose(purpose).map_err(|fault| faulty(place, fault))?;
        for file in more {
            extend_chain(&mut loaded, load_certificates(file)?);
        }
        let private = load_private_key(key)?;
        let unusable = |fault: rustls::Error| {
            TlsError::file(key, FilePosition::Whole, FileFault::UnsupportedKey(fault.to_string()))
        };
        let signing = crate::provider().key_provider.load_private_key(private).map_err(unusable)?;
        let places: Vec<FilePosition> = loaded.iter().map(|loaded| loaded.place).collect();
        let chain: Vec<_> = loaded.into_iter().map(|loaded| loaded.der).collect();
        let certified = CertifiedKey::new(chain.clone(), signing);
        certified.keys_match().map_err(|fault| match fault {
            rustls::Error::InconsistentKeys(_) => match matching(&certified, &places) {
                Some(place) => faulty(place, FileFault::LeafBehind { key: key.to_owned() }),
                None => TlsError::KeyMismatch {
                    certificate: certificate.to_owned(),
                    key: key.to_owned(),
                },
            },
            // The TLS library is stricter about the structure than the parser above.
            fault => {
                let detail = fault.to_string();
                faulty(place, FileFault::Malformed { what: "certificate", detail })
            }
        })?;
        Ok(Identity { certificate: leaf, chain, key: Arc::new(certified) })
    }

    /// Creates an identity from a chain and a key in memory.
    ///
    /// # Errors
    ///
    /// [`TlsError::Issue`] if either cannot be used, or they do not belong together.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Identity, TlsError> {
        let refused = |fault: &dyn fmt::Display| TlsError::Issue(fault.to_string());
        let leaf = chain.first().ok_or_else(|| refused(&"there is no certificate"))?;
        let certificate = Certificate::parse(leaf).map_err(|fault| refused(&fault))?;
        let signing = crate::provider()
            .key_provider
            .load_private_key(key)
            .map_err(|fault| refused(&fault))?;
        let certified = CertifiedKey::new(chain.clone(), signing);
        certified.keys_match().map_err(|fault| refused(&fault))?;
        Ok(Identity { certificate, chain, key: Arc::new(certified) })
    }

    /// Returns the content of the leaf certificate.
    #[must_use]
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Returns the certificates, beginning with the leaf.
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    pub(crate) fn key(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.key)
    }
}

impl fmt::Debug for Identity {
    /// Shows the subject only.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Identity").field("subject", &self.certificate.subject).finish()
    }
}

/// Returns the place of the certificate of the chain that the key belongs to.
fn matching(certified: &CertifiedKey, places: &[FilePosition]) -> Option<FilePosition> {
    let belongs = |der: &CertificateDer<'static>| {
        CertifiedKey::new(vec![der.clone()], Arc::clone(&certified.key)).keys_match().is_ok()
    };
    certified.cert.iter().zip(places).find(|(der, _)| belongs(der)).map(|(_, place)| *place)
}

/// Extends the chain with certificates of `more`, each of which issued the one before it.
fn extend_chain(chain: &mut Vec<LoadedCertificate>, mut more: Vec<LoadedCertificate>) {
    while let Some(last) = chain.last() {
        let Certificate { issuer, subject, .. } = &last.certificate;
        // A self-signed certificate is known to the peer, or is of no use to it.
        if issuer == subject {
            break;
        }
        let found = more.iter().position(|candidate| candidate.certificate.subject == *issuer);
        let Some(at) = found else { break };
        chain.push(more.swap_remove(at));
    }
}
