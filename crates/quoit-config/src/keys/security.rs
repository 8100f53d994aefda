//! Keys of TLS with clients, and of logins.

use super::{KB, Key, KeyDefault, MB, key};
use crate::value::ValueType;

pub(super) const KEYS: &[Key] = &[
    key(
        "listener.https.$name",
        ValueType::Address,
        KeyDefault(""),
        "Address on which the node listens for HTTPS clients. Several can be set under different names. \
         Needs ssl.certfile and ssl.keyfile.",
    ),
    key(
        "listener.protobuf_tls.$name",
        ValueType::Address,
        KeyDefault(""),
        "Address on which the node listens for Protocol Buffers clients that use TLS from the first byte, \
         without StartTls. Several can be set under different names. Needs ssl.certfile and ssl.keyfile.",
    ),
    key(
        "listener.tls",
        ValueType::Word(&["both", "required"]),
        KeyDefault("required"),
        "Clients without TLS while security is on. required: they must start TLS and log in. both: the node \
         serves them without a login and counts them by address; clients that start TLS log in. Use both \
         while you change a cluster from open to secured. Applied on SIGHUP.",
    ),
    key(
        "ssl.certfile",
        ValueType::Name,
        KeyDefault(""),
        "File of the node's certificate for clients, followed by its chain (PEM or DER). The node loads it \
         again within seconds of a change of the file, and on SIGHUP.",
    ),
    key(
        "ssl.keyfile",
        ValueType::Name,
        KeyDefault(""),
        "File of the certificate's private key (PEM or DER; PKCS#1, PKCS#8 or SEC1). The node does not start \
         if all users of the machine may access the file (chmod o-rwx).",
    ),
    key(
        "ssl.cacertfile",
        ValueType::Name,
        KeyDefault(""),
        "File of the authorities that may sign clients' certificates. Not set: clients are not asked for \
         certificates.",
    ),
    key(
        "ssl.crlfile",
        ValueType::Name,
        KeyDefault(""),
        "Files of revocation lists for clients' certificates, separated by commas; see check_crl.",
    ),
    key(
        "check_crl",
        ValueType::Flag,
        KeyDefault("on"),
        "Whether the node refuses client certificates on the lists of ssl.crlfile.",
    ),
    key(
        "honor_cipher_order",
        ValueType::Flag,
        KeyDefault("off"),
        "Whether the node's order of ciphers takes precedence over the client's.",
    ),
    key(
        "tls_protocols.tlsv1.2",
        ValueType::Flag,
        KeyDefault("on"),
        "Whether the node accepts TLS 1.2 from clients.",
    ),
    key(
        "tls_protocols.tlsv1.3",
        ValueType::Flag,
        KeyDefault("on"),
        "Whether the node accepts TLS 1.3 from clients.",
    ),
    key(
        "tls_protocols.sslv3",
        ValueType::Flag,
        KeyDefault("off"),
        "Riak's setting. Quoit does not support SSL 3: with on, the node does not start.",
    ),
    key(
        "tls_protocols.tlsv1",
        ValueType::Flag,
        KeyDefault("off"),
        "Riak's setting. Quoit does not support TLS 1.0: with on, the node does not start.",
    ),
    key(
        "tls_protocols.tlsv1.1",
        ValueType::Flag,
        KeyDefault("off"),
        "Riak's setting. Quoit does not support TLS 1.1: with on, the node does not start.",
    ),
    key(
        "security.ignore",
        ValueType::Name,
        KeyDefault(""),
        "Names of settings, separated by commas, that ask for TLS or access control which the node can't \
         provide, and that the node may ignore. Any other such setting keeps the node from starting.",
    ),
    key(
        "security.failure_delay",
        ValueType::Duration(0),
        KeyDefault("5s"),
        "Time after which the node answers a refused login. It slows down guessing of passwords.",
    ),
    key(
        "security.attempts.maximum",
        ValueType::Integer(1, 100),
        KeyDefault("3"),
        "Number of refused logins after which the node closes a connection.",
    ),
    key(
        "security.handshake_timeout",
        ValueType::Duration(100),
        KeyDefault("10s"),
        "Time limit of a TLS handshake with a client.",
    ),
    key(
        "security.login_timeout",
        ValueType::Duration(1_000),
        KeyDefault("60s"),
        "Time that a client has to log in while security is on. Then the node closes the connection.",
    ),
    key(
        "security.cut_off.refuse_logins_after",
        ValueType::Duration(1_000),
        KeyDefault(""),
        "A node refuses new logins after it has reached no majority of the voters for this time, because \
         users and rights may have been changed elsewhere [default: never].",
    ),
    key(
        "security.bytes_before_login.maximum",
        ValueType::Size(KB, 64 * MB),
        KeyDefault("64KB"),
        "Largest message or body that the node reads from a client that has not logged in, while security is \
         on.",
    ),
    key(
        "security.unauthenticated.maximum",
        ValueType::Integer(1, 1_000_000),
        KeyDefault("1024"),
        "Number of open connections that have not logged in, while security is on. The node closes further \
         ones.",
    ),
    key(
        "security.unauthenticated.per_address",
        ValueType::Integer(1, 1_000_000),
        KeyDefault("256"),
        "Number of open connections from one IPv4 address or one IPv6 /64 network that have not logged in, \
         while security is on. The node closes further ones.",
    ),
    key(
        "security.open_statistics",
        ValueType::Flag,
        KeyDefault("off"),
        "Whether the node answers /stats and /metrics without a login while security is on.",
    ),
    key(
        "security.hashing.maximum",
        ValueType::Integer(1, 64),
        KeyDefault("2"),
        "Number of passwords that the node hashes at the same time. Each takes security.hashing.memory.",
    ),
    key(
        "security.hashing.memory",
        ValueType::Size(8 * KB, 256 * MB),
        KeyDefault("19MB"),
        "Memory that hashing a password takes. More memory makes guessing more expensive, but also each \
         login. A change affects passwords that are set later.",
    ),
    key(
        "security.sessions.maximum",
        ValueType::Integer(0, 1_000_000),
        KeyDefault("4096"),
        "Number of TLS sessions that the node remembers, so that clients can resume them. 0: none.",
    ),
];
