//! Decoding of a node's answer, which is a message or an error in its place.

use crate::error::{Error, ServerError};
use quoit_wire::messages::RpbErrorResp;
use quoit_wire::{Body, DecodeError, Frame, MessageCode};
/// Decodes an answer as the message `A`, or returns the error that the server sent instead.
pub(crate) fn answer<A: Body>(frame: Frame, address: &str) -> Result<A, Error> {
    let decoded = if frame.code == MessageCode::ErrorResp as u8 {
        match frame.decode::<RpbErrorResp>() {
            Ok(error) => return Err(server_error(&error).into()),
            Err(source) => Err(source),
        }
    } else {
        frame.decode::<A>()
    };
    decoded.map_err(|source| decode_error(source, address))
}

fn server_error(error: &RpbErrorResp) -> ServerError {
    let message = String::from_utf8_lossy(&error.errmsg).into_owned();
    ServerError { code: error.errcode, message }
}

fn decode_error(source: DecodeError, address: &str) -> Error {
    Error::Decode { address: address.to_owned(), source }
}
