//! Splits certificates into their DER elements, and reassembles them with one element damaged.

/// A kind of damage to an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Damage {
    /// Another tag.
    Tag,
    /// A length that is one too large.
    TooLong,
    /// A length that is one too small.
    TooShort,
    /// The indefinite length of BER.
    Indefinite,
    /// A length of 4 GiB.
    Huge,
    /// Half of the content, with the matching length.
    Half,
    /// No content.
    Empty,
    /// The element is missing.
    Missing,
    /// The element appears twice.
    Twice,
}

pub(super) const DAMAGES: [Damage; 9] = [
    Damage::Tag,
    Damage::TooLong,
    Damage::TooShort,
    Damage::Indefinite,
    Damage::Huge,
    Damage::Half,
    Damage::Empty,
    Damage::Missing,
    Damage::Twice,
];

/// An element of DER.
#[derive(Clone, Debug)]
pub(super) struct Element {
    tag: u8,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Bytes(Vec<u8>),
    Elements(Vec<Element>),
}

impl Element {
    /// Splits valid `bytes` into elements.
    pub(super) fn all(mut bytes: &[u8]) -> Vec<Element> {
        let mut found = Vec::new();
        while let [tag, first, rest @ ..] = bytes {
            let (length, rest) = match usize::from(*first) {
                short @ 0..0x80 => (short, rest),
                long => {
                    let (digits, rest) = rest.split_at(long - 0x80);
                    (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
                }
            };
            let (content, behind) = rest.split_at(length);
            let is_constructed = tag & 0x20 != 0;
            let content = if is_constructed {
                Content::Elements(Element::all(content))
            } else {
                Content::Bytes(content.to_vec())
            };
            found.push(Element { tag: *tag, content });
            bytes = behind;
        }
        found
    }

    /// Returns the elements inside.
    pub(super) fn inner(&self) -> &[Element] {
        match &self.content {
            Content::Elements(inner) => inner,
            Content::Bytes(_) => &[],
        }
    }

    /// Returns the element with other elements in place of one.
    pub(super) fn with(&self, at: usize, bytes: Vec<Element>) -> Element {
        let mut inner = self.inner().to_vec();
        inner.splice(at..=at, bytes);
        Element { tag: self.tag, content: Content::Elements(inner) }
    }

    /// Creates an element that is written as these bytes, whatever they are.
    fn raw(bytes: Vec<u8>) -> Element {
        Element { tag: RAW, content: Content::Bytes(bytes) }
    }

    /// Creates a bit string.
    pub(super) fn bits(bytes: &[u8]) -> Element {
        Element { tag: 3, content: Content::Bytes([&[0], bytes].concat()) }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let content = self.content_bytes();
        if self.tag == RAW { content } else { element(self.tag, content.len(), &content) }
    }

    fn content_bytes(&self) -> Vec<u8> {
        match &self.content {
            Content::Bytes(bytes) => bytes.clone(),
            Content::Elements(inner) => inner.iter().flat_map(Element::bytes).collect(),
        }
    }

    /// Returns the elements that replace it after the damage.
    fn damaged(&self, damage: Damage) -> Vec<Element> {
        let content = self.content_bytes();
        let raw = |bytes| vec![Element::raw(bytes)];
        match damage {
            // An octet string, which occurs only in extensions.
            Damage::Tag if self.tag == 4 => raw(element(2, content.len(), &content)),
            Damage::Tag => raw(element(4, content.len(), &content)),
            Damage::TooLong => raw(element(self.tag, content.len() + 1, &content)),
            Damage::TooShort => raw(element(self.tag, content.len().saturating_sub(1), &content)),
            Damage::Indefinite => raw([&[self.tag, 0x80], &content[..]].concat()),
            Damage::Huge => raw([&[self.tag, 0x84, 0xff, 0xff, 0xff, 0xff], &content[..]].concat()),
            Damage::Half => {
                raw(element(self.tag, content.len() / 2, &content[..content.len() / 2]))
            }
            Damage::Empty => raw(element(self.tag, 0, &[])),
            Damage::Missing => Vec::new(),
            Damage::Twice => vec![self.clone(), self.clone()],
        }
    }

    /// Returns the element with each damage of each element inside it, at every depth. The place of the
    /// damage is the list of element indexes from the outside in.
    pub(super) fn with_each_damage(&self) -> Vec<(Vec<usize>, Damage, Element)> {
        let mut all = Vec::new();
        for (at, inner) in self.inner().iter().enumerate() {
            for damage in DAMAGES {
                all.push((vec![at], damage, self.with(at, inner.damaged(damage))));
            }
            for (place, damage, inside) in inner.with_each_damage() {
                all.push(([&[at], &place[..]].concat(), damage, self.with(at, vec![inside])));
            }
        }
        all
    }
}

/// A tag that no certificate has, for elements that are written as they are.
const RAW: u8 = 0xff;

fn element(tag: u8, length: usize, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    match u8::try_from(length) {
        Ok(short @ 0..0x80) => bytes.push(short),
        Ok(long) => bytes.extend([0x81, long]),
        Err(_) => {
            bytes.push(0x82);
            bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
    }
    bytes.extend(content);
    bytes
}
