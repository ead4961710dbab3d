//! What lanes do together: shuffles, votes, matches, reductions.
//!
//! ```text
//! ask      what each member brings, by the operands of its own instruction
//! answer   what comes of it, for all of them
//! give     to each member, by its own instruction
//! ```
//!
//! The members stand at one instruction, or each at one of its own with the same operation, qualifiers and
//! mask: PTX asks for no more of them.

use crate::check::FindingKind;
use crate::machine::block_state::BlockState;
use crate::machine::launch::Launch;
use crate::machine::warp::{Warp, lanes_of, lanes_where};
use crate::program::{Carry, Op, R32, Shuffle, Slot, Vote, WarpReduction};

/// What members bring.
#[derive(Default)]
struct Asked {
    a: [u64; 32],
    b: [u32; 32],
    c: [u32; 32],
    ballot: u32,
    /// Members of a shuffle that have written what they bring.
    written: u32,
}

/// What they get: a value each, and for which of them the predicate holds.
struct Answer {
    values: [u32; 32],
    holds: u32,
    /// Members of a shuffle that get what somebody has written.
    written: u32,
    /// Members that take a value of a lane that is none, each with that lane.
    absent: Vec<(usize, u32)>,
}

/// The row of an instruction's member mask, if it is one of these.
pub(crate) fn mask_row(launch: &Launch<'_>, op: &Op) -> Option<R32> {
    match *op {
        Op::Shuffle { operands, .. } => match launch.program.list(operands).last() {
            Some(Slot::W32(row)) => Some(*row),
            _ => None,
        },
        Op::Vote { mask, .. }
        | Op::MatchAny { mask, .. }
        | Op::MatchAll { mask, .. }
        | Op::Reduce { mask, .. }
        | Op::Elect { mask, .. } => Some(mask),
        _ => None,
    }
}

/// Whether two instructions are of one operation with the same qualifiers.
fn are_alike(this: &Op, that: &Op) -> bool {
    let is_wide = |slot: &Slot| matches!(slot, Slot::W64(_));
    match (this, that) {
        (Op::Shuffle { mode, .. }, Op::Shuffle { mode: other, .. }) => mode == other,
        (Op::Vote { vote, .. }, Op::Vote { vote: other, .. }) => vote == other,
        (Op::Reduce { op, .. }, Op::Reduce { op: other, .. }) => op == other,
        (Op::MatchAny { a, .. }, Op::MatchAny { a: other, .. })
        | (Op::MatchAll { a, .. }, Op::MatchAll { a: other, .. }) => is_wide(a) == is_wide(other),
        (Op::Elect { .. }, Op::Elect { .. }) => true,
        _ => false,
    }
}

/// Watched registers between which an instruction carries.
fn carried_at(launch: &Launch<'_>, pc: u32) -> Option<Carry<u32>> {
    if !launch.program.instructions[pc as usize].is_watched {
        return None;
    }
    launch.program.watches.get(&pc)?.carries
}

fn take<T: Copy>(to: &mut [T; 32], from: &[T; 32], lanes: u32) {
    if lanes == u32::MAX {
        *to = *from;
        return;
    }
    for lane in lanes_of(lanes) {
        to[lane] = from[lane];
    }
}

fn answer(op: &Op, asked: &Asked, members: u32) -> Answer {
    let mut answer = Answer {
        values: [0; 32],
        holds: 0,
        written: 0,
        absent: Vec::new(),
    };
    match *op {
        Op::Shuffle { mode, .. } => shuffle(mode, asked, members, &mut answer),
        Op::Vote { vote, .. } => {
            let ballot = asked.ballot & members;
            answer.values = [ballot; 32];
            let holds = match vote {
                Vote::Ballot => false,
                Vote::All => ballot == members,
                Vote::Any => ballot != 0,
                Vote::Uniform => ballot == 0 || ballot == members,
            };
            answer.holds = if holds { u32::MAX } else { 0 };
        }
        Op::MatchAny { .. } => {
            for lane in lanes_of(members) {
                let is_same = |other: usize| asked.a[other] == asked.a[lane];
                answer.values[lane] = lanes_where(members, is_same);
            }
        }
        Op::MatchAll { .. } => {
            let first = asked.a[members.trailing_zeros() as usize & 31];
            if lanes_of(members).all(|lane| asked.a[lane] == first) {
                (answer.values, answer.holds) = ([members; 32], u32::MAX);
            }
        }
        Op::Reduce { op, .. } => {
            let values = lanes_of(members).map(|lane| asked.a[lane] as u32);
            let result = values.reduce(|a, b| match op {
                WarpReduction::Add => a.wrapping_add(b),
                WarpReduction::MinU => a.min(b),
                WarpReduction::MaxU => a.max(b),
                WarpReduction::MinS => (a as i32).min(b as i32) as u32,
                WarpReduction::MaxS => (a as i32).max(b as i32) as u32,
                WarpReduction::And => a & b,
                WarpReduction::Or => a | b,
                WarpReduction::Xor => a ^ b,
            });
            answer.values = [result.unwrap_or(0); 32];
        }
        Op::Elect { .. } => {
            let leader = members.trailing_zeros() & 31;
            (answer.values, answer.holds) = ([leader; 32], 1 << leader);
        }
        _ => {}
    }
    answer
}

fn shuffle(mode: Shuffle, asked: &Asked, members: u32, answer: &mut Answer) {
    for lane in lanes_of(members) {
        answer.values[lane] = asked.a[lane] as u32;
        answer.written |= asked.written & 1 << lane;
        let (own, by) = (lane as u32, asked.b[lane] & 31);
        let (clamp, segment) = (asked.c[lane] & 31, asked.c[lane] >> 8 & 31);
        let highest = own & segment | clamp & !segment;
        let lowest = own & segment;
        let (from, is_inside) = match mode {
            Shuffle::Up => {
                let from = i64::from(own) - i64::from(by);
                (from, from >= i64::from(highest))
            }
            Shuffle::Down => {
                let from = i64::from(own + by);
                (from, from <= i64::from(highest))
            }
            Shuffle::Butterfly => {
                let from = i64::from(own ^ by);
                (from, from <= i64::from(highest))
            }
            Shuffle::Index => {
                let from = i64::from(lowest | by & !segment);
                (from, from <= i64::from(highest))
            }
        };
        if !is_inside {
            continue;
        }
        answer.holds |= 1 << lane;
        let from = from as u32;
        let mut is_written = asked.written >> from & 1;
        if members >> from & 1 == 0 {
            answer.absent.push((lane, from));
            is_written = 1;
        }
        answer.written = answer.written & !(1 << lane) | is_written << lane;
        answer.values[lane] = asked.a[from as usize] as u32;
    }
}

impl Warp {
    /// An instruction of members that all stand at it.
    pub(crate) fn together(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        op: &Op,
        members: u32,
    ) {
        let mut asked = Asked::default();
        self.ask(launch, self.pc, members, &mut asked);
        let answer = answer(op, &asked, members);
        for &(lane, from) in &answer.absent {
            block.report(self, lane, FindingKind::AbsentLane { lane: from });
        }
        self.give(launch, self.pc, &answer, members);
    }

    /// Runs an instruction whose members all wait, at several places; whether there was one.
    pub(crate) fn together_apart(&mut self, launch: &Launch<'_>, block: &mut BlockState) -> bool {
        let own = self.frame;
        let op_at =
            |warp: &Warp, lane: usize| launch.program.instructions[warp.lane_pc[lane] as usize].op;
        let mut found = None;
        for first in lanes_of(self.parked & self.live) {
            let Some(mask) = self.member_mask(launch, &op_at(self, first), first) else {
                continue;
            };
            let members = (mask | 1 << first) & self.live;
            let comes = |warp: &mut Warp, lane: usize| {
                let (this, that) = (op_at(warp, first), op_at(warp, lane));
                warp.parked >> lane & 1 != 0
                    && are_alike(&this, &that)
                    && warp.member_mask(launch, &that, lane) == Some(mask)
            };
            if lanes_of(members).all(|lane| comes(self, lane)) {
                found = Some((op_at(self, first), members));
                break;
            }
        }
        if let Some((op, members)) = found {
            let mut asked = Asked::default();
            for lane in lanes_of(members) {
                self.frame = *self.frame_of(lane);
                self.ask(launch, self.lane_pc[lane], 1 << lane, &mut asked);
            }
            let answer = answer(&op, &asked, members);
            for &(lane, from) in &answer.absent {
                let finding = FindingKind::AbsentLane { lane: from };
                block.report_at(self, self.lane_pc[lane], lane, finding);
            }
            for lane in lanes_of(members) {
                self.frame = *self.frame_of(lane);
                self.give(launch, self.lane_pc[lane], &answer, 1 << lane);
                self.lane_pc[lane] += 1;
            }
            self.parked &= !members;
        }
        self.frame = own;
        found.is_some()
    }

    /// The member mask of a lane that waits at an instruction, in the lane's own frame.
    fn member_mask(&mut self, launch: &Launch<'_>, op: &Op, lane: usize) -> Option<u32> {
        self.frame = *self.frame_of(lane);
        mask_row(launch, op).map(|row| self.row_32(launch, row)[lane])
    }

    fn ask(&self, launch: &Launch<'_>, pc: u32, lanes: u32, asked: &mut Asked) {
        let written = carried_at(launch, pc).map_or(u32::MAX, |carry| self.written(carry.from));
        asked.written |= written & lanes;
        match launch.program.instructions[pc as usize].op {
            Op::Shuffle { operands, .. } => {
                let [Slot::W32(a), Slot::W32(b), Slot::W32(c), _] = *launch.program.list(operands)
                else {
                    return;
                };
                take(&mut asked.a, &self.row_32(launch, a).map(u64::from), lanes);
                take(&mut asked.b, self.row_32(launch, b), lanes);
                take(&mut asked.c, self.row_32(launch, c), lanes);
            }
            Op::Vote { condition, .. } => asked.ballot |= self.condition(condition) & lanes,
            Op::MatchAny { a, .. } | Op::MatchAll { a, .. } => {
                take(&mut asked.a, &self.wide_row(launch, a), lanes);
            }
            Op::Reduce { a, .. } => {
                take(&mut asked.a, &self.row_32(launch, a).map(u64::from), lanes);
            }
            _ => {}
        }
    }

    fn give(&mut self, launch: &Launch<'_>, pc: u32, answer: &Answer, lanes: u32) {
        if let Some(carry) = carried_at(launch, pc) {
            self.note_written(carry.to, answer.written, lanes);
        }
        match launch.program.instructions[pc as usize].op {
            Op::Shuffle { d, p, .. } | Op::MatchAll { d, p, .. } | Op::Elect { d, p, .. } => {
                self.write_32(d, &answer.values, lanes);
                self.write_predicate(p, answer.holds, lanes);
            }
            Op::Vote {
                vote: Vote::Ballot,
                d,
                ..
            }
            | Op::MatchAny { d, .. }
            | Op::Reduce { d, .. } => self.write_32(d, &answer.values, lanes),
            Op::Vote { p, .. } => self.write_predicate(p, answer.holds, lanes),
            _ => {}
        }
    }
}
