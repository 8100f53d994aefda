//! Certificate that a peer has shown, and reasons for failed handshakes, in words.

use crate::certificate::Certificate;
use rustls::{AlertDescription, CertificateError, Error};
use rustls_pki_types::CertificateDer;

/// The certificate that a peer has shown and proved, if it has shown one: the first of
/// `peer_certificates()` of a connection.
#[must_use]
pub fn peer_certificate(shown: Option<&[CertificateDer<'_>]>) -> Option<Certificate> {
    Certificate::parse(shown?.first()?).ok()
}

/// Why a handshake has failed, and what to do, for the log of this side.
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
            format!("the certificate of the other side has expired: renew it ({fault})")
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
        _ => format!("the certificate of the other side is refused: {fault}"),
    }
}
