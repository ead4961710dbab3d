//! From an instruction as written to one as run, family by family.

mod compare;
mod control;
mod first_target;
mod float;
mod integer;
mod memory;
mod moves;
mod tensor;
mod warp;

use crate::error::LoadError;
use crate::text;

use super::builder::Builder;
use super::instruction::{Condition, Instruction};
use super::opcode::Opcode;
use super::rows::P;

/// Decodes one instruction, with its guard.
pub(super) fn instruction<'a>(
    builder: &mut Builder<'a, '_>,
    written: &text::Instruction<'a>,
) -> Result<Instruction, LoadError> {
    builder.opcode = written.opcode;
    builder.reads.clear();
    builder.writes.clear();
    if let Some((needs, capability)) = first_target::first_target(written.opcode)
        && builder.program.target.capability() < capability
    {
        return builder.not_on_target(needs);
    }
    let guard = match written.guard {
        Some(guard) => builder.condition_of(guard.register, guard.negated)?,
        None => Condition {
            register: P::NONE,
            negated: false,
        },
    };
    let families = [
        compare::decode,
        integer::decode,
        float::decode,
        moves::decode,
        memory::decode,
        warp::decode,
        control::decode,
        tensor::decode,
    ];
    let mut opcode = Opcode::new(written.opcode);
    for family in families {
        let Some(op) = family(builder, &mut opcode, &written.operands)? else {
            continue;
        };
        if let Some(left) = opcode.left().first() {
            return builder.unknown(format!("`.{left}`"));
        }
        return Ok(Instruction {
            op,
            guard,
            is_watched: false,
            is_result_read: false,
        });
    }
    builder.unknown("no such instruction")
}
