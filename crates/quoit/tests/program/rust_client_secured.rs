//! The Rust client against a node process, over TLS and with logins.
use crate::node::Node;
use quoit_client::{Bucket, Client, Content, Error, Login, LoginSettings};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A certificate authority with a directory for its files.
struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

fn params(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        write(&folder.path().join("authority.pem"), &certificate.pem());
        Self { folder, issuer: Issuer::new(params, key) }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Issues a certificate; returns the files of the certificate and of its key.
    fn issue(&self, name: &str, hosts: &[&str]) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let certificate = params(name, hosts).signed_by(&key, &self.issuer).unwrap();
        let files = (self.file(&format!("{name}.pem")), self.file(&format!("{name}.key")));
        write(&files.0, &certificate.pem());
        write(&files.1, &key.serialize_pem());
        files
    }

    fn node(&self) -> Node {
        let (certificate, key) = self.issue("node", &["127.0.0.1"]);
        let set = |key: &str, path: &Path| format!("{key}={}", path.display());
        let settings = [
            set("ssl.certfile", &certificate),
            set("ssl.keyfile", &key),
            set("ssl.cacertfile", &self.file("authority.pem")),
            "security.failure_delay=10ms".to_owned(),
            "security.hashing.memory=8KB".to_owned(),
        ];
        let node = Node::start_with(&settings.each_ref().map(String::as_str));
        for words in [
            "add-user alice password=secret",
            "add-user bob",
            "add-source alice 127.0.0.1/32 password",
            "add-source bob 127.0.0.1/32 certificate",
            "grant riak_kv.get,riak_kv.put on default open to alice,bob",
            "enable",
        ] {
            let words: Vec<&str> = ["security"].into_iter().chain(words.split(' ')).collect();
            node.admin(&words);
        }
        node
    }

    /// Login as `user` with a password.
    fn password(&self, user: &str, password: &str) -> LoginSettings {
        let file = self.file("password");
        write(&file, password);
        let (user, authorities) = (user.to_owned(), self.file("authority.pem"));
        LoginSettings { user, password_file: Some(file), authorities, identity: None }
    }
}

/// Writes a file that only its owner can read.
fn write(file: &Path, content: &str) {
    fs::write(file, content).unwrap();
    fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
}

fn client(node: &Node, login: Login) -> Client {
    Client::builder().node(node.pb.clone()).attempts_max(1).login(login).build().unwrap()
}

async fn assert_serves(client: &Client) {
    let at = Bucket::new("open").key("k");
    client.put(&at, Content::text("v")).await.unwrap();
    assert_eq!(client.get(&at).await.unwrap().unwrap().single().unwrap().value, "v");
    let denied = client.get(&Bucket::new("closed").key("k")).await.unwrap_err();
    let words = "does not have 'riak_kv.get' on default/closed";
    assert!(denied.server().unwrap().message.contains(words), "{denied}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_and_a_certificate_let_in_to_what_was_granted() {
    let authority = Authority::new("authority");
    let node = authority.node();
    let by_password = authority.password("alice", "secret\n").load().unwrap();
    assert_serves(&client(&node, by_password)).await;
    let identity = Some(authority.issue("bob", &[]));
    let by_certificate =
        LoginSettings { identity, password_file: None, ..authority.password("bob", "") };
    assert_serves(&client(&node, by_certificate.load().unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_proofs_and_nodes_that_are_not_trusted_are_told_apart() {
    let authority = Authority::new("authority");
    let node = authority.node();
    let refused = async |login: LoginSettings| {
        client(&node, login.load().unwrap()).ping().await.unwrap_err().to_string()
    };
    let wrong = refused(authority.password("alice", "wrong")).await;
    assert!(wrong.contains("Authentication failed"), "{wrong}");
    let without_certificate = refused(authority.password("bob", "")).await;
    assert!(without_certificate.contains("Authentication failed"), "{without_certificate}");
    let other = Authority::new("other");
    let untrusted = refused(LoginSettings {
        authorities: other.file("authority.pem"),
        ..authority.password("alice", "secret")
    });
    let untrusted = untrusted.await;
    assert!(untrusted.contains("an authority that is not trusted here"), "{untrusted}");
    let foreign = refused(LoginSettings {
        identity: Some(other.issue("bob", &[])),
        ..authority.password("bob", "")
    });
    let foreign = foreign.await;
    assert!(!foreign.contains("Authentication failed"), "the handshake fails: {foreign}");
    let plain = Client::connect_to(node.pb.clone()).unwrap().ping().await.unwrap_err();
    let words = "Security is enabled, please STARTTLS first";
    assert!(plain.server().unwrap().message.contains(words), "{plain}");
}

#[test]
fn a_password_that_others_may_read_is_no_login() {
    let authority = Authority::new("authority");
    let login = authority.password("alice", "secret");
    fs::set_permissions(authority.file("password"), Permissions::from_mode(0o604)).unwrap();
    let fault = login.load().unwrap_err();
    assert!(matches!(fault, Error::Tls { .. }));
    assert!(fault.to_string().contains("chmod o-rwx"), "{fault}");
}
