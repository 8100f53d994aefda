//! Certificates for nodes without one, which they get with a token or with the shared secret.

use crate::error::ChangeError;
use crate::join::JoinError;
use crate::members::MemberStatus;
use crate::membership_error::MembershipError;
use crate::plane::ControlPlane;
use crate::transport::{
    CallError, IncomingRequest, Internode, InternodeTlsMode, JoinProof, PeerProof,
};
use crate::trust::{TrustCommand, TrustError};
use bytes::Bytes;
use prost::Message as _;
use quoit_tls::Instant;
use quoit_tls::nodes::{GrantedCertificate, NodeRequest, NodeSubject};
use quoit_wire::internode::code;
use quoit_wire::internode::control::{EnrolRequest, Enrolled, METHOD_ENROL};
use std::time::Duration;

/// Maximum time for the cluster to issue a certificate.
const ENROL_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a node's name in a certificate, in characters.
const NAME_BYTES_MAX: usize = 64;

impl ControlPlane {
    /// Issues a certificate to a node that has proved that it knows a token or the shared secret.
    pub(crate) async fn enrol(&self, request: &IncomingRequest) -> Result<Enrolled, ChangeError> {
        let asked = EnrolRequest::decode(request.header.clone());
        let asked = asked.map_err(|fault| TrustError::Malformed(fault.to_string()))?;
        // The node has not proved its identity. A certificate with the identity of a member
        // would make it that member.
        let known = self.state().members().get(request.from).cloned();
        if let Some(member) = known.filter(|member| member.status != MemberStatus::Joining) {
            let name = member.name.to_string();
            return Err(MembershipError::AlreadyMember { name }.into());
        }
        match request.proven {
            PeerProof::Token(id) => {
                self.run_trust(&TrustCommand::UseToken { id, node: request.from }).await?;
            }
            PeerProof::Secret => {}
            PeerProof::Nothing | PeerProof::Node(_) => {
                return Err(
                    TrustError::Malformed("no proof that needs a certificate".into()).into()
                );
            }
        }
        let state = self.state();
        if state.members().is_removed(request.from) {
            return Err(TrustError::Removed { node: request.from.to_string() }.into());
        }
        let issuing = state.trust().issuing().ok_or(TrustError::NoAuthority)?;
        let name: String = asked.name.chars().take(NAME_BYTES_MAX).collect();
        let node = request.from.to_string();
        let certificate = issuing
            .sign(&asked.request, NodeSubject { node: &node, name: &name }, Instant::now())
            .map_err(|fault| TrustError::Malformed(fault.to_string()))?;
        tracing::info!(%node, name, proven = ?request.proven, "a node gets its first certificate");
        let authorities = state.trust().authorities.iter();
        Ok(Enrolled {
            certificate: Bytes::copy_from_slice(&certificate),
            issuer: Bytes::copy_from_slice(issuing.certificate()),
            authorities: authorities
                .map(|authority| Bytes::copy_from_slice(authority.certificate()))
                .collect(),
        })
    }

    /// Asks the node at `address` for a certificate, with `proof`, and shows the certificate from now on.
    pub(crate) async fn ask_certificate(
        &self,
        internode: &Internode,
        address: &str,
        proof: &JoinProof,
    ) -> Result<(), JoinError> {
        let security = internode.security();
        if security.mode() == InternodeTlsMode::Plain {
            return Err(JoinError::PlainMode);
        }
        let state = self.state();
        let (node, name) = (state.node_id().to_string(), state.node_name().to_owned());
        let subject = NodeSubject { node: &node, name: &name };
        let request = NodeRequest::make(subject).map_err(TrustError::from)?;
        let asked = EnrolRequest { request: Bytes::copy_from_slice(request.der()), name };
        let payload = b"".as_slice();
        let answer = internode
            .call_address_by(Some(proof), address, METHOD_ENROL, &asked, payload, ENROL_TIMEOUT)
            .await
            .map_err(|fault| refusal(address, proof, &fault))?;
        let malformed =
            |reason: String| JoinError::Malformed { address: address.to_owned(), reason };
        let enrolled =
            Enrolled::decode(answer.1.header).map_err(|fault| malformed(fault.to_string()))?;
        let der = |bytes: &Bytes| bytes.to_vec().into();
        let granted =
            GrantedCertificate { leaf: der(&enrolled.certificate), issuer: der(&enrolled.issuer) };
        let pem = request.pem(&granted, &enrolled.authorities);
        let identity = request.granted(granted).map_err(|fault| malformed(fault.to_string()))?;
        let authorities = enrolled.authorities.iter().map(der).collect();
        let keep = || {
            let kept = security.keep(&pem);
            kept.map_err(|fault| JoinError::KeyFile { reason: fault.to_string() })
        };
        security.set_first_keys(identity, authorities, keep)
    }
}

fn refusal(address: &str, proof: &JoinProof, fault: &CallError) -> JoinError {
    let address = address.to_owned();
    match fault {
        // The other side has refused the proof with a TLS alert, which gives no further reason.
        CallError::Refused { code: code::PROOF, text: reason } => {
            let what = match proof {
                JoinProof::Token(_) => {
                    "the token: it has expired, was revoked, or is of another cluster; make one \
                     there with `quoit admin cluster token`"
                }
                JoinProof::Secret(_) => {
                    "the distributed_cookie: set the same on both nodes, or use a token"
                }
            };
            JoinError::ProofRefused { address, what: what.to_owned(), reason: reason.to_string() }
        }
        CallError::Refused { text, .. } => JoinError::Refused { address, reason: text.to_string() },
        fault => JoinError::Unreachable { address, reason: fault.to_string() },
    }
}
