//! Link walking.

use super::connection::{HttpConnection, Request};
use super::head::Method;
use super::negotiate::accepts_media_type;
use super::refusal::Refusal;
use super::render::{Rendered, append_boundary, append_clock, boundary};
use super::response::{append_date, append_object_path, append_value, reply};
use super::route::{RecordName, UrlForm};
use super::uri;
use crate::memory::GatheredMemory;
use bytes::Bytes;
use quoit_core::ReadOptions;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE};
use quoit_model::object::{Link, Object};
use std::collections::HashSet;

/// Largest number of objects that a walk reads.
const OBJECT_COUNT_MAX: usize = 10_000;
/// Time in seconds for which the answer may be cached.
const EXPIRES_SECS: u64 = 600;

/// One step of a walk: the links to follow, and whether their targets are part of the answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    bucket: Option<Vec<u8>>,
    tag: Option<Vec<u8>>,
    keep: bool,
}

/// Parses steps of the form `bucket,tag,keep`; `_` matches any bucket or tag. `keep` is `1` to include the
/// objects of the step, `0` to leave them out; another value keeps only the last step. The only step of a
/// walk is always kept.
///
/// # Errors
///
/// A step that does not have this form.
pub fn parse_steps(parts: &[&[u8]]) -> Result<Vec<Step>, Refusal> {
    let bad = || {
        Refusal::bad(
            "Invalid link walk query submitted. Valid link walk query format is: \
             /riak/some_bucket/some_key/<bucket>,<riaktag>,0|1/...",
        )
    };
    let mut steps = Vec::new();
    for (place, part) in parts.iter().enumerate() {
        let fields: Vec<_> = part.split(|byte| *byte == b',').map(uri::decode).collect();
        let [bucket, tag, keep] = fields.as_slice() else { return Err(bad()) };
        if fields.iter().any(|field| field.is_empty()) {
            return Err(bad());
        }
        let keep = match &**keep {
            b"1" => true,
            b"0" => parts.len() == 1,
            // Any other value selects the default.
            _ => place + 1 == parts.len(),
        };
        let any = |field: &[u8]| (field != b"_").then(|| field.to_vec());
        steps.push(Step { bucket: any(bucket), tag: any(tag), keep });
    }
    if steps.is_empty() { Err(bad()) } else { Ok(steps) }
}

impl Step {
    fn follows(&self, link: &Link) -> bool {
        let fits = |wanted: &Option<Vec<u8>>, found: &Bytes| {
            wanted.as_ref().is_none_or(|wanted| *wanted == **found)
        };
        fits(&self.bucket, &link.bucket) && fits(&self.tag, &link.tag)
    }
}

/// An object that the walk has reached.
struct ReachedObject {
    bucket: Bytes,
    key: Bytes,
    object: Object,
}

/// Size of the values of an object, in bytes.
fn object_bytes(object: &Object) -> usize {
    object.siblings.iter().map(|sibling| sibling.value.len()).sum()
}

impl HttpConnection {
    /// Follows links, starting from an object. POST makes the same checks and does nothing else.
    pub(super) async fn walk(
        &mut self,
        request: &Request,
        name: &RecordName<'_>,
        parts: &[&[u8]],
    ) -> Result<(), Refusal> {
        let steps = parse_steps(parts)?;
        self.check_origin(&request.head)?;
        if *name.bucket.bucket_type != *DEFAULT_BUCKET_TYPE {
            let text = "Link-walking is not allowed on keys stored in bucket-types.";
            return Err(Refusal::Text(403, text.into()));
        }
        let mut gathered = GatheredMemory::new(&self.memory);
        gathered.hold_read(self.context.store.size_bytes_max(name.as_ref()))?;
        let start = self.context.store.get(name.as_ref(), &ReadOptions::default()).await?;
        let Some(start) = start.filter(|object| !object.is_tombstone()) else {
            return Err(Refusal::Page(404));
        };
        if request.head.method == Some(Method::Post) {
            reply(&mut self.out, self.form, 204).finish(b"");
            return Ok(());
        }
        if !accepts_media_type(request.head.get_list("accept").as_deref(), b"multipart/mixed") {
            return Err(Refusal::Page(406));
        }
        gathered.add(object_bytes(&start))?;
        let kept = self.follow(start, &steps, &mut gathered).await?;
        self.write_walk(name.bucket.form, &kept);
        Ok(())
    }

    /// The objects of each kept step.
    async fn follow(
        &self,
        start: Object,
        steps: &[Step],
        gathered: &mut GatheredMemory,
    ) -> Result<Vec<Vec<ReachedObject>>, Refusal> {
        let mut kept = Vec::new();
        let mut left = OBJECT_COUNT_MAX;
        let mut present =
            vec![ReachedObject { bucket: Bytes::new(), key: Bytes::new(), object: start }];
        for (place, step) in steps.iter().enumerate() {
            let next = self.targets(&present, step, &mut left, gathered).await?;
            let before = place.checked_sub(1).and_then(|before| steps.get(before));
            let wanted = before.is_some_and(|before| before.keep);
            let passed = std::mem::replace(&mut present, next);
            if wanted {
                kept.push(passed);
            }
        }
        if steps.last().is_some_and(|step| step.keep) {
            kept.push(present);
        }
        Ok(kept)
    }

    async fn targets(
        &self,
        present: &[ReachedObject],
        step: &Step,
        left: &mut usize,
        gathered: &mut GatheredMemory,
    ) -> Result<Vec<ReachedObject>, Refusal> {
        let links = present
            .iter()
            .flat_map(|found| &found.object.siblings)
            .flat_map(|sibling| &sibling.meta.links)
            .filter(|link| step.follows(link));
        let mut seen = HashSet::new();
        let mut targets = Vec::new();
        for link in links {
            // A record that two links name with different tags is visited twice, as in Riak.
            if link.bucket.is_empty() || link.key.is_empty() || !seen.insert(link) {
                continue;
            }
            if *left == 0 {
                return Err(Refusal::bad(format!(
                    "The walk meets more than {OBJECT_COUNT_MAX} objects; name bucket and tag, or \
                     walk fewer steps.\n"
                )));
            }
            *left -= 1;
            let key = BucketRef::untyped(&link.bucket).key(&link.key);
            gathered.hold_read(self.context.store.size_bytes_max(key))?;
            if let Some(object) = self.context.store.get(key, &ReadOptions::default()).await?
                && !object.is_tombstone()
            {
                gathered.add(object_bytes(&object))?;
                let (bucket, key) = (link.bucket.clone(), link.key.clone());
                targets.push(ReachedObject { bucket, key, object });
            }
        }
        Ok(targets)
    }

    fn write_walk(&mut self, form: UrlForm, kept: &[Vec<ReachedObject>]) {
        let outer = boundary();
        let mut body = Vec::new();
        for step in kept {
            append_boundary(&mut body, &outer, false);
            let inner = boundary();
            body.extend_from_slice(b"Content-Type: multipart/mixed; boundary=");
            body.extend_from_slice(inner.as_bytes());
            body.extend_from_slice(b"\r\n\r\n");
            for found in step {
                append_boundary(&mut body, &inner, false);
                append_found(&mut body, form, found);
            }
            append_boundary(&mut body, &inner, true);
        }
        append_boundary(&mut body, &outer, true);
        let media_type = format!("multipart/mixed; boundary={outer}");
        let expires_secs = self.context.store.clock().unix_secs() + EXPIRES_SECS;
        reply(&mut self.out, self.form, 200)
            .lines(|out| {
                out.extend_from_slice(b"Expires: ");
                append_date(out, expires_secs);
                out.extend_from_slice(b"\r\n");
            })
            .content_type(media_type.as_bytes())
            .finish(&body);
    }
}

/// Appends an object as a part: the sibling with the smallest value, and the tags of the other siblings.
fn append_found(body: &mut Vec<u8>, form: UrlForm, found: &ReachedObject) {
    let key = BucketRef::untyped(&found.bucket).key(&found.key);
    append_clock(body, &found.object.clock);
    body.extend_from_slice(b"Location: ");
    append_object_path(body, form, key.bucket, key.key);
    let mut siblings: Vec<_> = found.object.siblings.iter().collect();
    siblings.sort_by_key(|sibling| &sibling.value);
    let Some((first, others)) = siblings.split_first() else { return };
    if !others.is_empty() {
        body.extend_from_slice(b"?vtag=");
        uri::encode_into(body, &first.vtag);
        body.extend_from_slice(b"\r\nX-Riak-Sibling-VTags: ");
        for (place, sibling) in others.iter().enumerate() {
            if place > 0 {
                body.push(b',');
            }
            append_value(body, &sibling.vtag);
        }
    }
    body.extend_from_slice(b"\r\n");
    Rendered { key, form, object: &found.object }.append_part(body, first);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(path: &str) -> Option<Vec<Step>> {
        let parts: Vec<_> = path.split('/').map(str::as_bytes).collect();
        parse_steps(&parts).ok()
    }

    fn keeps(path: &str) -> Vec<bool> {
        steps(path).expect("a walk").iter().map(|step| step.keep).collect()
    }

    #[test]
    fn the_last_step_is_kept_unless_it_says_otherwise() {
        assert_eq!(keeps("_,_,_/_,_,_"), [false, true]);
        assert_eq!(keeps("_,_,2/_,_,x"), [false, true]);
        assert_eq!(keeps("_,_,1/_,_,0"), [true, false]);
        assert_eq!(keeps("_,_,0"), [true], "a walk that keeps nothing makes no sense");
    }

    #[test]
    fn names_in_steps_are_decoded_and_underscore_is_any() {
        let walk = steps("b%2C1,_,1").expect("a walk");
        let expected = Step { bucket: Some(b"b,1".to_vec()), tag: None, keep: true };
        assert_eq!(walk, [expected]);
        let link = |bucket: &'static str, tag: &'static str| Link {
            bucket: bucket.into(),
            key: "k".into(),
            tag: tag.into(),
        };
        assert!(walk[0].follows(&link("b,1", "any")));
        assert!(!walk[0].follows(&link("b", "any")));
    }

    #[test]
    fn what_is_no_walk_is_refused() {
        for bad in ["x", "_,_", "_,,1", ",_,1", "_,_,", "_,_,1,_", "_,_,1/x"] {
            assert_eq!(steps(bad), None, "{bad}");
        }
    }
}
