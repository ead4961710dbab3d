//! Tensors of other crates: converted, or lent where they lie.
//!
//! ```text
//! ndarray       &Array, &ArrayView  -> TensorView       lent                TensorView    -> ArrayView     lent
//!               &mut Array          -> TensorViewMut    lent, row-major     TensorViewMut -> ArrayViewMut  lent
//!               Array               -> Tensor           moved if row-major  Tensor        -> Array         moved
//! safetensors   &TensorView         -> TensorView       lent if aligned     &Tensor is a `View` to be serialised
//!               &TensorView         -> Tensor           copied
//! ```
//!
//! All but the last are `TryFrom` for every element type there is, each crate behind the feature of its name. A view that
//! cannot be lent is refused by a [`ConversionError`] with the reason; only a `Tensor` made of a borrowed array, of an
//! array that is not row-major, or of a file's tensor is a copy.

#[cfg(feature = "ndarray")]
mod arrays;
mod error;
#[cfg(feature = "safetensors")]
mod files;

pub use error::ConversionError;
