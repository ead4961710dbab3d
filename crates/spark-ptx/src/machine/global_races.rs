//! Which block of a launch wrote a word of global memory, and which words must not be written.
//!
//! ```text
//! allocation -> pages of 4 KiB, made at the first write -> words: block + 1 | bytes | atomic
//! ```
//!
//! Blocks of one launch are not ordered. A write where another block wrote, and a read of what
//! another block wrote, are races, unless both are atomic, or the reading block has taken part in
//! an atomic before (it may have learned that the other is done; whether it did is not followed).
//! A write after another block's read is not seen; with the blocks in another order it is the
//! read that is.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::memory::Allocation;

const PAGE_WORDS: usize = 1024;
const BYTES_SHIFT: u32 = 28;
const ATOMIC: u32 = 1 << 27;
const BLOCK: u32 = ATOMIC - 1;

type Page = OnceLock<Box<[AtomicU32; PAGE_WORDS]>>;

/// Writers and read-only words of all allocations.
pub(crate) struct GlobalRaces {
    writers: Vec<Pages>,
    read_only: Vec<Pages>,
}

/// The words of one allocation; nothing is taken for one that nobody writes.
struct Pages {
    n: usize,
    pages: OnceLock<Vec<Page>>,
}

impl Pages {
    fn of(allocation: &Allocation) -> Pages {
        Pages {
            n: allocation.len.div_ceil(4 * PAGE_WORDS as u64) as usize,
            pages: OnceLock::new(),
        }
    }

    fn page(&self, word: usize) -> Option<&[AtomicU32; PAGE_WORDS]> {
        let pages = self.pages.get()?;
        pages.get(word / PAGE_WORDS)?.get().map(|page| &**page)
    }

    fn made(&self, word: usize) -> Option<&[AtomicU32; PAGE_WORDS]> {
        let pages = self
            .pages
            .get_or_init(|| (0..self.n).map(|_| OnceLock::new()).collect());
        let make = || Box::new(std::array::from_fn(|_| AtomicU32::new(0)));
        Some(pages.get(word / PAGE_WORDS)?.get_or_init(make))
    }
}

/// A stretch of an allocation that a block touches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Touch {
    pub(crate) allocation: usize,
    pub(crate) offset: usize,
    pub(crate) len: usize,
    pub(crate) block: u64,
    pub(crate) strong: bool,
}

impl GlobalRaces {
    pub(crate) fn new(allocations: &[Allocation]) -> GlobalRaces {
        GlobalRaces {
            writers: allocations.iter().map(Pages::of).collect(),
            read_only: allocations.iter().map(Pages::of).collect(),
        }
    }

    /// Notes a write; another block that wrote one of the bytes.
    ///
    /// Two threads that note one word in the same moment may both miss it; one thread misses none.
    pub(crate) fn write(&self, touch: Touch) -> Option<u64> {
        let mine = number(touch);
        let flag = if touch.strong { ATOMIC } else { 0 };
        let is_whole = (touch.offset | touch.len).is_multiple_of(4);
        let mut other = None;
        let pages = &self.writers[touch.allocation];
        for (first, words) in page_parts(touch) {
            let Some(page) = pages.made(first) else {
                break;
            };
            let slots = &page[first % PAGE_WORDS..][..words.len()];
            for (slot, word) in slots.iter().zip(words) {
                let bytes = if is_whole { 15 } else { bytes_of(touch, word) };
                let old = slot.load(Ordering::Relaxed);
                if old == mine | flag | bytes << BYTES_SHIFT {
                    continue;
                }
                let is_same = old & BLOCK == mine;
                let kept = if is_same { old & 0xf << BYTES_SHIFT } else { 0 };
                slot.store(mine | flag | bytes << BYTES_SHIFT | kept, Ordering::Relaxed);
                let both_strong = touch.strong && old & ATOMIC != 0;
                if old != 0 && !is_same && !both_strong && (old >> BYTES_SHIFT) & bytes != 0 {
                    other = Some(u64::from(old & BLOCK) - 1);
                }
            }
        }
        other
    }

    /// Another block that wrote one of the bytes.
    pub(crate) fn read(&self, touch: Touch) -> Option<u64> {
        let mine = number(touch);
        let pages = &self.writers[touch.allocation];
        for (first, words) in page_parts(touch) {
            let Some(page) = pages.page(first) else {
                continue;
            };
            let slots = &page[first % PAGE_WORDS..][..words.len()];
            for (slot, word) in slots.iter().zip(words) {
                let old = slot.load(Ordering::Relaxed);
                let both_strong = touch.strong && old & ATOMIC != 0;
                let is_other = old != 0 && old & BLOCK != mine && !both_strong;
                if is_other && (old >> BYTES_SHIFT) & bytes_of(touch, word) != 0 {
                    return Some(u64::from(old & BLOCK) - 1);
                }
            }
        }
        None
    }

    /// Notes a read that needs its bytes unchanged; whether this launch wrote one of them.
    pub(crate) fn read_unchanging(&self, touch: Touch) -> bool {
        let mut is_written = false;
        for (word, bytes) in words(touch) {
            if let Some(page) = self.writers[touch.allocation].page(word) {
                let old = page[word % PAGE_WORDS].load(Ordering::Relaxed);
                is_written |= (old >> BYTES_SHIFT) & bytes != 0;
            }
            if let Some(page) = self.read_only[touch.allocation].made(word) {
                let slot = &page[word % PAGE_WORDS];
                if slot.load(Ordering::Relaxed) & bytes != bytes {
                    slot.fetch_or(bytes, Ordering::Relaxed);
                }
            }
        }
        is_written
    }

    /// Whether a byte was read by a read that needs it unchanged.
    pub(crate) fn is_unchanging(&self, touch: Touch) -> bool {
        if self.read_only[touch.allocation].pages.get().is_none() {
            return false;
        }
        words(touch).any(|(word, bytes)| {
            let page = self.read_only[touch.allocation].page(word);
            page.is_some_and(|page| page[word % PAGE_WORDS].load(Ordering::Relaxed) & bytes != 0)
        })
    }
}

/// The block as it stands in a word.
fn number(touch: Touch) -> u32 {
    (touch.block as u32 & (BLOCK >> 1)) + 1
}

/// Words of a stretch, page by page, each with its first word.
fn page_parts(touch: Touch) -> impl Iterator<Item = (usize, Range<usize>)> {
    let mut first = touch.offset / 4;
    let end = (touch.offset + touch.len).div_ceil(4);
    std::iter::from_fn(move || {
        if first >= end {
            return None;
        }
        let begin = first;
        first = end.min((first / PAGE_WORDS + 1) * PAGE_WORDS);
        Some((begin, begin..first))
    })
}

/// Which bytes of a word a stretch has.
#[inline]
fn bytes_of(touch: Touch, word: usize) -> u32 {
    let first = touch.offset.saturating_sub(word * 4).min(4);
    let last = (touch.offset + touch.len - word * 4).min(4);
    (15u32 << first) & (15 >> (4 - last)) & 15
}

/// Words of a stretch, and which of their bytes it has.
fn words(touch: Touch) -> impl Iterator<Item = (usize, u32)> {
    page_parts(touch)
        .flat_map(move |(_, words)| words.map(move |word| (word, bytes_of(touch, word))))
}
