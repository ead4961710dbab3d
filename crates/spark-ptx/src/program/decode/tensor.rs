//! Instructions on matrices: their forms are those of `crate::tensor`.

use crate::error::LoadError;
use crate::program::access::AccessSpace;
use crate::program::builder::Builder;
use crate::program::instruction::Op;
use crate::program::opcode::Opcode;
use crate::program::rows::Slot;
use crate::tensor::{MatrixForm, MmaForm};
use crate::text::Operand;

use super::memory;

type Decoded = Result<Option<Op>, LoadError>;

/// Decodes an instruction of this family; none if it is of another.
pub(super) fn decode<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    match opcode.base {
        "mma" => mma(builder, opcode, operands),
        "ldmatrix" => load(builder, opcode, operands),
        "stmatrix" => store(builder, opcode, operands),
        "movmatrix" => move_matrix(builder, opcode, operands),
        _ => Ok(None),
    }
}

fn elements<'o, 'a>(operand: &'o Operand<'a>) -> &'o [Operand<'a>] {
    match operand {
        Operand::Vector(elements) => elements,
        other => std::slice::from_ref(other),
    }
}

fn mma<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let target = builder.program.target;
    let form = MmaForm::parse(&opcode.take_rest());
    let form = form.and_then(|form| form.check_target(target).map(|()| form));
    let form = match form {
        Ok(form) => form,
        Err(error) => return builder.no_such_form(&error),
    };
    let registers = form.registers();
    let (d, sources, scales) = match operands {
        [d, sources @ ..] if sources.len() == 3 && !registers.is_block_scaled => {
            (d, sources, &[][..])
        }
        [d, sources @ ..] if sources.len() == 7 && registers.is_block_scaled => {
            (d, &sources[..3], &sources[3..])
        }
        _ => return builder.refuse("another number of operands is wanted"),
    };
    let wanted = [registers.a, registers.b, registers.c];
    let mut slots = Vec::new();
    for (operand, wanted) in sources.iter().zip(wanted) {
        let elements = elements(operand);
        if elements.len() != wanted {
            return builder.refuse(format!("{wanted} registers are wanted"));
        }
        for element in elements {
            slots.push(Slot::W32(builder.read_f32(element)?));
        }
    }
    // a scale, {byte, thread}, b scale, {byte, thread}
    for operand in scales {
        for element in elements(operand) {
            slots.push(Slot::W32(builder.read_32(element)?));
        }
    }
    let d = elements(d);
    if d.len() != registers.d {
        return builder.refuse(format!("{} registers are wanted", registers.d));
    }
    let mut all = Vec::with_capacity(d.len() + slots.len());
    for element in d {
        all.push(Slot::W32(builder.write_32(element)?));
    }
    all.extend(slots);
    let n_scales = if registers.is_block_scaled { 6 } else { 0 };
    if all.len() != registers.d + registers.a + registers.b + registers.c + n_scales {
        return builder.refuse("scales are a register, a byte and a thread each");
    }
    builder.program.forms.mma.push(form);
    let form = builder.program.forms.mma.len() as u32 - 1;
    let operands = builder.list(&all)?;
    Ok(Some(Op::Mma { form, operands }))
}

/// The form, and whether its address is generic.
fn matrix_form<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
) -> Result<(u32, bool), LoadError> {
    let modifiers = opcode.take_rest();
    let generic = !modifiers
        .iter()
        .any(|part| matches!(*part, "shared" | "shared::cta"));
    let target = builder.program.target;
    let form = MatrixForm::parse(opcode.base, &modifiers);
    match form.and_then(|form| form.check_target(target).map(|()| form)) {
        Ok(form) => {
            builder.program.forms.matrix.push(form);
            Ok((builder.program.forms.matrix.len() as u32 - 1, generic))
        }
        Err(error) => builder.no_such_form(&error),
    }
}

fn space(generic: bool) -> AccessSpace {
    if generic {
        AccessSpace::Generic
    } else {
        AccessSpace::Shared
    }
}

fn load<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let (form, generic) = matrix_form(builder, opcode)?;
    let [d, from] = operands else {
        return builder.refuse("two operands are wanted");
    };
    let (address, _) = memory::address(builder, from, space(generic))?;
    let mut slots = Vec::new();
    for element in elements(d) {
        slots.push(Slot::W32(builder.write_32(element)?));
    }
    check_registers(builder, form, slots.len())?;
    let elements = builder.list(&slots)?;
    Ok(Some(Op::LoadMatrix {
        form,
        address,
        elements,
        generic,
    }))
}

fn store<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let (form, generic) = matrix_form(builder, opcode)?;
    let [to, a] = operands else {
        return builder.refuse("two operands are wanted");
    };
    let (address, _) = memory::address(builder, to, space(generic))?;
    let mut slots = Vec::new();
    for element in elements(a) {
        slots.push(Slot::W32(builder.read_32(element)?));
    }
    check_registers(builder, form, slots.len())?;
    let elements = builder.list(&slots)?;
    Ok(Some(Op::StoreMatrix {
        form,
        address,
        elements,
        generic,
    }))
}

fn check_registers(builder: &Builder<'_, '_>, form: u32, got: usize) -> Result<(), LoadError> {
    let wanted = builder.program.forms.matrix[form as usize].n_registers();
    if got == wanted {
        return Ok(());
    }
    builder.refuse(format!("{wanted} registers are wanted"))
}

fn move_matrix<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    if opcode.take_rest() != ["sync", "aligned", "m8n8", "trans", "b16"] {
        return builder.unknown("this form of it");
    }
    let [d, a] = operands else {
        return builder.refuse("two operands are wanted");
    };
    let a = builder.read_32(a)?;
    let d = builder.write_32(d)?;
    Ok(Some(Op::MoveMatrix { d, a }))
}
