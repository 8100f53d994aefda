//! Identity and permissions of clients: TLS, logins, and the check of each request.
//!
//! All connections share one [`ConnectionSecurity`], which has certificates, limits for clients that have not
//! logged in, and the cost of passwords. Each connection has a [`Session`], which caches its login and
//! permissions until the security settings change. It notices a change by the security epoch, a counter that
//! it loads before each request. While security is off, a request costs that load and one comparison.
//!
//! | file | contents |
//! | --- | --- |
//! | `connection_security` | state that connections share, and its figures |
//! | `session` | login and cached permissions of one connection |
//! | `required_permission` | the permission that a request requires, and the text of its refusal |
//! | `login` | verification of proofs |
//! | `unauthenticated` | limits of connections that have not logged in |
//! | `handshake` | TLS handshakes on a thread of their own |
//! | `basic` | credentials in HTTP headers |
//! | `plaintext` | clients without TLS while security is on |

mod basic;
mod connection_security;
mod handshake;
mod login;
mod plaintext;
mod required_permission;
mod session;
mod unauthenticated;

pub use basic::Credentials;
pub use connection_security::{ConnectionSecurity, SecurityFigures, SecuritySettings, TlsFiles};
pub(crate) use login::{Login, LoginAttempt};
pub(crate) use required_permission::{PermissionScope, RequiredPermission};
pub(crate) use session::{AccessState, Session};
pub(crate) use unauthenticated::UnauthenticatedConnection;
