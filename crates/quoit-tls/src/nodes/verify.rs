//! TLS configurations of connections between nodes, and the checks of their handshakes.

use super::authority::node_of;
use super::secret::SharedSecret;
use super::token::JoinToken;
use super::{Fingerprint, issue_error};
use crate::certificate::Certificate;
use crate::error::TlsError;
use crate::identity::Identity;
use crate::instant::Instant;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::verify_tls13_signature;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    ServerConfig, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use x509_parser::prelude::{FromDer, X509Certificate};

/// ALPN name of the internode protocol.
const ALPN_MEMBERS: &[u8] = b"quoit-internode";
/// ALPN name of the same protocol, for a dialing node that recognizes the cluster by the shared secret.
const ALPN_SECRET: &[u8] = b"quoit-internode-secret";

/// Server name under which all nodes are dialed. The certificate proves the node's identity, not its
/// address.
const SERVER_NAME: &str = "node.quoit.invalid";

/// Proof that the other side of a connection has given by its handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkProof {
    /// It is the node with this identity (hexadecimal digits), according to a certificate of the
    /// authority.
    Node(String),
    /// It knows the token with this digest.
    Token(Fingerprint),
    /// It knows the shared secret.
    Secret,
}

/// Data with which a node verifies the other sides of its connections.
#[derive(Debug, Clone, Default)]
pub struct LinkTrust {
    /// Certificates of the trusted authorities.
    pub authorities: Vec<CertificateDer<'static>>,
    /// Identities of removed nodes, whose certificates are refused (hexadecimal digits).
    pub removed: BTreeSet<String>,
    /// Tokens that were not revoked, used up or not: the digests of their keys, and their expiry.
    pub tokens: BTreeMap<Fingerprint, Instant>,
    /// The shared secret, if one is set.
    pub secret: Option<SharedSecret>,
}

impl LinkTrust {
    /// Creates the configuration of a listener: TLS 1.3 only, a proof from every client, and no
    /// resumption, because a resumed session could outlast the removal of its node.
    ///
    /// # Errors
    ///
    /// [`TlsError`] if the authorities cannot be used.
    pub fn server(&self, own: &Identity) -> Result<Arc<ServerConfig>, TlsError> {
        let refused = |fault: Error| TlsError::Configuration(fault.to_string());
        let secret = self.secret.as_ref().map(SharedSecret::server_identity).transpose()?;
        let certificates = NodeCertificates { own: own.key(), secret: secret.map(|own| own.key()) };
        let mut config = ServerConfig::builder_with_provider(crate::provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(refused)?
            .with_client_cert_verifier(Arc::new(self.client_verifier()?))
            .with_cert_resolver(Arc::new(certificates));
        config.alpn_protocols = vec![ALPN_MEMBERS.to_vec(), ALPN_SECRET.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    fn client_verifier(&self) -> Result<ProofVerifier, TlsError> {
        let members = WebPkiClientVerifier::builder_with_provider(self.roots()?, crate::provider());
        let members = members.build().map_err(issue_error)?;
        let secret = self.secret.as_ref().map(SharedSecret::client_key).transpose()?;
        let (removed, tokens) = (self.removed.clone(), self.tokens.clone());
        Ok(ProofVerifier { members, removed, tokens, secret })
    }

    /// Creates the configuration of a member that dials another one.
    ///
    /// # Errors
    ///
    /// [`TlsError`] if the authorities cannot be used.
    pub fn client(&self, own: &Identity) -> Result<Arc<ClientConfig>, TlsError> {
        let nodes = WebPkiServerVerifier::builder_with_provider(self.roots()?, crate::provider());
        let nodes = nodes.build().map_err(issue_error)?;
        let known = PeerTrust::Authorities { nodes, removed: self.removed.clone() };
        client(known, own, ALPN_MEMBERS)
    }

    fn roots(&self) -> Result<Arc<RootCertStore>, TlsError> {
        let mut roots = RootCertStore::empty();
        for authority in &self.authorities {
            roots.add(authority.clone()).map_err(issue_error)?;
        }
        Ok(Arc::new(roots))
    }

    /// Returns the proof that the certificates of the other side give. The handshake must have verified
    /// them.
    #[must_use]
    pub fn proof(&self, shown: Option<&[CertificateDer<'_>]>) -> Option<LinkProof> {
        let leaf = shown?.first()?;
        let certificate = Certificate::parse(leaf).ok()?;
        if let Some(node) = node_of(&certificate) {
            return Some(LinkProof::Node(node.to_owned()));
        }
        let key = key_of(leaf)?;
        let secret = self.secret.as_ref().and_then(|secret| secret.client_key().ok());
        Some(if secret == Some(key) { LinkProof::Secret } else { LinkProof::Token(key) })
    }
}

impl JoinToken {
    /// Creates the configuration of a node that asks for a certificate with this token.
    ///
    /// # Errors
    ///
    /// [`TlsError`].
    pub fn client(&self) -> Result<Arc<ClientConfig>, TlsError> {
        client(PeerTrust::Authority(self.authority()), &self.identity()?, ALPN_MEMBERS)
    }
}

impl SharedSecret {
    /// Creates the configuration of a node that asks for a certificate with this secret.
    ///
    /// # Errors
    ///
    /// [`TlsError`].
    pub fn client(&self) -> Result<Arc<ClientConfig>, TlsError> {
        client(PeerTrust::Key(self.server_key()?), &self.client_identity()?, ALPN_SECRET)
    }
}

/// Returns the server name under which every node is dialed.
///
/// # Panics
///
/// Never: the name is valid.
#[must_use]
pub fn node_server_name() -> ServerName<'static> {
    ServerName::try_from(SERVER_NAME).expect("it is a name of a host")
}

fn client(
    known: PeerTrust,
    own: &Identity,
    protocol: &[u8],
) -> Result<Arc<ClientConfig>, TlsError> {
    let mut config = ClientConfig::builder_with_provider(crate::provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|fault| TlsError::Configuration(fault.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(NodeVerifier(known)))
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own.key())));
    config.alpn_protocols = vec![protocol.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// Returns the digest of a certificate's public key.
fn key_of(der: &CertificateDer<'_>) -> Option<Fingerprint> {
    let (_, parsed) = X509Certificate::from_der(der).ok()?;
    Some(Fingerprint::of(&parsed.public_key().subject_public_key.data))
}

/// Certificates of a listening node: that of the shared secret for dialing nodes that recognize the
/// cluster by it, and the node's own one for all others.
#[derive(Debug)]
struct NodeCertificates {
    own: Arc<CertifiedKey>,
    secret: Option<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for NodeCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut protocols = hello.alpn()?;
        if protocols.any(|protocol| protocol == ALPN_SECRET) {
            return self.secret.clone();
        }
        Some(Arc::clone(&self.own))
    }
}

fn schemes() -> Vec<SignatureScheme> {
    crate::provider().signature_verification_algorithms.supported_schemes()
}

fn is_signed(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let algorithms = crate::provider().signature_verification_algorithms;
    verify_tls13_signature(message, certificate, signature, &algorithms)
}

/// Nodes do not use TLS 1.2 with each other.
fn too_old() -> Error {
    Error::General("nodes speak TLS 1.3 to each other".into())
}

fn removed() -> Error {
    Error::InvalidCertificate(CertificateError::Revoked)
}

/// Verifies the proofs of dialing nodes.
#[derive(Debug)]
struct ProofVerifier {
    members: Arc<dyn ClientCertVerifier>,
    removed: BTreeSet<String>,
    tokens: BTreeMap<Fingerprint, Instant>,
    secret: Option<Fingerprint>,
}

impl ProofVerifier {
    fn is_key_known(&self, leaf: &CertificateDer<'_>, now: UnixTime) -> Result<bool, Error> {
        let Some(key) = key_of(leaf) else { return Ok(false) };
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        match self.tokens.get(&key) {
            Some(end) if end.unix_secs() > now => Ok(true),
            Some(_) => Err(Error::InvalidCertificate(CertificateError::Expired)),
            None => Ok(self.secret == Some(key)),
        }
    }
}

impl ClientCertVerifier for ProofVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // The certificate of a joining node is not issued by an authority. If the listener named its
        // authorities, that node might send no certificate.
        &[]
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.is_key_known(leaf, now)? {
            return Ok(ClientCertVerified::assertion());
        }
        let verified = self.members.verify_client_cert(leaf, chain, now)?;
        check_node(leaf, &self.removed)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        is_signed(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        schemes()
    }
}

/// Refuses certificates that name no node, or a removed one.
fn check_node(leaf: &CertificateDer<'_>, gone: &BTreeSet<String>) -> Result<(), Error> {
    let bad = |_| Error::InvalidCertificate(CertificateError::BadEncoding);
    let certificate = Certificate::parse(leaf).map_err(bad)?;
    match node_of(&certificate) {
        Some(node) if gone.contains(node) => Err(removed()),
        Some(_) => Ok(()),
        None => Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)),
    }
}

/// Data by which a dialing node recognizes the other side.
#[derive(Debug)]
enum PeerTrust {
    Authorities { nodes: Arc<WebPkiServerVerifier>, removed: BTreeSet<String> },
    Authority(Fingerprint),
    Key(Fingerprint),
}

/// Verifies the certificates of dialed nodes.
#[derive(Debug)]
struct NodeVerifier(PeerTrust);

impl ServerCertVerifier for NodeVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let unknown = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
        match &self.0 {
            PeerTrust::Authorities { nodes, removed } => {
                is_issued(nodes, leaf, chain, name, ocsp, now)?;
                check_node(leaf, removed)?;
            }
            PeerTrust::Authority(fingerprint) => {
                let found = chain.iter().find(|one| Fingerprint::of(one) == *fingerprint);
                let mut roots = RootCertStore::empty();
                roots.add(found.ok_or_else(unknown)?.clone().into_owned())?;
                let nodes =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), crate::provider());
                let nodes = nodes.build().map_err(|_| unknown())?;
                is_issued(&nodes, leaf, chain, name, ocsp, now)?;
                check_node(leaf, &BTreeSet::new())?;
            }
            PeerTrust::Key(key) => {
                if key_of(leaf) != Some(*key) {
                    return Err(unknown());
                }
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        is_signed(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        schemes()
    }
}

/// Checks that the chain leads to an authority and is valid at this time. A mismatch of the name is ignored,
/// because the identity in the certificate is checked instead.
fn is_issued(
    nodes: &WebPkiServerVerifier,
    leaf: &CertificateDer<'_>,
    chain: &[CertificateDer<'_>],
    name: &ServerName<'_>,
    ocsp: &[u8],
    now: UnixTime,
) -> Result<(), Error> {
    match nodes.verify_server_cert(leaf, chain, name, ocsp, now) {
        Ok(_)
        | Err(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => Ok(()),
        Err(fault) => Err(fault),
    }
}
