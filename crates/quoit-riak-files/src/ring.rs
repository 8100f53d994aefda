//! Size of the ring, from Riak's ring files.

use crate::source::entries;
use bytes::Bytes;
use quoit_model::etf::{Limits, Term};
use std::path::Path;

/// Limits that admit a ring of 1024 partitions with its history.
const LIMITS: Limits = Limits { depth_max: 64, terms_max: 4_000_000, inflated_bytes_max: 64 << 20 };

/// Number of partitions according to the newest readable ring file in a directory `ring`; `None` if
/// there is no such file, or it has another form.
#[must_use]
pub fn ring_size_of_files(directory: &Path) -> Option<u32> {
    let mut files = entries(directory).ok()?;
    files.retain(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("riak_core_ring."))
    });
    files.iter().rev().find_map(|path| {
        let term = Term::decode(&Bytes::from(std::fs::read(path).ok()?), &LIMITS).ok()?;
        ring_size(&term)
    })
}

/// Searches the term for `{Count, [{Index, Owner}, ...]}` whose list has `Count` elements. Returns
/// the count.
fn ring_size(term: &Term) -> Option<u32> {
    if let Term::Tuple(parts) = term {
        if let [Term::Integer(count), Term::List(owners)] = parts.as_slice()
            && usize::try_from(*count) == Ok(owners.len())
            && (1..=65_536).contains(count)
            && owners.iter().all(|owner| owner.as_tuple::<2>().is_some())
        {
            return u32::try_from(*count).ok();
        }
        return parts.iter().find_map(ring_size);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_found_in_the_record_around_it() {
        let owner = |index: i128| {
            let node = Term::Atom(Bytes::from_static(b"riak@host"));
            Term::Tuple(vec![Term::Integer(index), node])
        };
        let ring = Term::Tuple(vec![Term::Integer(2), Term::List(vec![owner(0), owner(1 << 120)])]);
        let record = Term::Tuple(vec![
            Term::Atom(Bytes::from_static(b"chstate_v2")),
            Term::List(vec![]),
            ring,
        ]);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut bytes = Vec::new();
        record.encode_into(&mut bytes);
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(directory.path().join(name), bytes).expect("a file");
        };
        write("riak_core_ring.default.20260101000000", &bytes);
        write("riak_core_ring.default.20260102000000", b"damage");
        assert_eq!(ring_size_of_files(directory.path()), Some(2));
    }
}
