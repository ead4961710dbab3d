//! Which instructions compute a row of a depthwise convolution of bytes.
//!
//! ```text
//!              block   a step multiplies                                       weights
//! vnni512      64      4 taps: bytes interleaved in fours, VPDPBUSD            i8
//! vnni256      32      the same on 256 bits (AVX-VNNI)                         i8
//! words256     16      2 taps: bytes widened, words interleaved, VPMADDWD      i16
//! neon         16      1 tap: bytes widened, SMLAL                             i16
//! portable     16      1 tap, plain code                                       i16
//! ```
//!
//! All give the same sums. Weights without their zero points may have nine bits; then those of 16 are taken.

use crate::cpu::simd::Isa;

/// Instructions for one row of results, which the processor has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DepthwiseKernel(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    #[cfg(target_arch = "x86_64")]
    Vnni512,
    #[cfg(target_arch = "x86_64")]
    Vnni256,
    #[cfg(target_arch = "x86_64")]
    Words256,
    #[cfg(target_arch = "aarch64")]
    Neon,
    Portable,
}

impl DepthwiseKernel {
    /// The best for code of `isa`, for weights that all fit eight bits or not.
    pub(super) fn best(isa: Isa, has_byte_weights: bool) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use spark_simd::{Avx2, Avx512, Avx512Vnni, AvxVnni};
            if has_byte_weights && Avx512Vnni::of(isa).is_some() {
                return Self(Kind::Vnni512);
            }
            if has_byte_weights && AvxVnni::of(isa).is_some() {
                return Self(Kind::Vnni256);
            }
            if Avx2::of(isa).is_some() || Avx512::of(isa).is_some() {
                return Self(Kind::Words256);
            }
        }
        #[cfg(target_arch = "aarch64")]
        if spark_simd::Neon::of(isa).is_some() {
            return Self(Kind::Neon);
        }
        let _ = (isa, has_byte_weights);
        Self(Kind::Portable)
    }

    pub(super) const fn kind(self) -> Kind {
        self.0
    }

    /// Bytes of a block.
    pub(super) const fn block(self) -> usize {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni512 => 64,
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni256 => 32,
            _ => 16,
        }
    }

    /// Taps that one step multiplies.
    pub(super) const fn taps_of_step(self) -> usize {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni512 | Kind::Vnni256 => 4,
            #[cfg(target_arch = "x86_64")]
            Kind::Words256 => 2,
            _ => 1,
        }
    }

    pub(super) const fn multiplies_bytes(self) -> bool {
        self.taps_of_step() == 4
    }

    /// Which byte of a block a slot holds.
    pub(super) const fn channel_of(self, slot: usize) -> usize {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni512 | Kind::Vnni256 => {
                let quarter = self.block() / 4;
                let (vector, lane) = (slot / quarter, slot % quarter / 4);
                16 * lane + 4 * vector + slot % 4
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Words256 => {
                let (vector, lane) = (slot / 8, slot % 8 / 4);
                8 * lane + 4 * vector + slot % 4
            }
            _ => slot,
        }
    }

    /// What tells it from the others in a kernel's name.
    pub(super) const fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni512 | Kind::Vnni256 => "vnni",
            _ => "",
        }
    }

    /// All that this processor has for such weights.
    #[cfg(test)]
    pub(super) fn available(has_byte_weights: bool) -> Vec<Self> {
        let mut kernels = vec![Self(Kind::Portable)];
        for isa in Isa::available() {
            for has_byte_weights in [has_byte_weights, false] {
                let kernel = Self::best(isa, has_byte_weights);
                if !kernels.contains(&kernel) {
                    kernels.push(kernel);
                }
            }
        }
        kernels
    }
}
