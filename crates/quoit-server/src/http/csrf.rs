//! Protection against requests that a browser sends for a malicious web page.

use super::head::{Head, Method};
use super::refusal::Refusal;

/// The scheme of the URLs by which this server is reached on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

/// Refuses requests from other sites: those with an `Origin` of `null`, and those with a `Referer` (or, for
/// methods that change something, an `Origin`) whose scheme, host or port differ from this server's, as the
/// request's `Host` gives it.
///
/// # Errors
///
/// Status 403 for such requests.
pub fn check(head: &Head, checks_referer: bool, scheme: Scheme) -> Result<(), Refusal> {
    let null_origin = head.get("origin") == Some(b"null");
    let is_foreign =
        |name: &str| head.get(name).is_some_and(|value| !is_own(value, head.get("host"), scheme));
    let changes = !matches!(head.method, Some(Method::Get | Method::Head));
    let foreign = is_foreign("referer") || (changes && is_foreign("origin"));
    if null_origin || (checks_referer && foreign) {
        let text = "Forbidden: the request comes from another site (see secure_referer_check).\n";
        return Err(Refusal::Text(403, text.into()));
    }
    Ok(())
}

/// Refuses a GET that changes something if it comes from a browser. A page of another site can cause such a
/// request without an `Origin` and a `Referer`, for example as the address of an image.
///
/// # Errors
///
/// Status 403 for such requests.
pub fn check_no_browser(head: &Head, checks_referer: bool) -> Result<(), Refusal> {
    let is_of_browser = is_of_page(head)
        || head.get("user-agent").is_some_and(|agent| agent.starts_with(b"Mozilla/"));
    if checks_referer && is_of_browser {
        let text = "Forbidden: this GET changes data, and browsers make such requests for pages of other \
                    sites (see secure_referer_check).\n";
        return Err(Refusal::Text(403, text.into()));
    }
    Ok(())
}

/// Refuses DNS rebinding: a page whose host name was made to resolve to this machine. For the browser such
/// a page has the same origin as this server, so it may read the answers. TLS needs no such check, because
/// the certificate does not have that name.
///
/// # Errors
///
/// Status 403 for such requests.
pub fn check_host(head: &Head, checks_referer: bool, node_name: &str) -> Result<(), Refusal> {
    let host = head.get("host").unwrap_or_default();
    if checks_referer && is_of_page(head) && !host.is_empty() && !is_this_machine(host, node_name) {
        let text = "Forbidden: a web page is answered here if it names this machine as localhost, by its IP \
                    address or as the node's name does (see secure_referer_check).\n";
        return Err(Refusal::Text(403, text.into()));
    }
    Ok(())
}

/// True if a browser sent the request for a web page. Only such requests are refused.
pub fn is_of_page(head: &Head) -> bool {
    head.has_any(&["origin", "referer", "sec-fetch-site"])
}

fn is_own(referer: &[u8], host: Option<&[u8]>, scheme: Scheme) -> bool {
    let beginning: &[u8] = match scheme {
        Scheme::Http => b"http://",
        Scheme::Https => b"https://",
    };
    let Some((start, rest)) = referer.split_at_checked(beginning.len()) else { return false };
    let Some(host) = host.filter(|_| start.eq_ignore_ascii_case(beginning)) else { return false };
    let authority = rest.split(|byte| b"/?#".contains(byte)).next().unwrap_or_default();
    let authority = authority.rsplit(|byte| *byte == b'@').next().unwrap_or_default();
    without_port(authority, scheme).eq_ignore_ascii_case(without_port(host, scheme))
}

/// An authority without the default port of its scheme.
fn without_port(authority: &[u8], scheme: Scheme) -> &[u8] {
    let port: &[u8] = match scheme {
        Scheme::Http => b":80",
        Scheme::Https => b":443",
    };
    authority.strip_suffix(port).unwrap_or(authority)
}

/// Refuses requests to the administration API that a browser sent for a web page, and requests whose `Host`
/// does not name this machine, which DNS rebinding produces.
///
/// # Errors
///
/// The reason as text.
pub fn check_no_page(head: &Head, is_local: bool, node_name: &str) -> Result<(), &'static str> {
    if is_of_page(head) {
        return Err("administration does not answer web pages");
    }
    let host = head.get("host").unwrap_or_default();
    if is_local && !host.is_empty() && !is_this_machine(host, node_name) {
        return Err(
            "the request is for another host: name this machine as localhost, by its IP address or as the \
             node's name does",
        );
    }
    Ok(())
}

fn is_this_machine(host: &[u8], node_name: &str) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let bare = match host.rsplit_once(':') {
        Some((bare, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => bare,
        _ => host,
    };
    let bare = bare.trim_start_matches('[').trim_end_matches(']');
    let own = node_name.split_once('@').map_or("", |(_, host)| host);
    bare.parse::<std::net::IpAddr>().is_ok()
        || bare.eq_ignore_ascii_case("localhost")
        || (!own.is_empty() && bare.eq_ignore_ascii_case(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::take_head;
    use bytes::BytesMut;

    fn is_allowed(headers: &str) -> bool {
        let text = format!("PUT / HTTP/1.1\r\nHost: a.example:8098\r\n{headers}\r\n\r\n");
        let head = take_head(&mut BytesMut::from(text.as_str())).expect("valid").expect("whole");
        check(&head, true, Scheme::Http).is_ok()
    }

    #[test]
    fn administration_answers_no_pages_and_no_foreign_names() {
        let reason = |headers: &str| {
            let text = format!("GET / HTTP/1.1\r\n{headers}\r\n\r\n");
            let head =
                take_head(&mut BytesMut::from(text.as_str())).expect("valid").expect("whole");
            check_no_page(&head, true, "quoit@db1.example").is_err()
        };
        for own in ["Host: localhost:8098", "Host: 127.0.0.1", "Host: [::1]:1", "Host: DB1.example"]
        {
            assert!(!reason(own), "{own}");
        }
        for foreign in
            ["Host: evil.example", "Host: localhost\r\nSec-Fetch-Site: none", "Origin: x"]
        {
            assert!(reason(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_get_that_changes_something_is_refused_to_browsers() {
        let is_allowed = |headers: &str| {
            let text = format!("GET /erase/buckets/b HTTP/1.1\r\nHost: a\r\n{headers}\r\n\r\n");
            let head =
                take_head(&mut BytesMut::from(text.as_str())).expect("valid").expect("whole");
            check_no_browser(&head, true).is_ok()
        };
        for program in ["X: y", "User-Agent: curl/8.5.0", "User-Agent: Riak-Erlang-HTTP-Client"] {
            assert!(is_allowed(program), "{program}");
        }
        for browser in
            ["User-Agent: Mozilla/5.0 (X11; Linux x86_64)", "Sec-Fetch-Site: same-origin"]
        {
            assert!(!is_allowed(browser), "{browser}");
        }
    }

    #[test]
    fn a_page_whose_name_was_made_to_lead_to_this_machine_is_refused() {
        let is_allowed = |headers: &str| {
            let text = format!("GET /buckets/b/keys/k HTTP/1.1\r\n{headers}\r\n\r\n");
            let head =
                take_head(&mut BytesMut::from(text.as_str())).expect("valid").expect("whole");
            check_host(&head, true, "quoit@db1.example").is_ok()
        };
        for own in [
            "Host: evil.example",
            "Host: 127.0.0.1\r\nOrigin: x",
            "Host: db1.example\r\nReferer: x",
        ] {
            assert!(is_allowed(own), "{own}");
        }
        for page in ["Origin: http://evil.example", "Referer: x", "Sec-Fetch-Site: same-origin"] {
            assert!(!is_allowed(&format!("Host: evil.example\r\n{page}")), "{page}");
        }
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
            "Origin: http://evil.example",
        ] {
            assert!(!is_allowed(foreign), "{foreign}");
        }
    }
}
