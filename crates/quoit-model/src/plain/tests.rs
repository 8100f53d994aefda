use super::*;
use crate::merge::NewValue;
use crate::object::{Metadata, Object, Sibling};
use crate::test_objects::{any_dot, any_object, any_vector, dot};
use bytes::Bytes;
use proptest::prelude::*;

/// The same object, owned.
fn owned(plain: &PlainObject<'_>) -> Object {
    let text = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
    let sibling = Sibling {
        dot: Some(plain.dot().clone()),
        deleted: false,
        last_modified_us: plain.last_modified_us,
        vtag: text(plain.vtag),
        meta: Metadata {
            content_type: plain.content_type.map(text),
            charset: plain.charset.map(text),
            content_encoding: plain.content_encoding.map(text),
            expires_at_secs: plain.expires_at_secs,
            replaces: plain.replaces,
            ..Metadata::default()
        },
        value: text(plain.value),
    };
    Object { clock: plain.clock.clone(), siblings: [sibling].into_iter().collect() }
}

fn is_plain(object: &Object) -> bool {
    let [sibling] = object.siblings.as_slice() else { return false };
    let Metadata { links, user_meta, indexes, other, .. } = &sibling.meta;
    let rare = links.len() + user_meta.len() + indexes.len() + other.len();
    rare == 0 && !sibling.deleted && sibling.dot.is_some()
}

fn encoded(object: &Object) -> Vec<u8> {
    let mut bytes = Vec::new();
    object.encode_into(&mut bytes);
    bytes
}

/// Random objects, of which most are plain.
fn mostly_plain() -> impl Strategy<Value = Object> {
    (any_object(), any::<bool>(), any_dot()).prop_map(|(mut object, make_plain, dot)| {
        if make_plain {
            object.siblings.truncate(1);
            for sibling in &mut object.siblings {
                sibling.deleted = false;
                sibling.dot.get_or_insert(dot.clone());
                let Metadata { links, user_meta, indexes, other, .. } = &mut sibling.meta;
                links.clear();
                user_meta.clear();
                indexes.clear();
                other.clear();
            }
        }
        object
    })
}

fn any_policy() -> impl Strategy<Value = WritePolicy> {
    prop_oneof![
        Just(WritePolicy::Siblings),
        Just(WritePolicy::LatestModified),
        Just(WritePolicy::LastWriteWins),
        Just(WritePolicy::WriteOnce),
    ]
}

proptest! {
    #[test]
    fn a_plain_object_is_read_and_written_as_any_object(object in mostly_plain()) {
        let bytes = encoded(&object);
        let plain = PlainObject::read(&bytes);
        prop_assert_eq!(plain.is_some(), is_plain(&object));
        if let Some(plain) = plain {
            prop_assert_eq!(&owned(&plain), &object);
            prop_assert_eq!(plain.digest(), object.digest());
            let mut again = Vec::new();
            plain.encode_into(&mut again);
            prop_assert_eq!(&again, &bytes);
            let mut front = Vec::new();
            plain.encode_front_into(&mut front);
            prop_assert_eq!([&front[..], plain.value].concat(), bytes);
        }
    }

    #[test]
    fn the_front_of_a_plain_object_is_the_object_without_its_value(
        object in mostly_plain(),
        cut in any::<prop::sample::Index>(),
        other_digest in any::<u64>(),
    ) {
        let bytes = encoded(&object);
        let front = &bytes[..cut.index(bytes.len() + 1)];
        let digest = object.digest();
        if let Some(read) = PlainObject::read_front(front, digest) {
            let whole = PlainObject::read(&bytes).expect("what has a plain front is plain");
            prop_assert_eq!(owned(&read), owned(&PlainObject { value: b"", ..whole }));
        }
        let value_bytes = object.siblings.first().map_or(0, |sibling| sibling.value.len());
        if is_plain(&object) && front.len() >= bytes.len() - value_bytes {
            prop_assert!(PlainObject::read_front(front, digest).is_some());
        }
        if other_digest != digest {
            prop_assert!(PlainObject::read_front(&bytes, other_digest).is_none());
        }
    }

    #[test]
    fn damaged_bytes_are_not_read_otherwise_than_by_the_general_decoder(
        object in mostly_plain(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = encoded(&object);
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len())));
        if let Some(plain) = PlainObject::read(&bytes) {
            let decoded = Object::decode(&Bytes::from(bytes.clone()));
            prop_assert_eq!(decoded, Ok(owned(&plain)));
        }
    }

    #[test]
    fn a_write_that_leaves_one_value_is_that_of_the_general_rules(
        stored in prop::option::of(mostly_plain()),
        context in any_vector(),
        knows_stored in any::<bool>(),
        new_us in 0u64..4,
        stored_us in 0u64..4,
        policy in any_policy(),
        expires_at_secs in prop::option::of(any::<u32>()),
    ) {
        let mut stored = stored;
        if let Some(object) = &mut stored {
            object.siblings.iter_mut().for_each(|sibling| sibling.last_modified_us = stored_us);
        }
        let bytes = stored.as_ref().map(encoded);
        let plain = bytes.as_deref().map(PlainObject::read);
        if matches!(plain, Some(None)) {
            return Ok(());
        }
        let plain = plain.flatten();
        let mut context = context;
        if let (Some(object), true) = (&stored, knows_stored) {
            context.merge(&object.clock);
        }
        // The new event has an actor of its own, so that its counter is above every counter of that
        // actor in the object or the context.
        let new_dot = dot(b"the store's own actor", 9);
        let written = Object::write(
            stored.as_ref(),
            &context,
            NewValue {
                meta: Metadata { expires_at_secs, ..Metadata::default() },
                last_modified_us: new_us,
                value: Bytes::from_static(b"v"),
                ..NewValue::default()
            },
            new_dot.clone(),
            policy,
        );
        let clock =
            PlainObject::clock_if_replaced(plain.as_ref(), &context, &new_dot, new_us, policy);
        prop_assert_eq!(clock.is_some(), written.siblings.len() == 1);
        if let Some(clock) = clock {
            let made = PlainObject {
                last_modified_us: new_us,
                expires_at_secs,
                replaces: expires_at_secs.is_some()
                    && policy.may_replace(plain.is_some(), &context),
                value: b"v",
                ..PlainObject::written(clock, &new_dot)
            };
            prop_assert_eq!(&owned(&made), &written);
            let mut again = Vec::new();
            made.encode_into(&mut again);
            prop_assert_eq!(again, encoded(&written));
        }
    }
}

#[test]
fn a_value_whose_event_has_another_time_than_its_clock_entry_keeps_it() {
    let mut clock = VersionVector::default();
    clock.advance(&Dot { time_secs: 5, ..dot(b"a", 3) });
    let made = PlainObject::written(clock, &Dot { time_secs: 4, ..dot(b"a", 3) });
    assert!(matches!(made.dot, DotRef::Explicit(_)));
    assert_eq!(made.dot().time_secs, 4);
}
