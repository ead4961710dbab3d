//! What instructions do, family by family, as methods of a warp.

mod access;
mod atomic;
mod checks;
mod compare;
mod copies;
mod float;
mod integer;
mod matrix;
mod moves;
mod together;
mod words;

pub(super) use compare::Test;
pub(super) use copies::CopyOperands;
pub(super) use together::mask_row;
