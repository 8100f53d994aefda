//! The certificate of a peer, and texts for failed handshakes.

use crate::certificate::Certificate;
use rustls::{AlertDescription, CertificateError, Error};
use rustls_pki_types::CertificateDer;

/// Returns the certificate that a peer has presented and proved to own, if it has presented one. `shown` are
/// the `peer_certificates()` of a connection.
#[must_use]
pub fn peer_certificate(shown: Option<&[CertificateDer<'_>]>) -> Option<Certificate> {
    Certificate::parse(shown?.first()?).ok()
}

/// Returns true if a handshake has failed because of the peer's certificate.
#[must_use]
pub fn is_refused_certificate(fault: &std::io::Error) -> bool {
    let inner = fault.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    matches!(inner, Some(Error::InvalidCertificate(_)))
}

/// Returns true if the other side has ended a connection by an alert. In TLS 1.3 a client learns only with
/// its first read after the handshake that its certificate was refused.
#[must_use]
pub fn is_alert(fault: &std::io::Error) -> bool {
    let inner = fault.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    matches!(inner, Some(Error::AlertReceived(_)))
}

/// Returns the reason of a failed handshake and the remedy, for the log of this side.
#[must_use]
pub fn failure_words(fault: &std::io::Error) -> String {
    let inner = fault.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(fault)) => certificate_words(fault),
        Some(Error::AlertReceived(AlertDescription::CertificateRevoked)) => {
            "the other side refuses the certificate that was shown to it as revoked \
             (CertificateRevoked): a node that was removed from its cluster becomes a member again with an \
             empty data directory and a token (quoit admin cluster token there, quoit admin cluster join \
             --token-file here); a client needs a new certificate"
                .into()
        }
        Some(Error::AlertReceived(alert)) => {
            format!("the other side has refused the handshake ({alert:?}): its log says why")
        }
        Some(Error::NoCertificatesPresented) => {
            "the other side has shown no certificate, and one is required".into()
        }
        Some(Error::PeerIncompatible(fault)) => {
            format!("the other side speaks no version or cipher that this one does ({fault:?})")
        }
        Some(Error::InvalidMessage(_)) => "the other side does not speak TLS".into(),
        Some(fault) => fault.to_string(),
        None => fault.to_string(),
    }
}

fn certificate_words(fault: &CertificateError) -> String {
    match fault {
        CertificateError::UnknownIssuer => {
            "the certificate of the other side was issued by an authority that is not trusted here"
                .into()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!(
                "the certificate of the other side has expired: renew it, or set the clock that is wrong \
                 ({fault})"
            )
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!(
                "the certificate of the other side is not valid yet: look at both clocks ({fault})"
            )
        }
        CertificateError::BadSignature => {
            "the certificate of the other side names an authority that is trusted here, and has not its \
             signature: it comes from another authority of the same name, or is forged"
                .into()
        }
        CertificateError::Revoked => "the certificate of the other side is revoked".into(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!(
                "the certificate of the other side is not for the name that was asked for, among its subject \
             alternative names: the common name does not count ({fault})"
            )
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            format!(
                "the certificate of the other side is not for its side of connections: have it issued with \
                 the right extendedKeyUsage, or without one ({fault})"
            )
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. } => {
            "the certificate of the other side is signed with an algorithm that is refused: have it issued \
             with SHA-256 or better"
                .into()
        }
        CertificateError::BadEncoding => {
            "the certificate of the other side can't be decoded: have it issued anew".into()
        }
        CertificateError::Other(other) => other_words(&other.to_string()),
        _ => format!("the certificate of the other side is refused: {fault}"),
    }
}

/// Translates errors that the TLS library passes on from the certificate library. They are
/// recognized by their names.
fn other_words(fault: &str) -> String {
    let (reason, remedy) = if fault.contains("UnsupportedCertVersion") {
        ("is X.509 version 1", "have it issued as version 3 (openssl x509 -req needs -extfile)")
    } else if fault.contains("CaUsedAsEndEntity") {
        (
            "is that of an authority itself",
            "have one issued by it, with basicConstraints = CA:FALSE",
        )
    } else {
        return format!("the certificate of the other side is refused: {fault}");
    };
    format!("the certificate of the other side {reason}: {remedy}")
}
