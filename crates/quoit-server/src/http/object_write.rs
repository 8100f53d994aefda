//! Writing and deleting objects.

use super::conditions::{clock, write_precondition};
use super::connection::{HttpConnection, Request};
use super::head::Head;
use super::links;
use super::negotiate::choose_media_type;
use super::object_read::{answer_bytes, value_bytes};
use super::params::ObjectParams;
use super::refusal::Refusal;
use super::render::Rendered;
use super::response::{MULTIPART, TEXT, append_location, reply};
use super::route::{BucketName, RecordName, UrlForm};
use crate::index_entries::{self, IndexFault};
use bytes::Bytes;
use quoit_core::{
    DeleteOutcome, DeleteRequest, Precondition, PutRequest, ReadOptions, RequestError,
};
use quoit_model::clock::VersionVector;
use quoit_model::key::KeyRef;
use quoit_model::object::{IndexEntry, Metadata, Object, UserMeta, UserMetaForm};
use quoit_model::sibling_order::sort_for_clients;

const US_PER_SEC: u64 = 1_000_000;
const INDEX_PREFIX: &str = "x-riak-index-";
/// Header of Quoit: seconds until the object expires.
const TTL: &str = "x-quoit-ttl";

/// Everything that a write has besides its value.
pub(super) struct WriteHead {
    params: ObjectParams,
    meta: Metadata,
    context: VersionVector,
    precondition: Precondition,
    /// Text of the refusal that follows if the conditions hold.
    vetoed: Option<String>,
}

impl HttpConnection {
    /// Parses a write except for its value, and makes all checks that do not need the value.
    ///
    /// # Errors
    ///
    /// The first fault, in Riak's order of checks.
    pub(super) fn check_write(
        &self,
        head: &Head,
        bucket: &BucketName<'_>,
        query: &[u8],
    ) -> Result<WriteHead, Refusal> {
        if head.get("content-type").is_none() {
            return Err(Refusal::bad("Missing Content-Type request header"));
        }
        let params = ObjectParams::parse(query).map_err(Refusal::bad)?;
        let now_secs = self.context.store.clock().unix_us() / US_PER_SEC;
        let meta = metadata(head, bucket.form, &bucket.bucket, now_secs).map_err(Refusal::bad)?;
        let context = clock(head, "x-riak-vclock")?.unwrap_or_default();
        let precondition = write_precondition(head)?;
        self.check_origin(head)?;
        self.check_bucket(bucket)?;
        let vetoed = media_type_fault(meta.content_type.as_deref().unwrap_or_default());
        match vetoed {
            Some(text) if precondition.is_none() => Err(Refusal::Text(415, text.into())),
            // Failed conditions take precedence over this refusal, and only the store can evaluate them.
            vetoed => Ok(WriteHead { params, meta, context, precondition, vetoed }),
        }
    }

    /// Answers PUT and POST. Without a key, the server generates one.
    pub(super) async fn put_object(
        &mut self,
        request: &Request,
        bucket: &BucketName<'_>,
        key: Option<&[u8]>,
        query: &[u8],
    ) -> Result<(), Refusal> {
        let head = &request.head;
        let WriteHead { params, meta, context, precondition, vetoed } =
            self.check_write(head, bucket, query)?;
        let generated = match key {
            Some(_) => None,
            None => Some(self.context.store.generate_key()?),
        };
        let key = bucket.as_ref().key(key.or(generated.as_deref()).unwrap_or_default());
        let stored = self
            .context
            .store
            .put(PutRequest {
                key,
                context,
                meta,
                value: request.body.clone(),
                deleted: false,
                as_is: params.as_is,
                precondition,
                return_object: params.return_body,
                options: params.write_options(),
                vetoed,
                tag: Bytes::new(),
                given: None,
            })
            .await
            .map_err(|fault| match fault {
                RequestError::Vetoed(text) => Refusal::Text(415, text.into()),
                fault => fault.into(),
            })?;
        match stored {
            Some(mut object) => {
                sort_for_clients(&mut object);
                match object.siblings.as_slice() {
                    [sibling] if self.shares(sibling) => {
                        self.reservation.hold_shared(&self.out, value_bytes(&object))?;
                    }
                    _ => self.hold_answer(answer_bytes(&object))?,
                }
                self.write_stored(head, bucket.form, key, &object, generated.is_some());
            }
            None => self.write_done(bucket.form, key, generated.is_some()),
        }
        Ok(())
    }

    fn write_done(&mut self, form: UrlForm, key: KeyRef<'_>, created: bool) {
        if !created {
            reply(&mut self.out, self.form, 204).finish(b"");
            return;
        }
        reply(&mut self.out, self.form, 201)
            .lines(|out| append_location(out, form, key))
            .finish(b"");
    }

    /// Answers with the stored object. The write is done, so the client's `Accept` only selects the form
    /// and can't cause an error.
    fn write_stored(
        &mut self,
        head: &Head,
        form: UrlForm,
        key: KeyRef<'_>,
        object: &Object,
        created: bool,
    ) {
        let rendered = Rendered { key, form, object };
        if let [sibling] = object.siblings.as_slice() {
            let status = if created { 201 } else { 200 };
            if self.shares(sibling) {
                rendered.write_head(&mut self.out, self.form, status, sibling, created);
                self.shared.push(self.out.len(), sibling.value.clone());
                return;
            }
            rendered.write_value(&mut self.out, self.form, status, sibling, created);
        } else if wants_values(head.get_list("accept").as_deref()) {
            rendered.write_multipart(&mut self.out, self.form, 300);
        } else {
            rendered.write_tags(&mut self.out, self.form, 300);
        }
    }

    /// Answers DELETE.
    pub(super) async fn delete_object(
        &mut self,
        request: &Request,
        name: &RecordName<'_>,
        query: &[u8],
    ) -> Result<(), Refusal> {
        let params = ObjectParams::parse(query).map_err(Refusal::bad)?;
        let context = clock(&request.head, "x-riak-vclock")?;
        let precondition = write_precondition(&request.head)?;
        self.check_origin(&request.head)?;
        let request = DeleteRequest {
            key: name.as_ref(),
            context,
            precondition,
            rw: params.rw(),
            // `node_confirms` only applies to the write.
            read: ReadOptions { node_confirms: None, ..params.read_options() },
            write: params.write_options(),
        };
        match self.context.store.delete(request).await? {
            DeleteOutcome::Done => reply(&mut self.out, self.form, 204).finish(b""),
            DeleteOutcome::Missing => return Err(Refusal::not_found()),
        }
        Ok(())
    }

    /// Refuses buckets whose type does not exist or is not active.
    pub(super) fn check_bucket(&self, bucket: &BucketName<'_>) -> Result<(), Refusal> {
        let state = self.context.store.control().read();
        if state.bucket_props(bucket.as_ref()).is_err() {
            let name = bucket.bucket_type.to_vec();
            return Err(RequestError::NoSuchType(name).into());
        }
        Ok(())
    }
}

/// True if a write with `returnbody` is answered with the values of siblings, false if with their tags.
/// Unlike for a read, a client that accepts anything gets the values. Without an `Accept` header it gets
/// the tags.
fn wants_values(accept: Option<&[u8]>) -> bool {
    accept.is_some_and(|accept| {
        choose_media_type(Some(accept), &[MULTIPART, TEXT]) == Some(MULTIPART)
    })
}

/// The metadata of a value, from the headers of a write.
///
/// # Errors
///
/// The text for the client.
pub fn metadata(
    head: &Head,
    form: UrlForm,
    bucket: &[u8],
    now_secs: u64,
) -> Result<Metadata, String> {
    let (content_type, charset) = match head.get_shared("content-type") {
        Some(header) => split_content_type(&header),
        None => (None, None),
    };
    Ok(Metadata {
        content_type,
        charset,
        content_encoding: head.get_list_shared("content-encoding"),
        links: links::parse(head.get_all("link"), form, bucket)?,
        user_meta: user_meta(head),
        indexes: index_headers(head)?,
        expires_at_secs: expiry(head, now_secs)?,
        ..Metadata::default()
    })
}

/// The pairs of user metadata, each name once. The values of a repeated header are joined to a list.
fn user_meta(head: &Head) -> Vec<UserMeta> {
    let mut pairs: Vec<UserMeta> = Vec::new();
    for (name, value) in head.with_prefix("x-riak-meta-") {
        let name = canonical(&name);
        match pairs.iter_mut().find(|pair| pair.name == name) {
            Some(UserMeta { value: Some(first), .. }) => {
                *first = [first, &b", "[..], &value].concat().into();
            }
            _ => pairs.push(UserMeta { name, value: Some(value), form: UserMetaForm::Text }),
        }
    }
    pairs
}

/// Length in bytes up to which Riak normalises the case of a name; longer names stay as sent.
const SPELLED_BYTES_MAX: usize = 50;

/// A header name in the case in which Riak stores it: a capital at the start of each word, else lower case.
fn canonical(name: &Bytes) -> Bytes {
    if name.len() > SPELLED_BYTES_MAX {
        return name.clone();
    }
    let mut starts_word = true;
    name.iter()
        .map(|byte| {
            let spelled =
                if starts_word { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() };
            starts_word = *byte == b'-';
            spelled
        })
        .collect()
}

/// The media type without parameters, and the charset. Other parameters are dropped.
fn split_content_type(header: &Bytes) -> (Option<Bytes>, Option<Bytes>) {
    let mut parts = header.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let shared = |part: &[u8]| if part.is_empty() { Bytes::new() } else { header.slice_ref(part) };
    let media = parts.next().map(shared);
    let charset = parts.find_map(|parameter| {
        let (name, value) = parameter.split_at_checked("charset=".len())?;
        (name.eq_ignore_ascii_case(b"charset=") && !value.is_empty()).then(|| shared(value))
    });
    (media, charset)
}

/// The fault of a media type; `None` if it is valid.
fn media_type_fault(media: &[u8]) -> Option<String> {
    let halves = media.split(|byte| *byte == b'/').filter(|half| !half.is_empty()).count();
    let media = String::from_utf8_lossy(media);
    (halves != 2)
        .then(|| format!("\"{media}\" is not a valid media type for the Content-type header.\n"))
}

fn index_headers(head: &Head) -> Result<Vec<IndexEntry>, String> {
    let pairs = head.with_prefix(INDEX_PREFIX).flat_map(|(name, value)| {
        let field = name.slice(INDEX_PREFIX.len()..);
        terms(value).map(move |term| (field.clone(), term))
    });
    index_entries::parse_all(pairs).map_err(|faults| faults.iter().map(index_fault).collect())
}

/// The terms of a header, separated by a comma and one space. A comma without a space belongs to the term.
fn terms(value: Bytes) -> impl Iterator<Item = Bytes> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let end = text.windows(2).position(|pair| pair == b", " || pair == b",\t");
        Some(match end {
            Some(end) => {
                rest = Some(text.slice(end + 2..));
                text.slice(..end)
            }
            None => text,
        })
    })
}

fn index_fault(fault: &IndexFault) -> String {
    let shown = String::from_utf8_lossy;
    match fault {
        IndexFault::UnknownFieldType(field) => {
            format!("Unknown field type for field: '{}'.\n", shown(field))
        }
        IndexFault::NotAnInteger { field, term } => {
            format!("Could not parse field '{}', value '{}'.\n", shown(field), shown(term))
        }
    }
}

fn expiry(head: &Head, now_secs: u64) -> Result<Option<u32>, String> {
    let Some(text) = head.get(TTL) else { return Ok(None) };
    let text = String::from_utf8_lossy(text);
    match text.trim().parse::<u32>() {
        Ok(ttl_secs) if ttl_secs > 0 => {
            let at = now_secs.saturating_add(u64::from(ttl_secs));
            Ok(Some(u32::try_from(at).unwrap_or(u32::MAX)))
        }
        _ => Err(format!(
            "X-Quoit-Ttl must be a number of seconds from 1 to 4294967295, not {text:?}\n"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::take_head;
    use bytes::BytesMut;
    use quoit_model::object::IndexTerm;

    fn read(headers: &str) -> Result<Metadata, String> {
        let text = format!("PUT / HTTP/1.1\r\n{headers}\r\n\r\n");
        let head = take_head(&mut BytesMut::from(text.as_str())).expect("valid").expect("whole");
        metadata(&head, UrlForm::Untyped, b"b", 1_000)
    }

    #[test]
    fn of_a_media_type_only_the_charset_is_kept() {
        let meta = read("Content-Type: text/plain ;a=b; Charset=UTF-8").expect("valid");
        assert_eq!(meta.content_type.as_deref(), Some(&b"text/plain"[..]));
        assert_eq!(meta.charset.as_deref(), Some(&b"UTF-8"[..]));
        let meta = read("Content-Type: text/plain; boundary=x").expect("valid");
        assert_eq!(meta.charset, None);
    }

    #[test]
    fn a_media_type_has_two_halves() {
        assert_eq!(media_type_fault(b"application/vnd.x+json"), None);
        for bad in [&b"banana"[..], b"", b"a/", b"a/b/c"] {
            assert!(media_type_fault(bad).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn index_terms_are_separated_by_comma_and_blank() {
        let meta = read("X-Riak-Index-F_bin: b, a,c\r\nx-riak-index-n_INT: 10, 9").expect("valid");
        let entries: Vec<_> =
            meta.indexes.iter().map(|entry| (&*entry.field, entry.term.clone())).collect();
        let binary = |text: &'static str| IndexTerm::Binary(text.into());
        let expected: [(&[u8], IndexTerm); 4] = [
            (b"f_bin", binary("a,c")),
            (b"f_bin", binary("b")),
            (b"n_int", IndexTerm::integer(9)),
            (b"n_int", IndexTerm::integer(10)),
        ];
        assert_eq!(entries, expected);
    }

    #[test]
    fn bad_index_entries_are_named() {
        assert_eq!(read("X-Riak-Index-f: x"), Err("Unknown field type for field: 'f'.\n".into()));
        let fault = read("X-Riak-Index-f_int: x").expect_err("not a number");
        assert_eq!(fault, "Could not parse field 'f_int', value 'x'.\n");
    }

    #[test]
    fn a_ttl_counts_from_now() {
        assert_eq!(read("X-Quoit-Ttl: 60").expect("valid").expires_at_secs, Some(1_060));
        assert_eq!(read("X-Quoit-Ttl: 4294967295").expect("valid").expires_at_secs, Some(u32::MAX));
        for bad in ["0", "-1", "x", ""] {
            assert!(read(&format!("X-Quoit-Ttl: {bad}")).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_of_user_metadata_are_stored_in_one_spelling() {
        let meta = read("x-riak-meta-COLOUR-of-x: Blue").expect("valid");
        assert_eq!(meta.user_meta[0].name, "X-Riak-Meta-Colour-Of-X");
        assert_eq!(meta.user_meta[0].form, UserMetaForm::Text);
    }

    #[test]
    fn user_metadata_sent_twice_is_one_list() {
        let headers = "X-Riak-Meta-a: 1\r\nX-Riak-Meta-b: 2\r\nx-riak-meta-A: 3";
        let meta = read(headers).expect("valid").user_meta;
        let pairs: Vec<_> = meta.iter().map(|pair| (&*pair.name, pair.value.as_deref())).collect();
        let expected: [(&[u8], Option<&[u8]>); 2] =
            [(b"X-Riak-Meta-A", Some(b"1, 3")), (b"X-Riak-Meta-B", Some(b"2"))];
        assert_eq!(pairs, expected);
    }
}
