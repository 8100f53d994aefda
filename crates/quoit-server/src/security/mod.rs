//! Identity and rights of clients: TLS, logins, and the check of each request.
//!
//! [`Gate`] is what all connections share: certificates, bounds of clients that have not logged in, the cost
//! of passwords. A [`Session`] belongs to one connection. It keeps what was decided until the rules change,
//! which it learns from a number that it loads before each request: where security is off, that load and one
//! comparison are all.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `gate` | what connections share, and its figures |
//! | `session` | one connection's login and decisions |
//! | `need` | the right that a request asks for, and the words of its refusal |
//! | `login` | how a proof is checked |
//! | `strangers` | bounds of connections that have not logged in |
//! | `handshake` | TLS handshakes, off the threads that serve requests |
//! | `basic` | credentials in HTTP headers |
//! | `clear` | clients in clear while security is on |

mod basic;
mod clear;
mod gate;
mod handshake;
mod login;
mod need;
mod session;
mod strangers;

pub use basic::Credentials;
pub use gate::{Gate, GateFigures, SecuritySettings, TlsFiles};
pub(crate) use login::{Claim, Login};
pub(crate) use need::{Need, On};
pub(crate) use session::{Session, Standing};
pub(crate) use strangers::StrangerConnection;
