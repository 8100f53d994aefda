//! Logins of drivers at the servers under test. They come from the environment only, so that no password
//! appears in a configuration or in a list of processes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quoit_client::{Credentials, Login, TlsSettings};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The login in the environment (`QUOIT_USER` and the related variables), read once for each process.
///
/// # Errors
///
/// A message for people, when a file can't be read.
pub(crate) fn login() -> Result<Option<&'static Login>, String> {
    static LOGIN: OnceLock<Result<Option<Login>, String>> = OnceLock::new();
    let login = LOGIN.get_or_init(|| Login::from_environment().map_err(|fault| fault.to_string()));
    login.as_ref().map(Option::as_ref).map_err(Clone::clone)
}

/// TLS and the login of connections over HTTP.
pub(crate) struct HttpSecurity {
    login: Login,
    /// The line of the header `Authorization`; empty without a user.
    header: Vec<u8>,
}

impl HttpSecurity {
    /// The security settings in the environment. `None` means that requests go in clear text.
    ///
    /// # Errors
    ///
    /// As [`login`].
    pub(crate) fn from_environment() -> Result<Option<Arc<Self>>, String> {
        Ok(login()?.map(|login| Arc::new(Self::new(login.clone()))))
    }

    /// TLS with the files in `files`, even if the environment names no user. A file that `files` leaves out
    /// is taken from the environment.
    ///
    /// # Errors
    ///
    /// A message for people, when no file of authorities is named or a file can't be read.
    pub(crate) fn with_files(files: TlsSettings) -> Result<Arc<Self>, String> {
        let told = Login::settings_from_environment();
        let mut tls = files;
        if tls.authorities.as_os_str().is_empty() {
            tls.authorities = told.authorities;
        }
        tls.identity = tls.identity.or(told.identity);
        if tls.authorities.as_os_str().is_empty() {
            let what =
                "the authorities that servers are held against: name their file in QUOIT_CACERT";
            return Err(format!("TLS needs {what}"));
        }
        let (user, password) = login()?.map_or(("", ""), |login| (login.user(), login.password()));
        let login = Login::new(Credentials { user, password }, &tls);
        let login = login.map_err(|fault| fault.to_string())?;
        Ok(Arc::new(Self::new(login)))
    }

    fn new(login: Login) -> Self {
        let header = if login.user().is_empty() {
            Vec::new()
        } else {
            let pair = STANDARD.encode(format!("{}:{}", login.user(), login.password()));
            format!("Authorization: Basic {pair}\r\n").into_bytes()
        };
        Self { login, header }
    }

    pub(crate) const fn login(&self) -> &Login {
        &self.login
    }

    /// Adds the `Authorization` header to the head of a request, before the empty line that ends the head.
    pub(crate) fn add_header(&self, head: &[u8], out: &mut Vec<u8>) {
        out.clear();
        let lines = head.strip_suffix(b"\r\n").unwrap_or(head);
        out.extend_from_slice(lines);
        out.extend_from_slice(&self.header);
        out.extend_from_slice(b"\r\n");
    }
}

impl fmt::Debug for HttpSecurity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HttpSecurity({:?})", self.login)
    }
}
