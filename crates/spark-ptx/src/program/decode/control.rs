//! Branches, calls, barriers of a block, fences.

use crate::error::LoadError;
use crate::program::builder::{Builder, Symbol};
use crate::program::instruction::{BarrierResult, Condition, Op};
use crate::program::layout::{CallSite, Callee, FrameRange};
use crate::program::opcode::Opcode;
use crate::program::rows::{P, Slot};
use crate::text::Operand;

type Decoded = Result<Option<Op>, LoadError>;

/// Targets of all indexed branches: one list may serve many, so that a short text has a great number.
const MAX_BRANCH_TARGETS: usize = 1 << 20;

/// Decodes an instruction of this family; none if it is of another.
pub(super) fn decode<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    match opcode.base {
        "bra" => branch(builder, opcode, operands),
        "brx" => branch_indexed(builder, opcode, operands),
        "call" => call(builder, opcode, operands),
        "ret" => {
            opcode.take("uni");
            Ok(Some(Op::Return))
        }
        "exit" => Ok(Some(Op::Exit)),
        "trap" | "brkpt" => Ok(Some(Op::Trap)),
        "bar" | "barrier" if opcode.left().contains(&"cluster") => cluster(builder, opcode),
        "bar" | "barrier" => barrier(builder, opcode, operands),
        "membar" | "fence" | "nanosleep" | "griddepcontrol" | "pmevent" => nothing(builder, opcode),
        _ => Ok(None),
    }
}

fn branch<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    opcode.take("uni");
    let [Operand::Name(label)] = operands else {
        return builder.refuse("a label is wanted");
    };
    let target = builder.label(label)?;
    Ok(Some(Op::Branch { target }))
}

fn branch_indexed<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    opcode.take("uni");
    let ([index, Operand::Name(list)], true) = (operands, opcode.take("idx")) else {
        return builder.unknown("this form of it");
    };
    let index = builder.read_32(index)?;
    let mut targets = Vec::new();
    for label in builder.branch_targets(list)? {
        targets.push(builder.label(label)?);
    }
    builder.program.n_branch_targets += targets.len();
    let n_targets = builder.program.n_branch_targets;
    if n_targets > MAX_BRANCH_TARGETS {
        return Err(LoadError::TooLarge {
            line: builder.line,
            what: "a number of targets of all `brx.idx`",
            got: n_targets as u64,
            limit: MAX_BRANCH_TARGETS as u64,
        });
    }
    builder.program.branch_tables.push(targets);
    let targets = builder.program.branch_tables.len() as u32 - 1;
    Ok(Some(Op::BranchIndexed { index, targets }))
}

fn frame_ranges<'a>(
    builder: &Builder<'a, '_>,
    operands: &[Operand<'a>],
) -> Result<Vec<FrameRange>, LoadError> {
    let mut ranges = Vec::with_capacity(operands.len());
    for operand in operands {
        let symbol = match *operand {
            Operand::Name(name) => builder.symbol(name),
            _ => None,
        };
        let Some(Symbol::FrameParam(offset, len)) = symbol else {
            return builder.refuse("arguments are variables of `.param`");
        };
        ranges.push(FrameRange { offset, len });
    }
    Ok(ranges)
}

/// `call (results), name, (arguments), prototype;` with any part but the name left out.
fn call<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    opcode.take("uni");
    let (results, rest) = match operands {
        [Operand::List(results), rest @ ..] => (results.as_slice(), rest),
        rest => (&[][..], rest),
    };
    let Some((Operand::Name(name), rest)) = rest.split_first() else {
        return builder.refuse("the name of a function is wanted");
    };
    let arguments = match rest.first() {
        Some(Operand::List(arguments)) => arguments.as_slice(),
        _ => &[][..],
    };
    let callee = match builder.symbol(name) {
        Some(Symbol::Function(function)) => Callee::Direct(function),
        _ if builder.register(name)?.is_some() => {
            Callee::Indirect(builder.read_64(&Operand::Name(name))?)
        }
        _ if *name == "vprintf" => Callee::Print,
        _ => {
            return Err(LoadError::UnknownName {
                line: builder.line,
                name: name.chars().take(120).collect(),
            });
        }
    };
    let (arguments, results) = (
        frame_ranges(builder, arguments)?,
        frame_ranges(builder, results)?,
    );
    let callee = match callee {
        Callee::Direct(function) => direct(builder, function, &arguments, &results)?,
        other => other,
    };
    builder.program.calls.push(CallSite {
        callee,
        arguments,
        results,
    });
    let site = builder.program.calls.len() as u32 - 1;
    Ok(Some(Op::Call { site }))
}

/// A call of a known function, whose parameters are held against the arguments.
fn direct(
    builder: &Builder<'_, '_>,
    function: u32,
    arguments: &[FrameRange],
    results: &[FrameRange],
) -> Result<Callee, LoadError> {
    let code = &builder.program.functions[function as usize];
    if code.name == "vprintf" && !code.is_defined {
        return Ok(Callee::Print);
    }
    if !code.is_defined {
        return builder.refuse(format!("`{}` has no body here", code.name));
    }
    if code.is_kernel {
        return builder.refuse(format!("`{}` is a kernel, which nobody calls", code.name));
    }
    let fits = |want: &[FrameRange], got: &[FrameRange]| {
        want.len() == got.len() && want.iter().zip(got).all(|(want, got)| want.len == got.len)
    };
    if !fits(&code.parameters, arguments) || !fits(&code.results, results) {
        return builder.refuse(format!("`{}` takes other parameters", code.name));
    }
    Ok(Callee::Direct(function))
}

fn cluster<'a>(builder: &Builder<'a, '_>, opcode: &mut Opcode<'a>) -> Decoded {
    opcode.take("cluster");
    let (is_arrival, is_wait) = (opcode.take("arrive"), opcode.take("wait"));
    let aligned = opcode.take("aligned");
    while opcode
        .take_where(|part| matches!(part, "release" | "relaxed" | "acquire"))
        .is_some()
    {}
    // Every block is a cluster of its own. Arriving is made part of waiting: a block whose warps
    // do something in between sees them ordered by the barrier all the same.
    match (is_arrival, is_wait) {
        (true, false) => Ok(Some(Op::Nothing)),
        (false, true) => Ok(Some(Op::ClusterWait { aligned })),
        _ => builder.unknown("this form of it"),
    }
}

fn barrier<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    // `bar` is `barrier` with it. Without it lanes may come one by one, and by several instructions.
    let aligned = opcode.take("aligned") || opcode.base == "bar";
    opcode.take("cta");
    let always = Condition {
        register: P::NONE,
        negated: false,
    };
    if opcode.take("red") {
        return barrier_with_result(builder, opcode, operands, aligned);
    }
    if opcode.take("arrive") {
        let [id, threads] = operands else {
            return builder.refuse("a barrier and a number of threads are wanted");
        };
        let (id, threads) = (builder.read_32(id)?, builder.read_32(threads)?);
        return Ok(Some(Op::Arrive {
            aligned,
            id,
            threads,
        }));
    }
    if !opcode.take("sync") {
        return builder.unknown("this form of it");
    }
    let (id, threads) = match operands {
        [id] => (id, None),
        [id, threads] => (id, Some(threads)),
        _ => return builder.refuse("a barrier and perhaps a number of threads are wanted"),
    };
    let id = builder.read_32(id)?;
    let threads = match threads {
        Some(threads) => Slot::W32(builder.read_32(threads)?),
        None => Slot::Sink,
    };
    let result = BarrierResult::None;
    Ok(Some(Op::Barrier {
        aligned,
        id,
        threads,
        condition: always,
        result,
    }))
}

fn barrier_with_result<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
    aligned: bool,
) -> Decoded {
    let (d, id, threads, condition) = match operands {
        [d, id, condition] => (d, id, None, condition),
        [d, id, threads, condition] => (d, id, Some(threads), condition),
        _ => return builder.refuse("three or four operands are wanted"),
    };
    let condition = builder.condition(condition)?;
    let id = builder.read_32(id)?;
    let threads = match threads {
        Some(threads) => Slot::W32(builder.read_32(threads)?),
        None => Slot::Sink,
    };
    let result = match (opcode.take_rest().as_slice(), d) {
        (["popc", "u32"], _) => BarrierResult::Count(builder.write_32(d)?),
        (["and", "pred"], Operand::Name(p)) => BarrierResult::And(builder.write_predicate(p)?),
        (["or", "pred"], Operand::Name(p)) => BarrierResult::Or(builder.write_predicate(p)?),
        _ => return builder.unknown("this form of it"),
    };
    Ok(Some(Op::Barrier {
        aligned,
        id,
        threads,
        condition,
        result,
    }))
}

/// Fences order memory, which threads of one program order already see; barriers do the rest.
fn nothing<'a>(builder: &Builder<'a, '_>, opcode: &mut Opcode<'a>) -> Decoded {
    let known: &[&str] = match opcode.base {
        "membar" => &["cta", "gl", "sys"],
        "fence" => &[
            "sc", "acq_rel", "acquire", "release", "cta", "gpu", "sys", "cluster",
        ],
        "nanosleep" => &["u32"],
        "griddepcontrol" => &["wait", "launch_dependents"],
        _ => &["mask"],
    };
    while opcode.take_where(|part| known.contains(&part)).is_some() {}
    match opcode.left() {
        [] => Ok(Some(Op::Nothing)),
        _ => builder.unknown("this form of it"),
    }
}
