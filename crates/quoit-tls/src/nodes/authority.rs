//! The authority of a cluster, and the certificates that it issues.

use super::{Fingerprint, issue_error};
use crate::certificate::Certificate;
use crate::error::TlsError;
use crate::identity::Identity;
use crate::instant::Instant;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls_pki_types::{
    CertificateDer, CertificateSigningRequestDer, PrivateKeyDer, PrivatePkcs8KeyDer,
};
use std::fmt;
use time::OffsetDateTime;

/// Validity of an authority, in seconds: ten years.
const AUTHORITY_SECS: i64 = 3650 * DAY_SECS;
/// Validity of a node's certificate, in seconds: a year. The node renews it long before.
const NODE_SECS: i64 = 365 * DAY_SECS;
/// Time, in seconds, by which a certificate's validity begins before its creation, to allow for clocks that
/// differ.
const BEFORE_SECS: i64 = DAY_SECS;
const DAY_SECS: i64 = 86_400;

/// Prefix of a node's identity in the URI of its certificate.
const NODE_URI: &str = "urn:quoit:node:";

/// The authority of a cluster: its certificate and its private key.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    certificate: CertificateDer<'static>,
    /// The private key as PKCS#8.
    key: Vec<u8>,
}

impl fmt::Debug for Authority {
    /// Shows the digest only.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Authority({})", self.fingerprint().short())
    }
}

impl Authority {
    /// Makes an authority for the cluster `name`.
    ///
    /// # Errors
    ///
    /// [`TlsError::Issue`] if the system provides no random bytes.
    pub fn make(name: &str, now: Instant) -> Result<Authority, TlsError> {
        let key = KeyPair::generate().map_err(issue_error)?;
        let mut params = params(&format!("Quoit cluster {name}"), now, AUTHORITY_SECS)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        // Each authority gets a name of its own, so that two authorities of one cluster are not confused.
        let digest = Fingerprint::of(key.public_key_raw()).short();
        params.distinguished_name.push(DnType::OrganizationalUnitName, digest);
        let certificate = params.self_signed(&key).map_err(issue_error)?;
        Ok(Authority { certificate: certificate.der().clone(), key: key.serialize_der() })
    }

    /// Restores a stored authority from its certificate and its key.
    #[must_use]
    pub fn from_parts(
        certificate: CertificateDer<'static>,
        key: &PrivatePkcs8KeyDer<'_>,
    ) -> Authority {
        Authority { certificate, key: key.secret_pkcs8_der().to_vec() }
    }

    /// Returns the DER of its certificate.
    #[must_use]
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Returns the DER of its private key (PKCS#8). It is a secret.
    #[must_use]
    pub fn secret_key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the digest of its certificate.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// Returns the content of its certificate.
    ///
    /// # Errors
    ///
    /// [`TlsError::Issue`] if the stored bytes are not a certificate.
    pub fn parsed(&self) -> Result<Certificate, TlsError> {
        Certificate::parse(&self.certificate).map_err(issue_error)
    }

    /// Issues a certificate for the key of a request. Everything else in the request is ignored.
    ///
    /// # Errors
    ///
    /// [`TlsError::Issue`] if the request cannot be read, or is not signed with its own key.
    pub fn sign(
        &self,
        request: &[u8],
        subject: NodeSubject<'_>,
        now: Instant,
    ) -> Result<CertificateDer<'static>, TlsError> {
        let request = CertificateSigningRequestDer::from(request.to_vec());
        let asked = CertificateSigningRequestParams::from_der(&request).map_err(issue_error)?;
        let key = KeyPair::try_from(&PrivatePkcs8KeyDer::from(self.key.as_slice()))
            .map_err(issue_error)?;
        let issuer = Issuer::from_ca_cert_der(&self.certificate, key).map_err(issue_error)?;
        let granted = node_params(subject, now)?;
        let certificate = granted.signed_by(&asked.public_key, &issuer).map_err(issue_error)?;
        Ok(certificate.der().clone())
    }

    /// Issues a certificate for a new key of a node.
    ///
    /// # Errors
    ///
    /// [`TlsError::Issue`].
    pub fn issue(&self, subject: NodeSubject<'_>, now: Instant) -> Result<Identity, TlsError> {
        let request = NodeRequest::make(subject)?;
        let leaf = self.sign(request.der(), subject, now)?;
        request.granted(GrantedCertificate { leaf, issuer: self.certificate.clone() })
    }
}

/// The node that a certificate is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeSubject<'a> {
    /// Identity of the node, in hexadecimal digits.
    pub node: &'a str,
    /// Name of the node, for people.
    pub name: &'a str,
}

/// A certificate of a node, with the certificate of its issuer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GrantedCertificate {
    /// The certificate of the node.
    pub leaf: CertificateDer<'static>,
    /// The certificate of the authority that issued it.
    pub issuer: CertificateDer<'static>,
}

/// A new key of a node, with a request for its certificate.
pub struct NodeRequest {
    key: KeyPair,
    der: Vec<u8>,
}

impl NodeRequest {
    /// Makes a key and a request.
    ///
    /// # Errors
    ///
    /// [`TlsError::Issue`] if the system provides no random bytes.
    pub fn make(subject: NodeSubject<'_>) -> Result<NodeRequest, TlsError> {
        let key = KeyPair::generate().map_err(issue_error)?;
        let params = node_params(subject, Instant::from_unix_secs(0))?;
        let request = params.serialize_request(&key).map_err(issue_error)?;
        Ok(NodeRequest { der: request.der().to_vec(), key })
    }

    /// Returns the DER of the request.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Returns the key, the issued certificate, its issuer and further authorities as PEM, which
    /// [`Identity::load`] can read. It is a secret.
    #[must_use]
    pub fn pem(&self, granted: &GrantedCertificate, authorities: &[impl AsRef<[u8]>]) -> String {
        let (leaf, issuer) = (&granted.leaf[..], &granted.issuer[..]);
        let others = authorities.iter().map(AsRef::as_ref).filter(|other| *other != issuer);
        let certificates = [leaf, issuer].into_iter().chain(others).map(|der| {
            let encoded = STANDARD.encode(der);
            let lines: Vec<_> =
                encoded.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
            format!(
                "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
                lines.join("\n")
            )
        });
        [self.key.serialize_pem()].into_iter().chain(certificates).collect()
    }

    /// Returns the identity with the issued certificate.
    ///
    /// # Errors
    ///
    /// [`TlsError::Issue`] if the certificate is not for the key.
    pub fn granted(self, granted: GrantedCertificate) -> Result<Identity, TlsError> {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        Identity::new(vec![granted.leaf, granted.issuer], key)
    }
}

/// Returns the identity of the node, in hexadecimal digits, that a certificate names.
#[must_use]
pub fn node_of(certificate: &Certificate) -> Option<&str> {
    certificate.uris.iter().find_map(|uri| uri.strip_prefix(NODE_URI))
}

fn node_params(subject: NodeSubject<'_>, now: Instant) -> Result<CertificateParams, TlsError> {
    let mut params = params(subject.name, now, NODE_SECS)?;
    let uri = Ia5String::try_from(format!("{NODE_URI}{}", subject.node)).map_err(issue_error)?;
    params.subject_alt_names = vec![SanType::URI(uri)];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    Ok(params)
}

fn params(name: &str, now: Instant, secs: i64) -> Result<CertificateParams, TlsError> {
    let time =
        |at: Instant| OffsetDateTime::from_unix_timestamp(at.unix_secs()).map_err(issue_error);
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = time(now.plus_secs(-BEFORE_SECS))?;
    params.not_after = time(now.plus_secs(secs))?;
    Ok(params)
}
