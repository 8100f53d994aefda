//! Encoding of trust as a message.

use super::state::{MemberTrust, Trust, TrustToken};
use crate::id_bytes::{id_bytes, node_id};
use bytes::Bytes;
use quoit_tls::Instant;
use quoit_tls::nodes::{Authority, Fingerprint};
use quoit_tls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quoit_wire::internode::control::{AuthorityMessage, HolderMessage, TokenMessage, TrustMessage};
use std::sync::Arc;

pub(crate) fn encode_trust(trust: &Trust) -> TrustMessage {
    let authority = |authority: &Arc<Authority>| AuthorityMessage {
        certificate: Bytes::copy_from_slice(authority.certificate()),
        key: Bytes::copy_from_slice(authority.secret_key()),
    };
    let token = |(id, token): (&Fingerprint, &TrustToken)| TokenMessage {
        id: bytes(*id),
        expires_unix_secs: token.expires.unix_secs(),
        uses_left: token.uses_left,
        nodes: token.nodes.iter().map(|node| id_bytes(*node)).collect(),
    };
    let holder = |(node, holder): (&crate::NodeId, &MemberTrust)| HolderMessage {
        node: id_bytes(*node),
        knows: bytes(holder.knows),
        holds: bytes(holder.holds),
        not_after_unix_secs: holder.not_after.unix_secs(),
    };
    TrustMessage {
        authorities: trust.authorities.iter().map(authority).collect(),
        issuing: trust.issuing.map(bytes).unwrap_or_default(),
        tokens: trust.tokens.iter().map(token).collect(),
        holders: trust.holders.iter().map(holder).collect(),
    }
}

pub(crate) fn decode_trust(message: &TrustMessage) -> Result<Trust, String> {
    let authority = |authority: &AuthorityMessage| {
        let certificate = CertificateDer::from(authority.certificate.to_vec());
        let key = PrivatePkcs8KeyDer::from(&*authority.key);
        Arc::new(Authority::from_parts(certificate, &key))
    };
    let token = |token: &TokenMessage| {
        let nodes = token.nodes.iter().map(|node| node_id(node)).collect::<Result<_, _>>()?;
        let expires = Instant::from_unix_secs(token.expires_unix_secs);
        let uses_left = token.uses_left;
        Ok((fingerprint(&token.id)?, TrustToken { expires, uses_left, nodes }))
    };
    let holder = |holder: &HolderMessage| {
        let not_after = Instant::from_unix_secs(holder.not_after_unix_secs);
        let (knows, holds) = (fingerprint(&holder.knows)?, fingerprint(&holder.holds)?);
        Ok((node_id(&holder.node)?, MemberTrust { knows, holds, not_after }))
    };
    let issuing = Some(&message.issuing).filter(|issuing| !issuing.is_empty());
    Ok(Trust {
        authorities: message.authorities.iter().map(authority).collect(),
        issuing: issuing.map(|issuing| fingerprint(issuing)).transpose()?,
        tokens: message.tokens.iter().map(token).collect::<Result<_, String>>()?,
        holders: message.holders.iter().map(holder).collect::<Result<_, String>>()?,
    })
}

fn bytes(fingerprint: Fingerprint) -> Bytes {
    Bytes::copy_from_slice(&fingerprint.0)
}

fn fingerprint(bytes: &[u8]) -> Result<Fingerprint, String> {
    Fingerprint::from_bytes(bytes).ok_or_else(|| format!("{} bytes are not a digest", bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeId;
    use std::collections::BTreeSet;

    #[test]
    fn trust_comes_back_as_it_was_and_its_print_has_no_key() {
        let now = Instant::from_unix_secs(1_800_000_000);
        let authority = Arc::new(Authority::make("c", now).unwrap());
        let digest = authority.fingerprint();
        let nodes = BTreeSet::from([NodeId([7; 16])]);
        let token = TrustToken { expires: now, uses_left: 3, nodes };
        let trust = Trust {
            issuing: Some(digest),
            tokens: [(Fingerprint([1; 32]), token)].into(),
            holders: [(
                NodeId([2; 16]),
                MemberTrust { knows: digest, holds: digest, not_after: now },
            )]
            .into(),
            authorities: vec![authority],
        };
        let message = encode_trust(&trust);
        assert_eq!(decode_trust(&message).unwrap(), trust);
        assert_eq!(decode_trust(&TrustMessage::default()).unwrap(), Trust::default());
        let key = format!("{:?}", Bytes::copy_from_slice(trust.authorities[0].secret_key()));
        for printed in [format!("{message:?}"), format!("{trust:?}")] {
            assert!(!printed.contains(&key[3..40]), "{printed}");
        }
    }
}
