//! Lists of numbers, structs and texts.

use std::marker::PhantomData;

use super::message::{COMPOSITE, DEPTH_LIMIT, Message, WireError, element_bits};
use super::structure::{FromStruct, StructReader, data_at, element_name, text};

impl<'a> StructReader<'a> {
    /// The numbers of a pointer; none if it is null.
    ///
    /// # Errors
    ///
    /// [`WireError`]: it leads nowhere, or to something else.
    pub fn numbers<T: Number>(&self, index: u16) -> Result<Numbers<'a, T>, WireError> {
        Numbers::new(self, index)
    }

    /// The structs of a pointer; none if it is null.
    ///
    /// # Errors
    ///
    /// [`WireError`]: it leads nowhere, or to something else.
    pub fn structs<T: FromStruct<'a>>(&self, index: u16) -> Result<StructList<'a, T>, WireError> {
        StructList::new(self, index)
    }

    /// The texts of a pointer; none if it is null.
    ///
    /// # Errors
    ///
    /// [`WireError`]: it leads nowhere, or to something else.
    pub fn texts(&self, index: u16) -> Result<Texts<'a>, WireError> {
        Texts::new(self, index)
    }
}

mod private {
    pub trait Sealed {}
}

/// A number that lists hold.
pub trait Number: Copy + private::Sealed {
    #[doc(hidden)]
    const ELEMENT: u8;
    #[doc(hidden)]
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($name:ident $element:literal;)*) => {
        $(
            impl private::Sealed for $name {}
            impl Number for $name {
                const ELEMENT: u8 = $element;
                fn read(bytes: &[u8]) -> Self {
                    bytes.try_into().map_or($name::default(), $name::from_le_bytes)
                }
            }
        )*
    };
}

numbers! {
    i8 2;
    u8 2;
    i16 3;
    u16 3;
    f32 4;
    u32 4;
    f64 5;
    u64 5;
}

/// Numbers of a message.
#[derive(Debug, Clone, Copy)]
pub struct Numbers<'a, T> {
    bytes: &'a [u8],
    of: PhantomData<T>,
}

impl<'a, T: Number> Numbers<'a, T> {
    pub(super) fn new(from: &StructReader<'a>, index: u16) -> Result<Self, WireError> {
        let bytes = match from.list(index)? {
            None => &[][..],
            Some((segment, first, element, count)) if element == T::ELEMENT => {
                let bits = u64::from(count) * element_bits(element);
                let bytes = from
                    .message
                    .run(segment, i64::from(first), bits.div_ceil(64))?;
                &bytes[..(bits / 8) as usize]
            }
            Some((.., element, _)) => {
                return Err(WireError::Kind {
                    wanted: element_name(T::ELEMENT),
                    got: element_name(element),
                });
            }
        };
        Ok(Self {
            bytes,
            of: PhantomData,
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.bytes.len() / size_of::<T>()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// One of them, if it is there.
    pub fn get(&self, index: usize) -> Option<T> {
        self.bytes
            .chunks_exact(size_of::<T>())
            .nth(index)
            .map(T::read)
    }

    /// All of them in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + use<'a, T> {
        self.bytes.chunks_exact(size_of::<T>()).map(T::read)
    }

    /// All of them, copied.
    pub fn to_vec(&self) -> Vec<T> {
        self.iter().collect()
    }
}

/// Structs of a message.
#[derive(Debug, Clone, Copy)]
pub struct StructList<'a, T> {
    message: &'a Message,
    segment: u32,
    /// The word of the first element.
    first: u32,
    count: u32,
    /// Bytes of data and words of pointers of each.
    data_bytes: u32,
    pointers: u16,
    depth: u8,
    of: PhantomData<T>,
}

impl<'a, T: FromStruct<'a>> StructList<'a, T> {
    pub(super) fn new(from: &StructReader<'a>, index: u16) -> Result<Self, WireError> {
        if from.depth >= DEPTH_LIMIT {
            return Err(WireError::TooDeep);
        }
        let mut list = Self {
            message: from.message,
            segment: 0,
            first: 0,
            count: 0,
            data_bytes: 0,
            pointers: 0,
            depth: from.depth + 1,
            of: PhantomData,
        };
        let Some((segment, first, element, count)) = from.list(index)? else {
            return Ok(list);
        };
        (list.segment, list.first, list.count) = (segment, first, count);
        match element {
            COMPOSITE => {
                let tag = from.message.run(segment, i64::from(first), 1)?;
                let tag: [u8; 8] = tag.try_into().unwrap_or_default();
                let tag = u64::from_le_bytes(tag);
                // As a struct pointer whose offset counts the elements.
                if tag & 3 != 0 {
                    return Err(WireError::Kind {
                        wanted: "the tag of a list of structs",
                        got: "another word",
                    });
                }
                let (data_words, pointers) = ((tag >> 32) as u16, (tag >> 48) as u16);
                list.first = first + 1;
                list.count = tag as u32 >> 2;
                list.data_bytes = u32::from(data_words) * 8;
                list.pointers = pointers;
                let each = u64::from(data_words) + u64::from(pointers);
                let words = each * u64::from(list.count);
                // The pointer has counted these words, of which the elements must not use more.
                if words > u64::from(count) {
                    return Err(WireError::Outside {
                        segment,
                        first: i64::from(list.first),
                        end: i64::from(list.first) + words as i64,
                        words: list.first as usize + count as usize,
                    });
                }
                from.message.spend_elements(list.count)?;
            }
            6 => list.pointers = 1,
            0 | 2..=5 => list.data_bytes = (element_bits(element) / 8) as u32,
            _ => {
                return Err(WireError::Kind {
                    wanted: element_name(COMPOSITE),
                    got: element_name(element),
                });
            }
        }
        Ok(list)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// One of them, if it is there.
    pub fn get(&self, index: usize) -> Option<T> {
        let index = u32::try_from(index)
            .ok()
            .filter(|index| *index < self.count)?;
        let each = u64::from(self.data_bytes) + u64::from(self.pointers) * 8;
        // Elements without pointers may be smaller than a word.
        let at = u64::from(index) * each;
        let word = u64::from(self.first) + at / 8;
        let words = (at % 8 + u64::from(self.data_bytes)).div_ceil(8);
        let bytes = self.message.run(self.segment, word as i64, words).ok()?;
        let skipped = (at % 8) as usize;
        Some(T::from_struct(StructReader {
            message: self.message,
            data: &bytes[skipped..skipped + self.data_bytes as usize],
            segment: self.segment,
            pointers: (word + u64::from(self.data_bytes) / 8) as u32,
            n_pointers: self.pointers,
            depth: self.depth,
        }))
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + use<'a, T> {
        let list = Self { ..*self };
        (0..list.len()).filter_map(move |index| list.get(index))
    }
}

/// Texts of a message.
#[derive(Debug, Clone, Copy)]
pub struct Texts<'a> {
    message: &'a Message,
    segment: u32,
    first: u32,
    count: u32,
}

impl<'a> Texts<'a> {
    pub(super) fn new(from: &StructReader<'a>, index: u16) -> Result<Self, WireError> {
        let (segment, first, count) = match from.list(index)? {
            None => (0, 0, 0),
            Some((segment, first, 6, count)) => (segment, first, count),
            Some((.., element, _)) => {
                return Err(WireError::Kind {
                    wanted: element_name(6),
                    got: element_name(element),
                });
            }
        };
        Ok(Self {
            message: from.message,
            segment,
            first,
            count,
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<&'a str, WireError>> + use<'a> {
        let Self {
            message,
            segment,
            first,
            count,
        } = *self;
        (0..count).map(move |index| text(data_at(message, segment, first + index)?))
    }
}
