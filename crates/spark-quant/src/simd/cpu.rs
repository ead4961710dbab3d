//! Which instructions this processor has, and how many threads to use.

use std::num::NonZeroUsize;

use super::Kernel;
use super::scalar::Scalar;
use crate::error::QuantError;

/// A set of vector instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// No vector instructions beyond what the compiler uses on its own.
    Scalar,
    /// ARMv8 NEON with the dot product extension.
    Neon,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ, VL, VBMI, VBMI2 and VNNI.
    Avx512,
}

impl Level {
    /// All levels, slowest first.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Neon, Self::Avx2, Self::Avx512];

    /// Name in errors and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Backend {
    Scalar(Scalar),
    #[cfg(target_arch = "aarch64")]
    Neon(super::neon::Neon),
    #[cfg(target_arch = "x86_64")]
    Avx2(super::avx2::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(super::avx512::Avx512),
}

impl Backend {
    fn detect(level: Level) -> Option<Self> {
        match level {
            Level::Scalar => Some(Self::Scalar(Scalar)),
            #[cfg(target_arch = "aarch64")]
            Level::Neon => super::neon::Neon::detect().map(Self::Neon),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => super::avx2::Avx2::detect().map(Self::Avx2),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => super::avx512::Avx512::detect().map(Self::Avx512),
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

/// Where conversions run: an instruction set this processor is known to have, and a thread count.
///
/// Results never depend on either.
#[derive(Debug, Clone, Copy)]
pub struct Cpu {
    backend: Backend,
    threads: NonZeroUsize,
}

impl Cpu {
    /// The best instructions of this processor, on as many threads as the process may use.
    pub fn detect() -> Self {
        let backend = Level::ALL.into_iter().rev().find_map(Backend::detect);
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
        match Backend::detect(level) {
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

    /// Instructions in use.
    pub fn level(self) -> Level {
        self.backend.level()
    }

    /// Threads in use.
    pub fn threads(self) -> usize {
        self.threads.get()
    }

    /// Runs `kernel` on the calling thread with these instructions.
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.backend {
            Backend::Scalar(simd) => kernel.run(simd),
            #[cfg(target_arch = "aarch64")]
            Backend::Neon(simd) => simd.enter(kernel),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2(simd) => simd.enter(kernel),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512(simd) => simd.enter(kernel),
        }
    }
}

impl Default for Cpu {
    fn default() -> Self {
        Self::detect()
    }
}
