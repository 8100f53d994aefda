//! Proofs of membership: optional TLS on the connections between nodes.
//!
//! A [`Network`](super::Network) makes the connection, and the handshake takes place before the first byte
//! of a greeting. It runs on the task of the connection, within the time for a greeting. During the
//! handshake an inbound connection counts towards the limit of connections without a greeting.

use super::network::Stream;
use super::plain_links::{PlainLink, PlainLinks};
use super::{Fault, Services};
use crate::NodeId;
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use quoit_seam::{DiskError, RealDisk, replace_file};
use quoit_tls::nodes::{
    Fingerprint, JoinToken, LinkProof, LinkTrust, SharedSecret, node_of, node_server_name,
};
use quoit_tls::rustls::pki_types::CertificateDer;
use quoit_tls::rustls::{ClientConfig, ServerConfig};
use quoit_tls::tokio_rustls::{TlsAcceptor, TlsConnector};
use quoit_tls::{Identity, Purpose, TlsError, failure_words, peer_certificate};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::io::AsyncReadExt;

/// First byte of every TLS connection: the type of a handshake record.
const TLS_HANDSHAKE: u8 = 0x16;

/// Security of connections between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InternodeTlsMode {
    /// Without TLS: any process that reaches the port is trusted.
    #[default]
    Plain,
    /// With TLS if the other side supports it, else without. An intermediate step between the two other
    /// modes.
    Both,
    /// Only with TLS and a proof of membership.
    Required,
}

impl InternodeTlsMode {
    /// Returns the value of the setting.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            InternodeTlsMode::Plain => "plain",
            InternodeTlsMode::Both => "both",
            InternodeTlsMode::Required => "required",
        }
    }

    /// Returns the mode for a value of the setting.
    #[must_use]
    pub fn from_word(word: &str) -> Option<InternodeTlsMode> {
        [InternodeTlsMode::Plain, InternodeTlsMode::Both, InternodeTlsMode::Required]
            .into_iter()
            .find(|mode| mode.as_str() == word)
    }
}

/// Proof that the other side of a connection has given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerProof {
    /// No proof, because the connection has no TLS.
    Nothing,
    /// It is this node, according to a certificate of the cluster's authority.
    Node(NodeId),
    /// It knows the token with this digest.
    Token(Fingerprint),
    /// It knows the shared secret.
    Secret,
}

/// A proof for a node that has no certificate of the cluster yet.
#[derive(Debug, Clone)]
pub enum JoinProof {
    /// A token.
    Token(JoinToken),
    /// The shared secret of all nodes (`distributed_cookie`).
    Secret(SharedSecret),
}

/// The certificate that a node shows, and the trust against which it checks others.
pub(crate) struct LinkKeys {
    pub(crate) identity: Identity,
    pub(crate) trust: LinkTrust,
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl LinkKeys {
    pub(crate) fn new(identity: Identity, trust: LinkTrust) -> Result<LinkKeys, TlsError> {
        let (server, client) = (trust.server(&identity)?, trust.client(&identity)?);
        Ok(LinkKeys { identity, trust, server, client })
    }
}

/// Security of a node's connections to other nodes. The transport uses it, and the control plane
/// keeps its keys up to date.
#[derive(Default)]
pub struct LinkSecurity {
    mode: AtomicU8,
    keys: ArcSwapOption<LinkKeys>,
    secret: Option<SharedSecret>,
    /// The authority of a cluster that has issued this node a certificate for joining, until
    /// the node knows that cluster's trust. Meanwhile the node's former cluster must not issue
    /// it another certificate.
    joins: Mutex<Option<Fingerprint>>,
    /// File for a certificate that a token has brought, until the trust of the cluster is known.
    file: Option<CertificateFile>,
    plain: PlainLinks,
}

/// Location of the file for a certificate that was obtained with a token.
struct CertificateFile {
    directory: PathBuf,
    name: &'static str,
}

impl CertificateFile {
    fn path(&self) -> PathBuf {
        self.directory.join(self.name)
    }
}

impl fmt::Debug for LinkSecurity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LinkSecurity").field("mode", &self.mode()).finish_non_exhaustive()
    }
}

impl LinkSecurity {
    /// Creates the security of a mode, without keys. `secret` is the shared secret, if one is set.
    #[must_use]
    pub fn new(mode: InternodeTlsMode, secret: Option<SharedSecret>) -> LinkSecurity {
        let security = LinkSecurity { secret, ..LinkSecurity::default() };
        security.set_mode(mode);
        security
    }

    /// Adds a file, by its directory and name, for a certificate that a token brings, so that the certificate
    /// outlasts the process. An existing file is loaded.
    ///
    /// # Errors
    ///
    /// [`TlsError`], which names the file, if it exists and cannot be used.
    pub fn with_file(
        mut self,
        directory: PathBuf,
        name: &'static str,
    ) -> Result<LinkSecurity, TlsError> {
        let file = CertificateFile { directory, name };
        let path = file.path();
        if path.exists() {
            let now = quoit_tls::Instant::now();
            let identity = Identity::load(&path, &path, &[], Purpose::Server, now)?;
            let authorities = identity.chain().iter().skip(1).cloned().collect();
            self.set_first_keys(identity, authorities, || Ok::<_, TlsError>(()))?;
        }
        self.file = Some(file);
        Ok(self)
    }

    /// Shows a certificate that another cluster has issued, and trusts that cluster's authorities. `keep`
    /// first stores the certificate; meanwhile its file can't be removed. If that fails, nothing changes.
    pub(crate) fn set_first_keys<E: From<TlsError>>(
        &self,
        identity: Identity,
        authorities: Vec<CertificateDer<'static>>,
        keep: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let issuer = identity.chain().get(1).map(|issuer| Fingerprint::of(issuer));
        let trust = LinkTrust { authorities, ..LinkTrust::default() };
        let keys = LinkKeys::new(identity, trust)?;
        let mut joins = self.joins.lock();
        keep()?;
        *joins = issuer;
        self.set_keys(keys);
        Ok(())
    }

    /// Shows the certificate `keys` of the node's own cluster, and removes the file. Returns false and
    /// changes nothing if the node has the certificate of another cluster that it joins: that certificate may
    /// have arrived while `keys` were made, and with keys of its former cluster the node could never join the
    /// other one.
    pub(crate) fn set_own_keys(&self, keys: LinkKeys) -> bool {
        let joins = self.joins.lock();
        if joins.is_some() {
            return false;
        }
        self.set_keys(keys);
        self.forget_file();
        true
    }

    /// Returns true if the node has a certificate of a cluster that it joins and whose trust it does not
    /// know yet: none of the authorities that `known` accepts has issued it.
    pub(crate) fn joins_another(&self, known: impl Fn(Fingerprint) -> bool) -> bool {
        let mut joins = self.joins.lock();
        if joins.is_some_and(known) {
            *joins = None;
        }
        joins.is_some()
    }

    /// Writes a certificate and its key into the file, readable only by its owner. When this returns, the
    /// certificate survives the loss of power: the node may not be able to use its token a second time.
    pub(crate) fn keep(&self, pem: &str) -> Result<(), DiskError> {
        let Some(CertificateFile { directory, name }) = &self.file else { return Ok(()) };
        let disk = RealDisk::open(directory)?.with_private_files();
        replace_file(&disk, name, pem.as_bytes()).map(drop)
    }

    /// Removes the file, because the trust of the cluster is known and stored in the control file.
    fn forget_file(&self) {
        if let Some(file) =
            self.file.as_ref().map(CertificateFile::path).filter(|file| file.exists())
            && let Err(fault) = fs::remove_file(&file)
        {
            tracing::warn!(%fault, file = %file.display(), "the file of the first certificate stays");
        }
    }

    /// Returns the mode.
    #[must_use]
    pub fn mode(&self) -> InternodeTlsMode {
        match self.mode.load(Ordering::Acquire) {
            0 => InternodeTlsMode::Plain,
            1 => InternodeTlsMode::Both,
            _ => InternodeTlsMode::Required,
        }
    }

    /// Sets the mode of connections that are made from now on. [`ControlPlane::set_link_mode`] also ends
    /// connections that a stricter mode forbids.
    ///
    /// [`ControlPlane::set_link_mode`]: crate::ControlPlane::set_link_mode
    pub fn set_mode(&self, mode: InternodeTlsMode) {
        self.mode.store(mode as u8, Ordering::Release);
    }

    /// Returns the shared secret, if one is set.
    #[must_use]
    pub fn secret(&self) -> Option<&SharedSecret> {
        self.secret.as_ref()
    }

    pub(crate) fn keys(&self) -> Option<Arc<LinkKeys>> {
        self.keys.load_full()
    }

    pub(crate) fn set_keys(&self, keys: LinkKeys) {
        self.keys.store(Some(Arc::new(keys)));
    }

    /// Returns the plain connections since the start, by host.
    #[must_use]
    pub fn plain_links(&self) -> BTreeMap<String, PlainLink> {
        self.plain.by_host()
    }

    fn note_plain(&self, address: &str, reason: Option<String>) {
        self.plain.note(host_of(address), reason);
    }

    /// Secures a connection that another node has made, or accepts it as plain if the mode allows that.
    pub(super) async fn accept(
        &self,
        mut stream: Stream,
        remote: &str,
    ) -> Result<(Stream, PeerProof), Fault> {
        let mode = self.mode();
        if mode == InternodeTlsMode::Plain {
            return Ok((stream, PeerProof::Nothing));
        }
        let keys = self.keys();
        if mode == InternodeTlsMode::Both {
            // The first byte distinguishes TLS from a greeting. The chained reader returns it again.
            let first = stream.reader.read_u8().await?;
            let seen = Cursor::new(vec![first]);
            stream.reader = Box::new(seen.chain(stream.reader));
            if first != TLS_HANDSHAKE {
                self.note_plain(remote, None);
                return Ok((stream, PeerProof::Nothing));
            }
        }
        let keys = keys.ok_or(Fault::NoCertificate)?;
        let Stream { reader, writer } = stream;
        let accepting =
            TlsAcceptor::from(Arc::clone(&keys.server)).accept(tokio::io::join(reader, writer));
        let stream = accepting.await.map_err(|fault| Fault::Tls(failure_words(&fault)))?;
        let proof = keys.trust.proof(stream.get_ref().1.peer_certificates());
        let proven = match proof {
            Some(LinkProof::Node(node)) => PeerProof::Node(identity(&node)?),
            Some(LinkProof::Token(id)) => PeerProof::Token(id),
            Some(LinkProof::Secret) => PeerProof::Secret,
            None => return Err(Fault::Tls("it has proved nothing".into())),
        };
        Ok((Stream::from_whole(stream), proven))
    }

    /// Returns the TLS configuration for dialing, if any, and whether a plain connection may be used
    /// instead.
    pub(super) fn dialing(
        &self,
        proof: Option<&JoinProof>,
    ) -> Result<(Option<Arc<ClientConfig>>, bool), Fault> {
        let refused = |fault: TlsError| Fault::Tls(fault.to_string());
        match proof {
            Some(JoinProof::Token(token)) => {
                return Ok((Some(token.client().map_err(refused)?), false));
            }
            Some(JoinProof::Secret(secret)) => {
                return Ok((Some(secret.client().map_err(refused)?), false));
            }
            None => {}
        }
        let config = self.keys().map(|keys| Arc::clone(&keys.client));
        match (self.mode(), config) {
            (InternodeTlsMode::Plain, _) => Ok((None, true)),
            (InternodeTlsMode::Both, config) => Ok((config, true)),
            (InternodeTlsMode::Required, None) => Err(Fault::NoCertificate),
            (InternodeTlsMode::Required, config) => Ok((config, false)),
        }
    }

    /// Sets the reason why a plain connection that this node has dialed could not be replaced by TLS.
    pub(super) fn note_stays_plain(&self, address: &str, reason: String) {
        self.plain.explain(host_of(address), reason);
    }

    /// Counts a plain connection that this node has dialed, with the reason, unless the mode is plain.
    pub(super) fn note_dialed_plain(&self, address: &str, reason: Option<String>) {
        if self.mode() != InternodeTlsMode::Plain {
            self.note_plain(address, reason);
        }
    }
}

fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

/// Does the TLS handshake of a dialing node.
pub(super) async fn secured(
    config: Arc<ClientConfig>,
    stream: Stream,
) -> Result<(Stream, PeerProof), Fault> {
    let Stream { reader, writer } = stream;
    let connecting =
        TlsConnector::from(config).connect(node_server_name(), tokio::io::join(reader, writer));
    let stream = connecting.await.map_err(|fault| Fault::Tls(failure_words(&fault)))?;
    let shown = peer_certificate(stream.get_ref().1.peer_certificates());
    let proven = match shown.as_ref().and_then(node_of) {
        Some(node) => PeerProof::Node(identity(node)?),
        // A certificate without a node's identity is that of the shared secret. The handshake has checked
        // its key.
        None => PeerProof::Secret,
    };
    Ok((Stream::from_whole(stream), proven))
}

/// Parses the identity that a certificate names.
fn identity(node: &str) -> Result<NodeId, Fault> {
    let is_whole = node.len() == 32;
    let number = u128::from_str_radix(node, 16).ok().filter(|_| is_whole);
    let number =
        number.ok_or_else(|| Fault::Tls(format!("its certificate names no node: {node}")))?;
    Ok(NodeId(number.to_be_bytes()))
}

impl Services {
    /// Returns the kind of caller on a connection with this proof.
    pub(super) const fn caller(proven: PeerProof, is_guest: bool) -> super::service::Caller {
        use super::service::Caller;
        match proven {
            PeerProof::Token(_) | PeerProof::Secret => Caller::Joiner,
            PeerProof::Nothing | PeerProof::Node(_) if is_guest => Caller::Guest,
            PeerProof::Nothing | PeerProof::Node(_) => Caller::Member,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_tls::nodes::{Authority, NodeSubject};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_kept_certificate_is_readable_only_by_its_owner_whatever_was_left_before() {
        let directory = tempfile::tempdir().unwrap();
        let (file, left) =
            (directory.path().join("first.pem"), directory.path().join("first.pem.new"));
        let security = LinkSecurity::default();
        let security = security.with_file(directory.path().to_owned(), "first.pem").unwrap();
        fs::write(&left, "left by an interrupted attempt").unwrap();
        fs::set_permissions(&left, fs::Permissions::from_mode(0o644)).unwrap();
        security.keep("certificate and key").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "certificate and key");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!left.exists());
    }

    #[test]
    fn keys_of_the_own_cluster_do_not_replace_those_of_a_cluster_that_the_node_joins_meanwhile() {
        let now = quoit_tls::Instant::now();
        let [own, other] = ["own", "other"].map(|name| Authority::make(name, now).unwrap());
        let (node, name) = (NodeId([7; 16]).to_string(), "n@127.0.0.1");
        let subject = NodeSubject { node: &node, name };
        let keys = |authority: &Authority| {
            let identity = authority.issue(subject, now).unwrap();
            let authorities = vec![authority.certificate().clone()];
            LinkKeys::new(identity, LinkTrust { authorities, ..LinkTrust::default() }).unwrap()
        };
        let shown = |security: &LinkSecurity| {
            let keys = security.keys().unwrap();
            Fingerprint::of(&keys.identity.chain()[1])
        };
        let security = LinkSecurity::default();
        assert!(security.set_own_keys(keys(&own)));
        let made = keys(&own);
        let granted = other.issue(subject, now).unwrap();
        let issued = || (granted.clone(), vec![other.certificate().clone()]);
        let full = || Err(TlsError::Issue("the disk is full".to_owned()));
        let (identity, authorities) = issued();
        assert!(security.set_first_keys(identity, authorities, full).is_err());
        assert_eq!(
            shown(&security),
            own.fingerprint(),
            "a certificate that is not kept is not shown"
        );
        let (identity, authorities) = issued();
        security.set_first_keys(identity, authorities, || Ok::<_, TlsError>(())).unwrap();
        assert!(!security.set_own_keys(made));
        assert_eq!(shown(&security), other.fingerprint());
        // Once the node knows the cluster's trust, its keys are its own cluster's again.
        assert!(!security.joins_another(|authority| authority == other.fingerprint()));
        assert!(security.set_own_keys(keys(&other)));
    }
}
