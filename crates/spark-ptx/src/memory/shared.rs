//! Shared memory of a block, and who touched which byte of it when.
//!
//! ```text
//! time of a warp   phase << 12 | turn      phase: new at every barrier of the block that it passes
//!                                          turn:  plus one at every barrier of the warp
//! ordered(x, me)   x is of my warp:     x is of my lane, or its time is below mine
//!                  x is of warp w:      I know w's phase of x to be over: seen[w] >= phase(x)
//! ```
//!
//! Happens-before by vector clocks: `seen` is a warp's clock, and a barrier joins the clocks of
//! those who meet there. After FastTrack (Flanagan and Freund, PLDI 2009): the last writer is one
//! entry; of readers the warps are kept as a set with one time, which is exact where barriers are
//! of the whole block, and forgets rather than accuses elsewhere. A cell is as wide as the
//! narrowest access of the kernel, at most a word.
//!
//! Two writes of the same value are no race. Values are those of the sequential run.
//!
//! What is not seen: a write after reads by warps in different phases, where it follows the earliest of them
//! only; races across the point where 2^20 phases are full and times begin anew; of several writers of
//! one cell, all but the last; lanes that did not take part in a barrier of their warp, which counts as one
//! of all its lanes.

/// Lane and warp of an access, and what it was.
const LANE: u16 = 31;
const WARP_SHIFT: u32 = 5;
const STRONG: u16 = 1 << 10;
/// Of a writer: a copy in the background that is not waited for.
const PENDING: u16 = 1 << 11;
/// Of readers: several lanes of one warp in one turn.
const MANY: u16 = 1 << 11;
const WRITTEN_SHIFT: u32 = 12;
/// Bits of a time below its phase.
pub(crate) const TURN_BITS: u32 = 12;
/// What the destination of a copy holds until it is waited for.
const POISON: u8 = 0xa5;

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    written_at: u32,
    read_at: u32,
    /// Warps that read since the last write.
    readers: u32,
    writer: u16,
    reader: u16,
}

/// Who accesses memory, and what is over for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Actor<'a> {
    pub(crate) warp: u16,
    pub(crate) time: u32,
    pub(crate) seen: &'a [u32; 32],
    /// The least of `seen` among warps that run.
    pub(crate) seen_of_all: u32,
    /// Atomics and volatile accesses do not race with each other.
    pub(crate) strong: bool,
}

/// What is wrong with an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conflict {
    Uninitialised,
    /// The bytes belong to a copy that nobody has waited for.
    Pending,
    ReadAfterWrite {
        warp: u16,
        lane: u16,
    },
    WriteAfterWrite {
        warp: u16,
        lane: u16,
    },
    WriteAfterRead {
        warp: u16,
        lane: u16,
    },
}

/// Bytes and cells of a block.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    bytes: Vec<u8>,
    cells: Vec<Cell>,
    grain_shift: u32,
}

impl Cell {
    fn is_written_before(&self, lane: u16, actor: &Actor<'_>) -> bool {
        let warp = self.writer >> WARP_SHIFT & 31;
        if warp == actor.warp {
            return self.written_at < actor.time || self.writer & LANE == lane;
        }
        actor.seen[usize::from(warp)] >= self.written_at >> TURN_BITS
    }

    fn read(&mut self, bytes: u16, lane: u16, actor: &Actor<'_>) -> Option<Conflict> {
        let writer = self.writer;
        let mut conflict = None;
        if (writer >> WRITTEN_SHIFT) & bytes != bytes {
            conflict = Some(Conflict::Uninitialised);
        } else if writer & PENDING != 0 {
            conflict = Some(Conflict::Pending);
        } else if !(self.is_written_before(lane, actor) || actor.strong && writer & STRONG != 0) {
            conflict = Some(Conflict::ReadAfterWrite {
                warp: writer >> WARP_SHIFT & 31,
                lane: writer & LANE,
            });
        }
        self.note_reader(lane, actor);
        conflict
    }

    /// Whether a read is in order at first sight: whole, waited for, written before a barrier of
    /// the block or by the lane itself.
    #[inline(always)]
    fn is_plainly_readable(&self, whole: u16, lane: u16, actor: &Actor<'_>) -> bool {
        let me = actor.warp << WARP_SHIFT | lane;
        let is_whole = self.writer >> WRITTEN_SHIFT == whole && self.writer & PENDING == 0;
        let is_mine = self.writer & (LANE | 31 << WARP_SHIFT) == me;
        is_whole && (is_mine || self.written_at >> TURN_BITS <= actor.seen_of_all)
    }

    /// Whether a write is in order at first sight: nobody else touched the cell since a barrier
    /// of the block.
    #[inline(always)]
    fn is_plainly_writable(&self, lane: u16, actor: &Actor<'_>) -> bool {
        let me = actor.warp << WARP_SHIFT | lane;
        let is_mine = self.writer & (LANE | 31 << WARP_SHIFT) == me;
        let after_writer = is_mine || self.written_at >> TURN_BITS <= actor.seen_of_all;
        let is_my_read =
            self.readers == 1 << actor.warp && self.reader & (LANE | 31 << WARP_SHIFT | MANY) == me;
        let after_readers =
            self.readers == 0 || is_my_read || self.read_at >> TURN_BITS <= actor.seen_of_all;
        self.writer & PENDING == 0 && after_writer && after_readers
    }

    #[inline(always)]
    fn note_reader(&mut self, lane: u16, actor: &Actor<'_>) {
        let me = actor.warp << WARP_SHIFT | lane;
        let is_noted = self.read_at == actor.time
            && self.reader & (LANE | 31 << WARP_SHIFT) == me
            && self.readers != 0;
        if is_noted && (actor.strong || self.reader & STRONG == 0) {
            return;
        }
        let bit = 1u32 << actor.warp;
        let mut strong = if actor.strong { STRONG } else { 0 };
        if self.readers == 0 || self.readers_are_before(actor) {
            self.readers = bit;
            self.read_at = actor.time;
            self.reader = me | strong;
            return;
        }
        strong &= self.reader;
        let mut many = 0;
        if self.read_at == actor.time && self.reader >> WARP_SHIFT & 31 == actor.warp {
            let same = self.reader & (LANE | 31 << WARP_SHIFT) == me;
            many = if same { self.reader & MANY } else { MANY };
        }
        let is_same_phase = (self.read_at ^ actor.time) >> TURN_BITS == 0;
        if is_same_phase {
            self.read_at = actor.time;
        } else {
            self.read_at = self.read_at.min(actor.time);
        }
        self.readers |= bit;
        self.reader = me | strong | many;
    }

    /// Whether every reader is over for the actor, so that whoever orders itself after the actor
    /// is ordered after them too.
    fn readers_are_before(&self, actor: &Actor<'_>) -> bool {
        let phase = self.read_at >> TURN_BITS;
        let mine = 1u32 << actor.warp;
        if self.readers & mine != 0 && self.read_at >= actor.time {
            return false;
        }
        if phase <= actor.seen_of_all {
            return true;
        }
        let mut others = self.readers & !mine;
        while others != 0 {
            let warp = others.trailing_zeros() as usize;
            if actor.seen[warp] < phase {
                return false;
            }
            others &= others - 1;
        }
        true
    }

    fn conflict_of_write(&self, lane: u16, actor: &Actor<'_>, changes: bool) -> Option<Conflict> {
        let writer = self.writer;
        if writer & PENDING != 0 {
            return Some(Conflict::Pending);
        }
        let is_written = writer >> WRITTEN_SHIFT != 0;
        if changes
            && is_written
            && !self.is_written_before(lane, actor)
            && !(actor.strong && writer & STRONG != 0)
        {
            return Some(Conflict::WriteAfterWrite {
                warp: writer >> WARP_SHIFT & 31,
                lane: writer & LANE,
            });
        }
        if !changes || self.readers == 0 || (actor.strong && self.reader & STRONG != 0) {
            return None;
        }
        let mine = 1u32 << actor.warp;
        let phase = self.read_at >> TURN_BITS;
        let mut others = self.readers & !mine;
        if phase <= actor.seen_of_all {
            others = 0;
        }
        while others != 0 {
            let warp = others.trailing_zeros() as usize;
            if actor.seen[warp] < phase {
                let is_last = self.reader >> WARP_SHIFT & 31 == warp as u16;
                let lane = if is_last { self.reader & LANE } else { 0 };
                return Some(Conflict::WriteAfterRead {
                    warp: warp as u16,
                    lane,
                });
            }
            others &= others - 1;
        }
        let is_mine = self.reader >> WARP_SHIFT & 31 == actor.warp && self.read_at == actor.time;
        if is_mine && (self.reader & MANY != 0 || self.reader & LANE != lane) {
            return Some(Conflict::WriteAfterRead {
                warp: actor.warp,
                lane: self.reader & LANE,
            });
        }
        None
    }

    fn write(&mut self, bytes: u16, lane: u16, actor: &Actor<'_>, flags: u16) {
        let strong = if actor.strong { STRONG } else { 0 };
        let written = self.writer & 0xf << WRITTEN_SHIFT;
        self.writer =
            lane | actor.warp << WARP_SHIFT | strong | flags | written | bytes << WRITTEN_SHIFT;
        self.written_at = actor.time;
        self.readers = 0;
    }
}

impl Shared {
    /// Empties the memory for another block.
    pub(crate) fn reset(&mut self, len_bytes: usize, grain: u32) {
        self.grain_shift = grain.trailing_zeros();
        self.bytes.clear();
        self.bytes.resize(len_bytes, 0);
        let n = len_bytes.div_ceil(grain as usize);
        self.cells.clear();
        self.cells.resize(n, Cell::default());
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets who accessed what and when, but not what was written.
    pub(crate) fn forget_times(&mut self) {
        for cell in &mut self.cells {
            cell.written_at = 0;
            cell.read_at = 0;
            cell.readers = 0;
        }
    }

    /// Bytes of a cell that a stretch covers, for the cell that begins at `at`.
    fn covered(&self, at: usize, offset: usize, len: usize) -> u16 {
        let grain = 1usize << self.grain_shift;
        if len >= grain && offset <= at && at + grain <= offset + len {
            return (1 << grain) - 1;
        }
        let first = offset.saturating_sub(at).min(grain);
        let end = (offset + len).saturating_sub(at).min(grain);
        (((1u32 << end) - 1) & !((1u32 << first) - 1)) as u16
    }

    fn cells_of(&self, offset: usize, len: usize) -> std::ops::Range<usize> {
        offset >> self.grain_shift..((offset + len - 1) >> self.grain_shift) + 1
    }

    /// Whether lanes may take the short way: in bounds, aligned, in whole cells.
    ///
    /// `offsets` count from the beginning of the memory.
    fn takes_whole_cells(&self, offsets: &[u32; 32], mask: u32, len: usize) -> bool {
        let align = len as u32 - 1;
        let end = self.bytes.len() as u64;
        let mut wrong = len < 1 << self.grain_shift || len > 16;
        for (lane, offset) in offsets.iter().enumerate() {
            let is_outside = u64::from(*offset) + len as u64 > end || offset & align != 0;
            wrong |= is_outside && mask >> lane & 1 != 0;
        }
        !wrong
    }

    /// The first cell and byte of 32 lanes that follow each other without a gap.
    fn side_by_side(&self, offsets: &[u32; 32], mask: u32, len: usize) -> Option<(usize, usize)> {
        let mut difference = !mask;
        for (lane, offset) in offsets.iter().enumerate() {
            difference |= offset ^ offsets[0].wrapping_add((len * lane) as u32);
        }
        let first = offsets[0] as usize;
        (difference == 0).then_some((first >> self.grain_shift, first))
    }

    /// Reads `len` bytes for every lane of a mask into that lane's part of `to`; false, with
    /// nothing done, if one of them must be looked at on its own.
    #[inline]
    pub(crate) fn read_lanes(
        &mut self,
        offsets: &[u32; 32],
        to: &mut [u8],
        (mask, len): (u32, usize),
        actor: &Actor<'_>,
    ) -> bool {
        if !self.takes_whole_cells(offsets, mask, len) {
            return false;
        }
        let cells = len >> self.grain_shift;
        let whole = 0xf >> (4 - (1 << self.grain_shift));
        if let Some((first, bytes)) = self.side_by_side(offsets, mask, len) {
            let all = &mut self.cells[first..first + 32 * cells];
            let mut wrong = false;
            for (lane, cells) in all.chunks_exact(cells).enumerate() {
                for cell in cells {
                    wrong |= !cell.is_plainly_readable(whole, lane as u16, actor);
                }
            }
            if wrong {
                return false;
            }
            for (lane, cells) in all.chunks_exact_mut(cells).enumerate() {
                for cell in cells {
                    cell.note_reader(lane as u16, actor);
                }
            }
            to[..32 * len].copy_from_slice(&self.bytes[bytes..bytes + 32 * len]);
            return true;
        }
        let mut wrong = false;
        for lane in 0..32u16 {
            if mask >> lane & 1 == 0 {
                continue;
            }
            let first = offsets[usize::from(lane)] as usize >> self.grain_shift;
            for cell in &mut self.cells[first..first + cells] {
                wrong |= !cell.is_plainly_readable(whole, lane, actor);
            }
        }
        if wrong {
            return false;
        }
        for lane in 0..32u16 {
            if mask >> lane & 1 == 0 {
                continue;
            }
            let offset = offsets[usize::from(lane)] as usize;
            let first = offset >> self.grain_shift;
            for cell in &mut self.cells[first..first + cells] {
                cell.note_reader(lane, actor);
            }
            copy_small(
                &mut to[len * usize::from(lane)..],
                &self.bytes[offset..],
                len,
            );
        }
        true
    }

    /// Writes `len` bytes for every lane of a mask from that lane's part of `from`; false, with
    /// nothing done, if one of them must be looked at on its own.
    #[inline]
    pub(crate) fn write_lanes(
        &mut self,
        offsets: &[u32; 32],
        from: &[u8],
        (mask, len): (u32, usize),
        actor: &Actor<'_>,
    ) -> bool {
        if !self.takes_whole_cells(offsets, mask, len) {
            return false;
        }
        let cells = len >> self.grain_shift;
        let whole = 0xf >> (4 - (1 << self.grain_shift));
        if let Some((first, bytes)) = self.side_by_side(offsets, mask, len) {
            let all = &mut self.cells[first..first + 32 * cells];
            let mut wrong = false;
            for (lane, cells) in all.chunks_exact(cells).enumerate() {
                for cell in cells {
                    wrong |= !cell.is_plainly_writable(lane as u16, actor);
                }
            }
            if wrong {
                return false;
            }
            for (lane, cells) in all.chunks_exact_mut(cells).enumerate() {
                for cell in cells {
                    cell.write(whole, lane as u16, actor, 0);
                }
            }
            self.bytes[bytes..bytes + 32 * len].copy_from_slice(&from[..32 * len]);
            return true;
        }
        let mut wrong = false;
        for lane in 0..32u16 {
            if mask >> lane & 1 == 0 {
                continue;
            }
            let first = offsets[usize::from(lane)] as usize >> self.grain_shift;
            for cell in &self.cells[first..first + cells] {
                wrong |= !cell.is_plainly_writable(lane, actor);
            }
        }
        // Lanes that write one place do so one after the other.
        if wrong || self.meet(offsets, mask, len) {
            return false;
        }
        for lane in 0..32u16 {
            if mask >> lane & 1 == 0 {
                continue;
            }
            let offset = offsets[usize::from(lane)] as usize;
            let first = offset >> self.grain_shift;
            for cell in &mut self.cells[first..first + cells] {
                cell.write(whole, lane, actor, 0);
            }
            copy_small(
                &mut self.bytes[offset..],
                &from[len * usize::from(lane)..],
                len,
            );
        }
        true
    }

    /// Whether two lanes of a mask write one place. Rising addresses, the rule, do not.
    fn meet(&self, offsets: &[u32; 32], mask: u32, len: usize) -> bool {
        let mut rises = mask == u32::MAX;
        for pair in offsets.windows(2) {
            rises &= pair[1] > pair[0];
        }
        if rises {
            return false;
        }
        let mut sorted = *offsets;
        let mut n = 0;
        for (lane, offset) in offsets.iter().enumerate() {
            if mask >> lane & 1 != 0 {
                sorted[n] = *offset / len as u32;
                n += 1;
            }
        }
        sorted[..n].sort_unstable();
        sorted[..n].windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Reads bytes that are inside; the first thing that is wrong about it.
    #[inline]
    pub(crate) fn read(
        &mut self,
        offset: usize,
        to: &mut [u8],
        lane: u16,
        actor: &Actor<'_>,
    ) -> Option<Conflict> {
        let len = to.len();
        to.copy_from_slice(&self.bytes[offset..offset + len]);
        let mut found = None;
        for idx in self.cells_of(offset, len) {
            let bytes = self.covered(idx << self.grain_shift, offset, len);
            let conflict = self.cells[idx].read(bytes, lane, actor);
            found = found.or(conflict);
        }
        found
    }

    /// Writes bytes that are inside; the first thing that is wrong about it.
    #[inline]
    pub(crate) fn write(
        &mut self,
        offset: usize,
        from: &[u8],
        lane: u16,
        actor: &Actor<'_>,
    ) -> Option<Conflict> {
        let found = self.check_write(offset, from, lane, actor, 0);
        self.bytes[offset..offset + from.len()].copy_from_slice(from);
        found
    }

    fn check_write(
        &mut self,
        offset: usize,
        from: &[u8],
        lane: u16,
        actor: &Actor<'_>,
        flags: u16,
    ) -> Option<Conflict> {
        let len = from.len();
        let mut found = None;
        let changes = self.bytes[offset..offset + len] != *from;
        for idx in self.cells_of(offset, len) {
            let bytes = self.covered(idx << self.grain_shift, offset, len);
            let cell = &mut self.cells[idx];
            let conflict = cell.conflict_of_write(lane, actor, changes);
            cell.write(bytes, lane, actor, flags);
            found = found.or(conflict);
        }
        found
    }

    /// Begins a copy: until it ends the bytes are nobody's.
    pub(crate) fn begin_copy(
        &mut self,
        offset: usize,
        len: usize,
        lane: u16,
        actor: &Actor<'_>,
    ) -> Option<Conflict> {
        let poison = [POISON; 16];
        let found = self.check_write(offset, &poison[..len], lane, actor, PENDING);
        self.bytes[offset..offset + len].copy_from_slice(&poison[..len]);
        found
    }

    /// Ends a copy: its bytes are there, for the lane that began it.
    pub(crate) fn end_copy(&mut self, offset: usize, from: &[u8], lane: u16, actor: &Actor<'_>) {
        self.bytes[offset..offset + from.len()].copy_from_slice(from);
        for idx in self.cells_of(offset, from.len()) {
            let bytes = self.covered(idx << self.grain_shift, offset, from.len());
            self.cells[idx].writer &= !PENDING;
            self.cells[idx].write(bytes, lane, actor, 0);
        }
    }
}

/// Copies 1 to 16 bytes, a power of two of them, without a call.
#[inline(always)]
fn copy_small(to: &mut [u8], from: &[u8], len: usize) {
    match len {
        4 => to[..4].copy_from_slice(&from[..4]),
        8 => to[..8].copy_from_slice(&from[..8]),
        16 => to[..16].copy_from_slice(&from[..16]),
        2 => to[..2].copy_from_slice(&from[..2]),
        _ => to[..len].copy_from_slice(&from[..len]),
    }
}
