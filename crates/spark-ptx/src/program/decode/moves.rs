//! Moves, packing, and addresses of the state spaces.

use crate::error::LoadError;
use crate::program::builder::{Builder, Symbol};
use crate::program::instruction::{Op, Window};
use crate::program::opcode::{Opcode, Type};
use crate::program::rows::Slot;
use crate::program::special;
use crate::text::Operand;

type Decoded = Result<Option<Op>, LoadError>;

/// Decodes an instruction of this family; none if it is of another.
pub(super) fn decode<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    match opcode.base {
        "mov" => mov(builder, opcode, operands),
        "cvta" => convert_address(builder, opcode, operands),
        "isspacep" => is_space(builder, opcode, operands),
        _ => Ok(None),
    }
}

fn mov<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let (Some(kind), [d, a]) = (opcode.take_type(), operands) else {
        return builder.refuse("a type and two operands are wanted");
    };
    match (d, a) {
        (Operand::Vector(elements), _) => {
            let a = builder.read(a, kind.bits, true)?;
            let bits = element_bits(builder, kind, elements.len())?;
            let mut slots = Vec::with_capacity(elements.len());
            for element in elements {
                slots.push(builder.write_any(element)?);
            }
            let elements = builder.list(&slots)?;
            Ok(Some(Op::Unpack { a, elements, bits }))
        }
        (_, Operand::Vector(elements)) => {
            let bits = element_bits(builder, kind, elements.len())?;
            let mut slots = Vec::with_capacity(elements.len());
            for element in elements {
                slots.push(builder.read(element, bits.into(), true)?);
            }
            let elements = builder.list(&slots)?;
            let d = builder.write(d, kind.bits)?;
            Ok(Some(Op::Pack { d, elements, bits }))
        }
        (_, Operand::Name(name)) => named(builder, kind, d, a, name),
        _ => plain(builder, kind, d, a),
    }
}

fn element_bits(builder: &Builder<'_, '_>, kind: Type, n: usize) -> Result<u8, LoadError> {
    match (kind.bits, n) {
        (16 | 32 | 64, 2) | (32 | 64, 4) => Ok((kind.bits / n as u32) as u8),
        _ => builder.refuse(format!("{n} elements of {} bits", kind.bits)),
    }
}

fn named<'a>(
    builder: &mut Builder<'a, '_>,
    kind: Type,
    d: &Operand<'a>,
    a: &Operand<'a>,
    name: &'a str,
) -> Decoded {
    if let Some(clock) = special::clock(name) {
        let d = builder.write(d, kind.bits)?;
        return Ok(Some(Op::ReadClock { d, clock }));
    }
    if builder.register(name)?.is_none()
        && let Some(Symbol::Local(offset)) = builder.symbol(name)
    {
        let d = builder.write_64(d)?;
        return Ok(Some(Op::FrameAddress { d, offset }));
    }
    plain(builder, kind, d, a)
}

fn plain<'a>(
    builder: &mut Builder<'a, '_>,
    kind: Type,
    d: &Operand<'a>,
    a: &Operand<'a>,
) -> Decoded {
    let a = builder.read(a, kind.bits, true)?;
    let d = builder.write(d, kind.bits)?;
    match (d, a) {
        (Slot::W32(d), Slot::W32(a)) => Ok(Some(Op::Move32 { d, a })),
        (Slot::W64(d), Slot::W64(a)) => Ok(Some(Op::Move64 { d, a })),
        _ => builder.refuse("operands of one width are wanted"),
    }
}

const WINDOWS: [(&str, Window); 7] = [
    ("global", Window::Global),
    ("const", Window::Const),
    ("shared", Window::Shared),
    ("shared::cta", Window::Shared),
    ("local", Window::Local),
    ("param", Window::Param),
    ("param::entry", Window::Param),
];

fn convert_address<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let away = opcode.take("to");
    let (Some(window), true) = (opcode.take_of(&WINDOWS), opcode.take("u64")) else {
        return builder.unknown("its space or its width");
    };
    let [d, a] = operands else {
        return builder.refuse("two operands are wanted");
    };
    let a = builder.read_64(a)?;
    let d = builder.write_64(d)?;
    Ok(Some(if away {
        Op::FromGeneric { window, d, a }
    } else {
        Op::ToGeneric { window, d, a }
    }))
}

fn is_space<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let Some(window) = opcode.take_of(&WINDOWS) else {
        return builder.unknown("its space");
    };
    let [Operand::Name(p), a] = operands else {
        return builder.refuse("a predicate and an address are wanted");
    };
    let a = builder.read_64(a)?;
    let p = builder.write_predicate(p)?;
    Ok(Some(Op::IsSpace { window, p, a }))
}
