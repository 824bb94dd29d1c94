//! The vocabulary of the schema tables.

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// Name in Kafka's schema, in snake_case.
    pub(super) name: &'static str,
    /// Shape of its value.
    pub(super) kind: Kind,
    first_version: i16,
    last_version: i16,
    tag: Option<u32>,
}

/// The shape of a value. Whether null is allowed is the decoder's business.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// That many bytes.
    Fixed(usize),
    /// A string.
    Text,
    /// Bytes that mean something elsewhere: the metadata of a group's protocol, a mechanism's token.
    Bytes,
    /// An array of such elements.
    Array(&'static Self),
    /// Fields one after the other, then tagged fields if the version has them.
    Struct(&'static [Field]),
    /// A byte that says whether a struct follows: 1, or -1 for none.
    Nullable(&'static [Field]),
}

pub(super) const BOOL: Kind = Kind::Fixed(1);
pub(super) const I8: Kind = Kind::Fixed(1);
pub(super) const I16: Kind = Kind::Fixed(2);
pub(super) const I32: Kind = Kind::Fixed(4);
pub(super) const I64: Kind = Kind::Fixed(8);
pub(super) const UUID: Kind = Kind::Fixed(16);
pub(super) const TEXT: Kind = Kind::Text;
pub(super) const BYTES: Kind = Kind::Bytes;
pub(super) const TEXTS: Kind = Kind::Array(&Kind::Text);
pub(super) const I32S: Kind = Kind::Array(&I32);
pub(super) const I64S: Kind = Kind::Array(&I64);

/// A field of every version.
pub(super) const fn f(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, first_version: 0, last_version: i16::MAX, tag: None }
}

impl Field {
    /// The same, from `version` on.
    pub(super) const fn since(mut self, version: i16) -> Self {
        self.first_version = version;
        self
    }

    /// The same, up to `version` inclusive.
    pub(super) const fn until(mut self, version: i16) -> Self {
        self.last_version = version;
        self
    }

    /// The same, as a tagged field.
    pub(super) const fn tagged(mut self, tag: u32) -> Self {
        self.tag = Some(tag);
        self
    }

    const fn is_in(&self, version: i16) -> bool {
        self.first_version <= version && version <= self.last_version
    }

    pub(super) const fn is_plain(&self, version: i16) -> bool {
        self.tag.is_none() && self.is_in(version)
    }

    pub(super) fn is_tagged(&self, tag: u32, version: i16) -> bool {
        self.tag == Some(tag) && self.is_in(version)
    }
}

impl Kind {
    /// Bytes the value takes at least.
    pub(super) fn smallest_size(self, version: i16, flexible: bool) -> usize {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Text => {
                if flexible {
                    1
                } else {
                    2
                }
            }
            Self::Nullable(_) => 1,
            Self::Array(_) | Self::Bytes => {
                if flexible {
                    1
                } else {
                    4
                }
            }
            Self::Struct(fields) => {
                let plain = fields.iter().filter(|field| field.is_plain(version));
                usize::from(flexible)
                    + plain.map(|field| field.kind.smallest_size(version, flexible)).sum::<usize>()
            }
        }
    }
}
