//! Damaged certificates, keys and lists: the result is an error or another value, never a panic.

use super::fixture::{Authority, NOW, params};
use crate::{
    Certificate, Identity, Purpose, load_certificates, load_private_key, load_revocation_lists,
};
use std::fs;

/// Replaces each byte of a certificate, a key and a list in DER by other values, and cuts the
/// certificate at each length.
#[test]
fn each_damaged_byte_of_each_field_is_an_error_or_another_value() {
    let authority = Authority::new("authority");
    let (file, key) = authority.issue("host", &params("host", &["host", "127.0.0.1"]));
    let der = load_certificates(&file).unwrap()[0].der.to_vec();
    let key_der = load_private_key(&key).unwrap().secret_der().to_vec();
    let list_der = load_revocation_lists(&authority.revoke(1)).unwrap()[0].der.to_vec();
    let mut refused_count = 0;
    for at in 0..der.len() {
        for value in [0x00, 0x7f, 0x80, 0xff, der[at] ^ 1] {
            let mut damaged = der.clone();
            damaged[at] = value;
            let parsed = Certificate::parse(&damaged.into());
            let usable = parsed.and_then(|parsed| parsed.check_presentable(NOW));
            refused_count += usize::from(usable.is_err());
        }
        assert!(Certificate::parse(&der[..at].to_vec().into()).is_err(), "cut at {at}");
    }
    assert!(refused_count > der.len(), "{refused_count} of {}", der.len() * 5);
    let mut longer = der.clone();
    longer.push(0);
    let words = Certificate::parse(&longer.into()).unwrap_err().to_string();
    assert!(words.contains("1 bytes follow its end"), "{words}");
    for (bytes, is_key) in [(key_der, true), (list_der, false)] {
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            let damaged = authority.write("damaged", damaged);
            if is_key {
                let outcome = Identity::load(&file, &damaged, &[], Purpose::Server, NOW);
                assert!(outcome.is_err(), "a key damaged at {at} is another key, or none");
            } else {
                let _ = load_revocation_lists(&damaged);
            }
        }
    }
}

#[test]
fn broken_pem_is_named_by_its_line() {
    let authority = Authority::new("authority");
    let (file, _) = authority.issue("host", &params("host", &["host"]));
    let text = fs::read_to_string(&file).unwrap();
    let no_end = text.replace("-----END CERTIFICATE-----", "");
    let no_base64 = text.replacen("MII", "M!I", 1);
    for (broken, part) in [(no_end, "END"), (no_base64, "base64")] {
        let broken = authority.write("broken.pem", format!("# a remark\n{broken}"));
        let words = load_certificates(&broken).unwrap_err().to_string();
        assert!(words.contains("broken.pem:2: broken PEM"), "{words}");
        assert!(words.to_lowercase().contains(&part.to_lowercase()), "{words}");
    }
}
