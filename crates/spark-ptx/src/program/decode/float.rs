//! Arithmetic of floats, and conversions.
//!
//! Forms of f32 and f64 that round to nearest and do nothing else are instructions of their own;
//! every other one is a form of `crate::float`.

use crate::convert::Conversion;
use crate::error::LoadError;
use crate::float::FloatForm;
use crate::program::builder::Builder;
use crate::program::code::ConvertForm;
use crate::program::instruction::{FloatOp, Op, QuickConversion};
use crate::program::opcode::{Meaning, Opcode, Type};
use crate::program::rows::Slot;
use crate::text::Operand;

type Decoded = Result<Option<Op>, LoadError>;

/// Decodes an instruction of this family; none if it is of another.
pub(super) fn decode<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    match opcode.base {
        "add" | "sub" | "mul" | "fma" | "mad" | "div" | "rcp" | "sqrt" | "rsqrt" | "ex2"
        | "lg2" | "sin" | "cos" | "tanh" | "min" | "max" | "neg" | "abs" | "copysign" => {
            arithmetic(builder, opcode, operands)
        }
        "cvt" => convert(builder, opcode, operands),
        _ => Ok(None),
    }
}

fn arithmetic<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let modifiers = opcode.take_rest();
    let Some(kind) = modifiers.last().and_then(|last| Type::of(last)) else {
        return builder.unknown("its type");
    };
    if kind.is_integer() || kind.meaning == Meaning::Predicate {
        return Ok(None);
    }
    let base = if opcode.base == "mad" {
        "fma"
    } else {
        opcode.base
    };
    let Some((d, sources)) = operands.split_first() else {
        return builder.refuse("operands are wanted");
    };
    if sources.is_empty() || sources.len() > 3 {
        return builder.refuse("one to three sources are wanted");
    }
    let target = builder.program.target;
    let mut slots = Vec::with_capacity(4);
    for source in sources {
        slots.push(builder.read(source, kind.bits, true)?);
    }
    let d = builder.write(d, kind.bits)?;
    if let Some(op) = native(base, &modifiers, sources.len()) {
        return Ok(Some(native_instruction(op, d, &slots)));
    }
    let form = FloatForm::parse(base, &modifiers);
    let form = form.and_then(|form| form.check_target(target).map(|()| form));
    let form = match form {
        Ok(form) => form,
        Err(error) => return builder.no_such_form(&error),
    };
    // The smallest or largest of three is of later targets than that of two.
    if matches!(base, "min" | "max") && sources.len() == 3 && target.capability() < 100 {
        return builder.not_on_target("sm_100");
    }
    if !(form.n_sources()..=form.n_sources_max()).contains(&sources.len()) {
        return builder.refuse(format!("{} sources are wanted", form.n_sources()));
    }
    builder.program.forms.float.push(form);
    let form = builder.program.forms.float.len() as u32 - 1;
    slots.insert(0, d);
    let operands = builder.list(&slots)?;
    Ok(Some(Op::FloatForm { form, operands }))
}

/// Forms with a loop of their own.
fn native(base: &str, modifiers: &[&str], n_sources: usize) -> Option<FloatOp> {
    let is_plain = matches!(modifiers, ["f32" | "f64"]);
    let is_nearest = matches!(modifiers, ["rn", "f32" | "f64"]);
    let op = match (base, n_sources) {
        ("add", 2) if is_plain || is_nearest => FloatOp::Add,
        ("sub", 2) if is_plain || is_nearest => FloatOp::Sub,
        ("mul", 2) if is_plain || is_nearest => FloatOp::Mul,
        ("fma", 3) if is_nearest => FloatOp::Fma,
        ("div", 2) if is_nearest => FloatOp::Div,
        ("sqrt", 1) if is_nearest => FloatOp::Sqrt,
        ("rcp", 1) if is_nearest => FloatOp::Rcp,
        ("min", 2) if is_plain => FloatOp::Min,
        ("max", 2) if is_plain => FloatOp::Max,
        ("abs", 1) if is_plain => FloatOp::Abs,
        ("neg", 1) if is_plain => FloatOp::Neg,
        _ => return None,
    };
    Some(op)
}

fn native_instruction(op: FloatOp, d: Slot, sources: &[Slot]) -> Op {
    let at = |idx: usize| sources.get(idx).copied().unwrap_or(sources[0]);
    match (d, at(0), at(1), at(2)) {
        (Slot::W64(d), Slot::W64(a), Slot::W64(b), Slot::W64(c)) => Op::Float64 { op, d, a, b, c },
        (Slot::W32(d), Slot::W32(a), Slot::W32(b), Slot::W32(c)) => Op::Float32 { op, d, a, b, c },
        _ => Op::Nothing,
    }
}

fn convert<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let modifiers = opcode.take_rest();
    if modifiers.first() == Some(&"pack") {
        return builder.unknown("packing with saturation");
    }
    let [.., to, from] = modifiers.as_slice() else {
        return builder.unknown("its types");
    };
    let Some((d, sources)) = operands.split_first() else {
        return builder.refuse("operands are wanted");
    };
    let from_bits = bits_of(from);
    let mut slots = Vec::with_capacity(3);
    for source in sources {
        slots.push(builder.read_any(source, from_bits, true)?);
    }
    let width = builder.declared_width(d)?;
    let d = builder.write_any(d)?;
    if let [a] = slots[..]
        && let Some(conversion) = quick(&modifiers, a, d, width)
    {
        return Ok(Some(Op::QuickConvert { conversion, d, a }));
    }
    let target = builder.program.target;
    let conversion = Conversion::parse(&modifiers);
    let conversion = conversion.and_then(|form| form.check_target(target).map(|()| form));
    let conversion = match conversion {
        Ok(conversion) => conversion,
        Err(error) => return builder.no_such_form(&error),
    };
    if conversion.n_sources() != slots.len() {
        return builder.refuse(format!("{} sources are wanted", conversion.n_sources()));
    }
    builder.program.forms.convert.push(ConvertForm {
        conversion,
        bits: bits_of(to),
        signed: to.starts_with('s'),
        width,
    });
    let form = builder.program.forms.convert.len() as u32 - 1;
    slots.insert(0, d);
    let operands = builder.list(&slots)?;
    Ok(Some(Op::ConvertForm { form, operands }))
}

/// Bits of a type of a conversion, packed types of few bits included.
fn bits_of(name: &str) -> u32 {
    match name {
        "e2m1x2" => 8,
        "tf32" => 32,
        "e2m1x4" | "e4m3x2" | "e5m2x2" | "e2m3x2" | "e3m2x2" | "ue8m0x2" => 16,
        "e4m3x4" | "e5m2x4" | "e2m3x4" | "e3m2x4" => 32,
        _ => Type::of(name).map_or(32, |kind| kind.bits),
    }
}

/// Conversions with a loop of their own, where registers have the width of the types.
fn quick(modifiers: &[&str], a: Slot, d: Slot, width: u32) -> Option<QuickConversion> {
    let conversion = match (modifiers, a, d) {
        (["u64", "u32"], Slot::W32(_), Slot::W64(_)) => QuickConversion::U32ToU64,
        (["u32", "u64"], Slot::W64(_), Slot::W32(_)) if width == 32 => QuickConversion::U64ToU32,
        (["s64", "s32"], Slot::W32(_), Slot::W64(_)) => QuickConversion::S32ToS64,
        (["u32", "u16"], Slot::W32(_), Slot::W32(_)) if width == 32 => QuickConversion::U16ToU32,
        (["u16", "u32"], Slot::W32(_), Slot::W32(_)) => QuickConversion::U32ToU16,
        (["rn", "f32", "s32"], Slot::W32(_), Slot::W32(_)) => QuickConversion::S32ToF32,
        (["rn", "f32", "u32"], Slot::W32(_), Slot::W32(_)) => QuickConversion::U32ToF32,
        (["f64", "f32"], Slot::W32(_), Slot::W64(_)) => QuickConversion::F32ToF64,
        (["rn", "f32", "f64"], Slot::W64(_), Slot::W32(_)) => QuickConversion::F64ToF32,
        (["rzi", "s32", "f32"], Slot::W32(_), Slot::W32(_)) => QuickConversion::F32ToS32,
        _ => return None,
    };
    Some(conversion)
}
