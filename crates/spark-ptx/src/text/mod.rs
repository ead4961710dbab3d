//! PTX text: words with their lines, and the tree of a file.

mod lexer;
mod parser;
mod tree;

pub(crate) use parser::parse;
pub(crate) use tree::{
    Address, Base, Function, FunctionKind, InitialValue, Instruction, Number, Operand,
    ParsedModule, Space, Statement, StatementKind, Variable,
};
