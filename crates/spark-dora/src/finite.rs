//! Refuses what is no real number: NaN and infinities, which would spread from one number to every result,
//! and element types that an update of small numbers is lost in.

use candle_core::{CpuStorage, DType, Device, Storage, Tensor};

use crate::error::{DoraError, Result};
use crate::slice::contiguous;

/// Refuses a tensor that holds NaN or an infinity, and one of integers or 8-bit floats.
///
/// On the CPU the numbers are read where they lie; elsewhere the device sums them up first, and only a
/// tensor with a fault comes to the host.
pub(crate) fn check(name: &str, tensor: &Tensor) -> Result<()> {
    let is_float = matches!(
        tensor.dtype(),
        DType::F64 | DType::F32 | DType::F16 | DType::BF16
    );
    if !is_float {
        return Err(DoraError::ElementType {
            name: name.to_owned(),
            got: tensor.dtype().as_str(),
        });
    }
    let tensor = tensor.detach();
    if !tensor.device().is_cpu() {
        // Zero times anything finite is zero.
        let sum = (tensor.to_dtype(DType::F32)? * 0.0)?.sum_all()?;
        if sum.to_scalar::<f32>()? == 0.0 {
            return Ok(());
        }
    }
    let host = tensor.to_device(&Device::Cpu)?.contiguous()?;
    let (storage, layout) = host.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else {
        return Ok(());
    };
    let first = match storage {
        CpuStorage::F32(v) => contiguous(v, layout)?.iter().position(|v| !v.is_finite()),
        CpuStorage::F64(v) => contiguous(v, layout)?.iter().position(|v| !v.is_finite()),
        CpuStorage::F16(v) => contiguous(v, layout)?.iter().position(|v| !v.is_finite()),
        CpuStorage::BF16(v) => contiguous(v, layout)?.iter().position(|v| !v.is_finite()),
        _ => None,
    };
    match first {
        None => Ok(()),
        Some(index) => Err(not_finite(name, index)),
    }
}

/// The error for element `index` of `name`.
pub(crate) fn not_finite(name: &str, index: usize) -> DoraError {
    DoraError::NotFinite {
        name: name.to_owned(),
        index,
    }
}
