//! Structs, and their fields by place.

use super::message::{COMPOSITE, Content, DEPTH_LIMIT, Message, WireError};

/// A struct of a message: bits of data and pointers, by place.
#[derive(Debug, Clone, Copy)]
pub struct StructReader<'a> {
    pub(super) message: &'a Message,
    pub(super) data: &'a [u8],
    pub(super) segment: u32,
    /// The word of the first pointer.
    pub(super) pointers: u32,
    pub(super) n_pointers: u16,
    pub(super) depth: u8,
}

/// A type that is a view of a struct.
pub trait FromStruct<'a>: Copy {
    /// The view.
    fn from_struct(from: StructReader<'a>) -> Self;
}

impl<'a> FromStruct<'a> for StructReader<'a> {
    fn from_struct(from: StructReader<'a>) -> Self {
        from
    }
}

impl Message {
    /// The struct that it is.
    ///
    /// # Errors
    ///
    /// As any pointer.
    pub fn root(&self) -> Result<StructReader<'_>, WireError> {
        StructReader::at_pointer(self, 0, 0, 0)
    }
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            pub fn $name(&self, bit: u32) -> $name {
                const SIZE: usize = size_of::<$name>();
                let at = bit as usize / 8;
                let bytes = self.data.get(at..at + SIZE);
                bytes.and_then(|bytes| bytes.try_into().ok()).map_or($name::default(), $name::from_le_bytes)
            }
        )*
    };
}

impl<'a> StructReader<'a> {
    /// The struct that the pointer at a word leads to; one without fields if it is null.
    pub(super) fn at_pointer(
        message: &'a Message,
        segment: u32,
        at: u32,
        depth: u8,
    ) -> Result<Self, WireError> {
        if depth >= DEPTH_LIMIT {
            return Err(WireError::TooDeep);
        }
        let empty = Self {
            message,
            data: &[],
            segment: 0,
            pointers: 0,
            n_pointers: 0,
            depth: depth + 1,
        };
        match message.follow(segment, at)? {
            None => Ok(empty),
            Some(Content::Struct {
                data_words: 0,
                pointers: 0,
                ..
            }) => Ok(empty),
            Some(Content::Struct {
                segment,
                first,
                data_words,
                pointers,
            }) => Ok(Self {
                data: message.run(segment, i64::from(first), u64::from(data_words))?,
                segment,
                pointers: first + u32::from(data_words),
                n_pointers: pointers,
                ..empty
            }),
            Some(Content::List { .. }) => Err(WireError::Kind {
                wanted: "a struct",
                got: "a list",
            }),
        }
    }

    numbers! {
        /// The number at a bit; 0 where the writer knew no such field.
        u8;
        /// The number at a bit; 0 where the writer knew no such field.
        u16;
        /// The number at a bit; 0 where the writer knew no such field.
        u32;
        /// The number at a bit; 0 where the writer knew no such field.
        u64;
        /// The number at a bit; 0 where the writer knew no such field.
        i8;
        /// The number at a bit; 0 where the writer knew no such field.
        i16;
        /// The number at a bit; 0 where the writer knew no such field.
        i32;
        /// The number at a bit; 0 where the writer knew no such field.
        i64;
        /// The number at a bit; 0 where the writer knew no such field.
        f32;
        /// The number at a bit; 0 where the writer knew no such field.
        f64;
    }

    /// The bit itself; false where the writer knew no such field.
    pub fn bool(&self, bit: u32) -> bool {
        let byte = self.data.get(bit as usize / 8);
        byte.is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    }

    /// The word of a pointer, if the writer knew it.
    fn pointer(&self, index: u16) -> Option<u32> {
        (index < self.n_pointers).then(|| self.pointers + u32::from(index))
    }

    /// The struct of a pointer; one without fields if it is null.
    ///
    /// # Errors
    ///
    /// [`WireError`]: it leads nowhere, or to something else.
    pub fn structure<T: FromStruct<'a>>(&self, index: u16) -> Result<T, WireError> {
        let reader = match self.pointer(index) {
            Some(at) => Self::at_pointer(self.message, self.segment, at, self.depth)?,
            None => Self {
                data: &[],
                n_pointers: 0,
                ..*self
            },
        };
        Ok(T::from_struct(reader))
    }

    /// Whether a pointer is there and not null.
    pub fn has(&self, index: u16) -> bool {
        let content = self
            .pointer(index)
            .map(|at| self.message.follow(self.segment, at));
        !matches!(content, None | Some(Ok(None)))
    }

    pub(super) fn list(&self, index: u16) -> Result<Option<(u32, u32, u8, u32)>, WireError> {
        let Some(at) = self.pointer(index) else {
            return Ok(None);
        };
        list_at(self.message, self.segment, at)
    }

    /// The bytes of a pointer; none if it is null.
    ///
    /// # Errors
    ///
    /// [`WireError`]: it leads nowhere, or to something else.
    pub fn data(&self, index: u16) -> Result<&'a [u8], WireError> {
        match self.pointer(index) {
            Some(at) => data_at(self.message, self.segment, at),
            None => Ok(&[]),
        }
    }

    /// The text of a pointer; empty if it is null.
    ///
    /// # Errors
    ///
    /// [`WireError::NotText`]; as [`StructReader::data`].
    pub fn text(&self, index: u16) -> Result<&'a str, WireError> {
        text(self.data(index)?)
    }
}

/// Segment, first word, kind of element and count of the list that a pointer leads to.
pub(super) fn list_at(
    message: &Message,
    segment: u32,
    at: u32,
) -> Result<Option<(u32, u32, u8, u32)>, WireError> {
    match message.follow(segment, at)? {
        None => Ok(None),
        Some(Content::List {
            segment,
            first,
            element,
            count,
        }) => Ok(Some((segment, first, element, count))),
        Some(Content::Struct { .. }) => Err(WireError::Kind {
            wanted: "a list",
            got: "a struct",
        }),
    }
}

/// The bytes that a pointer leads to.
pub(super) fn data_at(message: &Message, segment: u32, at: u32) -> Result<&[u8], WireError> {
    match list_at(message, segment, at)? {
        None => Ok(&[]),
        Some((segment, first, 2, count)) => {
            let words = u64::from(count).div_ceil(8);
            let bytes = message.run(segment, i64::from(first), words)?;
            Ok(&bytes[..count as usize])
        }
        Some((.., element, _)) => Err(WireError::Kind {
            wanted: "bytes",
            got: element_name(element),
        }),
    }
}

/// A text without its zero byte.
pub(super) fn text(bytes: &[u8]) -> Result<&str, WireError> {
    match bytes {
        [] => Ok(""),
        [text @ .., 0] => std::str::from_utf8(text).map_err(|_| WireError::NotText),
        _ => Err(WireError::NotText),
    }
}

/// What a list holds, in words.
pub(super) const fn element_name(element: u8) -> &'static str {
    match element {
        0 => "a list of nothing",
        1 => "a list of bits",
        2 => "a list of bytes",
        3 => "a list of numbers of 16 bits",
        4 => "a list of numbers of 32 bits",
        5 => "a list of numbers of 64 bits",
        COMPOSITE => "a list of structs",
        _ => "a list of pointers",
    }
}
