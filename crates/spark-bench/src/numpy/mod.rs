//! Tensors in NumPy's files: one in an `.npy`, several by name in an `.npz`.
//!
//! ```text
//! .npy   "\x93NUMPY" version, header {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, elements
//! .npz   a zip archive of NAME.npy, stored (np.savez) or deflated (np.savez_compressed)
//! ```
//!
//! NumPy has no bf16: such tensors are written as f32, which holds all their values.
//!
//! Source: NumPy's `numpy.lib.format`, versions 1.0 to 3.0. Deliberately absent: objects (pickles, which are
//! programs), records, texts, complex numbers, and archives beyond 4 GiB.

mod archive;
mod array;
mod header;

pub(crate) use archive::{ARCHIVE_MAGIC, END_MAGIC, read as read_archive, write as write_archive};
pub(crate) use array::{MAGIC, read as read_array, write as write_array};
