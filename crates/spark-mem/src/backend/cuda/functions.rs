//! Entries of modules: found, held against the types of their source, launched.
//!
//! ```text
//! load      entry of a module -> sizes of its parameters compared -> static shared memory asked
//! launch    more shared memory than any launch before, over 48 KiB?  opted in
//!           places of the arguments -> cuLaunchKernel, or cuLaunchKernelEx to begin early
//! ```

#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::ffi::{CString, c_int, c_void};
use std::sync::{Arc, Mutex};

use cudarc::driver::sys::{self, CUfunction_attribute_enum as Attribute, CUresult};
use spark_hal::cuda::CudaDriver;

use super::call::{call, pointer};
use super::symbols;
use crate::backend::Handle;
use crate::backend::code::{KernelCode, Text};
use crate::backend::launch::{Arguments, LaunchShape};
use crate::error::{DriverError, MemError};
use crate::lock::lock;

/// Shared memory of a block, static and dynamic, that needs no opting in. In bytes.
const PLAIN_SHARED_BYTES: u32 = 48 << 10;

/// The functions of a device, by their handles: the number of each, from 1 on.
#[derive(Debug, Default)]
pub(super) struct Functions(Mutex<Vec<Arc<Function>>>);

#[derive(Debug)]
struct Function {
    raw: Handle,
    module: Handle,
    /// The `.cu` file, for errors.
    file: Text,
    /// Shared memory that every block has without asking, in bytes.
    static_bytes: u32,
    /// Dynamic shared memory that may be asked for now, in bytes. Locked while it grows, and one for all
    /// that are loaded of an entry: the driver keeps the size that was set last, whoever set it.
    dynamic_bytes: Arc<Mutex<u32>>,
}

impl Functions {
    /// The entry of a loaded module.
    ///
    /// # Errors
    ///
    /// The driver's, if there is no such entry; [`MemError::ParameterMismatch`].
    pub(super) fn load(
        &self,
        driver: &CudaDriver,
        module: Handle,
        code: &KernelCode,
    ) -> Result<Handle, MemError> {
        let file = &code.image.file;
        let entry = name_in_code(file, KERNEL, &code.entry)?;
        let mut raw: sys::CUfunction = std::ptr::null_mut();
        // SAFETY: a loaded module; the name ends with NUL; `raw` is writable.
        let found = unsafe {
            call!(cuModuleGetFunction(
                &raw mut raw,
                pointer(module),
                entry.as_ptr()
            ))
        };
        found.map_err(|error| not_in_code(file, KERNEL, &code.entry, error))?;
        if driver.has_symbol(symbols::PARAMETERS) {
            check_parameters(raw, code)?;
        }
        let mut static_bytes = 0;
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        // SAFETY: a loaded function; `static_bytes` is writable.
        unsafe { call!(cuFuncGetAttribute(&raw mut static_bytes, attribute, raw)) }?;
        let static_bytes = u32::try_from(static_bytes).unwrap_or(0);
        let raw = raw as Handle;
        let mut all = lock(&self.0);
        // The driver has one function for an entry, however often it is asked for it.
        let same = all.iter().find(|known| known.raw == raw);
        let dynamic_bytes = same.map_or_else(
            || Arc::new(Mutex::new(PLAIN_SHARED_BYTES.saturating_sub(static_bytes))),
            |known| Arc::clone(&known.dynamic_bytes),
        );
        let function = Function {
            raw,
            module,
            file: file.clone(),
            static_bytes,
            dynamic_bytes,
        };
        all.push(Arc::new(function));
        Ok(all.len() as Handle)
    }

    fn get(&self, function: Handle) -> Result<Arc<Function>, DriverError> {
        let idx = usize::try_from(function)
            .ok()
            .and_then(|n| n.checked_sub(1));
        let all = lock(&self.0);
        let found = idx.and_then(|idx| all.get(idx));
        found.cloned().ok_or_else(|| DriverError {
            call: "launch",
            code: CUresult::CUDA_ERROR_INVALID_HANDLE as i32,
            name: "no such kernel".to_owned(),
        })
    }

    /// A variable of the module that a function is of: where it lies, and its bytes.
    pub(super) fn symbol(&self, function: Handle, name: &str) -> Result<(u64, usize), MemError> {
        let function = self.get(function)?;
        let told = name_in_code(&function.file, VARIABLE, name)?;
        let (mut address, mut n_bytes) = (0, 0);
        // SAFETY: a loaded module; the name ends with NUL; both places are writable.
        let found = unsafe {
            call!(cuModuleGetGlobal_v2(
                &raw mut address,
                &raw mut n_bytes,
                pointer(function.module),
                told.as_ptr()
            ))
        };
        found.map_err(|error| not_in_code(&function.file, VARIABLE, name, error))?;
        Ok((address, n_bytes))
    }

    /// # Safety
    ///
    /// As for [`Backend::launch`](crate::backend::Backend::launch); the stream is live and the
    /// context current.
    pub(super) unsafe fn launch(
        &self,
        stream: Handle,
        function: Handle,
        shape: LaunchShape,
        begins_early: bool,
        arguments: &Arguments,
    ) -> Result<(), DriverError> {
        let function = self.get(function)?;
        function.opt_in(shape.shared_bytes)?;
        let mut places: Vec<*mut c_void> = arguments
            .places()
            .map(|place| place.cast_mut().cast())
            .collect();
        let (grid, block) = (shape.grid, shape.block);
        if begins_early {
            // SAFETY: plain numbers and a union of them, for which zeros are values.
            let mut attribute: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
            attribute.id =
                sys::CUlaunchAttributeID_enum::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
            attribute.value.programmaticStreamSerializationAllowed = 1;
            let config = sys::CUlaunchConfig {
                gridDimX: grid[0],
                gridDimY: grid[1],
                gridDimZ: grid[2],
                blockDimX: block[0],
                blockDimY: block[1],
                blockDimZ: block[2],
                sharedMemBytes: shape.shared_bytes,
                hStream: pointer(stream),
                attrs: &raw mut attribute,
                numAttrs: 1,
            };
            // SAFETY: a loaded function, a live stream and one attribute; the places lead to the
            // arguments' bytes, which the driver copies before it returns; the rest is the
            // caller's promise.
            return unsafe {
                call!(cuLaunchKernelEx(
                    &raw const config,
                    pointer(function.raw),
                    places.as_mut_ptr(),
                    std::ptr::null_mut()
                ))
            };
        }
        // SAFETY: a loaded function and a live stream; each place leads to the argument's bytes,
        // which the driver copies before it returns; the rest is the caller's promise.
        unsafe {
            call!(cuLaunchKernel(
                pointer(function.raw),
                grid[0],
                grid[1],
                grid[2],
                block[0],
                block[1],
                block[2],
                shape.shared_bytes,
                pointer(stream),
                places.as_mut_ptr(),
                std::ptr::null_mut()
            ))
        }
    }

    /// Blocks of this size that one multiprocessor runs at once.
    pub(super) fn occupancy(
        &self,
        function: Handle,
        threads_per_block: u32,
        shared_bytes: u32,
    ) -> Result<u32, DriverError> {
        let function = self.get(function)?;
        let mut n_blocks = 0;
        let threads = c_int::try_from(threads_per_block).unwrap_or(c_int::MAX);
        // SAFETY: a loaded function; `n_blocks` is writable.
        unsafe {
            call!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut n_blocks,
                pointer(function.raw),
                threads,
                shared_bytes as usize
            ))
        }?;
        Ok(u32::try_from(n_blocks).unwrap_or(0))
    }
}

impl Function {
    /// Lets blocks have this much dynamic shared memory besides what they have anyway.
    fn opt_in(&self, n_bytes: u32) -> Result<(), DriverError> {
        let mut allowed = lock(&self.dynamic_bytes);
        if n_bytes <= *allowed {
            return Ok(());
        }
        debug_assert!(n_bytes.saturating_add(self.static_bytes) > PLAIN_SHARED_BYTES);
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let asked = c_int::try_from(n_bytes).unwrap_or(c_int::MAX);
        // SAFETY: a loaded function; more than the GPU has is answered with an error.
        unsafe { call!(cuFuncSetAttribute(pointer(self.raw), attribute, asked)) }?;
        *allowed = n_bytes;
        Ok(())
    }
}

const KERNEL: &str = "kernel";
const VARIABLE: &str = "variable";

/// A name as the driver takes it; none has a NUL in it.
fn name_in_code(file: &str, what: &'static str, name: &str) -> Result<CString, MemError> {
    CString::new(name).map_err(|_| MemError::NotInCode {
        file: file.to_owned(),
        what,
        name: name.to_owned(),
    })
}

/// What the driver's answer means to who asked for a name.
fn not_in_code(file: &str, what: &'static str, name: &str, error: DriverError) -> MemError {
    if error.code != CUresult::CUDA_ERROR_NOT_FOUND as i32 {
        return MemError::Driver(error);
    }
    MemError::NotInCode {
        file: file.to_owned(),
        what,
        name: name.to_owned(),
    }
}

/// Holds number and sizes of a function's parameters against those of its source.
fn check_parameters(raw: sys::CUfunction, code: &KernelCode) -> Result<(), MemError> {
    let sizes = code.argument_bytes.iter().copied().map(Some);
    for (idx, want) in sizes.chain([None]).enumerate() {
        let (mut offset, mut n_bytes) = (0, 0);
        // SAFETY: the driver has the function; a loaded function, and two places to write to.
        let told = unsafe {
            call!(cuFuncGetParamInfo(
                raw,
                idx,
                &raw mut offset,
                &raw mut n_bytes
            ))
        };
        let got = match told {
            Ok(()) => Some(n_bytes),
            Err(error) if error.code == CUresult::CUDA_ERROR_INVALID_VALUE as i32 => None,
            Err(error) => return Err(error.into()),
        };
        if got != want {
            return Err(MemError::ParameterMismatch {
                entry: code.entry.to_string(),
                idx,
                got,
                want,
            });
        }
    }
    Ok(())
}
