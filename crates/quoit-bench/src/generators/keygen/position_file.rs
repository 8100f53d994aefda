//! The files in which sequences save their positions. A file holds one integer in Erlang's external term
//! format, as basho_bench writes it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// First byte of every external term.
const VERSION: u8 = 131;

/// Tag of an integer of one byte.
const SMALL_INTEGER: u8 = 97;

/// Tag of a signed integer of four bytes, in big-endian order.
const INTEGER: u8 = 98;

/// Tag of an integer of any size: number of bytes, sign, then the bytes in little-endian order.
const SMALL_BIG: u8 = 110;

/// Reads the position from a file; `None` if the file does not exist.
pub(super) fn read(path: &Path) -> io::Result<Option<u64>> {
    match fs::read(path) {
        Ok(bytes) => decode(&bytes).map(Some).ok_or_else(|| {
            let text = format!("{} holds no position: remove it", path.display());
            io::Error::new(ErrorKind::InvalidData, text)
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the file atomically: writes `<name>.tmp` and renames it. A run that is killed leaves the old
/// position or the new one.
pub(super) fn write(path: &Path, position: u64) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    fs::write(&temporary, encode(position))?;
    fs::rename(&temporary, path)
}

fn encode(position: u64) -> Vec<u8> {
    if let Ok(byte) = u8::try_from(position) {
        return vec![VERSION, SMALL_INTEGER, byte];
    }
    if let Ok(integer) = i32::try_from(position) {
        return [&[VERSION, INTEGER][..], &integer.to_be_bytes()].concat();
    }
    let size = quoit_number::low_u8(8 - u64::from(position.leading_zeros()) / 8);
    let magnitude = position.to_le_bytes().into_iter().take(usize::from(size));
    [VERSION, SMALL_BIG, size, 0].into_iter().chain(magnitude).collect()
}

fn decode(bytes: &[u8]) -> Option<u64> {
    match bytes.strip_prefix(&[VERSION])? {
        [SMALL_INTEGER, byte] => Some(u64::from(*byte)),
        [INTEGER, integer @ ..] => u64::try_from(i32::from_be_bytes(integer.try_into().ok()?)).ok(),
        [SMALL_BIG, size, 0, magnitude @ ..] if magnitude.len() == usize::from(*size) => {
            let mut low_first = [0; 8];
            low_first.get_mut(..magnitude.len())?.copy_from_slice(magnitude);
            Some(u64::from_le_bytes(low_first))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn positions_are_written_as_erlang_writes_integers() {
        for (position, bytes) in [
            (0, &[131, 97, 0][..]),
            (255, &[131, 97, 255]),
            (256, &[131, 98, 0, 0, 1, 0]),
            (0x7fff_ffff, &[131, 98, 0x7f, 0xff, 0xff, 0xff]),
            (0x8000_0000, &[131, 110, 4, 0, 0, 0, 0, 0x80]),
            (1 << 40, &[131, 110, 6, 0, 0, 0, 0, 0, 0, 1]),
        ] {
            assert_eq!(encode(position), bytes, "{position}");
        }
    }

    #[test]
    fn other_terms_are_refused() {
        for bytes in [
            &[][..],
            &[131],
            &[130, 97, 1],
            &[131, 97],
            &[131, 97, 1, 1],
            &[131, 98, 0xff, 0xff, 0xff, 0xff],
            &[131, 110, 1, 1, 5],
            &[131, 110, 9, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1],
            &[131, 110, 2, 0, 1],
        ] {
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_file_is_replaced_and_a_missing_one_is_no_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("deep/3");
        assert_eq!(read(&path).expect("no file"), None);
        for position in [400, 900] {
            write(&path, position).expect("a file");
            assert_eq!(read(&path).expect("a position"), Some(position));
        }
        assert_eq!(fs::read_dir(dir.path().join("deep")).expect("a directory").count(), 1);
        fs::write(&path, b"junk").expect("junk");
        assert!(read(&path).is_err());
    }

    proptest! {
        #[test]
        fn every_position_reads_back(position in any::<u64>()) {
            prop_assert_eq!(decode(&encode(position)), Some(position));
        }
    }
}
