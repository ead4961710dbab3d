//! The GPU that PTX is written for: a compute capability and a suffix.
//!
//! ```text
//! sm_90   runs on 9.0 and later
//! sm_90a  runs on 9.0 alone, with what only that one has        (architecture-specific)
//! sm_120f runs on 12.x, with what that family has               (family-specific)
//! ```
//!
//! Source: PTX ISA 9.1, `.target`. Deliberately absent: the 10.x and 11.0 parts, which this
//! workspace writes no kernels for.

use std::fmt;

/// A target of PTX, as in `.target sm_121a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Target {
    /// A100.
    Sm80,
    /// GeForce RTX 30.
    Sm86,
    /// Jetson Orin.
    Sm87,
    /// GeForce RTX 40, L40.
    Sm89,
    /// H100, H200.
    Sm90,
    /// H100 and H200 alone.
    Sm90a,
    /// GeForce RTX 50.
    Sm120,
    /// GeForce RTX 50 alone.
    Sm120a,
    /// GeForce RTX 50 and its family, GB10 included.
    Sm120f,
    /// GB10.
    Sm121,
    /// GB10 alone.
    Sm121a,
    /// GB10 and later parts of its family.
    Sm121f,
}

impl Target {
    /// Every target, oldest first.
    pub const ALL: [Target; 12] = [
        Target::Sm80,
        Target::Sm86,
        Target::Sm87,
        Target::Sm89,
        Target::Sm90,
        Target::Sm90a,
        Target::Sm120,
        Target::Sm120a,
        Target::Sm120f,
        Target::Sm121,
        Target::Sm121a,
        Target::Sm121f,
    ];

    /// Name as `.target` and ptxas write it.
    pub const fn name(self) -> &'static str {
        match self {
            Target::Sm80 => "sm_80",
            Target::Sm86 => "sm_86",
            Target::Sm87 => "sm_87",
            Target::Sm89 => "sm_89",
            Target::Sm90 => "sm_90",
            Target::Sm90a => "sm_90a",
            Target::Sm120 => "sm_120",
            Target::Sm120a => "sm_120a",
            Target::Sm120f => "sm_120f",
            Target::Sm121 => "sm_121",
            Target::Sm121a => "sm_121a",
            Target::Sm121f => "sm_121f",
        }
    }

    /// The target of that name; `None` for a name that this list lacks.
    pub fn parse(name: &str) -> Option<Target> {
        Target::ALL.into_iter().find(|target| target.name() == name)
    }

    /// Compute capability, major times ten plus minor: 121 for 12.1.
    pub const fn capability(self) -> u32 {
        match self {
            Target::Sm80 => 80,
            Target::Sm86 => 86,
            Target::Sm87 => 87,
            Target::Sm89 => 89,
            Target::Sm90 | Target::Sm90a => 90,
            Target::Sm120 | Target::Sm120a | Target::Sm120f => 120,
            Target::Sm121 | Target::Sm121a | Target::Sm121f => 121,
        }
    }

    /// Whether what only the family of 12.x has may be used: the narrow formats and their scales.
    pub const fn has_family_12_features(self) -> bool {
        matches!(
            self,
            Target::Sm120a | Target::Sm120f | Target::Sm121a | Target::Sm121f
        )
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_targets() {
        for target in Target::ALL {
            assert_eq!(Target::parse(target.name()), Some(target));
        }
        assert_eq!(Target::parse("sm_120b"), None);
    }
}
