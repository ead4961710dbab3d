//! Control flow, of which the interpreter of networks runs the bodies (`bodies.rs`): alone, a node of it has
//! none.

use super::operator::{Evaluate, Evaluated, Inputs, Working};
use crate::graph::infer::op_error;
use crate::graph::{If, Loop, Scan, TensorType};

macro_rules! control_flow {
    ($($name:ident)*) => {$(
        impl Evaluate for $name {
            fn evaluate(&self, _: Inputs<'_>, _: &[TensorType]) -> Evaluated {
                Err(op_error!("its bodies are in a graph, which is run as a whole"))
            }

            fn working_bytes(&self, working: &Working<'_>) -> usize {
                working.moved()
            }
        }
    )*};
}
control_flow!(If Loop Scan);
