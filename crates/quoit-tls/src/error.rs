//! Faults of files with certificates, keys and revocation lists, and of settings.

use crate::instant::Instant;
use std::fmt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Reason why a certificate, a key, a list or a setting cannot be used. The text names the file, the place
/// in it, the fault and the remedy.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file has a fault.
    #[error("{}{place}: {fault}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Place in the file.
        place: FilePosition,
        /// Fault at that place.
        fault: FileFault,
    },
    /// Two files do not belong together.
    #[error(
        "the private key of {} is not the key of the certificate in {}: give the key that the certificate \
         was requested with, or request a certificate for this key",
        key.display(),
        certificate.display()
    )]
    KeyMismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// A list of cipher suites names no supported suite.
    #[error(
        "none of the ciphers '{list}' is supported here; leave the setting out, or name some of: {}",
        crate::ciphers::supported_names().join(":")
    )]
    NoCipher {
        /// The list as it was given.
        list: String,
    },
    /// No version of TLS is enabled.
    #[error("neither TLS 1.2 nor TLS 1.3 is allowed: switch one of them on")]
    NoVersion,
    /// Client certificates are requested, but no authority is configured to verify them.
    #[error(
        "client certificates are asked for, but there is no file of the authorities that may sign them: set \
         ssl.cacertfile"
    )]
    NoAuthorities,
    /// A text is not a valid name of a server.
    #[error("'{name}' is neither a host name nor an IP address")]
    ServerName {
        /// The name.
        name: String,
    },
    /// A certificate for this process cannot be made.
    #[error("a certificate could not be made: {0}")]
    Issue(String),
    /// The TLS library rejects a configuration.
    #[error("TLS can't be set up: {0}")]
    Configuration(String),
}

impl TlsError {
    pub(crate) fn file(file: &Path, place: FilePosition, fault: FileFault) -> TlsError {
        TlsError::File { file: file.to_owned(), place, fault }
    }
}

/// A position in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilePosition {
    /// The file as a whole.
    Whole,
    /// A line of a text file, counted from 1.
    Line(usize),
    /// A byte of a binary file, counted from 0.
    Offset(usize),
}

impl fmt::Display for FilePosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilePosition::Whole => Ok(()),
            FilePosition::Line(line) => write!(formatter, ":{line}"),
            FilePosition::Offset(offset) => write!(formatter, ", byte {offset}"),
        }
    }
}

/// A fault at a place of a file. Each text names the remedy.
#[derive(Debug, Error)]
pub enum FileFault {
    /// The file cannot be read.
    #[error("can't be read ({0}): check the path, and that the node's user may read it")]
    Unreadable(std::io::Error),
    /// The file is too large.
    #[error("has {size_bytes} bytes, and such a file has at most {max}: name the right file")]
    TooLarge {
        /// Size of the file.
        size_bytes: u64,
        /// Maximum number of bytes that are read.
        max: u64,
    },
    /// All users of the machine may read a private key or a password.
    #[error(
        "a {what} that every user of the machine may read (mode {mode:04o}): chmod o-rwx, and \
         replace the {what} if others have access to the machine"
    )]
    ReadableByOthers {
        /// The kind of secret.
        what: &'static str,
        /// The file's permission bits.
        mode: u32,
    },
    /// The file is neither PEM nor DER.
    #[error("is neither PEM (text with -----BEGIN lines) nor DER: convert it with openssl")]
    UnknownFormat,
    /// The file is a password-protected container (PKCS#12) of a certificate and its key.
    #[error(
        "is PKCS#12, whose password a node does not have when it starts: convert it (openssl pkcs12 -in FILE \
         -nodes -out NEW-FILE), and keep the new file from other users"
    )]
    Pkcs12,
    /// A PEM section is broken.
    #[error("broken PEM: {0}; copy the file again, whole")]
    BrokenPem(String),
    /// The encoded structure is malformed.
    #[error(
        "a {what} that can't be decoded ({detail}): copy the file again, or have it issued anew"
    )]
    Malformed {
        /// Kind of the structure.
        what: &'static str,
        /// Message of the decoder.
        detail: String,
    },
    /// The file has no section of the wanted kind.
    #[error("has no {wanted}{}: name the file that has one", found_words(found))]
    Lacks {
        /// The wanted kind.
        wanted: &'static str,
        /// The kinds that it has instead.
        found: Vec<&'static str>,
    },
    /// The file has a revocation list of version 1.
    #[error(
        "a revocation list of version 1, which has no extensions and is not supported: make one of \
         version 2, with `crl_extensions = crl_ext` in the [ca] section of openssl's configuration and, \
         below [crl_ext], `authorityKeyIdentifier = keyid`, or `openssl ca -gencrl -crlexts crl_ext`"
    )]
    OldRevocationList,
    /// The revocation list cannot be used to verify certificates.
    #[error("a revocation list that can't be used ({0}): have its authority issue it anew")]
    UnusableRevocationList(String),
    /// The file has more than one private key.
    #[error("has a second private key: leave the one that belongs to the certificate")]
    SecondKey,
    /// The leaf is not the first certificate of the chain.
    #[error(
        "the file does not begin with the certificate of the private key {}: put that certificate first, and \
         those of authorities after it, each before the one that issued it",
        key.display()
    )]
    LeafBehind {
        /// The file of the key.
        key: PathBuf,
    },
    /// The private key is encrypted.
    #[error(
        "the private key is encrypted, and a node does not have its password when it starts: decrypt it \
         (openssl pkey -in KEY -out NEW-KEY) and keep the new file from other users"
    )]
    EncryptedKey,
    /// The TLS library does not support the private key.
    #[error(
        "a private key of an unsupported kind ({0}): use ECDSA P-256 or P-384, Ed25519, or RSA of 2048 to \
         8192 bits"
    )]
    UnsupportedKey(String),
    /// The certificate has expired.
    #[error(
        "the certificate of '{subject}' has expired on {not_after}, and it is {now}: renew it{}",
        clock(*now)
    )]
    Expired {
        /// Subject of the certificate.
        subject: String,
        /// End of its validity.
        not_after: Instant,
        /// Time at which it was checked.
        now: Instant,
    },
    /// The certificate is not valid yet.
    #[error(
        "the certificate of '{subject}' is valid from {not_before}, and it is {now}: wait until then{}",
        clock(*now)
    )]
    NotYetValid {
        /// Subject of the certificate.
        subject: String,
        /// Start of its validity.
        not_before: Instant,
        /// Time at which it was checked.
        now: Instant,
    },
    /// The certificate is X.509 version 1 or 2.
    #[error(
        "the certificate of '{subject}' is X.509 version {version}, which has no extensions and is refused: \
         have it issued as version 3 (openssl x509 -req needs -extfile or -copy_extensions for that)"
    )]
    OldVersion {
        /// Subject of the certificate.
        subject: String,
        /// Its version.
        version: u32,
    },
    /// The signature algorithm is weak or not supported.
    #[error(
        "the certificate of '{subject}' is signed with {algorithm}, which is refused: have it issued with \
         SHA-256 or better"
    )]
    WeakSignature {
        /// Subject of the certificate.
        subject: String,
        /// Name or number of the algorithm.
        algorithm: String,
    },
    /// The public key is too short, or of an unsupported kind.
    #[error(
        "the certificate of '{subject}' has a key of {key}, which is refused: use RSA of 2048 to 8192 bits, \
         ECDSA P-256 or P-384, or Ed25519"
    )]
    WeakKey {
        /// Subject of the certificate.
        subject: String,
        /// Description of the key.
        key: String,
    },
    /// The extended key usage of the certificate does not include its side of the connection.
    #[error(
        "the certificate of '{subject}' is not for this side of connections, and the other side refuses it: \
         have it issued with `extendedKeyUsage = {wanted}`, or without that extension"
    )]
    WrongPurpose {
        /// Subject of the certificate.
        subject: String,
        /// The missing usage.
        wanted: &'static str,
    },
    /// The certificate was given as that of an authority, but it is not allowed to issue certificates.
    #[error(
        "the certificate of '{subject}' is that of no authority (basic constraints: CA false): name the file \
         of the authority that issued the certificates"
    )]
    NotAnAuthority {
        /// Subject of the certificate.
        subject: String,
    },
}

fn found_words(found: &[&'static str]) -> String {
    if found.is_empty() { String::new() } else { format!(" (but a {})", found.join(", a ")) }
}

/// Returns a hint about the clock of this machine. The hint is more definite if the clock is obviously wrong.
fn clock(now: Instant) -> &'static str {
    // 2025-01-01, before any version of this program existed.
    const EARLIEST_UNIX_SECS: i64 = 1_735_689_600;
    if now.unix_secs() < EARLIEST_UNIX_SECS {
        "; the clock of this machine is far off: set it (NTP)"
    } else {
        ", or set the clock of this machine (NTP) if it is wrong"
    }
}
