//! The vectors that kernels are written over: `spark-simd`'s, and what a product makes of their number.

#[cfg(target_arch = "x86_64")]
pub(crate) use spark_simd::Avx512;
pub use spark_simd::Isa;
#[cfg(target_arch = "aarch64")]
pub(crate) use spark_simd::Neon;
pub(crate) use spark_simd::{Simd, dispatch};

/// Most vectors a tile of products is wide; more rows would not fit the registers.
pub(crate) const fn max_panel(isa: Isa) -> usize {
    isa.registers() / 8
}

/// The same of a kernel's own instruction set.
pub(crate) const fn max_panel_of<S: Simd>() -> usize {
    S::REGISTERS / 8
}
