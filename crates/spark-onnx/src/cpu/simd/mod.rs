//! One vector of f32 lanes, whatever the processor calls it.
//!
//! ```text
//! kernel<S: Simd>(..)        written once, #[inline(always)]
//!   Avx512  16 lanes, 32 registers      tile 8 x 3 or 6 x 4 vectors
//!   Avx2     8 lanes, 16 registers      tile 6 x 2
//!   Neon     4 lanes, 32 registers      tile 8 x 3 or 6 x 4
//!   Scalar   4 lanes in an array        every other machine, and the tests
//! ```
//!
//! A kernel is instantiated inside a `#[target_feature]` function per instruction set
//! (the [`dispatch!`] macro), which is what lets the methods here become single
//! instructions. Which set is used is decided once, at load, by [`Isa::detect`].
//!
//! Sixteen-bit values are widened while they are loaded. Deliberately absent: integer and
//! half-precision lanes.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;
pub(crate) use scalar::Scalar;

use std::str::FromStr;

use crate::ModelError;

/// An instruction set this build has kernels for, whether or not the processor has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum InstructionSet {
    /// AVX-512 F, BW, DQ and VL with what AVX2 stands for here.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2 with FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Advanced SIMD of 64-bit ARM.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// Whatever the compiler makes of plain code.
    Scalar,
}

impl InstructionSet {
    /// All of this build, best first.
    const ALL: &'static [Self] = &[
        #[cfg(target_arch = "x86_64")]
        Self::Avx512,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        #[cfg(target_arch = "aarch64")]
        Self::Neon,
        Self::Scalar,
    ];

    /// Whether this processor runs every instruction the kernels are compiled with.
    fn is_present(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_present()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Self::Scalar => true,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "aarch64")]
            Self::Neon => "neon",
            Self::Scalar => "scalar",
        }
    }
}

/// An instruction set that this processor has: kernels run on nothing else.
///
/// Only detection makes one, so that holding it proves that the instructions exist.
///
/// ```
/// use spark_onnx::cpu::Isa;
///
/// let best = Isa::detect();
/// assert_eq!(Isa::named(best.name())?, best);
/// assert!(Isa::available().contains(&Isa::portable()));
/// # Ok::<(), spark_onnx::ModelError>(())
/// ```
///
/// None can be named without asking the processor:
///
/// ```compile_fail,E0599
/// let isa = spark_onnx::cpu::Isa::Avx512;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Isa {
    set: InstructionSet,
}

impl std::fmt::Debug for Isa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.set.fmt(f)
    }
}

impl std::fmt::Display for Isa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Isa {
    type Err = ModelError;

    fn from_str(name: &str) -> Result<Self, ModelError> {
        Self::named(name)
    }
}

impl Isa {
    /// The set, if the processor has it.
    fn of(set: InstructionSet) -> Option<Self> {
        set.is_present().then_some(Self { set })
    }

    /// The best set this processor has.
    pub fn detect() -> Self {
        let mut sets = InstructionSet::ALL.iter();
        sets.find_map(|&set| Self::of(set))
            .unwrap_or_else(Self::portable)
    }

    /// Every set this processor has, best first; the last is always [`Isa::portable`].
    pub fn available() -> Vec<Self> {
        let sets = InstructionSet::ALL.iter();
        sets.filter_map(|&set| Self::of(set)).collect()
    }

    /// What every processor has: plain code, without instructions chosen at run time.
    pub const fn portable() -> Self {
        Self {
            set: InstructionSet::Scalar,
        }
    }

    /// The set of this name: `avx512` or `avx2` on x86-64, `neon` on AArch64, `scalar` everywhere.
    ///
    /// # Errors
    ///
    /// [`ModelError::IsaUnavailable`] for a set that this build has no kernels for or that this
    /// processor lacks; it lists those there are.
    pub fn named(name: &str) -> Result<Self, ModelError> {
        let found = InstructionSet::ALL.iter().find(|set| set.name() == name);
        let available = || {
            let names: Vec<&str> = Self::available().into_iter().map(Self::name).collect();
            names.join(", ")
        };
        let refused = |reason| ModelError::IsaUnavailable {
            name: name.to_owned(),
            reason,
            available: available(),
        };
        let set = found.ok_or_else(|| refused("this build has no kernels of that name"))?;
        Self::of(*set).ok_or_else(|| refused("this processor lacks it"))
    }

    /// Which one it is.
    pub(crate) const fn set(self) -> InstructionSet {
        self.set
    }

    /// f32 lanes of one vector.
    pub const fn lanes(self) -> usize {
        match self.set {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => Avx512::LANES,
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => Avx2::LANES,
            #[cfg(target_arch = "aarch64")]
            InstructionSet::Neon => Neon::LANES,
            InstructionSet::Scalar => Scalar::LANES,
        }
    }

    /// Most vectors a tile of products is wide; more rows would not fit the registers.
    pub(crate) const fn max_panel(self) -> usize {
        match self.set {
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => Avx512::MAX_PANEL,
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => Avx2::MAX_PANEL,
            #[cfg(target_arch = "aarch64")]
            InstructionSet::Neon => Neon::MAX_PANEL,
            InstructionSet::Scalar => Scalar::MAX_PANEL,
        }
    }

    /// Name for reports, as [`Isa::named`] takes it.
    pub const fn name(self) -> &'static str {
        self.set.name()
    }
}

/// One vector of f32 lanes.
///
/// # Safety
///
/// Methods may only run on a processor that has the instruction set; callers hold an
/// [`Isa`] as proof and reach them through [`dispatch!`]. Pointers must be valid for
/// the lanes read or written; no alignment is needed.
pub(crate) unsafe trait Simd: Copy {
    /// The register.
    type V: Copy;
    /// Its lanes.
    const LANES: usize;
    /// Most vectors a tile of products is wide.
    const MAX_PANEL: usize;

    /// All lanes `x`.
    unsafe fn splat(x: f32) -> Self::V;
    /// `LANES` elements.
    unsafe fn load(p: *const f32) -> Self::V;
    /// Four columns of `LANES` rows of four elements, `stride` apart: lane `i` of column `j` is
    /// `p[i * stride + j]`.
    unsafe fn load_columns(p: *const f32, stride: isize) -> [Self::V; 4];
    /// The first `n < LANES` elements, zero in the other lanes, whose memory is not touched.
    unsafe fn load_first(p: *const f32, n: usize) -> Self::V;
    /// `LANES` elements.
    unsafe fn store(p: *mut f32, v: Self::V);
    /// The first `n < LANES` elements; the memory of the others is not touched.
    unsafe fn store_first(p: *mut f32, v: Self::V, n: usize);
    /// `a * b + c`, rounded once where the processor can.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a + b`.
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`.
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// The greater; `b` where either is NaN.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// The smaller; `b` where either is NaN.
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    /// `1 / v`, within 1 ulp, for `v` whose reciprocal is a normal number.
    unsafe fn reciprocal(v: Self::V) -> Self::V;
    /// `v * 2^n` for whole `n` in -253..=254; NaN where `n` is.
    unsafe fn scale(v: Self::V, n: Self::V) -> Self::V;
    /// `a < b ? x : y`, lane by lane; `y` where either is NaN.
    unsafe fn select_less(a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V;
    /// `v < bound ? 0 : x`, lane by lane; `x` where either is NaN.
    unsafe fn zero_below(v: Self::V, bound: Self::V, x: Self::V) -> Self::V;
    /// Asks for the cache line at `p`, which need not be readable, to come as near as the second
    /// cache; does nothing where there is no such instruction.
    fn prefetch(p: *const f32);
    /// `LANES` halves of IEEE 754 binary16, widened exactly.
    unsafe fn load_f16(p: *const u16) -> Self::V;
    /// The low halves of `LANES` words, which are bf16, as f32.
    unsafe fn load_low_bf16(p: *const f32) -> Self::V;
    /// The high halves of `LANES` words, which are bf16, as f32.
    unsafe fn load_high_bf16(p: *const f32) -> Self::V;
    /// The nearest bf16, ties to even, as f32; NaN stays NaN.
    unsafe fn round_bf16(v: Self::V) -> Self::V;
    /// [`Simd::fma`] of one lane, for loops the compiler vectorises.
    fn fma_one(a: f32, b: f32, c: f32) -> f32;
}

/// `dispatch!(isa, kernel::<EXTRA>(arg: Type, ..) => (value, ..))` calls `kernel::<S, EXTRA>(value, ..)` for the instruction set `isa`, compiled with its features.
///
/// `kernel` must be an `#[inline(always)] unsafe fn` generic over `S: Simd`. The caller
/// shows by holding `isa` that the processor has it.
macro_rules! dispatch {
    ($isa:expr, $kernel:ident $(::<$($extra:tt),*>)? ($($arg:ident : $ty:ty),* $(,)?) => ($($value:expr),* $(,)?)) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        #[allow(clippy::too_many_arguments, reason = "mirrors the kernel")]
        unsafe fn avx512($($arg: $ty),*) {
            // SAFETY: same contract as the kernel; this function has the features.
            unsafe { $kernel::<$crate::cpu::simd::Avx512 $($(, $extra)*)?>($($arg),*) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c")]
        #[allow(clippy::too_many_arguments, reason = "mirrors the kernel")]
        unsafe fn avx2($($arg: $ty),*) {
            // SAFETY: same contract as the kernel; this function has the features.
            unsafe { $kernel::<$crate::cpu::simd::Avx2 $($(, $extra)*)?>($($arg),*) }
        }
        #[cfg(target_arch = "aarch64")]
        #[target_feature(enable = "neon")]
        #[allow(clippy::too_many_arguments, reason = "mirrors the kernel")]
        unsafe fn neon($($arg: $ty),*) {
            // SAFETY: same contract as the kernel; this function has the features.
            unsafe { $kernel::<$crate::cpu::simd::Neon $($(, $extra)*)?>($($arg),*) }
        }
        match $isa.set() {
            #[cfg(target_arch = "x86_64")]
            $crate::cpu::simd::InstructionSet::Avx512 => avx512($($value),*),
            #[cfg(target_arch = "x86_64")]
            $crate::cpu::simd::InstructionSet::Avx2 => avx2($($value),*),
            #[cfg(target_arch = "aarch64")]
            $crate::cpu::simd::InstructionSet::Neon => neon($($value),*),
            $crate::cpu::simd::InstructionSet::Scalar => {
                $kernel::<$crate::cpu::simd::Scalar $($(, $extra)*)?>($($value),*)
            }
        }
    }};
}
pub(crate) use dispatch;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_found_by_name_and_the_portable_set_is_last() {
        let available = Isa::available();
        assert_eq!(available.first(), Some(&Isa::detect()));
        assert_eq!(available.last(), Some(&Isa::portable()));
        for isa in available {
            assert_eq!(Isa::named(isa.name()).expect("available"), isa);
        }
    }

    #[test]
    fn a_set_that_is_not_there_is_an_error_that_names_those_that_are() {
        // On any processor one of these is of another architecture.
        let refused = ["avx512", "avx2", "neon", "sse9"].map(Isa::named);
        let refused: Vec<ModelError> = refused.into_iter().filter_map(Result::err).collect();
        assert!(refused.len() >= 2, "{refused:?}");
        for error in refused {
            let text = error.to_string();
            assert!(text.contains(Isa::detect().name()), "{text}");
            assert!(text.contains("scalar"), "{text}");
        }
    }

    #[test]
    fn a_set_that_the_processor_lacks_makes_no_token() {
        for &set in InstructionSet::ALL {
            let token = Isa::of(set);
            assert_eq!(token.is_some(), set.is_present(), "{set:?}");
            assert_eq!(Isa::named(set.name()).is_ok(), set.is_present(), "{set:?}");
        }
    }
}
