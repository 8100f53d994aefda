//! Addresses of a node: URLs, administration sockets, and the addresses that are tried by default.

use crate::local::SOCKET_FILE;
use crate::login::LoginArgs;
use clap::Args;
use std::path::{Path, PathBuf};

/// Address that is tried last if no address is given.
const URL_DEFAULT: &str = "http://127.0.0.1:8098";
/// Data directories whose sockets are tried if no address is given: those of `quoit serve` and of the
/// packages.
const DATA_DIRS_DEFAULT: [&str; 2] = ["data", "/var/lib/quoit"];
/// Prefix of the URL of a socket.
const SOCKET_SCHEME: &str = "unix:";

/// Selection of the node to ask.
#[derive(Args, Clone, Debug, Default)]
pub struct TargetArgs {
    /// HTTP address of the node, or unix:DIR for the socket in its data directory. Of several addresses,
    /// separated by commas, the first that can be reached is asked.
    ///
    /// Default: the socket in ./data or /var/lib/quoit if there is one, else http://127.0.0.1:8098.
    #[arg(long, global = true, env = "QUOIT_URL", value_name = "URL", value_delimiter = ',')]
    pub url: Vec<String>,
    /// The login over HTTPS.
    #[command(flatten)]
    pub login: LoginArgs,
}

/// An address of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A URL without a trailing slash.
    Http(String),
    /// Path of an administration socket.
    Local(PathBuf),
}

impl Target {
    /// Parses an address. A URL without a scheme is HTTP; `unix:` is followed by a socket or a data
    /// directory.
    #[must_use]
    pub fn of(url: &str) -> Self {
        let url = url.trim();
        if let Some(path) = url.strip_prefix(SOCKET_SCHEME) {
            let path = path.strip_prefix("//").unwrap_or(path);
            let path = Path::new(path);
            let is_socket = path.extension().is_some_and(|extension| extension == "sock");
            return Self::Local(if is_socket { path.to_owned() } else { path.join(SOCKET_FILE) });
        }
        let url = url.trim_end_matches('/');
        Self::Http(if url.contains("://") { url.to_owned() } else { format!("http://{url}") })
    }

    /// True if the URL's scheme is HTTPS.
    pub(crate) fn is_https(&self) -> bool {
        matches!(self, Self::Http(url) if url.starts_with("https://"))
    }

    /// True if the address is on this machine: a socket, `localhost` or a loopback address.
    pub(crate) fn is_this_machine(&self) -> bool {
        let Self::Http(url) = self else { return true };
        let host = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        let host = host.split('/').next().unwrap_or_default();
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        // An IPv6 address is written in brackets, and its colons do not begin a port.
        let bare = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next(),
            None => host.split(':').next(),
        };
        let bare = bare.unwrap_or_default();
        bare == "localhost"
            || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// URL that paths are appended to.
    pub(crate) fn base(&self) -> &str {
        match self {
            Self::Http(url) => url,
            Self::Local(_) => "http://localhost",
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Http(url) => out.write_str(url),
            Self::Local(path) => write!(out, "{SOCKET_SCHEME}{}", path.display()),
        }
    }
}

impl TargetArgs {
    /// The addresses to try, at least one.
    #[must_use]
    pub fn targets(&self) -> Vec<Target> {
        let named = self.url.iter().map(|url| url.trim()).filter(|url| !url.is_empty());
        let mut targets: Vec<Target> = named.map(Target::of).collect();
        if targets.is_empty() {
            let sockets = DATA_DIRS_DEFAULT.map(|directory| Path::new(directory).join(SOCKET_FILE));
            targets.extend(sockets.into_iter().filter(|path| path.exists()).map(Target::Local));
            targets.push(Target::Http(URL_DEFAULT.to_owned()));
        }
        targets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_needs_no_scheme() {
        let of = |url: &str| Target::of(url).to_string();
        assert_eq!(of("127.0.0.1:24098"), "http://127.0.0.1:24098");
        assert_eq!(of("http://db1:8098/"), "http://db1:8098");
        assert_eq!(of("https://proxy/quoit/"), "https://proxy/quoit");
    }

    #[test]
    fn loopback_addresses_are_this_machine_with_and_without_a_port() {
        let is_this_machine = |url: &str| Target::of(url).is_this_machine();
        for host in ["localhost", "127.0.0.1", "127.9.9.9", "[::1]"] {
            for url in [host.to_owned(), format!("https://{host}:8098/"), format!("{host}/path")] {
                assert!(is_this_machine(&url), "{url}");
            }
        }
        assert!(is_this_machine("unix:data"));
        assert!(is_this_machine("https://alice:secret@localhost:8098"));
        let elsewhere = ["http://[::2]", "[2001:db8::1]:8098", "db1:8098", "192.0.2.1"];
        for url in elsewhere.into_iter().chain(["localhost.org", "http://localhost:x@db1:8098"]) {
            assert!(!is_this_machine(url), "{url}");
        }
    }

    #[test]
    fn a_socket_is_named_by_its_file_or_its_directory() {
        let socket = Target::Local("/var/lib/quoit/admin.sock".into());
        for url in
            ["unix:/var/lib/quoit", "unix:///var/lib/quoit/admin.sock", "unix:/var/lib/quoit/"]
        {
            assert_eq!(Target::of(url), socket, "{url}");
        }
    }
}
