//! What lanes do together: shuffles, votes, matches, reductions.
//!
//! Who calls these has made sure that every lane of the mask stands here.

use crate::check::FindingKind;
use crate::machine::block_state::BlockState;
use crate::machine::launch::Launch;
use crate::machine::warp::{Warp, lanes_of};
use crate::program::{Condition, List, P, R32, Shuffle, Slot, Vote, WarpReduction};

impl Warp {
    pub(crate) fn shuffle(
        &mut self,
        launch: &Launch<'_>,
        block: &mut BlockState,
        mode: Shuffle,
        (d, p): (R32, P),
        list: List,
        members: u32,
    ) {
        let [Slot::W32(a), Slot::W32(b), Slot::W32(c), _] = *launch.program.list(list) else {
            return;
        };
        let [a, b, c] = [a, b, c].map(|r| *self.row_32(launch, r));
        let mut values = a;
        let mut found = 0u32;
        for lane in lanes_of(members) {
            let (own, by) = (lane as u32, b[lane] & 31);
            let (clamp, segment) = (c[lane] & 31, c[lane] >> 8 & 31);
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
            found |= 1 << lane;
            let from = from as u32;
            if members >> from & 1 == 0 {
                block.report(self, lane, FindingKind::AbsentLane { lane: from });
            }
            values[lane] = a[from as usize];
        }
        self.write_32(d, &values, members);
        self.write_predicate(p, found, members);
    }

    pub(crate) fn vote(
        &mut self,
        vote: Vote,
        (d, p): (R32, P),
        condition: Condition,
        members: u32,
    ) {
        let ballot = self.condition(condition) & members;
        let holds = match vote {
            Vote::Ballot => {
                self.write_32(d, &[ballot; 32], members);
                return;
            }
            Vote::All => ballot == members,
            Vote::Any => ballot != 0,
            Vote::Uniform => ballot == 0 || ballot == members,
        };
        self.write_predicate(p, if holds { u32::MAX } else { 0 }, members);
    }

    pub(crate) fn match_any(&mut self, launch: &Launch<'_>, d: R32, a: Slot, members: u32) {
        let row = self.wide_row(launch, a);
        let mut values = [0u32; 32];
        for lane in lanes_of(members) {
            values[lane] = lanes_of(members)
                .filter(|&other| row[other] == row[lane])
                .fold(0, |same, other| same | 1 << other);
        }
        self.write_32(d, &values, members);
    }

    pub(crate) fn match_all(
        &mut self,
        launch: &Launch<'_>,
        (d, p): (R32, P),
        a: Slot,
        members: u32,
    ) {
        let row = self.wide_row(launch, a);
        let first = row[members.trailing_zeros() as usize & 31];
        let all = lanes_of(members).all(|lane| row[lane] == first);
        self.write_32(d, &[if all { members } else { 0 }; 32], members);
        self.write_predicate(p, if all { u32::MAX } else { 0 }, members);
    }

    pub(crate) fn reduce(
        &mut self,
        launch: &Launch<'_>,
        op: WarpReduction,
        d: R32,
        a: R32,
        members: u32,
    ) {
        let row = *self.row_32(launch, a);
        let values = lanes_of(members).map(|lane| row[lane]);
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
        self.write_32(d, &[result.unwrap_or(0); 32], members);
    }

    pub(crate) fn elect(&mut self, (d, p): (R32, P), members: u32) {
        let leader = members.trailing_zeros() & 31;
        self.write_32(d, &[leader; 32], members);
        self.write_predicate(p, 1 << leader, members);
    }
}
