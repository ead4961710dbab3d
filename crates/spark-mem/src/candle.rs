//! Buffers and tensors of candle.
//!
//! ```text
//! Buffer  ─ into_tensor ──>  Tensor    moved if the buffer took over a `Vec`, else one copy
//! Buffer <─ upload_tensor ─  Tensor    one copy, in whatever order the tensor lies
//! ```
//!
//! A tensor of candle on the CPU owns a `Vec`, and gives it to nobody. So memory goes into
//! candle for free where it is a `Vec` ([`Device::buffer_from_vec`](crate::Device::buffer_from_vec)
//! on the CPU and on a GPU that reads the program's memory), and never comes out of candle
//! without a copy.
//!
//! Deliberately absent: tensors on candle's own CUDA device. Its CUDA feature needs the CUDA
//! toolkit to build and opens no library at run time, which this crate promises it does; such
//! a tensor is refused, and `to_device(&Device::Cpu)` brings it here.

use candle_core::{CpuStorage, Device, Layout, Shape, Storage, Tensor, WithDType};

use crate::buffer::{Buffer, check_len};
use crate::element::Element;
use crate::error::MemError;
use crate::stream::Stream;

impl<T: Element + WithDType> Buffer<T> {
    /// Its elements as a tensor of candle on the CPU.
    ///
    /// Costs nothing where [`Buffer::into_vec`] costs nothing.
    ///
    /// # Errors
    ///
    /// [`MemError::LengthMismatch`] if the shape has another number of elements; as
    /// [`Buffer::into_vec`].
    pub fn into_tensor(self, stream: &Stream, shape: impl Into<Shape>) -> Result<Tensor, MemError> {
        let shape = shape.into();
        let n = n_elements(&shape)?;
        if n != self.len() {
            return Err(MemError::LengthMismatch {
                what: "shape",
                got: n,
                want: self.len(),
            });
        }
        let values = self.into_vec(stream)?;
        Ok(Tensor::from_vec(values, shape, &Device::Cpu)?)
    }

    /// Copies a tensor's elements into it, the last dimension running fastest.
    ///
    /// # Errors
    ///
    /// [`MemError::LengthMismatch`]; [`MemError::Unsupported`] for a tensor that is not on
    /// the CPU; [`MemError::Candle`] for elements of another type; as [`Buffer::upload`].
    pub fn upload_tensor(&mut self, stream: &Stream, from: &Tensor) -> Result<(), MemError> {
        let (storage, layout) = from.storage_and_layout();
        let Storage::Cpu(storage) = &*storage else {
            return Err(MemError::Unsupported {
                what: "a tensor on candle's own device",
                why: "bring it to the CPU first".to_owned(),
            });
        };
        let values = elements(storage)?;
        if let Some((start, end)) = layout.contiguous_offsets() {
            return self.upload(stream, &values[start..end]);
        }
        self.upload_strided(stream, values, layout)
    }

    fn upload_strided(
        &mut self,
        stream: &Stream,
        values: &[T],
        layout: &Layout,
    ) -> Result<(), MemError> {
        check_len("tensor", layout.shape().elem_count(), self.len())?;
        let mut guard = self.overwrite(stream)?;
        let dims = layout.dims();
        let mut position = vec![0; dims.len()];
        let mut place = layout.start_offset();
        for to in guard.iter_mut() {
            *to = values[place];
            // One step on, the last dimension first; a full one starts again.
            for axis in (0..dims.len()).rev() {
                position[axis] += 1;
                place += layout.stride()[axis];
                if position[axis] < dims[axis] {
                    break;
                }
                place -= dims[axis] * layout.stride()[axis];
                position[axis] = 0;
            }
        }
        guard.finish()?;
        self.count_copy_on_host();
        Ok(())
    }
}

fn elements<T: WithDType>(storage: &CpuStorage) -> Result<&[T], MemError> {
    Ok(T::cpu_storage_as_slice(storage)?)
}

/// The product of the dimensions, which candle computes without looking at overflow.
fn n_elements(shape: &Shape) -> Result<usize, MemError> {
    let product = shape
        .dims()
        .iter()
        .try_fold(1_usize, |n, dim| n.checked_mul(*dim));
    product.ok_or(MemError::SizeOverflow {
        len: usize::MAX,
        element_bytes: 1,
    })
}
