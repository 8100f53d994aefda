//! The cluster's authority: which certificates members take from each other, and which tokens let a node
//! join.
//!
//! All of it is one value of the control plane's state, [`Trust`]: agreed on like everything there, and
//! so known to every member, the key of the authority included. Every member can issue certificates: its
//! own, from its state, at each start and long before the last one ends; and those of nodes that join by
//! a token.
//!
//! ```text
//! rotation   1. a new authority is added; each member takes certificates of both, and says that it knows it
//!            2. all know it: it issues from now on; each member makes itself a certificate of it and says so
//!            3. all hold one: the old authority is dropped
//! ```
//!
//! Steps follow from what members have told ([`Trust::settled`]), whoever decides next. A member that is away
//! holds a rotation up; a removed one does not.

mod codec;
mod commands;
mod error;
mod state;
mod view;

pub(crate) use codec::{decode_trust, encode_trust};
pub(crate) use commands::TrustCommand;
pub use error::TrustError;
pub use state::{Holder, TOKENS_MAX, Trust, TrustToken};
pub use view::{IssuedToken, LinkView, MemberLink, TokenView};
