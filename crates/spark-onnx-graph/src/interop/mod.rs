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
//! All are `TryFrom` for every element type there is, each crate behind the feature of its name. What cannot be is
//! refused by a [`ConversionError`] with the reason, and nothing is copied behind anybody's back.

#[cfg(feature = "ndarray")]
mod arrays;
mod error;
#[cfg(feature = "safetensors")]
mod files;

pub use error::ConversionError;
