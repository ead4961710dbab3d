//! Vectors of f32 lanes, whatever the processor calls them.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
mod sealed;
mod simd;

pub use scalar::Scalar;
pub use simd::Simd;

#[cfg(test)]
mod tests;
