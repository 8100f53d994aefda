//! Keys of TLS with clients, and of logins.

use super::{KB, Key, MB, key};
use crate::config::value::Kind;

pub(super) const KEYS: &[Key] = &[
    key(
        "listener.https.$name",
        Kind::Address,
        "",
        "Address of an HTTPS listener. Several may be given under different names; it needs ssl.certfile and \
         ssl.keyfile.",
    ),
    key(
        "listener.protobuf_tls.$name",
        Kind::Address,
        "",
        "Address of a listener for Protocol Buffers clients that speak TLS from the first byte, without \
         StartTls. Several may be given under different names.",
    ),
    key(
        "listener.tls",
        Kind::Word(&["both", "required"]),
        "required",
        "Clients in clear while security is on. required: they have to begin TLS and to log in. both: they \
         are served without a login, as before security was switched on, and counted by address; those that \
         begin TLS log in. It is the step between an open cluster and a closed one. Taken up at SIGHUP.",
    ),
    key(
        "ssl.certfile",
        Kind::Name,
        "",
        "File of the node's certificate for clients, and of its chain (PEM or DER). It is loaded again when \
         it changes, and at SIGHUP.",
    ),
    key(
        "ssl.keyfile",
        Kind::Name,
        "",
        "File of the certificate's private key (PEM or DER; PKCS#1, PKCS#8 or SEC1). Only the node's own \
         user may read it.",
    ),
    key(
        "ssl.cacertfile",
        Kind::Name,
        "",
        "File of the authorities that clients' certificates are held against. Not set: clients are not asked \
         for certificates.",
    ),
    key(
        "ssl.crlfile",
        Kind::Name,
        "",
        "Files of revocation lists that clients' certificates are held against, separated by commas; see \
         check_crl.",
    ),
    key(
        "check_crl",
        Kind::Flag,
        "on",
        "Whether certificates on the lists of ssl.crlfile are refused.",
    ),
    key(
        "honor_cipher_order",
        Kind::Flag,
        "off",
        "Whether the node's order of ciphers counts, not the client's.",
    ),
    key("tls_protocols.tlsv1.2", Kind::Flag, "on", "Whether TLS 1.2 is spoken with clients."),
    key("tls_protocols.tlsv1.3", Kind::Flag, "on", "Whether TLS 1.3 is spoken with clients."),
    key(
        "tls_protocols.sslv3",
        Kind::Flag,
        "off",
        "Riak's setting. Quoit does not speak SSL 3: on stops the start.",
    ),
    key(
        "tls_protocols.tlsv1",
        Kind::Flag,
        "off",
        "Riak's setting. Quoit does not speak TLS 1.0: on stops the start.",
    ),
    key(
        "tls_protocols.tlsv1.1",
        Kind::Flag,
        "off",
        "Riak's setting. Quoit does not speak TLS 1.1: on stops the start.",
    ),
    key(
        "security.ignore",
        Kind::Name,
        "",
        "Names of settings, separated by commas, that promise TLS or rights which the node can't keep, and \
         are ignored all the same. Others of them stop the start.",
    ),
    key(
        "security.failure_delay",
        Kind::Duration(0),
        "5s",
        "Time after which a refused login is answered, over both protocols.",
    ),
    key(
        "security.attempts.maximum",
        Kind::Integer(1, 100),
        "3",
        "Refused logins after which a connection is closed.",
    ),
    key("security.handshake_timeout", Kind::Duration(100), "10s", "Time for a TLS handshake."),
    key(
        "security.login_timeout",
        Kind::Duration(1_000),
        "60s",
        "While security is on, a connection that has not logged in after so long is closed.",
    ),
    key(
        "security.cut_off.refuse_logins_after",
        Kind::Duration(1_000),
        "",
        "A node that has reached no majority of the voters for so long, and may not know of users and rights \
         that were changed elsewhere, refuses new logins [default: never].",
    ),
    key(
        "security.bytes_before_login.maximum",
        Kind::Size(KB, 64 * MB),
        "64KB",
        "Largest message or body that is read of a client that has not logged in, while security is on.",
    ),
    key(
        "security.unauthenticated.maximum",
        Kind::Integer(1, 1_000_000),
        "1024",
        "Connections that have not logged in at the same time, while security is on; further ones are \
         closed.",
    ),
    key(
        "security.unauthenticated.per_address",
        Kind::Integer(1, 1_000_000),
        "256",
        "Those of one address, or of one IPv6 network of 64 bits.",
    ),
    key(
        "security.open_statistics",
        Kind::Flag,
        "off",
        "Whether /stats and /metrics are answered without a login while security is on.",
    ),
    key(
        "security.hashing.maximum",
        Kind::Integer(1, 64),
        "2",
        "Passwords that are hashed at the same time; each takes security.hashing.memory.",
    ),
    key(
        "security.hashing.memory",
        Kind::Size(8 * KB, 256 * MB),
        "19MB",
        "Memory that the hash of a new password takes, at each login too: the more, the dearer to guess.",
    ),
    key(
        "security.sessions.maximum",
        Kind::Integer(0, 1_000_000),
        "4096",
        "TLS sessions that are remembered for clients that resume them; 0: none.",
    ),
];
