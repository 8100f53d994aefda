//! The content of a certificate, and checks whether it can be used.

use crate::error::FileFault;
use crate::instant::Instant;
use rustls_pki_types::CertificateDer;
use std::net::IpAddr;
use x509_parser::asn1_rs::oid;
use x509_parser::extensions::GeneralName;
use x509_parser::oid_registry as known;
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};
use x509_parser::public_key::PublicKey;
use x509_parser::x509::X509Version;

/// Allowed sizes of RSA keys, in bits.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// Content of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The subject as text, as OpenSSL prints it (`C=GB, O=Example, CN=alice`).
    pub subject: String,
    /// The first common name of the subject.
    pub common_name: Option<String>,
    /// The issuer as text.
    pub issuer: String,
    /// DNS names that the certificate is for.
    pub dns_names: Vec<String>,
    /// IP addresses that the certificate is for.
    pub addresses: Vec<IpAddr>,
    /// URIs that the certificate is for.
    pub uris: Vec<String>,
    /// The serial number in hexadecimal digits, as pairs separated by colons.
    pub serial: String,
    /// Start of its validity.
    pub not_before: Instant,
    /// End of its validity.
    pub not_after: Instant,
    /// True if it is the certificate of an authority.
    pub is_authority: bool,
    version: u32,
    signature: Signature,
    key: KeyAssessment,
    /// The purposes that it is restricted to; `None` if it is not restricted.
    purposes: Option<Vec<Purpose>>,
}

/// The side of a connection that presents a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The server.
    Server,
    /// The client.
    Client,
}

impl Purpose {
    /// Returns the name of the purpose in configurations of OpenSSL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Purpose::Server => "serverAuth",
            Purpose::Client => "clientAuth",
        }
    }
}

/// Assessment of the certificate's signature algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Signature {
    Sound,
    /// A refused algorithm, by name or number.
    Refused(String),
}

/// Assessment of the public key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum KeyAssessment {
    Sound,
    /// A refused key, with the reason.
    Refused(String),
}

impl Certificate {
    /// Parses the certificate `der`.
    ///
    /// # Errors
    ///
    /// [`FileFault::Malformed`]. It names the field that cannot be decoded if the decoder reports it.
    pub fn parse(der: &CertificateDer<'_>) -> Result<Certificate, FileFault> {
        let malformed = |detail: String| FileFault::Malformed { what: "certificate", detail };
        let (rest, parsed) =
            X509Certificate::from_der(der).map_err(|fault| malformed(words(&fault)))?;
        if !rest.is_empty() {
            return Err(malformed(format!("{} bytes follow its end", rest.len())));
        }
        for (what, name) in [("subject", parsed.subject()), ("issuer", parsed.issuer())] {
            if !crate::names::is_sound(name) {
                return Err(malformed(format!("the name of its {what} is broken")));
            }
        }
        if parsed.raw_serial().is_empty() {
            return Err(malformed("its serial number is empty".to_owned()));
        }
        let mut certificate = Certificate {
            subject: parsed.subject().to_string(),
            common_name: common_name(parsed.subject()),
            issuer: parsed.issuer().to_string(),
            dns_names: Vec::new(),
            addresses: Vec::new(),
            uris: Vec::new(),
            serial: parsed.raw_serial_as_string(),
            not_before: Instant::from_unix_secs(parsed.validity().not_before.timestamp()),
            not_after: Instant::from_unix_secs(parsed.validity().not_after.timestamp()),
            is_authority: is_authority(&parsed),
            version: parsed.version().0.saturating_add(1),
            signature: signature(&parsed),
            key: key(&parsed),
            purposes: purposes(&parsed),
        };
        if let Ok(Some(names)) = parsed.subject_alternative_name() {
            for name in &names.value.general_names {
                certificate.take_name(name);
            }
        }
        Ok(certificate)
    }

    fn take_name(&mut self, name: &GeneralName<'_>) {
        match name {
            GeneralName::DNSName(name) => self.dns_names.push((*name).to_owned()),
            GeneralName::URI(uri) => self.uris.push((*uri).to_owned()),
            GeneralName::IPAddress(bytes) => {
                let address = <[u8; 4]>::try_from(*bytes)
                    .map(IpAddr::from)
                    .or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
                self.addresses.extend(address);
            }
            _ => {}
        }
    }

    /// Returns the number of whole days until it expires; negative if it has expired.
    #[must_use]
    pub fn days_left(&self, now: Instant) -> i64 {
        self.not_after.days_after(now)
    }

    /// Returns true if the certificate names its subject only in the common name. Clients that follow RFC
    /// 6125 refuse such a certificate from a server.
    #[must_use]
    pub fn has_only_a_common_name(&self) -> bool {
        self.common_name.is_some() && self.dns_names.is_empty() && self.addresses.is_empty()
    }

    /// Checks whether the certificate can be presented to others at the time `now`.
    ///
    /// # Errors
    ///
    /// The first fault that is found.
    pub fn check_presentable(&self, now: Instant) -> Result<(), FileFault> {
        let subject = || self.subject.clone();
        if self.version < 3 {
            return Err(FileFault::OldVersion { subject: subject(), version: self.version });
        }
        if let Signature::Refused(algorithm) = &self.signature {
            let algorithm = algorithm.clone();
            return Err(FileFault::WeakSignature { subject: subject(), algorithm });
        }
        self.check_key()?;
        self.check_time(now)
    }

    /// Checks whether the certificate may be presented on this side of connections.
    ///
    /// # Errors
    ///
    /// [`FileFault::WrongPurpose`] if its extended key usage names only other purposes.
    pub fn check_purpose(&self, purpose: Purpose) -> Result<(), FileFault> {
        match &self.purposes {
            Some(purposes) if !purposes.contains(&purpose) => {
                let subject = self.subject.clone();
                Err(FileFault::WrongPurpose { subject, wanted: purpose.name() })
            }
            _ => Ok(()),
        }
    }

    /// Checks whether the certificate can serve as that of a trusted authority at the time `now`. Its own
    /// signature is not checked, and its version may be old, because the operator trusts it by naming it.
    ///
    /// # Errors
    ///
    /// The first fault that is found.
    pub fn check_trustworthy(&self, now: Instant) -> Result<(), FileFault> {
        if self.version >= 3 && !self.is_authority {
            return Err(FileFault::NotAnAuthority { subject: self.subject.clone() });
        }
        self.check_key()?;
        self.check_time(now)
    }

    fn check_key(&self) -> Result<(), FileFault> {
        match &self.key {
            KeyAssessment::Sound => Ok(()),
            KeyAssessment::Refused(key) => {
                Err(FileFault::WeakKey { subject: self.subject.clone(), key: key.clone() })
            }
        }
    }

    fn check_time(&self, now: Instant) -> Result<(), FileFault> {
        let subject = self.subject.clone();
        if now > self.not_after {
            return Err(FileFault::Expired { subject, not_after: self.not_after, now });
        }
        if now < self.not_before {
            return Err(FileFault::NotYetValid { subject, not_before: self.not_before, now });
        }
        Ok(())
    }
}

fn words(fault: &impl std::fmt::Display) -> String {
    fault.to_string()
}

fn common_name(name: &X509Name<'_>) -> Option<String> {
    let first = name.iter_common_name().next()?;
    first.as_str().ok().map(str::to_owned)
}

fn is_authority(certificate: &X509Certificate<'_>) -> bool {
    certificate.basic_constraints().ok().flatten().is_some_and(|extension| extension.value.ca)
}

fn purposes(certificate: &X509Certificate<'_>) -> Option<Vec<Purpose>> {
    let usage = certificate.extended_key_usage().ok().flatten()?.value;
    let named = [(usage.server_auth, Purpose::Server), (usage.client_auth, Purpose::Client)];
    let named = named.iter().filter(|(is_named, _)| *is_named).map(|(_, purpose)| *purpose);
    Some(named.collect())
}

fn signature(certificate: &X509Certificate<'_>) -> Signature {
    let algorithm = &certificate.signature_algorithm.algorithm;
    let sound = [
        known::OID_PKCS1_SHA256WITHRSA,
        known::OID_PKCS1_SHA384WITHRSA,
        known::OID_PKCS1_SHA512WITHRSA,
        known::OID_PKCS1_RSASSAPSS,
        known::OID_SIG_ECDSA_WITH_SHA256,
        known::OID_SIG_ECDSA_WITH_SHA384,
        known::OID_SIG_ED25519,
    ];
    if sound.contains(algorithm) {
        return Signature::Sound;
    }
    let name = [
        (known::OID_PKCS1_SHA1WITHRSA, "SHA-1 and RSA"),
        (known::OID_PKCS1_MD5WITHRSAENC, "MD5 and RSA"),
        (oid!(1.2.840.10045.4.1), "SHA-1 and ECDSA"),
        (known::OID_SIG_ECDSA_WITH_SHA512, "SHA-512 and ECDSA"),
    ];
    let named = name.iter().find(|(number, _)| number == algorithm);
    Signature::Refused(named.map_or_else(|| algorithm.to_id_string(), |(_, name)| (*name).into()))
}

fn key(certificate: &X509Certificate<'_>) -> KeyAssessment {
    let info = certificate.public_key();
    match info.parsed() {
        Ok(PublicKey::RSA(rsa)) if RSA_BITS.contains(&rsa.key_size()) => KeyAssessment::Sound,
        Ok(PublicKey::RSA(rsa)) => {
            KeyAssessment::Refused(format!("RSA with {} bits", rsa.key_size()))
        }
        Ok(PublicKey::EC(_)) => {
            let curve = info.algorithm.parameters.as_ref().and_then(|named| named.as_oid().ok());
            match curve {
                Some(curve) if [known::OID_EC_P256, known::OID_NIST_EC_P384].contains(&curve) => {
                    KeyAssessment::Sound
                }
                Some(curve) => KeyAssessment::Refused(format!("the elliptic curve {curve}")),
                None => KeyAssessment::Refused("an elliptic curve without a name".to_owned()),
            }
        }
        _ if info.algorithm.algorithm == known::OID_SIG_ED25519 => KeyAssessment::Sound,
        _ => KeyAssessment::Refused(format!("the algorithm {}", info.algorithm.algorithm)),
    }
}

/// Version 3 is encoded as 2.
const _: () = assert!(X509Version::V3.0 == 2);
