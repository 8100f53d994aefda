//! Faults of files of certificates, keys and revocation lists, and of settings about them.

use crate::instant::Instant;
use std::fmt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a certificate, a key, a list or a setting can't be used: the file, the place in it, the fault, and
/// what the operator does about it.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file has a fault.
    #[error("{}{place}: {fault}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Where in the file.
        place: Place,
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
    /// A list of cipher suites names none that exists here.
    #[error(
        "none of the ciphers '{list}' is supported here; leave the setting out, or name some of: {}",
        crate::ciphers::supported_names().join(":")
    )]
    NoCipher {
        /// The list as it was given.
        list: String,
    },
    /// No protocol version is left.
    #[error("neither TLS 1.2 nor TLS 1.3 is allowed: switch one of them on")]
    NoVersion,
    /// Client certificates are asked for, but there is no authority to hold them against.
    #[error(
        "client certificates are asked for, but no file of authorities is named that they are held against: \
         set it (ssl.cacertfile)"
    )]
    NoAuthorities,
    /// A name of a server can't be one.
    #[error("'{name}' is neither a host name nor an IP address")]
    ServerName {
        /// The name.
        name: String,
    },
    /// The certificate of an identity of this process can't be made.
    #[error("a certificate could not be made: {0}")]
    Issue(String),
    /// The TLS library refuses a configuration.
    #[error("TLS can't be set up: {0}")]
    Configuration(String),
}

impl TlsError {
    pub(crate) fn file(file: &Path, place: Place, fault: FileFault) -> TlsError {
        TlsError::File { file: file.to_owned(), place, fault }
    }
}

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    Whole,
    /// A line of a text, from 1.
    Line(usize),
    /// A byte of a binary file, from 0.
    Offset(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Whole => Ok(()),
            Place::Line(line) => write!(formatter, ":{line}"),
            Place::Offset(offset) => write!(formatter, ", byte {offset}"),
        }
    }
}

/// A fault at a place of a file. Each text says what to do.
#[derive(Debug, Error)]
pub enum FileFault {
    /// The file can't be read.
    #[error("can't be read ({0}): check the path, and that the node's user may read it")]
    Unreadable(std::io::Error),
    /// The file is larger than any such file.
    #[error("has {size_bytes} bytes, and such a file has at most {max}: name the right file")]
    TooLarge {
        /// Size of the file.
        size_bytes: u64,
        /// Bytes that are read at most.
        max: u64,
    },
    /// Other users may read a private key or a password.
    #[error(
        "a {what} that every user of the machine may read (mode {mode:04o}): chmod o-rwx, and \
         replace the {what} if others have access to the machine"
    )]
    ReadableByOthers {
        /// The kind of secret.
        what: &'static str,
        /// The file's permissions.
        mode: u32,
    },
    /// Neither PEM nor DER.
    #[error("is neither PEM (text with -----BEGIN lines) nor DER: convert it with openssl")]
    UnknownFormat,
    /// A container of a certificate with its key, encrypted by a password.
    #[error(
        "is PKCS#12, which a node that starts by itself has no password for: convert it (openssl pkcs12 -in \
         FILE -nodes -out NEW-FILE), and keep the new file from other users"
    )]
    Pkcs12,
    /// A section of PEM is broken.
    #[error("broken PEM: {0}; copy the file again, whole")]
    BrokenPem(String),
    /// The structure inside is broken.
    #[error(
        "a {what} that can't be decoded ({detail}): copy the file again, or have it issued anew"
    )]
    Malformed {
        /// The kind of thing.
        what: &'static str,
        /// Message of the parser.
        detail: String,
    },
    /// A file without the thing that it is there for.
    #[error("has no {wanted}{}: name the file that has one", found_words(found))]
    Lacks {
        /// The wanted kind.
        wanted: &'static str,
        /// The kinds that are there instead.
        found: Vec<&'static str>,
    },
    /// A revocation list of version 1.
    #[error(
        "a revocation list of version 1, which has no extensions and is not supported: make one of \
         version 2, with `crl_extensions = crl_ext` in the [ca] section of openssl's configuration and, \
         below [crl_ext], `authorityKeyIdentifier = keyid`, or `openssl ca -gencrl -crlexts crl_ext`"
    )]
    OldRevocationList,
    /// A revocation list that the checks of certificates can't use.
    #[error("a revocation list that can't be used ({0}): have its authority issue it anew")]
    UnusableRevocationList(String),
    /// A file with more than one private key.
    #[error("has a second private key: leave the one that belongs to the certificate")]
    SecondKey,
    /// A chain whose leaf is not its first certificate.
    #[error(
        "the certificate that the private key of {} belongs to stands behind another one: put it first, and \
         those of authorities behind it, each before the one that issued it",
        key.display()
    )]
    LeafBehind {
        /// The file of the key.
        key: PathBuf,
    },
    /// An encrypted private key.
    #[error(
        "the private key is encrypted, and a node that starts by itself has no password: decrypt it \
         (openssl pkey -in KEY -out NEW-KEY) and keep the new file from other users"
    )]
    EncryptedKey,
    /// A private key that the library has no use for.
    #[error(
        "a private key of an unsupported kind ({0}): use ECDSA P-256 or P-384, Ed25519, or RSA of 2048 to \
         8192 bits"
    )]
    UnsupportedKey(String),
    /// A certificate that is over.
    #[error(
        "the certificate of '{subject}' has expired on {not_after}, and it is {now}: renew it{}",
        clock(*now)
    )]
    Expired {
        /// Whose certificate.
        subject: String,
        /// The end of its validity.
        not_after: Instant,
        /// The time at which it was looked at.
        now: Instant,
    },
    /// A certificate of the future.
    #[error(
        "the certificate of '{subject}' is valid from {not_before}, and it is {now}: wait until then{}",
        clock(*now)
    )]
    NotYetValid {
        /// Whose certificate.
        subject: String,
        /// The beginning of its validity.
        not_before: Instant,
        /// The time at which it was looked at.
        now: Instant,
    },
    /// X.509 version 1 or 2.
    #[error(
        "the certificate of '{subject}' is X.509 version {version}, which has no extensions and is refused: \
         have it issued as version 3 (openssl x509 -req needs -extfile or -copy_extensions for that)"
    )]
    OldVersion {
        /// Whose certificate.
        subject: String,
        /// Its version.
        version: u32,
    },
    /// A signature by an algorithm that is no longer safe, or is unknown.
    #[error(
        "the certificate of '{subject}' is signed with {algorithm}, which is refused: have it issued with \
         SHA-256 or better"
    )]
    WeakSignature {
        /// Whose certificate.
        subject: String,
        /// Name or number of the algorithm.
        algorithm: String,
    },
    /// A public key that is too short or of an unknown kind.
    #[error(
        "the certificate of '{subject}' has a key of {key}, which is refused: use RSA of 2048 to 8192 bits, \
         ECDSA P-256 or P-384, or Ed25519"
    )]
    WeakKey {
        /// Whose certificate.
        subject: String,
        /// The key in words.
        key: String,
    },
    /// A certificate whose extended key usage leaves its place in a connection out.
    #[error(
        "the certificate of '{subject}' is not for this side of connections, and the other side refuses it: \
         have it issued with `extendedKeyUsage = {wanted}`, or without that extension"
    )]
    WrongPurpose {
        /// Whose certificate.
        subject: String,
        /// The missing usage.
        wanted: &'static str,
    },
    /// An authority that may not issue.
    #[error(
        "the certificate of '{subject}' is that of no authority (basic constraints: CA false): name the file \
         of the authority that issued the certificates"
    )]
    NotAnAuthority {
        /// Whose certificate.
        subject: String,
    },
}

fn found_words(found: &[&'static str]) -> String {
    if found.is_empty() { String::new() } else { format!(" (but a {})", found.join(", a ")) }
}

/// A hint at the clock of this machine when that is plainly wrong.
fn clock(now: Instant) -> &'static str {
    // No program of ours is older.
    const EARLIEST_UNIX_SECS: i64 = 1_735_689_600;
    if now.unix_secs() < EARLIEST_UNIX_SECS {
        "; the clock of this machine is far off: set it (NTP)"
    } else {
        ", or set the clock of this machine (NTP) if it is wrong"
    }
}
