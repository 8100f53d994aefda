//! Counts of the traffic between nodes.

use std::collections::BTreeMap;

/// Counts of one node's requests to another, since the start of its process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerStatistics {
    /// Frames and bytes on the connections that this node has dialed.
    pub traffic: Traffic,
    /// Calls by method.
    pub calls: MethodCounts,
    /// Number of connections made.
    pub connected_count: u64,
    /// Number of calls that were not sent because the bound of open calls was reached.
    pub too_busy_count: u64,
    /// Number of answers whose callers no longer waited.
    pub discarded_count: u64,
}

impl PeerStatistics {
    pub(super) fn add(&mut self, other: &Self) {
        self.traffic.add(&other.traffic);
        self.calls.add(&other.calls);
        self.connected_count += other.connected_count;
        self.too_busy_count += other.too_busy_count;
        self.discarded_count += other.discarded_count;
    }
}

/// Counts of other nodes' requests to a node, since the start of its process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceStatistics {
    /// Frames and bytes on the connections that others have dialed.
    pub traffic: Traffic,
    /// Requests by method.
    pub requests: MethodCounts,
    /// Number of connections that were closed at their greeting: not admitted, or not from a node.
    pub refused_count: u64,
}

impl ServiceStatistics {
    pub(super) fn add(&mut self, other: &ServiceStatistics) {
        self.traffic.add(&other.traffic);
        self.requests.add(&other.requests);
        self.refused_count += other.refused_count;
    }
}

/// Frames, bytes, writes and reads in both directions. Without TLS, a write or read is one system call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames sent, of any kind.
    pub sent_frames: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Writes that the connections accepted, each of one or more frames or of a part of one.
    pub write_count: u64,
    /// Frames received.
    pub received_frames: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Reads that brought bytes.
    pub read_count: u64,
}

impl Traffic {
    pub(super) fn sent(&mut self, size_bytes: u64) {
        self.sent_frames += 1;
        self.sent_bytes += size_bytes;
    }

    pub(super) fn received(&mut self, size_bytes: u64) {
        self.received_frames += 1;
        self.received_bytes += size_bytes;
    }

    pub(super) fn add(&mut self, other: &Traffic) {
        self.sent_frames += other.sent_frames;
        self.sent_bytes += other.sent_bytes;
        self.write_count += other.write_count;
        self.received_frames += other.received_frames;
        self.received_bytes += other.received_bytes;
        self.read_count += other.read_count;
    }
}

/// Counts by method. There are few methods, so a short list is searched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MethodCounts {
    counts: Vec<(u16, u64)>,
}

impl MethodCounts {
    /// Returns the counts of all methods that were counted at least once.
    #[must_use]
    pub fn by_method(&self) -> BTreeMap<u16, u64> {
        self.counts.iter().copied().collect()
    }

    /// Returns the count of one method.
    #[must_use]
    pub fn of(&self, method: u16) -> u64 {
        let found = self.counts.iter().find(|(counted, _)| *counted == method);
        found.map_or(0, |&(_, count)| count)
    }

    pub(super) fn count(&mut self, method: u16) {
        self.add_count(method, 1);
    }

    pub(super) fn add(&mut self, other: &MethodCounts) {
        for &(method, count) in &other.counts {
            self.add_count(method, count);
        }
    }

    fn add_count(&mut self, method: u16, count: u64) {
        match self.counts.iter_mut().find(|(counted, _)| *counted == method) {
            Some((_, counted)) => *counted += count,
            None => self.counts.push((method, count)),
        }
    }
}
