//! Limits of connections that have not logged in.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// Counts of connections that have not logged in, by address. An IPv6 address counts by its /64 network,
/// because one host may have all addresses of it.
#[derive(Debug, Default)]
pub(super) struct UnauthenticatedConnections {
    counts: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection that has not logged in. It is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct UnauthenticatedConnection {
    unauthenticated: Arc<UnauthenticatedConnections>,
    address: IpAddr,
}

/// Maximum numbers of connections that have not logged in.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnauthenticatedLimits {
    pub(super) of_address_max: usize,
    pub(super) all_max: usize,
}

impl UnauthenticatedConnections {
    /// Counts a connection; `None` if there are too many from its address or in total.
    pub(super) fn admit(
        unauthenticated: &Arc<Self>,
        address: IpAddr,
        limits: UnauthenticatedLimits,
    ) -> Option<UnauthenticatedConnection> {
        let UnauthenticatedLimits { of_address_max, all_max } = limits;
        let address = counted(address);
        let mut counts = unauthenticated.counts.lock();
        let all: usize = counts.values().sum();
        let count = counts.get(&address).copied().unwrap_or_default();
        if all >= all_max || count >= of_address_max {
            return None;
        }
        counts.insert(address, count + 1);
        drop(counts);
        Some(UnauthenticatedConnection { unauthenticated: Arc::clone(unauthenticated), address })
    }

    /// Current number of such connections.
    pub(super) fn count(&self) -> usize {
        self.counts.lock().values().sum()
    }
}

/// The address under which a connection is counted.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    }
}

impl Drop for UnauthenticatedConnection {
    fn drop(&mut self) {
        let mut counts = self.unauthenticated.counts.lock();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unauthenticated_connections_count_by_address_and_in_total_until_they_are_dropped() {
        let unauthenticated = Arc::new(UnauthenticatedConnections::default());
        let admit = |address: &str| {
            UnauthenticatedConnections::admit(
                &unauthenticated,
                address.parse().expect("an address"),
                UnauthenticatedLimits { of_address_max: 2, all_max: 3 },
            )
        };
        let first = admit("192.0.2.1").expect("the first");
        let _second = admit("::ffff:192.0.2.1").expect("the second");
        assert!(admit("192.0.2.1").is_none(), "two of one address");
        let _third = admit("192.0.2.2").expect("another address");
        assert!(admit("192.0.2.3").is_none(), "three in all");
        drop(first);
        assert_eq!(unauthenticated.count(), 2);
        admit("192.0.2.1").expect("there is room again");
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_count_together() {
        let unauthenticated = Arc::new(UnauthenticatedConnections::default());
        let admit = |address: &str| {
            UnauthenticatedConnections::admit(
                &unauthenticated,
                address.parse().expect("an address"),
                UnauthenticatedLimits { of_address_max: 2, all_max: 9 },
            )
        };
        let _first = admit("2001:db8:0:1::1").expect("the first");
        let _second = admit("2001:db8:0:1:ffff::2").expect("the second");
        assert!(admit("2001:db8:0:1::3").is_none(), "two of one network");
        admit("2001:db8:0:2::1").expect("another network");
    }
}
