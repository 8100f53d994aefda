//! Join tokens, as operators paste them.

use quoit_tls::nodes::{Fingerprint, JoinToken};

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "join-tokens", run, seeds };

/// Checks that an accepted token has the text that it was parsed from.
fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(token) = text.parse::<JoinToken>() {
        assert_eq!(token.secret_text(), text.trim());
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let token = JoinToken::make(Fingerprint([7; 32])).expect("the system has random bytes");
    vec![token.secret_text().into_bytes(), b"quoit-join-1-".to_vec(), b"quoit-join-2-AAAA".to_vec()]
}
