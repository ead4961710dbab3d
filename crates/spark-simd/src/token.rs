//! Tokens of their own types: what code that is compiled for a set asks for.

use crate::isa::{InstructionSet, Isa};

/// An [`Isa`] as the token of its set, to match on.
#[derive(Debug, Clone, Copy)]
pub enum Proof {
    /// Plain code, which needs no proof.
    Scalar,
    /// NEON of 64-bit Arm.
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
    /// AVX2 with FMA and F16C of x86-64: eight f32 lanes.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512 of x86-64: sixteen f32 lanes.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Isa {
    /// The same as a token of its own type.
    #[inline]
    pub const fn proof(self) -> Proof {
        match self.set() {
            #[cfg(target_arch = "aarch64")]
            InstructionSet::Neon => Proof::Neon(Neon(())),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => Proof::Avx2(Avx2(())),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => Proof::Avx512(Avx512(())),
            // No `Isa` is made of a set of another architecture.
            _ => Proof::Scalar,
        }
    }
}

/// A token: `of` makes one, of an [`Isa`] of the set and, beyond the set, by asking the processor. On
/// another architecture there is none.
macro_rules! token {
    ($(#[$doc:meta])* $name:ident: $set:ident, $architecture:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name(());

        impl $name {
            /// The features it stands for, by the names that the compiler has for them.
            pub const FEATURES: &'static [&'static str] = crate::features!(names $name);

            /// The token, if code may use it with `isa`: code for a lesser set uses no more than that,
            /// whatever the processor has.
            pub fn of(isa: Isa) -> Option<Self> {
                let is_set = matches!(isa.set(), InstructionSet::$set);
                #[cfg(target_arch = $architecture)]
                let is_present = crate::features!(detect $name);
                #[cfg(not(target_arch = $architecture))]
                let is_present = false;
                (is_set && is_present).then_some(Self(()))
            }
        }
    };
}

token! {
    /// Proof of AVX2, FMA and F16C.
    Avx2: Avx2, "x86_64"
}
token! {
    /// Proof of [`Avx2`] and its dot products of bytes.
    AvxVnni: Avx2, "x86_64"
}
token! {
    /// Proof of AVX-512 F, BW, DQ and VL, and of what [`Avx2`] stands for.
    Avx512: Avx512, "x86_64"
}
token! {
    /// Proof of [`Avx512`] and its dot products of bytes, which came before its other instructions on
    /// bytes.
    Avx512Vnni: Avx512, "x86_64"
}
token! {
    /// Proof of [`Avx512`] and its instructions on bytes: VBMI, VBMI2 and VNNI.
    Avx512Bytes: Avx512, "x86_64"
}
token! {
    /// Proof of [`Avx512`] and its dot products of bf16.
    Avx512Bf16: Avx512, "x86_64"
}
token! {
    /// Proof of NEON, which every 64-bit Arm processor has.
    Neon: Neon, "aarch64"
}
token! {
    /// Proof of NEON and its dot products of bytes.
    NeonDot: Neon, "aarch64"
}
token! {
    /// Proof of NEON and its matrix products of bytes.
    NeonI8mm: Neon, "aarch64"
}
token! {
    /// Proof of NEON and its products of bf16.
    NeonBf16: Neon, "aarch64"
}
token! {
    /// Proof of NEON, its arithmetic on f16, and products of f16 added to f32.
    NeonFhm: Neon, "aarch64"
}

#[cfg(test)]
mod tests;
