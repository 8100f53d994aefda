//! The servers of the command line, as URLs.

use url::Url;

use super::error::LoadOptionsError;

/// A protocol, by the scheme of its URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Pb,
    Http { tls: bool },
    Redis,
    Memcached,
}

impl Protocol {
    fn of_scheme(scheme: &str) -> Option<Self> {
        Some(match scheme {
            "pb" => Self::Pb,
            "http" => Self::Http { tls: false },
            "https" => Self::Http { tls: true },
            "redis" => Self::Redis,
            "memcached" => Self::Memcached,
            _ => return None,
        })
    }

    /// True if the protocol has bucket types.
    fn has_types(self) -> bool {
        matches!(self, Self::Pb | Self::Http { .. })
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Pb => 8087,
            Self::Http { .. } => 8098,
            Self::Redis => 6379,
            Self::Memcached => 11_211,
        }
    }

    /// Name of the driver, and prefix of its keys.
    pub(super) fn driver(self) -> (&'static str, &'static str) {
        match self {
            Self::Pb => ("riakc_pb", "riakc_pb"),
            Self::Http { .. } => ("http_raw", "http_raw"),
            Self::Redis => ("redis", "redis"),
            Self::Memcached => ("memcached", "memcached"),
        }
    }

    /// Names of the driver's read, write, update and delete.
    pub(super) fn operations(self) -> [Option<&'static str>; 4] {
        match self {
            Self::Redis => [Some("get"), Some("set"), None, Some("del")],
            Self::Memcached => [Some("get_any"), Some("set"), None, Some("delete")],
            Self::Pb | Self::Http { .. } => ["get", "put", "update", "delete"].map(Some),
        }
    }
}

/// A server of the command line, parsed from its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineServer {
    pub(super) protocol: Protocol,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) bucket_type: Option<String>,
    pub(super) bucket: String,
}

impl LineServer {
    pub(super) fn parse(text: &str) -> Result<Self, LoadOptionsError> {
        let fault = |problem: String| LoadOptionsError::Url { url: text.to_owned(), problem };
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let protocol = Protocol::of_scheme(scheme).ok_or_else(|| {
            fault(format!(
                "{scheme} is not a protocol of this program: write pb, http, https, redis or memcached"
            ))
        })?;
        // With a scheme that the URL standard does not know, the parser keeps every port. For `http` it
        // would drop port 80, which is not the default port here.
        let url = Url::parse(&format!("quoit://{rest}"));
        let url = url.map_err(|error| fault(error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(fault("logins come from QUOIT_USER and QUOIT_PASSWORD_FILE".to_owned()));
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| fault("there is no host".to_owned()))?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(fault("nothing comes behind the path, neither ? nor #".to_owned()));
        }
        let path: Vec<&str> = url.path().split('/').filter(|part| !part.is_empty()).collect();
        let (bucket_type, bucket) = match path[..] {
            [] => (None, "bench"),
            [bucket] => (None, bucket),
            [bucket_type, bucket] if protocol.has_types() => (Some(bucket_type), bucket),
            _ => return Err(fault("the path is BUCKET or TYPE/BUCKET".to_owned())),
        };
        Ok(Self {
            protocol,
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: url.port().unwrap_or(protocol.default_port()),
            bucket_type: bucket_type.map(str::to_owned),
            bucket: bucket.to_owned(),
        })
    }

    pub(super) fn is_like(&self, other: &Self) -> bool {
        let load =
            |server: &Self| (server.protocol, server.bucket_type.clone(), server.bucket.clone());
        load(self) == load(other)
    }
}
