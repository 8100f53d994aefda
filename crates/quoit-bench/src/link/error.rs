//! Why a coordinator and an agent can't work together.

use std::path::PathBuf;

use thiserror::Error;

/// A fault of the link, or a reason of one side to refuse the other.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The address can't be reached.
    #[error("cannot connect: {0}; is `quoit bench agent` running there?")]
    Connect(std::io::Error),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(std::io::Error),
    /// The other side has closed the connection.
    #[error("the connection was closed")]
    Closed,
    /// The other side says nothing any more.
    #[error("nothing was heard for {} s", .0.as_secs())]
    Silent(std::time::Duration),
    /// A message is longer than messages may be.
    #[error("a message of {bytes} bytes; at most {max} are allowed")]
    TooLong {
        /// Its length.
        bytes: u64,
        /// The bound.
        max: usize,
    },
    /// Bytes that are no message.
    #[error("a message that cannot be read: {0}")]
    Malformed(String),
    /// A message that doesn't belong here.
    #[error("an unexpected message instead of {expected}")]
    Unexpected {
        /// Name of the message that was waited for.
        expected: &'static str,
    },
    /// The two programs are not the same.
    #[error(
        "it is version {theirs} (protocol {their_protocol}), and the coordinator is {ours} (protocol \
         {our_protocol}): start the same version on both"
    )]
    Version {
        /// Version of the other program.
        theirs: String,
        /// Its protocol.
        their_protocol: u32,
        /// Version of this program.
        ours: String,
        /// Its protocol.
        our_protocol: u32,
    },
    /// The agent refuses the run.
    #[error("it refuses: {0}")]
    Refused(String),
    /// One side can't prove itself to the other.
    #[error(
        "the two do not trust each other ({0}): use the same --token-file on both, or certificates of \
         authorities that the other side knows"
    )]
    Proof(String),
    /// Files of certificates that can't be used.
    #[error(transparent)]
    Tls(#[from] quoit_tls::TlsError),
    /// A token that can be guessed.
    #[error("the token of {}: {error}", .path.display())]
    Token {
        /// Its file.
        path: PathBuf,
        /// The fault.
        error: quoit_tls::nodes::WeakSecret,
    },
    /// A file that the configuration names can't be sent.
    #[error("the file {} of the configuration cannot be sent: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: std::io::Error,
    },
    /// A file that the configuration does not name by its path.
    #[error(
        "the configuration names the file {} in a way in which it cannot be sent to agents: write its path, \
         as in {{script, \"file.js\", name, []}}",
        .path.display()
    )]
    Unnamed {
        /// The file.
        path: PathBuf,
    },
    /// An agent does not end.
    #[error("it did not end within {} s of the end of the run", .0.as_secs())]
    Unended(std::time::Duration),
    /// The files of a configuration are too much.
    #[error("the files that the configuration names have {bytes} bytes; at most {max} are sent")]
    Files {
        /// Bytes of all files.
        bytes: u64,
        /// The bound.
        max: u64,
    },
}
