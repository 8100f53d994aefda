//! Files of certificates, private keys and revocation lists. Peers also send certificates.

use quoit_tls::{Instant, certificates_in, private_key_in, revocation_lists_in};
use std::path::Path;

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "tls-files", run, seeds };

/// Checks that a certificate that can be presented is the same when it is decoded from its DER bytes.
fn run(input: &[u8]) {
    let file = Path::new("input");
    let now = Instant::from_unix_secs(1_800_000_000);
    let _ = (private_key_in(file, input), revocation_lists_in(file, input));
    let Ok(loaded) = certificates_in(file, input) else { return };
    for one in loaded {
        if one.certificate.check_presentable(now).is_ok() {
            let again = certificates_in(file, &one.der).expect("it was read from a text");
            assert_eq!(again[0].certificate, one.certificate);
        }
        let _ = one.certificate.check_trustworthy(now);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let kept: [&[u8]; 6] = [
        include_bytes!("../../../crates/quoit-tls/src/tests/data/ec.pem"),
        include_bytes!("../../../crates/quoit-tls/src/tests/data/rsa.der"),
        include_bytes!("../../../crates/quoit-tls/src/tests/data/v1.pem"),
        include_bytes!("../../../crates/quoit-tls/src/tests/data/ec-sec1.pem"),
        include_bytes!("../../../crates/quoit-tls/src/tests/data/ec-encrypted.pem"),
        include_bytes!("../../../crates/quoit-tls/src/tests/data/rsa-pkcs8.der"),
    ];
    kept.map(<[u8]>::to_vec).to_vec()
}
