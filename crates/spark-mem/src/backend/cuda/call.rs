//! How functions of the driver are called: by name, with the error as a value.

use cudarc::driver::sys::CUresult;

use crate::backend::Handle;
use crate::error::DriverError;

/// An answer of the driver, with the name of the function that was asked.
pub(super) fn check(call: &'static str, result: CUresult) -> Result<(), DriverError> {
    match result {
        CUresult::CUDA_SUCCESS => Ok(()),
        other => Err(DriverError {
            call,
            code: other as i32,
            name: format!("{other:?}"),
        }),
    }
}

/// One driver function by name, checked. Every use says why it is sound.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {
        $crate::backend::cuda::call::check(stringify!($name), cudarc::driver::sys::$name($($argument),*))
    };
}
pub(super) use call;

/// A handle as the driver has it.
pub(super) fn pointer<T>(handle: Handle) -> *mut T {
    handle as *mut T
}
