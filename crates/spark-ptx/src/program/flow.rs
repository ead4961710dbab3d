//! Which registers may be read before they are written, and which results are read, found without running.
//!
//! ```text
//! gen(block)  registers that the block surely writes
//! in(block)   = intersection of out(p) over the blocks p before it,  out = in + gen
//! a read of r is watched while running unless r is in `in` or written before it in the block
//! ```
//!
//! Forward data flow over basic blocks ("definite assignment"), blocks in the order in which they lie: each is
//! looked at about once for every loop around it. Only registers that some block reads before writing take
//! part, which are few. What stays unclear is watched at run time, lane by lane; a guarded write never makes sure.
//!
//! `mov` and `shfl` carry: their result is written where their source is, and it is no fault that they read
//! what is not, as long as nobody uses it.
//!
//! ```text
//! result_reads   atomics whose result some way reads before it is surely written anew (liveness, backward)
//! ```

use std::collections::{BTreeSet, HashMap, HashSet};

use super::code::Program;
use super::instruction::{Instruction, Op};
use super::layout::{Carry, RegisterId, Watch};
use super::rows::{P, ROW_KIND_SHIFT, Slot};

/// Bits that the analysis may take; a larger function has all of its unclear registers watched.
const MAX_BITS: usize = 1 << 28;
/// Steps that the analysis may take, for the same: each round of a loop may carry on by one `mov` only.
const MAX_STEPS: usize = 1 << 28;

/// What an instruction reads and writes.
#[derive(Debug, Default, Clone)]
pub(super) struct Uses {
    pub(super) reads: Vec<RegisterId>,
    pub(super) writes: Vec<RegisterId>,
    /// A register that it reads besides and one that it writes, if all it does is to take the value there.
    carries: Option<Carry<RegisterId>>,
}

impl Uses {
    /// From all that an instruction reads and writes.
    pub(super) fn new(
        program: &Program,
        op: &Op,
        mut reads: Vec<RegisterId>,
        mut writes: Vec<RegisterId>,
    ) -> Self {
        let carries = carried(program, op).filter(|carry| {
            let at = reads.iter().position(|it| *it == carry.from);
            at.map(|at| reads.remove(at)).is_some()
        });
        if let Some(carry) = carries {
            writes.retain(|it| *it != carry.to);
        }
        Self {
            reads,
            writes,
            carries,
        }
    }

    fn all_reads(&self) -> impl Iterator<Item = &RegisterId> {
        let carried = self.carries.iter().map(|it| &it.from);
        self.reads.iter().chain(carried)
    }

    fn all_writes(&self) -> impl Iterator<Item = &RegisterId> {
        let carried = self.carries.iter().map(|it| &it.to);
        self.writes.iter().chain(carried)
    }
}

/// What an instruction carries from one register of the frame to another, maybe of another lane.
fn carried(program: &Program, op: &Op) -> Option<Carry<RegisterId>> {
    match *op {
        Op::Move64 { d, a } => (a.0 >> ROW_KIND_SHIFT == 0).then_some(Carry {
            to: RegisterId::W64(d.0),
            from: RegisterId::W64(a.0),
        }),
        Op::Move32 { d, a } => carried_32(d.0, a.0),
        Op::Shuffle { d, operands, .. } => match program.list(operands).first() {
            Some(Slot::W32(a)) => carried_32(d.0, a.0),
            _ => None,
        },
        _ => None,
    }
}

fn carried_32(to: u32, from: u32) -> Option<Carry<RegisterId>> {
    (from >> ROW_KIND_SHIFT == 0).then_some(Carry {
        to: RegisterId::W32(to),
        from: RegisterId::W32(from),
    })
}

/// Instructions that run one after the other, and the blocks that may follow.
pub(super) struct Block {
    pub(super) range: std::ops::Range<usize>,
    pub(super) next: Vec<usize>,
}

/// Watches for the instructions of one function, whose first has the number `first`.
///
/// `n_watched` becomes the number of registers that are watched.
pub(super) fn watches(
    first: u32,
    code: &[Instruction],
    uses: &[Uses],
    tables: &[Vec<u32>],
    n_watched: &mut u32,
) -> HashMap<u32, Watch> {
    let blocks = blocks(first, code, tables);
    let unclear = exposed(code, uses, &blocks);
    if unclear.is_empty() {
        return HashMap::new();
    }
    let bit_of: HashMap<RegisterId, usize> = unclear
        .iter()
        .enumerate()
        .map(|(bit, id)| (*id, bit))
        .collect();
    let words = unclear.len().div_ceil(64);
    let steps: Vec<Vec<Step>> = blocks
        .iter()
        .map(|it| steps(code, uses, it, &bit_of))
        .collect();
    let is_possible = words * 64 * blocks.len() <= MAX_BITS;
    let known = is_possible.then(|| surely_written(&blocks, words, &steps));
    // Without an analysis nothing is sure when a block begins.
    let nothing = vec![0; words];
    let entering = known.flatten().map(|it| it.0);
    let entering = |block: usize| entering.as_ref().map_or(&nothing, |it| &it[block]);
    let unsure = Unsure::of(code, uses, &blocks, &bit_of, entering);
    let numbers = unsure.numbers(uses);
    *n_watched = numbers.len() as u32;
    let mut watches: HashMap<u32, Watch> = HashMap::new();
    for (idx, id) in unsure.reads {
        let watch = watches.entry(first + idx as u32).or_default();
        watch.reads.push((numbers[&id], id));
    }
    for (idx, uses) in uses.iter().enumerate() {
        let mut watch = |write: &dyn Fn(&mut Watch)| {
            write(watches.entry(first + idx as u32).or_default());
        };
        for number in uses.writes.iter().filter_map(|id| numbers.get(id)) {
            watch(&|watch| watch.writes.push(*number));
        }
        let Some(carry) = uses.carries else { continue };
        let Some(&to) = numbers.get(&carry.to) else {
            continue;
        };
        match numbers.get(&carry.from) {
            Some(&from) if unsure.carries.contains(&idx) => {
                watch(&|watch| watch.carries = Some(Carry { to, from }));
            }
            _ => watch(&|watch| watch.writes.push(to)),
        }
    }
    watches
}

/// Atomics, by their index, whose result may be read afterwards.
pub(super) fn result_reads(
    first: u32,
    code: &[Instruction],
    uses: &[Uses],
    tables: &[Vec<u32>],
) -> Vec<usize> {
    let is_asked =
        |idx: usize| matches!(code[idx].op, Op::Atomic { .. }) && !uses[idx].writes.is_empty();
    let mut asked: Vec<usize> = (0..code.len()).filter(|idx| is_asked(*idx)).collect();
    if asked.is_empty() {
        return asked;
    }
    let ids: BTreeSet<RegisterId> = asked
        .iter()
        .flat_map(|idx| &uses[*idx].writes)
        .copied()
        .collect();
    let bit_of: HashMap<RegisterId, usize> = ids.into_iter().zip(0..).collect();
    let blocks = blocks(first, code, tables);
    let words = bit_of.len().div_ceil(64);
    if words * 64 * blocks.len() > MAX_BITS {
        return asked;
    }
    // Backward over one instruction: what it surely writes was not read later, what it reads is.
    let step = |bits: &mut [u64], idx: usize| {
        for id in uses[idx].all_writes().filter(|_| is_sure(&code[idx])) {
            if let Some(bit) = bit_of.get(id) {
                bits[bit / 64] &= !(1 << (bit % 64));
            }
        }
        for id in uses[idx].all_reads() {
            if let Some(bit) = bit_of.get(id) {
                set(bits, *bit);
            }
        }
    };
    let (leaving, _) = read_later(&blocks, words, step);
    let mut is_read = vec![false; code.len()];
    for (block, mut bits) in blocks.iter().zip(leaving) {
        for idx in block.range.clone().rev() {
            let mut ids = uses[idx].writes.iter().filter_map(|id| bit_of.get(id));
            is_read[idx] = ids.any(|bit| holds(&bits, *bit));
            step(&mut bits, idx);
        }
    }
    asked.retain(|idx| is_read[*idx]);
    asked
}

/// What may be read after each block, from what `step` does with one instruction, and how often blocks were
/// looked at.
fn read_later(
    blocks: &[Block],
    words: usize,
    step: impl Fn(&mut [u64], usize),
) -> (Vec<Vec<u64>>, usize) {
    // A block keeps of later reads what it does not surely write, and adds its own.
    let through = |mut bits: Vec<u64>, block: &Block| {
        for idx in block.range.clone().rev() {
            step(&mut bits, idx);
        }
        bits
    };
    let own: Vec<Vec<u64>> = blocks
        .iter()
        .map(|it| through(vec![0; words], it))
        .collect();
    let kept: Vec<Vec<u64>> = blocks
        .iter()
        .map(|it| through(vec![u64::MAX; words], it))
        .collect();
    let mut before = vec![Vec::new(); blocks.len()];
    for (number, block) in blocks.iter().enumerate() {
        for &next in &block.next {
            before[next].push(number);
        }
    }
    let mut leaving = vec![vec![0u64; words]; blocks.len()];
    let mut todo: BTreeSet<usize> = (0..blocks.len()).collect();
    let mut n_visits = 0;
    while let Some(at) = todo.pop_last() {
        n_visits += 1;
        let read: Vec<u64> = (0..words)
            .map(|word| leaving[at][word] & kept[at][word] | own[at][word])
            .collect();
        for &number in &before[at] {
            let mut changed = false;
            for (bits, read) in leaving[number].iter_mut().zip(&read) {
                changed |= read & !*bits != 0;
                *bits |= read;
            }
            if changed {
                todo.insert(number);
            }
        }
    }
    (leaving, n_visits)
}

/// Whether a lane that stands at `pc` of a kernel's own code does nothing more but end.
pub(crate) fn only_ends(program: &Program, mut pc: u32) -> bool {
    // A branch to itself never ends.
    for _ in 0..8 {
        let instruction = &program.instructions[pc as usize];
        match instruction.op {
            _ if !is_sure(instruction) => return false,
            Op::Return | Op::Exit | Op::Trap => return true,
            Op::Branch { target } | Op::Goto { target } => pc = target,
            _ => return false,
        }
    }
    false
}

fn is_sure(instruction: &Instruction) -> bool {
    instruction.guard.register == P::NONE
}

/// Where control goes from an instruction besides the next one.
fn targets<'a>(op: &'a Op, tables: &'a [Vec<u32>]) -> &'a [u32] {
    match op {
        Op::Branch { target } | Op::Goto { target } => std::slice::from_ref(target),
        Op::BranchIndexed { targets, .. } => &tables[*targets as usize],
        _ => &[],
    }
}

/// Whether control may go on behind an instruction.
pub(super) fn falls(instruction: &Instruction) -> bool {
    let leaves = matches!(
        instruction.op,
        Op::Branch { .. } | Op::Goto { .. } | Op::BranchIndexed { .. } | Op::Return | Op::Exit
    );
    !leaves || !is_sure(instruction)
}

/// The blocks of a function in the order of the text.
pub(super) fn blocks(first: u32, code: &[Instruction], tables: &[Vec<u32>]) -> Vec<Block> {
    let mut leaders = BTreeSet::from([0]);
    for (idx, instruction) in code.iter().enumerate() {
        let targets = targets(&instruction.op, tables);
        if !targets.is_empty() || matches!(instruction.op, Op::Return | Op::Exit) {
            leaders.insert(idx + 1);
        }
        leaders.extend(targets.iter().map(|target| (target - first) as usize));
    }
    leaders.retain(|leader| *leader < code.len());
    let leaders: Vec<usize> = leaders.into_iter().collect();
    let block_at = |idx: usize| leaders.partition_point(|leader| *leader <= idx) - 1;
    let mut blocks = Vec::with_capacity(leaders.len());
    for (number, &begin) in leaders.iter().enumerate() {
        let end = leaders.get(number + 1).copied().unwrap_or(code.len());
        let last = &code[end - 1];
        let mut next: Vec<usize> = targets(&last.op, tables)
            .iter()
            .map(|target| (target - first) as usize)
            .filter(|target| *target < code.len())
            .map(block_at)
            .collect();
        if falls(last) && end < code.len() {
            next.push(number + 1);
        }
        blocks.push(Block {
            range: begin..end,
            next,
        });
    }
    blocks
}

/// Registers that some block reads before it surely writes them.
fn exposed(code: &[Instruction], uses: &[Uses], blocks: &[Block]) -> Vec<RegisterId> {
    let mut found = BTreeSet::new();
    let mut written = HashSet::new();
    for block in blocks {
        written.clear();
        for idx in block.range.clone() {
            let unsure = uses[idx].all_reads().filter(|id| !written.contains(*id));
            found.extend(unsure.copied());
            match uses[idx].carries {
                Some(carry) if !written.contains(&carry.from) => _ = written.remove(&carry.to),
                Some(carry) if is_sure(&code[idx]) => _ = written.insert(carry.to),
                _ => {}
            }
            if is_sure(&code[idx]) {
                written.extend(uses[idx].writes.iter().copied());
            }
        }
    }
    found.into_iter().collect()
}

fn set(bits: &mut [u64], bit: usize) {
    bits[bit / 64] |= 1 << (bit % 64);
}

fn holds(bits: &[u64], bit: usize) -> bool {
    bits[bit / 64] >> (bit % 64) & 1 != 0
}

/// What an instruction does to the bits of registers that are surely written.
enum Step {
    Write(usize),
    Carry { carry: Carry<usize>, is_sure: bool },
}

/// The steps of one block.
fn steps(
    code: &[Instruction],
    uses: &[Uses],
    block: &Block,
    bit_of: &HashMap<RegisterId, usize>,
) -> Vec<Step> {
    let each = |idx| steps_of(&code[idx], &uses[idx], bit_of);
    block.range.clone().flat_map(each).collect()
}

fn steps_of<'a>(
    instruction: &Instruction,
    uses: &'a Uses,
    bit_of: &'a HashMap<RegisterId, usize>,
) -> impl Iterator<Item = Step> + 'a {
    let is_sure = is_sure(instruction);
    let writes = uses.writes.iter().filter(move |_| is_sure);
    let writes = writes.filter_map(|id| bit_of.get(id).copied().map(Step::Write));
    let carried = uses.carries.and_then(|carry| {
        let to = *bit_of.get(&carry.to)?;
        match bit_of.get(&carry.from) {
            Some(&from) => {
                let carry = Carry { to, from };
                Some(Step::Carry { carry, is_sure })
            }
            // Every block writes it before it reads it.
            None => is_sure.then_some(Step::Write(to)),
        }
    });
    carried.into_iter().chain(writes)
}

fn run<'a>(steps: impl IntoIterator<Item = &'a Step>, bits: &mut [u64]) {
    for step in steps {
        match *step {
            Step::Write(bit) => set(bits, bit),
            Step::Carry { carry, is_sure } => {
                let Carry { to, from } = carry;
                if !holds(bits, from) {
                    bits[to / 64] &= !(1 << (to % 64));
                } else if is_sure {
                    set(bits, to);
                }
            }
        }
    }
}

/// What is surely written when a block begins, and how often blocks were looked at; none if that takes too long.
fn surely_written(
    blocks: &[Block],
    words: usize,
    steps: &[Vec<Step>],
) -> Option<(Vec<Vec<u64>>, usize)> {
    let mut entering = vec![vec![u64::MAX; words]; blocks.len()];
    entering[0] = vec![0; words];
    let mut todo = BTreeSet::from([0]);
    let mut seen = vec![false; blocks.len()];
    seen[0] = true;
    let (mut n_visits, mut n_steps) = (0, 0);
    while let Some(at) = todo.pop_first() {
        n_visits += 1;
        n_steps += steps[at].len() + words * blocks[at].next.len();
        if n_steps > MAX_STEPS {
            return None;
        }
        let mut leaving = entering[at].clone();
        run(&steps[at], &mut leaving);
        for &next in &blocks[at].next {
            let mut changed = !std::mem::replace(&mut seen[next], true);
            for (bits, leaving) in entering[next].iter_mut().zip(&leaving) {
                changed |= *bits & leaving != *bits;
                *bits &= leaving;
            }
            if changed {
                todo.insert(next);
            }
        }
    }
    Some((entering, n_visits))
}

/// Where registers are read that may not be written.
struct Unsure {
    reads: Vec<(usize, RegisterId)>,
    /// Instructions that may carry what is not written.
    carries: BTreeSet<usize>,
}

impl Unsure {
    fn of<'a>(
        code: &[Instruction],
        uses: &[Uses],
        blocks: &[Block],
        bit_of: &HashMap<RegisterId, usize>,
        entering: impl Fn(usize) -> &'a Vec<u64>,
    ) -> Self {
        let (mut reads, mut carries) = (Vec::new(), BTreeSet::new());
        for (number, block) in blocks.iter().enumerate() {
            let mut bits = entering(number).clone();
            for idx in block.range.clone() {
                let is_unsure =
                    |id: &RegisterId| bit_of.get(id).is_some_and(|bit| !holds(&bits, *bit));
                let unsure = uses[idx].reads.iter().copied().filter(is_unsure);
                reads.extend(unsure.map(|id| (idx, id)));
                if uses[idx].carries.is_some_and(|it| is_unsure(&it.from)) {
                    carries.insert(idx);
                }
                let steps: Vec<Step> = steps_of(&code[idx], &uses[idx], bit_of).collect();
                run(&steps, &mut bits);
            }
        }
        Self { reads, carries }
    }

    /// Numbers of the registers that are watched: those that are read, and those whose values come there.
    fn numbers(&self, uses: &[Uses]) -> HashMap<RegisterId, u32> {
        let mut sources: HashMap<RegisterId, Vec<RegisterId>> = HashMap::new();
        for carry in self.carries.iter().filter_map(|idx| uses[*idx].carries) {
            sources.entry(carry.to).or_default().push(carry.from);
        }
        let mut numbers = HashMap::new();
        let mut todo: Vec<RegisterId> = self.reads.iter().rev().map(|it| it.1).collect();
        while let Some(id) = todo.pop() {
            let number = numbers.len() as u32;
            if let std::collections::hash_map::Entry::Vacant(entry) = numbers.entry(id) {
                entry.insert(number);
                todo.extend(sources.remove(&id).into_iter().flatten());
            }
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ways that part one by one and meet, then a chain; both ends of each block's ways.
    fn graph(n_ways: usize, n_chain: usize) -> Vec<Block> {
        let n = 2 * n_ways + n_chain;
        let next = |number: usize| match number {
            it if it < n_ways => vec![it + 1, n_ways + it],
            it if it < 2 * n_ways => vec![2 * n_ways],
            it if it + 1 < n => vec![it + 1],
            _ => vec![],
        };
        let block = |number| Block {
            range: number..number + 1,
            next: next(number),
        };
        (0..n).map(block).collect()
    }

    #[test]
    fn blocks_are_looked_at_about_once() {
        let (n_ways, n_chain) = (200, 300);
        let blocks = graph(n_ways, n_chain);
        let words = n_ways.div_ceil(64);
        // Each way to the meeting place leaves out a register of its own.
        let writes = |block: usize| {
            let is_way = (n_ways..2 * n_ways).contains(&block);
            let bits = if is_way { 0..n_ways } else { 0..0 };
            bits.filter(move |bit| n_ways + bit != block)
                .map(Step::Write)
        };
        let steps: Vec<Vec<Step>> = (0..blocks.len()).map(|it| writes(it).collect()).collect();
        let (entering, n_visits) = surely_written(&blocks, words, &steps).unwrap();
        assert_eq!(n_visits, blocks.len());
        let meeting = &entering[2 * n_ways];
        assert!((0..n_ways).all(|bit| !holds(meeting, bit)));
        let read = |bits: &mut [u64], idx: usize| {
            if idx >= blocks.len() - n_ways {
                set(bits, blocks.len() - 1 - idx);
            }
        };
        let (leaving, n_visits) = read_later(&blocks, words, read);
        assert_eq!(n_visits, blocks.len());
        assert!((0..n_ways).all(|bit| holds(&leaving[0], bit)));
    }
}
