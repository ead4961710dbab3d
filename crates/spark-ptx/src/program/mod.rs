//! Decoding: from the tree of a file to instructions that run.

mod access;
mod builder;
mod code;
mod decode;
mod flow;
mod instruction;
mod layout;
mod load;
mod opcode;
mod order;
mod rows;
mod special;

pub(crate) use access::*;
pub(crate) use code::{Constant, FUNCTION_WINDOW, Program};
pub(crate) use flow::only_ends;
pub(crate) use instruction::*;
pub(crate) use layout::*;
pub(crate) use load::load;
pub(crate) use rows::*;
pub(crate) use special::{
    DYNAMIC_SHARED, DYNAMIC_SHARED_64, GRID_ID_64, N_ROWS_32, N_ROWS_64, row_number,
};
