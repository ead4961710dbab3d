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

    /// Assigns registers, each reused once its last reader has run.
    pub(crate) fn compile(&self) -> Program {
        let n = self.nodes.len();
        let mut last_use = vec![0; n];
        for (i, node) in self.nodes.iter().enumerate() {
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
        for (i, node) in self.nodes.iter().enumerate() {
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
                if last_use[arg as usize] == i && !operands[..k].contains(&arg) {
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
            n_registers: n_registers as usize,
            result: register_of.last().copied().unwrap_or(0),
            divisions: self.divisions.clone(),
        }
    }
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
