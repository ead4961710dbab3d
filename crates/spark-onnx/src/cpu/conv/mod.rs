//! Convolutions: direct, by Winograd's transform, depthwise, and depthwise fused with what feeds it.

pub(crate) mod depthwise;
pub(crate) mod direct;
pub(crate) mod fused;
pub(crate) mod register_tiled;
pub(crate) mod winograd;
pub(crate) mod winograd_shape;
