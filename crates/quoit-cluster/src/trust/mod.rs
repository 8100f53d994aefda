//! The cluster's authority: the certificates that members accept from each other, and the
//! tokens with which nodes join.
//!
//! It is one value of the control plane's state, [`Trust`], and so known to every member, including the
//! key of the authority. Every member can issue certificates: its own, at each start and long before the
//! last one expires, and those of nodes that join with a token.
//!
//! A rotation of the authority takes three steps:
//!
//! 1. A new authority is added. Each member accepts certificates of both, and reports that it knows the
//!    new one.
//! 2. When all members know it, it becomes the issuing one. Each member makes itself a certificate of
//!    it, and reports that.
//! 3. When all members hold such a certificate, the old authority is dropped.
//!
//! Each step follows from the members' reports ([`Trust::settled`]) and is taken with the next decision on
//! trust, whichever node makes it. A member that is down delays a rotation; a removed one does not.

mod codec;
mod commands;
mod error;
mod state;
mod view;

pub(crate) use codec::{decode_trust, encode_trust};
pub(crate) use commands::TrustCommand;
pub use error::TrustError;
pub use state::{MemberTrust, TOKENS_MAX, Trust, TrustToken};
pub use view::{IssuedToken, LinkView, MemberLink, TokenView};
