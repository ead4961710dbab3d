//! What surrounds the instructions: functions, kernels, variables, calls, and where code is from.

use super::rows::R64;

/// Bytes of parameters in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameRange {
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

/// Who is called.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Callee {
    /// Number of a function.
    Direct(u32),
    /// A register that holds the address of one.
    Indirect(R64),
    /// `vprintf`: takes a format and arguments, gives 0.
    Print,
}

/// A call with its arguments and results, which lie in the caller's frame.
#[derive(Debug, Clone)]
pub(crate) struct CallSite {
    pub(crate) callee: Callee,
    pub(crate) arguments: Vec<FrameRange>,
    pub(crate) results: Vec<FrameRange>,
}

/// A function, decoded.
#[derive(Debug, Clone)]
pub(crate) struct CodeOf {
    pub(crate) name: String,
    /// Its first instruction.
    pub(crate) first: u32,
    /// Rows and predicates of a frame.
    pub(crate) n_rows_32: u32,
    pub(crate) n_rows_64: u32,
    pub(crate) n_predicates: u32,
    /// Registers of a frame that are watched.
    pub(crate) n_watched: u32,
    /// Local memory of a frame in bytes.
    pub(crate) local_bytes: u32,
    /// Results, parameters, then variables of calls.
    pub(crate) param_bytes: u32,
    pub(crate) results: Vec<FrameRange>,
    pub(crate) parameters: Vec<FrameRange>,
    pub(crate) is_defined: bool,
    pub(crate) is_kernel: bool,
}

/// A kernel that can be launched.
#[derive(Debug, Clone)]
pub(crate) struct EntryOf {
    /// Number of its function.
    pub(crate) function: u32,
    /// Bytes of its parameters and their places.
    pub(crate) parameters: Vec<FrameRange>,
    pub(crate) parameter_bytes: u32,
    pub(crate) shared_bytes: u32,
    /// Where dynamic shared memory begins, at the alignment it asks for.
    pub(crate) dynamic_shared_offset: u32,
    pub(crate) max_threads: Option<u64>,
    pub(crate) required_block: Option<[u32; 3]>,
    /// Bytes of the narrowest access that may go to shared memory.
    pub(crate) shared_grain: u32,
}

/// A global or constant variable, for whom its address is asked.
#[derive(Debug, Clone)]
pub(crate) struct GlobalOf {
    pub(crate) name: String,
    pub(crate) len_bytes: u64,
    pub(crate) align: u64,
    pub(crate) is_const: bool,
    pub(crate) is_initialised: bool,
    pub(crate) initial: Vec<u8>,
    /// Places in the initial bytes that hold an address: offset, what is named, added number.
    pub(crate) addresses: Vec<(usize, Named, i64)>,
}

/// What an address in an initialiser names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Named {
    Global(u32),
    Function(u32),
}

/// Where an instruction comes from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origin {
    /// Line of the PTX text.
    pub(crate) line: u32,
    /// Number of the file and line of the source, 0 if unknown.
    pub(crate) file: u32,
    pub(crate) source_line: u32,
}

/// A register of a frame, for the question whether it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RegisterId {
    W32(u32),
    W64(u32),
    Predicate(u16),
}

/// A value that goes from one place to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Carry<T> {
    pub(crate) to: T,
    pub(crate) from: T,
}

/// What is looked at when a watched instruction runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watch {
    /// Number of the watched register, and the register.
    pub(crate) reads: Vec<(u32, RegisterId)>,
    pub(crate) writes: Vec<u32>,
    /// The destination is as written as the source is.
    pub(crate) carries: Option<Carry<u32>>,
}
