//! One numeric type for the oracle and for the fast path.
//!
//! ```text
//! model code, written once over `R: Real`
//!    f64      the oracle: elementary functions of the standard library (`double` has this crate's own)
//!    f32      one lane, this module's polynomials
//!    Vector   the lanes of one register: AVX-512, AVX2, NEON  } same operations in the same order,
//!    Pair     two registers of AVX-512                       } so the same bits as one f32 lane
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
    reason = "vector instructions behind run-time detection, and columns as slices"
)]

mod column;
mod dispatch;
pub(crate) mod double;
mod number;
#[cfg(target_arch = "x86_64")]
mod pair;
mod polynomial;
mod scalar;
#[cfg(test)]
mod tests;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector;

pub use column::{Column, Tile};
pub use dispatch::{Element, Kernel};
pub use number::{LANE_PADDING, Lanes, Real, padded_len};
pub use spark_simd::Isa;
