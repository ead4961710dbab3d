//! What lanes of a warp do together: shuffles, votes, matches, reductions, barriers of a warp.

use crate::error::LoadError;
use crate::program::builder::Builder;
use crate::program::instruction::{Condition, Op, Shuffle, Vote, WarpReduction};
use crate::program::opcode::Opcode;
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
        "shfl" => shuffle(builder, opcode, operands),
        "vote" => vote(builder, opcode, operands),
        "match" => matching(builder, opcode, operands),
        "redux" => reduce(builder, opcode, operands),
        "elect" => elect(builder, opcode, operands),
        "activemask" => {
            let ([d], true) = (operands, opcode.take("b32")) else {
                return builder.refuse("one operand of 32 bits is wanted");
            };
            let d = builder.write_32(d)?;
            Ok(Some(Op::ActiveMask { d }))
        }
        "bar" | "barrier" if opcode.left().first() == Some(&"warp") => {
            opcode.take("warp");
            let ([mask], true) = (operands, opcode.take("sync")) else {
                return builder.unknown("this form of it");
            };
            let mask = builder.read_32(mask)?;
            Ok(Some(Op::WarpBarrier { mask }))
        }
        _ => Ok(None),
    }
}

fn shuffle<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let modes = [
        ("up", Shuffle::Up),
        ("down", Shuffle::Down),
        ("bfly", Shuffle::Butterfly),
        ("idx", Shuffle::Index),
    ];
    if !opcode.take("sync") {
        return builder.unknown("without `sync`");
    }
    let (Some(mode), true) = (opcode.take_of(&modes), opcode.take("b32")) else {
        return builder.unknown("this form of it");
    };
    let [d, a, b, c, mask] = operands else {
        return builder.refuse("five operands are wanted");
    };
    let sources = [
        Slot::W32(builder.read_32(a)?),
        Slot::W32(builder.read_32(b)?),
        Slot::W32(builder.read_32(c)?),
        Slot::W32(builder.read_32(mask)?),
    ];
    let operands = builder.list(&sources)?;
    let (d, p) = builder.with_predicate(d)?;
    Ok(Some(Op::Shuffle {
        mode,
        d,
        p,
        operands,
    }))
}

fn vote<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    if !opcode.take("sync") {
        return builder.unknown("without `sync`");
    }
    let [d, condition, mask] = operands else {
        return builder.refuse("three operands are wanted");
    };
    let condition: Condition = builder.condition(condition)?;
    let mask = builder.read_32(mask)?;
    if opcode.take("ballot") && opcode.take("b32") {
        let d = builder.write_32(d)?;
        let vote = Vote::Ballot;
        return Ok(Some(Op::Vote {
            vote,
            d,
            p: P::NONE,
            condition,
            mask,
        }));
    }
    let votes = [
        ("all", Vote::All),
        ("any", Vote::Any),
        ("uni", Vote::Uniform),
    ];
    let (Some(vote), true, Operand::Name(p)) = (opcode.take_of(&votes), opcode.take("pred"), d)
    else {
        return builder.unknown("this form of it");
    };
    let p = builder.write_predicate(p)?;
    Ok(Some(Op::Vote {
        vote,
        d: mask,
        p,
        condition,
        mask,
    }))
}

fn matching<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let all = opcode.take_of(&[("all", true), ("any", false)]);
    let (Some(all), Some(kind), true) = (all, opcode.take_type(), opcode.take("sync")) else {
        return builder.unknown("this form of it");
    };
    let [d, a, mask] = operands else {
        return builder.refuse("three operands are wanted");
    };
    let a = builder.read(a, kind.bits, true)?;
    let mask = builder.read_32(mask)?;
    let (d, p) = builder.with_predicate(d)?;
    Ok(Some(if all {
        Op::MatchAll { d, p, a, mask }
    } else {
        Op::MatchAny { d, a, mask }
    }))
}

fn reduce<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let kind = opcode.take_type().filter(|kind| kind.is_integer());
    let (Some(kind), true) = (kind, opcode.take("sync")) else {
        return builder.unknown("its type");
    };
    let signed = kind.is_signed();
    let op = match opcode.take_rest()[..] {
        ["add"] => WarpReduction::Add,
        ["min"] if signed => WarpReduction::MinS,
        ["min"] => WarpReduction::MinU,
        ["max"] if signed => WarpReduction::MaxS,
        ["max"] => WarpReduction::MaxU,
        ["and"] => WarpReduction::And,
        ["or"] => WarpReduction::Or,
        ["xor"] => WarpReduction::Xor,
        _ => return builder.unknown("this operation"),
    };
    let [d, a, mask] = operands else {
        return builder.refuse("three operands are wanted");
    };
    let (a, mask) = (builder.read_32(a)?, builder.read_32(mask)?);
    let d = builder.write_32(d)?;
    Ok(Some(Op::Reduce { op, d, a, mask }))
}

fn elect<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let (true, [Operand::Pair(d, p), mask]) = (opcode.take("sync"), operands) else {
        return builder.unknown("this form of it");
    };
    let mask = builder.read_32(mask)?;
    // A lane's number that nobody wants still needs a row; the mask's is read, never written.
    let d = match builder.write_name(d)? {
        Slot::W32(row) => row,
        _ => return builder.refuse("the leader's number needs a register of 32 bits"),
    };
    let p = builder.write_predicate(p)?;
    Ok(Some(Op::Elect { d, p, mask }))
}
