//! All formats of keys and certificates.

use super::fixture::{Authority, NOW, kept, params, private_file};
use crate::{
    Identity, Purpose, load_authorities, load_certificates, load_private_key, load_revocation_lists,
};
use std::fs;
use std::path::PathBuf;

/// Copies a stored key so that only its owner may read it.
fn key(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    private_file(folder.path(), name, fs::read(kept(name)).unwrap())
}

#[test]
fn keys_are_taken_as_pkcs8_pkcs1_and_sec1_in_pem_and_der() {
    let folder = tempfile::tempdir().unwrap();
    for (certificate, name) in [
        ("rsa.pem", "rsa-pkcs8.pem"),
        ("rsa.pem", "rsa-pkcs1.pem"),
        ("rsa.der", "rsa-pkcs8.der"),
        ("rsa.der", "rsa-pkcs1.der"),
        ("ec.pem", "ec-sec1.pem"),
        ("ec.pem", "ec-sec1.der"),
    ] {
        let identity = Identity::load(
            &kept(certificate),
            &key(&folder, name),
            &[],
            Purpose::Server,
            NOW_OF_KEPT,
        );
        assert!(identity.is_ok(), "{name}: {}", identity.unwrap_err());
    }
}

/// The stored files were made for a later time than that of the other tests.
const NOW_OF_KEPT: crate::Instant = crate::Instant::from_unix_secs(1_830_000_000);

#[test]
fn one_file_may_have_the_certificate_and_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let both = [fs::read(kept("rsa.pem")).unwrap(), fs::read(kept("rsa-pkcs1.pem")).unwrap()];
    let file = private_file(folder.path(), "both.pem", both.concat());
    let identity = Identity::load(&file, &file, &[], Purpose::Server, NOW_OF_KEPT).unwrap();
    assert_eq!(identity.certificate().subject, "C=GB, O=Example, CN=localhost");
    assert_eq!(identity.certificate().common_name.as_deref(), Some("localhost"));
    assert_eq!(identity.certificate().dns_names, ["localhost"]);
    assert_eq!(
        identity.certificate().addresses,
        ["127.0.0.1".parse::<std::net::IpAddr>().unwrap()]
    );
}

#[test]
fn a_certificate_tells_its_days_and_whether_it_has_only_a_common_name() {
    let authority = Authority::new("authority");
    let (file, _) = authority.issue("alice", &params("alice", &[]));
    let certificate = &load_certificates(&file).unwrap()[0].certificate;
    assert_eq!(certificate.days_left(NOW), 99);
    assert!(certificate.has_only_a_common_name());
    assert!(!certificate.is_authority);
    assert_eq!(certificate.issuer, "CN=authority");
    let (file, _) = authority.issue("host", &params("host", &["host.example"]));
    assert!(!load_certificates(&file).unwrap()[0].certificate.has_only_a_common_name());
}

#[test]
fn the_chain_is_completed_from_the_file_of_authorities() {
    let authority = Authority::new("authority");
    let (file, key) = authority.issue("host", &params("host", &["host"]));
    let other = Authority::new("other");
    let bundle = [fs::read(&other.file).unwrap(), fs::read(&authority.file).unwrap()].concat();
    let bundle = authority.write("bundle.pem", bundle);
    assert_eq!(load_authorities(&bundle, NOW).unwrap().len(), 2);
    let identity = Identity::load(&file, &key, &[&bundle], Purpose::Server, NOW).unwrap();
    assert_eq!(identity.chain().len(), 2, "the leaf and its issuer, not the other one");
    assert_eq!(identity.chain()[1], load_certificates(&authority.file).unwrap()[0].der);
}

#[test]
fn revocation_lists_are_read_with_their_end() {
    let authority = Authority::new("authority");
    let list = &load_revocation_lists(&authority.revoke(7)).unwrap()[0];
    assert_eq!((list.revoked_count, list.issuer.as_str()), (1, "CN=authority"));
    assert_eq!(list.next_update.unwrap().days_after(NOW), 10);
}

#[test]
fn a_key_is_read_past_certificates_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let parts = [fs::read(kept("ec.pem")).unwrap(), fs::read(kept("ec-sec1.pem")).unwrap()];
    assert!(load_private_key(&private_file(folder.path(), "k", parts.concat())).is_ok());
}
