//! A message's segments, and where its pointers lead.

use std::cell::Cell;
use std::ops::Range;

/// How many pointers deep a value may lie.
pub const DEPTH_LIMIT: u8 = 64;
/// Words that may be read of a message, over its own.
const BUDGET_FACTOR: u64 = 8;
/// The least budget: a small message may be asked for all its fields many times.
const LEAST_BUDGET: u64 = 1 << 16;

/// Why a value of a message cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// A pointer, or what it points to, lies outside its segment.
    #[error("a pointer leads outside segment {segment}, to words {first} to {end} of {words}")]
    Outside {
        /// The segment, from 0.
        segment: u32,
        /// First word.
        first: i64,
        /// The word behind the last one.
        end: i64,
        /// What the segment has.
        words: usize,
    },
    /// A pointer into a segment that the message does not have.
    #[error("a pointer leads to segment {segment} of {segments}")]
    NoSegment {
        /// The segment, from 0.
        segment: u32,
        /// How many there are.
        segments: usize,
    },
    /// A pointer is of another kind than the field.
    #[error("there is {got} where {wanted} is expected")]
    Kind {
        /// What the field is.
        wanted: &'static str,
        /// What the message has.
        got: &'static str,
    },
    /// A pointer across segments that does not end at a struct or list.
    #[error("a pointer across segments leads to another one")]
    FarToFar,
    /// Values are nested deeper than [`DEPTH_LIMIT`].
    #[error("values are nested more than {DEPTH_LIMIT} deep")]
    TooDeep,
    /// More was read than the message holds several times over, as pointers in a circle cause.
    #[error("more than {words} words were read of a message of {own}")]
    TooMuch {
        /// The budget.
        words: u64,
        /// Words of the message.
        own: u64,
    },
    /// A text that does not end in a zero byte, or is not UTF-8.
    #[error("a text is not UTF-8 that ends in a zero byte")]
    NotText,
}

/// One message: its segments, whole.
#[derive(Debug, Default)]
pub struct Message {
    pub(crate) bytes: Vec<u8>,
    /// Bytes of each segment; whole words.
    pub(crate) segments: Vec<Range<usize>>,
    budget: Cell<u64>,
}

/// What a pointer leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Struct {
        segment: u32,
        first: u32,
        data_words: u16,
        pointers: u16,
    },
    List {
        segment: u32,
        first: u32,
        element: u8,
        count: u32,
    },
}

/// Elements of a list that are structs.
pub(super) const COMPOSITE: u8 = 7;

impl Message {
    /// Begins a new message whose segments have been filled in.
    pub(crate) fn begin(&mut self) {
        self.budget.set(self.most());
    }

    fn most(&self) -> u64 {
        (self.words() * BUDGET_FACTOR).max(LEAST_BUDGET)
    }

    fn words(&self) -> u64 {
        self.segments.iter().map(|it| it.len() as u64 / 8).sum()
    }

    /// How many segments it has.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// The bytes of a segment.
    fn segment(&self, segment: u32) -> Result<&[u8], WireError> {
        let range = self.segments.get(segment as usize);
        let range = range.ok_or(WireError::NoSegment {
            segment,
            segments: self.segments.len(),
        })?;
        Ok(&self.bytes[range.clone()])
    }

    /// The bytes of `count` words of a segment.
    pub(super) fn run(&self, segment: u32, first: i64, count: u64) -> Result<&[u8], WireError> {
        let bytes = self.segment(segment)?;
        let words = bytes.len() / 8;
        // Both are less than 2^36: what pointers and lists can say.
        let end = first + count as i64;
        if first < 0 || end > words as i64 {
            return Err(WireError::Outside {
                segment,
                first,
                end,
                words,
            });
        }
        Ok(&bytes[first as usize * 8..end as usize * 8])
    }

    fn word(&self, segment: u32, at: i64) -> Result<u64, WireError> {
        let bytes = self.run(segment, at, 1)?;
        Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
    }

    /// Counts words that are about to be read.
    fn spend(&self, words: u64) -> Result<(), WireError> {
        match self.budget.get().checked_sub(words.max(1)) {
            Some(left) => {
                self.budget.set(left);
                Ok(())
            }
            None => Err(WireError::TooMuch {
                words: self.most(),
                own: self.words(),
            }),
        }
    }

    /// What the pointer at a word leads to; `None` if it is null.
    pub(super) fn follow(&self, segment: u32, at: u32) -> Result<Option<Content>, WireError> {
        let word = self.word(segment, i64::from(at))?;
        if word == 0 {
            return Ok(None);
        }
        let content = match word & 3 {
            2 => self.far(word)?,
            _ => near(word, segment, i64::from(at) + 1)?,
        };
        self.check(content)?;
        Ok(Some(content))
    }

    /// The pointer that a far pointer stands for.
    fn far(&self, word: u64) -> Result<Content, WireError> {
        let (segment, landing) = ((word >> 32) as u32, i64::from(word as u32 >> 3));
        let pointer = self.word(segment, landing)?;
        if word & 4 == 0 {
            return near(pointer, segment, landing + 1);
        }
        // Two words: where the content begins, and what it is.
        if pointer & 7 != 2 {
            return Err(WireError::FarToFar);
        }
        let tag = self.word(segment, landing + 1)?;
        let (segment, first) = ((pointer >> 32) as u32, i64::from(pointer as u32 >> 3));
        near(tag, segment, first)
    }

    /// Holds what a pointer leads to against its segment and the budget.
    fn check(&self, content: Content) -> Result<(), WireError> {
        match content {
            Content::Struct {
                segment,
                first,
                data_words,
                pointers,
            } => {
                let words = u64::from(data_words) + u64::from(pointers);
                // An empty struct has no place.
                if words > 0 {
                    self.run(segment, i64::from(first), words)?;
                }
                self.spend(words)
            }
            Content::List {
                segment,
                first,
                element,
                count,
            } => {
                let words = list_words(element, count);
                self.run(segment, i64::from(first), words)?;
                // Elements of no size are counted too: a loop over them takes time.
                let is_void = element == 0;
                self.spend(if is_void { u64::from(count) } else { words })
            }
        }
    }

    /// Counts the elements of a list of structs, which may have no size.
    pub(super) fn spend_elements(&self, count: u32) -> Result<(), WireError> {
        self.spend(u64::from(count))
    }
}

/// Bits of an element; structs have their own.
pub(super) const fn element_bits(element: u8) -> u64 {
    match element {
        0 => 0,
        1 => 1,
        2 => 8,
        3 => 16,
        4 => 32,
        _ => 64,
    }
}

/// Words of a list's elements, the tag of structs included.
const fn list_words(element: u8, count: u32) -> u64 {
    match element {
        COMPOSITE => count as u64 + 1,
        _ => (count as u64 * element_bits(element)).div_ceil(64),
    }
}

/// A struct or list pointer whose offset counts from `base`.
fn near(word: u64, segment: u32, base: i64) -> Result<Content, WireError> {
    let offset = i64::from(word as i32 >> 2);
    let first = base + offset;
    let outside = WireError::Outside {
        segment,
        first,
        end: first,
        words: 0,
    };
    let first = u32::try_from(first);
    match word & 3 {
        0 => {
            let (data_words, pointers) = ((word >> 32) as u16, (word >> 48) as u16);
            // The empty struct points to itself: at word 0 to -1 of nothing.
            let is_empty = data_words == 0 && pointers == 0;
            Ok(Content::Struct {
                segment,
                first: if is_empty {
                    0
                } else {
                    first.map_err(|_| outside)?
                },
                data_words,
                pointers,
            })
        }
        1 => Ok(Content::List {
            segment,
            first: first.map_err(|_| outside)?,
            element: (word >> 32) as u8 & 7,
            count: (word >> 35) as u32,
        }),
        2 => Err(WireError::FarToFar),
        _ => Err(WireError::Kind {
            wanted: "a struct or list",
            got: "a capability",
        }),
    }
}
