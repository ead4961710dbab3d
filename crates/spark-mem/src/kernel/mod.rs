//! Kernels: CUDA C in the program, compiled for the GPU that is there, with a host version
//! for devices that are none.
//!
//! ```text
//! KernelSource { file, source, entry, parameters, host version }
//!      │ device.kernel(&SOURCE)
//!      ├─ GPU: cache key -> cubin on disk, else NVRTC -> cubin -> load
//!      └─ otherwise: the host version
//! Kernel ── launch(&stream, shape, (out.view_mut(), input.view(), 2.0_f32)) ──> queued
//! ```
//!
//! The types of the parameters are part of the kernel's type: an argument of another type
//! or a buffer that is only borrowed for reading where the kernel writes does not compile.
//! What a kernel does inside the memory it is given is nothing a compiler checks, so that
//! launching is `unsafe`.

#![allow(unsafe_code, reason = "hands addresses to code that is not checked")]

mod parameter;

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;

pub use crate::backend::cache;
pub use crate::backend::code::{Header, WARP_HEADER, WARP_HEADER_NAME};
pub use crate::backend::launch::LaunchShape;
pub use parameter::{Binder, Parameter, Parameters, Read, Write};

use crate::backend::Handle;
use crate::backend::code::KernelCode;
use crate::backend::info::DeviceKind;
use crate::backend::launch::HostFunction;
use crate::device::Device;
use crate::error::MemError;
use crate::lock::lock;
use crate::section::InRecording;
use crate::stream::Stream;

/// A kernel's source, in the program.
///
/// ```
/// use spark_mem::{KernelSource, LaunchShape, Read, Write};
///
/// const DOUBLE: KernelSource<(Write<f32>, Read<f32>, u32)> = KernelSource::new(
///     "double.cu",
///     r#"extern "C" __global__ void double_f32(float* out, const float* in, unsigned n) {
///         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
///         if (i < n) out[i] = 2.0f * in[i];
///     }"#,
///     "double_f32",
/// )
/// .with_host(|_shape: LaunchShape, (out, input, n)| {
///     for (out, input) in out.iter_mut().zip(input).take(n as usize) {
///         *out = 2.0 * input;
///     }
/// });
/// ```
pub struct KernelSource<P: Parameters> {
    file: &'static str,
    source: &'static str,
    entry: &'static str,
    headers: &'static [Header],
    options: &'static [&'static str],
    host: Option<HostVersion<P>>,
    parameters: PhantomData<fn(P)>,
}

type HostVersion<P> = for<'a> fn(LaunchShape, <P as Parameters>::Host<'a>);

impl<P: Parameters> std::fmt::Debug for KernelSource<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelSource")
            .field("file", &self.file)
            .field("entry", &self.entry)
            .finish_non_exhaustive()
    }
}

impl<P: Parameters> KernelSource<P> {
    /// The function `entry`, which is `extern "C" __global__`, of this CUDA C.
    #[must_use]
    pub const fn new(file: &'static str, source: &'static str, entry: &'static str) -> Self {
        Self {
            file,
            source,
            entry,
            headers: &[],
            options: &[],
            host: None,
            parameters: PhantomData,
        }
    }

    /// Adds files that the source may include by name, besides [`WARP_HEADER_NAME`].
    #[must_use]
    pub const fn with_headers(mut self, headers: &'static [Header]) -> Self {
        self.headers = headers;
        self
    }

    /// Adds options of the compiler, such as `--use_fast_math`.
    #[must_use]
    pub const fn with_options(mut self, options: &'static [&'static str]) -> Self {
        self.options = options;
        self
    }

    /// Adds the version for devices that are no GPU. It gets the elements themselves.
    ///
    /// It runs while its launch is queued. As on a GPU it can use no stream and no guard,
    /// which answer [`MemError::InsideKernel`]; it must not wait for threads that do.
    #[must_use]
    pub const fn with_host(mut self, host: HostVersion<P>) -> Self {
        self.host = Some(host);
        self
    }

    pub(crate) fn code(&self) -> KernelCode {
        let host = self.host.map(|host| -> HostFunction {
            Arc::new(move |shape, arguments| {
                // SAFETY: this function is loaded under an identity that holds `P`, so only a
                // `Kernel<P>` has its handle, and `launch` bound the arguments by `P::bind`:
                // number and types agree, since tuples alone are `Parameters`. Their memory
                // was borrowed for the launch and stays until this call is over.
                host(shape, unsafe { P::host(arguments) });
            })
        });
        KernelCode {
            file: self.file,
            source: self.source,
            entry: self.entry,
            headers: self.headers,
            options: self.options,
            parameters: TypeId::of::<P>(),
            host_address: self.host.map(|host| host as usize),
            host,
        }
    }
}

/// Compiles a kernel for a GPU that need not be there.
///
/// # Errors
///
/// [`MemError::NoCompiler`] without NVRTC; [`MemError::Compile`] with its words.
#[cfg(feature = "cuda")]
pub fn compile<P: Parameters>(
    source: &KernelSource<P>,
    compute: spark_hal::ComputeCapability,
) -> Result<Vec<u8>, MemError> {
    crate::backend::cuda::compile(&source.code(), compute)
}

/// A kernel of a device, ready to be launched; made by [`Device::kernel`].
#[derive(Debug, Clone)]
pub struct Kernel<P: Parameters> {
    device: Device,
    function: Handle,
    entry: &'static str,
    parameters: PhantomData<fn(P)>,
}

impl<P: Parameters> Kernel<P> {
    pub(crate) fn new(device: Device, function: Handle, entry: &'static str) -> Self {
        Self {
            device,
            function,
            entry,
            parameters: PhantomData,
        }
    }

    /// Name of the kernel's function in its source.
    #[must_use]
    pub fn entry(&self) -> &'static str {
        self.entry
    }

    /// Queues a launch.
    ///
    /// # Errors
    ///
    /// [`MemError::LaunchShape`], [`MemError::NotOnDevice`], [`MemError::OtherDevice`],
    /// [`MemError::InUseByHost`]; the driver's. Errors of the kernel itself come with the
    /// next call that waits for it.
    ///
    /// # Safety
    ///
    /// - The entry of the [`KernelSource`] that this kernel was made of has the parameters `P`, in
    ///   number, order and type: `const T*` for [`Read<T>`], `T*` for [`Write<T>`], the number
    ///   itself otherwise. Nothing compares them; the driver reads as many arguments as the entry has.
    /// - With these arguments and this shape the kernel reads and writes inside the views
    ///   only, and writes only those that are [`Write`] parameters.
    ///
    /// Making a source and loading it promise nothing and are safe. Hence a function that launches
    /// a kernel handed to it by its caller, or made of a text of its caller's, cannot keep this
    /// promise alone and is `unsafe` itself.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        shape: LaunchShape,
        arguments: P::Arguments<'_>,
    ) -> Result<(), MemError> {
        shape.check()?;
        stream.device().check_usable()?;
        stream.check_same_device(&self.device)?;
        let mut binder = Binder::new(stream);
        P::bind(arguments, &mut binder);
        let (arguments, uses) = binder.finish()?;
        let uses = uses.iter().map(|(memory, writes)| (memory, *writes));
        let inner = self.device.inner();
        stream.submit(uses.collect(), InRecording::Allowed, |queue| {
            // SAFETY: the caller's promise for what the kernel does; every allocation notes
            // this work, so it stays and the host keeps away until it is done.
            let launched = unsafe {
                inner
                    .backend
                    .launch(queue, self.function, shape, &arguments)
            };
            self.device.tried(launched)
        })?;
        if !stream.section().is_recording_here() {
            inner.counters.launched();
        }
        Ok(())
    }

    /// How many blocks of this size one multiprocessor runs at once.
    ///
    /// # Errors
    ///
    /// [`MemError::Unsupported`] on a device that is no GPU; the driver's.
    pub fn blocks_per_multiprocessor(
        &self,
        threads_per_block: u32,
        shared_bytes: u32,
    ) -> Result<u32, MemError> {
        self.device.check_usable()?;
        let inner = self.device.inner();
        inner
            .backend
            .occupancy(self.function, threads_per_block, shared_bytes)
    }
}

impl Device {
    /// A kernel, made ready: compiled if it is not in the cache, loaded if it was not yet.
    ///
    /// Sources that differ in entry, text, file, headers, options, types of the parameters or, on a
    /// device that runs host versions, in that, are different kernels.
    ///
    /// # Errors
    ///
    /// [`MemError::Compile`] with the compiler's words, [`MemError::NoCompiler`],
    /// [`MemError::NoHostKernel`] on a device that is no GPU.
    pub fn kernel<P: Parameters>(&self, source: &KernelSource<P>) -> Result<Kernel<P>, MemError> {
        self.check_usable()?;
        let code: KernelCode = source.code();
        let runs_host_versions = !matches!(self.info().kind, DeviceKind::Cuda(_));
        let identity = code.identity(runs_host_versions);
        let mut kernels = lock(&self.inner().kernels);
        let function = match kernels.get(&identity) {
            Some(function) => *function,
            None => {
                let function = self
                    .inner()
                    .backend
                    .load(&code)
                    .map_err(|error| match error {
                        MemError::Driver(error) => self.failed(error),
                        other => other,
                    })?;
                kernels.insert(identity, function);
                function
            }
        };
        drop(kernels);
        Ok(Kernel::new(self.clone(), function, code.entry))
    }
}
