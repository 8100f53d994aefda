//! Other protocols, by the bytes that a stream of theirs begins with.

/// The protocol that a number stands for which was read as the length of a frame: whoever connects to the
/// wrong port reads the beginning of another protocol's first message as one. `None` if it may be a length.
pub(crate) fn protocol_of_length(length: u64) -> Option<&'static str> {
    let bytes = u32::try_from(length).ok()?.to_be_bytes();
    match &bytes {
        b"HTTP" | b"GET " | b"PUT " | b"POST" | b"HEAD" | b"DELE" | b"OPTI" | b"PATC" => {
            Some("HTTP")
        }
        // A record of TLS: handshake or alert, of version 3.
        [0x15 | 0x16, 3, ..] => Some("TLS"),
        b"SSH-" => Some("SSH"),
        _ => None,
    }
}

/// The text about a frame that is too large: the protocol that it belongs to, or its length and the remedy.
pub(crate) fn too_large(
    (length, length_max): (u64, u32),
    own: &str,
    port: &str,
    remedy: &'static str,
) -> String {
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
