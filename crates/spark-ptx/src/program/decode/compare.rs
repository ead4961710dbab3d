//! Comparisons, selections and logic of predicates.

use crate::error::LoadError;
use crate::program::builder::Builder;
use crate::program::instruction::{Comparison, Condition, Logic, Op, Scalar};
use crate::program::opcode::{Meaning, Opcode, Type};
use crate::program::rows::{P, Slot};
use crate::text::Operand;

type Decoded = Result<Option<Op>, LoadError>;

/// Decodes an instruction of this family; none if it is of another.
pub(super) fn decode<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    match opcode.base {
        "setp" => set_predicate(builder, opcode, operands),
        "set" => set_value(builder, opcode, operands),
        "selp" => select(builder, opcode, operands),
        "slct" => select_by_sign(builder, opcode, operands),
        "and" | "or" | "xor" | "not" | "mov" if opcode.left() == ["pred"] => {
            logic(builder, opcode, operands)
        }
        _ => Ok(None),
    }
}

const COMPARISONS: [(&str, Comparison); 18] = [
    ("eq", Comparison::Eq),
    ("ne", Comparison::Ne),
    ("lt", Comparison::Lt),
    ("le", Comparison::Le),
    ("gt", Comparison::Gt),
    ("ge", Comparison::Ge),
    ("lo", Comparison::Lt),
    ("ls", Comparison::Le),
    ("hi", Comparison::Gt),
    ("hs", Comparison::Ge),
    ("equ", Comparison::Equ),
    ("neu", Comparison::Neu),
    ("ltu", Comparison::Ltu),
    ("leu", Comparison::Leu),
    ("gtu", Comparison::Gtu),
    ("geu", Comparison::Geu),
    ("num", Comparison::Num),
    ("nan", Comparison::Nan),
];

const LOGIC: [(&str, Logic); 3] = [("and", Logic::And), ("or", Logic::Or), ("xor", Logic::Xor)];

const ALWAYS: Condition = Condition {
    register: P::NONE,
    negated: false,
};

fn scalar(kind: Type) -> Option<Scalar> {
    Some(match (kind.meaning, kind.bits) {
        (Meaning::Signed, 16) => Scalar::S16,
        (Meaning::Signed, 32) => Scalar::S32,
        (Meaning::Signed, 64) => Scalar::S64,
        (Meaning::Bits | Meaning::Unsigned, 16) => Scalar::U16,
        (Meaning::Bits | Meaning::Unsigned, 32) => Scalar::U32,
        (Meaning::Bits | Meaning::Unsigned, 64) => Scalar::U64,
        (Meaning::Float, 16) | (Meaning::Halves, _) => Scalar::F16,
        (Meaning::BrainFloat, _) | (Meaning::BrainHalves, _) => Scalar::Bf16,
        (Meaning::Float, 32) => Scalar::F32,
        (Meaning::Float, 64) => Scalar::F64,
        _ => return None,
    })
}

/// What a comparison compares, and with what its result is combined.
struct Test {
    comparison: Comparison,
    scalar: Scalar,
    is_halves: bool,
    a: Slot,
    b: Slot,
    logic: Logic,
    condition: Condition,
}

fn test<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    sources: &[Operand<'a>],
) -> Result<Test, LoadError> {
    let Some(kind) = opcode.take_type() else {
        return builder.unknown("its type");
    };
    let (Some(scalar), Some(comparison)) = (scalar(kind), opcode.take_of(&COMPARISONS)) else {
        return builder.unknown("its comparison");
    };
    let scalar = match scalar {
        Scalar::F32 if opcode.take("ftz") => Scalar::F32Flushed,
        other => other,
    };
    let logic = opcode.take_of(&LOGIC).unwrap_or(Logic::First);
    let condition = match (sources, logic) {
        ([_, _], Logic::First) => ALWAYS,
        ([_, _, condition], Logic::And | Logic::Or | Logic::Xor) => builder.condition(condition)?,
        _ => return builder.refuse("another number of operands is wanted"),
    };
    let a = builder.read(&sources[0], kind.bits, true)?;
    let b = builder.read(&sources[1], kind.bits, true)?;
    let is_halves = matches!(kind.meaning, Meaning::Halves | Meaning::BrainHalves);
    Ok(Test {
        comparison,
        scalar,
        is_halves,
        a,
        b,
        logic,
        condition,
    })
}

fn set_predicate<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let Some((d, sources)) = operands.split_first() else {
        return builder.refuse("operands are wanted");
    };
    let Test {
        comparison,
        scalar,
        is_halves,
        a,
        b,
        logic,
        condition,
    } = test(builder, opcode, sources)?;
    let (p, q) = match *d {
        Operand::Name(p) => (builder.write_predicate(p)?, P::NONE),
        Operand::Pair(p, q) => (builder.write_predicate(p)?, builder.write_predicate(q)?),
        _ => return builder.refuse("a predicate is wanted to write to"),
    };
    if !is_halves {
        return Ok(Some(Op::Compare {
            comparison,
            scalar,
            p,
            q,
            a,
            b,
            logic,
            condition,
        }));
    }
    let (Slot::W32(a), Slot::W32(b)) = (a, b) else {
        return builder.refuse("32 bits are wanted");
    };
    Ok(Some(Op::CompareHalves {
        comparison,
        scalar,
        p,
        q,
        a,
        b,
        logic,
        condition,
    }))
}

fn set_value<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let Some((d, sources)) = operands.split_first() else {
        return builder.refuse("operands are wanted");
    };
    // The type of the result stands before that of the sources.
    let n = opcode.left().len();
    let result = match n.checked_sub(2).map(|idx| opcode.left()[idx]) {
        Some(name) => Type::of(name),
        None => None,
    };
    let Test {
        comparison,
        scalar,
        is_halves,
        a,
        b,
        logic,
        condition,
    } = test(builder, opcode, sources)?;
    let Some(result) = result.filter(|_| opcode.take_type().is_some()) else {
        return builder.unknown("its types");
    };
    let (one, half_one) = match result.meaning {
        Meaning::Float if result.bits == 32 => (1f32.to_bits(), 0),
        Meaning::Float if result.bits == 16 => (0x3c00, 0),
        Meaning::BrainFloat => (0x3f80, 0),
        Meaning::Halves => (0, 0x3c00),
        Meaning::BrainHalves => (0, 0x3f80),
        _ if result.is_integer() && result.bits == 32 => (u32::MAX, u16::MAX),
        _ if result.is_integer() && result.bits == 16 => (0xffff, 0),
        _ => return builder.unknown("its result's type"),
    };
    let d = builder.write_32(d)?;
    if !is_halves {
        let d = Slot::W32(d);
        return Ok(Some(Op::Set {
            comparison,
            scalar,
            d,
            a,
            b,
            one,
            logic,
            condition,
        }));
    }
    let (Slot::W32(a), Slot::W32(b)) = (a, b) else {
        return builder.refuse("32 bits are wanted");
    };
    let one = half_one;
    Ok(Some(Op::SetHalves {
        comparison,
        scalar,
        d,
        a,
        b,
        one,
        logic,
        condition,
    }))
}

fn select<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let (Some(kind), [d, a, b, condition]) = (opcode.take_type(), operands) else {
        return builder.refuse("a type and four operands are wanted");
    };
    let condition = builder.condition(condition)?;
    let (a, b) = (
        builder.read(a, kind.bits, true)?,
        builder.read(b, kind.bits, true)?,
    );
    match (builder.write(d, kind.bits)?, a, b) {
        (Slot::W32(d), Slot::W32(a), Slot::W32(b)) => Ok(Some(Op::Select32 { d, a, b, condition })),
        (Slot::W64(d), Slot::W64(a), Slot::W64(b)) => Ok(Some(Op::Select64 { d, a, b, condition })),
        _ => builder.refuse("operands of one width are wanted"),
    }
}

fn select_by_sign<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let is_float = match opcode.take_type() {
        Some(Type {
            meaning: Meaning::Float,
            bits: 32,
        }) => true,
        Some(Type {
            meaning: Meaning::Signed,
            bits: 32,
        }) => false,
        _ => return builder.unknown("its types"),
    };
    if is_float && opcode.take("ftz") {
        return builder.unknown("flushing subnormals");
    }
    let (Some(kind), [d, a, b, c]) = (opcode.take_type(), operands) else {
        return builder.refuse("two types and four operands are wanted");
    };
    let (a, b) = (
        builder.read(a, kind.bits, true)?,
        builder.read(b, kind.bits, true)?,
    );
    let c = builder.read_f32(c)?;
    let d = builder.write(d, kind.bits)?;
    Ok(Some(Op::SelectBySign {
        is_float,
        d,
        a,
        b,
        c,
    }))
}

fn logic<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    opcode.take("pred");
    let Some((Operand::Name(d), sources)) = operands.split_first() else {
        return builder.refuse("a predicate is wanted to write to");
    };
    let first = match sources.first() {
        Some(source) => builder.condition(source)?,
        None => return builder.refuse("operands are wanted"),
    };
    let (op, a, b) = match (opcode.base, sources) {
        ("mov", [_]) => (Logic::First, first, first),
        ("not", [_]) => {
            let negated = Condition {
                negated: !first.negated,
                ..first
            };
            (Logic::First, negated, negated)
        }
        ("and", [_, b]) => (Logic::And, first, builder.condition(b)?),
        ("or", [_, b]) => (Logic::Or, first, builder.condition(b)?),
        ("xor", [_, b]) => (Logic::Xor, first, builder.condition(b)?),
        _ => return builder.refuse("another number of operands is wanted"),
    };
    let d = builder.write_predicate(d)?;
    if op == Logic::First && a.register == P::NONE {
        let value = !a.negated;
        return Ok(Some(Op::SetPredicate { d, value }));
    }
    Ok(Some(Op::Logic { op, d, a, b }))
}
