//! Kernels: CUDA C in the program, compiled for the GPU that is there, with a host version
//! for devices that are none.
//!
//! ```text
//! KernelSource { file, source, entry, headers, options, images, parameters, host version }
//!      │ device.kernel(&SOURCE)
//!      ├─ GPU: one image per text, headers and options, compiled and loaded once for all entries:
//!      │       a cubin of the program's, one kept on disk, NVRTC's, last PTX by the driver
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
pub use crate::backend::code::{Header, Image, WARP_HEADER, WARP_HEADER_NAME};
pub use crate::backend::launch::{LaunchOptions, LaunchShape};
pub use parameter::{
    Binder, HostArguments, KernelStruct, Parameter, Parameters, Read, Struct, Write,
};
/// What [`precompile`] compiles for.
#[cfg(feature = "cuda")]
pub use spark_hal::ComputeCapability;
/// The crate whose traits make a [`KernelStruct`].
pub use zerocopy;

use crate::backend::Handle;
use crate::backend::code::{Bytes, ImageSource, KernelCode, Precompiled, Text};
use crate::backend::info::DeviceKind;
use crate::backend::launch::HostFunction;
use crate::buffer::stage::upload_to;
use crate::device::Device;
use crate::element::Element;
use crate::error::MemError;
use crate::lock::lock;
use crate::section::InRecording;
use crate::stream::Stream;

/// A kernel's source: constants of the program, or texts made at run time.
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
///
/// // A text of this run, and a variant of the constant above with an option of this run.
/// let made = |factor: u32| -> KernelSource<(Write<u32>,)> {
///     let text = format!("extern \"C\" __global__ void set(unsigned* out) {{ *out = {factor}; }}");
///     KernelSource::from_text("set.cu", text, "set")
/// };
/// let tuned = DOUBLE.with_option(format!("-DTILE={}", 64));
/// # let _ = (made(2), tuned);
/// ```
pub struct KernelSource<P: Parameters> {
    file: Text,
    source: Text,
    entry: Text,
    headers: &'static [Header],
    options: &'static [&'static str],
    images: &'static [Image],
    /// Those made at run time, behind the constant ones.
    own_headers: Vec<(Text, Text)>,
    own_options: Vec<Text>,
    own_images: Vec<Precompiled>,
    host: Option<HostVersion<P>>,
    parameters: PhantomData<fn(P)>,
}

// Not derived, which would ask `P` for the same: tuples of more than twelve have it not.
impl<P: Parameters> Clone for KernelSource<P> {
    fn clone(&self) -> Self {
        Self {
            file: self.file.clone(),
            source: self.source.clone(),
            entry: self.entry.clone(),
            headers: self.headers,
            options: self.options,
            images: self.images,
            own_headers: self.own_headers.clone(),
            own_options: self.own_options.clone(),
            own_images: self.own_images.clone(),
            host: self.host,
            parameters: PhantomData,
        }
    }
}

type HostVersion<P> = for<'a> fn(LaunchShape, <P as Parameter>::Host<'a>);

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
        Self::of_texts(
            Text::Static(file),
            Text::Static(source),
            Text::Static(entry),
        )
    }

    /// As [`KernelSource::new`], of texts made at run time. A device keeps the code of every text
    /// that was loaded on it until it is closed.
    #[must_use]
    pub fn from_text(
        file: impl Into<Arc<str>>,
        source: impl Into<Arc<str>>,
        entry: impl Into<Arc<str>>,
    ) -> Self {
        Self::of_texts(
            Text::Shared(file.into()),
            Text::Shared(source.into()),
            Text::Shared(entry.into()),
        )
    }

    const fn of_texts(file: Text, source: Text, entry: Text) -> Self {
        Self {
            file,
            source,
            entry,
            headers: &[],
            options: &[],
            images: &[],
            own_headers: Vec::new(),
            own_options: Vec::new(),
            own_images: Vec::new(),
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

    /// Adds a file that the source may include by name, made at run time. A name that is given twice is
    /// refused when the kernel is compiled.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        let header = (Text::Shared(name.into()), Text::Shared(text.into()));
        self.own_headers.push(header);
        self
    }

    /// Adds options of the compiler, such as `--use_fast_math`.
    ///
    /// Code of a kernel whose options or `#include` lines may let the compiler read files of the machine
    /// (`-I`, `--pre-include`, and all that this crate does not know to read none; headers that are not
    /// given by [`KernelSource::with_headers`]) is not kept in a cache folder: a change of those files
    /// would not be seen. A device with such a folder warns.
    #[must_use]
    pub const fn with_options(mut self, options: &'static [&'static str]) -> Self {
        self.options = options;
        self
    }

    /// Adds an option of the compiler made at run time, such as `-DTILE=64`; see
    /// [`KernelSource::with_options`].
    #[must_use]
    pub fn with_option(mut self, option: impl Into<Arc<str>>) -> Self {
        self.own_options.push(Text::Shared(option.into()));
        self
    }

    /// Adds code that was compiled before from this text with these headers and options:
    /// `("sm_121a", include_bytes!(…))` a cubin, `("compute_90", include_bytes!(…))` PTX.
    ///
    /// A cubin that runs on the GPU is taken before anything is compiled; of several, the one made
    /// for this very GPU, then for its family, then for lower minor versions of it. PTX is compiled
    /// by the driver, if no cubin runs and there is no compiler.
    #[must_use]
    pub const fn with_images(mut self, images: &'static [Image]) -> Self {
        self.images = images;
        self
    }

    /// Adds code that was compiled before, read at run time; see [`KernelSource::with_images`].
    #[must_use]
    pub fn with_image(mut self, target: impl Into<Arc<str>>, bytes: impl Into<Arc<[u8]>>) -> Self {
        self.own_images.push(Precompiled {
            target: Text::Shared(target.into()),
            bytes: Bytes::Shared(bytes.into()),
        });
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

    /// # Errors
    ///
    /// [`MemError::ParameterBytes`].
    pub(crate) fn code(&self) -> Result<KernelCode, MemError> {
        let host = self.host.map(|host| -> HostFunction {
            Arc::new(move |shape, arguments| {
                // SAFETY: this function is loaded under an identity that holds `P`, so only a
                // `Kernel<P>` has its handle, and `launch` bound the arguments by `P::bind`:
                // number and types agree, since tuples alone are `Parameters`. Their memory
                // was borrowed for the launch and stays until this call is over.
                host(shape, unsafe {
                    P::host(&mut HostArguments::new(arguments))
                });
            })
        });
        Ok(KernelCode {
            image: Arc::new(self.image()),
            entry: self.entry.clone(),
            parameters: TypeId::of::<P>(),
            argument_bytes: parameter::argument_bytes::<P>()?,
            host_address: self.host.map(|host| host as usize),
            host,
        })
    }

    fn image(&self) -> ImageSource {
        let constant = |(name, text): &Header| (Text::Static(name), Text::Static(text));
        let headers = self.headers.iter().map(constant);
        let options = self.options.iter().map(|option| Text::Static(option));
        let images = self.images.iter().map(|(target, bytes)| Precompiled {
            target: Text::Static(target),
            bytes: Bytes::Static(bytes),
        });
        ImageSource {
            file: self.file.clone(),
            source: self.source.clone(),
            headers: headers.chain(self.own_headers.iter().cloned()).collect(),
            options: options.chain(self.own_options.iter().cloned()).collect(),
            precompiled: images.chain(self.own_images.iter().cloned()).collect(),
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
    crate::backend::cuda::compile(&source.code()?.image, compute)
}

/// Compiles the image of a kernel, all its entries, for a GPU that need not be there, and keeps the
/// code under `cache_dir`: a device of exactly that capability, opened with that folder, compiles
/// nothing, and needs no NVRTC. It looks for the very chip's code, `sm_121a` for 12.1: neither that of
/// its family nor that of a lower minor version stands in for it here.
///
/// # Errors
///
/// [`MemError::NoCompiler`] without NVRTC or without a text; [`MemError::Compile`] with its words;
/// [`MemError::Unsupported`] for a kernel that includes files of the machine; [`MemError::Io`] if the folder cannot be written to.
#[cfg(feature = "cuda")]
pub fn precompile<P: Parameters>(
    source: &KernelSource<P>,
    compute: spark_hal::ComputeCapability,
    cache_dir: &std::path::Path,
) -> Result<(), MemError> {
    crate::backend::cuda::precompile(&source.code()?.image, compute, cache_dir)
}

/// A kernel of a device, ready to be launched; made by [`Device::kernel`].
pub struct Kernel<P: Parameters> {
    device: Device,
    function: Handle,
    entry: Text,
    parameters: PhantomData<fn(P)>,
}

// Neither derived, which would ask `P` for the same.
impl<P: Parameters> Clone for Kernel<P> {
    fn clone(&self) -> Self {
        Self::new(self.device.clone(), self.function, self.entry.clone())
    }
}

impl<P: Parameters> std::fmt::Debug for Kernel<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel")
            .field("device", &self.device)
            .field("entry", &self.entry)
            .finish_non_exhaustive()
    }
}

impl<P: Parameters> Kernel<P> {
    fn new(device: Device, function: Handle, entry: Text) -> Self {
        Self {
            device,
            function,
            entry,
            parameters: PhantomData,
        }
    }

    /// Name of the kernel's function in its source.
    #[must_use]
    pub fn entry(&self) -> &str {
        &self.entry
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
    ///   number, order and type: `const T*` for [`Read<T>`], `T*` for [`Write<T>`], the number or
    ///   structure itself otherwise. A driver of CUDA 12.4 or newer has told their number and sizes, and
    ///   others than those of `P` were refused when the kernel was made ready; nothing compares more.
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
        arguments: P::Argument<'_>,
    ) -> Result<(), MemError> {
        // SAFETY: the caller's promise.
        unsafe { self.launch_with(stream, shape, LaunchOptions::new(), arguments) }
    }

    /// As [`Kernel::launch`], with options.
    ///
    /// # Errors
    ///
    /// As [`Kernel::launch`].
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch`]. With [`LaunchOptions::programmatic_dependency`] the kernel executes
    /// `griddepcontrol.wait` in every thread that touches memory which a kernel in front of it in
    /// the stream uses, before it does so; and no thread of it ends before it has waited.
    pub unsafe fn launch_with(
        &self,
        stream: &Stream,
        shape: LaunchShape,
        options: LaunchOptions,
        arguments: P::Argument<'_>,
    ) -> Result<(), MemError> {
        shape.check()?;
        stream.device().check_usable()?;
        stream.check_same_device(&self.device)?;
        let mut binder = Binder::new(stream);
        P::bind(arguments, &mut binder);
        let (arguments, uses) = binder.finish()?;
        let uses = uses.iter().map(parameter::Use::access);
        let inner = self.device.inner();
        stream.submit(uses.collect(), InRecording::Allowed, |queue| {
            // SAFETY: the caller's promise for what the kernel does; every allocation notes
            // this work, so it stays and the host keeps away until it is done.
            let launched = unsafe {
                inner
                    .backend
                    .launch(queue, self.function, shape, options, &arguments)
            };
            self.device.tried(launched)
        })?;
        if !stream.section().is_recording_here() {
            inner.counters.launched();
        }
        Ok(())
    }

    /// Writes a `__constant__` or `__device__` variable of the kernel's file, by its name, in the
    /// order of the stream: later launches on it see the values.
    ///
    /// All kernels of one image have the variable in common. Launches on other streams are not put
    /// in order with it; events do that.
    ///
    /// # Errors
    ///
    /// [`MemError::VariableBytes`] unless the values have as many bytes as the variable;
    /// [`MemError::NotInCode`] if there is no such variable; [`MemError::Unsupported`] on a device that
    /// is no GPU; [`MemError::Capturing`]; the driver's.
    ///
    /// # Safety
    ///
    /// The variable holds elements of type `T`, and whatever launches rely on of its contents holds
    /// for these values too: nobody else who launches kernels of this image (a source that agrees
    /// in text, headers, options and images) promised something that they break.
    pub unsafe fn write_constant<T: Element>(
        &self,
        stream: &Stream,
        name: &str,
        values: &[T],
    ) -> Result<(), MemError> {
        self.device.check_usable()?;
        stream.check_same_device(&self.device)?;
        let backend = &self.device.inner().backend;
        let (address, n_bytes) = backend.symbol(self.function, name)?;
        if size_of_val(values) != n_bytes {
            return Err(MemError::VariableBytes {
                name: name.to_owned(),
                got: size_of_val(values),
                want: n_bytes,
            });
        }
        let rule = InRecording::Refused("writing a constant");
        // SAFETY: the module has the variable with as many bytes, and stays loaded as long as the
        // device; what launches make of the values is the caller's promise.
        unsafe { upload_to(address, Vec::new, rule, stream, values) }
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
    /// A kernel, made ready: compiled if there is no code of it, loaded if it was not yet.
    ///
    /// Sources that differ in text, file, headers, options or images are different images, each
    /// compiled and loaded once for all its entries. On a device that runs host versions, sources
    /// that differ in these or in types of parameters are different kernels too.
    ///
    /// # Errors
    ///
    /// [`MemError::Compile`] with the compiler's words, [`MemError::NoCompiler`] if there is no
    /// other code either, [`MemError::BadImage`], [`MemError::ParameterMismatch`],
    /// [`MemError::ParameterBytes`], [`MemError::NotInCode`] if the code has no such entry,
    /// [`MemError::NoHostKernel`] on a device that is no GPU; the driver's.
    pub fn kernel<P: Parameters>(&self, source: &KernelSource<P>) -> Result<Kernel<P>, MemError> {
        self.check_usable()?;
        let code = source.code()?;
        let runs_host_versions = !matches!(self.info().kind, DeviceKind::Cuda(_));
        let identity = code.identity(runs_host_versions);
        let known = lock(&self.inner().kernels).get(&identity).copied();
        let function = match known {
            Some(function) => function,
            // Without the lock: to compile takes long. Threads that ask for code of one image at
            // a time wait for each other below, and get the same.
            None => {
                let loaded = self.inner().backend.load(&code);
                let function = loaded.map_err(|error| match error {
                    MemError::Driver(error) => self.failed(error),
                    other => other,
                })?;
                *lock(&self.inner().kernels)
                    .entry(identity)
                    .or_insert(function)
            }
        };
        Ok(Kernel::new(self.clone(), function, code.entry))
    }
}
