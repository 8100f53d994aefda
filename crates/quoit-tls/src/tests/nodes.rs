//! Handshakes between nodes: accepted and refused proofs.

use crate::nodes::{
    Authority, Fingerprint, GrantedCertificate, JoinToken, LinkProof, LinkTrust, NodeRequest,
    NodeSubject, SharedSecret, TokenError, node_server_name,
};
use crate::{Identity, Instant, failure_words};
use rustls::{ClientConfig, ServerConfig};
use std::io;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio_rustls::{TlsAcceptor, TlsConnector};

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

struct Cluster {
    authority: Authority,
    trust: LinkTrust,
}

impl Cluster {
    fn new() -> Cluster {
        let authority = Authority::make("test", Instant::now()).unwrap();
        let authorities = vec![authority.certificate().clone()];
        Cluster { trust: LinkTrust { authorities, ..LinkTrust::default() }, authority }
    }

    fn node(&self, node: &str) -> Identity {
        self.authority.issue(NodeSubject { node, name: "n@host" }, Instant::now()).unwrap()
    }

    fn server(&self) -> Arc<ServerConfig> {
        self.trust.server(&self.node(A)).unwrap()
    }

    fn client(&self, node: &str) -> Arc<ClientConfig> {
        self.trust.client(&self.node(node)).unwrap()
    }

    /// Returns the proofs of both sides. On failure, returns the TLS error of the dialing side if it has
    /// one, else the error of the listening side.
    async fn shake(&self, client: Arc<ClientConfig>) -> io::Result<(Option<LinkProof>, String)> {
        let (near, far) = tokio::io::duplex(1 << 16);
        let serving = async {
            let stream = TlsAcceptor::from(self.server()).accept(far).await?;
            Ok::<_, io::Error>(self.trust.proof(stream.get_ref().1.peer_certificates()))
        };
        let dialing = async {
            let mut stream = TlsConnector::from(client).connect(node_server_name(), near).await?;
            let proof = self.trust.proof(stream.get_ref().1.peer_certificates());
            // In TLS 1.3, the handshake is over on this side before the other side can refuse.
            let mut byte = [0];
            _ = stream.read(&mut byte).await;
            Ok::<_, io::Error>(format!("{proof:?}"))
        };
        let (served, dialed) = tokio::join!(serving, dialing);
        match dialed {
            Err(fault) if fault.get_ref().is_some() => Err(fault),
            dialed => Ok((served?, dialed?)),
        }
    }
}

fn words(outcome: io::Result<(Option<LinkProof>, String)>) -> String {
    failure_words(&outcome.unwrap_err())
}

#[tokio::test]
async fn members_prove_their_identities_to_each_other() {
    let cluster = Cluster::new();
    let (proof, theirs) = cluster.shake(cluster.client(B)).await.unwrap();
    assert_eq!(proof, Some(LinkProof::Node(B.into())));
    assert!(theirs.contains(A), "{theirs}");
}

#[tokio::test]
async fn nodes_of_other_clusters_and_removed_ones_are_refused() {
    let mut cluster = Cluster::new();
    let other = Cluster::new();
    let mut client = LinkTrust { ..cluster.trust.clone() };
    client.authorities = cluster.trust.authorities.clone();
    let stranger = client.client(&other.node(B)).unwrap();
    assert!(words(cluster.shake(stranger).await).contains("not trusted here"));
    assert!(words(cluster.shake(other.client(B)).await).contains("not trusted here"));
    cluster.trust.removed.insert(B.into());
    assert!(words(cluster.shake(cluster.client(B)).await).contains("revoked"));
    let removed = Cluster { trust: cluster.trust.clone(), ..cluster };
    let mut before = removed.trust.clone();
    before.removed = [A.to_owned()].into();
    let to_removed = before.client(&removed.node("c")).unwrap();
    assert!(words(removed.shake(to_removed).await).contains("revoked"), "dialing a removed one");
}

#[tokio::test]
async fn a_certificate_of_the_authority_that_names_no_node_is_no_proof() {
    let cluster = Cluster::new();
    let plain = rcgen::KeyPair::generate().unwrap();
    let key = rcgen::KeyPair::try_from(cluster.authority.secret_key()).unwrap();
    let issuer = rcgen::Issuer::from_ca_cert_der(cluster.authority.certificate(), key).unwrap();
    let leaf = rcgen::CertificateParams::default().signed_by(&plain, &issuer).unwrap();
    let identity = Identity::new(
        vec![leaf.der().clone()],
        rustls_pki_types::PrivatePkcs8KeyDer::from(plain.serialize_der()).into(),
    );
    let client = cluster.trust.client(&identity.unwrap()).unwrap();
    assert!(cluster.shake(client).await.is_err());
}

#[tokio::test]
async fn a_token_proves_itself_until_its_end_and_knows_its_cluster() {
    let mut cluster = Cluster::new();
    let token = JoinToken::make(cluster.authority.fingerprint()).unwrap();
    let id = token.id().unwrap();
    let unknown = words(cluster.shake(token.client().unwrap()).await);
    assert!(unknown.contains("refused") || unknown.contains("trusted"), "{unknown}");
    cluster.trust.tokens.insert(id, Instant::now().plus_secs(60));
    let (proof, _) = cluster.shake(token.client().unwrap()).await.unwrap();
    assert_eq!(proof, Some(LinkProof::Token(id)));
    cluster.trust.tokens.insert(id, Instant::now().plus_secs(-1));
    assert!(words(cluster.shake(token.client().unwrap()).await).contains("expired"));
    cluster.trust.tokens.insert(id, Instant::now().plus_secs(60));
    let elsewhere = JoinToken::make(Fingerprint([7; 32])).unwrap();
    assert!(words(cluster.shake(elsewhere.client().unwrap()).await).contains("not trusted here"));
}

#[tokio::test]
async fn a_shared_secret_proves_both_sides() {
    let mut cluster = Cluster::new();
    let secret = SharedSecret::of("0123456789abcdef0123456789abcdef").unwrap();
    assert!(cluster.shake(secret.client().unwrap()).await.is_err(), "the cluster has none");
    cluster.trust.secret = Some(secret.clone());
    let (proof, _) = cluster.shake(secret.client().unwrap()).await.unwrap();
    assert_eq!(proof, Some(LinkProof::Secret));
    let other = SharedSecret::of("fedcba9876543210fedcba9876543210").unwrap();
    assert!(cluster.shake(other.client().unwrap()).await.is_err());
    let (proof, _) = cluster.shake(cluster.client(B)).await.unwrap();
    assert_eq!(proof, Some(LinkProof::Node(B.into())), "members are known as before");
}

#[test]
fn tokens_come_back_from_their_text_and_damage_is_found() {
    let token = JoinToken::make(Fingerprint([9; 32])).unwrap();
    let text = token.secret_text();
    assert_eq!(format!(" {text}\n").parse::<JoinToken>().unwrap(), token);
    for at in "quoit-join-1-".len()..text.len() {
        let mut damaged = text.clone().into_bytes();
        damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
        let damaged = String::from_utf8(damaged).unwrap().parse::<JoinToken>();
        assert_eq!(damaged, Err(TokenError::Damaged), "at {at}");
        assert_eq!(text[..at].parse::<JoinToken>(), Err(TokenError::Damaged));
    }
    assert_eq!("secret".parse::<JoinToken>(), Err(TokenError::Prefix));
    assert!(!format!("{token:?}").contains(&text[20..]), "nothing of it in logs");
}

#[test]
fn a_request_gets_the_granted_name_and_no_other() {
    let authority = Authority::make("test", Instant::now()).unwrap();
    let request = NodeRequest::make(NodeSubject { node: A, name: "evil" }).unwrap();
    let granted = NodeSubject { node: B, name: "n2" };
    let leaf = authority.sign(request.der(), granted, Instant::now()).unwrap();
    let issuer = authority.certificate().clone();
    let identity = request.granted(GrantedCertificate { leaf, issuer }).unwrap();
    assert_eq!(crate::nodes::node_of(identity.certificate()), Some(B));
    assert_eq!(identity.certificate().common_name.as_deref(), Some("n2"));
    assert!(!identity.certificate().is_authority);
    let named = NodeSubject { node: A, name: "n" };
    let mut damaged = NodeRequest::make(named).unwrap().der().to_vec();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    assert!(authority.sign(&damaged, granted, Instant::now()).is_err(), "its signature is wrong");
}
