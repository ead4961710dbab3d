//! Kernels that come in several sizes, and what each is called. Which of them a step takes says `launches`.

/// Convolutions and linear layers, by tile, then by how x is read: in pieces of 16 bytes as f16, element by element as f16, as f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TilesKernel {
    Of64x64,
    Of32x32,
    Of16x32,
    Of64x64ByElement,
    Of32x32ByElement,
    OfF32,
    OfF32AndF16,
}

impl TilesKernel {
    /// The kernel's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Of64x64 => "plan_tiles_64x64",
            Self::Of32x32 => "plan_tiles_32x32",
            Self::Of16x32 => "plan_tiles_16x32",
            Self::Of64x64ByElement => "plan_tiles_64x64_by_element",
            Self::Of32x32ByElement => "plan_tiles_32x32_by_element",
            Self::OfF32 => "plan_tiles_f32",
            Self::OfF32AndF16 => "plan_tiles_f32_f16",
        }
    }
}

/// Products of two computed matrices, by what is side by side in the right one last, then by tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TilesMatMulKernel {
    Nk64x64,
    Kn64x64,
    Nk32x32,
    Kn32x32,
}

impl TilesMatMulKernel {
    /// The kernel's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nk64x64 => "plan_tiles_matmul_nk_64x64",
            Self::Kn64x64 => "plan_tiles_matmul_kn_64x64",
            Self::Nk32x32 => "plan_tiles_matmul_nk_32x32",
            Self::Kn32x32 => "plan_tiles_matmul_kn_32x32",
        }
    }
}

/// Convolutions of single channels, by width of the window, then by stride along columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DepthwiseKernel {
    Of3,
    Of5,
    Of7,
    Of3By2,
    Of5By2,
    Of7By2,
}

impl DepthwiseKernel {
    /// The kernel's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Of3 => "plan_depthwise_3",
            Self::Of5 => "plan_depthwise_5",
            Self::Of7 => "plan_depthwise_7",
            Self::Of3By2 => "plan_depthwise_3_by_2",
            Self::Of5By2 => "plan_depthwise_5_by_2",
            Self::Of7By2 => "plan_depthwise_7_by_2",
        }
    }
}
