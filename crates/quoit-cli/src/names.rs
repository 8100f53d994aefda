//! Names of buckets and records on the command line: `TYPE/BUCKET` and `TYPE/BUCKET/KEY`.
//!
//! The type can be omitted: `b` is a bucket and `b/k` a record of the type `default`. Names are bytes:
//! `%2F` stands for a slash inside a name, `%25` for a percent sign, `%XX` for any byte.

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_encode};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// Type of buckets whose name does not contain a type.
const DEFAULT_TYPE: &str = "default";
/// Bytes that are percent-encoded in the path of a URL.
const IN_PATHS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Bytes that are percent-encoded when a name is shown.
const IN_NAMES: &AsciiSet = &CONTROLS.add(b'/').add(b'%');

/// A name that cannot be parsed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "'{text}' is not the name of a {wanted}: {reason}; write {form}, with %2F for a slash inside a name \
         and %25 for a percent sign"
)]
pub struct NameError {
    text: String,
    wanted: &'static str,
    form: &'static str,
    reason: String,
}

/// Kind of a name.
#[derive(Clone, Copy)]
enum NameKind {
    Bucket,
    Record,
}

impl NameKind {
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Bucket => ("bucket", "TYPE/BUCKET (or BUCKET for the type default)"),
            Self::Record => ("record", "TYPE/BUCKET/KEY (or BUCKET/KEY for the type default)"),
        }
    }

    /// Parts of a complete name.
    const fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Bucket => &["type", "bucket"],
            Self::Record => &["type", "bucket", "key"],
        }
    }
}

/// Name of a bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketName {
    /// Bucket type.
    pub bucket_type: Vec<u8>,
    /// Bucket.
    pub bucket: Vec<u8>,
}

/// Name of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordName {
    /// Its bucket.
    pub bucket: BucketName,
    /// Key.
    pub key: Vec<u8>,
}

impl BucketName {
    /// Path of the bucket on a node: `types/T/buckets/B`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("types/{}/buckets/{}", in_path(&self.bucket_type), in_path(&self.bucket))
    }

    /// True if the type is `default`.
    #[must_use]
    pub fn is_untyped(&self) -> bool {
        self.bucket_type == DEFAULT_TYPE.as_bytes()
    }
}

impl RecordName {
    /// Path of the object on a node: `types/T/buckets/B/keys/K`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/keys/{}", self.bucket.path(), in_path(&self.key))
    }

    /// Path of the data type on a node: `types/T/buckets/B/datatypes/K`.
    #[must_use]
    pub fn data_type_path(&self) -> String {
        format!("{}/datatypes/{}", self.bucket.path(), in_path(&self.key))
    }
}

/// Percent-encodes a name as a segment of a URL's path.
#[must_use]
pub fn in_path(name: &[u8]) -> String {
    percent_encode(name, IN_PATHS).to_string()
}

/// Formats a name as it is written on the command line.
#[must_use]
pub fn shown(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        // Characters outside of ASCII are shown unescaped.
        Ok(text) => {
            let mut shown = String::with_capacity(text.len());
            for letter in text.chars() {
                match letter.is_ascii() {
                    true => shown.extend(percent_encode(&[letter as u8], IN_NAMES)),
                    false => shown.push(letter),
                }
            }
            shown
        }
        Err(_) => percent_encode(name, IN_NAMES).to_string(),
    }
}

/// Decodes a part of a name; `None` if a percent sign is not followed by two hexadecimal digits.
fn unescaped(part: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
        bytes.push(u8::try_from(high << 4 | low).ok()?);
    }
    Some(bytes)
}

/// Parses a name into its parts, the type first.
fn parts(text: &str, wanted: NameKind) -> Result<Vec<Vec<u8>>, NameError> {
    let (kind, form) = wanted.words();
    let refused = |reason: String| NameError { text: text.to_owned(), wanted: kind, form, reason };
    let names = wanted.parts();
    let mut given: Vec<&str> = text.split('/').collect();
    if given.len() + 1 == names.len() {
        given.insert(0, DEFAULT_TYPE);
    }
    if let Some(missing) = names.get(given.len()..).and_then(|missing| missing.last()) {
        return Err(refused(format!("the {missing} is missing")));
    }
    if given.len() > names.len() {
        return Err(refused(format!("it has {} parts", given.len())));
    }
    let mut read = Vec::with_capacity(names.len());
    for (part, name) in given.iter().zip(names) {
        let bytes = unescaped(part).ok_or_else(|| {
            refused(format!(
                "a percent sign in its {name} is not followed by two hexadecimal digits"
            ))
        })?;
        if bytes.is_empty() {
            return Err(refused(format!("its {name} is empty")));
        }
        read.push(bytes);
    }
    Ok(read)
}

impl FromStr for BucketName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let mut parts = parts(text, NameKind::Bucket)?.into_iter();
        let (Some(bucket_type), Some(bucket)) = (parts.next(), parts.next()) else {
            unreachable!("a bucket's name has two parts")
        };
        Ok(Self { bucket_type, bucket })
    }
}

impl FromStr for RecordName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let mut parts = parts(text, NameKind::Record)?.into_iter();
        let (Some(bucket_type), Some(bucket), Some(key)) =
            (parts.next(), parts.next(), parts.next())
        else {
            unreachable!("a record's name has three parts")
        };
        Ok(Self { bucket: BucketName { bucket_type, bucket }, key })
    }
}

impl Display for BucketName {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", shown(&self.bucket_type), shown(&self.bucket))
    }
}

impl Display for RecordName {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.bucket, shown(&self.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_is_read_as_it_is_shown(
            bucket_type in vec(any::<u8>(), 1..6),
            bucket in vec(any::<u8>(), 1..6),
            key in vec(any::<u8>(), 1..6),
        ) {
            let name = RecordName { bucket: BucketName { bucket_type, bucket }, key };
            prop_assert_eq!(name.to_string().parse::<RecordName>(), Ok(name.clone()));
            prop_assert_eq!(name.bucket.to_string().parse::<BucketName>(), Ok(name.bucket));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".*") {
            let _ = (text.parse::<RecordName>(), text.parse::<BucketName>());
        }
    }

    #[test]
    fn the_type_may_be_left_out() {
        let name: RecordName = "b/a%2Fb".parse().expect("a name");
        assert_eq!((name.to_string().as_str(), &name.key[..]), ("default/b/a%2Fb", &b"a/b"[..]));
        assert_eq!(name.path(), "types/default/buckets/b/keys/a%2Fb");
        let bucket: BucketName = "b".parse().expect("a name");
        assert!(bucket.is_untyped());
        assert_eq!("größe/b".parse::<BucketName>().expect("a name").to_string(), "größe/b");
    }

    #[test]
    fn one_error_names_the_value_the_place_and_the_form() {
        let said = |text: &str| text.parse::<RecordName>().expect_err("no name").to_string();
        for (text, reason) in [
            ("k", "the key is missing"),
            ("", "the key is missing"),
            ("t/b/", "its key is empty"),
            ("t//k", "its bucket is empty"),
            ("/b/k", "its type is empty"),
            ("t/b/k/l", "it has 4 parts"),
            ("t/b/100%", "a percent sign in its key is not followed by two hexadecimal digits"),
            ("t/%zz/k", "a percent sign in its bucket is not followed by two hexadecimal digits"),
        ] {
            assert_eq!(
                said(text),
                format!(
                    "'{text}' is not the name of a record: {reason}; write TYPE/BUCKET/KEY (or BUCKET/KEY \
                     for \
                     the type default), with %2F for a slash inside a name and %25 for a percent sign"
                )
            );
        }
    }
}
