//! Programs of element-wise operators, run over blocks of elements.
//!
//! ```text
//! y = relu(a * b + c)      r0 = load 0; r1 = load 1; r2 = r0 * r1; r1 = load 2; r0 = r2 + r1; r1 = relu r0
//! ```
//!
//! A chain of element-wise nodes becomes one program, so intermediate results stay
//! in the L1 cache. A register holds a block of elements, all f32 or all i64.
//! Booleans are 0 and 1 in f32 registers.

use crate::graph::{RoundFloat, Unary};

/// What the elements of a register are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after the element type")]
pub(crate) enum RegisterKind {
    F32,
    I64,
}

/// One operation on registers.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "each is the operation of that name")]
pub(crate) enum PointOp {
    /// The element of the operand of this number.
    Load(u16),
    /// The same f32 everywhere.
    ConstantF32(f32),
    /// The same i64 everywhere.
    ConstantI64(i64),
    Unary(Unary),
    Add,
    Sub,
    Mul,
    /// Floats divide; i64 truncates towards zero and wraps, and by zero is an error.
    Div,
    /// i64 wraps; the negative power of zero is an error.
    Pow,
    /// C's `fmod`; of an i64 by zero an error.
    RemainderTruncated,
    /// Sign of the divisor; of an i64 by zero an error.
    RemainderFloored,
    PRelu,
    And,
    Or,
    Xor,
    /// Of the bits of i64, as the next three.
    BitAnd,
    BitOr,
    BitXor,
    /// Nothing is left beyond 0 to 63 bits.
    ShiftLeft,
    /// Beyond 0 to 63 bits nothing is left but copies of the sign.
    ShiftRight {
        /// Zeros come in at the highest bit instead of copies of it.
        logical: bool,
    },
    /// 0 or 1 in an f32 register, as the other comparisons.
    Equal,
    Less,
    LessOrEqual,
    /// NaN if either is NaN.
    Max,
    /// NaN if either is NaN.
    Min,
    /// `min(max(x, low), high)`, NaN stays.
    Clamp {
        low: f32,
        high: f32,
    },
    /// `min(max(x, low), high)`, NaN to 0: what a byte can hold.
    ToByte {
        /// The least.
        low: f32,
        /// The greatest.
        high: f32,
    },
    /// `a != 0 ? b : c`; `a` f32.
    Select,
    /// i64 to f32, rounded to nearest even.
    ToF32,
    /// The same of the bits of a u64.
    U64ToF32,
    /// f32 to i64, truncated towards zero, saturated, NaN to 0.
    ToI64,
    /// f32 to the bits of a u64, truncated towards zero, saturated, NaN to 0.
    ToU64,
    /// An i64 to the nearest end of the range of an integer of that width, where it is outside.
    Saturate {
        bits: u8,
        signed: bool,
    },
    /// `x != 0` as 0 or 1.
    ToBool,
    /// Through IEEE half precision, to nearest even.
    RoundF16,
    /// Through bfloat16, to nearest even.
    RoundBf16,
    /// Through a float of 8 bits or fewer, to nearest even.
    RoundFloat(RoundFloat),
    /// Modulo 2^bits into the range of a signed or unsigned integer of that width.
    Wrap {
        bits: u8,
        signed: bool,
    },
}

impl PointOp {
    /// Whether the result is the same for every element.
    fn is_constant(self) -> bool {
        matches!(self, Self::ConstantF32(_) | Self::ConstantI64(_))
    }

    /// Whether both are constants with the same bits.
    fn is_same(self, other: Self) -> bool {
        match (self, other) {
            (Self::ConstantF32(a), Self::ConstantF32(b)) => a.to_bits() == b.to_bits(),
            (Self::ConstantI64(a), Self::ConstantI64(b)) => a == b,
            _ => false,
        }
    }
}

/// One instruction: `registers[to] = op(registers[args])`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Instruction {
    pub(crate) op: PointOp,
    /// Operand registers; those the operation does not have are 0.
    pub(crate) args: [u16; 3],
    /// Result register; never one of the operands.
    pub(crate) to: u16,
    /// Element type of the operands (of the result where there is none).
    pub(crate) kind: RegisterKind,
}

/// A straight-line program over registers, run for every element.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Program {
    /// Instructions in the order in which they run.
    pub(crate) instructions: Vec<Instruction>,
    /// So many of them, the first, are constants in registers that no other writes: once for all elements will do.
    pub(crate) n_constants: usize,
    /// Registers that the instructions use, all below this number.
    pub(crate) n_registers: usize,
    /// Register holding the result at the end.
    pub(crate) result: u16,
    /// The instructions on integers that a zero may stop, and the nodes that they come from.
    pub(crate) divisions: Vec<Division>,
}

/// An instruction that has no result for some integers: one divided by zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Division {
    /// Position in the program.
    pub(crate) instruction: u16,
    /// Name of the node.
    pub(crate) node: String,
    /// Name of its operator.
    pub(crate) op: String,
}

/// One operation of an [`Expression`], in static single assignment: operand `i` is node `args[i]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ExpressionNode {
    pub(crate) op: PointOp,
    pub(crate) args: [u16; 3],
    pub(crate) n_args: u8,
    /// Element type of the operands.
    pub(crate) from: RegisterKind,
    /// Element type of the result.
    pub(crate) kind: RegisterKind,
}

/// A program under construction. The last node is the result.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Expression {
    pub(crate) nodes: Vec<ExpressionNode>,
    /// The operations on integers that a zero may stop.
    pub(crate) divisions: Vec<Division>,
}

impl Expression {
    /// Appends an operation; all operands are of one type, but for a select's condition.
    pub(crate) fn push(&mut self, op: PointOp, args: &[u16]) -> u16 {
        let from = match (op, args) {
            (PointOp::Select, &[_, b, _]) => self.nodes[b as usize].kind,
            (_, &[a, ..]) => self.nodes[a as usize].kind,
            (PointOp::ConstantI64(_), _) => RegisterKind::I64,
            _ => RegisterKind::F32,
        };
        let kind = match op {
            PointOp::ToI64 | PointOp::ToU64 => RegisterKind::I64,
            PointOp::Equal
            | PointOp::Less
            | PointOp::LessOrEqual
            | PointOp::ToF32
            | PointOp::U64ToF32
            | PointOp::ToBool => RegisterKind::F32,
            _ => from,
        };
        let mut padded = [0; 3];
        padded[..args.len()].copy_from_slice(args);
        self.nodes.push(ExpressionNode {
            op,
            args: padded,
            n_args: args.len() as u8,
            from,
            kind,
        });
        (self.nodes.len() - 1) as u16
    }

    /// Appends an operation on two integers that a zero may stop, and notes whose it is.
    pub(crate) fn push_division(&mut self, op: PointOp, args: &[u16], node: (&str, &str)) -> u16 {
        let at = self.push(op, args);
        self.divisions.push(Division {
            instruction: at,
            node: node.0.to_owned(),
            op: node.1.to_owned(),
        });
        at
    }

    /// Appends a load of operand `input`.
    pub(crate) fn load(&mut self, input: u16, kind: RegisterKind) -> u16 {
        self.nodes.push(ExpressionNode {
            op: PointOp::Load(input),
            args: [0; 3],
            n_args: 0,
            from: kind,
            kind,
        });
        (self.nodes.len() - 1) as u16
    }

    /// Element type of the result.
    pub(crate) fn result_kind(&self) -> RegisterKind {
        self.nodes.last().map_or(RegisterKind::F32, |n| n.kind)
    }

    /// Appends all of `other`, its operand numbers mapped through `inputs`; returns its result.
    pub(crate) fn append(&mut self, other: &Self, inputs: &[u16]) -> u16 {
        let base = self.nodes.len() as u16;
        for node in &other.nodes {
            let mut node = *node;
            if let PointOp::Load(i) = &mut node.op {
                *i = inputs[*i as usize];
            }
            for arg in &mut node.args[..node.n_args as usize] {
                *arg += base;
            }
            self.nodes.push(node);
        }
        let moved = other.divisions.iter().cloned().map(|mut division| {
            division.instruction += base;
            division
        });
        self.divisions.extend(moved);
        (self.nodes.len() - 1) as u16
    }

    /// The same with constants in front, each of them once, and with products for quotients by powers of two, which are the
    /// same numbers.
    fn in_order(&self) -> Self {
        let mut ordered = Self::default();
        let mut place = vec![0; self.nodes.len()];
        let constant = |ordered: &mut Self, op: PointOp| {
            let found = ordered.nodes.iter().position(|node| node.op.is_same(op));
            found.map_or_else(|| ordered.push(op, &[]), |at| at as u16)
        };
        let is_last = |i: usize| i + 1 == self.nodes.len();
        for (i, node) in self.nodes.iter().enumerate() {
            if node.op.is_constant() && !is_last(i) {
                place[i] = constant(&mut ordered, node.op);
            }
        }
        let mut inverses = vec![None; self.nodes.len()];
        for (inverse, node) in inverses.iter_mut().zip(&self.nodes) {
            if let (PointOp::Div, RegisterKind::F32) = (node.op, node.from)
                && let PointOp::ConstantF32(by) = self.nodes[node.args[1] as usize].op
                && let Some(factor) = inverse_of_power_of_two(by)
            {
                *inverse = Some(constant(&mut ordered, PointOp::ConstantF32(factor)));
            }
        }
        for (i, node) in self.nodes.iter().enumerate() {
            if node.op.is_constant() && !is_last(i) {
                continue;
            }
            let mut node = *node;
            for arg in &mut node.args[..node.n_args as usize] {
                *arg = place[*arg as usize];
            }
            if let Some(factor) = inverses[i] {
                (node.op, node.args[1]) = (PointOp::Mul, factor);
            }
            place[i] = ordered.nodes.len() as u16;
            ordered.nodes.push(node);
        }
        ordered.divisions = self.divisions.clone();
        for division in &mut ordered.divisions {
            division.instruction = place[division.instruction as usize];
        }
        ordered
    }

    /// Assigns registers, each reused once its last reader has run, but those of constants.
    pub(crate) fn compile(&self) -> Program {
        let ordered = self.in_order();
        let nodes = &ordered.nodes;
        let n = nodes.len();
        let constants = nodes.iter().take(n.saturating_sub(1));
        let n_constants = constants.take_while(|node| node.op.is_constant()).count();
        let mut last_use = vec![0; n];
        for (i, node) in nodes.iter().enumerate() {
            for &arg in &node.args[..node.n_args as usize] {
                last_use[arg as usize] = i;
            }
        }
        if let Some(last) = last_use.last_mut() {
            *last = n;
        }
        let mut register_of = vec![0u16; n];
        let mut free: Vec<u16> = Vec::new();
        let mut n_registers = 0;
        let mut instructions = Vec::with_capacity(n);
        for (i, node) in nodes.iter().enumerate() {
            let mut args = [0; 3];
            let operands = &node.args[..node.n_args as usize];
            for (to, &arg) in args.iter_mut().zip(operands) {
                *to = register_of[arg as usize];
            }
            // Taken before the operands are freed: no instruction writes over an operand.
            let to = free.pop().unwrap_or_else(|| {
                n_registers += 1;
                n_registers - 1
            });
            for (k, &arg) in operands.iter().enumerate() {
                let is_done = last_use[arg as usize] == i && arg as usize >= n_constants;
                if is_done && !operands[..k].contains(&arg) {
                    free.push(register_of[arg as usize]);
                }
            }
            register_of[i] = to;
            instructions.push(Instruction {
                op: node.op,
                args,
                to,
                kind: node.from,
            });
        }
        Program {
            instructions,
            n_constants,
            n_registers: n_registers as usize,
            result: register_of.last().copied().unwrap_or(0),
            divisions: ordered.divisions,
        }
    }
}

/// One over a power of two, if that is one as well: products with it are quotients, bit for bit.
pub(crate) fn inverse_of_power_of_two(by: f32) -> Option<f32> {
    let inverse = 1.0 / by;
    let has_one_bit = |v: f32| v.is_normal() && v.to_bits() & 0x007f_ffff == 0;
    (has_one_bit(by) && has_one_bit(inverse)).then_some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_reused_after_their_last_reader() {
        let mut e = Expression::default();
        let mut sum = e.load(0, RegisterKind::F32);
        for input in 1..10 {
            let x = e.load(input, RegisterKind::F32);
            sum = e.push(PointOp::Add, &[sum, x]);
        }
        let program = e.compile();
        assert_eq!(program.n_registers, 3);
        assert_eq!(program.instructions.len(), 19);
    }

    /// Constants run first and once; only divisors whose inverse is exact become factors.
    #[test]
    fn constants_come_first_and_quotients_by_powers_of_two_are_products() {
        let mut e = Expression::default();
        let x = e.load(0, RegisterKind::F32);
        let mut y = x;
        for by in [
            128.0_f32,
            3.0,
            -0.25,
            f32::MIN_POSITIVE,
            1.0e-45,
            0.0,
            f32::INFINITY,
            128.0,
        ] {
            let by = e.push(PointOp::ConstantF32(by), &[]);
            y = e.push(PointOp::Div, &[y, by]);
        }
        let program = e.compile();
        // Seven divisors and two inverses: that of the least normal number, 2^126, is one as well.
        assert_eq!(program.n_constants, 10);
        let (constants, rest) = program.instructions.split_at(program.n_constants);
        assert!(constants.iter().all(|i| i.op.is_constant()));
        let written: Vec<u16> = rest.iter().map(|i| i.to).collect();
        assert!(constants.iter().all(|i| !written.contains(&i.to)));
        let ops: Vec<PointOp> = rest.iter().map(|i| i.op).collect();
        let (mul, div) = (PointOp::Mul, PointOp::Div);
        assert_eq!(
            ops,
            [PointOp::Load(0), mul, div, mul, mul, div, div, div, mul]
        );
        for by in [128.0_f32, -0.25, f32::MIN_POSITIVE] {
            let inverse = inverse_of_power_of_two(by).expect("a power of two");
            for v in [
                1.0_f32,
                -3.3,
                1e-45,
                1e-38,
                f32::MAX,
                f32::INFINITY,
                -0.0,
                7e-42,
            ] {
                assert_eq!((v / by).to_bits(), (v * inverse).to_bits(), "{v} by {by}");
            }
        }
    }

    /// What is nothing but a constant is written as any result is.
    #[test]
    fn a_constant_alone_is_a_program() {
        let mut e = Expression::default();
        e.push(PointOp::ConstantF32(2.0), &[]);
        let program = e.compile();
        assert_eq!((program.n_constants, program.instructions.len()), (0, 1));
    }

    #[test]
    fn an_operand_used_twice_is_freed_once() {
        let mut e = Expression::default();
        let x = e.load(0, RegisterKind::F32);
        let square = e.push(PointOp::Mul, &[x, x]);
        let y = e.load(1, RegisterKind::F32);
        let z = e.load(2, RegisterKind::F32);
        let sum = e.push(PointOp::Add, &[y, z]);
        e.push(PointOp::Add, &[square, sum]);
        let program = e.compile();
        let registers: Vec<u16> = program.instructions.iter().map(|i| i.to).collect();
        assert_ne!(registers[2], registers[3]);
        assert_eq!(program.n_registers, 4);
    }
}
