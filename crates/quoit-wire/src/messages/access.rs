//! Messages about the connection itself: errors, ping, client id, server info, authentication.

use super::declare::messages;

messages! {
    /// Answer to any request that failed.
    message RpbErrorResp: ErrorResp {
        /// Description of the error, for people and for the few clients that compare it.
        required bytes errmsg = 1;
        /// Always 0, in Riak and in Quoit; clients show it.
        required uint32 errcode = 2;
    }

    /// Checks that the node answers.
    message RpbPingReq: PingReq {}

    /// Answer to [`RpbPingReq`].
    message RpbPingResp: PingResp {}

    /// Requests the connection's client id.
    message RpbGetClientIdReq: GetClientIdReq {}

    /// Answer to [`RpbGetClientIdReq`].
    message RpbGetClientIdResp: GetClientIdResp {
        /// The id last set on this connection; initially four zero bytes.
        required bytes client_id = 1;
    }

    /// Sets the connection's client id. The server returns it on request and does not use it
    /// otherwise.
    message RpbSetClientIdReq: SetClientIdReq {
        /// Any bytes.
        required bytes client_id = 1;
    }

    /// Answer to [`RpbSetClientIdReq`].
    message RpbSetClientIdResp: SetClientIdResp {}

    /// Requests the node's name and version.
    message RpbGetServerInfoReq: GetServerInfoReq {}

    /// Answer to [`RpbGetServerInfoReq`].
    message RpbGetServerInfoResp: GetServerInfoResp {
        /// The node's name, as in `quoit@127.0.0.1`.
        optional bytes node = 1;
        /// Version as three integers with dots. Clients choose features by it.
        optional bytes server_version = 2;
    }

    /// Presents a user's name and password, inside TLS.
    message RpbAuthReq: AuthReq {
        /// The user's name.
        required bytes user = 1;
        /// The password; empty if the source of the login needs none.
        required bytes password = 2;
    }

    /// Answer to [`RpbAuthReq`].
    message RpbAuthResp: AuthResp {}

    /// Requests TLS; the server agrees with the same message.
    message RpbStartTls: StartTls {}
}
