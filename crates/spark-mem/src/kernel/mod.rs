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

pub mod cache;
mod parameter;

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;

pub use parameter::{Binder, Parameter, Parameters, Read, Write};

use crate::backend::{Handle, HostFunction};
use crate::section::InRecording;
use crate::{Device, MemError, Stream};

/// What kernels may include as `"spark_warp.cuh"`: tensor-core products, asynchronous copies
/// and warp reductions, which the stand-in driver emulates.
pub const WARP_HEADER: &str = include_str!("../../kernels/spark_warp.cuh");
/// The name it is included by.
pub const WARP_HEADER_NAME: &str = "spark_warp.cuh";

/// Threads of a block at most, on every GPU so far.
const THREADS_PER_BLOCK: u32 = 1024;
/// Blocks along y and z at most.
const GRID_YZ: u32 = 65_535;

/// How many threads run, and how much shared memory a block gets when launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LaunchShape {
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: u32,
}

impl LaunchShape {
    /// Enough blocks of `threads_per_block` threads for one thread per element.
    ///
    /// # Errors
    ///
    /// [`MemError::LaunchShape`] if the grid would be larger than any GPU runs, or a block.
    pub fn for_elements(n: usize, threads_per_block: u32) -> Result<Self, MemError> {
        let n_blocks = n.div_ceil(threads_per_block.max(1) as usize).max(1);
        let shape = Self {
            grid: [u32::try_from(n_blocks).unwrap_or(u32::MAX), 1, 1],
            block: [threads_per_block, 1, 1],
            shared_bytes: 0,
        };
        shape.check().map(|()| shape)
    }

    /// Whether a GPU runs this.
    fn check(&self) -> Result<(), MemError> {
        let Self { grid, block, .. } = *self;
        let why = |why| Err(MemError::LaunchShape { grid, block, why });
        if grid.contains(&0) || block.contains(&0) {
            return why("no dimension may be 0");
        }
        let threads = block.iter().try_fold(1_u32, |n, size| n.checked_mul(*size));
        if threads.is_none_or(|threads| threads > THREADS_PER_BLOCK) || block[2] > 64 {
            return why("a block has at most 1024 threads, 64 of them along z");
        }
        if grid[0] > i32::MAX as u32 || grid[1] > GRID_YZ || grid[2] > GRID_YZ {
            return why("a grid has at most 2^31 - 1, 65535 and 65535 blocks");
        }
        Ok(())
    }
}

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

/// A file that kernels include: its name and its text.
pub type Header = (&'static str, &'static str);

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

/// A source without its types, as backends take it.
pub(crate) struct KernelCode {
    pub(crate) file: &'static str,
    pub(crate) source: &'static str,
    pub(crate) entry: &'static str,
    pub(crate) headers: &'static [Header],
    pub(crate) options: &'static [&'static str],
    pub(crate) parameters: TypeId,
    pub(crate) host: Option<HostFunction>,
    /// Where the host version lies before its types are taken off.
    pub(crate) host_address: Option<usize>,
}

/// All that decides what a kernel's code is and what its arguments mean: loaded code is shared by
/// sources that agree in every part, and by no others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct KernelIdentity {
    entry: &'static str,
    file: &'static str,
    source: &'static str,
    headers: &'static [Header],
    options: &'static [&'static str],
    parameters: TypeId,
    host_address: Option<usize>,
}

impl KernelCode {
    /// Its identity on a device that runs host versions, or on one that does not. The compiler may
    /// give one function several addresses, for which a GPU need not load the code again.
    pub(crate) fn identity(&self, runs_host_versions: bool) -> KernelIdentity {
        KernelIdentity {
            entry: self.entry,
            file: self.file,
            source: self.source,
            headers: self.headers,
            options: self.options,
            parameters: self.parameters,
            host_address: self.host_address.filter(|_| runs_host_versions),
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

    /// The function's name.
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
        inner.counters.launched();
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
