//! Encodes writes as messages between nodes.

use crate::coordinator::data_type::DataTypeRequest;
use crate::coordinator::put::{DeleteRequest, PutRequest};
use crate::options::{EntityTags, Precondition, ReadOptions, WriteOptions};
use bytes::Bytes;
use quoit_model::context::{decode_context, encode_context};
use quoit_model::data_type::Operation;
use quoit_model::key::KeyRef;
use quoit_model::object::{Object, Sibling};
use quoit_model::props::{Quorum, SyncOnWrite};
use quoit_wire::internode::data::{Forward, ForwardedCondition, ForwardedOptions, ForwardedTags};
use smallvec::smallvec;

/// Size in bytes from which a write goes over the connection for large messages.
pub(super) const FORWARD_LANE_BYTES: usize = 64 << 10;

/// A write on its way to its coordinator.
pub(super) struct Forwarding {
    pub(super) header: Forward,
    pub(super) payload: Bytes,
    /// True if making the write twice does no harm beyond a second sibling.
    pub(super) may_be_repeated: bool,
}

/// A write that has arrived at its coordinator.
#[expect(clippy::large_enum_variant, reason = "it lives on the stack of one call")]
pub(super) enum Forwarded<'a> {
    Put(PutRequest<'a>),
    Delete(DeleteRequest<'a>),
    Update(DataTypeRequest<'a>),
}

impl<'a> Forwarded<'a> {
    /// The record that is written.
    pub(super) const fn key(&self) -> KeyRef<'a> {
        match self {
            Self::Put(request) => request.key,
            Self::Delete(request) => request.key,
            Self::Update(request) => request.key,
        }
    }
}

impl Forwarding {
    /// A put whose value gets this entity tag.
    pub(super) fn put(request: &PutRequest<'_>, tag: Bytes) -> Self {
        let mut payload = Vec::with_capacity(request.value.len() + 256);
        match &request.given {
            Some(object) => object.encode_into(&mut payload),
            None => {
                let sibling = Sibling {
                    deleted: request.deleted,
                    vtag: tag,
                    meta: request.meta.clone(),
                    value: request.value.clone(),
                    ..Sibling::default()
                };
                let clock = request.context.clone();
                Object { clock, siblings: smallvec![sibling] }.encode_into(&mut payload);
            }
        }
        let header = Forward {
            key: name(request.key),
            delete: false,
            context: None,
            as_is: request.as_is,
            return_object: request.return_object,
            options: Some(write_options(&request.options)),
            condition: condition(&request.precondition),
            vetoed: request.vetoed.clone(),
            updates_data_type: false,
            whole_object: request.given.is_some(),
            ..Forward::default()
        };
        Self { header, payload: payload.into(), may_be_repeated: request.precondition.is_none() }
    }

    pub(super) fn delete(request: &DeleteRequest<'_>) -> Self {
        let read = &request.read;
        let options = ForwardedOptions {
            r: read.r.map(Quorum::to_pb),
            pr: read.pr.map(Quorum::to_pb),
            rw: request.rw.map(Quorum::to_pb),
            basic_quorum: read.basic_quorum,
            notfound_ok: read.notfound_ok,
            read_node_confirms: read.node_confirms.map(Quorum::to_pb),
            ..write_options(&request.write)
        };
        let header = Forward {
            key: name(request.key),
            delete: true,
            context: request.context.as_ref().map(encode_context),
            options: Some(options),
            condition: condition(&request.precondition),
            ..Forward::default()
        };
        let may_be_repeated = request.context.is_some() && request.precondition.is_none();
        Self { header, payload: Bytes::new(), may_be_repeated }
    }
}

impl Forwarding {
    pub(super) fn update(request: &DataTypeRequest<'_>) -> Self {
        let header = Forward {
            key: name(request.key),
            context: request.context.clone(),
            return_object: request.return_value,
            options: Some(write_options(&request.options)),
            updates_data_type: true,
            ..Forward::default()
        };
        Self { header, payload: request.operation.encode().into(), may_be_repeated: false }
    }
}

/// Decodes a forwarded write.
///
/// # Errors
///
/// A description of what is wrong with the message.
pub(super) fn read<'a>(header: &'a Forward, payload: &Bytes) -> Result<Forwarded<'a>, String> {
    let key = KeyRef::decode(&header.key).map_err(|fault| fault.to_string())?;
    let options = header.options.unwrap_or_default();
    let precondition = read_condition(header.condition.as_ref())?;
    let write = read_write_options(&options);
    if header.updates_data_type {
        return Ok(Forwarded::Update(DataTypeRequest {
            key,
            operation: Operation::decode(payload).map_err(|fault| fault.to_string())?,
            context: header.context.clone(),
            return_value: header.return_object,
            options: write,
        }));
    }
    if header.delete {
        let context = header.context.as_deref().map(decode_context).transpose();
        let read = ReadOptions {
            r: options.r.and_then(Quorum::from_pb),
            pr: options.pr.and_then(Quorum::from_pb),
            node_confirms: options.read_node_confirms.and_then(Quorum::from_pb),
            n_val: options.n_val,
            basic_quorum: options.basic_quorum,
            notfound_ok: options.notfound_ok,
            sloppy_quorum: options.sloppy_quorum,
            timeout_ms: options.timeout_ms,
        };
        return Ok(Forwarded::Delete(DeleteRequest {
            key,
            context: context.map_err(|fault| fault.to_string())?,
            precondition,
            rw: options.rw.and_then(Quorum::from_pb),
            read,
            write,
        }));
    }
    let object = Object::decode(payload).map_err(|fault| fault.to_string())?;
    if header.whole_object {
        return Ok(Forwarded::Put(PutRequest { options: write, ..PutRequest::given(key, object) }));
    }
    let Object { clock, siblings } = object;
    let Some(sibling) = siblings.into_iter().next() else {
        return Err("a put without a value".to_owned());
    };
    Ok(Forwarded::Put(PutRequest {
        key,
        context: clock,
        meta: sibling.meta,
        value: sibling.value,
        deleted: sibling.deleted,
        as_is: header.as_is,
        precondition,
        return_object: header.return_object,
        options: write,
        vetoed: header.vetoed.clone(),
        tag: sibling.vtag,
        given: None,
    }))
}

fn name(key: KeyRef<'_>) -> Bytes {
    Bytes::copy_from_slice(&key.encoded())
}

fn write_options(options: &WriteOptions) -> ForwardedOptions {
    ForwardedOptions {
        w: options.w.map(Quorum::to_pb),
        dw: options.dw.map(Quorum::to_pb),
        pw: options.pw.map(Quorum::to_pb),
        node_confirms: options.node_confirms.map(Quorum::to_pb),
        n_val: options.n_val,
        sloppy_quorum: options.sloppy_quorum,
        sync_on_write: options.sync_on_write.map(|sync| match sync {
            SyncOnWrite::Backend => 0,
            SyncOnWrite::One => 1,
            SyncOnWrite::All => 2,
        }),
        timeout_ms: options.timeout_ms,
        ..ForwardedOptions::default()
    }
}

fn read_write_options(options: &ForwardedOptions) -> WriteOptions {
    WriteOptions {
        w: options.w.and_then(Quorum::from_pb),
        dw: options.dw.and_then(Quorum::from_pb),
        pw: options.pw.and_then(Quorum::from_pb),
        node_confirms: options.node_confirms.and_then(Quorum::from_pb),
        n_val: options.n_val,
        sloppy_quorum: options.sloppy_quorum,
        sync_on_write: options.sync_on_write.map(|sync| match sync {
            0 => SyncOnWrite::Backend,
            1 => SyncOnWrite::One,
            _ => SyncOnWrite::All,
        }),
        timeout_ms: options.timeout_ms,
    }
}

fn condition(precondition: &Precondition) -> Option<ForwardedCondition> {
    let tags = |tags: &EntityTags| match tags {
        EntityTags::Any => ForwardedTags { any: true, tags: Vec::new() },
        EntityTags::Tags(tags) => ForwardedTags { any: false, tags: tags.clone() },
    };
    (!precondition.is_none()).then(|| ForwardedCondition {
        not_exists: precondition.not_exists,
        clock: precondition.clock.as_ref().map(encode_context),
        none_match: precondition.none_match.as_ref().map(tags),
        any_match: precondition.any_match.as_ref().map(tags),
        unmodified_since_secs: precondition.unmodified_since_secs,
    })
}

fn read_condition(condition: Option<&ForwardedCondition>) -> Result<Precondition, String> {
    let Some(condition) = condition else { return Ok(Precondition::default()) };
    let tags = |tags: &ForwardedTags| match tags.any {
        true => EntityTags::Any,
        false => EntityTags::Tags(tags.tags.clone()),
    };
    let clock = condition.clock.as_deref().map(decode_context).transpose();
    Ok(Precondition {
        not_exists: condition.not_exists,
        clock: clock.map_err(|fault| fault.to_string())?,
        none_match: condition.none_match.as_ref().map(tags),
        any_match: condition.any_match.as_ref().map(tags),
        unmodified_since_secs: condition.unmodified_since_secs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_model::clock::{Actor, Dot, VersionVector};
    use quoit_model::key::BucketRef;
    use quoit_model::object::Metadata;

    fn clock() -> VersionVector {
        let actor = Actor(b"some one"[..].into());
        VersionVector::from_entries([Dot { actor, counter: 7, time_secs: 0 }])
    }

    fn write_options() -> WriteOptions {
        WriteOptions {
            w: Some(Quorum::All),
            dw: Some(Quorum::Count(0)),
            pw: None,
            node_confirms: Some(Quorum::Count(2)),
            n_val: Some(2),
            sloppy_quorum: Some(false),
            sync_on_write: Some(SyncOnWrite::All),
            timeout_ms: Some(250),
        }
    }

    #[test]
    fn a_put_arrives_as_it_was() {
        let request = PutRequest {
            key: BucketRef { bucket_type: b"t", bucket: b"b" }.key(b"k"),
            context: clock(),
            meta: Metadata {
                content_type: Some(Bytes::from_static(b"a/b")),
                ..Metadata::default()
            },
            value: Bytes::from_static(b"value"),
            deleted: false,
            as_is: true,
            precondition: Precondition {
                not_exists: true,
                clock: Some(clock()),
                none_match: Some(EntityTags::Any),
                any_match: Some(EntityTags::Tags(vec![Bytes::from_static(b"tag")])),
                unmodified_since_secs: Some(5),
            },
            return_object: true,
            options: write_options(),
            vetoed: Some("no".to_owned()),
            tag: Bytes::from_static(b"the value's"),
            given: None,
        };
        let sent = Forwarding::put(&request, request.tag.clone());
        let Ok(Forwarded::Put(arrived)) = read(&sent.header, &sent.payload) else {
            panic!("not a put");
        };
        assert_eq!(format!("{arrived:?}"), format!("{request:?}"));
    }

    #[test]
    fn a_whole_object_arrives_with_all_its_siblings() {
        let sibling = |value: &'static str| Sibling { value: value.into(), ..Sibling::default() };
        let siblings = smallvec![sibling("one"), sibling("two")];
        let object = Object { clock: clock(), siblings };
        let request = PutRequest::given(BucketRef::untyped(b"b").key(b"k"), object);
        let sent = Forwarding::put(&request, request.tag.clone());
        let Ok(Forwarded::Put(arrived)) = read(&sent.header, &sent.payload) else {
            panic!("not a put");
        };
        assert_eq!(format!("{arrived:?}"), format!("{request:?}"));
    }

    #[test]
    fn a_delete_arrives_as_it_was() {
        let request = DeleteRequest {
            key: BucketRef::untyped(b"b").key(b"k"),
            context: Some(clock()),
            precondition: Precondition::default(),
            rw: Some(Quorum::One),
            read: ReadOptions {
                r: Some(Quorum::Quorum),
                pr: Some(Quorum::One),
                node_confirms: Some(Quorum::Count(1)),
                n_val: Some(2),
                basic_quorum: Some(true),
                notfound_ok: Some(false),
                sloppy_quorum: Some(false),
                timeout_ms: Some(250),
            },
            write: write_options(),
        };
        let sent = Forwarding::delete(&request);
        let Ok(Forwarded::Delete(arrived)) = read(&sent.header, &sent.payload) else {
            panic!("not a delete");
        };
        let text = |request: &DeleteRequest<'_>| format!("{request:?}");
        assert_eq!(text(&arrived), text(&request));
    }

    #[test]
    fn garbage_is_told_in_words() {
        let header = Forward { key: Bytes::from_static(b"x"), ..Forward::default() };
        assert!(read(&header, &Bytes::new()).is_err());
        let key = BucketRef::untyped(b"b").key(b"k");
        let header = Forward { key: name(key), ..Forward::default() };
        assert!(read(&header, &Bytes::from_static(b"rubbish")).is_err());
    }
}
