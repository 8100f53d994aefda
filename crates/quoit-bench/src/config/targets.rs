//! Lists of servers, the values of keys ending in `_ips`.

use std::fmt::{self, Display, Formatter};
use std::net::{Ipv4Addr, Ipv6Addr};

use super::error::ConfigError;
use super::settings::Settings;
use crate::term::Term;

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// Host name or IP address, an IPv6 address without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Target {
    /// Parses `host:port` or `[v6]:port`.
    ///
    /// # Errors
    ///
    /// When the text has neither form.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let parsed = || {
            let (host, port) = text.rsplit_once(':')?;
            let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
            let port = port.parse().ok().filter(|port| *port != 0)?;
            (!host.is_empty()).then(|| Self { host: host.to_owned(), port })
        };
        parsed().ok_or_else(|| ConfigError::Target(text.to_owned()))
    }
}

/// The keys that set the servers of a driver.
#[derive(Debug, Clone, Copy)]
pub struct TargetKeys<'a> {
    /// Key of the list of servers. It ends in `_ips`.
    pub ips: &'a str,
    /// Key of the port of those servers in the list that have none of their own.
    pub port: &'a str,
    /// Port if the key of the port is not set.
    pub default_port: u16,
}

/// A server of the command line, which replaces those of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetOverride {
    /// The list of servers that the target belongs to, for drivers with several lists: `http` for
    /// `http_ips`.
    pub list: Option<String>,
    /// The server.
    pub target: Target,
}

impl TargetOverride {
    /// Parses `host:port` or `list=host:port`.
    ///
    /// # Errors
    ///
    /// When the text has neither form.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let (list, target) = match text.split_once('=') {
            Some((list, target)) => (Some(list.to_owned()), target),
            None => (None, text),
        };
        let target = Target::parse(target).map_err(|_| ConfigError::Target(text.to_owned()))?;
        Ok(Self { list, target })
    }
}

/// Reads `watch`: a `host:port`, or a list of them.
///
/// # Errors
///
/// When the value has another form.
pub(super) fn read_watched(settings: &Settings) -> Result<Vec<Target>, ConfigError> {
    let wanted = "write \"host:port\" of a server's HTTP listener, or a list of them";
    settings.read("watch", Vec::new(), wanted, |term| {
        let texts = match term.as_text() {
            // An empty list can't be distinguished from an empty text.
            Some(text) if !text.is_empty() => vec![text],
            _ => term.as_list()?.iter().map(Term::as_text).collect::<Option<_>>()?,
        };
        texts.iter().map(|text| Target::parse(text).ok()).collect()
    })
}

const EXPECTED: &str = "write a list of \"host\", {A,B,C,D}, {\"host\", Port} or \
                        {\"host\", [Port, ...]}";

/// Reads the targets of a key, in basho_bench's order: the elements reversed, the ports of each element in
/// order.
///
/// # Errors
///
/// When the list is empty or an element is not a target.
pub(super) fn read_targets(
    settings: &Settings,
    key: &str,
    default_port: u16,
) -> Result<Vec<Target>, ConfigError> {
    let default = vec![Target { host: "127.0.0.1".to_owned(), port: default_port }];
    settings.read(key, default, EXPECTED, |term| {
        let Term::List(elements) = term else { return None };
        let groups: Option<Vec<Vec<Target>>> =
            elements.iter().rev().map(|element| targets_of(element, default_port)).collect();
        groups.map(|groups| groups.concat()).filter(|targets| !targets.is_empty())
    })
}

fn targets_of(element: &Term, default_port: u16) -> Option<Vec<Target>> {
    if let Some(host) = host_of(element) {
        return Some(vec![Target { host, port: default_port }]);
    }
    let [host, ports] = element.as_tuple()? else { return None };
    let host = host_of(host)?;
    let port_of = |term: &Term| u16::try_from(term.as_integer()?).ok().filter(|port| *port != 0);
    let ports = match ports {
        Term::Integer(_) => vec![port_of(ports)?],
        list => list.as_list()?.iter().map(port_of).collect::<Option<Vec<_>>>()?,
    };
    Some(ports.into_iter().map(|port| Target { host: host.clone(), port }).collect())
}

fn host_of(term: &Term) -> Option<String> {
    match term {
        Term::String(text) if !text.is_empty() => Some(text.clone()),
        Term::Atom(name) => Some(name.clone()),
        Term::Binary(bytes) => String::from_utf8(bytes.clone()).ok(),
        Term::Tuple(parts) => {
            let numbers: Option<Vec<u16>> = parts
                .iter()
                .map(|part| part.as_integer().and_then(|number| u16::try_from(number).ok()))
                .collect();
            match numbers?.as_slice() {
                v4 @ [_, _, _, _] => {
                    let octets: Vec<u8> =
                        v4.iter().filter_map(|part| u8::try_from(*part).ok()).collect();
                    Some(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).to_string())
                }
                v6 => Some(Ipv6Addr::from(<[u16; 8]>::try_from(v6).ok()?).to_string()),
            }
        }
        _ => None,
    }
}
