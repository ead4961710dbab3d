//! What operators read of their operands before data flows: types, axes, windows, parts.
//!
//! Where a result's shape hangs on an operand's elements (`Reshape`, `Slice`, `Resize`, ...), that
//! operand must be constant. The functions that read such operands ([`resolve_slice`],
//! [`conv_windows`], ...) are public, so that an engine can read them the same way.
//!
//! Source: shape and type rules of the ONNX operator specification.
//!
//! Deliberately absent: the rules of each operator, which are in `crate::operators`.

mod einsum;
mod fourier;
mod non_zero;
mod operands;
mod regions;
mod resample;
mod slices;
mod suppression;
mod unique;
mod window;

pub use einsum::{EinsumLabels, parse_einsum};
pub use fourier::{DftAxis, resolve_dft};
pub(crate) use non_zero::for_each_non_zero;
pub use operands::{DIVIDED_BY_ZERO, Operand, broadcast_shapes, resolve_axes, resolve_axis};
pub(crate) use operands::{
    Operands, check_bool, check_broadcasts_to, check_float, check_index, check_numeric, check_rank,
    check_rank_at_least, check_same_dtype, check_scalar, check_shape, check_size, check_whole,
    constant_extents, constant_int, constant_ints, one, op_error,
};
pub use regions::{RegionAxis, RegionTaps, region_axes};
pub use resample::{ResizeAxis, nearest_sources, resolve_resize};
pub(crate) use slices::shape_part;
pub use slices::{PadAxis, SliceAxis, resolve_pads, resolve_slice};
pub(crate) use suppression::for_each_kept_box;
pub(crate) use unique::distinct;
pub use window::{WindowAxis, conv_transpose_windows, conv_windows, pool_windows};
