//! The syntax tree of a PTX file, borrowed from its text.
//!
//! ```text
//! ParsedModule  variables, functions
//! Function      parameters, statements in one flat list
//! Statement     label | instruction | declaration | "{" | "}" | .loc | .branchtargets
//! ```
//!
//! Braces stay statements, so that nesting never becomes recursion. Types of registers are read
//! and their width is kept; whether a float stands in a `.b32` is nobody's concern.

/// A literal without its sign.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    /// Decimal, hexadecimal, octal or binary.
    Integer(u64),
    /// `0f` and the bits of an f32.
    Single(u32),
    /// `0d` and the bits of an f64, or a decimal fraction.
    Double(u64),
}

/// Where a variable lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    Const,
    Shared,
    Local,
    Param,
}

/// What an address starts from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Base<'a> {
    /// A register or a variable.
    Name(&'a str),
    /// A number.
    Absolute(u64),
}

/// `[base + offset]`
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Address<'a> {
    pub(crate) base: Base<'a>,
    pub(crate) offset: i64,
}

/// One operand of an instruction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand<'a> {
    /// A register, label, variable, function, or `_`.
    Name(&'a str),
    /// A variable with an offset outside of brackets: `sym+8`.
    NamePlus(&'a str, i64),
    /// `!%p1`
    Not(&'a str),
    /// A literal; true for a minus before it.
    Literal(Number, bool),
    /// `[…]`
    Memory(Address<'a>),
    /// `{a, b}`
    Vector(Vec<Operand<'a>>),
    /// `(a, b)` of a call.
    List(Vec<Operand<'a>>),
    /// `d|p`
    Pair(&'a str, &'a str),
}

/// `@p` or `@!p`
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guard<'a> {
    pub(crate) register: &'a str,
    pub(crate) negated: bool,
}

/// An instruction as written.
#[derive(Debug, Clone)]
pub(crate) struct Instruction<'a> {
    pub(crate) guard: Option<Guard<'a>>,
    pub(crate) opcode: &'a str,
    pub(crate) operands: Vec<Operand<'a>>,
}

/// One element of an initialiser.
#[derive(Debug, Clone, Copy)]
pub(crate) enum InitialValue<'a> {
    /// A literal; true for a minus before it.
    Literal(Number, bool),
    /// The address of a symbol and an offset.
    Symbol(&'a str, i64),
}

/// A variable of any space, or a parameter.
#[derive(Debug, Clone)]
pub(crate) struct Variable<'a> {
    pub(crate) space: Space,
    pub(crate) name: &'a str,
    /// Size of one element in bytes.
    pub(crate) element_bytes: u64,
    /// Size in bytes; none for `extern` arrays whose length the launch says.
    pub(crate) len_bytes: Option<u64>,
    pub(crate) align: u64,
    pub(crate) initial: Vec<InitialValue<'a>>,
    pub(crate) is_extern: bool,
    pub(crate) line: u32,
}

/// Registers: `.reg .b32 %r<10>` or `.reg .pred p`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declaration<'a> {
    pub(crate) name: &'a str,
    /// The number in angle brackets, if there is one.
    pub(crate) count: Option<u64>,
    /// Width in bits; 1 for predicates.
    pub(crate) bits: u32,
}

/// What a statement is.
#[derive(Debug, Clone)]
pub(crate) enum StatementKind<'a> {
    Label(&'a str),
    Instruction(Instruction<'a>),
    Registers(Declaration<'a>),
    Variable(Variable<'a>),
    Open,
    Close,
    /// Number of the file and line of the source.
    Location(u32, u32),
    /// Labels that `brx.idx` chooses among.
    BranchTargets(&'a str, Vec<&'a str>),
}

/// A statement and its line.
#[derive(Debug, Clone)]
pub(crate) struct Statement<'a> {
    pub(crate) line: u32,
    pub(crate) kind: StatementKind<'a>,
}

/// Whether a function is launched or called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FunctionKind {
    Entry,
    Device,
}

/// An entry or a device function.
#[derive(Debug, Clone)]
pub(crate) struct Function<'a> {
    pub(crate) kind: FunctionKind,
    pub(crate) name: &'a str,
    pub(crate) returns: Vec<Variable<'a>>,
    pub(crate) parameters: Vec<Variable<'a>>,
    /// `.maxntid` and `.reqntid`: the product, and the three numbers where they bind exactly.
    pub(crate) max_threads: Option<u64>,
    pub(crate) required_block: Option<[u32; 3]>,
    /// The first directive about clusters, and its line.
    pub(crate) cluster: Option<(&'a str, u32)>,
    /// None for a declaration of something defined elsewhere.
    pub(crate) body: Option<Vec<Statement<'a>>>,
    pub(crate) line: u32,
}

/// A whole file.
#[derive(Debug, Clone)]
pub(crate) struct ParsedModule<'a> {
    /// Major and minor of `.version`.
    pub(crate) version: (u32, u32),
    /// As in `sm_121a`.
    pub(crate) target: &'a str,
    pub(crate) variables: Vec<Variable<'a>>,
    pub(crate) functions: Vec<Function<'a>>,
    /// Number and name of each `.file`.
    pub(crate) files: Vec<(u32, &'a str)>,
}
