//! Whether instructions for 16 bits are worth using, where the processor has them.
//!
//! Some processors run dot products of bf16 at a quarter of the rate of an f32 instruction, which holds
//! half as many. Measured once per process, in well under a millisecond.

use std::sync::OnceLock;

use spark_simd::Isa;

use crate::layout::PackedLayout;
use crate::small::SmallGemm;

impl PackedLayout {
    /// Whether a matmul over the layout takes at most nine tenths of the time of f32 here: never
    /// so, where its weights are converted to f32, or the processor lacks its instructions.
    pub fn is_profitable(self, isa: Isa) -> bool {
        static BF16: OnceLock<bool> = OnceLock::new();
        static F16: OnceLock<bool> = OnceLock::new();
        let known = match self {
            Self::F32 | Self::F16 | Self::Bf16 => return false,
            Self::Bf16Dot | Self::Bf16Mmla => &BF16,
            Self::F16Fmlal => &F16,
        };
        self.can_implement(isa) && *known.get_or_init(|| beats_f32(isa, self))
    }
}

/// Whether a matmul over `layout` takes at most nine tenths of the time of f32. Kernels that are
/// equally fast must not change places, and results with them, from one process to the next.
fn beats_f32(isa: Isa, layout: PackedLayout) -> bool {
    let time = |layout| SmallGemm::new(isa, layout).fastest();
    10 * time(layout) < 9 * time(PackedLayout::F32)
}
