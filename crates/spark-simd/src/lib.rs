//! Instruction sets as values, who holds one has asked the processor, and vectors of f32 over them.
//!
//! ```text
//! Isa            one of the sets below that this processor has   detect, available, named, portable
//!  └─ proof()    the same as a token of its own type, to match on
//!
//! token          stands for (features!)                     beyond a set: asked with `of(isa)`
//! Avx2           AVX2 FMA F16C
//! AvxVnni        Avx2 + dot products of bytes               Alder Lake, Zen 5
//! Avx512         Avx2 + F BW DQ VL                          Skylake-X, Zen 4
//! Avx512Vnni     Avx512 + dot products of bytes             Cascade Lake, Zen 4
//! Avx512Bytes    Avx512 + VBMI VBMI2 VNNI                   Ice Lake, Zen 4
//! Avx512Bf16     Avx512 + BF16                              Cooper Lake, Zen 4
//! Neon           NEON, part of every 64-bit Arm
//! NeonDot        NEON + dot products of bytes               some from Armv8.2 on
//! NeonI8mm       NEON + matrix products of bytes            the same
//! NeonBf16       NEON + BF16                                the same
//! NeonFhm        NEON + FP16 FHM                            the same
//! ```
//!
//! `Avx512`, `Avx2`, `Neon` and [`Scalar`] have vectors of f32 ([`Simd`]): a kernel is written once over the trait,
//! and [`dispatch!`] compiles and calls it for the set of a token. [`math`] has `exp`, `tanh` and their like of
//! whole vectors.
//!
//! [`features!`] holds each list of features once: detection asks for it, and code is compiled for it.
//! Only detection makes a token and its fields are private, so that holding one proves that the
//! instructions exist; `docs/safety.md` lists what stands on that.
//!
//! Deliberately absent: lanes of integers and of 16 bits (each user has those that it needs), serialisation
//! (a token read from a file would prove nothing), and a function that runs any work compiled for a token:
//! the step between crates cost two short kernels 7 and 8 % of their speed when it was measured, where a function beside the
//! kernel, made by [`features!`] or [`dispatch!`], costs nothing.

mod dispatch;
mod features;
mod isa;
pub mod math;
mod token;
mod vector;

pub use isa::{InstructionSet, Isa, IsaUnavailable};
pub use token::{
    Avx2, Avx512, Avx512Bf16, Avx512Bytes, Avx512Vnni, AvxVnni, Neon, NeonBf16, NeonDot, NeonFhm,
    NeonI8mm, Proof,
};
pub use vector::{Scalar, Simd};

/// The README's example, so that it is compiled and run with the others.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
