//! The sections of a file: PEM sections with their first lines, or a single piece of DER.

use crate::error::{FileFault, FilePosition, TlsError};
use rustls_pki_types::pem::{self, SectionKind};
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::Path;

/// Maximum size of a file, in bytes. A bundle of all public authorities has a quarter of a megabyte, and a
/// revocation list of a large authority has some megabytes.
pub const FILE_BYTES_MAX: u64 = 32 << 20;

/// First byte of every certificate, key and list in DER: the tag of a sequence.
const DER_SEQUENCE: u8 = 0x30;

/// First bytes inside the sequence of a PKCS#12 file: the integer 3.
const PKCS12_VERSION: &[u8] = &[2, 1, 3];

/// The tag of an object identifier in DER.
const DER_OBJECT_ID: u8 = 6;

/// Beginning of the first line of a PEM section.
const BEGIN: &[u8] = b"-----BEGIN ";

/// A section of a file.
#[derive(Debug)]
pub(crate) struct Section {
    /// Kind, according to the first line; `None` for DER, which has no such line.
    pub(crate) kind: Option<SectionKind>,
    pub(crate) der: Vec<u8>,
    pub(crate) place: FilePosition,
}

/// Reads a file's content and metadata.
pub(crate) fn read(file: &Path) -> Result<(Vec<u8>, Metadata), TlsError> {
    let unreadable =
        |fault| TlsError::file(file, FilePosition::Whole, FileFault::Unreadable(fault));
    let opened = File::open(file).map_err(unreadable)?;
    let metadata = opened.metadata().map_err(unreadable)?;
    let mut content = Vec::new();
    opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() as u64 > FILE_BYTES_MAX {
        let size_bytes = metadata.len().max(content.len() as u64);
        let fault = FileFault::TooLarge { size_bytes, max: FILE_BYTES_MAX };
        return Err(TlsError::file(file, FilePosition::Whole, fault));
    }
    Ok((content, metadata))
}

/// Splits the content of `file` into sections.
pub(crate) fn sections(file: &Path, content: &[u8]) -> Result<Vec<Section>, TlsError> {
    if content.first() == Some(&DER_SEQUENCE) && find(content, BEGIN).is_none() {
        let place = FilePosition::Offset(0);
        if in_sequence(content).is_some_and(|inside| inside.starts_with(PKCS12_VERSION)) {
            return Err(TlsError::file(file, place, FileFault::Pkcs12));
        }
        return Ok(vec![Section { kind: None, der: content.to_vec(), place }]);
    }
    if find(content, BEGIN).is_none() {
        return Err(TlsError::file(file, FilePosition::Whole, FileFault::UnknownFormat));
    }
    let mut found = Vec::new();
    let mut rest = content;
    loop {
        let begins = find(rest, BEGIN).map_or(content.len(), |at| content.len() - rest.len() + at);
        let place = FilePosition::Line(line_of(content, begins));
        match pem::from_buf(&mut rest) {
            Ok(Some((kind, der))) => found.push(Section { kind: Some(kind), der, place }),
            Ok(None) => return Ok(found),
            Err(fault) => {
                let fault = FileFault::BrokenPem(words(&fault));
                return Err(TlsError::file(file, place, fault));
            }
        }
    }
}

/// Describes a PEM error. The library would show lines as arrays of bytes.
fn words(fault: &pem::Error) -> String {
    match fault {
        pem::Error::MissingSectionEnd { .. } => "a section has no -----END line".to_owned(),
        pem::Error::IllegalSectionStart { line } => {
            format!("'{}' begins no section", String::from_utf8_lossy(line).trim_end())
        }
        fault => fault.to_string(),
    }
}

/// Returns the place at which an encrypted key begins, if there is one.
pub(crate) fn encrypted_key(content: &[u8]) -> Option<FilePosition> {
    // Unencrypted keys begin with an integer, and certificates and lists begin with a structure
    // that is not an algorithm.
    let algorithm = in_sequence(content).and_then(in_sequence);
    if algorithm.is_some_and(|algorithm| algorithm.first() == Some(&DER_OBJECT_ID)) {
        return Some(FilePosition::Offset(0));
    }
    let at = [&b"-----BEGIN ENCRYPTED PRIVATE KEY-----"[..], b"Proc-Type: 4,ENCRYPTED"]
        .iter()
        .find_map(|mark| find(content, mark))?;
    Some(FilePosition::Line(line_of(content, at)))
}

/// Returns the bytes after the tag and the length of a DER sequence.
fn in_sequence(der: &[u8]) -> Option<&[u8]> {
    let (&[tag, length], inside) = der.split_first_chunk()?;
    let more = if length < 0x80 { 0 } else { usize::from(length & 0x7f) };
    inside.get(more..).filter(|_| tag == DER_SEQUENCE)
}

fn find(content: &[u8], wanted: &[u8]) -> Option<usize> {
    content.windows(wanted.len()).position(|window| window == wanted)
}

fn line_of(content: &[u8], at: usize) -> usize {
    content.iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}
