//! Cipher suites by their names in OpenSSL, which Riak uses, and in the standards.

use crate::error::TlsError;
use rustls::SupportedCipherSuite;
use rustls::crypto::ring::cipher_suite as suite;

/// A suite with its name in OpenSSL and its name in the standards.
type NamedSuite = (&'static str, &'static str, SupportedCipherSuite);

/// All supported suites, the best first.
const SUITES: [NamedSuite; 9] = [
    ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384", suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", suite::TLS13_AES_128_GCM_SHA256),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_CHACHA20_POLY1305_SHA256",
        suite::TLS13_CHACHA20_POLY1305_SHA256,
    ),
    (
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// The suites of a list, and the names in the list that are not supported.
#[derive(Debug, Clone, PartialEq)]
pub struct CipherList {
    suites: Vec<SupportedCipherSuite>,
    /// Names in the list that are not supported: old suites, suites without forward secrecy, or misspelt
    /// names.
    pub unknown: Vec<String>,
}

impl Default for CipherList {
    /// All supported suites.
    fn default() -> CipherList {
        CipherList { suites: SUITES.map(|(.., suite)| suite).to_vec(), unknown: Vec::new() }
    }
}

impl CipherList {
    /// Parses a list in the form of Riak's setting `ciphers`: names separated by colons, commas or spaces,
    /// in the spelling of OpenSSL or of the standards. If the list names only suites of TLS 1.2, as all
    /// lists from Riak do, the suites of TLS 1.3 are added, as in OpenSSL. Names after `!` or `-` are
    /// ignored, because only named suites are included anyway.
    ///
    /// # Errors
    ///
    /// [`TlsError::NoCipher`] if no name of the list is supported.
    pub fn parse(list: &str) -> Result<CipherList, TlsError> {
        let mut suites = Vec::new();
        let mut unknown = Vec::new();
        let names = list.split([':', ',', ' ']).filter(|name| !name.is_empty());
        for name in names.filter(|name| !name.starts_with(['!', '-'])) {
            let known = SUITES.iter().find(|(openssl, standard, _)| {
                openssl.eq_ignore_ascii_case(name) || standard.eq_ignore_ascii_case(name)
            });
            match known {
                Some((.., suite)) if suites.contains(suite) => {}
                Some((.., suite)) => suites.push(*suite),
                None => unknown.push(name.to_owned()),
            }
        }
        if suites.is_empty() {
            return Err(TlsError::NoCipher { list: list.to_owned() });
        }
        if suites.iter().all(|suite| suite.tls13().is_none()) {
            let newest = SUITES.iter().map(|(.., suite)| *suite);
            suites.splice(0..0, newest.filter(|suite| suite.tls13().is_some()));
        }
        Ok(CipherList { suites, unknown })
    }

    /// Returns OpenSSL's names of the suites, in their order.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let name = |suite: &SupportedCipherSuite| {
            SUITES.iter().find(|(.., known)| known == suite).map(|(name, ..)| *name)
        };
        self.suites.iter().filter_map(name).collect()
    }

    pub(crate) fn suites(&self) -> Vec<SupportedCipherSuite> {
        self.suites.clone()
    }
}

/// Returns OpenSSL's names of all supported suites, the best first.
#[must_use]
pub fn supported_names() -> Vec<&'static str> {
    SUITES.iter().map(|(name, ..)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_openssl_are_mapped_and_others_are_told() {
        let list =
            CipherList::parse("ECDHE-RSA-AES128-GCM-SHA256:AES256-SHA,!MD5 nonsense").unwrap();
        let names = list.names();
        assert_eq!(names.last(), Some(&"ECDHE-RSA-AES128-GCM-SHA256"));
        assert_eq!(names.len(), 4, "those of TLS 1.3 stay: {names:?}");
        assert_eq!(list.unknown, ["AES256-SHA", "nonsense"]);
    }

    #[test]
    fn a_list_that_names_suites_of_1_3_has_those_alone() {
        let list = CipherList::parse("tls_aes_128_gcm_sha256").unwrap();
        assert_eq!(list.names(), ["TLS_AES_128_GCM_SHA256"]);
        let both = CipherList::parse(
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256:TLS_AES_128_GCM_SHA256",
        );
        assert_eq!(
            both.unwrap().names(),
            ["ECDHE-RSA-AES256-GCM-SHA384", "TLS_AES_128_GCM_SHA256"]
        );
    }

    #[test]
    fn a_list_without_a_known_name_is_refused_with_those_that_exist() {
        for list in ["", "AES256-SHA", ":::", "!ECDHE-RSA-AES128-GCM-SHA256"] {
            let words = CipherList::parse(list).unwrap_err().to_string();
            assert!(words.contains(&format!("'{list}'")), "{words}");
            assert!(words.contains("ECDHE-RSA-AES128-GCM-SHA256"), "{words}");
        }
    }
}
