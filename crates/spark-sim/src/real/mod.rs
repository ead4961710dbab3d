//! One numeric type for the oracle and for the fast path.
//!
//! ```text
//! model code, written once over `R: Real`
//!    f64      the oracle: elementary functions of the standard library
//!    f32      one lane, this module's polynomials
//!    Pair     two registers of sixteen  }
//!    F32x16   sixteen lanes (AVX-512)   } same operations in the same order,
//!    F32x8    eight lanes (AVX2)        } so the same bits as one f32 lane
//!    F32x4    four lanes (NEON)         }
//! ```
//!
//! Only additions, multiplications, divisions, square roots, comparisons and
//! selections are used, each correctly rounded by IEEE 754, and no fused
//! multiply-add. An f32 result is therefore bit-identical on every CPU and for
//! every vector width. The token that chooses one is `spark-simd`'s [`Isa`].
//!
//! Deliberately absent: fused multiply-add, approximate reciprocals, and any
//! operation across lanes besides "does any lane satisfy this?".

#![allow(
    unsafe_code,
    reason = "vector registers are reached through CPU intrinsics behind run-time detection"
)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod column;
mod dispatch;
#[cfg(target_arch = "aarch64")]
mod neon;
mod number;
#[cfg(target_arch = "x86_64")]
mod pair;
mod polynomial;
mod scalar;
#[cfg(test)]
mod tests;

pub use column::{Column, Tile};
pub use dispatch::{Element, Kernel};
pub use number::{LANE_PADDING, Lanes, Real, padded_len};
pub use spark_simd::Isa;
