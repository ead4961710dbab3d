//! Decoded instructions: registers are numbers, labels are places, addresses are resolved.
//!
//! Rare instructions keep their operands in lists of the program, so that one instruction stays small:
//! what a warp fetches is one entry of 40 bytes.

use super::access::{Access, AddressBase, AddressOperand};
use super::rows::{List, P, R32, R64, Slot};

/// Operations on integers of any width; the instruction says the width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntOp {
    Add,
    Sub,
    MulLo,
    MulHiS,
    MulHiU,
    MadLo,
    MadHiS,
    MadHiU,
    Mul24LoS,
    Mul24LoU,
    Mul24HiS,
    Mul24HiU,
    Mad24LoS,
    Mad24LoU,
    Mad24HiS,
    Mad24HiU,
    DivS,
    DivU,
    RemS,
    RemU,
    MinS,
    MinU,
    MaxS,
    MaxU,
    MinSRelu,
    MaxSRelu,
    Abs,
    Neg,
    And,
    Or,
    Xor,
    Not,
    Cnot,
    Shl,
    ShrS,
    ShrU,
    SadS,
    SadU,
    Popc,
    Clz,
    Brev,
    BfindS,
    BfindU,
    BfindShiftS,
    BfindShiftU,
    BfeS,
    BfeU,
    BmskClamp,
    BmskWrap,
    SzextClampS,
    SzextClampU,
    SzextWrapS,
    SzextWrapU,
    AddSatS,
    SubSatS,
    MadHiSatS,
}

/// What one lane's carry does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CarryOp {
    Add,
    Sub,
    MadLo,
    MadHiS,
    MadHiU,
}

/// Operations on f32 and f64 that round to nearest, keep subnormals and do not saturate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FloatOp {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Sqrt,
    Rcp,
    Min,
    Max,
    Abs,
    Neg,
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// The same, true if a value is NaN.
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    /// Neither is NaN.
    Num,
    /// One is NaN.
    Nan,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
    F16,
    Bf16,
    F32,
    /// Subnormals count as zero.
    F32Flushed,
    F64,
}

/// Logic of predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
    Xor,
    /// The first operand.
    First,
}

/// A predicate as an operand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Condition {
    pub(crate) register: P,
    pub(crate) negated: bool,
}

/// Conversions that have a loop of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuickConversion {
    /// Zero-extends 32 bits, cuts to 32 bits, sign-extends 32 bits.
    U32ToU64,
    U64ToU32,
    S32ToS64,
    U16ToU32,
    U32ToU16,
    S32ToF32,
    U32ToF32,
    F32ToF64,
    F64ToF32,
    F32ToS32,
}

/// Read, change, write, as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Add,
    AddF32,
    AddF64,
    AddF16,
    AddF16x2,
    AddBf16,
    AddBf16x2,
    MinS,
    MinU,
    MaxS,
    MaxU,
    And,
    Or,
    Xor,
    Inc,
    Dec,
    Exch,
    Cas,
}

/// Which value a shuffle takes from which lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

/// Reductions over the lanes of a warp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WarpReduction {
    Add,
    MinS,
    MinU,
    MaxS,
    MaxU,
    And,
    Or,
    Xor,
}

/// What lanes vote on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// What a barrier gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarrierResult {
    None,
    Count(R32),
    And(P),
    Or(P),
}

/// A value that changes while a kernel runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    Low,
    High,
    Whole,
}

/// Which byte-wise instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteOp {
    /// Sum of products of four bytes; whether each operand is signed.
    Dp4a(bool, bool),
    /// Sum of two products of 16 bits and a byte; whether each is signed, and which half of b.
    Dp2a(bool, bool, bool),
    /// Four absolute differences of bytes, added to c or not.
    AbsDiff4 {
        signed: bool,
        accumulate: bool,
    },
    AddBytes {
        signed: bool,
    },
    SubBytes {
        signed: bool,
    },
    MinBytes {
        signed: bool,
    },
    MaxBytes {
        signed: bool,
    },
}

/// Selection of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permute {
    Selector,
    Forward4,
    Backward4,
    Replicate8,
    EdgeLeft,
    EdgeRight,
    Replicate16,
}

/// Which space an address is turned into or tested for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Window {
    Global,
    Const,
    Shared,
    Local,
    Param,
}

/// What an instruction does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
    /// Fences, prefetches, hints: nothing that a value depends on.
    Nothing,
    Int32 {
        op: IntOp,
        d: R32,
        a: R32,
        b: R32,
        c: R32,
    },
    Int16 {
        op: IntOp,
        signed: bool,
        d: R32,
        a: R32,
        b: R32,
        c: R32,
    },
    /// Two halves on their own.
    Int16x2 {
        op: IntOp,
        signed: bool,
        d: R32,
        a: R32,
        b: R32,
    },
    Int64 {
        op: IntOp,
        d: R64,
        a: R64,
        b: R64,
        c: R64,
    },
    /// Shifts and fields of 64 bits take their amounts from 32 bits.
    Shift64 {
        op: IntOp,
        d: R64,
        a: R64,
        b: R32,
        c: R32,
    },
    /// Counts of 64 bits fill 32 bits.
    Count64 {
        op: IntOp,
        d: R32,
        a: R64,
    },
    MulWide {
        signed: bool,
        d: R64,
        a: R32,
        b: R32,
        c: R64,
    },
    MulWide16 {
        signed: bool,
        d: R32,
        a: R32,
        b: R32,
        c: R32,
    },
    InsertField {
        d: R32,
        a: R32,
        b: R32,
        position: R32,
        len: R32,
    },
    InsertField64 {
        d: R64,
        a: R64,
        b: R64,
        position: R32,
        len: R32,
    },
    Lop3 {
        d: R32,
        a: R32,
        b: R32,
        c: R32,
        table: u8,
    },
    /// The predicate is whether the result has a bit set, and, or or, the condition.
    Lop3Test {
        d: Slot,
        p: P,
        sources: List,
        table: u8,
        logic: Logic,
        condition: Condition,
    },
    Permute {
        mode: Permute,
        d: R32,
        a: R32,
        b: R32,
        c: R32,
    },
    Funnel {
        left: bool,
        wrap: bool,
        d: R32,
        a: R32,
        b: R32,
        c: R32,
    },
    Carry32 {
        op: CarryOp,
        reads: bool,
        writes: bool,
        d: R32,
        a: R32,
        b: R32,
        c: R32,
    },
    Carry64 {
        op: CarryOp,
        reads: bool,
        writes: bool,
        d: R64,
        a: R64,
        b: R64,
        c: R64,
    },
    Bytes {
        op: ByteOp,
        d: R32,
        a: R32,
        b: R32,
        c: R32,
    },
    Float32 {
        op: FloatOp,
        d: R32,
        a: R32,
        b: R32,
        c: R32,
    },
    Float64 {
        op: FloatOp,
        d: R64,
        a: R64,
        b: R64,
        c: R64,
    },
    /// Any other arithmetic of floats, by its form.
    FloatForm {
        form: u32,
        operands: List,
    },
    QuickConvert {
        conversion: QuickConversion,
        d: Slot,
        a: Slot,
    },
    /// Any other conversion, by its form. The destination keeps `keep` bits, sign-extended if said.
    ConvertForm {
        form: u32,
        operands: List,
    },
    Compare {
        comparison: Comparison,
        scalar: Scalar,
        p: P,
        q: P,
        a: Slot,
        b: Slot,
        logic: Logic,
        condition: Condition,
    },
    /// Two halves, two predicates.
    CompareHalves {
        comparison: Comparison,
        scalar: Scalar,
        p: P,
        q: P,
        a: R32,
        b: R32,
        logic: Logic,
        condition: Condition,
    },
    /// The comparison as a value: all ones, or 1.0 in f32.
    Set {
        comparison: Comparison,
        scalar: Scalar,
        d: Slot,
        a: Slot,
        b: Slot,
        one: u32,
        logic: Logic,
        condition: Condition,
    },
    SetHalves {
        comparison: Comparison,
        scalar: Scalar,
        d: R32,
        a: R32,
        b: R32,
        one: u16,
        logic: Logic,
        condition: Condition,
    },
    Select32 {
        d: R32,
        a: R32,
        b: R32,
        condition: Condition,
    },
    Select64 {
        d: R64,
        a: R64,
        b: R64,
        condition: Condition,
    },
    SelectBySign {
        is_float: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        c: R32,
    },
    Logic {
        op: Logic,
        d: P,
        a: Condition,
        b: Condition,
    },
    /// Sets a predicate for all lanes.
    SetPredicate {
        d: P,
        value: bool,
    },
    Move32 {
        d: R32,
        a: R32,
    },
    Move64 {
        d: R64,
        a: R64,
    },
    /// Elements to one value: first element in the low bits.
    Pack {
        d: Slot,
        elements: List,
        bits: u8,
    },
    Unpack {
        a: Slot,
        elements: List,
        bits: u8,
    },
    /// The address of local memory of the frame.
    FrameAddress {
        d: R64,
        offset: u32,
    },
    ReadClock {
        d: Slot,
        clock: Clock,
    },
    ActiveMask {
        d: R32,
    },
    ToGeneric {
        window: Window,
        d: R64,
        a: R64,
    },
    FromGeneric {
        window: Window,
        d: R64,
        a: R64,
    },
    IsSpace {
        window: Window,
        p: P,
        a: R64,
    },
    Load {
        access: Access,
        address: AddressOperand,
        elements: List,
    },
    Store {
        access: Access,
        address: AddressOperand,
        elements: List,
    },
    /// `d` is a sink for `red`.
    Atomic {
        op: AtomicOp,
        access: Access,
        address: AddressOperand,
        operands: List,
    },
    /// Bytes copied are `n`; `source` says how many of them, the rest are zeros.
    CopyAsync {
        n: u8,
        to: AddressBase,
        to_offset: i32,
        from: R64,
        from_offset: i32,
        source: CopySource,
    },
    CommitCopies,
    WaitCopies {
        pending: u32,
    },
    LoadMatrix {
        form: u32,
        address: AddressOperand,
        elements: List,
        generic: bool,
    },
    StoreMatrix {
        form: u32,
        address: AddressOperand,
        elements: List,
        generic: bool,
    },
    MoveMatrix {
        d: R32,
        a: R32,
    },
    /// Operands: d, a, b, c, then the two scales.
    Mma {
        form: u32,
        operands: List,
    },
    Shuffle {
        mode: Shuffle,
        d: R32,
        p: P,
        operands: List,
    },
    Vote {
        vote: Vote,
        d: R32,
        p: P,
        condition: Condition,
        mask: R32,
    },
    MatchAny {
        d: R32,
        a: Slot,
        mask: R32,
    },
    MatchAll {
        d: R32,
        p: P,
        a: Slot,
        mask: R32,
    },
    Reduce {
        op: WarpReduction,
        d: R32,
        a: R32,
        mask: R32,
    },
    Elect {
        d: R32,
        p: P,
        mask: R32,
    },
    WarpBarrier {
        mask: R32,
    },
    /// `threads` is a sink where all of the block take part.
    Barrier {
        aligned: bool,
        id: R32,
        threads: Slot,
        condition: Condition,
        result: BarrierResult,
    },
    Arrive {
        aligned: bool,
        id: R32,
        threads: R32,
    },
    /// A barrier of all blocks of a cluster.
    ClusterWait {
        aligned: bool,
    },
    Branch {
        target: u32,
    },
    /// Goes where the text goes on, which is elsewhere as the code is laid out.
    Goto {
        target: u32,
    },
    BranchIndexed {
        index: R32,
        targets: u32,
    },
    Call {
        site: u32,
    },
    Return,
    Exit,
    Trap,
}

impl Op {
    /// Whether it waits for the cluster.
    pub(crate) fn is_cluster_wait(&self) -> bool {
        matches!(self, Op::ClusterWait { .. })
    }
}

/// How many bytes `cp.async` reads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CopySource {
    All,
    Bytes(R32),
    /// Nothing where the condition holds.
    IgnoredIf(Condition),
}

/// An instruction with its guard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instruction {
    pub(crate) op: Op,
    pub(crate) guard: Condition,
    /// Whether its operands' initialisation is looked at while it runs.
    pub(crate) is_watched: bool,
    /// Of an atomic: whether its result may be read afterwards.
    pub(crate) is_result_read: bool,
}
