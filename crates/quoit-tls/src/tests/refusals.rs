//! All reasons to refuse a file, with texts that name the file, the place and the remedy.

use super::fixture::{Authority, DAY, NOW, kept, params, private_file, refusal};
use crate::{
    CipherList, ClientCertificates, FileFault, FilePosition, Identity, Purpose, ServerSettings,
    ServerTls, TlsError, Versions, load_authorities, load_certificates, load_private_key,
    load_revocation_lists, server_name,
};
use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, IsCa};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_certificate_outside_of_its_time_is_refused_with_both_times() {
    let authority = Authority::new("authority");
    let (file, key) = authority.issue("host", &params("host", &["host"]));
    let late = refusal(Identity::load(&file, &key, &[], Purpose::Server, NOW.plus_secs(100 * DAY)));
    assert!(late.starts_with(&format!(
        "{}:1: the certificate of 'CN=host' has expired on",
        file.display()
    )));
    assert!(late.contains("2026-04-10 00:00:00 UTC") && late.contains("renew it"), "{late}");
    let early = refusal(Identity::load(&file, &key, &[], Purpose::Server, NOW.plus_secs(-2 * DAY)));
    assert!(early.contains("is valid from 2025-12-31 00:00:00 UTC"), "{early}");
    let off = refusal(Identity::load(
        &file,
        &key,
        &[],
        Purpose::Server,
        crate::Instant::from_unix_secs(5),
    ));
    assert!(off.contains("the clock of this machine is far off"), "{off}");
}

#[test]
fn a_key_of_another_certificate_is_refused_with_both_files() {
    let authority = Authority::new("authority");
    let (file, _) = authority.issue("host", &params("host", &["host"]));
    let (_, key) = authority.issue("other", &params("other", &["other"]));
    let fault = Identity::load(&file, &key, &[], Purpose::Server, NOW).unwrap_err();
    assert!(matches!(fault, TlsError::KeyMismatch { .. }));
    let words = fault.to_string();
    assert!(words.contains("host.pem") && words.contains("other.key"), "{words}");
}

#[test]
fn files_without_what_they_are_for_say_what_they_have() {
    let authority = Authority::new("authority");
    let (file, key) = authority.issue("host", &params("host", &["host"]));
    assert!(refusal(load_certificates(&key)).contains("has no certificate (but a private key)"));
    let key_copy = authority.write("copy", fs::read(&file).unwrap());
    assert!(
        refusal(load_private_key(&key_copy)).contains("has no private key (but a certificate)")
    );
    assert!(
        refusal(load_revocation_lists(&file))
            .contains("has no revocation list (but a certificate)")
    );
    let empty = authority.write("empty", "");
    for fault in [refusal(load_certificates(&empty)), refusal(load_private_key(&empty))] {
        assert!(fault.contains("neither PEM"), "{fault}");
    }
    let missing = refusal(load_certificates(&authority.folder.path().join("missing")));
    assert!(missing.contains("missing: can't be read (No such file"), "{missing}");
    let two = [fs::read(&key).unwrap(), fs::read(&key).unwrap()].concat();
    assert!(
        refusal(load_private_key(&authority.write("two", two))).contains("a second private key")
    );
}

#[test]
fn keys_that_a_node_must_not_use_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["ec-encrypted.pem", "ec-encrypted-old.pem"] {
        let key = private_file(folder.path(), name, fs::read(kept(name)).unwrap());
        let words = refusal(load_private_key(&key));
        assert!(words.contains("is encrypted") && words.contains("openssl pkey"), "{words}");
        assert!(words.contains(".pem:"), "names the line: {words}");
    }
    let der = private_file(folder.path(), "der", ENCRYPTED_IN_DER);
    let words = refusal(load_private_key(&der));
    assert!(words.contains("der, byte 0: the private key is encrypted"), "{words}");
    let key = private_file(folder.path(), "open", fs::read(kept("ec-sec1.pem")).unwrap());
    fs::set_permissions(&key, Permissions::from_mode(0o604)).unwrap();
    let words = refusal(load_private_key(&key));
    assert!(words.contains("(mode 0604): chmod o-rwx"), "{words}");
    fs::set_permissions(&key, Permissions::from_mode(0o640)).unwrap();
    assert!(load_private_key(&key).is_ok(), "a group of its own is usual");
}

/// Beginning of an encrypted PKCS#8 key: the algorithm PBES2.
const ENCRYPTED_IN_DER: &[u8] =
    &[0x30, 0x81, 0xf5, 0x30, 0x60, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 0x0d];
/// Beginning of a PKCS#12 file.
const PKCS12: &[u8] = &[0x30, 0x82, 4, 0x63, 2, 1, 3, 0x30, 0x82, 4, 0x19];

#[test]
fn a_container_of_both_is_told_as_that() {
    let folder = tempfile::tempdir().unwrap();
    let file = private_file(folder.path(), "both.p12", PKCS12);
    for words in [refusal(load_private_key(&file)), refusal(load_certificates(&file))] {
        assert!(words.contains("both.p12, byte 0: is PKCS#12"), "{words}");
        assert!(words.contains("openssl pkcs12"), "{words}");
    }
}

#[test]
fn a_chain_that_begins_with_another_certificate_names_the_line_of_the_right_one() {
    let authority = Authority::new("authority");
    let (file, key) = authority.issue("host", &params("host", &["host"]));
    let (other, _) = authority.issue("other", &params("other", &["host"]));
    let chain = [fs::read(&other).unwrap(), fs::read(&file).unwrap()];
    let line = chain[0].iter().filter(|byte| **byte == b'\n').count() + 1;
    let chain = authority.write("chain", chain.concat());
    let words = refusal(Identity::load(&chain, &key, &[], Purpose::Server, NOW));
    assert!(words.starts_with(&format!("{}:{line}: ", chain.display())), "{words}");
    assert!(words.contains("host.key") && words.contains("put that certificate first"), "{words}");
}

#[test]
fn weak_and_old_certificates_are_refused_by_name() {
    let later = crate::Instant::from_unix_secs(1_830_000_000);
    let presentable = |name: &str| {
        load_certificates(&kept(name)).unwrap()[0].certificate.check_presentable(later)
    };
    assert!(matches!(presentable("v1.pem"), Err(FileFault::OldVersion { version: 1, .. })));
    assert!(matches!(presentable("sha1.pem"), Err(FileFault::WeakSignature { algorithm, .. })
        if algorithm == "SHA-1 and RSA"));
    assert!(matches!(presentable("rsa1024.pem"), Err(FileFault::WeakKey { key, .. })
        if key == "RSA with 1024 bits"));
    assert!(presentable("rsa.pem").is_ok() && presentable("ec.pem").is_ok());
    // As authorities named by the operator, their own signatures and versions do not matter.
    assert!(load_authorities(&kept("v1.pem"), later).is_ok());
    assert!(load_authorities(&kept("sha1.pem"), later).is_ok());
    assert!(refusal(load_authorities(&kept("rsa1024.pem"), later)).contains("RSA with 1024 bits"));
}

#[test]
fn a_certificate_for_the_other_side_of_connections_is_refused() {
    let authority = Authority::new("authority");
    for (usage, wrong, wanted) in [
        (ExtendedKeyUsagePurpose::ClientAuth, Purpose::Server, "serverAuth"),
        (ExtendedKeyUsagePurpose::ServerAuth, Purpose::Client, "clientAuth"),
    ] {
        let mut params = params("host", &["host"]);
        params.extended_key_usages = vec![usage.clone()];
        let (file, key) = authority.issue("host", &params);
        let words = refusal(Identity::load(&file, &key, &[], wrong, NOW));
        assert!(words.contains(&format!("extendedKeyUsage = {wanted}")), "{words}");
        assert!(words.contains("host.pem:1: "), "{words}");
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let (file, key) = authority.issue("host", &params);
        assert!(Identity::load(&file, &key, &[], wrong, NOW).is_ok(), "{usage:?} beside the other");
    }
}

#[test]
fn the_certificate_of_an_authority_itself_is_warned_of() {
    let authority = Authority::new("authority");
    let mut params = params("host", &["host"]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let (certificate, key) = authority.issue("host", &params);
    let tls =
        ServerTls::open(ServerSettings { certificate, key, ..ServerSettings::default() }, NOW);
    let warnings = tls.unwrap().warnings();
    assert!(warnings[0].contains("is that of an authority itself"), "{warnings:?}");
}

#[test]
fn a_certificate_of_no_authority_is_no_authority() {
    let authority = Authority::new("authority");
    let (file, _) = authority.issue("host", &params("host", &["host"]));
    assert!(refusal(load_authorities(&file, NOW)).contains("is that of no authority"));
}

#[test]
fn the_second_of_two_certificates_is_named_by_its_line() {
    let authority = Authority::new("authority");
    let (file, key) = authority.issue("host", &params("host", &["host"]));
    let first = fs::read_to_string(&file).unwrap();
    let line = first.lines().count() + 3;
    let broken = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    let both = authority.write("both.pem", format!("{first}# a remark\n\n{broken}"));
    let fault = Identity::load(&both, &key, &[], Purpose::Server, NOW).unwrap_err();
    let TlsError::File { place, .. } = &fault else { panic!("{fault}") };
    assert_eq!(*place, FilePosition::Line(line), "{fault}");
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let authority = Authority::new("authority");
    let (certificate, key) = authority.issue("host", &params("host", &["host"]));
    let good = ServerSettings { certificate, key, ..ServerSettings::default() };
    assert!(ServerTls::open(good.clone(), NOW).is_ok());
    let asks = ServerSettings { clients: ClientCertificates::Required, ..good.clone() };
    assert!(refusal(ServerTls::open(asks, NOW)).contains("ssl.cacertfile"));
    let silent = Versions { tls12: false, tls13: false };
    let none = ServerSettings { versions: silent, ..good.clone() };
    assert!(refusal(ServerTls::open(none, NOW)).contains("switch one of them on"));
    let ciphers = CipherList::parse("AES256-SHA:ECDHE-RSA-AES256-GCM-SHA384").unwrap();
    let warned = ServerTls::open(ServerSettings { ciphers, ..good }, NOW).unwrap();
    assert!(warned.warnings()[0].contains("the cipher 'AES256-SHA' is not supported"));
    assert!(refusal(server_name("a b")).contains("'a b' is neither"));
    assert!(server_name("[::1]").is_ok() && server_name("127.0.0.1").is_ok());
}

#[test]
fn a_server_named_only_in_the_common_name_is_warned_of_and_ends_are_told_in_time() {
    let authority = Authority::new("authority");
    let (certificate, key) = authority.issue("host", &params("host", &[]));
    let tls =
        ServerTls::open(ServerSettings { certificate, key, ..ServerSettings::default() }, NOW)
            .unwrap();
    assert!(tls.warnings()[0].contains("only in the common name"), "{:?}", tls.warnings());
    let expiry = &tls.expiry()[0];
    assert_eq!(expiry.warning(NOW), None);
    let near = expiry.warning(NOW.plus_secs(80 * DAY)).unwrap();
    assert!(near.contains("expires in 19 days, on 2026-04-10"), "{near}");
    assert!(expiry.warning(NOW.plus_secs(120 * DAY)).unwrap().contains("has expired on"));
}
