//! Certificates, private keys and revocation lists from files.

use crate::certificate::Certificate;
use crate::error::{FileFault, Place, TlsError};
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

/// A certificate of a file, with its place.
#[derive(Debug, Clone)]
pub struct LoadedCertificate {
    /// The bytes.
    pub der: CertificateDer<'static>,
    /// Content of the certificate.
    pub certificate: Certificate,
    pub(crate) place: Place,
}

/// The certificates of `file`, PEM or DER, in their order; one at least. Private keys and whatever else
/// stands between them is skipped.
///
/// # Errors
///
/// [`TlsError::File`]: unreadable, broken, or without a certificate.
pub fn load_certificates(file: &Path) -> Result<Vec<LoadedCertificate>, TlsError> {
    let (content, _) = read(file)?;
    certificates_in(file, &content)
}

/// The certificates of `content`, which faults call `file`; as [`load_certificates`].
///
/// # Errors
///
/// [`TlsError::File`]: broken, or without a certificate.
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
        return Err(TlsError::file(file, Place::Whole, fault));
    }
    Ok(loaded)
}

/// The certificates of authorities that `file` names, each fit to hold others against at the time `now`.
///
/// # Errors
///
/// As [`load_certificates`], and a certificate that is over, weak, or that of no authority.
pub fn load_authorities(file: &Path, now: Instant) -> Result<Vec<LoadedCertificate>, TlsError> {
    let loaded = load_certificates(file)?;
    for LoadedCertificate { certificate, place, .. } in &loaded {
        certificate.check_trustworthy(now).map_err(|fault| TlsError::file(file, *place, fault))?;
    }
    Ok(loaded)
}

/// The private key of `file`: PEM or DER, PKCS#8, PKCS#1 or SEC1, not encrypted. Certificates beside it are
/// skipped.
///
/// # Errors
///
/// [`TlsError::File`]: unreadable, readable by every user of the machine, encrypted, of an unknown format,
/// without a key or with a second one.
pub fn load_private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    private_key_in(file, &read_secret(file, "private key")?)
}

/// The password of `file`: its first line.
///
/// # Errors
///
/// [`TlsError::File`]: unreadable, readable by every user of the machine, or not UTF-8.
pub fn load_password(file: &Path) -> Result<String, TlsError> {
    let content = read_secret(file, "password")?;
    let malformed = |fault: std::str::Utf8Error| {
        let fault = FileFault::Malformed { what: "password", detail: fault.to_string() };
        TlsError::file(file, Place::Whole, fault)
    };
    let text = std::str::from_utf8(&content).map_err(malformed)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// The content of a file that other users of the machine must not be able to read.
fn read_secret(file: &Path, what: &'static str) -> Result<Vec<u8>, TlsError> {
    let (content, metadata) = read(file)?;
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o007 != 0 {
        let fault = FileFault::ReadableByOthers { what, mode };
        return Err(TlsError::file(file, Place::Whole, fault));
    }
    Ok(content)
}

/// The private key of `content`, which faults call `file`; as [`load_private_key`].
///
/// # Errors
///
/// [`TlsError::File`]: encrypted, of an unknown format, without a key or with a second one.
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
    key.ok_or_else(|| TlsError::file(file, Place::Whole, lacks))
}

/// A private key in DER, whose structure tells its kind.
fn key_of_der(der: Vec<u8>) -> Result<PrivateKeyDer<'static>, FileFault> {
    PrivateKeyDer::try_from(der)
        .map_err(|detail| FileFault::Malformed { what: "private key", detail: detail.to_owned() })
}

/// The revocation lists of `files`, each of which certificates that `roots` have issued can be held against.
///
/// # Errors
///
/// As [`load_revocation_lists`], and a list that the checks of certificates can't use.
pub(crate) fn load_usable_lists(
    files: &[PathBuf],
    roots: &Arc<RootCertStore>,
) -> Result<Vec<(PathBuf, RevocationList)>, TlsError> {
    let mut loaded = Vec::new();
    for file in files {
        for list in load_revocation_lists(file)? {
            // The fault of a list among several would not say which it is of.
            let roots = Arc::clone(roots);
            let check = WebPkiServerVerifier::builder_with_provider(roots, crate::provider())
                .with_crls([list.der.clone()])
                .build();
            if let Err(VerifierBuilderError::InvalidCrl(fault)) = check {
                let fault = FileFault::UnusableRevocationList(format!("{fault:?}"));
                return Err(TlsError::file(file, Place::Whole, fault));
            }
            loaded.push((file.clone(), list));
        }
    }
    Ok(loaded)
}

/// A revocation list of a file.
#[derive(Debug, Clone)]
pub struct RevocationList {
    /// The bytes.
    pub der: CertificateRevocationListDer<'static>,
    /// The authority that made it.
    pub issuer: String,
    /// When the next one is due; `None` where the list does not say.
    pub next_update: Option<Instant>,
    /// How many certificates it revokes.
    pub revoked_count: usize,
}

/// The revocation lists of `file`, PEM or DER; one at least.
///
/// # Errors
///
/// [`TlsError::File`]: unreadable, broken, or without a list.
pub fn load_revocation_lists(file: &Path) -> Result<Vec<RevocationList>, TlsError> {
    let (content, _) = read(file)?;
    revocation_lists_in(file, &content)
}

/// The revocation lists of `content`, which faults call `file`; as [`load_revocation_lists`].
///
/// # Errors
///
/// [`TlsError::File`]: broken, or without a list.
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
        return Err(TlsError::file(file, Place::Whole, fault));
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
