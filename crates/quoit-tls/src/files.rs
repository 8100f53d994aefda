//! Certificates, private keys and revocation lists in files.

use crate::certificate::Certificate;
use crate::error::{FileFault, FilePosition, TlsError};
use crate::instant::Instant;
use crate::sections::{Section, encrypted_key, read, sections};
use rustls::RootCertStore;
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls_pki_types::pem::SectionKind;
use rustls_pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs1KeyDer,
    PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use x509_parser::prelude::{CertificateRevocationList, FromDer};

/// A certificate of a file, with its place in the file.
#[derive(Debug, Clone)]
pub struct LoadedCertificate {
    /// The DER bytes.
    pub der: CertificateDer<'static>,
    /// The decoded content.
    pub certificate: Certificate,
    pub(crate) place: FilePosition,
}

/// Loads the certificates of `file`, PEM or DER, in their order; at least one. Private keys and other
/// sections between them are skipped.
///
/// # Errors
///
/// [`TlsError::File`] if the file cannot be read, is broken, or has no certificate.
pub fn load_certificates(file: &Path) -> Result<Vec<LoadedCertificate>, TlsError> {
    let (content, _) = read(file)?;
    certificates_in(file, &content)
}

/// Reads the certificates in `content`, like [`load_certificates`]. `file` is the name in error messages.
///
/// # Errors
///
/// [`TlsError::File`] if the content is broken or has no certificate.
pub fn certificates_in(file: &Path, content: &[u8]) -> Result<Vec<LoadedCertificate>, TlsError> {
    let mut loaded = Vec::new();
    let mut others = Vec::new();
    for Section { kind, der, place } in sections(file, content)? {
        match kind {
            None | Some(SectionKind::Certificate) => {
                let der = CertificateDer::from(der);
                let certificate =
                    Certificate::parse(&der).map_err(|fault| TlsError::file(file, place, fault))?;
                loaded.push(LoadedCertificate { der, certificate, place });
            }
            Some(kind) => others.push(name_of(kind)),
        }
    }
    if loaded.is_empty() {
        let fault = FileFault::Lacks { wanted: "certificate", found: others };
        return Err(TlsError::file(file, FilePosition::Whole, fault));
    }
    Ok(loaded)
}

/// Loads the certificates of authorities in `file`, and checks that each can be trusted as an
/// authority at the time `now`.
///
/// # Errors
///
/// As [`load_certificates`], and if a certificate has expired, is weak, or is not that of an authority.
pub fn load_authorities(file: &Path, now: Instant) -> Result<Vec<LoadedCertificate>, TlsError> {
    let loaded = load_certificates(file)?;
    for LoadedCertificate { certificate, place, .. } in &loaded {
        certificate.check_trustworthy(now).map_err(|fault| TlsError::file(file, *place, fault))?;
    }
    Ok(loaded)
}

/// Loads the private key of `file`: PEM or DER; PKCS#8, PKCS#1 or SEC1; not encrypted.
/// Certificates beside it are skipped.
///
/// # Errors
///
/// [`TlsError::File`] if the file cannot be read, can be read by all users of the machine, is encrypted,
/// is of an unknown format, or does not have exactly one key.
pub fn load_private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    private_key_in(file, &read_secret(file, "private key")?)
}

/// Loads the password in `file`, which is its first line.
///
/// # Errors
///
/// [`TlsError::File`] if the file cannot be read, can be read by all users of the machine, or is not
/// UTF-8.
pub fn load_password(file: &Path) -> Result<String, TlsError> {
    let content = read_secret(file, "password")?;
    let malformed = |fault: std::str::Utf8Error| {
        let fault = FileFault::Malformed { what: "password", detail: fault.to_string() };
        TlsError::file(file, FilePosition::Whole, fault)
    };
    let text = std::str::from_utf8(&content).map_err(malformed)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Reads a file that other users of the machine must not be able to read.
fn read_secret(file: &Path, what: &'static str) -> Result<Vec<u8>, TlsError> {
    let (content, metadata) = read(file)?;
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o007 != 0 {
        let fault = FileFault::ReadableByOthers { what, mode };
        return Err(TlsError::file(file, FilePosition::Whole, fault));
    }
    Ok(content)
}

/// Reads the private key in `content`, like [`load_private_key`]. `file` is the name in error messages.
///
/// # Errors
///
/// [`TlsError::File`] if the key is encrypted, is of an unknown format, or if there is not exactly one
/// key.
pub fn private_key_in(file: &Path, content: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    if let Some(place) = encrypted_key(content) {
        return Err(TlsError::file(file, place, FileFault::EncryptedKey));
    }
    let mut key = None;
    let mut others = Vec::new();
    for Section { kind, der, place } in sections(file, content)? {
        let found = match kind {
            Some(SectionKind::PrivateKey) => PrivatePkcs8KeyDer::from(der).into(),
            Some(SectionKind::RsaPrivateKey) => PrivatePkcs1KeyDer::from(der).into(),
            Some(SectionKind::EcPrivateKey) => PrivateSec1KeyDer::from(der).into(),
            None => key_of_der(der).map_err(|fault| TlsError::file(file, place, fault))?,
            Some(kind) => {
                others.push(name_of(kind));
                continue;
            }
        };
        if key.replace(found).is_some() {
            return Err(TlsError::file(file, place, FileFault::SecondKey));
        }
    }
    let lacks = FileFault::Lacks { wanted: "private key", found: others };
    key.ok_or_else(|| TlsError::file(file, FilePosition::Whole, lacks))
}

/// Decodes a private key in DER. Its structure tells its kind.
fn key_of_der(der: Vec<u8>) -> Result<PrivateKeyDer<'static>, FileFault> {
    PrivateKeyDer::try_from(der)
        .map_err(|detail| FileFault::Malformed { what: "private key", detail: detail.to_owned() })
}

/// Loads the revocation lists of `files`, and checks that each can be used for certificates
/// that `roots` have issued.
///
/// # Errors
///
/// As [`load_revocation_lists`], and if a list cannot be used to verify certificates.
pub(crate) fn load_usable_lists(
    files: &[PathBuf],
    roots: &Arc<RootCertStore>,
) -> Result<Vec<(PathBuf, RevocationList)>, TlsError> {
    let mut loaded = Vec::new();
    for file in files {
        for list in load_revocation_lists(file)? {
            // Check each list alone, because an error for several lists would not tell which one is at
            // fault.
            let roots = Arc::clone(roots);
            let check = WebPkiServerVerifier::builder_with_provider(roots, crate::provider())
                .with_crls([list.der.clone()])
                .build();
            if let Err(VerifierBuilderError::InvalidCrl(fault)) = check {
                let fault = FileFault::UnusableRevocationList(format!("{fault:?}"));
                return Err(TlsError::file(file, FilePosition::Whole, fault));
            }
            loaded.push((file.clone(), list));
        }
    }
    Ok(loaded)
}

/// A revocation list of a file.
#[derive(Debug, Clone)]
pub struct RevocationList {
    /// The DER bytes.
    pub der: CertificateRevocationListDer<'static>,
    /// The authority that issued it.
    pub issuer: String,
    /// Time at which the next list is due; `None` if the list does not say.
    pub next_update: Option<Instant>,
    /// Number of revoked certificates.
    pub revoked_count: usize,
}

/// Loads the revocation lists of `file`, PEM or DER; at least one.
///
/// # Errors
///
/// [`TlsError::File`] if the file cannot be read, is broken, or has no revocation list.
pub fn load_revocation_lists(file: &Path) -> Result<Vec<RevocationList>, TlsError> {
    let (content, _) = read(file)?;
    revocation_lists_in(file, &content)
}

/// Reads the revocation lists in `content`, like [`load_revocation_lists`]. `file` is the
/// name in error messages.
///
/// # Errors
///
/// [`TlsError::File`] if the content is broken or has no revocation list.
pub fn revocation_lists_in(file: &Path, content: &[u8]) -> Result<Vec<RevocationList>, TlsError> {
    let mut loaded = Vec::new();
    let mut others = Vec::new();
    for Section { kind, der, place } in sections(file, content)? {
        match kind {
            None | Some(SectionKind::Crl) => {
                loaded.push(
                    revocation_list(der).map_err(|fault| TlsError::file(file, place, fault))?,
                );
            }
            Some(kind) => others.push(name_of(kind)),
        }
    }
    if loaded.is_empty() {
        let fault = FileFault::Lacks { wanted: "revocation list", found: others };
        return Err(TlsError::file(file, FilePosition::Whole, fault));
    }
    Ok(loaded)
}

fn revocation_list(der: Vec<u8>) -> Result<RevocationList, FileFault> {
    let malformed = |detail| FileFault::Malformed { what: "revocation list", detail };
    let (issuer, next_update, revoked_count) = {
        let (_, list) = CertificateRevocationList::from_der(&der)
            .map_err(|fault| malformed(fault.to_string()))?;
        if list.version().is_none() {
            return Err(FileFault::OldRevocationList);
        }
        let next_update = list.next_update().map(|time| Instant::from_unix_secs(time.timestamp()));
        (list.issuer().to_string(), next_update, list.iter_revoked_certificates().count())
    };
    Ok(RevocationList { der: der.into(), issuer, next_update, revoked_count })
}

fn name_of(kind: SectionKind) -> &'static str {
    match kind {
        SectionKind::Certificate => "certificate",
        SectionKind::PublicKey => "public key",
        SectionKind::RsaPrivateKey | SectionKind::PrivateKey | SectionKind::EcPrivateKey => {
            "private key"
        }
        SectionKind::Crl => "revocation list",
        SectionKind::Csr => "certificate request",
        _ => "section of another kind",
    }
}
