//! Integer arithmetic, shifts, fields and bytes.

use crate::error::LoadError;
use crate::program::builder::Builder;
use crate::program::code::Constant;
use crate::program::instruction::{ByteOp, CarryOp, IntOp, Logic, Op, Permute};
use crate::program::opcode::{Meaning, Opcode, Type};
use crate::program::rows::{P, R32, R64, Slot};
use crate::text::{Number, Operand};

type Decoded = Result<Option<Op>, LoadError>;

/// Decodes an instruction of this family; none if it is of another.
pub(super) fn decode<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    match opcode.base {
        "add" | "sub" | "mul" | "mad" | "mul24" | "mad24" | "div" | "rem" | "min" | "max"
        | "abs" | "neg" | "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "sad"
        | "popc" | "clz" | "brev" | "bfind" | "bfe" | "bmsk" | "szext" => {
            arithmetic(builder, opcode, operands)
        }
        "addc" | "subc" | "madc" => carry(builder, opcode, operands, true),
        "bfi" => insert_field(builder, opcode, operands),
        "lop3" => lop3(builder, opcode, operands),
        "prmt" => permute(builder, opcode, operands),
        "shf" => funnel(builder, opcode, operands),
        "dp4a" | "dp2a" => dot_of_bytes(builder, opcode, operands),
        "vabsdiff4" | "vadd4" | "vsub4" | "vmin4" | "vmax4" => {
            four_bytes(builder, opcode, operands)
        }
        _ => Ok(None),
    }
}

fn arithmetic<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    if let Some(&last @ ("u16x2" | "s16x2")) = opcode.left().last() {
        return halves(builder, opcode, operands, last == "s16x2");
    }
    let last = opcode.left().last().and_then(|last| Type::of(last));
    if !last.is_some_and(Type::is_integer) {
        return Ok(None);
    }
    if opcode.left().contains(&"cc") {
        return carry(builder, opcode, operands, false);
    }
    let Some(kind) = opcode.take_type() else {
        return Ok(None);
    };
    if opcode.take("wide") {
        return wide(builder, opcode.base, kind, operands);
    }
    let Some(op) = operation(opcode, kind) else {
        return builder.unknown("this form of it");
    };
    if let (
        IntOp::Popc
        | IntOp::Clz
        | IntOp::BfindS
        | IntOp::BfindU
        | IntOp::BfindShiftS
        | IntOp::BfindShiftU,
        64,
    ) = (op, kind.bits)
    {
        let [d, a] = operands else {
            return builder.refuse("two operands are wanted");
        };
        let (a, d) = (builder.read_64(a)?, builder.write_32(d)?);
        return Ok(Some(Op::Count64 { op, d, a }));
    }
    let Some((d, sources)) = operands.split_first() else {
        return builder.refuse("operands are wanted");
    };
    if sources.len() != n_sources(op) {
        return builder.refuse(format!("{} sources are wanted", n_sources(op)));
    }
    if kind.bits == 64 {
        return sixty_four(builder, op, d, sources);
    }
    let mut rows = [R32(0); 3];
    for (idx, source) in sources.iter().enumerate() {
        // Amounts of shifts have 32 bits whatever is shifted.
        let is_amount = idx > 0 && matches!(op, IntOp::Shl | IntOp::ShrS | IntOp::ShrU);
        let bits = if is_amount { 32 } else { kind.bits };
        rows[idx] = builder.read_narrow(source, bits, false)?;
    }
    let [a, b, c] = fill(rows, sources.len());
    let d = builder.write_32(d)?;
    Ok(Some(match kind.bits {
        32 => Op::Int32 { op, d, a, b, c },
        16 => Op::Int16 {
            op,
            signed: kind.is_signed(),
            d,
            a,
            b,
            c,
        },
        _ => return builder.unknown("its width"),
    }))
}

/// Operands that are not there are the first one again: read, and not used.
fn fill(rows: [R32; 3], n: usize) -> [R32; 3] {
    std::array::from_fn(|idx| rows[if idx < n { idx } else { 0 }])
}

fn sixty_four<'a>(
    builder: &mut Builder<'a, '_>,
    op: IntOp,
    d: &Operand<'a>,
    sources: &[Operand<'a>],
) -> Decoded {
    let a = builder.read_64(&sources[0])?;
    if let IntOp::Shl | IntOp::ShrS | IntOp::ShrU | IntOp::BfeS | IntOp::BfeU = op {
        let b = builder.read_32(&sources[1])?;
        let c = match sources.get(2) {
            Some(source) => builder.read_32(source)?,
            None => b,
        };
        let d = builder.write_64(d)?;
        return Ok(Some(Op::Shift64 { op, d, a, b, c }));
    }
    let b = match sources.get(1) {
        Some(source) => builder.read_64(source)?,
        None => a,
    };
    let c = match sources.get(2) {
        Some(source) => builder.read_64(source)?,
        None => a,
    };
    let d = builder.write_64(d)?;
    Ok(Some(Op::Int64 { op, d, a, b, c }))
}

fn n_sources(op: IntOp) -> usize {
    match op {
        IntOp::Abs
        | IntOp::Neg
        | IntOp::Not
        | IntOp::Cnot
        | IntOp::Popc
        | IntOp::Clz
        | IntOp::Brev
        | IntOp::BfindS
        | IntOp::BfindU
        | IntOp::BfindShiftS
        | IntOp::BfindShiftU => 1,
        IntOp::MadLo
        | IntOp::MadHiS
        | IntOp::MadHiU
        | IntOp::MadHiSatS
        | IntOp::Mad24LoS
        | IntOp::Mad24LoU
        | IntOp::Mad24HiS
        | IntOp::Mad24HiU
        | IntOp::SadS
        | IntOp::SadU
        | IntOp::BfeS
        | IntOp::BfeU => 3,
        _ => 2,
    }
}

fn signed_or(signed: bool, if_signed: IntOp, if_not: IntOp) -> IntOp {
    if signed { if_signed } else { if_not }
}

/// The operation that an opcode names, with all modifiers taken that belong to it.
fn operation(opcode: &mut Opcode<'_>, kind: Type) -> Option<IntOp> {
    let signed = kind.is_signed();
    let is_bits = kind.meaning == Meaning::Bits;
    let base = opcode.base;
    let op = match base {
        "add" if signed && kind.bits == 32 && opcode.take("sat") => IntOp::AddSatS,
        "sub" if signed && kind.bits == 32 && opcode.take("sat") => IntOp::SubSatS,
        "add" if !is_bits => IntOp::Add,
        "sub" if !is_bits => IntOp::Sub,
        "mul" if opcode.take("lo") => IntOp::MulLo,
        "mul" if opcode.take("hi") => signed_or(signed, IntOp::MulHiS, IntOp::MulHiU),
        "mad" if opcode.take("lo") => IntOp::MadLo,
        "mad" if opcode.take("hi") => {
            if signed && kind.bits == 32 && opcode.take("sat") {
                IntOp::MadHiSatS
            } else {
                signed_or(signed, IntOp::MadHiS, IntOp::MadHiU)
            }
        }
        "mul24" if kind.bits == 32 => match (opcode.take("lo"), opcode.take("hi")) {
            (true, false) => signed_or(signed, IntOp::Mul24LoS, IntOp::Mul24LoU),
            (false, true) => signed_or(signed, IntOp::Mul24HiS, IntOp::Mul24HiU),
            _ => return None,
        },
        "mad24" if kind.bits == 32 => match (opcode.take("lo"), opcode.take("hi")) {
            (true, false) => signed_or(signed, IntOp::Mad24LoS, IntOp::Mad24LoU),
            (false, true) => signed_or(signed, IntOp::Mad24HiS, IntOp::Mad24HiU),
            _ => return None,
        },
        "div" => signed_or(signed, IntOp::DivS, IntOp::DivU),
        "rem" => signed_or(signed, IntOp::RemS, IntOp::RemU),
        "min" if signed && opcode.take("relu") => IntOp::MinSRelu,
        "max" if signed && opcode.take("relu") => IntOp::MaxSRelu,
        "min" => signed_or(signed, IntOp::MinS, IntOp::MinU),
        "max" => signed_or(signed, IntOp::MaxS, IntOp::MaxU),
        "abs" if signed => IntOp::Abs,
        "neg" if signed => IntOp::Neg,
        "and" if is_bits => IntOp::And,
        "or" if is_bits => IntOp::Or,
        "xor" if is_bits => IntOp::Xor,
        "not" if is_bits => IntOp::Not,
        "cnot" if is_bits => IntOp::Cnot,
        "shl" if is_bits => IntOp::Shl,
        "shr" => signed_or(signed, IntOp::ShrS, IntOp::ShrU),
        "sad" => signed_or(signed, IntOp::SadS, IntOp::SadU),
        "popc" if is_bits => IntOp::Popc,
        "clz" if is_bits => IntOp::Clz,
        "brev" if is_bits => IntOp::Brev,
        "bfind" if opcode.take("shiftamt") => {
            signed_or(signed, IntOp::BfindShiftS, IntOp::BfindShiftU)
        }
        "bfind" => signed_or(signed, IntOp::BfindS, IntOp::BfindU),
        "bfe" if !is_bits => signed_or(signed, IntOp::BfeS, IntOp::BfeU),
        "bmsk" if opcode.take("clamp") => IntOp::BmskClamp,
        "bmsk" if opcode.take("wrap") => IntOp::BmskWrap,
        "szext" if opcode.take("clamp") => {
            signed_or(signed, IntOp::SzextClampS, IntOp::SzextClampU)
        }
        "szext" if opcode.take("wrap") => signed_or(signed, IntOp::SzextWrapS, IntOp::SzextWrapU),
        _ => return None,
    };
    Some(op)
}

fn halves<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
    signed: bool,
) -> Decoded {
    opcode.take_where(|part| matches!(part, "u16x2" | "s16x2"));
    let base = opcode.base;
    let op = match base {
        "add" => IntOp::Add,
        "min" if opcode.take("relu") => IntOp::MinSRelu,
        "max" if opcode.take("relu") => IntOp::MaxSRelu,
        "min" => signed_or(signed, IntOp::MinS, IntOp::MinU),
        "max" => signed_or(signed, IntOp::MaxS, IntOp::MaxU),
        "neg" => IntOp::Neg,
        _ => return builder.unknown("pairs of 16 bits"),
    };
    let (d, a, b) = match operands {
        [d, a, b] if op != IntOp::Neg => (d, a, b),
        [d, a] if op == IntOp::Neg => (d, a, a),
        _ => return builder.refuse("another number of operands is wanted"),
    };
    let (a, b) = (builder.read_32(a)?, builder.read_32(b)?);
    let d = builder.write_32(d)?;
    Ok(Some(Op::Int16x2 {
        op,
        signed,
        d,
        a,
        b,
    }))
}

fn wide<'a>(
    builder: &mut Builder<'a, '_>,
    base: &str,
    kind: Type,
    operands: &[Operand<'a>],
) -> Decoded {
    let signed = kind.is_signed();
    let (d, a, b, c) = match operands {
        [d, a, b] if base == "mul" => (d, a, b, None),
        [d, a, b, c] if base == "mad" => (d, a, b, Some(c)),
        _ => return builder.refuse("another number of operands is wanted"),
    };
    let (a, b) = (
        builder.read_narrow(a, kind.bits, false)?,
        builder.read_narrow(b, kind.bits, false)?,
    );
    match kind.bits {
        32 => {
            let c = match c {
                Some(c) => builder.read_64(c)?,
                None => builder.constant_64(Constant::Literal(0)),
            };
            let d = builder.write_64(d)?;
            Ok(Some(Op::MulWide { signed, d, a, b, c }))
        }
        16 => {
            let c = match c {
                Some(c) => builder.read_32(c)?,
                None => builder.constant_32(0),
            };
            let d = builder.write_32(d)?;
            Ok(Some(Op::MulWide16 { signed, d, a, b, c }))
        }
        _ => builder.unknown("its width"),
    }
}

/// Forms with `.cc`, and those that read the carry.
fn carry<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
    reads: bool,
) -> Decoded {
    let Some(kind) = opcode.take_type().filter(|kind| kind.is_integer()) else {
        return builder.unknown("its type");
    };
    let writes = opcode.take("cc");
    let base = opcode.base;
    let op = match base {
        "add" | "addc" => CarryOp::Add,
        "sub" | "subc" => CarryOp::Sub,
        "mad" | "madc" if opcode.take("lo") => CarryOp::MadLo,
        "mad" | "madc" if opcode.take("hi") && kind.is_signed() => CarryOp::MadHiS,
        "mad" | "madc" => CarryOp::MadHiU,
        _ => return builder.unknown("this form of it"),
    };
    let (d, a, b, c) = match (op, operands) {
        (CarryOp::Add | CarryOp::Sub, [d, a, b]) => (d, a, b, b),
        (CarryOp::MadLo | CarryOp::MadHiS | CarryOp::MadHiU, [d, a, b, c]) => (d, a, b, c),
        _ => return builder.refuse("another number of operands is wanted"),
    };
    if kind.bits == 64 {
        let (a, b, c) = (
            builder.read_64(a)?,
            builder.read_64(b)?,
            builder.read_64(c)?,
        );
        let d = builder.write_64(d)?;
        return Ok(Some(Op::Carry64 {
            op,
            reads,
            writes,
            d,
            a,
            b,
            c,
        }));
    }
    let (a, b, c) = (
        builder.read_32(a)?,
        builder.read_32(b)?,
        builder.read_32(c)?,
    );
    let d = builder.write_32(d)?;
    Ok(Some(Op::Carry32 {
        op,
        reads,
        writes,
        d,
        a,
        b,
        c,
    }))
}

fn insert_field<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let Some(kind) = opcode.take_type() else {
        return builder.unknown("its type");
    };
    let [d, a, b, position, len] = operands else {
        return builder.refuse("five operands are wanted");
    };
    let (position, len) = (builder.read_32(position)?, builder.read_32(len)?);
    if kind.bits == 64 {
        let (a, b): (R64, R64) = (builder.read_64(a)?, builder.read_64(b)?);
        let d = builder.write_64(d)?;
        return Ok(Some(Op::InsertField64 {
            d,
            a,
            b,
            position,
            len,
        }));
    }
    let (a, b) = (builder.read_32(a)?, builder.read_32(b)?);
    let d = builder.write_32(d)?;
    Ok(Some(Op::InsertField {
        d,
        a,
        b,
        position,
        len,
    }))
}

fn lop3<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    if !opcode.take("b32") {
        return builder.unknown("its type");
    }
    let logic = opcode.take_of(&[("or", Logic::Or), ("and", Logic::And)]);
    let (d, a, b, c, table, condition) = match (operands, logic) {
        ([d, a, b, c, table], None) => (d, a, b, c, table, None),
        ([d, a, b, c, table, condition], Some(_)) => (d, a, b, c, table, Some(condition)),
        (_, None) => return builder.refuse("five operands are wanted"),
        (_, Some(_)) => return builder.refuse("six operands are wanted"),
    };
    let Operand::Literal(Number::Integer(table @ 0..=255), false) = *table else {
        return builder.refuse("its table is a number below 256");
    };
    let (a, b, c) = (
        builder.read_32(a)?,
        builder.read_32(b)?,
        builder.read_32(c)?,
    );
    if let (Some(logic), Some(condition)) = (logic, condition) {
        let condition = builder.condition(condition)?;
        let Operand::Pair(d, p) = *d else {
            return builder.refuse("a result and a predicate are wanted, as `d|p`");
        };
        let sources = builder.list(&[Slot::W32(a), Slot::W32(b), Slot::W32(c)])?;
        let (d, p) = (builder.write_name(d)?, builder.write_predicate(p)?);
        if let (Slot::W64(_), _) | (_, P::NONE) = (d, p) {
            return builder.refuse("a register of 32 bits and a predicate are wanted");
        }
        return Ok(Some(Op::Lop3Test {
            d,
            p,
            sources,
            table: table as u8,
            logic,
            condition,
        }));
    }
    let d = builder.write_32(d)?;
    Ok(Some(Op::Lop3 {
        d,
        a,
        b,
        c,
        table: table as u8,
    }))
}

fn permute<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    if !opcode.take("b32") {
        return builder.unknown("its type");
    }
    let modes = [
        ("f4e", Permute::Forward4),
        ("b4e", Permute::Backward4),
        ("rc8", Permute::Replicate8),
        ("ecl", Permute::EdgeLeft),
        ("ecr", Permute::EdgeRight),
        ("rc16", Permute::Replicate16),
    ];
    let mode = opcode.take_of(&modes).unwrap_or(Permute::Selector);
    let [d, a, b, c] = operands else {
        return builder.refuse("four operands are wanted");
    };
    let (a, b, c) = (
        builder.read_32(a)?,
        builder.read_32(b)?,
        builder.read_32(c)?,
    );
    let d = builder.write_32(d)?;
    Ok(Some(Op::Permute { mode, d, a, b, c }))
}

fn funnel<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let left = opcode.take_of(&[("l", true), ("r", false)]);
    let wrap = opcode.take_of(&[("wrap", true), ("clamp", false)]);
    let (Some(left), Some(wrap), true) = (left, wrap, opcode.take("b32")) else {
        return builder.unknown("this form of it");
    };
    let [d, a, b, c] = operands else {
        return builder.refuse("four operands are wanted");
    };
    let (a, b, c) = (
        builder.read_32(a)?,
        builder.read_32(b)?,
        builder.read_32(c)?,
    );
    let d = builder.write_32(d)?;
    Ok(Some(Op::Funnel {
        left,
        wrap,
        d,
        a,
        b,
        c,
    }))
}

fn dot_of_bytes<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let half = match opcode.base {
        "dp2a" => match opcode.take_of(&[("lo", false), ("hi", true)]) {
            Some(half) => Some(half),
            None => return builder.unknown("a half is wanted"),
        },
        _ => None,
    };
    let kinds = [("s32", true), ("u32", false)];
    let (Some(a_signed), Some(b_signed)) = (opcode.take_of(&kinds), opcode.take_of(&kinds)) else {
        return builder.unknown("its types");
    };
    let op = match half {
        None => ByteOp::Dp4a(a_signed, b_signed),
        Some(half) => ByteOp::Dp2a(a_signed, b_signed, half),
    };
    let [d, a, b, c] = operands else {
        return builder.refuse("four operands are wanted");
    };
    let (a, b, c) = (
        builder.read_32(a)?,
        builder.read_32(b)?,
        builder.read_32(c)?,
    );
    let d = builder.write_32(d)?;
    Ok(Some(Op::Bytes { op, d, a, b, c }))
}

fn four_bytes<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let accumulate = opcode.take("add");
    let kinds = opcode.take_rest();
    let signed = match kinds.as_slice() {
        ["u32", "u32", "u32"] => false,
        ["s32", "s32", "s32"] | ["u32", "s32", "s32"] => true,
        _ => return builder.unknown("its types"),
    };
    let base = opcode.base;
    let op = match base {
        "vabsdiff4" => ByteOp::AbsDiff4 { signed, accumulate },
        _ if accumulate => return builder.unknown("`add` after it"),
        "vadd4" => ByteOp::AddBytes { signed },
        "vsub4" => ByteOp::SubBytes { signed },
        "vmin4" => ByteOp::MinBytes { signed },
        _ => ByteOp::MaxBytes { signed },
    };
    let [d, a, b, c] = operands else {
        return builder.refuse("four operands are wanted");
    };
    let (a, b, c) = (
        builder.read_32(a)?,
        builder.read_32(b)?,
        builder.read_32(c)?,
    );
    let d = builder.write_32(d)?;
    Ok(Some(Op::Bytes { op, d, a, b, c }))
}
