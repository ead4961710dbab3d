//! Which thread of a launch wrote a word of global memory, and which words must not be written.
//!
//! ```text
//! allocation -> pages of 1024 words, made at the first write -> a word:
//!   block + 1 | atomic, for whom | bytes the block wrote | bytes the last thread wrote | its lane | its warp | when
//! when   (phase - base) << 7 | turn     the times of `memory::shared`; 0: over for everybody
//! base   the block's: 2047 more, and its words counted anew, when 4095 phases are full
//! ```
//!
//! Blocks of one launch are not ordered. A write where another block wrote something else, and a read of what
//! another block wrote, are races, unless both are atomic for all blocks, or this block has looked at the
//! result of such an atomic before (it may have learned that the other is done; whether it did is not followed).
//!
//! Threads of one block are ordered by its barriers, as for shared memory. A write where another thread
//! wrote something else, and a read of what another thread wrote, with no barrier between them are races,
//! unless both are atomic: what an atomic tells is followed to no thread.
//!
//! What is not seen:
//! - a write after another thread's read. Of blocks and of warps there is an order in which the write comes
//!   first, and then the read is seen; lanes of a warp have only one order;
//! - between lanes of a warp, a word of which several lanes wrote bytes or halves, or one reads such a part, side by side;
//! - of threads that write parts of a word, all but the last, and the same for blocks;
//! - between lanes of a warp, what follows its 127th barrier of the warp in one phase of the block: turns end there;
//! - what was written more than 2047 phases ago, with barriers in between that the two threads did not share;
//! - blocks whose numbers differ by a multiple of 2^23, which are one;
//! - what two threads of the interpreter note in the same moment.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::memory::{Actor, Allocation, TURN_BITS};
use crate::program::Scope;

const PAGE_WORDS: usize = 1024;
const BLOCK: u64 = (1 << 24) - 1;
const ATOMIC: u64 = 1 << 24;
/// An atomic for threads of its block.
const OF_BLOCK: u64 = 1 << 25;
const BYTES_SHIFT: u32 = 26;
const LAST_SHIFT: u32 = 30;
const ALL_BYTES: u64 = 0xff << BYTES_SHIFT;
const LANE_SHIFT: u32 = 34;
const WARP_SHIFT: u32 = 39;
/// Several lanes of the warp wrote the last bytes.
const MANY: u64 = 1 << 44;
const TIME_SHIFT: u32 = 45;
/// Bits of a time in a word below its phase.
const SHORT_TURN_BITS: u32 = 7;
const PHASE_SHIFT: u32 = TIME_SHIFT + SHORT_TURN_BITS;
/// Phases that words tell apart.
pub(super) const MOST_PHASES: u32 = (1 << (u64::BITS - PHASE_SHIFT)) - 1;
/// The last turn of a phase, and all after it.
const LAST_TURN: u32 = (1 << SHORT_TURN_BITS) - 1;
/// The thread that wrote last.
const THREAD: u64 = MANY | 0x3ff << LANE_SHIFT;

/// The `lane_shift` of a stretch that one lane touches.
pub(crate) const ONE_LANE: u32 = 63;

type Page<T> = OnceLock<Box<[T; PAGE_WORDS]>>;

/// Writers and read-only words of all allocations.
pub(crate) struct GlobalRaces {
    writers: Vec<Pages<AtomicU64>>,
    read_only: Vec<Pages<AtomicU32>>,
}

/// The words of one allocation; nothing is taken for one that nobody writes.
struct Pages<T> {
    n: usize,
    pages: OnceLock<Vec<Page<T>>>,
}

impl<T: Default> Pages<T> {
    fn of(allocation: &Allocation) -> Pages<T> {
        Pages {
            n: allocation.len.div_ceil(4 * PAGE_WORDS as u64) as usize,
            pages: OnceLock::new(),
        }
    }

    fn page(&self, word: usize) -> Option<&[T; PAGE_WORDS]> {
        let pages = self.pages.get()?;
        pages.get(word / PAGE_WORDS)?.get().map(|page| &**page)
    }

    fn made(&self, word: usize) -> Option<&[T; PAGE_WORDS]> {
        let pages = self
            .pages
            .get_or_init(|| (0..self.n).map(|_| OnceLock::new()).collect());
        let make = || Box::new(std::array::from_fn(|_| T::default()));
        Some(pages.get(word / PAGE_WORDS)?.get_or_init(make))
    }
}

/// A stretch of an allocation that lanes of a block touch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Touch {
    pub(crate) allocation: usize,
    pub(crate) offset: usize,
    pub(crate) len: usize,
    pub(crate) block: u64,
    /// The phase of the block that words count from.
    pub(crate) phase_base: u32,
    pub(crate) scope: Option<Scope>,
    /// Whether other blocks may have told this one that they are done: with them it does not race.
    pub(crate) has_learned: bool,
    /// The first lane, and the power of two of bytes that belong to each; or [`ONE_LANE`].
    pub(crate) lane: u32,
    pub(crate) lane_shift: u32,
}

/// Who wrote there, and is not ordered before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Race {
    /// Another block, by its number.
    Block(u64),
    Thread(Threads),
}

/// Two threads of a block that meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Threads {
    /// The lane of this access, and the word of the allocation.
    pub(crate) lane: u32,
    pub(crate) word: usize,
    pub(crate) other_warp: u32,
    pub(crate) other_lane: u32,
    pub(crate) other_is_atomic: bool,
}

impl GlobalRaces {
    pub(crate) fn new(allocations: &[Allocation]) -> GlobalRaces {
        GlobalRaces {
            writers: allocations.iter().map(Pages::of).collect(),
            read_only: allocations.iter().map(Pages::of).collect(),
        }
    }

    /// Notes a write; who else wrote one of the bytes. `changes` says whether bytes of a word that
    /// somebody else wrote become others.
    ///
    /// Two threads of the interpreter that note one word in the same moment may both miss it; one
    /// thread misses none.
    pub(crate) fn write(
        &self,
        touch: Touch,
        actor: &Actor<'_>,
        changes: impl Fn(usize) -> bool,
    ) -> Option<Race> {
        let mut found = None;
        let pages = &self.writers[touch.allocation];
        let whole_key = key_of(touch, actor);
        let seen_of_all = u64::from(actor.seen_of_all.saturating_sub(touch.phase_base));
        for words in page_parts(touch) {
            let first = words.start;
            let Some(page) = pages.made(first) else {
                break;
            };
            let slots = &page[first % PAGE_WORDS..][..words.len()];
            let mut note = |idx: usize, slot: &AtomicU64, key: u64, old: u64| {
                let race = note_write(slot, (key, old), touch, actor, || changes(first + idx));
                let race = race.filter(|race| race.counts_for(touch));
                let word = first + idx;
                found = race.map(|race| race.at(word, key)).or(found);
            };
            let Some(n) = words_of_lane(touch) else {
                for (idx, slot) in slots.iter().enumerate() {
                    let key = whole_key & !ALL_BYTES | key_of_part(touch, first + idx);
                    note(idx, slot, key, slot.load(Ordering::Relaxed));
                }
                continue;
            };
            let one = |idx: usize, slot: &AtomicU64, key: u64| {
                let old = slot.load(Ordering::Relaxed);
                if old == key {
                } else if old == 0 || is_before(old, key, seen_of_all) {
                    slot.store(key, Ordering::Relaxed);
                } else {
                    note(idx, slot, key, old);
                }
            };
            for_lanes(slots, n, whole_key + key_of_lane(touch, first), one);
        }
        found
    }

    /// Who wrote one of the bytes and is not ordered before.
    pub(crate) fn read(&self, touch: Touch, actor: &Actor<'_>) -> Option<Race> {
        let mut found = None;
        let pages = &self.writers[touch.allocation];
        let whole_key = key_of(touch, actor);
        let seen_of_all = u64::from(actor.seen_of_all.saturating_sub(touch.phase_base));
        for words in page_parts(touch) {
            let first = words.start;
            let Some(page) = pages.page(first) else {
                continue;
            };
            let slots = &page[first % PAGE_WORDS..][..words.len()];
            let mut look = |idx: usize, key: u64, old: u64| {
                let race =
                    look_at_read((key, old), touch, actor).filter(|race| race.counts_for(touch));
                found = found.or(race.map(|race| race.at(first + idx, key)));
            };
            let Some(n) = words_of_lane(touch) else {
                for (idx, slot) in slots.iter().enumerate() {
                    let key = whole_key & !ALL_BYTES | key_of_part(touch, first + idx);
                    look(idx, key, slot.load(Ordering::Relaxed));
                }
                continue;
            };
            let one = |idx: usize, slot: &AtomicU64, key: u64| {
                let old = slot.load(Ordering::Relaxed);
                if old != 0 && old != key && !is_before(old, key, seen_of_all) {
                    look(idx, key, old);
                }
            };
            for_lanes(slots, n, whole_key + key_of_lane(touch, first), one);
        }
        found
    }

    /// Makes words of a block count from a phase that is so much later; what was before is over.
    pub(crate) fn shift_phases(&self, block: u64, by: u32) {
        let own = number(block);
        let pages = self
            .writers
            .iter()
            .filter_map(|it| it.pages.get())
            .flatten();
        for slot in pages.filter_map(OnceLock::get).flat_map(|page| page.iter()) {
            let old = slot.load(Ordering::Relaxed);
            if (old ^ own) & BLOCK != 0 {
                continue;
            }
            let new = match old >> PHASE_SHIFT > u64::from(by) {
                true => old - (u64::from(by) << PHASE_SHIFT),
                false => old & ((1 << TIME_SHIFT) - 1),
            };
            // Another block that writes the word in this moment keeps it.
            let _ = slot.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Notes a read that needs its bytes unchanged; whether this launch wrote one of them.
    pub(crate) fn read_unchanging(&self, touch: Touch) -> bool {
        let mut is_written = false;
        for (word, bytes) in words(touch) {
            if let Some(page) = self.writers[touch.allocation].page(word) {
                let old = page[word % PAGE_WORDS].load(Ordering::Relaxed);
                is_written |= old >> BYTES_SHIFT & bytes != 0;
            }
            if let Some(page) = self.read_only[touch.allocation].made(word) {
                let (slot, bytes) = (&page[word % PAGE_WORDS], bytes as u32);
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
            let bytes = bytes as u32;
            page.is_some_and(|page| page[word % PAGE_WORDS].load(Ordering::Relaxed) & bytes != 0)
        })
    }
}

/// The block as it stands in a word.
fn number(block: u64) -> u64 {
    (block & (BLOCK >> 1)) + 1
}

/// What a thread that writes whole words leaves in them, for lane 0.
fn key_of(touch: Touch, actor: &Actor<'_>) -> u64 {
    let many = if touch.lane_shift < 2 { MANY } else { 0 };
    let flags = match touch.scope {
        None => 0,
        Some(Scope::Block) => ATOMIC | OF_BLOCK,
        Some(Scope::Device) => ATOMIC,
    };
    let thread = u64::from(actor.warp) << WARP_SHIFT | many;
    let time = short_time(actor.time, touch.phase_base) << TIME_SHIFT;
    number(touch.block) | flags | ALL_BYTES | thread | time
}

/// The lane of a word, for a key.
fn key_of_lane(touch: Touch, word: usize) -> u64 {
    let skipped = (4 * word).saturating_sub(touch.offset);
    let lane = touch.lane + (skipped as u64 >> touch.lane_shift) as u32;
    u64::from(lane) << LANE_SHIFT
}

/// The lane of a word and the bytes of it that are touched, for a key.
fn key_of_part(touch: Touch, word: usize) -> u64 {
    let bytes = bytes_of(touch, word);
    key_of_lane(touch, word) | bytes << BYTES_SHIFT | bytes << LAST_SHIFT
}

/// Words that one lane touches, if lanes touch whole ones.
fn words_of_lane(touch: Touch) -> Option<usize> {
    let is_whole = (touch.offset | touch.len).is_multiple_of(4);
    let is_one = touch.lane_shift == ONE_LANE;
    let fits = is_one || touch.lane_shift >= 2 && touch.offset.trailing_zeros() >= touch.lane_shift;
    let n = if is_one {
        PAGE_WORDS
    } else {
        1 << touch.lane_shift >> 2
    };
    (is_whole && fits).then_some(n)
}

/// Calls `one` for every word, with the key of its lane; each lane has `n` words.
#[inline(always)]
fn for_lanes(slots: &[AtomicU64], n: usize, key: u64, mut one: impl FnMut(usize, &AtomicU64, u64)) {
    let mut key = key;
    if n == 1 {
        for (idx, slot) in slots.iter().enumerate() {
            one(idx, slot, key);
            key += 1 << LANE_SHIFT;
        }
        return;
    }
    let mut run = |n: usize| {
        for (chunk_idx, chunk) in slots.chunks(n).enumerate() {
            for (idx, slot) in chunk.iter().enumerate() {
                one(n * chunk_idx + idx, slot, key);
            }
            key += 1 << LANE_SHIFT;
        }
    };
    // Known numbers make known loops.
    match n {
        2 => run(2),
        4 => run(4),
        n => run(n),
    }
}

/// Whether the word was last written by the block itself, before a barrier of all.
#[inline(always)]
fn is_before(old: u64, key: u64, seen_of_all: u64) -> bool {
    (old ^ key) & BLOCK == 0 && old >> PHASE_SHIFT <= seen_of_all
}

/// A race before its place is known.
enum Met {
    Block(u64),
    Thread(u64),
}

impl Met {
    /// Whether it is a race of who touches the word: what blocks tell each other excuses no thread of one.
    fn counts_for(&self, touch: Touch) -> bool {
        matches!(self, Met::Thread(_)) || !touch.has_learned
    }

    fn at(self, word: usize, key: u64) -> Race {
        match self {
            Met::Block(number) => Race::Block(number),
            Met::Thread(old) => Race::Thread(Threads {
                lane: (key >> LANE_SHIFT & 31) as u32,
                word,
                other_warp: (old >> WARP_SHIFT & 31) as u32,
                other_lane: (old >> LANE_SHIFT & 31) as u32,
                other_is_atomic: old & ATOMIC != 0,
            }),
        }
    }
}

/// Notes a write of a word that was written before; what it meets.
#[inline(never)]
fn note_write(
    slot: &AtomicU64,
    (key, old): (u64, u64),
    touch: Touch,
    actor: &Actor<'_>,
    changes: impl Fn() -> bool,
) -> Option<Met> {
    let mut new = key;
    let mut met = None;
    let bytes = key >> LAST_SHIFT & 15;
    let both_strong = are_both_strong(old, key);
    if (old ^ key) & BLOCK != 0 {
        if old >> BYTES_SHIFT & bytes != 0 && !both_strong && changes() {
            met = Some(Met::Block((old & BLOCK) - 1));
        }
    } else {
        new |= old & 0xf << BYTES_SHIFT;
        let last = old >> LAST_SHIFT & 15;
        if !is_over(old, key, touch, actor) {
            if last & bytes == 0 {
                // Another part of the word: with a lane of the same warp both are kept.
                let is_beside =
                    (old ^ key) >> WARP_SHIFT & 31 == 0 && (old ^ key) >> TIME_SHIFT == 0;
                new |= if is_beside {
                    MANY | last << LAST_SHIFT
                } else {
                    0
                };
            } else if !both_strong && changes() {
                met = Some(Met::Thread(old));
            }
        }
    }
    slot.store(new, Ordering::Relaxed);
    met
}

/// What a read of a word meets.
#[inline(never)]
fn look_at_read((key, old): (u64, u64), touch: Touch, actor: &Actor<'_>) -> Option<Met> {
    let bytes = key >> LAST_SHIFT & 15;
    if old == 0 || are_both_strong(old, key) {
        return None;
    }
    if (old ^ key) & BLOCK != 0 {
        let is_met = old >> BYTES_SHIFT & bytes != 0;
        return is_met.then_some(Met::Block((old & BLOCK) - 1));
    }
    let is_met = old >> LAST_SHIFT & bytes != 0 && !is_over(old, key, touch, actor);
    is_met.then_some(Met::Thread(old))
}

/// Whether two accesses are atomic for each other.
fn are_both_strong(old: u64, key: u64) -> bool {
    let is_one_block = (old ^ key) & BLOCK == 0;
    old & key & ATOMIC != 0 && (is_one_block || (old | key) & OF_BLOCK == 0)
}

/// A time as it stands in a word; 0 where it is before all that words tell apart.
fn short_time(time: u32, base: u32) -> u64 {
    let phase = (time >> TURN_BITS).saturating_sub(base);
    if phase == 0 {
        return 0;
    }
    let turn = (time & ((1 << TURN_BITS) - 1)).min(LAST_TURN);
    u64::from(phase << SHORT_TURN_BITS | turn)
}

/// Whether what a thread of the block wrote is over for the thread of a key.
fn is_over(old: u64, key: u64, touch: Touch, actor: &Actor<'_>) -> bool {
    let short = (old >> PHASE_SHIFT) as u32;
    let phase = short + touch.phase_base;
    if short == 0 || phase <= actor.seen_of_all || (old ^ key) & THREAD == 0 {
        return true;
    }
    let warp = (old >> WARP_SHIFT & 31) as u16;
    if warp != actor.warp {
        return actor.seen[usize::from(warp)] >= phase;
    }
    let turn = (old >> TIME_SHIFT) as u32 & LAST_TURN;
    let is_before = turn == LAST_TURN || phase << TURN_BITS | turn < actor.time;
    is_before || (old | key) & MANY != 0
}

/// Words of a stretch, page by page.
fn page_parts(touch: Touch) -> impl Iterator<Item = Range<usize>> {
    let mut first = touch.offset / 4;
    let end = (touch.offset + touch.len).div_ceil(4);
    std::iter::from_fn(move || {
        if first >= end {
            return None;
        }
        let begin = first;
        first = end.min((first / PAGE_WORDS + 1) * PAGE_WORDS);
        Some(begin..first)
    })
}

/// Which bytes of a word a stretch has.
#[inline]
fn bytes_of(touch: Touch, word: usize) -> u64 {
    let first = touch.offset.saturating_sub(word * 4).min(4);
    let last = (touch.offset + touch.len - word * 4).min(4);
    (15u64 << first) & (15 >> (4 - last)) & 15
}

/// Words of a stretch, and which of their bytes it has.
fn words(touch: Touch) -> impl Iterator<Item = (usize, u64)> {
    page_parts(touch)
        .flatten()
        .map(move |word| (word, bytes_of(touch, word)))
}
