//! What kernels compute on: an instruction set and a pool of threads.

use spark_parallel::Pool;

use super::simd::Isa;

/// An instruction set that this processor has, and the threads that tasks of a kernel run on.
#[derive(Clone, Copy)]
pub(crate) struct Cpu<'a> {
    /// Chooses among vectors and panels; only detection makes one.
    pub(crate) isa: Isa,
    /// Bounds how many tasks run at once.
    pub(crate) pool: &'a Pool,
}
