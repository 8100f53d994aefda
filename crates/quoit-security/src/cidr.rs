//! Blocks of IP addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use thiserror::Error;

/// A block of IP addresses. IPv4 addresses within IPv6 count as IPv4 addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cidr {
    first: IpAddr,
    prefix_bits: u8,
}

/// A text is not a block of addresses. Displayed for operators.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("Invalid CIDR: {text} ({reason}); write for example 10.0.0.0/8, 192.0.2.7/32 or ::1/128")]
pub struct CidrError {
    /// The text.
    pub text: String,
    /// The fault in the text.
    pub reason: &'static str,
}

impl Cidr {
    /// Returns the number of bits that all addresses of the block have in common.
    #[must_use]
    pub const fn prefix_bits(self) -> u8 {
        self.prefix_bits
    }

    /// Returns true if the block contains an address.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                masked_v4(address, self.prefix_bits) == first
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                masked_v6(address, self.prefix_bits) == first
            }
            _ => false,
        }
    }
}

fn masked_v4(address: Ipv4Addr, prefix_bits: u8) -> Ipv4Addr {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix_bits)).unwrap_or(0);
    Ipv4Addr::from_bits(address.to_bits() & mask)
}

fn masked_v6(address: Ipv6Addr, prefix_bits: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix_bits)).unwrap_or(0);
    Ipv6Addr::from_bits(address.to_bits() & mask)
}

impl FromStr for Cidr {
    type Err = CidrError;

    /// Parses `ADDRESS/BITS`. Missing parts at the end of an IPv4 address are 0: `127.0.0/8` is
    /// `127.0.0.0/8`. Bits beyond the prefix are cleared.
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let refuse = |reason| CidrError { text: text.to_owned(), reason };
        let (address, bits) =
            text.split_once('/').ok_or_else(|| refuse("the number of bits behind / is missing"))?;
        let first = full_address(address).ok_or_else(|| refuse("that is no IP address"))?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let prefix_bits = bits.parse::<u8>().ok().filter(|bits| is_number && *bits <= most);
        let prefix_bits = prefix_bits.ok_or_else(|| {
            refuse("write a number of bits after the /, at most 32 for IPv4 and 128 for IPv6")
        })?;
        let first = match first {
            IpAddr::V4(first) => IpAddr::V4(masked_v4(first, prefix_bits)),
            IpAddr::V6(first) => IpAddr::V6(masked_v6(first, prefix_bits)),
        };
        Ok(Self { first, prefix_bits })
    }
}

fn full_address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let missing = 3_usize.checked_sub(text.matches('.').count())?;
    format!("{text}{}", ".0".repeat(missing)).parse().ok().map(IpAddr::V4)
}

impl fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.first, self.prefix_bits)
    }
}
