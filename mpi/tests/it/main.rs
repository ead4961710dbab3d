//! Real ranks, started by this machine's mpirun: the same bits for every number of them, and one end for all.

mod agreement;
mod bits;
mod endings;
mod measure;
mod namespaces;
mod process;
