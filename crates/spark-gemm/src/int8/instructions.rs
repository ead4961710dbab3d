//! Which instructions multiply bytes here, and how they want their operands.
//!
//! ```text
//!              one step adds            activations as   weights as      exact because
//! portable     4 products, plain code   u8               i8 in fours     i32 all the way
//! avx2         vpmaddwd, twice          u8               i8 in fours     bytes widened to i16 first
//! avx-vnni     vpdpbusd, 256 bits       u8               i8 in fours     four products and the sum in i32
//! avx512       vpmaddwd, twice          u8               i8 in fours     as avx2
//! avx512-vnni  vpdpbusd, 512 bits       u8               i8 in fours     as avx-vnni
//! neon         smull, sadalp            i8               i8 in fours     products in i16, sums in i32
//! neon-dot     sdot                     i8               i8 in fours     four products and the sum in i32
//! neon-i8mm    smmla, usmmla            as they are      i8 in eights    eight products and the sum in i32
//! ```
//!
//! `vpmaddubsw`, which multiplies bytes in pairs without widening, is absent: it saturates at
//! 32767, and 255 * 127 * 2 is twice that.

use spark_simd::{Avx2, Avx512, Avx512Vnni, AvxVnni, Isa, Neon, NeonDot, NeonI8mm};

use crate::panel::next_rows;

/// Whether bytes are i8 or u8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteKind {
    /// i8: -128 to 127.
    Signed,
    /// u8: 0 to 255.
    Unsigned,
}

impl ByteKind {
    /// The least and the greatest of such bytes.
    pub const fn range(self) -> (i32, i32) {
        match self {
            Self::Signed => (-128, 127),
            Self::Unsigned => (0, 255),
        }
    }

    /// What is added to such a byte to make one of `other`, by flipping its highest bit.
    pub(crate) const fn shift_to(self, other: Self) -> i32 {
        match (self, other) {
            (Self::Signed, Self::Unsigned) => 128,
            (Self::Unsigned, Self::Signed) => -128,
            _ => 0,
        }
    }
}

/// Instructions that multiply bytes, which this processor has: only detection makes one.
///
/// All of them give the same integers.
///
/// # Examples
///
/// ```
/// use spark_gemm::int8::Int8Instructions;
/// use spark_simd::Isa;
///
/// let best = Int8Instructions::best(Isa::detect());
/// assert!(Int8Instructions::available().contains(&best));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Int8Instructions {
    isa: Isa,
    kind: Int8Kind,
}

/// Which kernel it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Int8Kind {
    Portable,
    Avx2,
    AvxVnni,
    Avx512,
    Avx512Vnni,
    Neon,
    NeonDot,
    NeonI8mm,
}

impl Int8Kind {
    /// All of them, best first.
    const ALL: [Self; 8] = [
        Self::NeonI8mm,
        Self::NeonDot,
        Self::Neon,
        Self::Avx512Vnni,
        Self::Avx512,
        Self::AvxVnni,
        Self::Avx2,
        Self::Portable,
    ];

    /// Whether code for `isa` may use it on this processor.
    fn is_of(self, isa: Isa) -> bool {
        match self {
            Self::Portable => isa == Isa::portable(),
            Self::Avx2 => Avx2::of(isa).is_some(),
            Self::AvxVnni => AvxVnni::of(isa).is_some(),
            Self::Avx512 => Avx512::of(isa).is_some(),
            Self::Avx512Vnni => Avx512Vnni::of(isa).is_some(),
            Self::Neon => Neon::of(isa).is_some(),
            Self::NeonDot => NeonDot::of(isa).is_some(),
            Self::NeonI8mm => NeonI8mm::of(isa).is_some(),
        }
    }
}

impl Int8Instructions {
    /// The best for code of this instruction set.
    pub fn best(isa: Isa) -> Self {
        let mut kinds = Int8Kind::ALL.into_iter();
        let kind = kinds.find(|kind| kind.is_of(isa));
        match kind {
            Some(kind) => Self { isa, kind },
            // Every set above has one of its own.
            None => Self {
                isa: Isa::portable(),
                kind: Int8Kind::Portable,
            },
        }
    }

    /// All that this processor has, the portable ones included.
    pub fn available() -> Vec<Self> {
        let sets = Isa::available().into_iter();
        let of = |isa| {
            let kinds = Int8Kind::ALL.into_iter();
            let kinds = kinds.filter(move |kind| kind.is_of(isa));
            kinds.map(move |kind| Self { isa, kind })
        };
        sets.flat_map(of).collect()
    }

    /// The instruction set whose vectors of i32 hold the sums.
    pub const fn isa(self) -> Isa {
        self.isa
    }

    /// Name for reports, as in the module's table.
    pub const fn name(self) -> &'static str {
        match self.kind {
            Int8Kind::Portable => "portable",
            Int8Kind::Avx2 => "avx2",
            Int8Kind::AvxVnni => "avx-vnni",
            Int8Kind::Avx512 => "avx512",
            Int8Kind::Avx512Vnni => "avx512-vnni",
            Int8Kind::Neon => "neon",
            Int8Kind::NeonDot => "neon-dot",
            Int8Kind::NeonI8mm => "neon-i8mm",
        }
    }

    /// Which kernel it is.
    pub(super) const fn kind(self) -> Int8Kind {
        self.kind
    }

    /// Bytes of one column that lie side by side in packed weights.
    pub(super) const fn depth_step(self) -> usize {
        match self.kind {
            Int8Kind::NeonI8mm => 8,
            _ => 4,
        }
    }

    /// What activations of `kind` are multiplied as: the others are converted where they are loaded.
    pub(super) const fn multiplied_as(self, kind: ByteKind) -> ByteKind {
        match self.kind {
            Int8Kind::NeonI8mm => kind,
            Int8Kind::Neon | Int8Kind::NeonDot => ByteKind::Signed,
            _ => ByteKind::Unsigned,
        }
    }

    /// Rows of the next tile, of `left` rows that remain, in a panel `vectors` wide.
    ///
    /// Where bytes are widened, the widened weights take registers that rows have elsewhere.
    pub fn next_rows(self, vectors: usize, left: usize) -> usize {
        let rows = next_rows(vectors, left);
        let is_crowded = match self.kind {
            Int8Kind::Avx2 => vectors >= 2,
            Int8Kind::Avx512 | Int8Kind::Neon => vectors >= 3,
            _ => false,
        };
        match rows {
            4.. if is_crowded => 4,
            _ => rows,
        }
    }
}
