//! A parsed file becomes a program: variables are placed, then every function is decoded.
//!
//! ```text
//! shared memory of a block   1024 bytes of the system | variables of the module | of the kernel | dynamic
//! parameters of a frame      results | parameters | variables of calls
//! ```

use std::collections::HashMap;

use crate::error::LoadError;
use crate::memory::SHARED_BASE;
use crate::target::Target;
use crate::text::{
    Function, FunctionKind, InitialValue, ParsedModule, Space, Statement, StatementKind, Variable,
};

use super::access::AccessSpace;
use super::builder::{Builder, Symbol};
use super::code::{Constant, Program};
use super::decode;
use super::flow::{self, Uses};
use super::instruction::{Condition, Instruction, Op};
use super::layout::{CodeOf, EntryOf, FrameRange, GlobalOf, Named, Origin};
use super::order;
use super::rows::P;

/// More shared memory than any card has.
const MAX_SHARED_BYTES: u64 = 256 << 10;
/// The most local memory that a thread has on any card.
const MAX_LOCAL_BYTES: u64 = 512 << 10;
/// Variables in constant memory.
const MAX_CONST_BYTES: u64 = 64 << 10;
/// Parameters of kernels since PTX 8.1, and of calls.
const MAX_PARAMETER_BYTES: u64 = 32_764;

/// Decodes a whole file.
pub(crate) fn load(parsed: &ParsedModule<'_>) -> Result<Program, LoadError> {
    let mut loader = Loader::new(target_of(parsed.target)?);
    loader.program.files = parsed
        .files
        .iter()
        .map(|(number, name)| (*number, (*name).to_owned()))
        .collect();
    loader.number_functions(parsed)?;
    loader.place_variables(parsed)?;
    loader.initial_values(parsed)?;
    // Bytes of the narrowest access of shared memory: of each kernel, and of all that may be called.
    let mut of_kernels = HashMap::new();
    let mut of_calls = 4;
    for (number, function) in loader.defined.clone() {
        let function = &parsed.functions[function];
        let grain = loader.function(number, function)?;
        match function.kind {
            FunctionKind::Device => of_calls = of_calls.min(grain),
            FunctionKind::Entry => _ = of_kernels.insert(number, grain),
        }
    }
    for entry in loader.program.entries.values_mut() {
        let own = of_kernels.get(&entry.function).copied().unwrap_or(1);
        entry.shared_grain = of_calls.min(own);
    }
    Ok(loader.program)
}

/// The first word of `.target`; `debug` and the like may follow.
fn target_of(target: &str) -> Result<Target, LoadError> {
    let name = target.split(',').next().unwrap_or_default().trim();
    Target::parse(name).ok_or_else(|| LoadError::UnknownTarget {
        name: name.chars().take(40).collect(),
    })
}

struct Loader<'a> {
    program: Program,
    symbols: HashMap<&'a str, Symbol>,
    /// Number of a function, and its place in the file.
    defined: Vec<(u32, usize)>,
    /// Shared variables of device functions, by function and number of the statement.
    shared_of_functions: HashMap<(u32, usize), u32>,
    module_shared_end: u64,
    dynamic_align: u64,
    constants_32: HashMap<u32, u32>,
    constants_64: HashMap<Constant, u32>,
}

impl Loader<'_> {
    fn new(target: Target) -> Self {
        Self {
            program: Program::new(target),
            symbols: HashMap::new(),
            defined: Vec::new(),
            shared_of_functions: HashMap::new(),
            module_shared_end: 0,
            dynamic_align: 0,
            constants_32: HashMap::new(),
            constants_64: HashMap::new(),
        }
    }
}

fn align_up(offset: u64, align: u64) -> u64 {
    offset.next_multiple_of(align.max(1))
}

fn limited(line: u32, what: &'static str, got: u64, limit: u64) -> Result<u32, LoadError> {
    if got > limit {
        return Err(LoadError::TooLarge {
            line,
            what,
            got,
            limit,
        });
    }
    Ok(got as u32)
}

/// Places variables one after the other; ranges and the end.
fn lay_out(variables: &[Variable<'_>], from: u64) -> Result<(Vec<FrameRange>, u64), LoadError> {
    let mut ranges = Vec::with_capacity(variables.len());
    let mut end = from;
    for variable in variables {
        let len = variable.len_bytes.unwrap_or(0);
        let offset = align_up(end, variable.align);
        end = offset.saturating_add(len);
        let what = "the size of all parameters";
        limited(variable.line, what, end, MAX_PARAMETER_BYTES)?;
        ranges.push(FrameRange {
            offset: offset as u32,
            len: len as u32,
        });
    }
    Ok((ranges, end))
}

impl<'a> Loader<'a> {
    fn number_functions(&mut self, parsed: &ParsedModule<'a>) -> Result<(), LoadError> {
        for (place, function) in parsed.functions.iter().enumerate() {
            let known = match self.symbols.get(function.name) {
                Some(Symbol::Function(number)) => Some(*number),
                _ => None,
            };
            let number = known.unwrap_or(self.program.functions.len() as u32);
            if let Some((directive, line)) = function.cluster
                && self.program.target.capability() < 90
            {
                return Err(LoadError::NotOnTarget {
                    line,
                    opcode: directive.to_owned(),
                    needs: "sm_90",
                    target: self.program.target,
                });
            }
            let (results, end) = lay_out(&function.returns, 0)?;
            let (parameters, end) = match function.kind {
                FunctionKind::Entry => (lay_out(&function.parameters, 0)?.0, 0),
                FunctionKind::Device => lay_out(&function.parameters, end)?,
            };
            let is_kernel = function.kind == FunctionKind::Entry;
            if known.is_some() {
                let before = &self.program.functions[number as usize];
                let is_same = before.is_kernel == is_kernel
                    && before.results == results
                    && before.parameters == parameters;
                if !is_same {
                    return Err(LoadError::Syntax {
                        line: function.line,
                        what: format!("`{}` was declared with other parameters", function.name),
                    });
                }
            } else {
                self.program.functions.push(CodeOf {
                    name: function.name.to_owned(),
                    first: 0,
                    n_rows_32: 0,
                    n_rows_64: 0,
                    n_predicates: 0,
                    n_watched: 0,
                    local_bytes: 0,
                    param_bytes: end as u32,
                    results,
                    parameters,
                    is_defined: false,
                    is_kernel,
                });
                self.symbols.insert(function.name, Symbol::Function(number));
            }
            if function.body.is_some() {
                let code = &mut self.program.functions[number as usize];
                if std::mem::replace(&mut code.is_defined, true) {
                    return Err(LoadError::Syntax {
                        line: function.line,
                        what: format!("`{}` is defined twice", function.name),
                    });
                }
                self.defined.push((number, place));
            }
        }
        Ok(())
    }

    fn place_variables(&mut self, parsed: &ParsedModule<'a>) -> Result<(), LoadError> {
        self.module_shared_end = u64::from(SHARED_BASE);
        self.dynamic_align = 16;
        let mut of_constants = 0u64;
        for variable in &parsed.variables {
            if variable.space == Space::Const {
                let len = variable.len_bytes.unwrap_or(0);
                of_constants = align_up(of_constants, variable.align).saturating_add(len);
                let what = "the size of constant memory";
                limited(variable.line, what, of_constants, MAX_CONST_BYTES)?;
            }
            let symbol = match variable.space {
                Space::Shared => self.place_shared(variable)?,
                Space::Global | Space::Const => self.place_global(variable),
                Space::Local | Space::Param => {
                    return Err(LoadError::Syntax {
                        line: variable.line,
                        what: "this space has no variables outside of functions".into(),
                    });
                }
            };
            self.symbols.insert(variable.name, symbol);
        }
        for (number, place) in self.defined.clone() {
            let function = &parsed.functions[place];
            if function.kind == FunctionKind::Entry {
                continue;
            }
            for (idx, statement) in function.body.iter().flatten().enumerate() {
                if let StatementKind::Variable(variable) = &statement.kind
                    && variable.space == Space::Shared
                    && let Symbol::Shared(offset) = self.place_shared(variable)?
                {
                    self.shared_of_functions.insert((number, idx), offset);
                }
            }
        }
        Ok(())
    }

    fn place_shared(&mut self, variable: &Variable<'a>) -> Result<Symbol, LoadError> {
        let Some(len) = variable.len_bytes else {
            self.dynamic_align = self.dynamic_align.max(variable.align);
            return Ok(Symbol::DynamicShared);
        };
        let offset = align_up(self.module_shared_end, variable.align);
        self.module_shared_end = offset.saturating_add(len);
        let what = "the size of shared memory";
        limited(
            variable.line,
            what,
            self.module_shared_end,
            MAX_SHARED_BYTES,
        )?;
        Ok(Symbol::Shared(offset as u32))
    }

    fn place_global(&mut self, variable: &Variable<'a>) -> Symbol {
        let number = self.program.globals.len() as u32;
        let is_const = variable.space == Space::Const;
        self.program.globals.push(GlobalOf {
            name: variable.name.to_owned(),
            len_bytes: variable.len_bytes.unwrap_or(0),
            align: variable.align,
            is_const,
            is_initialised: !variable.initial.is_empty(),
            initial: Vec::new(),
            addresses: Vec::new(),
        });
        if is_const {
            Symbol::Const(number)
        } else {
            Symbol::Global(number)
        }
    }

    fn initial_values(&mut self, parsed: &ParsedModule<'a>) -> Result<(), LoadError> {
        for variable in &parsed.variables {
            let number = match self.symbols.get(variable.name) {
                Some(Symbol::Global(number) | Symbol::Const(number)) => *number as usize,
                _ => continue,
            };
            let bytes = variable.element_bytes.min(8) as usize;
            for value in &variable.initial {
                let at = self.program.globals[number].initial.len();
                let value = match *value {
                    InitialValue::Literal(literal, negative) => {
                        Builder::literal_bits(literal, negative, bytes as u32 * 8, true)
                    }
                    InitialValue::Symbol(name, offset) => {
                        let named = match self.symbols.get(name) {
                            Some(Symbol::Global(idx) | Symbol::Const(idx)) => Named::Global(*idx),
                            Some(Symbol::Function(idx)) => Named::Function(*idx),
                            _ => {
                                return Err(LoadError::UnknownName {
                                    line: variable.line,
                                    name: name.chars().take(120).collect(),
                                });
                            }
                        };
                        if bytes != 8 {
                            return Err(LoadError::Syntax {
                                line: variable.line,
                                what: "an address needs elements of 64 bits".into(),
                            });
                        }
                        self.program.globals[number]
                            .addresses
                            .push((at, named, offset));
                        0
                    }
                };
                let initial = &mut self.program.globals[number].initial;
                initial.extend_from_slice(&value.to_le_bytes()[..bytes]);
            }
        }
        Ok(())
    }

    /// Decodes a function; returns the bytes of its narrowest access of shared memory.
    fn function(&mut self, number: u32, function: &Function<'a>) -> Result<u32, LoadError> {
        let first = self.program.instructions.len() as u32;
        let code = self.program.functions[number as usize].clone();
        let Some(statements) = &function.body else {
            return Ok(4);
        };
        let mut frame = Frame {
            number,
            shared_end: self.module_shared_end,
            dynamic_align: self.dynamic_align,
            local_end: 0,
            param_end: u64::from(code.param_bytes),
        };
        let mut builder = Builder::new(
            &mut self.program,
            &self.symbols,
            &mut self.constants_32,
            &mut self.constants_64,
        );
        let parameters = function.parameters.iter().zip(&code.parameters);
        for (variable, range) in parameters {
            let symbol = match function.kind {
                FunctionKind::Entry => Symbol::KernelParam(range.offset),
                FunctionKind::Device => Symbol::FrameParam(range.offset, range.len),
            };
            builder.declare_symbol(variable.name, symbol);
        }
        for (variable, range) in function.returns.iter().zip(&code.results) {
            builder.declare_symbol(variable.name, Symbol::FrameParam(range.offset, range.len));
        }
        frame.declare(&mut builder, statements, first, &self.shared_of_functions)?;
        let uses = decode_statements(&mut builder, statements)?;
        let (n_rows_32, n_rows_64, n_predicates) =
            (builder.n_rows_32, builder.n_rows_64, builder.n_predicates);
        let code = &mut self.program.functions[number as usize];
        code.first = first;
        code.n_rows_32 = n_rows_32;
        code.n_rows_64 = n_rows_64;
        code.n_predicates = n_predicates;
        code.local_bytes = frame.local_end as u32;
        code.param_bytes = frame.param_end as u32;
        let uses = order::lay_out(&mut self.program, first, uses);
        self.watch(number, first, &uses);
        if function.kind == FunctionKind::Entry {
            self.entry(number, function, &frame)?;
        }
        Ok(self.shared_grain(first))
    }

    fn watch(&mut self, number: u32, first: u32, uses: &[Uses]) {
        let program = &mut self.program;
        let code = &program.instructions[first as usize..];
        let watches = flow::watches(
            first,
            code,
            uses,
            &program.branch_tables,
            &mut program.functions[number as usize].n_watched,
        );
        for at in watches.keys() {
            program.instructions[*at as usize].is_watched = true;
        }
        program.watches.extend(watches);
        let code = &program.instructions[first as usize..];
        for idx in flow::result_reads(first, code, uses, &program.branch_tables) {
            program.instructions[first as usize + idx].is_result_read = true;
        }
    }

    fn shared_grain(&self, first: u32) -> u32 {
        let mut grain = 4;
        for instruction in &self.program.instructions[first as usize..] {
            if let Op::Load { access, .. } | Op::Store { access, .. } | Op::Atomic { access, .. } =
                instruction.op
                && let AccessSpace::Shared | AccessSpace::Generic = access.space
            {
                grain = grain.min(u32::from(access.size));
            }
        }
        grain
    }

    fn entry(
        &mut self,
        number: u32,
        function: &Function<'a>,
        frame: &Frame,
    ) -> Result<(), LoadError> {
        let (parameters, parameter_bytes) = lay_out(&function.parameters, 0)?;
        let what = "the size of shared memory";
        let shared = limited(function.line, what, frame.shared_end, MAX_SHARED_BYTES)?;
        let entry = EntryOf {
            function: number,
            parameters,
            parameter_bytes: parameter_bytes as u32,
            shared_bytes: shared - SHARED_BASE,
            dynamic_shared_offset: align_up(frame.shared_end, frame.dynamic_align) as u32,
            max_threads: function.max_threads,
            required_block: function.required_block,
            shared_grain: 4,
        };
        self.program.entries.insert(function.name.to_owned(), entry);
        Ok(())
    }
}

/// Ends of what a function declares.
struct Frame {
    number: u32,
    shared_end: u64,
    dynamic_align: u64,
    local_end: u64,
    param_end: u64,
}

impl Frame {
    /// Takes all declarations and labels, so that instructions may name what comes later.
    fn declare<'a>(
        &mut self,
        builder: &mut Builder<'a, '_>,
        statements: &[Statement<'a>],
        first: u32,
        shared_of_functions: &HashMap<(u32, usize), u32>,
    ) -> Result<(), LoadError> {
        let mut at = first;
        for (idx, statement) in statements.iter().enumerate() {
            match &statement.kind {
                StatementKind::Open => {
                    builder.open();
                }
                StatementKind::Close => builder.close(),
                StatementKind::Label(name) => builder.declare_label(name, at),
                StatementKind::Registers(declared) => {
                    builder.declare_registers(declared.name, declared.count, declared.bits);
                }
                StatementKind::BranchTargets(name, labels) => {
                    builder.declare_branch_targets(name, labels.clone());
                }
                StatementKind::Variable(variable) => {
                    let symbol = match shared_of_functions.get(&(self.number, idx)) {
                        Some(offset) => Symbol::Shared(*offset),
                        None => self.variable(variable)?,
                    };
                    builder.declare_symbol(variable.name, symbol);
                }
                StatementKind::Instruction(_) => at += 1,
                StatementKind::Location(..) => {}
            }
        }
        builder.enter(0);
        Ok(())
    }

    fn variable(&mut self, variable: &Variable<'_>) -> Result<Symbol, LoadError> {
        let line = variable.line;
        let len = variable.len_bytes.unwrap_or(0);
        let place = |end: &mut u64, what, limit| {
            let offset = align_up(*end, variable.align);
            *end = offset.saturating_add(len);
            limited(line, what, *end, limit)?;
            Ok(offset as u32)
        };
        Ok(match variable.space {
            Space::Shared if variable.len_bytes.is_none() => {
                self.dynamic_align = self.dynamic_align.max(variable.align);
                Symbol::DynamicShared
            }
            Space::Shared => {
                let what = "the size of shared memory";
                Symbol::Shared(place(&mut self.shared_end, what, MAX_SHARED_BYTES)?)
            }
            Space::Local => {
                let what = "the size of local memory";
                Symbol::Local(place(&mut self.local_end, what, MAX_LOCAL_BYTES)?)
            }
            Space::Param => {
                let what = "the size of all parameters of calls";
                let offset = place(&mut self.param_end, what, MAX_LOCAL_BYTES)?;
                Symbol::FrameParam(offset, len as u32)
            }
            Space::Global | Space::Const => {
                return Err(LoadError::Syntax {
                    line,
                    what: "global variables inside of functions are not known".into(),
                });
            }
        })
    }
}

/// Decodes all instructions of a function; what each reads and writes.
fn decode_statements<'a>(
    builder: &mut Builder<'a, '_>,
    statements: &[Statement<'a>],
) -> Result<Vec<Uses>, LoadError> {
    let mut uses = Vec::new();
    let mut n_scopes = 0;
    let mut origin = Origin::default();
    for statement in statements {
        builder.line = statement.line;
        origin.line = statement.line;
        match &statement.kind {
            StatementKind::Open => {
                n_scopes += 1;
                builder.enter(n_scopes);
            }
            StatementKind::Close => builder.close(),
            StatementKind::Location(file, line) => {
                origin.file = *file;
                origin.source_line = *line;
            }
            StatementKind::Instruction(written) => {
                let instruction = decode::instruction(builder, written)?;
                let (reads, writes) = (builder.reads.clone(), builder.writes.clone());
                uses.push(Uses::new(builder.program, &instruction.op, reads, writes));
                builder.program.instructions.push(instruction);
                builder.program.origins.push(origin);
            }
            _ => {}
        }
    }
    builder.program.instructions.push(Instruction {
        op: Op::Return,
        guard: Condition {
            register: P::NONE,
            negated: false,
        },
        is_watched: false,
        is_result_read: false,
    });
    builder.program.origins.push(origin);
    uses.push(Uses::default());
    Ok(uses)
}
