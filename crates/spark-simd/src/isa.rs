//! The instruction sets, and the one that a processor was found to have.

use std::str::FromStr;
use std::sync::OnceLock;

/// The name of an instruction set. It proves nothing: that is what [`Isa`] is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstructionSet {
    /// Whatever the compiler makes of plain code.
    Scalar,
    /// Advanced SIMD of 64-bit Arm.
    Neon,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL with what AVX2 stands for here.
    Avx512,
}

impl InstructionSet {
    /// All of them, narrowest first.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Neon, Self::Avx2, Self::Avx512];

    /// Name in settings, errors and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// Whether processors that this build is for can have it.
    const fn is_built(self) -> bool {
        match self {
            Self::Scalar => true,
            Self::Neon => cfg!(target_arch = "aarch64"),
            Self::Avx2 | Self::Avx512 => cfg!(target_arch = "x86_64"),
        }
    }

    /// Whether this processor runs every instruction that code for it is compiled with.
    fn is_present(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "aarch64")]
            Self::Neon => crate::features!(detect Neon),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => crate::features!(detect Avx2),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => crate::features!(detect Avx512),
            #[allow(
                unreachable_patterns,
                reason = "which sets are left depends on the target"
            )]
            _ => false,
        }
    }
}

/// Why there is no token of a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("instruction set `{name}` is not available: {reason}; available: {available}")]
pub struct IsaUnavailable {
    /// The name that was asked for.
    pub name: String,
    /// Why there is none.
    pub reason: &'static str,
    /// Those of this processor, best first.
    pub available: String,
}

/// An instruction set that this processor has: code for it runs on nothing else.
///
/// Only detection makes one, so that holding it proves that the instructions exist.
///
/// # Examples
///
/// ```
/// use spark_simd::Isa;
///
/// let best = Isa::detect();
/// assert_eq!(Isa::named(best.name())?, best);
/// assert!(Isa::available().contains(&Isa::portable()));
/// # Ok::<(), spark_simd::IsaUnavailable>(())
/// ```
///
/// None can be named without asking the processor:
///
/// ```compile_fail,E0451
/// use spark_simd::{InstructionSet, Isa};
/// let isa = Isa { set: InstructionSet::Avx512 };
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
    type Err = IsaUnavailable;

    fn from_str(name: &str) -> Result<Self, IsaUnavailable> {
        Self::named(name)
    }
}

impl Isa {
    /// The token of this set, if the processor has it.
    pub fn of(set: InstructionSet) -> Option<Self> {
        set.is_present().then_some(Self { set })
    }

    /// The best set this processor has.
    pub fn detect() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            let mut sets = InstructionSet::ALL.into_iter().rev();
            sets.find_map(Self::of).unwrap_or_else(Self::portable)
        })
    }

    /// Every set this processor has, best first; the last is always [`Isa::portable`].
    pub fn available() -> Vec<Self> {
        let sets = InstructionSet::ALL.into_iter().rev();
        sets.filter_map(Self::of).collect()
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
    /// [`IsaUnavailable`] for a set that this build has no code for or that this processor lacks; it
    /// lists those there are.
    pub fn named(name: &str) -> Result<Self, IsaUnavailable> {
        let refused = |reason| {
            let available: Vec<&str> = Self::available().into_iter().map(Self::name).collect();
            IsaUnavailable {
                name: name.to_owned(),
                reason,
                available: available.join(", "),
            }
        };
        let mut built = InstructionSet::ALL.into_iter().filter(|set| set.is_built());
        let found = built.find(|set| set.name() == name);
        let set = found.ok_or_else(|| refused("this build has no kernels of that name"))?;
        Self::of(set).ok_or_else(|| refused("this processor lacks it"))
    }

    /// Which one it is.
    pub const fn set(self) -> InstructionSet {
        self.set
    }

    /// Name for reports, as [`Isa::named`] takes it.
    pub const fn name(self) -> &'static str {
        self.set.name()
    }

    /// f32 lanes of one vector. In plain code four: so many make vectors of any compiler's choice.
    pub const fn lanes(self) -> usize {
        match self.set {
            InstructionSet::Avx512 => 16,
            InstructionSet::Avx2 => 8,
            InstructionSet::Neon | InstructionSet::Scalar => 4,
        }
    }

    /// Vector registers that a kernel may count on. In plain code sixteen: so many has every 64-bit processor.
    pub const fn registers(self) -> usize {
        match self.set {
            InstructionSet::Avx512 | InstructionSet::Neon => 32,
            InstructionSet::Avx2 | InstructionSet::Scalar => 16,
        }
    }
}

#[cfg(test)]
mod tests;
