//! The connection itself: errors, ping, client id, server info, authentication.

use super::declare::messages;

messages! {
    /// The answer of any request that failed.
    message RpbErrorResp: ErrorResp {
        /// Description of the error, for people and for the few clients that match on it.
        required bytes errmsg = 1;
        /// 0 from Riak and from Quoit; clients show it.
        required uint32 errcode = 2;
    }

    /// Are you there?
    message RpbPingReq: PingReq {}

    /// The answer of [`RpbPingReq`].
    message RpbPingResp: PingResp {}

    /// Asks for the connection's client id.
    message RpbGetClientIdReq: GetClientIdReq {}

    /// The answer of [`RpbGetClientIdReq`].
    message RpbGetClientIdResp: GetClientIdResp {
        /// The id last set on this connection; four zero bytes before that.
        required bytes client_id = 1;
    }

    /// Sets the connection's client id, which is given back on request and otherwise unused.
    message RpbSetClientIdReq: SetClientIdReq {
        /// Any bytes.
        required bytes client_id = 1;
    }

    /// The answer of [`RpbSetClientIdReq`].
    message RpbSetClientIdResp: SetClientIdResp {}

    /// Asks for the node's name and version.
    message RpbGetServerInfoReq: GetServerInfoReq {}

    /// The answer of [`RpbGetServerInfoReq`].
    message RpbGetServerInfoResp: GetServerInfoResp {
        /// The node's name, as in `quoit@127.0.0.1`.
        optional bytes node = 1;
        /// Three integers with dots between them; clients choose features by it.
        optional bytes server_version = 2;
    }

    /// Presents a user, inside TLS.
    message RpbAuthReq: AuthReq {
        /// The user's name.
        required bytes user = 1;
        /// The password; empty where the source of authentication needs none.
        required bytes password = 2;
    }

    /// The answer of [`RpbAuthReq`].
    message RpbAuthResp: AuthResp {}

    /// Asks to go on in TLS; the agreement is the same message.
    message RpbStartTls: StartTls {}
}
