//! The macro that declares messages, in a notation similar to `.proto` files.
//!
//! One declaration generates the struct with its `prost` implementation and the [`MessageSchema`] against
//! which bodies are checked, so that the two can't disagree.
//!
//! [`MessageSchema`]: crate::shape::MessageSchema

/// Declares messages. `NAME: CODE` declares a message that is the body of frames with that
/// [`MessageCode`](crate::code::MessageCode); `NAME` alone declares a nested message.
///
/// Fields are `LABEL TYPE NAME = TAG;` with the labels `required`, `optional` and `repeated` and
/// the types `bytes`, `bool`, `uint32`, `uint64`, `int64`, `sint64`, `enumeration(E)` and
/// `message(M)`. A message has at most 64 fields, in the order of their tags.
macro_rules! messages {
    ($($(#[$meta:meta])* message $name:ident $(: $code:ident)? { $($fields:tt)* })*) => {
        $(
            messages!(@fields [$(#[$meta])*] $name [] [] $($fields)*);
            $(
                impl $crate::messages::Body for $name {
                    const CODE: $crate::code::MessageCode = $crate::code::MessageCode::$code;
                }
            )?
        )*
    };

    // `bytes` fields need an explicit Rust type, so that they are decoded without a copy.
    (@fields $meta:tt $name:ident [$($done:tt)*] [$($shape:tt)*]
        $(#[$doc:meta])* $label:ident bytes $field:ident = $tag:literal; $($rest:tt)*) => {
        messages!(@fields $meta $name
            [$($done)* $(#[$doc])* #[prost(bytes = "bytes", $label, tag($tag))]
                pub $field: messages!(@type $label (::bytes::Bytes)),]
            [$($shape)* messages!(@shape $label $field $tag ($crate::shape::FieldKind::Bytes)),]
            $($rest)*);
    };
    (@fields $meta:tt $name:ident [$($done:tt)*] [$($shape:tt)*]
        $(#[$doc:meta])* $label:ident message($inner:ident) $field:ident = $tag:literal;
        $($rest:tt)*) => {
        messages!(@fields $meta $name
            [$($done)* $(#[$doc])* #[prost(message, $label, tag($tag))]
                pub $field: messages!(@type $label ($inner)),]
            [$($shape)* messages!(@shape $label $field $tag ($crate::shape::FieldKind::Message(
                <$inner as $crate::messages::HasSchema>::shape))),]
            $($rest)*);
    };
    (@fields $meta:tt $name:ident [$($done:tt)*] [$($shape:tt)*]
        $(#[$doc:meta])* $label:ident enumeration($inner:ident) $field:ident = $tag:literal;
        $($rest:tt)*) => {
        messages!(@fields $meta $name
            [$($done)* $(#[$doc])* #[prost(enumeration($inner), $label, tag($tag))]
                pub $field: messages!(@type $label (i32)),]
            [$($shape)* messages!(@shape $label $field $tag
                ($crate::shape::FieldKind::Enumeration($inner::is_valid))),]
            $($rest)*);
    };
    // Not packed, as in the `.proto` files of the protocol's clients.
    (@fields $meta:tt $name:ident [$($done:tt)*] [$($shape:tt)*]
        $(#[$doc:meta])* repeated $scalar:ident $field:ident = $tag:literal;
        $($rest:tt)*) => {
        messages!(@fields $meta $name
            [$($done)* $(#[$doc])* #[prost($scalar, repeated, packed = "false", tag($tag))]
                pub $field: messages!(@type repeated (messages!(@scalar $scalar))),]
            [$($shape)* messages!(@shape repeated $field $tag ($crate::shape::FieldKind::Varints)),]
            $($rest)*);
    };
    (@fields $meta:tt $name:ident [$($done:tt)*] [$($shape:tt)*]
        $(#[$doc:meta])* $label:ident $scalar:ident $field:ident = $tag:literal;
        $($rest:tt)*) => {
        messages!(@fields $meta $name
            [$($done)* $(#[$doc])* #[prost($scalar, $label, tag($tag))]
                pub $field: messages!(@type $label (messages!(@scalar $scalar))),]
            [$($shape)* messages!(@shape $label $field $tag ($crate::shape::FieldKind::Varint)),]
            $($rest)*);
    };
    (@fields [$($meta:tt)*] $name:ident [$($done:tt)*] [$($shape:tt)*]) => {
        $($meta)*
        #[derive(Clone, PartialEq, Eq, ::prost::Message)]
        pub struct $name { $($done)* }

        impl $crate::messages::HasSchema for $name {
            fn shape() -> &'static $crate::shape::MessageSchema {
                static SHAPE: $crate::shape::MessageSchema = $crate::shape::MessageSchema {
                    name: stringify!($name),
                    fields: &[$($shape)*],
                };
                &SHAPE
            }
        }
    };

    (@type required ($($type:tt)*)) => { $($type)* };
    (@type optional ($($type:tt)*)) => { Option<$($type)*> };
    (@type repeated ($($type:tt)*)) => { Vec<$($type)*> };

    (@scalar bool) => { bool };
    (@scalar uint32) => { u32 };
    (@scalar uint64) => { u64 };
    (@scalar int64) => { i64 };
    (@scalar sint64) => { i64 };

    (@shape $label:ident $field:ident $tag:literal ($($kind:tt)*)) => {
        $crate::shape::Field {
            name: stringify!($field),
            tag: $tag,
            required: messages!(@required $label),
            kind: $($kind)*,
        }
    };
    (@required required) => { true };
    (@required optional) => { false };
    (@required repeated) => { false };
}

pub(crate) use messages;
