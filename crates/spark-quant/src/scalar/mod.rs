//! Scalar number formats of eight bits and fewer, and the 16-bit ones.
//!
//! ```text
//! f32 --encode--> code (u8) --decode--> f32      decode is exact, encode rounds
//! ```
//!
//! [`MiniFormat`] covers E4M3, E5M2, E2M3, E3M2 and E2M1, [`e8m0`] the scales of the MX formats,
//! [`half`](mod@half) f16 and bf16. One value at a time lives here, whole slices in [`slice`](mod@slice).
//!
//! Sources: OCP 8-bit Floating Point Specification 1.0, OCP Microscaling Formats 1.0. Where those
//! leave a choice (NaN and overflow) the default is what NVIDIA's `cvt` instructions give.
//! Deliberately absent: the FNUZ variants (no NVIDIA hardware has them).

pub mod e8m0;
pub mod half;
pub(crate) mod lanes;
pub(crate) mod minifloat;
pub mod slice;

pub(crate) use minifloat::{E2m1, E2m3, E3m2, E4m3, E5m2, MiniFloat};
pub use minifloat::{MiniFormat, MiniSpec, NanCode, Overflow, Specials};

#[cfg(test)]
mod tests;
