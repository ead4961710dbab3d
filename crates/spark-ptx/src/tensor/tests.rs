//! Tests of the tensor instructions, from the manual's figures and tables.

mod forms;
mod layout;
mod matrices;
mod numerics;
mod scales;
mod tile;
