//! The order in which a function's instructions lie, which is the order in which lanes of a warp take turns.
//!
//! ```text
//! as written   TOP  even  LATCH  out  ODD     ODD goes back to LATCH: compilers put aside what is rare
//! as laid out  TOP  even  ODD  LATCH  out     code lies behind all that leads to it, and loops lie in one piece
//! ```
//!
//! The lanes at the lowest instruction go first. In this order that makes all of them wait where their ways
//! meet again (the immediate post-dominator of the branch, or sooner), and nobody begins a loop's next round
//! while others are in this one. So lanes behind an instruction do not come to it any more in this round,
//! however a compiler has laid out its blocks.
//!
//! ```text
//! order(blocks)    strongly connected components, those first that lead to others, else as written
//!   a component    its head, order(the rest without the ways to the head), a way back if one is needed
//! ```
//!
//! A way back is an instruction that only goes to the head: who begins the next round waits at it for those
//! who are still behind `continue` or in loops inside. The last block of a loop needs none. A way back, and
//! an instruction that leads to where a block went on before, count as none.
//!
//! Weak topological order: Bourdoncle, *Efficient chaotic iteration strategies with widenings* (1993). The
//! head of a loop with several entries is the first one that is written; loops deeper than `MAX_DEPTH`
//! stay as written.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::code::Program;
use super::flow::{self, Block, Uses};
use super::instruction::{Condition, Instruction, Op};
use super::rows::P;

/// Loops inside of loops that are told apart.
const MAX_DEPTH: usize = 64;
const NONE: usize = usize::MAX;

/// A part of a function as it is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Block(usize),
    /// The way back to this head of a loop.
    Back(usize),
}

/// Lays out the function that begins at `first` and ends where the program ends; what its
/// instructions read and write, in the new order.
pub(super) fn lay_out(program: &mut Program, first: u32, uses: Vec<Uses>) -> Vec<Uses> {
    let code = &program.instructions[first as usize..];
    let blocks = flow::blocks(first, code, &program.branch_tables);
    let pieces = pieces(&blocks);
    let is_as_written = (0..).zip(&pieces).all(|(at, it)| *it == Piece::Block(at));
    if is_as_written {
        return uses;
    }
    Layout::new(first, code, &blocks, pieces).apply(program, uses)
}

// The order ----------------------------------------------------------------------------------

/// Blocks in their order, and the ways back that are needed.
fn pieces(blocks: &[Block]) -> Vec<Piece> {
    let mut pieces = arrange(blocks);
    let mut place = vec![NONE; blocks.len()];
    let mut end = vec![NONE; blocks.len()];
    for (at, piece) in pieces.iter().enumerate() {
        match *piece {
            Piece::Block(block) => place[block] = at,
            Piece::Back(head) => end[head] = at,
        }
    }
    let mut is_needed = vec![false; blocks.len()];
    for (from, block) in blocks.iter().enumerate() {
        for &head in block.next.iter().filter(|to| place[**to] <= place[from]) {
            // Behind the last block of a loop there is nobody to wait for. The last block of a loop
            // inside has that one's end behind it.
            is_needed[head] |= end[head] != NONE && end[head] != place[from] + 1;
        }
    }
    pieces.retain(|piece| !matches!(piece, Piece::Back(head) if !is_needed[*head]));
    pieces
}

/// All blocks, and a way back at the end of each loop.
fn arrange(blocks: &[Block]) -> Vec<Piece> {
    enum Work {
        Piece(Piece),
        Region(Vec<usize>, usize),
    }
    let mut before = vec![Vec::new(); blocks.len()];
    for (number, block) in blocks.iter().enumerate() {
        for &next in &block.next {
            before[next].push(number);
        }
    }
    let is_reached = reached(blocks);
    let (reached, apart): (Vec<usize>, Vec<usize>) =
        (0..blocks.len()).partition(|block| is_reached[*block]);
    let mut components = Components::new(blocks);
    let mut pieces = Vec::new();
    let mut todo = vec![Work::Region(reached, 0)];
    while let Some(work) = todo.pop() {
        let (region, depth) = match work {
            Work::Piece(piece) => {
                pieces.push(piece);
                continue;
            }
            Work::Region(region, depth) if depth == MAX_DEPTH => {
                pieces.extend(region.into_iter().map(Piece::Block));
                continue;
            }
            Work::Region(region, depth) => (region, depth),
        };
        for mut component in components.of(region).into_iter().rev() {
            let is_loop = component.len() > 1 || {
                let only = component[0];
                blocks[only].next.contains(&only)
            };
            if !is_loop {
                todo.push(Work::Piece(Piece::Block(component[0])));
                continue;
            }
            let is_inside = |block: usize| component.binary_search(&block).is_ok();
            let is_entry =
                |block: usize| block == 0 || before[block].iter().any(|it| !is_inside(*it));
            let at = component.iter().position(|block| is_entry(*block));
            let head = component.remove(at.unwrap_or(0));
            todo.push(Work::Piece(Piece::Back(head)));
            todo.push(Work::Region(component, depth + 1));
            todo.push(Work::Piece(Piece::Block(head)));
        }
    }
    pieces.extend(apart.into_iter().map(Piece::Block));
    pieces
}

/// Blocks that some way leads to.
fn reached(blocks: &[Block]) -> Vec<bool> {
    let mut is_reached = vec![false; blocks.len()];
    let mut todo = vec![0];
    while let Some(at) = todo.pop() {
        if !std::mem::replace(&mut is_reached[at], true) {
            todo.extend(&blocks[at].next);
        }
    }
    is_reached
}

/// Finds strongly connected components of parts of a function.
struct Components<'a> {
    blocks: &'a [Block],
    /// The part that a block was last in.
    region: Vec<usize>,
    n_regions: usize,
    /// Of blocks of the part: when they were found, the first found that they lead back to, their component.
    found: Vec<usize>,
    lowest: Vec<usize>,
    component: Vec<usize>,
}

impl<'a> Components<'a> {
    fn new(blocks: &'a [Block]) -> Self {
        let none = vec![NONE; blocks.len()];
        Self {
            blocks,
            region: none.clone(),
            n_regions: 0,
            found: none.clone(),
            lowest: none.clone(),
            component: none,
        }
    }

    /// Components of a part, those first that lead to others, else as written; blocks of each as written.
    fn of(&mut self, region: Vec<usize>) -> Vec<Vec<usize>> {
        self.n_regions += 1;
        for &block in &region {
            self.region[block] = self.n_regions;
            (self.found[block], self.component[block]) = (NONE, NONE);
        }
        let mut n_found = 0;
        let mut components = Vec::new();
        for &block in &region {
            if self.found[block] == NONE {
                self.search(block, &mut n_found, &mut components);
            }
        }
        self.sort(components)
    }

    /// Tarjan's search, with a stack of its own: each block with the number of its next way.
    fn search(&mut self, from: usize, n_found: &mut usize, components: &mut Vec<Vec<usize>>) {
        let mut path = vec![(from, 0)];
        let mut open = Vec::new();
        while let Some((block, way)) = path.last_mut() {
            let block = *block;
            if *way == 0 {
                (self.found[block], self.lowest[block]) = (*n_found, *n_found);
                *n_found += 1;
                open.push(block);
            }
            let next = self.blocks[block].next.get(*way).copied();
            *way += 1;
            if let Some(next) = next {
                if self.region[next] != self.n_regions || self.component[next] != NONE {
                    continue;
                }
                if self.found[next] == NONE {
                    path.push((next, 0));
                } else {
                    self.lowest[block] = self.lowest[block].min(self.found[next]);
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                self.lowest[*parent] = self.lowest[*parent].min(self.lowest[block]);
            }
            if self.lowest[block] == self.found[block] {
                let at = open.iter().rposition(|it| *it == block).unwrap_or(0);
                let mut component = open.split_off(at);
                component.sort_unstable();
                for &block in &component {
                    self.component[block] = components.len();
                }
                components.push(component);
            }
        }
    }

    fn sort(&self, mut components: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
        let ways = |component: &[usize]| -> Vec<usize> {
            let next = component.iter().flat_map(|it| &self.blocks[*it].next);
            let inside = next.filter(|next| self.region[**next] == self.n_regions);
            inside.map(|next| self.component[*next]).collect()
        };
        let mut n_before = vec![0usize; components.len()];
        for (number, component) in components.iter().enumerate() {
            for next in ways(component).into_iter().filter(|it| *it != number) {
                n_before[next] += 1;
            }
        }
        let key = |number: usize, component: &[usize]| Reverse((component[0], number));
        let free = (0..components.len()).filter(|it| n_before[*it] == 0);
        let mut ready: BinaryHeap<_> = free.map(|it| key(it, &components[it])).collect();
        let mut sorted = Vec::with_capacity(components.len());
        while let Some(Reverse((_, number))) = ready.pop() {
            let component = std::mem::take(&mut components[number]);
            for next in ways(&component).into_iter().filter(|it| *it != number) {
                n_before[next] -= 1;
                if n_before[next] == 0 {
                    ready.push(key(next, &components[next]));
                }
            }
            sorted.push(component);
        }
        sorted
    }
}

// The layout ---------------------------------------------------------------------------------

/// Pieces with their places.
struct Layout<'a> {
    first: u32,
    blocks: &'a [Block],
    pieces: Vec<Piece>,
    /// Number of the piece of each block, and of the way back to it.
    place: Vec<usize>,
    back: Vec<usize>,
    /// The block that each one goes on to without a branch.
    falls_to: Vec<Option<usize>>,
    /// The first instruction of each piece.
    pcs: Vec<u32>,
}

impl<'a> Layout<'a> {
    fn new(first: u32, code: &[Instruction], blocks: &'a [Block], pieces: Vec<Piece>) -> Self {
        let mut place = vec![NONE; blocks.len()];
        let mut back = vec![NONE; blocks.len()];
        for (at, piece) in pieces.iter().enumerate() {
            match *piece {
                Piece::Block(block) => place[block] = at,
                Piece::Back(head) => back[head] = at,
            }
        }
        let falls = |(number, block): (usize, &Block)| {
            let falls = flow::falls(&code[block.range.end - 1]) && number + 1 < blocks.len();
            falls.then_some(number + 1)
        };
        let mut layout = Self {
            first,
            blocks,
            place,
            back,
            falls_to: blocks.iter().enumerate().map(falls).collect(),
            pcs: Vec::with_capacity(pieces.len()),
            pieces,
        };
        let mut pc = first;
        for (at, piece) in layout.pieces.iter().enumerate() {
            layout.pcs.push(pc);
            pc += match *piece {
                Piece::Block(block) => {
                    let len = blocks[block].range.len() as u32;
                    len + u32::from(layout.goes_on(at, block).is_some())
                }
                Piece::Back(_) => 1,
            };
        }
        layout
    }

    /// The piece that a way from one block to another leads to.
    fn way(&self, from: usize, to: usize) -> usize {
        if self.place[to] <= self.place[from] && self.back[to] != NONE {
            self.back[to]
        } else {
            self.place[to]
        }
    }

    /// Where the block of a piece goes on, if that is not the next piece.
    fn goes_on(&self, at: usize, block: usize) -> Option<usize> {
        let to = self.way(block, self.falls_to[block]?);
        (to != at + 1).then_some(to)
    }

    /// The new place of a target.
    fn target(&self, from: usize, old: u32) -> u32 {
        let idx = (old - self.first) as usize;
        let to = self.blocks.partition_point(|it| it.range.start <= idx) - 1;
        self.pcs[self.way(from, to)]
    }

    fn apply(&self, program: &mut Program, uses: Vec<Uses>) -> Vec<Uses> {
        let first = self.first as usize;
        let code = program.instructions.split_off(first);
        let origins = program.origins.split_off(first);
        let mut uses: Vec<Option<Uses>> = uses.into_iter().map(Some).collect();
        let mut laid_out = Vec::with_capacity(uses.len());
        for (at, piece) in self.pieces.iter().enumerate() {
            let (goes_to, origin) = match *piece {
                Piece::Back(head) => {
                    let origin = origins[self.blocks[head].range.start];
                    (Some(self.place[head]), origin)
                }
                Piece::Block(block) => {
                    for idx in self.blocks[block].range.clone() {
                        let mut instruction = code[idx];
                        match &mut instruction.op {
                            Op::Branch { target } => *target = self.target(block, *target),
                            Op::BranchIndexed { targets, .. } => {
                                for target in &mut program.branch_tables[*targets as usize] {
                                    *target = self.target(block, *target);
                                }
                            }
                            _ => {}
                        }
                        program.instructions.push(instruction);
                        program.origins.push(origins[idx]);
                        laid_out.push(uses[idx].take().unwrap_or_default());
                    }
                    let last = self.blocks[block].range.end - 1;
                    (self.goes_on(at, block), origins[last])
                }
            };
            if let Some(to) = goes_to {
                program.instructions.push(goto(self.pcs[to]));
                program.origins.push(origin);
                laid_out.push(Uses::default());
            }
        }
        laid_out
    }
}

fn goto(target: u32) -> Instruction {
    Instruction {
        op: Op::Goto { target },
        guard: Condition {
            register: P::NONE,
            negated: false,
        },
        is_watched: false,
        is_result_read: false,
    }
}
