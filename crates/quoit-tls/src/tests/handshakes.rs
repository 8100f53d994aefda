//! Handshakes between the configurations, over a pipe in memory.

use super::fixture::{Authority, params};
use crate::{
    CipherList, ClientCertificates, ClientSettings, Instant, ServerSettings, ServerTls, Versions,
    client_config, failure_words, peer_certificate, server_name,
};
use rcgen::{CertificateParams, SerialNumber};
use rustls::{HandshakeKind, ProtocolVersion};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Returns the parameters of a certificate that is valid while the test runs, because handshakes
/// use the machine's clock.
pub(super) fn now_params(name: &str, hosts: &[&str]) -> CertificateParams {
    let mut params = params(name, hosts);
    params.not_before = OffsetDateTime::now_utc() - time::Duration::days(1);
    params.not_after = OffsetDateTime::now_utc() + time::Duration::days(40);
    params
}

pub(super) struct Both {
    pub(super) authority: Authority,
    pub(super) server: ServerSettings,
    pub(super) client: ClientSettings,
}

impl Both {
    pub(super) fn new(hosts: &[&str]) -> Both {
        let authority = Authority::new("authority");
        let mut own = now_params("authority", &[]);
        own.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        authority.renew(own);
        let (certificate, key) = authority.issue("server", &now_params("server", hosts));
        let server = ServerSettings {
            certificate,
            key,
            authorities: Some(authority.file.clone()),
            clients: ClientCertificates::Optional,
            protocols: vec![b"one".to_vec(), b"two".to_vec()],
            sessions_max: 16,
            ..ServerSettings::default()
        };
        let client = ClientSettings {
            authorities: authority.file.clone(),
            protocols: vec![b"two".to_vec()],
            ..ClientSettings::default()
        };
        Both { authority, server, client }
    }

    pub(super) fn client_certificate(&self, name: &str, serial: u64) -> (PathBuf, PathBuf) {
        let mut params = now_params(name, &[]);
        params.serial_number = Some(SerialNumber::from(serial));
        self.authority.issue(name, &params)
    }
}

/// Result of a handshake on the server's side.
#[derive(Debug)]
pub(super) struct Shaken {
    pub(super) name: Option<String>,
    version: Option<ProtocolVersion>,
    protocol: Option<Vec<u8>>,
    kind: Option<HandshakeKind>,
}

/// Does one handshake and sends a byte in each direction.
pub(super) async fn shake(
    server: &ServerTls,
    client: &Arc<rustls::ClientConfig>,
    host: &str,
) -> (io::Result<Shaken>, io::Result<()>) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let serving = async {
        let mut stream = TlsAcceptor::from(server.config()).accept(far).await?;
        let byte = stream.read_u8().await?;
        stream.write_u8(byte).await?;
        stream.flush().await?;
        let state = stream.get_ref().1;
        Ok(Shaken {
            name: peer_certificate(state.peer_certificates()).and_then(|shown| shown.common_name),
            version: state.protocol_version(),
            protocol: state.alpn_protocol().map(<[u8]>::to_vec),
            kind: state.handshake_kind(),
        })
    };
    let asking = async {
        let name = server_name(host).unwrap();
        let mut stream = TlsConnector::from(Arc::clone(client)).connect(name, near).await?;
        stream.write_u8(7).await?;
        stream.flush().await?;
        assert_eq!(stream.read_u8().await?, 7);
        Ok(())
    };
    tokio::join!(serving, asking)
}

pub(super) fn open(settings: &ServerSettings) -> ServerTls {
    ServerTls::open(settings.clone(), Instant::now()).unwrap()
}

pub(super) fn dial(settings: &ClientSettings) -> Arc<rustls::ClientConfig> {
    client_config(settings, Instant::now()).unwrap()
}

#[tokio::test]
async fn names_and_addresses_of_the_certificate_are_taken_and_others_are_not() {
    let both = Both::new(&["db.example", "127.0.0.1"]);
    let (server, client) = (open(&both.server), dial(&both.client));
    for host in ["db.example", "127.0.0.1"] {
        let (served, asked) = shake(&server, &client, host).await;
        asked.unwrap();
        let shaken = served.unwrap();
        assert_eq!(shaken.version, Some(ProtocolVersion::TLSv1_3));
        assert_eq!(shaken.protocol.as_deref(), Some(&b"two"[..]));
        assert_eq!(shaken.name, None, "no certificate was shown");
    }
    let (_, asked) = shake(&server, &client, "other.example").await;
    let words = failure_words(&asked.unwrap_err());
    assert!(words.contains("not for the name"), "{words}");
}

#[tokio::test]
async fn a_common_name_alone_is_no_name_of_a_server_but_that_of_a_user() {
    let both = Both::new(&[]);
    let (_, asked) = shake(&open(&both.server), &dial(&both.client), "server").await;
    assert!(failure_words(&asked.unwrap_err()).contains("the common name does not count"));
    let both = Both::new(&["server"]);
    let client = ClientSettings {
        identity: Some(both.client_certificate("alice", 5)),
        ..both.client.clone()
    };
    let (served, asked) = shake(&open(&both.server), &dial(&client), "server").await;
    asked.unwrap();
    assert_eq!(served.unwrap().name.as_deref(), Some("alice"));
}

#[tokio::test]
async fn strangers_and_the_revoked_are_refused_and_the_nameless_where_one_must_show() {
    let both = Both::new(&["server"]);
    let other = Both::new(&["server"]);
    let mut stranger = ClientSettings {
        identity: Some(other.client_certificate("mallory", 5)),
        ..both.client.clone()
    };
    let (served, _) = shake(&open(&both.server), &dial(&stranger), "server").await;
    let words = failure_words(&served.unwrap_err());
    assert!(words.contains("another authority of the same name"), "{words}");
    let elsewhere = Authority::new("elsewhere");
    stranger.identity = Some(elsewhere.issue("mallory", &now_params("mallory", &[])));
    let (served, _) = shake(&open(&both.server), &dial(&stranger), "server").await;
    let words = failure_words(&served.unwrap_err());
    assert!(words.contains("an authority that is not trusted here"), "{words}");

    let revoking =
        ServerSettings { revocation_lists: vec![both.authority.revoke(5)], ..both.server.clone() };
    for (serial, is_taken) in [(5, false), (6, true)] {
        let name = format!("user{serial}");
        let client = ClientSettings {
            identity: Some(both.client_certificate(&name, serial)),
            ..both.client.clone()
        };
        let (served, _) = shake(&open(&revoking), &dial(&client), "server").await;
        assert_eq!(served.is_ok(), is_taken, "{served:?}");
    }

    let strict = ServerSettings { clients: ClientCertificates::Required, ..both.server.clone() };
    let (served, _) = shake(&open(&strict), &dial(&both.client), "server").await;
    let words = failure_words(&served.unwrap_err());
    assert!(words.contains("has shown no certificate"), "{words}");

    let (_, asked) = shake(&open(&other.server), &dial(&both.client), "server").await;
    assert!(failure_words(&asked.unwrap_err()).contains("another authority of the same name"));
}

#[tokio::test]
async fn versions_and_ciphers_are_those_of_the_settings() {
    let both = Both::new(&["server"]);
    let only = |tls12, tls13| Versions { tls12, tls13 };
    let ciphers = CipherList::parse("ECDHE-ECDSA-AES128-GCM-SHA256").unwrap();
    let server =
        open(&ServerSettings { versions: only(true, false), ciphers, ..both.server.clone() });
    let (served, asked) = shake(&server, &dial(&both.client), "server").await;
    asked.unwrap();
    assert_eq!(served.unwrap().version, Some(ProtocolVersion::TLSv1_2));
    let newer = ClientSettings { versions: only(false, true), ..both.client.clone() };
    let (served, asked) = shake(&server, &dial(&newer), "server").await;
    assert!(served.is_err() && asked.is_err());
}

#[tokio::test]
async fn sessions_resume_in_both_versions_unless_switched_off() {
    let both = Both::new(&["server"]);
    for tls12 in [true, false] {
        let versions = Versions { tls12, tls13: !tls12 };
        for sessions_max in [16, 0] {
            let server = open(&ServerSettings { sessions_max, ..both.server.clone() });
            let client = dial(&ClientSettings { versions, ..both.client.clone() });
            let mut kinds = Vec::new();
            for _ in 0..2 {
                let (served, asked) = shake(&server, &client, "server").await;
                asked.unwrap();
                kinds.push(served.unwrap().kind.unwrap());
            }
            let resumes = kinds[1] == HandshakeKind::Resumed;
            assert_eq!(resumes, sessions_max > 0, "tls12 {tls12}: {kinds:?}");
        }
    }
}

#[tokio::test]
async fn a_reload_counts_for_the_next_handshake_and_a_fault_changes_nothing() {
    let both = Both::new(&["server"]);
    let server = open(&both.server);
    let client = dial(&both.client);
    let before = server.expiry()[0].clone();
    let mut params = now_params("renewed", &["renewed"]);
    params.not_after += time::Duration::days(10);
    both.authority.issue("server", &params);
    server.reload(Instant::now()).unwrap();
    assert!(server.expiry()[0].not_after > before.not_after);
    shake(&server, &client, "renewed").await.1.unwrap();
    std::fs::write(&both.server.certificate, "nothing").unwrap();
    assert!(server.reload(Instant::now()).is_err());
    shake(&server, &client, "renewed").await.1.unwrap();
}

#[tokio::test]
async fn a_peer_that_does_not_speak_tls_is_told_as_that() {
    let both = Both::new(&["server"]);
    let server = open(&both.server);
    let (mut near, far) = tokio::io::duplex(1 << 16);
    near.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let fault = TlsAcceptor::from(server.config()).accept(far).await.unwrap_err();
    assert_eq!(failure_words(&fault), "the other side does not speak TLS");
}
