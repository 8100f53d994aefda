//! Authorities, certificates and files.

use crate::{Instant, TlsError};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, SigningKey,
};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tempfile::TempDir;
use time::OffsetDateTime;

/// The time of all these tests: 2026-01-01.
pub(super) const NOW: Instant = Instant::from_unix_secs(1_767_225_600);

/// Seconds in a day.
pub(super) const DAY: i64 = 86_400;

pub(super) fn time(instant: Instant) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(instant.unix_secs()).unwrap()
}

/// Returns the path of a stored file that was made with OpenSSL, of a kind that cannot be made here.
pub(super) fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/data").join(name)
}

/// An authority for tests, with a folder for its files.
pub(super) struct Authority {
    pub(super) folder: TempDir,
    issuer: Mutex<Issuer<'static, KeyPair>>,
    pub(super) file: PathBuf,
}

impl Authority {
    pub(super) fn new(name: &str) -> Authority {
        let folder = tempfile::tempdir().unwrap();
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let file = folder.path().join("authority.pem");
        fs::write(&file, certificate.pem()).unwrap();
        Authority { folder, issuer: Mutex::new(Issuer::new(params, key)), file }
    }

    /// Makes the authority's own certificate again, with another key.
    pub(super) fn renew(&self, params: CertificateParams) {
        let key = KeyPair::generate().unwrap();
        fs::write(&self.file, params.self_signed(&key).unwrap().pem()).unwrap();
        *self.issuer.lock().unwrap() = Issuer::new(params, key);
    }

    /// Issues a certificate. Returns the files of the certificate and of its key.
    pub(super) fn issue(&self, file: &str, params: &CertificateParams) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &*self.issuer.lock().unwrap()).unwrap();
        (
            self.write(&format!("{file}.pem"), certificate.pem()),
            self.write(&format!("{file}.key"), key.serialize_pem()),
        )
    }

    /// Makes a list that revokes the certificate with this serial number.
    pub(super) fn revoke(&self, serial: u64) -> PathBuf {
        let list = CertificateRevocationListParams {
            this_update: time(NOW.plus_secs(-DAY)),
            next_update: time(NOW.plus_secs(10 * DAY)),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(serial),
                revocation_time: time(NOW.plus_secs(-DAY)),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        self.write(
            "revoked.pem",
            list.signed_by(&*self.issuer.lock().unwrap()).unwrap().pem().unwrap(),
        )
    }

    /// Signs `bytes` with the authority's key.
    pub(super) fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.issuer.lock().unwrap().key().sign(bytes).unwrap()
    }

    /// Writes a file that only its owner may read.
    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        private_file(self.folder.path(), name, content)
    }
}

pub(super) fn private_file(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let file = folder.join(name);
    fs::write(&file, content).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    file
}

/// Returns the parameters of a certificate for `name` and for the host names and addresses `hosts`, valid
/// from a day ago for 100 days.
pub(super) fn params(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = time(NOW.plus_secs(-DAY));
    params.not_after = time(NOW.plus_secs(99 * DAY));
    params
}

/// Returns the text of a failure.
pub(super) fn refusal<T>(result: Result<T, TlsError>) -> String {
    match result {
        Ok(_) => panic!("that was taken"),
        Err(fault) => fault.to_string(),
    }
}
