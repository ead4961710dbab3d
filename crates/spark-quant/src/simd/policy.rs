//! Which instructions this processor has, and how many threads to use.

use std::num::NonZeroUsize;

use spark_simd::Isa;
#[cfg(target_arch = "aarch64")]
use spark_simd::NeonDot;
#[cfg(target_arch = "x86_64")]
use spark_simd::{Avx2, Avx512Bytes};

use super::lanes::Kernel;
use super::scalar::Scalar;
use crate::error::QuantError;

/// A set of vector instructions. Here AVX-512 needs its instructions on bytes as well, and NEON its dot
/// products: [`ExecutionPolicy::with_level`] says what this processor has.
pub use spark_simd::InstructionSet as Level;

#[derive(Debug, Clone, Copy)]
enum Backend {
    Scalar(Scalar),
    #[cfg(target_arch = "aarch64")]
    Neon(NeonDot),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512Bytes),
}

impl Backend {
    /// That of a level, if this processor has all of it.
    fn of(level: Level) -> Option<Self> {
        let isa = Isa::of(level)?;
        match level {
            Level::Scalar => Some(Self::Scalar(Scalar)),
            #[cfg(target_arch = "aarch64")]
            Level::Neon => NeonDot::of(isa).map(Self::Neon),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Avx2::of(isa).map(Self::Avx2),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => Avx512Bytes::of(isa).map(Self::Avx512),
            #[allow(
                unreachable_patterns,
                reason = "which levels exist depends on the target"
            )]
            _ => None,
        }
    }

    fn level(self) -> Level {
        match self {
            Self::Scalar(_) => Level::Scalar,
            #[cfg(target_arch = "aarch64")]
            Self::Neon(_) => Level::Neon,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => Level::Avx2,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => Level::Avx512,
        }
    }
}

/// Runs a kernel on the lanes of a token, compiled for what the token stands for.
macro_rules! enter {
    ($token:ident, $simd:expr, $kernel:expr) => {{
        spark_simd::features! { compile $token
            fn inner<K: Kernel>(simd: $token, kernel: K) -> K::Output {
                kernel.run(simd)
            }
        }
        // SAFETY: the token proves that this processor has the features `inner` is compiled for.
        unsafe { inner($simd, $kernel) }
    }};
}

/// How conversions and GEMM are executed: with an instruction set that this processor is known to have,
/// on how many threads.
///
/// Results never depend on either.
///
/// # Examples
///
/// ```
/// use spark_quant::{ExecutionPolicy, Level};
///
/// let policy = ExecutionPolicy::detect(); // the best instructions and every thread
/// assert_eq!(ExecutionPolicy::one_thread().threads(), 1);
/// assert!(ExecutionPolicy::every_level().iter().any(|one| one.level() == policy.level()));
/// assert_eq!(policy.with_level(Level::Scalar)?.level(), Level::Scalar);
/// # Ok::<(), spark_quant::QuantError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ExecutionPolicy {
    backend: Backend,
    threads: NonZeroUsize,
}

impl ExecutionPolicy {
    /// The best instructions of this processor, on as many threads as the process may use.
    pub fn detect() -> Self {
        let backend = Level::ALL.into_iter().rev().find_map(Backend::of);
        Self {
            backend: backend.unwrap_or(Backend::Scalar(Scalar)),
            threads: spark_parallel::usable_threads(),
        }
    }

    /// The same on one thread.
    pub fn one_thread() -> Self {
        Self::detect().with_threads(NonZeroUsize::MIN)
    }

    /// The same instructions on `threads` threads, of those that the process shares
    /// ([`spark_parallel::shared`]): work is cut into at most so many parts.
    pub fn with_threads(self, threads: NonZeroUsize) -> Self {
        Self { threads, ..self }
    }

    /// The same threads with another set of instructions.
    ///
    /// # Errors
    ///
    /// [`QuantError::Level`] if this processor does not have them.
    pub fn with_level(self, level: Level) -> Result<Self, QuantError> {
        match Backend::of(level) {
            Some(backend) => Ok(Self { backend, ..self }),
            None => Err(QuantError::Level {
                level: level.name(),
            }),
        }
    }

    /// Every level of this processor on one thread, slowest first.
    pub fn every_level() -> Vec<Self> {
        let one = Self::one_thread();
        Level::ALL
            .into_iter()
            .filter_map(|level| one.with_level(level).ok())
            .collect()
    }

    /// Instruction set that kernels run with.
    pub fn level(self) -> Level {
        self.backend.level()
    }

    /// Most threads that one call may use.
    pub fn threads(self) -> usize {
        self.threads.get()
    }

    /// Runs `kernel` on the calling thread with these instructions.
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.backend {
            Backend::Scalar(simd) => kernel.run(simd),
            #[cfg(target_arch = "aarch64")]
            Backend::Neon(simd) => enter!(NeonDot, simd, kernel),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2(simd) => enter!(Avx2, simd, kernel),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512(simd) => enter!(Avx512Bytes, simd, kernel),
        }
    }
}

impl Default for ExecutionPolicy {
    fn default() -> Self {
        Self::detect()
    }
}
