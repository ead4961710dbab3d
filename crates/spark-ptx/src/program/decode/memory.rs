//! Loads, stores, atomics, and copies in the background.

use crate::error::LoadError;
use crate::memory;
use crate::program::access::{Access, AccessSpace, AddressBase, AddressOperand, Scope};
use crate::program::builder::{Builder, Register, Symbol};
use crate::program::code::Constant;
use crate::program::instruction::{AtomicOp, CopySource, Op};
use crate::program::layout::RegisterId;
use crate::program::opcode::{Meaning, Opcode, Type};
use crate::program::rows::{R32, R64, ROW_KIND_SHIFT, ROW_OF_WARP, Slot};
use crate::program::special;
use crate::text::{Address, Base, Number, Operand};

type Decoded = Result<Option<Op>, LoadError>;

/// Decodes an instruction of this family; none if it is of another.
pub(super) fn decode<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    match opcode.base {
        "ld" | "ldu" => load(builder, opcode, operands),
        "st" => store(builder, opcode, operands),
        "atom" | "red" => atomic(builder, opcode, operands),
        "cp" => copy(builder, opcode, operands),
        "prefetch" | "prefetchu" | "applypriority" => {
            opcode.take_rest();
            Ok(Some(Op::Nothing))
        }
        _ => Ok(None),
    }
}

const SPACES: [(&str, AccessSpace); 10] = [
    ("global", AccessSpace::Global),
    ("const", AccessSpace::Const),
    ("shared", AccessSpace::Shared),
    ("shared::cta", AccessSpace::Shared),
    ("local", AccessSpace::Local),
    ("param", AccessSpace::KernelParam),
    ("param::entry", AccessSpace::KernelParam),
    ("param::func", AccessSpace::FrameParam),
    ("generic", AccessSpace::Generic),
    ("const[0]", AccessSpace::Const),
];

/// Takes the words about caches, which no value depends on.
fn take_cache_hints(opcode: &mut Opcode<'_>) -> bool {
    let is_hint = |part: &str| {
        matches!(
            part,
            "ca" | "cg" | "cs" | "lu" | "cv" | "wb" | "wt" | "weak" | "unified"
        ) || part.starts_with("L1::")
            || part.starts_with("L2::")
    };
    let mut has_operand = false;
    while let Some(hint) = opcode.take_where(is_hint) {
        has_operand |= hint == "L2::cache_hint";
    }
    has_operand
}

/// Takes the words about the order of memory: whether there was one that makes the access strong, and for whom.
fn take_order(opcode: &mut Opcode<'_>) -> (bool, Scope) {
    let orders = [
        "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "sc",
    ];
    let mut strong = false;
    while opcode.take_where(|part| orders.contains(&part)).is_some() {
        strong = true;
    }
    let mut scope = Scope::Device;
    while let Some(part) =
        opcode.take_where(|part| matches!(part, "cta" | "gpu" | "sys" | "cluster"))
    {
        scope = match part {
            "cta" | "cluster" => Scope::Block,
            _ => Scope::Device,
        };
    }
    (strong, scope)
}

fn access<'a>(
    builder: &Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    is_atomic: bool,
) -> Result<(Access, Type), LoadError> {
    let Some(kind) = opcode.take_type() else {
        return builder.unknown("its type");
    };
    let space = opcode.take_of(&SPACES).unwrap_or(AccessSpace::Generic);
    let (strong, scope) = take_order(opcode);
    let read_only = opcode.take("nc");
    if take_cache_hints(opcode) {
        return builder.unknown("a cache policy as an operand");
    }
    let counts = [("v2", 2), ("v4", 4), ("v8", 8)];
    let count = opcode.take_of(&counts).unwrap_or(1);
    let size = match kind.bits {
        8 | 16 | 32 | 64 => (kind.bits / 8) as u8,
        _ => return builder.unknown("its type"),
    };
    if u32::from(size) * u32::from(count) > 32 {
        return builder.unknown("more than 32 bytes");
    }
    let access = Access {
        space,
        size,
        count,
        signed: kind.is_signed(),
        scope: (strong || is_atomic).then_some(scope),
        read_only,
    };
    Ok((access, kind))
}

/// The base and offset of an address, and the space, which a name may decide.
pub(super) fn address<'a>(
    builder: &mut Builder<'a, '_>,
    operand: &Operand<'a>,
    space: AccessSpace,
) -> Result<(AddressOperand, AccessSpace), LoadError> {
    let Operand::Memory(Address { base, offset }) = *operand else {
        return builder.refuse("an address in brackets is wanted");
    };
    let at = |base, offset| AddressOperand { base, offset };
    let name = match base {
        Base::Absolute(value) => {
            let offset = offset.wrapping_add_unsigned(value);
            return Ok((at(AddressBase::None, offset), space));
        }
        Base::Name(name) => name,
    };
    match builder.register(name)? {
        Some(Register::W32(_, row)) => {
            builder.reads.push(RegisterId::W32(row.0));
            return Ok((at(AddressBase::W32(row), offset), space));
        }
        Some(Register::W64(row)) => {
            builder.reads.push(RegisterId::W64(row.0));
            return Ok((at(AddressBase::W64(row), offset), space));
        }
        Some(Register::Predicate(_)) => return builder.refuse("a predicate is no address"),
        None => {}
    }
    let Some(symbol) = builder.symbol(name) else {
        return Err(LoadError::UnknownName {
            line: builder.line,
            name: name.chars().take(120).collect(),
        });
    };
    let is_generic = space == AccessSpace::Generic;
    let with = |value: u32| offset.wrapping_add(i64::from(value));
    match (symbol, space) {
        (Symbol::Shared(value), AccessSpace::Shared) => {
            Ok((at(AddressBase::None, with(value)), space))
        }
        (Symbol::DynamicShared, AccessSpace::Shared) => {
            let row = R32(ROW_OF_WARP << ROW_KIND_SHIFT | special::DYNAMIC_SHARED);
            Ok((at(AddressBase::W32(row), offset), space))
        }
        (Symbol::Global(idx), AccessSpace::Global | AccessSpace::Generic)
        | (Symbol::Const(idx), AccessSpace::Const | AccessSpace::Generic) => {
            let row = builder.constant_64(Constant::Global(idx, offset));
            Ok((at(AddressBase::W64(row), 0), space))
        }
        (Symbol::Local(value), AccessSpace::Local) => {
            Ok((at(AddressBase::Frame, with(value)), space))
        }
        (Symbol::Local(value), AccessSpace::Generic) => {
            let generic = with(value).wrapping_add_unsigned(memory::LOCAL_WINDOW);
            Ok((at(AddressBase::Frame, generic), space))
        }
        (Symbol::KernelParam(value), AccessSpace::KernelParam) => {
            Ok((at(AddressBase::None, with(value)), space))
        }
        (Symbol::FrameParam(value, _), AccessSpace::KernelParam | AccessSpace::FrameParam) => {
            Ok((at(AddressBase::None, with(value)), AccessSpace::FrameParam))
        }
        (Symbol::Shared(value), _) if is_generic => {
            let generic = with(value).wrapping_add_unsigned(memory::SHARED_WINDOW);
            Ok((at(AddressBase::None, generic), space))
        }
        _ => builder.refuse(format!("`{name}` lies in another space")),
    }
}

/// The elements of a vector, or the one operand that is none.
fn elements<'o, 'a>(operand: &'o Operand<'a>) -> &'o [Operand<'a>] {
    match operand {
        Operand::Vector(elements) => elements,
        other => std::slice::from_ref(other),
    }
}

fn load<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let (mut access, _) = access(builder, opcode, false)?;
    if let Some(left) = opcode.left().first() {
        return builder.unknown(format!("`.{left}`"));
    }
    let [d, from] = operands else {
        return builder.refuse("two operands are wanted");
    };
    let (address, space) = address(builder, from, access.space)?;
    access.space = space;
    let elements = elements(d);
    if elements.len() != usize::from(access.count) {
        return builder.refuse(format!("{} elements are wanted", access.count));
    }
    let mut slots = Vec::with_capacity(elements.len());
    for element in elements {
        let slot = builder.write_any(element)?;
        if access.size == 8 && matches!(slot, Slot::W32(_)) {
            return builder.refuse("a register of 64 bits is wanted");
        }
        slots.push(slot);
    }
    let elements = builder.list(&slots)?;
    Ok(Some(Op::Load {
        access,
        address,
        elements,
    }))
}

fn store<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    let (mut access, _) = access(builder, opcode, false)?;
    if let Some(left) = opcode.left().first() {
        return builder.unknown(format!("`.{left}`"));
    }
    let [to, a] = operands else {
        return builder.refuse("two operands are wanted");
    };
    let (address, space) = address(builder, to, access.space)?;
    access.space = space;
    if let AccessSpace::Const | AccessSpace::KernelParam = space {
        return builder.refuse("this space is only read");
    }
    let elements = elements(a);
    if elements.len() != usize::from(access.count) {
        return builder.refuse(format!("{} elements are wanted", access.count));
    }
    let bits = u32::from(access.size) * 8;
    let mut slots = Vec::with_capacity(elements.len());
    for element in elements {
        let slot = builder.read_any(element, bits, true)?;
        if access.size == 8 && matches!(slot, Slot::W32(_)) {
            return builder.refuse("a register of 64 bits is wanted");
        }
        slots.push(slot);
    }
    let elements = builder.list(&slots)?;
    Ok(Some(Op::Store {
        access,
        address,
        elements,
    }))
}

fn atomic_operation(name: &str, kind: Type) -> Option<AtomicOp> {
    let signed = kind.is_signed();
    Some(match (name, kind.meaning, kind.bits) {
        ("add", Meaning::Float, 32) => AtomicOp::AddF32,
        ("add", Meaning::Float, 64) => AtomicOp::AddF64,
        ("add", Meaning::Float, 16) => AtomicOp::AddF16,
        ("add", Meaning::Halves, _) => AtomicOp::AddF16x2,
        ("add", Meaning::BrainFloat, _) => AtomicOp::AddBf16,
        ("add", Meaning::BrainHalves, _) => AtomicOp::AddBf16x2,
        ("add", Meaning::Unsigned | Meaning::Signed, 32 | 64) => AtomicOp::Add,
        ("min", Meaning::Unsigned | Meaning::Signed, 32 | 64) if signed => AtomicOp::MinS,
        ("min", Meaning::Unsigned, 32 | 64) => AtomicOp::MinU,
        ("max", Meaning::Unsigned | Meaning::Signed, 32 | 64) if signed => AtomicOp::MaxS,
        ("max", Meaning::Unsigned, 32 | 64) => AtomicOp::MaxU,
        ("and", Meaning::Bits, 32 | 64) => AtomicOp::And,
        ("or", Meaning::Bits, 32 | 64) => AtomicOp::Or,
        ("xor", Meaning::Bits, 32 | 64) => AtomicOp::Xor,
        ("inc", Meaning::Unsigned, 32) => AtomicOp::Inc,
        ("dec", Meaning::Unsigned, 32) => AtomicOp::Dec,
        ("exch", Meaning::Bits, 32 | 64) => AtomicOp::Exch,
        ("cas", Meaning::Bits, 16 | 32 | 64) => AtomicOp::Cas,
        _ => return None,
    })
}

fn atomic<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    opcode.take("noftz");
    let (mut access, kind) = access(builder, opcode, true)?;
    let [name] = opcode.take_rest()[..] else {
        return builder.unknown("this form of it");
    };
    let Some(op) = atomic_operation(name, kind) else {
        return builder.unknown("this operation on this type");
    };
    let is_red = opcode.base == "red";
    if access.count > 1
        && !matches!(
            op,
            AtomicOp::AddF32
                | AtomicOp::AddF16
                | AtomicOp::AddF16x2
                | AtomicOp::AddBf16
                | AtomicOp::AddBf16x2
        )
    {
        return builder.unknown("vectors of this type");
    }
    let (d, to, sources) = match operands {
        [to, sources @ ..] if is_red => (None, to, sources),
        [d, to, sources @ ..] => (Some(d), to, sources),
        _ => return builder.refuse("operands are wanted"),
    };
    let n_sources = if op == AtomicOp::Cas { 2 } else { 1 };
    if sources.len() != n_sources {
        return builder.refuse(format!("{n_sources} sources are wanted"));
    }
    let (address, space) = address(builder, to, access.space)?;
    if !matches!(
        space,
        AccessSpace::Generic | AccessSpace::Global | AccessSpace::Shared
    ) {
        return builder.refuse("only global and shared memory have atomics");
    }
    access.space = space;
    let count = usize::from(access.count);
    // Results first, then the sources, element by element.
    let mut read = Vec::new();
    for source in sources {
        let elements = elements(source);
        if elements.len() != count {
            return builder.refuse(format!("{count} elements are wanted"));
        }
        for element in elements {
            read.push(builder.read(element, kind.bits, true)?);
        }
    }
    let mut slots = Vec::new();
    match d {
        None => slots.resize(count, Slot::Sink),
        Some(d) => {
            let elements = elements(d);
            if elements.len() != count {
                return builder.refuse(format!("{count} elements are wanted"));
            }
            for element in elements {
                let is_sink = *element == Operand::Name("_");
                slots.push(if is_sink {
                    Slot::Sink
                } else {
                    builder.write(element, kind.bits)?
                });
            }
        }
    }
    slots.extend(read);
    let operands = builder.list(&slots)?;
    Ok(Some(Op::Atomic {
        op,
        access,
        address,
        operands,
    }))
}

fn copy<'a>(
    builder: &mut Builder<'a, '_>,
    opcode: &mut Opcode<'a>,
    operands: &[Operand<'a>],
) -> Decoded {
    if !opcode.take("async") {
        return builder.unknown("this form of it");
    }
    if opcode.take("commit_group") {
        return Ok(Some(Op::CommitCopies));
    }
    if opcode.take("wait_all") {
        return Ok(Some(Op::WaitCopies { pending: u32::MAX }));
    }
    if opcode.take("wait_group") {
        let [Operand::Literal(Number::Integer(pending), false)] = *operands else {
            return builder.refuse("a number of groups is wanted");
        };
        let pending = pending.min(u64::from(u32::MAX - 1)) as u32;
        return Ok(Some(Op::WaitCopies { pending }));
    }
    let bypasses = opcode.take("cg");
    let known = (bypasses || opcode.take("ca"))
        && (opcode.take("shared") || opcode.take("shared::cta"))
        && opcode.take("global");
    while opcode
        .take_where(|part| matches!(part, "L2::64B" | "L2::128B" | "L2::256B"))
        .is_some()
    {}
    if !known || !opcode.left().is_empty() {
        return builder.unknown("this form of it");
    }
    let (to, from, n, source) = match operands {
        [to, from, n] => (to, from, n, None),
        [to, from, n, source] => (to, from, n, Some(source)),
        _ => return builder.refuse("three or four operands are wanted"),
    };
    let n = match *n {
        Operand::Literal(Number::Integer(16), false) => 16,
        Operand::Literal(Number::Integer(n @ (4 | 8)), false) if !bypasses => n as u8,
        _ => return builder.refuse("16 bytes are copied, by `.ca` also 4 and 8"),
    };
    let source = match source {
        None => CopySource::All,
        Some(operand) => copy_source(builder, operand)?,
    };
    let (to, _) = address(builder, to, AccessSpace::Shared)?;
    let (from, _) = address(builder, from, AccessSpace::Global)?;
    let (Ok(to_offset), Ok(from_offset)) = (i32::try_from(to.offset), i32::try_from(from.offset))
    else {
        return builder.refuse("its offsets are too large");
    };
    let from = match from.base {
        AddressBase::W64(row) => row,
        _ => builder.constant_64(Constant::Literal(0)),
    };
    let from: R64 = from;
    Ok(Some(Op::CopyAsync {
        n,
        to: to.base,
        to_offset,
        from,
        from_offset,
        source,
    }))
}

fn copy_source<'a>(
    builder: &mut Builder<'a, '_>,
    operand: &Operand<'a>,
) -> Result<CopySource, LoadError> {
    let is_predicate = match *operand {
        Operand::Not(_) => true,
        Operand::Name(name) => matches!(builder.register(name)?, Some(Register::Predicate(_))),
        _ => false,
    };
    if is_predicate {
        return Ok(CopySource::IgnoredIf(builder.condition(operand)?));
    }
    Ok(CopySource::Bytes(builder.read_32(operand)?))
}
