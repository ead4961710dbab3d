//! A warp: registers, one program counter per lane, frames of calls.
//!
//! ```text
//! live      lanes that have not exited
//! active    lanes that run now: one pc, one frame layout
//! parked    lanes that wait at an instruction for others of the warp
//! the rest  wait at their own pc; when `active` reaches the lowest of them, the two become one
//! ```
//!
//! Independent thread scheduling (CUDA C++ Programming Guide, "Independent Thread Scheduling"),
//! with the deepest call and then the lowest pc first, which brings lanes together where an `if`
//! or a loop's round ends, as code is laid out (`program::order`). A program that relies on that order
//! and not on a `.sync` is wrong; the order of warps and blocks is where it shows.

use crate::limits::{MOST_LOCAL_BYTES, MOST_REGISTER_BYTES};
use crate::memory::{Actor, LaneWords};
use crate::program::{Condition, List, P, Program, R32, R64, ROW_KIND_SHIFT, Slot};

use super::launch::Launch;

/// Calls inside calls.
const MAX_DEPTH: u32 = 512;
/// Rows of registers of all frames; fewer where a block has many warps.
const MAX_ROWS: usize = 1 << 17;
/// Bytes of local memory, or of parameters, of all frames of a thread; fewer where a block has many threads.
const MAX_STACK_BYTES: u32 = 512 << 10;

/// What the memory of a frame is aligned to: the widest access.
const FRAME_ALIGN: u32 = 32;

/// What a call keeps of its caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) parent: u32,
    pub(crate) return_pc: u32,
    /// The call, for its results.
    pub(crate) site: u32,
    pub(crate) function: u32,
    pub(crate) base_32: usize,
    pub(crate) base_64: usize,
    pub(crate) base_predicate: usize,
    pub(crate) base_watched: usize,
    pub(crate) local: u32,
    pub(crate) param: u32,
    /// Bytes of each that are its own.
    pub(crate) local_bytes: u32,
    pub(crate) param_bytes: u32,
    pub(crate) depth: u32,
    /// Lanes in it; none when it is free.
    pub(crate) lanes: u32,
}

impl Frame {
    /// What lanes that run together have in common: the function, and where its registers and memory are.
    fn layout(&self) -> (u32, [usize; 4], [u32; 2]) {
        let bases = [
            self.base_32,
            self.base_64,
            self.base_predicate,
            self.base_watched,
        ];
        (self.function, bases, [self.local, self.param])
    }
}

/// A copy that was begun and not waited for.
#[derive(Debug, Clone)]
pub(crate) struct Copy {
    pub(crate) lane: u16,
    /// Number of its group, once the lane has closed it.
    pub(crate) group: u32,
    /// Offset in shared memory.
    pub(crate) to: usize,
    pub(crate) from: u64,
    pub(crate) n: u8,
    /// Bytes that are read; the rest is zeros.
    pub(crate) n_read: u8,
    /// What the source held when the copy began.
    pub(crate) source: [u8; 16],
    pub(crate) pc: u32,
}

/// What a warp waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ready,
    /// At this barrier of the block.
    AtBarrier(usize),
    Done,
}

/// The state of a warp.
#[derive(Debug)]
pub(crate) struct Warp {
    pub(crate) number: u32,
    pub(crate) status: Status,
    regs_32: Vec<[u32; 32]>,
    regs_64: Vec<[u64; 32]>,
    predicates: Vec<u32>,
    pub(crate) special_32: Vec<[u32; 32]>,
    pub(crate) special_64: Vec<[u64; 32]>,
    /// Lanes that have written each watched register, of all frames.
    watched: Vec<u32>,
    pub(crate) carry: u32,
    pub(crate) pc: u32,
    pub(crate) active: u32,
    pub(crate) live: u32,
    pub(crate) exited: u32,
    pub(crate) parked: u32,
    /// Lowest pc of lanes that wait for a turn in the same frame layout.
    pub(crate) meet_at: u32,
    pub(crate) lane_pc: [u32; 32],
    lane_frame: [u32; 32],
    frames: Vec<Frame>,
    free_frames: Vec<u32>,
    pub(crate) frame: Frame,
    max_rows: usize,
    max_stack_bytes: u32,
    pub(crate) params: LaneWords,
    pub(crate) local: LaneWords,
    pub(crate) copies: Vec<Copy>,
    /// Groups of copies that each lane has closed.
    pub(crate) groups: [u32; 32],
    pub(crate) time: u32,
    pub(crate) seen: [u32; 32],
    pub(crate) seen_of_all: u32,
    pub(crate) n_instructions: u64,
    /// The allocation of the last access.
    pub(crate) hint: usize,
}

/// Lanes of a mask, lowest first.
pub(crate) fn lanes_of(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let lane = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        Some(lane)
    })
}

/// Lanes of a mask for which a test holds.
pub(crate) fn lanes_where(mask: u32, mut test: impl FnMut(usize) -> bool) -> u32 {
    lanes_of(mask)
        .filter(|&lane| test(lane))
        .fold(0, |lanes, lane| lanes | 1 << lane)
}

impl Warp {
    /// A warp whose lanes stand at the first instruction of the kernel.
    pub(crate) fn new(launch: &Launch<'_>, number: u32) -> Warp {
        let code = launch.code;
        let n_lanes = (launch.n_threads - 32 * number).min(32);
        let live = u32::MAX >> (32 - n_lanes);
        let frame = Frame {
            parent: u32::MAX,
            return_pc: 0,
            site: 0,
            function: launch.entry.function,
            base_32: 0,
            base_64: 0,
            base_predicate: 0,
            base_watched: 0,
            local: 0,
            param: 0,
            local_bytes: code.local_bytes,
            param_bytes: code.param_bytes,
            depth: 0,
            lanes: live,
        };
        let room = MOST_LOCAL_BYTES / u64::from(launch.n_threads);
        let max_stack_bytes = u64::from(MAX_STACK_BYTES).min(room) as u32;
        let n_warps = u64::from(launch.n_threads.div_ceil(32));
        let max_rows = MAX_ROWS.min((MOST_REGISTER_BYTES / 128 / n_warps) as usize);
        let mut warp = Warp {
            number,
            status: Status::Ready,
            regs_32: vec![[0; 32]; code.n_rows_32 as usize],
            regs_64: vec![[0; 32]; code.n_rows_64 as usize],
            predicates: vec![0; code.n_predicates as usize],
            special_32: Vec::new(),
            special_64: Vec::new(),
            watched: vec![0; code.n_watched as usize],
            carry: 0,
            pc: code.first,
            active: live,
            live,
            exited: 0,
            parked: 0,
            meet_at: u32::MAX,
            lane_pc: [code.first; 32],
            lane_frame: [0; 32],
            frames: vec![frame],
            free_frames: Vec::new(),
            frame,
            max_rows,
            max_stack_bytes,
            params: LaneWords::default(),
            local: LaneWords::default(),
            copies: Vec::new(),
            groups: [0; 32],
            time: 0,
            seen: [0; 32],
            seen_of_all: 0,
            n_instructions: 0,
            hint: 0,
        };
        warp.params.reserve(code.param_bytes);
        warp.local.reserve(code.local_bytes);
        warp
    }

    // Rows -----------------------------------------------------------------------------------

    #[inline(always)]
    pub(crate) fn row_32<'a>(&'a self, launch: &'a Launch<'_>, r: R32) -> &'a [u32; 32] {
        let idx = (r.0 & ((1 << ROW_KIND_SHIFT) - 1)) as usize;
        match r.0 >> ROW_KIND_SHIFT {
            0 => &self.regs_32[self.frame.base_32 + idx],
            1 => &launch.constants_32[idx],
            _ => &self.special_32[idx],
        }
    }

    #[inline(always)]
    pub(crate) fn row_64<'a>(&'a self, launch: &'a Launch<'_>, r: R64) -> &'a [u64; 32] {
        let idx = (r.0 & ((1 << ROW_KIND_SHIFT) - 1)) as usize;
        match r.0 >> ROW_KIND_SHIFT {
            0 => &self.regs_64[self.frame.base_64 + idx],
            1 => &launch.constants_64[idx],
            _ => &self.special_64[idx],
        }
    }

    /// The value of one lane, as 64 bits.
    #[inline]
    pub(crate) fn lane_value(&self, launch: &Launch<'_>, slot: Slot, lane: usize) -> u64 {
        match slot {
            Slot::W32(r) => u64::from(self.row_32(launch, r)[lane]),
            Slot::W64(r) => self.row_64(launch, r)[lane],
            Slot::Sink => 0,
        }
    }

    /// All lanes of either width, as 64 bits.
    pub(crate) fn wide_row(&self, launch: &Launch<'_>, slot: Slot) -> [u64; 32] {
        match slot {
            Slot::W32(r) => self.row_32(launch, r).map(u64::from),
            Slot::W64(r) => *self.row_64(launch, r),
            Slot::Sink => [0; 32],
        }
    }

    #[inline(always)]
    pub(crate) fn write_32(&mut self, d: R32, values: &[u32; 32], mask: u32) {
        let row = &mut self.regs_32[self.frame.base_32 + d.0 as usize];
        if mask == u32::MAX {
            *row = *values;
            return;
        }
        for lane in 0..32 {
            row[lane] = if mask >> lane & 1 != 0 {
                values[lane]
            } else {
                row[lane]
            };
        }
    }

    #[inline(always)]
    pub(crate) fn write_64(&mut self, d: R64, values: &[u64; 32], mask: u32) {
        let row = &mut self.regs_64[self.frame.base_64 + d.0 as usize];
        if mask == u32::MAX {
            *row = *values;
            return;
        }
        for lane in 0..32 {
            row[lane] = if mask >> lane & 1 != 0 {
                values[lane]
            } else {
                row[lane]
            };
        }
    }

    /// Writes the value of one lane.
    #[inline]
    pub(crate) fn write_lane(&mut self, slot: Slot, lane: usize, value: u64) {
        match slot {
            Slot::W32(r) => self.regs_32[self.frame.base_32 + r.0 as usize][lane] = value as u32,
            Slot::W64(r) => self.regs_64[self.frame.base_64 + r.0 as usize][lane] = value,
            Slot::Sink => {}
        }
    }

    /// Writes all lanes of a mask, cut to the width of the row.
    pub(crate) fn write_slot(&mut self, slot: Slot, values: &[u64; 32], mask: u32) {
        match slot {
            Slot::W32(r) => self.write_32(r, &values.map(|value| value as u32), mask),
            Slot::W64(r) => self.write_64(r, values, mask),
            Slot::Sink => {}
        }
    }

    #[inline(always)]
    pub(crate) fn condition(&self, condition: Condition) -> u32 {
        let flip = if condition.negated { u32::MAX } else { 0 };
        if condition.register == P::NONE {
            return u32::MAX ^ flip;
        }
        self.predicates[self.frame.base_predicate + usize::from(condition.register.0)] ^ flip
    }

    #[inline(always)]
    pub(crate) fn write_predicate(&mut self, p: P, values: u32, mask: u32) {
        if p == P::NONE {
            return;
        }
        let row = &mut self.predicates[self.frame.base_predicate + usize::from(p.0)];
        *row = *row & !mask | values & mask;
    }

    /// Lanes that have written a watched register of the frame, by its number in the function.
    pub(crate) fn written(&self, number: u32) -> u32 {
        self.watched[self.frame.base_watched + number as usize]
    }

    /// Notes which lanes of a mask have written a watched register.
    pub(crate) fn note_written(&mut self, number: u32, lanes: u32, mask: u32) {
        let written = &mut self.watched[self.frame.base_watched + number as usize];
        *written = *written & !mask | lanes & mask;
    }

    /// Rows of a list, copied.
    pub(crate) fn rows_of(
        &self,
        launch: &Launch<'_>,
        program: &Program,
        list: List,
    ) -> Vec<[u32; 32]> {
        let slots = program.list(list).iter();
        let row = |slot: &Slot| match slot {
            Slot::W32(r) => *self.row_32(launch, *r),
            _ => [0; 32],
        };
        slots.map(row).collect()
    }

    /// Who this warp is for accesses of shared and of global memory.
    pub(crate) fn actor(&self, strong: bool) -> Actor<'_> {
        Actor {
            warp: self.number as u16,
            time: self.time,
            seen: &self.seen,
            seen_of_all: self.seen_of_all,
            strong,
        }
    }

    // Lanes that part and meet ---------------------------------------------------------------

    /// Notes where the active lanes stand; nobody is active then.
    pub(crate) fn suspend(&mut self) {
        for lane in lanes_of(self.active) {
            self.lane_pc[lane] = self.pc;
        }
        self.active = 0;
    }

    /// Suspends the active lanes; those outside of the mask go on behind the instruction.
    pub(crate) fn suspend_at(&mut self, mask: u32) {
        let passing = self.active & !mask;
        self.suspend();
        for lane in lanes_of(passing) {
            self.lane_pc[lane] += 1;
        }
    }

    /// Goes on to the next instruction.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        self.go_to(self.pc + 1);
    }

    /// The active lanes go on at a place, or wait there for those that may join.
    #[inline(always)]
    fn go_to(&mut self, pc: u32) {
        self.pc = pc;
        if pc >= self.meet_at {
            self.suspend();
        }
    }

    pub(crate) fn frame_of(&self, lane: usize) -> &Frame {
        &self.frames[self.lane_frame[lane] as usize]
    }

    /// Chooses the lanes that go on: those in the deepest call, then those at the lowest pc.
    /// False if no lane can.
    pub(crate) fn pick(&mut self) -> bool {
        let ready = self.live & !self.parked;
        let best = lanes_of(ready).min_by_key(|&lane| {
            let depth = self.frame_of(lane).depth;
            (u32::MAX - depth, self.lane_pc[lane], lane)
        });
        let Some(best) = best else {
            return false;
        };
        let frame = *self.frame_of(best);
        self.pc = self.lane_pc[best];
        self.active = 0;
        self.meet_at = u32::MAX;
        for lane in lanes_of(ready) {
            // Most often it is the same frame, which is quick to see.
            let is_same = self.lane_frame[lane] == self.lane_frame[best];
            if !is_same && self.frame_of(lane).layout() != frame.layout() {
                continue;
            }
            if self.lane_pc[lane] == self.pc {
                self.active |= 1 << lane;
            } else {
                self.meet_at = self.meet_at.min(self.lane_pc[lane]);
            }
        }
        self.frame = frame;
        true
    }

    /// Sends lanes of the active ones to a target; the others go on.
    pub(crate) fn branch(&mut self, taken: u32, target: u32) {
        if taken == self.active {
            self.go_to(target);
            return;
        }
        self.pc += 1;
        self.suspend();
        for lane in lanes_of(taken) {
            self.lane_pc[lane] = target;
        }
    }

    /// Ends lanes.
    pub(crate) fn exit(&mut self, lanes: u32) {
        self.live &= !lanes;
        self.exited |= lanes;
        self.active &= !lanes;
    }

    /// Whether all lanes that wait do so at one instruction of one frame layout.
    pub(crate) fn parked_at_one_place(&self) -> bool {
        let waiting = self.parked & self.live;
        let first = waiting.trailing_zeros() as usize & 31;
        let place = |lane: usize| (self.lane_pc[lane], self.frame_of(lane).layout());
        lanes_of(waiting).all(|lane| place(lane) == place(first))
    }

    /// Functions that a lane is in, from the kernel on, each with the pc where the lane stands in it
    /// or goes on when the call returns.
    pub(crate) fn stack_of(&self, lane: usize) -> Vec<(u32, u32)> {
        let is_active = self.active >> lane & 1 != 0;
        let mut pc = if is_active {
            self.pc
        } else {
            self.lane_pc[lane]
        };
        let mut number = self.lane_frame[lane];
        let mut stack = Vec::new();
        while let Some(frame) = self.frames.get(number as usize) {
            stack.push((frame.function, pc));
            (pc, number) = (frame.return_pc, frame.parent);
        }
        stack.reverse();
        stack
    }

    /// Whether all live lanes of a mask stand here; if not, the active ones park.
    pub(crate) fn gather(&mut self, mask: u32) -> bool {
        let needed = mask & self.live;
        if needed & !self.active == 0 {
            return true;
        }
        self.parked |= self.active;
        self.suspend();
        let here = lanes_where(self.parked & self.live, |lane| {
            self.lane_pc[lane] == self.pc
        });
        if needed & !here == 0 {
            self.parked &= !here;
        }
        false
    }

    // Calls ----------------------------------------------------------------------------------

    /// Enters a function; false if the thread has no memory for it.
    pub(crate) fn enter(&mut self, program: &Program, function: u32, site: u32, mask: u32) -> bool {
        let caller = self.frame;
        let here = &program.functions[caller.function as usize];
        let there = &program.functions[function as usize];
        let base_32 = caller.base_32 + here.n_rows_32 as usize;
        let base_64 = caller.base_64 + here.n_rows_64 as usize;
        let base_predicate = caller.base_predicate + here.n_predicates as usize;
        let base_watched = caller.base_watched + here.n_watched as usize;
        let local = (caller.local + here.local_bytes).next_multiple_of(FRAME_ALIGN);
        let param = (caller.param + here.param_bytes).next_multiple_of(FRAME_ALIGN);
        let end_32 = base_32 + there.n_rows_32 as usize;
        let end_64 = base_64 + there.n_rows_64 as usize;
        let end_predicate = base_predicate + there.n_predicates as usize;
        let end_watched = base_watched + there.n_watched as usize;
        let is_too_deep = caller.depth >= MAX_DEPTH
            || end_32 + 2 * end_64 + (end_predicate + end_watched) / 32 > self.max_rows
            || local + there.local_bytes + param + there.param_bytes > self.max_stack_bytes;
        if is_too_deep {
            return false;
        }
        let grow = |len: usize, end: usize| end.max(len);
        self.regs_32
            .resize(grow(self.regs_32.len(), end_32), [0; 32]);
        self.regs_64
            .resize(grow(self.regs_64.len(), end_64), [0; 32]);
        self.predicates
            .resize(grow(self.predicates.len(), end_predicate), 0);
        self.watched
            .resize(grow(self.watched.len(), end_watched), 0);
        for written in &mut self.watched[base_watched..end_watched] {
            *written &= !mask;
        }
        self.local.reserve(local + there.local_bytes);
        self.params.reserve(param + there.param_bytes);
        self.local.forget(local, there.local_bytes, mask);
        self.params.forget(param, there.param_bytes, mask);
        self.copy_params(
            &program.calls[site as usize].arguments,
            caller.param,
            &there.parameters,
            param,
            mask,
        );
        let mut todo = mask;
        while todo != 0 {
            // Lanes may have come here by different callers: one frame for each.
            let parent = self.lane_frame[todo.trailing_zeros() as usize];
            let lanes = lanes_where(todo, |lane| self.lane_frame[lane] == parent);
            let frame = Frame {
                parent,
                return_pc: self.pc + 1,
                site,
                function,
                base_32,
                base_64,
                base_predicate,
                base_watched,
                local,
                param,
                local_bytes: there.local_bytes,
                param_bytes: there.param_bytes,
                depth: caller.depth + 1,
                lanes,
            };
            let number = self.add_frame(frame);
            for lane in lanes_of(lanes) {
                self.lane_frame[lane] = number;
            }
            todo &= !lanes;
        }
        true
    }

    fn add_frame(&mut self, frame: Frame) -> u32 {
        match self.free_frames.pop() {
            Some(number) => {
                self.frames[number as usize] = frame;
                number
            }
            None => {
                self.frames.push(frame);
                self.frames.len() as u32 - 1
            }
        }
    }

    fn copy_params(
        &mut self,
        from: &[crate::program::FrameRange],
        from_base: u32,
        to: &[crate::program::FrameRange],
        to_base: u32,
        mask: u32,
    ) {
        for (from, to) in from.iter().zip(to) {
            let len = from.len.min(to.len);
            let (from, to) = (from_base + from.offset, to_base + to.offset);
            let mut at = 0;
            while at < len {
                let is_word = len - at >= 4 && (from + at) % 4 == 0 && (to + at) % 4 == 0;
                let size: u8 = if is_word { 4 } else { 1 };
                for lane in lanes_of(mask) {
                    let (value, is_written) = self.params.load(lane, from + at, size);
                    if is_written {
                        self.params.store(lane, to + at, size, value);
                        continue;
                    }
                    // What nobody stored stays unwritten, whatever an earlier call left there.
                    for at in at..at + u32::from(size) {
                        match self.params.load(lane, from + at, 1) {
                            (value, true) => self.params.store(lane, to + at, 1, value),
                            _ => self.params.forget_byte(lane, to + at),
                        }
                    }
                }
                at += u32::from(size);
            }
        }
    }

    /// Leaves the function; lanes of the kernel itself exit.
    pub(crate) fn leave(&mut self, program: &Program, mask: u32) {
        let mut todo = mask;
        self.pc += 1;
        self.suspend();
        while todo != 0 {
            let number = self.lane_frame[todo.trailing_zeros() as usize];
            let lanes = lanes_where(todo, |lane| self.lane_frame[lane] == number);
            todo &= !lanes;
            let frame = self.frames[number as usize];
            if frame.parent == u32::MAX {
                self.live &= !lanes;
                self.exited |= lanes;
                continue;
            }
            let caller = self.frames[frame.parent as usize];
            let site = &program.calls[frame.site as usize];
            let results = &program.functions[frame.function as usize].results;
            self.copy_params(results, frame.param, &site.results, caller.param, lanes);
            for lane in lanes_of(lanes) {
                self.lane_pc[lane] = frame.return_pc;
                self.lane_frame[lane] = frame.parent;
            }
            let kept = &mut self.frames[number as usize];
            kept.lanes &= !lanes;
            if kept.lanes == 0 {
                self.free_frames.push(number);
            }
        }
    }
}
