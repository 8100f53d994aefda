//! Recognition of other protocols by the first bytes of a stream.

/// The protocol whose first bytes were read as the length of a frame. This happens when a client of
/// another protocol connects to the wrong port. Returns `None` if the number may be a length.
pub(crate) fn protocol_of_length(length: u64) -> Option<&'static str> {
    let bytes = u32::try_from(length).ok()?.to_be_bytes();
    match &bytes {
        b"HTTP" | b"GET " | b"PUT " | b"POST" | b"HEAD" | b"DELE" | b"OPTI" | b"PATC" => {
            Some("HTTP")
        }
        // A TLS record: handshake or alert, version 3.
        [0x15 | 0x16, 3, ..] => Some("TLS"),
        b"SSH-" => Some("SSH"),
        _ => None,
    }
}

/// The protocol that this side expects on a connection.
pub(crate) struct ExpectedProtocol {
    pub(crate) name: &'static str,
    /// The setting of its port, with the default.
    pub(crate) port: &'static str,
}

/// Text of the error of a frame that is too large: names the other protocol, or the length and the
/// remedy.
pub(crate) fn too_large(
    (length, length_max): (u64, u32),
    expected: &ExpectedProtocol,
    remedy: &'static str,
) -> String {
    let ExpectedProtocol { name: own, port } = expected;
    match protocol_of_length(length) {
        Some(protocol) => {
            format!("the other side speaks {protocol}, not {own}: give the address of its {port}")
        }
        None => format!("frame of {length} bytes is above the limit of {length_max}; {remedy}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_answer_of_http_is_no_length() {
        assert_eq!(protocol_of_length(1_213_486_160), Some("HTTP"));
        assert_eq!(protocol_of_length(u64::from(u32::from_be_bytes([0x16, 3, 1, 2]))), Some("TLS"));
        assert_eq!(protocol_of_length(60 << 20), None);
        assert_eq!(protocol_of_length(1 << 40), None);
    }
}
