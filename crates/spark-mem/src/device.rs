//! A device: the CPU, one GPU, or a card emulated in host memory.
//!
//! ```text
//! Device::open()   SPARK_DEVICE, CUDA and what the hardware says choose
//! Device ──> new_stream ──> launch, copy, capture
//!        ──> buffer(kind, len) ──> budget.reserve ──> backend
//!        ──> kernel(&SOURCE)       compiled at first use, kept on disk
//! ```
//!
//! Cloning a device is cheap; it is closed when the last clone and everything made from
//! it are gone.

#![allow(unsafe_code, reason = "hands raw memory back to its backend")]

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use spark_hal::ComputeCapability;
use spark_hal::config::{Config, CudaUse, DeviceChoice, config};
use spark_hal::cuda::CudaUnavailable;

use crate::backend::software::Software;
use crate::backend::{Backend, Handle};
use crate::budget::{Budget, Watch};
use crate::buffer::adopted::Adopted;
use crate::buffer::allocation::{Allocation, lock};
use crate::error::DriverError;
use crate::kernel::{Kernel, KernelCode, KernelIdentity, KernelSource, Parameters};
use crate::stats::{Counters, TransferStats};
use crate::stream::{Stream, StreamInner};
use crate::{Buffer, BufferKind, Element, MemError};

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// The CPU and its memory.
    Host,
    /// Host memory that behaves as a discrete card.
    Emulated,
    /// A GPU, by CUDA's number.
    Cuda(u32),
}

/// What is known about a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// What it is.
    pub kind: DeviceKind,
    /// Its name, for people.
    pub name: String,
    /// Compute capability of a GPU.
    pub compute: Option<ComputeCapability>,
    /// Whether CPU and device use the same memory, and that may be made use of.
    pub is_unified: bool,
    /// Whether the device walks the CPU's page tables, so that plain memory is shared.
    pub shares_page_tables: bool,
    /// Memory the device works in, in bytes.
    pub total_bytes: u64,
    /// Multiprocessors of a GPU; 0 otherwise.
    pub n_multiprocessors: u32,
    /// Shared memory a block may have at most, in bytes; 0 if that means nothing.
    pub shared_bytes_per_block: u32,
}

/// How a device is opened.
#[derive(Debug, Clone)]
pub struct DeviceOptions {
    /// Whether memory shared by CPU and GPU may be made use of; `false` acts as on a
    /// discrete card.
    pub use_unified_memory: bool,
    /// Limit on what is allocated; `None` for the device's memory.
    pub budget_bytes: Option<u64>,
    /// Where compiled kernels are kept; `None` keeps none.
    pub cache_dir: Option<PathBuf>,
}

impl DeviceOptions {
    /// What the environment says: `OPENPILOT_DGX_ENABLED`, `OPENPILOT_DISABLE_DGX` and
    /// `SPARK_CACHE_DIR`.
    #[must_use]
    pub fn from_config(config: &Config) -> Self {
        Self {
            use_unified_memory: config.dgx_features_allowed(),
            budget_bytes: None,
            cache_dir: config.cache_dir.clone(),
        }
    }
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self::from_config(config())
    }
}

/// A device. See the [module](self).
#[derive(Debug, Clone)]
pub struct Device {
    inner: Arc<DeviceInner>,
}

#[derive(Debug)]
pub(crate) struct DeviceInner {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) counters: Counters,
    budget: Budget,
    lost: OnceLock<DriverError>,
    deferred: Mutex<Option<MemError>>,
    /// Loaded kernels.
    kernels: Mutex<HashMap<KernelIdentity, Handle>>,
    /// The process that opened it.
    process: u32,
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Device {}

impl Device {
    /// The device the environment asks for: `SPARK_DEVICE`, `CUDA`.
    ///
    /// `auto` takes the best GPU this program can use, else the CPU; a logged line says
    /// why it is the CPU.
    ///
    /// # Errors
    ///
    /// [`MemError::NoCuda`] or [`MemError::BuiltWithoutCuda`] if a GPU was asked for by
    /// `SPARK_DEVICE=cuda` or `CUDA=1` and cannot be had, which `CUDA=0` is a reason for.
    pub fn open() -> Result<Self, MemError> {
        Self::open_with(DeviceOptions::default())
    }

    /// As [`Device::open`], with options of the program's own.
    ///
    /// # Errors
    ///
    /// As [`Device::open`].
    pub fn open_with(options: DeviceOptions) -> Result<Self, MemError> {
        let config = config();
        let choice = match (config.device, config.cuda) {
            (DeviceChoice::Auto, CudaUse::Require) => DeviceChoice::Cuda(None),
            (DeviceChoice::Auto, CudaUse::Never) => {
                tracing::info!("using the CPU: {}", CudaUnavailable::Disabled);
                DeviceChoice::Cpu
            }
            (choice, _) => choice,
        };
        match choice {
            DeviceChoice::Cpu => Ok(Self::host()),
            DeviceChoice::Cuda(ordinal) => {
                Self::cuda(ordinal.unwrap_or_else(best_ordinal), options)
            }
            DeviceChoice::Auto => match Self::cuda(best_ordinal(), options) {
                Ok(device) => Ok(device),
                Err(why) => {
                    tracing::info!("using the CPU: {why}");
                    Ok(Self::host())
                }
            },
        }
    }

    /// The CPU and its memory.
    #[must_use]
    pub fn host() -> Self {
        Self::host_with(u64::MAX)
    }

    /// The CPU with a limit on what may be allocated, in bytes.
    #[must_use]
    pub fn host_with(budget_bytes: u64) -> Self {
        let info = DeviceInfo {
            kind: DeviceKind::Host,
            name: "CPU".to_owned(),
            compute: None,
            is_unified: true,
            shares_page_tables: true,
            total_bytes: u64::MAX,
            n_multiprocessors: 0,
            shared_bytes_per_block: 0,
        };
        let budget = Budget::new(budget_bytes, Watch::MachineForCpu);
        Self::from_backend(Box::new(Software::new(info)), budget)
    }

    /// A discrete card emulated in host memory, with this much memory of its own.
    ///
    /// For tests of programs that must copy explicitly: its `Device` memory has
    /// addresses that fault when the host uses them.
    #[must_use]
    pub fn emulated(total_bytes: u64) -> Self {
        let info = DeviceInfo {
            kind: DeviceKind::Emulated,
            name: "emulated discrete card".to_owned(),
            compute: None,
            is_unified: false,
            shares_page_tables: false,
            total_bytes,
            n_multiprocessors: 0,
            shared_bytes_per_block: 0,
        };
        let budget = Budget::new(u64::MAX, Watch::MachineForCpu);
        Self::from_backend(Box::new(Software::new(info)), budget)
    }

    /// CUDA's device of this number.
    ///
    /// # Errors
    ///
    /// [`MemError::NoCuda`] if there is no driver, device or number like that;
    /// [`MemError::BuiltWithoutCuda`] without the feature `cuda`.
    #[cfg_attr(
        not(feature = "cuda"),
        expect(unused_variables, reason = "nothing can be opened")
    )]
    pub fn cuda(ordinal: u32, options: DeviceOptions) -> Result<Self, MemError> {
        #[cfg(feature = "cuda")]
        {
            let backend = crate::backend::cuda::Cuda::open(ordinal, &options)?;
            let info = backend.info();
            let limit = options.budget_bytes.unwrap_or(info.total_bytes);
            // What the hardware shares counts, not whether that may be made use of.
            let watch = if backend.is_integrated() {
                Watch::MachineForUnifiedGpu
            } else {
                Watch::Nothing
            };
            Ok(Self::from_backend(
                Box::new(backend),
                Budget::new(limit, watch),
            ))
        }
        #[cfg(not(feature = "cuda"))]
        Err(MemError::BuiltWithoutCuda)
    }

    fn from_backend(backend: Box<dyn Backend>, budget: Budget) -> Self {
        Self {
            inner: Arc::new(DeviceInner {
                backend,
                counters: Counters::default(),
                budget,
                lost: OnceLock::new(),
                deferred: Mutex::default(),
                kernels: Mutex::default(),
                process: std::process::id(),
            }),
        }
    }

    pub(crate) fn inner(&self) -> &DeviceInner {
        &self.inner
    }

    /// What is known about it.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        self.inner.backend.info()
    }

    /// What it has copied and launched since it was opened.
    #[must_use]
    pub fn stats(&self) -> TransferStats {
        self.inner.counters.read()
    }

    /// The limit on what is allocated here.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.inner.budget
    }

    /// Whether memory of this kind can be had here.
    #[must_use]
    pub fn supports(&self, kind: BufferKind) -> bool {
        self.inner.backend.supports(kind).is_ok()
    }

    /// The kind for data that both sides use.
    ///
    /// ```text
    /// CPU                                  Host
    /// GPU that walks the CPU's page tables  System    plain memory, one address
    /// other unified GPU                    Pinned    one allocation, seen by both
    /// discrete, or sharing disabled         Device    copied explicitly and counted
    /// ```
    ///
    /// On a GB10 managed memory reaches about 70 % of the bandwidth of plain device
    /// memory (nvidia-uma-fault-probe), so it is not the first choice there.
    #[must_use]
    pub fn shared_kind(&self) -> BufferKind {
        let info = self.info();
        match info.kind {
            DeviceKind::Host => BufferKind::Host,
            _ if info.is_unified && info.shares_page_tables => BufferKind::System,
            _ if info.is_unified => BufferKind::Pinned,
            _ => BufferKind::Device,
        }
    }

    /// The kind for data that the host never touches.
    #[must_use]
    pub fn private_kind(&self) -> BufferKind {
        match self.info().kind {
            DeviceKind::Host => BufferKind::Host,
            DeviceKind::Emulated | DeviceKind::Cuda(_) => BufferKind::Device,
        }
    }

    /// The kind for host memory that is copied from and to.
    #[must_use]
    pub fn staging_kind(&self) -> BufferKind {
        match self.info().kind {
            DeviceKind::Host => BufferKind::Host,
            DeviceKind::Emulated | DeviceKind::Cuda(_) => BufferKind::Pinned,
        }
    }

    /// A queue of work.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub fn new_stream(&self) -> Result<Stream, MemError> {
        self.check_usable()?;
        let raw = self.tried(self.inner.backend.new_stream())?;
        Ok(Stream::from_inner(Arc::new(StreamInner::new(
            self.clone(),
            raw,
        ))))
    }

    /// `len` zeros in memory of this kind.
    ///
    /// # Errors
    ///
    /// [`MemError::KindUnsupported`], [`MemError::SizeOverflow`],
    /// [`MemError::OverBudget`], [`MemError::OutOfMemory`].
    pub fn buffer<T: Element>(&self, kind: BufferKind, len: usize) -> Result<Buffer<T>, MemError> {
        let allocation = self.allocate(kind, bytes_of::<T>(len)?)?;
        Ok(Buffer::from_allocation(Arc::new(allocation), len))
    }

    /// `len` zeros in memory that both sides use; see [`Device::shared_kind`].
    ///
    /// # Errors
    ///
    /// As [`Device::buffer`].
    pub fn shared<T: Element>(&self, len: usize) -> Result<Buffer<T>, MemError> {
        self.buffer(self.shared_kind(), len)
    }

    /// These numbers in memory that both sides use, without a copy where the device reads
    /// plain memory of the program: on the CPU, and on a GPU that walks the CPU's page
    /// tables. Elsewhere they are copied into [`Device::shared`] memory, which is counted.
    ///
    /// In place their address is a multiple of the element's size and of no more, unlike
    /// that of other buffers, and the budget does not count them: they were there before.
    ///
    /// # Errors
    ///
    /// As [`Device::buffer`] and [`Buffer::upload`].
    pub fn buffer_from_vec<T: Element>(
        &self,
        stream: &Stream,
        values: Vec<T>,
    ) -> Result<Buffer<T>, MemError> {
        self.check_usable()?;
        stream.check_same_device(self)?;
        let len = values.len();
        let kind = self.shared_kind();
        if !matches!(kind, BufferKind::Host | BufferKind::System) {
            let mut buffer = self.shared(len)?;
            buffer.upload(stream, &values)?;
            return Ok(buffer);
        }
        let n_bytes = bytes_of::<T>(len)?;
        let allocation = Allocation::of_program(self.clone(), kind, Adopted::new(values), n_bytes);
        Ok(Buffer::from_allocation(Arc::new(allocation), len))
    }

    /// The bytes, cleared. Host-visible memory comes zeroed from the backend.
    pub(crate) fn allocate(
        &self,
        kind: BufferKind,
        len_bytes: usize,
    ) -> Result<Allocation, MemError> {
        let allocation = self.allocate_uncleared(kind, len_bytes)?;
        let memory = allocation.memory();
        if memory.host.is_null() && memory.len_bytes > 0 {
            self.clear(memory.device, memory.len_bytes)?;
        }
        Ok(allocation)
    }

    pub(crate) fn allocate_uncleared(
        &self,
        kind: BufferKind,
        len_bytes: usize,
    ) -> Result<Allocation, MemError> {
        self.check_usable()?;
        let backend = &self.inner.backend;
        if let Err(why) = backend.supports(kind) {
            return Err(MemError::KindUnsupported {
                kind,
                device: self.info().name.clone(),
                why,
            });
        }
        let reservation = self.inner.budget.reserve(len_bytes as u64)?;
        let memory = if len_bytes == 0 {
            crate::backend::RawMemory::empty(kind)
        } else {
            match backend.allocate(kind, len_bytes) {
                Ok(memory) => memory,
                Err(error) if error.code == OUT_OF_MEMORY => {
                    return Err(MemError::OutOfMemory {
                        kind,
                        asked: len_bytes as u64,
                        device: self.info().name.clone(),
                        why: error.to_string(),
                    });
                }
                Err(error) => return Err(self.failed(error)),
            }
        };
        Ok(Allocation::new(self.clone(), memory, reservation))
    }

    /// Zeros, before anybody else knows the memory.
    fn clear(&self, address: u64, n_bytes: usize) -> Result<(), MemError> {
        let backend = &self.inner.backend;
        let stream = self.tried(backend.new_stream())?;
        // SAFETY: the memory is new, has this many bytes, and outlives the
        // synchronisation below.
        let filled = unsafe { backend.fill(stream, address, 0, n_bytes) }
            .and_then(|()| backend.synchronize(stream));
        let dropped = backend.drop_stream(stream);
        self.tried(filled.and(dropped))
    }

    /// A kernel, made ready: compiled if it is not in the cache, loaded if it was not yet.
    ///
    /// Sources that differ in anything (entry, text, file, headers, options, types of the
    /// parameters, host version) are different kernels, also when entry and text are the same.
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
        let mut kernels = lock(&self.inner.kernels);
        let function = match kernels.get(&identity) {
            Some(function) => *function,
            None => {
                let function = self
                    .inner
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

    /// Refuses a device that is lost, and one inherited through `fork`.
    pub(crate) fn check_usable(&self) -> Result<(), MemError> {
        if self.is_forked() {
            return Err(MemError::Forked);
        }
        match self.inner.lost.get() {
            Some(error) => Err(MemError::DeviceLost(error.clone())),
            None => Ok(()),
        }
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.inner.process != std::process::id()
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.inner.lost.get().is_some()
    }

    pub(crate) fn tried<T>(&self, result: Result<T, DriverError>) -> Result<T, MemError> {
        result.map_err(|error| self.failed(error))
    }

    /// Remembers errors after which nothing works any more.
    pub(crate) fn failed(&self, error: DriverError) -> MemError {
        if is_sticky(error.code) {
            let first = self.inner.lost.get_or_init(|| error);
            return MemError::DeviceLost(first.clone());
        }
        MemError::Driver(error)
    }

    /// Keeps an error that came up where none can be returned; the next
    /// [`Stream::synchronize`] returns it.
    pub(crate) fn defer(&self, error: MemError) {
        tracing::error!("{error}");
        lock(&self.inner.deferred).get_or_insert(error);
    }

    pub(crate) fn take_deferred(&self) -> Result<(), MemError> {
        lock(&self.inner.deferred).take().map_or(Ok(()), Err)
    }
}

const OUT_OF_MEMORY: i32 = 2;

/// `CUresult`s that poison the context: cuda.h says of each that the process must be
/// terminated and relaunched, or the device itself is gone.
fn is_sticky(code: i32) -> bool {
    matches!(
        code,
        46 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721
    )
}

/// CUDA's number of the best GPU, 0 if nobody knows.
fn best_ordinal() -> u32 {
    spark_hal::best_gpu()
        .and_then(|gpu| gpu.cuda_ordinal)
        .unwrap_or(0)
}

pub(crate) fn bytes_of<T>(len: usize) -> Result<usize, MemError> {
    let element_bytes = size_of::<T>();
    len.checked_mul(element_bytes)
        .filter(|bytes| isize::try_from(*bytes).is_ok())
        .ok_or(MemError::SizeOverflow { len, element_bytes })
}
