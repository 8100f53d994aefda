//! Requests that a web page made a browser send.

use super::head::Head;
use super::refusal::Refusal;

/// Refuses what comes from another site: an `Origin` of `null`, and a `Referer` whose scheme, host
/// or port is not this server's, as the request's `Host` names it.
///
/// # Errors
///
/// 403 for such requests.
pub fn check(head: &Head, checks_referer: bool) -> Result<(), Refusal> {
    let null_origin = head.get("origin") == Some(b"null");
    let foreign = checks_referer
        && head.get("referer").is_some_and(|referer| !is_own(referer, head.get("host")));
    if null_origin || foreign {
        let text = "Forbidden: the request comes from another site (see secure_referer_check).\n";
        return Err(Refusal::Text(403, text.into()));
    }
    Ok(())
}

fn is_own(referer: &[u8], host: Option<&[u8]>) -> bool {
    let scheme = b"http://";
    let (Some(start), Some(host)) = (referer.get(..scheme.len()), host) else { return false };
    if !start.eq_ignore_ascii_case(scheme) {
        return false;
    }
    let rest = &referer[scheme.len()..];
    let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
    let authority = &rest[..end];
    let authority = match authority.iter().rposition(|byte| *byte == b'@') {
        Some(place) => &authority[place + 1..],
        None => authority,
    };
    without_default_port(authority).eq_ignore_ascii_case(without_default_port(host))
}

fn without_default_port(authority: &[u8]) -> &[u8] {
    authority.strip_suffix(b":80").unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::take_head;
    use bytes::BytesMut;

    fn is_allowed(headers: &str) -> bool {
        let text = format!("PUT / HTTP/1.1\r\nHost: a.example:8098\r\n{headers}\r\n\r\n");
        let head = take_head(&mut BytesMut::from(text.as_str())).expect("valid").expect("whole");
        check(&head, true).is_ok()
    }

    #[test]
    fn requests_of_other_sites_are_refused() {
        assert!(is_allowed("X: y"));
        assert!(is_allowed("Referer: http://a.example:8098/page?x"));
        assert!(is_allowed("Referer: HTTP://A.example:8098"));
        assert!(is_allowed("Origin: http://a.example:8098"));
        for foreign in [
            "Referer: http://evil.example/page",
            "Referer: http://a.example:8099/",
            "Referer: https://a.example:8098/",
            "Referer: http://a.example:8098@evil.example/",
            "Referer: nonsense",
            "Referer: ",
            "Origin: null",
        ] {
            assert!(!is_allowed(foreign), "{foreign}");
        }
    }
}
