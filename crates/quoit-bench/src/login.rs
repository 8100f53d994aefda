//! Logins of drivers at the servers under test: by the environment alone, so that no password stands in a
//! configuration or in a list of processes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quoit_client::{Login, TlsSettings};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The login that the environment tells (`QUOIT_USER` and the variables beside it), read once.
///
/// # Errors
///
/// A file that can't be read, in words.
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
    /// The security that the environment tells; `None`: requests go in clear.
    ///
    /// # Errors
    ///
    /// As [`login`].
    pub(crate) fn from_environment() -> Result<Option<Arc<Self>>, String> {
        Ok(login()?.map(|login| Arc::new(Self::new(login.clone()))))
    }

    /// TLS whether the environment names a user or not, by these files in place of those of the environment.
    ///
    /// # Errors
    ///
    /// No file of authorities, or a file that can't be read, in words.
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
        let login = Login::new(user, password, &tls).map_err(|fault| fault.to_string())?;
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

    /// Puts the header into the head of a request, which ends with an empty line.
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
