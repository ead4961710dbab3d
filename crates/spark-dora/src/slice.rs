//! Elements of tensors that lie in host memory, as slices.

use candle_core::Tensor;

use crate::kernel::Real;

/// Calls `f` with the elements of a contiguous tensor in host memory.
pub(crate) fn with_slice<T: Real, R>(
    tensor: &Tensor,
    f: impl FnOnce(&[T]) -> candle_core::Result<R>,
) -> candle_core::Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    let candle_core::Storage::Cpu(storage) = &*storage else {
        candle_core::bail!("a tensor in host memory is needed")
    };
    f(contiguous(T::cpu_storage_as_slice(storage)?, layout)?)
}

/// The part of `data` that a contiguous layout means.
pub(crate) fn contiguous<'a, T>(
    data: &'a [T],
    layout: &candle_core::Layout,
) -> candle_core::Result<&'a [T]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&data[start..end]),
        None => candle_core::bail!("a contiguous tensor is needed"),
    }
}
