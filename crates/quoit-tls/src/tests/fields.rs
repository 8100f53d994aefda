//! Certificates with each element of each field damaged in several ways, in configured files and in
//! handshakes, signed by the authority after the damage. The result is a clear error, never a panic.

use super::der::{Damage, Element};
use super::fixture::Authority;
use super::handshakes::{Both, dial, now_params, open, shake};
use crate::{
    ClientSettings, FilePosition, Identity, Instant, Purpose, TlsError, is_refused_certificate,
    load_certificates, load_private_key,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Fields of the signed part, in their order.
const FIELDS: [&str; 8] =
    ["version", "serial", "algorithm", "issuer", "validity", "subject", "key", "extensions"];

/// A damaged certificate.
struct Case {
    /// The field, the element and the damage.
    name: String,
    field: &'static str,
    /// True if the damage is such that no reader can accept the field.
    is_plain: bool,
    der: Vec<u8>,
}

/// Returns damaged forms of `der`, which `authority` has issued.
fn cases(der: &[u8], authority: &Authority) -> Vec<Case> {
    let whole = Element::all(der).remove(0);
    let [signed, algorithm, _] = whole.inner() else { panic!("three parts") };
    let mut all = Vec::new();
    for (place, damage, damaged) in signed.with_each_damage() {
        let signature = Element::bits(&authority.sign(&damaged.bytes()));
        let parts = whole.with(0, vec![damaged]).with(1, vec![algorithm.clone()]);
        let field = FIELDS[place[0]];
        all.push(Case {
            name: format!("{field} {:?} {damage:?}", &place[1..]),
            field,
            is_plain: is_plain(field, &place, damage),
            der: parts.with(2, vec![signature]).bytes(),
        });
    }
    for (place, damage, damaged) in whole.with_each_damage() {
        let field = ["", "outer algorithm", "signature"][place[0]];
        if !field.is_empty() {
            let name = format!("{field} {:?} {damage:?}", &place[1..]);
            // Only a verifier checks the outer algorithm and the signature, not a node that
            // loads its own certificate.
            all.push(Case { name, field, is_plain: false, der: damaged.bytes() });
        }
    }
    for at in 0..der.len() {
        let name = format!("cut at {at}");
        all.push(Case { name, field: "cut", is_plain: true, der: der[..at].to_vec() });
    }
    all
}

/// Returns true if no reader may accept the certificate: the field as a whole has another tag, an invalid
/// length, or half its content. Names may be empty, half a serial number is another serial number, and
/// extensions may be missing.
fn is_plain(field: &str, place: &[usize], damage: Damage) -> bool {
    let is_whole = place.len() == 1;
    match damage {
        Damage::Indefinite | Damage::Huge | Damage::Tag | Damage::TooLong => is_whole,
        Damage::Half => is_whole && field != "serial",
        Damage::Empty | Damage::Missing => {
            is_whole && !["issuer", "subject", "extensions"].contains(&field)
        }
        Damage::TooShort | Damage::Twice => false,
    }
}

fn pem(der: &[u8]) -> String {
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(der))
}

/// Asserts that a refusal names the file, the line of the certificate, and the remedy.
fn assert_is_told(fault: &TlsError, file: &Path, case: &Case) {
    let words = fault.to_string();
    let Case { name, .. } = case;
    assert!(words.contains(&*file.to_string_lossy()), "{name}: {words}");
    match fault {
        TlsError::File { place, .. } => {
            assert_eq!(*place, FilePosition::Line(2), "{name}: {words}")
        }
        TlsError::KeyMismatch { .. } => assert_eq!(case.field, "key", "{name}: {words}"),
        _ => panic!("{name}: {words}"),
    }
    let remedies =
        ["copy the file again", "have it issued", "use RSA", "renew it", "wait until", "give the"];
    assert!(remedies.iter().any(|remedy| words.contains(remedy)), "{name}: {words}");
}

#[test]
fn a_configured_certificate_with_a_damaged_field_is_an_error_that_names_file_line_and_remedy() {
    let both = Both::new(&["server"]);
    let (file, key) = both.authority.issue("host", &now_params("host", &["host", "127.0.0.1"]));
    let der = load_certificates(&file).unwrap()[0].der.to_vec();
    let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
    for case in cases(&der, &both.authority) {
        let damaged = both.authority.write("damaged.pem", format!("# it\n{}", pem(&case.der)));
        match Identity::load(&damaged, &key, &[], Purpose::Server, Instant::now()) {
            Err(fault) => {
                assert_is_told(&fault, &damaged, &case);
                *refused.entry(case.field).or_default() += 1;
            }
            Ok(_) => assert!(!case.is_plain, "{} is taken", case.name),
        }
    }
    for field in FIELDS {
        assert!(refused.get(field).is_some_and(|count| *count >= 5), "{field}: {refused:?}");
    }
}

#[tokio::test]
async fn a_certificate_with_a_damaged_field_that_a_client_shows_ends_the_handshake() {
    let both = Both::new(&["server"]);
    let (certificate, key) = both.authority.issue("alice", &now_params("alice", &["alice"]));
    let der = load_certificates(&certificate).unwrap()[0].der.to_vec();
    let server = open(&both.server);
    let sound =
        dial(&ClientSettings { identity: Some((certificate, key.clone())), ..both.client.clone() });
    shake(&server, &sound, "server").await.0.unwrap();
    let key = load_private_key(&key).unwrap();
    let key = crate::provider().key_provider.load_private_key(key).unwrap();
    let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
    for case in cases(&der, &both.authority) {
        let shown = CertifiedKey::new(vec![case.der.clone().into()], Arc::clone(&key));
        let mut client = (*sound).clone();
        client.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(shown));
        client.resumption = rustls::client::Resumption::disabled();
        let (served, asked) = shake(&server, &Arc::new(client), "server").await;
        match served {
            Err(fault) => {
                assert!(asked.is_err(), "{}: the client is told", case.name);
                *refused.entry(case.field).or_default() += 1;
                let words = crate::failure_words(&fault);
                assert!(!words.is_empty() && !words.contains("panic"), "{}: {words}", case.name);
                // In the protocol, a certificate without any bytes counts as no certificate.
                assert!(
                    is_refused_certificate(&fault) || case.der.is_empty(),
                    "{}: {fault:?}",
                    case.name
                );
            }
            // The library checks neither the names of a subject nor the serial number. Such a
            // certificate names no user.
            Ok(shaken) => {
                let is_nameless =
                    ["subject", "serial"].contains(&case.field) && shaken.name.is_none();
                assert!(!case.is_plain || is_nameless, "{} is taken: {shaken:?}", case.name);
            }
        }
    }
    for field in FIELDS.into_iter().chain(["outer algorithm", "signature", "cut"]) {
        assert!(refused.get(field).is_some_and(|count| *count >= 5), "{field}: {refused:?}");
    }
}
