//! The types a buffer can hold: plain numbers, for which every bit pattern is a value.

#![allow(unsafe_code, reason = "the trait is a promise about memory layout")]

use half::{bf16, f16};

use crate::error::MemError;

/// A number that CPU and GPU lay out alike.
///
/// # Safety
///
/// Every bit pattern is a value, zeros included; there is no padding, no pointer and
/// nothing to drop; CUDA C has a type of the same size and alignment.
pub unsafe trait Element: Copy + Send + Sync + std::fmt::Debug + 'static {
    /// The type's name in CUDA C. Those of the 16-bit floats are declared by `cuda_fp16.h` and
    /// `cuda_bf16.h` of a CUDA toolkit, which NVRTC brings along only where a toolkit is installed and
    /// named by `-I`; kernels without them take such numbers as `unsigned short`.
    const CUDA_NAME: &'static str;
}

macro_rules! elements {
    ($($rust:ty = $cuda:literal),*) => {
        $(
            // SAFETY: a primitive number, or a transparent wrapper of 16 bits, has no
            // padding and no invalid bit pattern, and CUDA C on Linux gives the named type
            // the same size and alignment.
            unsafe impl Element for $rust {
                const CUDA_NAME: &'static str = $cuda;
            }
        )*
    };
}

elements!(
    u8 = "unsigned char",
    i8 = "signed char",
    u16 = "unsigned short",
    i16 = "short",
    u32 = "unsigned int",
    i32 = "int",
    u64 = "unsigned long long",
    i64 = "long long",
    f32 = "float",
    f64 = "double",
    f16 = "__half",
    bf16 = "__nv_bfloat16"
);

/// The size of `len` elements, if an address space can hold them.
pub(crate) fn bytes_of<T>(len: usize) -> Result<usize, MemError> {
    let element_bytes = size_of::<T>();
    len.checked_mul(element_bytes)
        .filter(|bytes| isize::try_from(*bytes).is_ok())
        .ok_or(MemError::SizeOverflow { len, element_bytes })
}
