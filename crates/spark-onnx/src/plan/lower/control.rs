//! Control flow. Binding puts in place what will run for certain; the rest has no steps.

use super::lowering::{Lower, Lowering, fail};
use crate::graph::{If, Loop, Node, OpError, Scan};

macro_rules! control_flow {
    ($($name:ident)*) => {$(
        impl Lower for $name {
            fn lower(&self, _: &mut Lowering<'_>, _: &Node) -> Result<(), OpError> {
                fail("control flow that is not known before it runs is not supported")
            }
        }
    )*};
}
control_flow!(If Loop Scan);
