//! What decoding knows while it walks through a function: names, registers, constants, the lists.
//!
//! ```text
//! scope 0          the body      %p<10>, %r<37>, labels, .shared, .local
//!   scope 1        inline asm    .reg .pred %p1  hides the body's
//! ```
//!
//! A register gets a row when it is first used, so that `.reg .b32 %r<1000000000>` costs nothing.

use std::collections::HashMap;

use crate::error::LoadError;
use crate::form::FormError;
use crate::text::{Number, Operand};

use super::code::{Constant, Program};
use super::instruction::Condition;
use super::layout::RegisterId;
use super::rows::{List, P, R32, R64, ROW_KIND_SHIFT, ROW_OF_CONSTANTS, ROW_OF_WARP, Slot};
use super::special;

/// Registers of a function of one kind; NVIDIA's compiler stays far below.
const MAX_ROWS: u32 = 1 << 15;

/// What a name of a variable stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Symbol {
    /// Offset in shared memory.
    Shared(u32),
    /// The beginning of dynamic shared memory.
    DynamicShared,
    Global(u32),
    Const(u32),
    /// Offset in the frame's local memory.
    Local(u32),
    /// Offset in the kernel's parameters.
    KernelParam(u32),
    /// Offset and length in the frame's parameters.
    FrameParam(u32, u32),
    Function(u32),
}

/// A register of a scope.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Register {
    /// Bits as declared, then the row.
    W32(u32, R32),
    W64(R64),
    Predicate(P),
}

#[derive(Default)]
struct Scope<'a> {
    parent: Option<usize>,
    /// `%r<10>`: prefix to count and bits.
    ranges: HashMap<&'a str, (u64, u32)>,
    /// Declared one by one: bits.
    singles: HashMap<&'a str, u32>,
    known: HashMap<&'a str, Register>,
    symbols: HashMap<&'a str, Symbol>,
    labels: HashMap<&'a str, u32>,
    branch_targets: HashMap<&'a str, Vec<&'a str>>,
}

/// The state of decoding one function.
pub(crate) struct Builder<'a, 'p> {
    pub(crate) program: &'p mut Program,
    module_symbols: &'p HashMap<&'a str, Symbol>,
    constants_32: &'p mut HashMap<u32, u32>,
    constants_64: &'p mut HashMap<Constant, u32>,
    scopes: Vec<Scope<'a>>,
    scope: usize,
    pub(crate) n_rows_32: u32,
    pub(crate) n_rows_64: u32,
    pub(crate) n_predicates: u32,
    pub(crate) line: u32,
    pub(crate) opcode: &'a str,
    /// Registers that the instruction at hand reads and writes.
    pub(crate) reads: Vec<RegisterId>,
    pub(crate) writes: Vec<RegisterId>,
}

impl<'a, 'p> Builder<'a, 'p> {
    pub(crate) fn new(
        program: &'p mut Program,
        module_symbols: &'p HashMap<&'a str, Symbol>,
        constants_32: &'p mut HashMap<u32, u32>,
        constants_64: &'p mut HashMap<Constant, u32>,
    ) -> Builder<'a, 'p> {
        Builder {
            program,
            module_symbols,
            constants_32,
            constants_64,
            scopes: vec![Scope::default()],
            scope: 0,
            n_rows_32: 0,
            n_rows_64: 0,
            n_predicates: 0,
            line: 0,
            opcode: "",
            reads: Vec::new(),
            writes: Vec::new(),
        }
    }

    /// An operand that does not fit.
    pub(crate) fn refuse<T>(&self, what: impl Into<String>) -> Result<T, LoadError> {
        Err(LoadError::Operand {
            line: self.line,
            opcode: self.opcode.chars().take(120).collect(),
            what: what.into(),
        })
    }

    /// An opcode or a form of it that is not known.
    pub(crate) fn unknown<T>(&self, why: impl Into<String>) -> Result<T, LoadError> {
        Err(LoadError::UnknownInstruction {
            line: self.line,
            opcode: self.opcode.chars().take(120).collect(),
            why: why.into(),
        })
    }

    /// What the target lacks and another one has.
    pub(crate) fn not_on_target<T>(&self, needs: &'static str) -> Result<T, LoadError> {
        Err(LoadError::NotOnTarget {
            line: self.line,
            opcode: self.opcode.chars().take(120).collect(),
            needs,
            target: self.program.target,
        })
    }

    /// A form that is none, or none of this target.
    pub(crate) fn no_such_form<T>(&self, error: &FormError) -> Result<T, LoadError> {
        match *error {
            FormError::Target { needs, .. } => self.not_on_target(needs),
            _ => self.unknown(error.to_string()),
        }
    }

    // Scopes ---------------------------------------------------------------------------------

    /// Opens a scope inside the one at hand and returns its number.
    pub(crate) fn open(&mut self) -> usize {
        self.scopes.push(Scope {
            parent: Some(self.scope),
            ..Scope::default()
        });
        self.scope = self.scopes.len() - 1;
        self.scope
    }

    pub(crate) fn close(&mut self) {
        self.scope = self.scopes[self.scope].parent.unwrap_or(0);
    }

    /// Goes back to a scope that was opened before.
    pub(crate) fn enter(&mut self, scope: usize) {
        self.scope = scope;
    }

    pub(crate) fn declare_registers(&mut self, name: &'a str, count: Option<u64>, bits: u32) {
        let scope = &mut self.scopes[self.scope];
        match count {
            Some(count) => {
                scope.ranges.insert(name, (count, bits));
            }
            None => {
                scope.singles.insert(name, bits);
            }
        }
    }

    pub(crate) fn declare_symbol(&mut self, name: &'a str, symbol: Symbol) {
        self.scopes[self.scope].symbols.insert(name, symbol);
    }

    pub(crate) fn declare_label(&mut self, name: &'a str, target: u32) {
        self.scopes[self.scope].labels.insert(name, target);
    }

    pub(crate) fn declare_branch_targets(&mut self, name: &'a str, labels: Vec<&'a str>) {
        self.scopes[self.scope].branch_targets.insert(name, labels);
    }

    fn find_in_scopes<T>(&self, find: impl Fn(&Scope<'a>) -> Option<T>) -> Option<T> {
        let mut at = Some(self.scope);
        while let Some(idx) = at {
            if let Some(found) = find(&self.scopes[idx]) {
                return Some(found);
            }
            at = self.scopes[idx].parent;
        }
        None
    }

    fn not_declared<T>(&self, name: &str) -> Result<T, LoadError> {
        Err(LoadError::UnknownName {
            line: self.line,
            name: name.chars().take(120).collect(),
        })
    }

    pub(crate) fn label(&self, name: &str) -> Result<u32, LoadError> {
        match self.find_in_scopes(|scope| scope.labels.get(name).copied()) {
            Some(target) => Ok(target),
            None => self.not_declared(name),
        }
    }

    pub(crate) fn branch_targets(&self, name: &str) -> Result<Vec<&'a str>, LoadError> {
        match self.find_in_scopes(|scope| scope.branch_targets.get(name).cloned()) {
            Some(labels) => Ok(labels),
            None => self.not_declared(name),
        }
    }

    pub(crate) fn symbol(&self, name: &str) -> Option<Symbol> {
        self.find_in_scopes(|scope| scope.symbols.get(name).copied())
            .or_else(|| self.module_symbols.get(name).copied())
    }

    // Registers ------------------------------------------------------------------------------

    /// The register of a name, if it names one.
    pub(crate) fn register(&mut self, name: &'a str) -> Result<Option<Register>, LoadError> {
        let mut at = Some(self.scope);
        while let Some(idx) = at {
            if let Some(known) = self.scopes[idx].known.get(name) {
                return Ok(Some(*known));
            }
            if let Some(bits) = self.declared_bits(idx, name) {
                let register = self.new_register(bits)?;
                self.scopes[idx].known.insert(name, register);
                return Ok(Some(register));
            }
            at = self.scopes[idx].parent;
        }
        Ok(None)
    }

    fn declared_bits(&self, scope: usize, name: &str) -> Option<u32> {
        let scope = &self.scopes[scope];
        if let Some(bits) = scope.singles.get(name) {
            return Some(*bits);
        }
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name[prefix.len()..].parse::<u64>().ok()?;
        let (count, bits) = scope.ranges.get(prefix)?;
        (number < *count).then_some(*bits)
    }

    fn new_register(&mut self, bits: u32) -> Result<Register, LoadError> {
        let (count, register) = match bits {
            1 => {
                self.n_predicates += 1;
                let idx = self.n_predicates - 1;
                (self.n_predicates, Register::Predicate(P(idx as u16)))
            }
            64 => {
                self.n_rows_64 += 1;
                (self.n_rows_64, Register::W64(R64(self.n_rows_64 - 1)))
            }
            _ => {
                self.n_rows_32 += 1;
                (self.n_rows_32, Register::W32(bits, R32(self.n_rows_32 - 1)))
            }
        };
        if count > MAX_ROWS {
            return Err(LoadError::TooLarge {
                line: self.line,
                what: "a number of registers",
                got: count.into(),
                limit: MAX_ROWS.into(),
            });
        }
        Ok(register)
    }

    // Constants and lists --------------------------------------------------------------------

    pub(crate) fn constant_32(&mut self, value: u32) -> R32 {
        let rows = &mut self.program.constants_32;
        let idx = *self.constants_32.entry(value).or_insert_with(|| {
            rows.push(value);
            rows.len() as u32 - 1
        });
        R32(ROW_OF_CONSTANTS << ROW_KIND_SHIFT | idx)
    }

    pub(crate) fn constant_64(&mut self, value: Constant) -> R64 {
        let rows = &mut self.program.constants_64;
        let idx = *self.constants_64.entry(value).or_insert_with(|| {
            rows.push(value);
            rows.len() as u32 - 1
        });
        R64(ROW_OF_CONSTANTS << ROW_KIND_SHIFT | idx)
    }

    pub(crate) fn list(&mut self, slots: &[Slot]) -> Result<List, LoadError> {
        let Ok(len) = u8::try_from(slots.len()) else {
            return self.refuse("has too many operands");
        };
        let at = self.program.lists.len() as u32;
        self.program.lists.extend_from_slice(slots);
        Ok(List { at, len })
    }

    // Operands that are read -----------------------------------------------------------------

    /// A literal as the bits of a type of this width.
    pub(crate) fn literal_bits(number: Number, negative: bool, bits: u32, is_float: bool) -> u64 {
        let value = match number {
            Number::Integer(value) if negative => value.wrapping_neg(),
            Number::Integer(value) => value,
            Number::Single(single) => {
                let value = f32::from_bits(single);
                let value = if negative { -value } else { value };
                if bits == 64 && is_float {
                    f64::from(value).to_bits()
                } else {
                    u64::from(value.to_bits())
                }
            }
            Number::Double(double) => {
                let value = f64::from_bits(double);
                let value = if negative { -value } else { value };
                if bits == 32 {
                    u64::from((value as f32).to_bits())
                } else {
                    value.to_bits()
                }
            }
        };
        match bits {
            64 => value,
            _ => value & ((1 << bits) - 1),
        }
    }

    /// Reads an operand whose register may be wider or narrower than its type.
    pub(crate) fn read_any(
        &mut self,
        operand: &Operand<'a>,
        bits: u32,
        is_float: bool,
    ) -> Result<Slot, LoadError> {
        match *operand {
            Operand::Literal(number, negative) => {
                let value = Self::literal_bits(number, negative, bits, is_float);
                Ok(match bits {
                    64 => Slot::W64(self.constant_64(Constant::Literal(value))),
                    _ => Slot::W32(self.constant_32(value as u32)),
                })
            }
            Operand::Name(name) => {
                match self.register(name)? {
                    Some(Register::W32(_, row)) => {
                        self.reads.push(RegisterId::W32(row.0));
                        return Ok(Slot::W32(row));
                    }
                    Some(Register::W64(row)) => {
                        self.reads.push(RegisterId::W64(row.0));
                        return Ok(Slot::W64(row));
                    }
                    Some(Register::Predicate(_)) => {
                        return self.refuse(format!("`{name}` is a predicate"));
                    }
                    None => {}
                }
                if let Some(slot) = special::row(name, bits) {
                    if special::is_of_clusters(name) && self.program.target.capability() < 90 {
                        return self.not_on_target("sm_90");
                    }
                    return Ok(slot);
                }
                self.symbol_value(name, 0, bits)
            }
            Operand::NamePlus(name, offset) => self.symbol_value(name, offset, bits),
            _ => self.refuse("a register or a literal is wanted"),
        }
    }

    /// The address of a variable, as `mov` gives it.
    fn symbol_value(&mut self, name: &str, offset: i64, bits: u32) -> Result<Slot, LoadError> {
        let Some(symbol) = self.symbol(name) else {
            return self.not_declared(name);
        };
        let literal = |value: u32| u64::from(value).wrapping_add_signed(offset);
        let constant = match symbol {
            Symbol::Shared(at) | Symbol::KernelParam(at) => Constant::Literal(literal(at)),
            Symbol::Global(idx) | Symbol::Const(idx) => Constant::Global(idx, offset),
            Symbol::Function(idx) => Constant::Function(idx),
            Symbol::DynamicShared if offset == 0 => {
                return Ok(match bits {
                    64 => Slot::W64(R64(
                        ROW_OF_WARP << ROW_KIND_SHIFT | special::DYNAMIC_SHARED_64
                    )),
                    _ => Slot::W32(R32(ROW_OF_WARP << ROW_KIND_SHIFT | special::DYNAMIC_SHARED)),
                });
            }
            Symbol::DynamicShared | Symbol::Local(_) | Symbol::FrameParam(..) => {
                return self.refuse(format!("the address of `{name}` cannot stand here"));
            }
        };
        match (bits, constant) {
            (64, _) => Ok(Slot::W64(self.constant_64(constant))),
            (_, Constant::Literal(value)) => Ok(Slot::W32(self.constant_32(value as u32))),
            _ => self.refuse(format!("the address of `{name}` has 64 bits")),
        }
    }

    pub(crate) fn read_32(&mut self, operand: &Operand<'a>) -> Result<R32, LoadError> {
        self.read_narrow(operand, 32, false)
    }

    pub(crate) fn read_f32(&mut self, operand: &Operand<'a>) -> Result<R32, LoadError> {
        self.read_narrow(operand, 32, true)
    }

    /// A source of at most 32 bits.
    pub(crate) fn read_narrow(
        &mut self,
        operand: &Operand<'a>,
        bits: u32,
        is_float: bool,
    ) -> Result<R32, LoadError> {
        match self.read_any(operand, bits, is_float)? {
            Slot::W32(row) => Ok(row),
            _ => self.refuse(format!("{bits} bits are wanted, a register has 64")),
        }
    }

    pub(crate) fn read_64(&mut self, operand: &Operand<'a>) -> Result<R64, LoadError> {
        match self.read_any(operand, 64, true)? {
            Slot::W64(row) => Ok(row),
            _ => self.refuse("64 bits are wanted, a register has fewer"),
        }
    }

    /// A source of the width of a type.
    pub(crate) fn read(
        &mut self,
        operand: &Operand<'a>,
        bits: u32,
        is_float: bool,
    ) -> Result<Slot, LoadError> {
        Ok(match bits {
            64 => Slot::W64(self.read_64(operand)?),
            _ => Slot::W32(self.read_narrow(operand, bits, is_float)?),
        })
    }

    /// A predicate that is read.
    pub(crate) fn condition(&mut self, operand: &Operand<'a>) -> Result<Condition, LoadError> {
        let (name, negated) = match *operand {
            Operand::Name(name) => (name, false),
            Operand::Not(name) => (name, true),
            Operand::Literal(Number::Integer(value), _) => {
                return Ok(Condition {
                    register: P::NONE,
                    negated: value == 0,
                });
            }
            _ => return self.refuse("a predicate is wanted"),
        };
        self.condition_of(name, negated)
    }

    pub(crate) fn condition_of(
        &mut self,
        name: &'a str,
        negated: bool,
    ) -> Result<Condition, LoadError> {
        match self.register(name)? {
            Some(Register::Predicate(register)) => {
                self.reads.push(RegisterId::Predicate(register.0));
                Ok(Condition { register, negated })
            }
            Some(_) => self.refuse(format!("`{name}` is no predicate")),
            None => self.not_declared(name),
        }
    }

    // Operands that are written --------------------------------------------------------------

    /// A destination of any width; `_` is a sink.
    pub(crate) fn write_any(&mut self, operand: &Operand<'a>) -> Result<Slot, LoadError> {
        let Operand::Name(name) = *operand else {
            return self.refuse("a register is wanted to write to");
        };
        self.write_name(name)
    }

    pub(crate) fn write_name(&mut self, name: &'a str) -> Result<Slot, LoadError> {
        if name == "_" {
            return Ok(Slot::Sink);
        }
        match self.register(name)? {
            Some(Register::W32(_, row)) => {
                self.writes.push(RegisterId::W32(row.0));
                Ok(Slot::W32(row))
            }
            Some(Register::W64(row)) => {
                self.writes.push(RegisterId::W64(row.0));
                Ok(Slot::W64(row))
            }
            Some(Register::Predicate(_)) => self.refuse(format!("`{name}` is a predicate")),
            None => self.not_declared(name),
        }
    }

    /// Bits of a destination as declared.
    pub(crate) fn declared_width(&mut self, operand: &Operand<'a>) -> Result<u32, LoadError> {
        let Operand::Name(name) = *operand else {
            return self.refuse("a register is wanted");
        };
        Ok(match self.register(name)? {
            Some(Register::W32(bits, _)) => bits,
            Some(Register::W64(_)) => 64,
            Some(Register::Predicate(_)) => 1,
            None => return self.not_declared(name),
        })
    }

    pub(crate) fn write_32(&mut self, operand: &Operand<'a>) -> Result<R32, LoadError> {
        match self.write_any(operand)? {
            Slot::W32(row) => Ok(row),
            _ => self.refuse("a register of at most 32 bits is wanted to write to"),
        }
    }

    pub(crate) fn write_64(&mut self, operand: &Operand<'a>) -> Result<R64, LoadError> {
        match self.write_any(operand)? {
            Slot::W64(row) => Ok(row),
            _ => self.refuse("a register of 64 bits is wanted to write to"),
        }
    }

    pub(crate) fn write(&mut self, operand: &Operand<'a>, bits: u32) -> Result<Slot, LoadError> {
        Ok(match bits {
            64 => Slot::W64(self.write_64(operand)?),
            _ => Slot::W32(self.write_32(operand)?),
        })
    }

    pub(crate) fn write_predicate(&mut self, name: &'a str) -> Result<P, LoadError> {
        if name == "_" {
            return Ok(P::NONE);
        }
        match self.register(name)? {
            Some(Register::Predicate(register)) => {
                self.writes.push(RegisterId::Predicate(register.0));
                Ok(register)
            }
            Some(_) => self.refuse(format!("`{name}` is no predicate")),
            None => self.not_declared(name),
        }
    }

    /// `d|p`, or `d` alone.
    pub(crate) fn with_predicate(&mut self, operand: &Operand<'a>) -> Result<(R32, P), LoadError> {
        match *operand {
            Operand::Pair(value, predicate) => {
                let d = match self.write_name(value)? {
                    Slot::W32(row) => row,
                    _ => return self.refuse("a register of 32 bits is wanted before `|`"),
                };
                Ok((d, self.write_predicate(predicate)?))
            }
            _ => Ok((self.write_32(operand)?, P::NONE)),
        }
    }
}
