//! Which registers may be read before they are written, and which results are read, found without running.
//!
//! ```text
//! gen(block)  registers that the block surely writes
//! in(block)   = intersection of out(p) over the blocks p before it,  out = in + gen
//! a read of r is watched while running unless r is in `in` or written before it in the block
//! ```
//!
//! Forward data flow over basic blocks ("definite assignment"). Only registers that some block
//! reads before writing take part, which are few. What stays unclear is watched at run time, lane
//! by lane; a guarded write never makes sure.
//!
//! ```text
//! result_reads   atomics whose result some way reads before it is surely written anew (liveness, backward)
//! ```

use std::collections::{BTreeSet, HashMap};

use super::code::Program;
use super::instruction::{Instruction, Op};
use super::layout::{RegisterId, Watch};
use super::rows::P;

/// Bits that the analysis may take; a larger function has all of its unclear registers watched.
const MAX_BITS: usize = 1 << 28;

/// What an instruction reads and writes.
#[derive(Debug, Default, Clone)]
pub(super) struct Uses {
    pub(super) reads: Vec<RegisterId>,
    pub(super) writes: Vec<RegisterId>,
}

/// Instructions that run one after the other, and the blocks that may follow.
pub(super) struct Block {
    pub(super) range: std::ops::Range<usize>,
    pub(super) next: Vec<usize>,
}

/// Watches for the instructions of one function, whose first has the number `first`.
///
/// Numbers of watched registers start at `n_watched`, which grows by as many as there are.
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
    let entering = if words * 64 * blocks.len() > MAX_BITS {
        vec![vec![0u64; words]; 1]
    } else {
        surely_written(code, uses, &blocks, &bit_of, words)
    };
    let reads = unsure_reads(code, uses, &blocks, &bit_of, &entering);
    let mut numbers: HashMap<RegisterId, u32> = HashMap::new();
    let mut watches: HashMap<u32, Watch> = HashMap::new();
    for (idx, id) in reads {
        let number = *numbers.entry(id).or_insert_with(|| {
            *n_watched += 1;
            *n_watched - 1
        });
        let watch = watches.entry(first + idx as u32).or_default();
        watch.reads.push((number, id));
    }
    for (idx, uses) in uses.iter().enumerate() {
        for id in &uses.writes {
            if let Some(number) = numbers.get(id) {
                let watch = watches.entry(first + idx as u32).or_default();
                watch.writes.push(*number);
            }
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
        for id in uses[idx].writes.iter().filter(|_| is_sure(&code[idx])) {
            if let Some(bit) = bit_of.get(id) {
                bits[bit / 64] &= !(1 << (bit % 64));
            }
        }
        for id in &uses[idx].reads {
            if let Some(bit) = bit_of.get(id) {
                set(bits, *bit);
            }
        }
    };
    let leaving = read_later(&blocks, words, step);
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

/// What may be read after each block, from what `step` does with one instruction.
fn read_later(blocks: &[Block], words: usize, step: impl Fn(&mut [u64], usize)) -> Vec<Vec<u64>> {
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
    let mut todo: Vec<usize> = (0..blocks.len()).collect();
    while let Some(at) = todo.pop() {
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
                todo.push(number);
            }
        }
    }
    leaving
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
    let mut written = std::collections::HashSet::new();
    for block in blocks {
        written.clear();
        for idx in block.range.clone() {
            let unsure = uses[idx].reads.iter().filter(|id| !written.contains(*id));
            found.extend(unsure.copied());
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

/// What is surely written when a block begins.
fn surely_written(
    code: &[Instruction],
    uses: &[Uses],
    blocks: &[Block],
    bit_of: &HashMap<RegisterId, usize>,
    words: usize,
) -> Vec<Vec<u64>> {
    let mut written = vec![vec![0u64; words]; blocks.len()];
    for (block, bits) in blocks.iter().zip(&mut written) {
        for idx in block.range.clone().filter(|idx| is_sure(&code[*idx])) {
            for id in &uses[idx].writes {
                if let Some(bit) = bit_of.get(id) {
                    set(bits, *bit);
                }
            }
        }
    }
    let mut entering = vec![vec![u64::MAX; words]; blocks.len()];
    entering[0] = vec![0; words];
    let mut todo = vec![0];
    let mut seen = vec![false; blocks.len()];
    seen[0] = true;
    while let Some(at) = todo.pop() {
        let leaving: Vec<u64> = entering[at]
            .iter()
            .zip(&written[at])
            .map(|(entering, written)| entering | written)
            .collect();
        for &next in &blocks[at].next {
            let mut changed = !std::mem::replace(&mut seen[next], true);
            for (bits, leaving) in entering[next].iter_mut().zip(&leaving) {
                changed |= *bits & leaving != *bits;
                *bits &= leaving;
            }
            if changed {
                todo.push(next);
            }
        }
    }
    entering
}

fn unsure_reads(
    code: &[Instruction],
    uses: &[Uses],
    blocks: &[Block],
    bit_of: &HashMap<RegisterId, usize>,
    entering: &[Vec<u64>],
) -> Vec<(usize, RegisterId)> {
    let mut found = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        // Without an analysis nothing is sure when a block begins.
        let mut bits = entering.get(number).unwrap_or(&entering[0]).clone();
        if entering.len() < blocks.len() {
            bits.fill(0);
        }
        for idx in block.range.clone() {
            for id in &uses[idx].reads {
                if bit_of.get(id).is_some_and(|bit| !holds(&bits, *bit)) {
                    found.push((idx, *id));
                }
            }
            for id in uses[idx].writes.iter().filter(|_| is_sure(&code[idx])) {
                if let Some(bit) = bit_of.get(id) {
                    set(&mut bits, *bit);
                }
            }
        }
    }
    found
}
