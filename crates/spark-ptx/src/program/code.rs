//! A module as decoding leaves it: code, constants, functions, entries, variables.

use std::collections::HashMap;

use crate::convert::Conversion;
use crate::float::FloatForm;
use crate::target::Target;
use crate::tensor::{MatrixForm, MmaForm};

use super::instruction::Instruction;
use super::layout::{CallSite, CodeOf, EntryOf, GlobalOf, Named, Origin, Watch};
use super::rows::Slot;

/// A constant row of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Constant {
    Literal(u64),
    /// The address of a global variable, which the launch says, and an offset.
    Global(u32, i64),
    /// The address of a function.
    Function(u32),
}

/// The entries of an instruction set that keep a form of their own.
#[derive(Debug, Default)]
pub(crate) struct Forms {
    pub(crate) float: Vec<FloatForm>,
    pub(crate) convert: Vec<ConvertForm>,
    pub(crate) matrix: Vec<MatrixForm>,
    pub(crate) mma: Vec<MmaForm>,
}

/// A conversion and what becomes of its result in a wider register.
#[derive(Debug)]
pub(crate) struct ConvertForm {
    pub(crate) conversion: Conversion,
    /// Bits of the destination's type.
    pub(crate) bits: u32,
    /// Whether a wider register is filled with the sign.
    pub(crate) signed: bool,
    /// Bits of the destination's register.
    pub(crate) width: u32,
}

/// A whole module.
#[derive(Debug)]
pub(crate) struct Program {
    /// The GPU that it is written for, whose tensor core's arithmetic is followed.
    pub(crate) target: Target,
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) origins: Vec<Origin>,
    pub(crate) functions: Vec<CodeOf>,
    pub(crate) entries: HashMap<String, EntryOf>,
    pub(crate) globals: Vec<GlobalOf>,
    pub(crate) constants_32: Vec<u32>,
    pub(crate) constants_64: Vec<Constant>,
    pub(crate) lists: Vec<Slot>,
    pub(crate) calls: Vec<CallSite>,
    pub(crate) branch_tables: Vec<Vec<u32>>,
    pub(crate) n_branch_targets: usize,
    pub(crate) forms: Forms,
    /// Registers that are read where they may not be written, by instruction.
    pub(crate) watches: HashMap<u32, Watch>,
    /// Names of source files by their number.
    pub(crate) files: HashMap<u32, String>,
}

impl Program {
    /// A program without anything in it.
    pub(crate) fn new(target: Target) -> Self {
        Self {
            target,
            instructions: Vec::new(),
            origins: Vec::new(),
            functions: Vec::new(),
            entries: HashMap::new(),
            globals: Vec::new(),
            constants_32: Vec::new(),
            constants_64: Vec::new(),
            lists: Vec::new(),
            calls: Vec::new(),
            branch_tables: Vec::new(),
            n_branch_targets: 0,
            forms: Forms::default(),
            watches: HashMap::new(),
            files: HashMap::new(),
        }
    }
}

/// Addresses of functions are numbers in a window where no memory is.
pub(crate) const FUNCTION_WINDOW: u64 = 0x7900_0000_0000_0000;

impl Program {
    /// The operands of a list.
    pub(crate) fn list(&self, list: super::rows::List) -> &[Slot] {
        let first = list.at as usize;
        &self.lists[first..first + usize::from(list.len)]
    }

    /// The first bytes of a variable, where the variables lie at these addresses.
    pub(crate) fn initial_bytes(&self, global: usize, addresses: &[u64]) -> Vec<u8> {
        let global = &self.globals[global];
        let mut bytes = global.initial.clone();
        for &(at, named, offset) in &global.addresses {
            let base = match named {
                Named::Global(idx) => addresses.get(idx as usize).copied().unwrap_or(0),
                Named::Function(idx) => FUNCTION_WINDOW | u64::from(idx),
            };
            let value = base.wrapping_add_signed(offset);
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }
}
