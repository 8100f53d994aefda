//! Link headers: `</buckets/B/keys/K>; riaktag="T"`.

use super::route::UrlForm;
use super::uri;
use bytes::Bytes;
use quoit_model::object::Link;

/// Parses the Link headers of a write. The link "up" to the object's own bucket, which answers carry, is
/// allowed once and not stored.
///
/// # Errors
///
/// The text for the client.
pub fn parse<'h>(
    headers: impl Iterator<Item = &'h [u8]>,
    form: UrlForm,
    bucket: &[u8],
) -> Result<Vec<Link>, String> {
    let mut links = Vec::new();
    let mut has_up = false;
    for entry in headers.flat_map(entries) {
        match parse_entry(entry, form) {
            Some(LinkEntry::Key(link)) => links.push(link),
            Some(LinkEntry::Up(own)) if own == bucket && !has_up => has_up = true,
            _ => return Err(fault(form)),
        }
    }
    Ok(links)
}

enum LinkEntry {
    Key(Link),
    Up(Vec<u8>),
}

/// Splits a header at commas outside of `<>` and of quotes.
fn entries(header: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(header);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let (mut in_url, mut in_quotes) = (false, false);
        for (place, byte) in text.iter().enumerate() {
            match byte {
                b'<' if !in_quotes => in_url = true,
                b'>' if !in_quotes => in_url = false,
                b'"' if !in_url => in_quotes = !in_quotes,
                b',' if !in_url && !in_quotes => {
                    let (entry, behind) = text.split_at_checked(place)?;
                    rest = behind.strip_prefix(b",");
                    return Some(entry);
                }
                _ => {}
            }
        }
        Some(text)
    })
    .map(<[u8]>::trim_ascii)
    .filter(|entry| !entry.is_empty())
}

fn parse_entry(entry: &[u8], form: UrlForm) -> Option<LinkEntry> {
    let inside = entry.strip_prefix(b"<")?;
    let (path, parameters) = uri::split_once(inside, b'>')?;
    let parameter = parameters.trim_ascii().strip_prefix(b";")?.trim_ascii();
    let parts = uri::segments(path)?;
    let (bucket, key) = match (form, parts.as_slice()) {
        (UrlForm::Old, [b"riak", bucket]) => (bucket, None),
        (UrlForm::Old, [b"riak", bucket, key]) => (bucket, Some(key)),
        (UrlForm::Untyped | UrlForm::Typed, [b"buckets", bucket]) => (bucket, None),
        (UrlForm::Untyped | UrlForm::Typed, [b"buckets", bucket, b"keys", key]) => {
            (bucket, Some(key))
        }
        _ => return None,
    };
    let bucket = uri::decode(bucket).into_owned();
    match key {
        None => (quoted(parameter, "rel=")? == b"up").then_some(LinkEntry::Up(bucket)),
        Some(key) => Some(LinkEntry::Key(Link {
            bucket: Bytes::from(bucket),
            key: Bytes::from(uri::decode(key).into_owned()),
            tag: Bytes::from(uri::decode(quoted(parameter, "riaktag=")?).into_owned()),
        })),
    }
}

fn quoted<'p>(parameter: &'p [u8], name: &str) -> Option<&'p [u8]> {
    let value =
        parameter.strip_prefix(name.as_bytes())?.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    (!value.contains(&b'"')).then_some(value)
}

fn fault(form: UrlForm) -> String {
    let shape = match form {
        UrlForm::Old => "</riak/BUCKET/KEY>",
        UrlForm::Untyped | UrlForm::Typed => "</buckets/BUCKET/keys/KEY>",
    };
    format!("Invalid Link header. Links must be of the form\n{shape}; riaktag=\"TAG\"\n")
}

/// Appends the value of a Link header: the stored links, and "up" to the object's bucket.
pub fn append(out: &mut Vec<u8>, links: &[Link], form: UrlForm, bucket: &[u8]) {
    let base: &[u8] = if form == UrlForm::Old { b"</riak/" } else { b"</buckets/" };
    out.extend_from_slice(base);
    uri::encode_into(out, bucket);
    out.extend_from_slice(b">; rel=\"up\"");
    for link in links {
        out.extend_from_slice(b", ");
        out.extend_from_slice(base);
        uri::encode_into(out, &link.bucket);
        out.extend_from_slice(if form == UrlForm::Old { b"/" } else { b"/keys/" });
        uri::encode_into(out, &link.key);
        out.extend_from_slice(b">; riaktag=\"");
        uri::encode_into(out, &link.tag);
        out.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(header: &str, form: UrlForm) -> Result<Vec<Link>, String> {
        parse([header.as_bytes()].into_iter(), form, b"own")
    }

    fn link(bucket: &'static str, key: &'static str, tag: &'static str) -> Link {
        Link { bucket: bucket.into(), key: key.into(), tag: tag.into() }
    }

    #[test]
    fn names_in_links_are_decoded() {
        let header =
            "</buckets/b%202/keys/k%2F2>; riaktag=\"t%20g\",</buckets/b/keys/k>;riaktag=\"\"";
        let links = read(header, UrlForm::Untyped).expect("valid");
        assert_eq!(links, [link("b 2", "k/2", "t g"), link("b", "k", "")]);
    }

    #[test]
    fn the_link_up_is_taken_once_and_only_to_the_own_bucket() {
        let up = "</buckets/own>; rel=\"up\"";
        assert_eq!(read(up, UrlForm::Typed), Ok(vec![]));
        assert!(read(&format!("{up}, {up}"), UrlForm::Typed).is_err());
        assert!(read("</buckets/other>; rel=\"up\"", UrlForm::Typed).is_err());
        assert!(read("</buckets/own>; rel=\"down\"", UrlForm::Typed).is_err());
    }

    #[test]
    fn links_have_the_form_of_the_request() {
        assert!(read("</riak/b/k>; riaktag=\"t\"", UrlForm::Old).is_ok());
        let fault = read("</riak/b/k>; riaktag=\"t\"", UrlForm::Untyped).expect_err("old form");
        let expected = "Invalid Link header. Links must be of the form\n\
                        </buckets/BUCKET/keys/KEY>; riaktag=\"TAG\"\n";
        assert_eq!(fault, expected);
        for bad in ["nonsense", "<", "</buckets/b/keys/k>", "</buckets/b/keys/k>; riaktag=t"] {
            assert!(read(bad, UrlForm::Untyped).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            names in prop::collection::vec(prop::collection::vec(1..=255u8, 1..6), 3..10),
            old in any::<bool>(),
        ) {
            let form = if old { UrlForm::Old } else { UrlForm::Untyped };
            let links: Vec<Link> = names
                .chunks_exact(3)
                .map(|part| Link {
                    bucket: part[0].clone().into(),
                    key: part[1].clone().into(),
                    tag: part[2].clone().into(),
                })
                .collect();
            let mut header = Vec::new();
            append(&mut header, &links, form, b"own");
            let read = parse([header.as_slice()].into_iter(), form, b"own");
            prop_assert_eq!(read, Ok(links));
        }
    }
}
