//! Certificates of a measured node, and TLS configurations of its clients.

use anyhow::Result;
use quoit_tls::rustls::ClientConfig;
use quoit_tls::rustls::client::Resumption;
use quoit_tls::{ClientSettings, Instant, Versions, client_config};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files of a certificate authority, and of a node's ECDSA P-256 certificate that it issued.
pub(super) struct TlsFiles {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl TlsFiles {
    pub(super) fn make(dir: &Path) -> Result<Self> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority_key = KeyPair::generate()?;
        let authority_pem = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
        let certificate = certificate.signed_by(&key, &issuer)?;
        let write = |name: &str, text: String| -> Result<PathBuf> {
            let path = dir.join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            Ok(path)
        };
        Ok(Self {
            authority: write("authority.pem", authority_pem)?,
            certificate: write("node.pem", certificate.pem())?,
            key: write("node.key", key.serialize_pem())?,
        })
    }

    /// Settings of a node with these files, and with listeners that speak TLS from the first byte.
    pub(super) fn node_settings(&self) -> Vec<String> {
        vec![
            format!("ssl.certfile={}", self.certificate.display()),
            format!("ssl.keyfile={}", self.key.display()),
            "listener.protobuf_tls.bench=127.0.0.1:0".to_owned(),
            "listener.https.bench=127.0.0.1:0".to_owned(),
        ]
    }

    /// A configuration of a client that speaks only TLS 1.3.
    pub(super) fn client(&self, resumes: bool) -> Result<Arc<ClientConfig>> {
        let settings = ClientSettings {
            authorities: self.authority.clone(),
            versions: Versions { tls12: false, tls13: true },
            ..ClientSettings::default()
        };
        let mut config = ClientConfig::clone(&*client_config(&settings, Instant::now())?);
        if !resumes {
            config.resumption = Resumption::disabled();
        }
        Ok(Arc::new(config))
    }
}
