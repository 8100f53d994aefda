//! Space for large requests while they arrive.
//!
//! A request begins with its length, but that is only a claim of the client, so the node does not allocate
//! the whole buffer at once. The buffer grows to at most [`GROWTH_MAX`] times the bytes that have arrived,
//! and the memory budget counts the whole buffer. A client thus makes a node reserve 50 MB only by sending at
//! least 6 MB. About a third of a request that arrives completely is copied when its buffer grows; the
//! allocator moves blocks of 4 MiB and more without copying them.

/// Largest size of a buffer as a multiple of the bytes that have arrived.
const GROWTH_MAX: usize = 8;
/// Growth factor of a buffer that will grow again.
const GROWTH: usize = 4;
/// Bytes that count as arrived when a request begins.
const START_BYTES: usize = 16 * 1024;
/// Largest number of bytes that one read takes.
pub(crate) const READ_BYTES_MAX: usize = 256 * 1024;

/// A request of which a part has arrived.
#[derive(Clone, Copy)]
pub(crate) struct ArrivingRequest {
    /// Bytes that have arrived; they fill the buffer.
    pub(crate) arrived_bytes: usize,
    /// Bytes of the whole request.
    pub(crate) whole_bytes: usize,
}

impl ArrivingRequest {
    /// The next size of the buffer. Each step except the first at least doubles the size. A buffer doubles
    /// even if it is asked to grow less, and could then exceed the size of the request.
    pub(crate) fn next_capacity(self) -> usize {
        let Self { arrived_bytes, whole_bytes } = self;
        let arrived_bytes = arrived_bytes.max(START_BYTES);
        if whole_bytes <= arrived_bytes.saturating_mul(GROWTH_MAX) {
            whole_bytes
        } else if whole_bytes < arrived_bytes.saturating_mul(GROWTH * GROWTH) {
            // The step after this one is the last. The smaller the buffer is before it, the fewer bytes it
            // copies.
            whole_bytes.div_ceil(GROWTH)
        } else {
            arrived_bytes.saturating_mul(GROWTH)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of the buffer of a request that arrives whole, from a first read of 8 KiB on.
    fn sizes(whole_bytes: usize) -> Vec<usize> {
        let mut sizes = vec![8 * 1024];
        while sizes[sizes.len() - 1] < whole_bytes {
            let arrived_bytes = sizes[sizes.len() - 1];
            sizes.push(ArrivingRequest { arrived_bytes, whole_bytes }.next_capacity());
        }
        sizes
    }

    #[test]
    fn a_buffer_ends_with_its_request_and_never_exceeds_what_has_arrived_by_far() {
        for whole_bytes in (20_000..3_000_000).step_by(7_777).chain([50 << 20, 1 << 30]) {
            let sizes = sizes(whole_bytes);
            assert_eq!(sizes.last(), Some(&whole_bytes));
            for pair in sizes.windows(2) {
                let (arrived_bytes, next) = (pair[0], pair[1]);
                let allowed_bytes = GROWTH_MAX * arrived_bytes.max(START_BYTES);
                assert!(next <= allowed_bytes, "{whole_bytes}: {sizes:?}");
                // Otherwise the buffer would double beyond the size that was asked for.
                assert!(next + 1 >= 2 * arrived_bytes, "{whole_bytes}: {sizes:?}");
            }
        }
    }

    #[test]
    fn less_than_half_of_a_request_is_copied_when_its_buffer_grows() {
        for whole_bytes in (20_000..3_000_000).step_by(7_777) {
            let sizes = sizes(whole_bytes);
            let copied_bytes: usize = sizes[..sizes.len() - 1].iter().sum();
            assert!(copied_bytes < whole_bytes / 2, "{whole_bytes}: {sizes:?}");
        }
        assert_eq!(sizes(65_700), [8 << 10, 65_700]);
        assert_eq!(sizes(1_000_000), [8 << 10, 64 << 10, 250_000, 1_000_000]);
    }
}
