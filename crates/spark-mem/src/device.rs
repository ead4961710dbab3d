//! A device: the CPU, one GPU, or a card emulated in host memory.
//!
//! ```text
//! Device::open()   SPARK_DEVICE, CUDA and what the hardware says choose
//! Device ──> new_stream ──> launch, copy, capture
//!        ──> buffer(kind, len) ──> budget.reserve ──> backend
//!        ──> kernel(&SOURCE)       compiled at first use, kept on disk
//! ```
//!
//! Here stand its opening, what is known about it and its errors; what is made from it stands
//! beside what is made: streams, buffers and kernels know the device, not it them.
//!
//! Cloning a device is cheap; it is closed when the last clone and everything made from
//! it are gone.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use spark_hal::config::{Config, CudaUse, DeviceChoice, MemoryKindChoice, config};
use spark_hal::cuda::CudaUnavailable;

use crate::backend::code::KernelIdentity;
#[cfg(feature = "cuda")]
use crate::backend::cuda::Cuda;
use crate::backend::software::Software;
use crate::backend::{Backend, Handle};
use crate::budget::{Budget, Watch};
use crate::error::{DriverError, MemError};
use crate::kind::BufferKind;
use crate::lock::lock;
use crate::process;
use crate::shared_kind::{KindChoice, NotMeasured};
#[cfg(feature = "cuda")]
use crate::shared_kind::{Wanted, choose};
use crate::staging::Ring;
use crate::stats::{Counters, TransferStats};

pub use crate::backend::info::{DeviceInfo, DeviceKind};

/// How a device is opened.
///
/// # Examples
///
/// ```
/// use spark_mem::{Device, DeviceOptions};
/// use spark_hal::config::DeviceChoice;
///
/// let options = DeviceOptions::new().with_device(DeviceChoice::Cpu).with_budget_bytes(1 << 20);
/// let device = Device::open_with(options)?; // whatever the environment says
/// assert!(device.shared::<f32>(1 << 20).is_err()); // 4 MiB
/// # Ok::<(), spark_mem::MemError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeviceOptions {
    /// Which device; `None` takes what `SPARK_DEVICE` and `CUDA` say.
    pub device: Option<DeviceChoice>,
    /// Whether memory shared by CPU and GPU may be made use of; `false` acts as on a
    /// discrete card.
    pub use_unified_memory: bool,
    /// Limit on what is allocated; `None` for the device's memory, or none on the CPU.
    pub budget_bytes: Option<u64>,
    /// Where compiled kernels and figures of memory are kept; `None` keeps none.
    pub cache_dir: Option<PathBuf>,
    /// The kind of memory that [`Device::shared`] gives on a GPU, whatever the environment says and
    /// without a measurement; a kind that the GPU cannot have is an error. On the CPU all memory is
    /// the host's.
    pub shared_kind: Option<BufferKind>,
    /// What the environment says of that kind.
    pub memory_kind: MemoryKindChoice,
    /// Whether it may be measured where nobody says it: on a GPU that shares the machine's memory,
    /// if there is a [`cache_dir`](Self::cache_dir), once per machine.
    pub measures_memory: bool,
}

impl DeviceOptions {
    /// Shared memory where the device has it, of the kind that the hardware's attributes say; no limit
    /// of its own; nothing on disk.
    #[must_use]
    pub fn new() -> Self {
        Self {
            device: None,
            use_unified_memory: true,
            budget_bytes: None,
            cache_dir: None,
            shared_kind: None,
            memory_kind: MemoryKindChoice::Auto,
            measures_memory: true,
        }
    }

    /// What the environment says: `OPENPILOT_DGX_ENABLED`, `OPENPILOT_DISABLE_DGX`,
    /// `SPARK_CACHE_DIR` and `SPARK_MEMORY_KIND`.
    #[must_use]
    pub fn from_config(config: &Config) -> Self {
        Self {
            use_unified_memory: config.dgx_features_allowed(),
            cache_dir: config.cache_dir.clone(),
            memory_kind: config.memory_kind,
            ..Self::new()
        }
    }

    /// With this device, whatever the environment says; one that cannot be had is an error.
    #[must_use]
    pub fn with_device(mut self, device: DeviceChoice) -> Self {
        self.device = Some(device);
        self
    }

    /// With or without use of memory that CPU and GPU share.
    #[must_use]
    pub fn with_unified_memory(mut self, use_it: bool) -> Self {
        self.use_unified_memory = use_it;
        self
    }

    /// With at most so many bytes allocated at a time.
    #[must_use]
    pub fn with_budget_bytes(mut self, bytes: u64) -> Self {
        self.budget_bytes = Some(bytes);
        self
    }

    /// With compiled kernels, and figures of memory, kept in this folder.
    #[must_use]
    pub fn with_cache_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(folder.into());
        self
    }

    /// With this kind of memory for shared buffers on a GPU; see [`DeviceOptions::shared_kind`].
    #[must_use]
    pub fn with_shared_kind(mut self, kind: BufferKind) -> Self {
        self.shared_kind = Some(kind);
        self
    }

    /// With or without a measurement of memory; see [`DeviceOptions::measures_memory`].
    #[must_use]
    pub fn with_measured_memory(mut self, measures: bool) -> Self {
        self.measures_memory = measures;
        self
    }
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self::from_config(config())
    }
}

/// A device. See the [module](self).
///
/// # Examples
///
/// ```
/// use spark_mem::Device;
///
/// let device = Device::emulated(1 << 30); // a card of 1 GiB in host memory; `open` takes what is there
/// let stream = device.new_stream()?;
/// let mut speeds = device.shared::<f32>(1000)?;
/// speeds.write(&stream)?.fill(12.5);
/// assert_eq!(speeds.read(&stream)?[999], 12.5);
/// assert!(device.stats().copies() > 0); // on a card the guards copy, and every copy is counted
/// # Ok::<(), spark_mem::MemError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Device {
    inner: Arc<DeviceInner>,
}

#[derive(Debug)]
pub(crate) struct DeviceInner {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) counters: Counters,
    budget: Budget,
    shared_kind: KindChoice,
    lost: OnceLock<DriverError>,
    deferred: Mutex<Option<MemError>>,
    /// Kernels that were loaded, so that each is loaded once per device.
    pub(crate) kernels: Mutex<HashMap<KernelIdentity, Handle>>,
    /// Marks that nobody holds, to be used again.
    events: Mutex<IdleEvents>,
    /// Pinned memory through which slices reach memory of the device alone.
    pub(crate) staging: Mutex<Ring>,
    /// The device's own queue, once it is needed.
    own_queue: Mutex<Option<Handle>>,
    /// Whether the program was told that accesses of the host are copies here.
    has_warned: AtomicBool,
    /// The process that opened it.
    process: u64,
}

/// Marks that nobody holds: those that can time, and those for ordering alone.
#[derive(Debug, Default)]
struct IdleEvents {
    timed: Vec<Handle>,
    untimed: Vec<Handle>,
}

/// Idle marks of a kind that are kept; a program that held more gives them back.
const IDLE_EVENTS: usize = 256;

impl IdleEvents {
    fn of(&mut self, is_timed: bool) -> &mut Vec<Handle> {
        if is_timed {
            &mut self.timed
        } else {
            &mut self.untimed
        }
    }
}

impl DeviceInner {
    /// The device's own queue, on which memory is cleared, and given back where the driver can.
    pub(crate) fn own_queue(&self) -> Result<Handle, DriverError> {
        let mut own = lock(&self.own_queue);
        match *own {
            Some(queue) => Ok(queue),
            None => Ok(*own.insert(self.backend.new_stream()?)),
        }
    }

    /// A mark that has been used before, or a new one.
    pub(crate) fn take_event(&self, is_timed: bool) -> Result<Handle, DriverError> {
        match lock(&self.events).of(is_timed).pop() {
            Some(event) => Ok(event),
            None => self.backend.new_event(is_timed),
        }
    }

    /// Takes a mark back that nobody holds any more.
    pub(crate) fn give_event(&self, event: Handle, is_timed: bool) -> Result<(), DriverError> {
        let mut idle = lock(&self.events);
        let idle = idle.of(is_timed);
        if idle.len() < IDLE_EVENTS && self.lost.get().is_none() {
            idle.push(event);
            return Ok(());
        }
        self.backend.drop_event(event)
    }
}

impl Drop for DeviceInner {
    fn drop(&mut self) {
        if self.process != process::own() {
            return;
        }
        lock(&self.staging).release(&*self.backend);
        if let Some(queue) = lock(&self.own_queue).take() {
            let _ = self.backend.drop_stream(queue);
        }
        let IdleEvents { timed, untimed } = std::mem::take(&mut *lock(&self.events));
        for event in timed.into_iter().chain(untimed) {
            // Errors have no receiver any more.
            let _ = self.backend.drop_event(event);
        }
    }
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
    /// As [`Device::open`]; also if [`DeviceOptions::device`] names a GPU that cannot be had.
    pub fn open_with(options: DeviceOptions) -> Result<Self, MemError> {
        let config = config();
        let choice = match (options.device.unwrap_or(config.device), config.cuda) {
            (DeviceChoice::Auto, CudaUse::Require) if options.device.is_none() => {
                DeviceChoice::Cuda(None)
            }
            (DeviceChoice::Auto, CudaUse::Never) => {
                tracing::info!("using the CPU: {}", CudaUnavailable::Disabled);
                DeviceChoice::Cpu
            }
            (choice, _) => choice,
        };
        match choice {
            DeviceChoice::Cpu => Ok(host(&options)),
            DeviceChoice::Cuda(ordinal) => {
                Self::cuda(ordinal.unwrap_or_else(best_ordinal), options)
            }
            DeviceChoice::Auto => match Self::cuda(best_ordinal(), options.clone()) {
                Ok(device) => Ok(device),
                Err(why) => {
                    tracing::info!("using the CPU: {why}");
                    Ok(host(&options))
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
    /// [`MemError::KindUnsupported`] or [`MemError::NotOnDevice`] for a
    /// [`DeviceOptions::shared_kind`] that it cannot have; [`MemError::BuiltWithoutCuda`] without the
    /// feature `cuda`.
    #[cfg_attr(
        not(feature = "cuda"),
        expect(unused_variables, reason = "nothing can be opened")
    )]
    pub fn cuda(ordinal: u32, options: DeviceOptions) -> Result<Self, MemError> {
        #[cfg(feature = "cuda")]
        {
            let cache_dir = options.cache_dir.as_deref();
            let backend = Cuda::open(ordinal, options.use_unified_memory, cache_dir)?;
            let info = backend.info();
            let limit = options.budget_bytes.unwrap_or(info.total_bytes);
            // What the hardware shares counts, not whether that may be made use of.
            let watch = if backend.is_integrated() {
                Watch::MachineForUnifiedGpu
            } else {
                Watch::Nothing
            };
            // A budget of its own: the program's counts what the program takes.
            let shared_kind = choose(
                &backend,
                &Budget::new(limit, watch),
                &Wanted {
                    by_caller: options.shared_kind,
                    by_environment: options.memory_kind,
                    measures: options.measures_memory,
                    cache_dir,
                    gpu: backend.words(),
                },
            )?;
            let budget = Budget::new(limit, watch);
            Ok(Self::from_parts(Box::new(backend), budget, shared_kind))
        }
        #[cfg(not(feature = "cuda"))]
        Err(MemError::BuiltWithoutCuda)
    }

    /// A device where the hardware leaves nothing to choose.
    fn from_backend(backend: Box<dyn Backend>, budget: Budget) -> Self {
        let shared_kind = KindChoice::by_attributes(backend.info(), NotMeasured::NothingToChoose);
        Self::from_parts(backend, budget, shared_kind)
    }

    fn from_parts(backend: Box<dyn Backend>, budget: Budget, shared_kind: KindChoice) -> Self {
        Self {
            inner: Arc::new(DeviceInner {
                backend,
                counters: Counters::default(),
                budget,
                shared_kind,
                lost: OnceLock::new(),
                deferred: Mutex::default(),
                kernels: Mutex::default(),
                events: Mutex::default(),
                staging: Mutex::default(),
                own_queue: Mutex::default(),
                has_warned: AtomicBool::new(false),
                process: process::own(),
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
    /// That is what the hardware's attributes say. On a unified GPU another kind that was measured to
    /// be a tenth faster takes its place ([`Device::shared_kind_choice`]), and the program and
    /// the user may name one ([`DeviceOptions::shared_kind`], `SPARK_MEMORY_KIND`).
    ///
    /// On a GB10 managed memory reaches about 70 % of the bandwidth of plain device
    /// memory (nvidia-uma-fault-probe), so it is not the first choice there. The measurement has not
    /// yet run on one.
    #[must_use]
    pub fn shared_kind(&self) -> BufferKind {
        self.inner.shared_kind.kind
    }

    /// The same, with what decided it and the figures.
    #[must_use]
    pub fn shared_kind_choice(&self) -> &KindChoice {
        &self.inner.shared_kind
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
        self.inner.process != process::own()
    }

    /// Tells, once for a device, that the host's accesses to its memory are copies.
    pub(crate) fn warn_of_copies(&self, n_bytes: usize) {
        if !self.inner.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "performance: {n_bytes} bytes in memory of `{}` are copied for an access of the host, \
                 as for all that follow; `TransferStats` counts them",
                self.info().name
            );
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.inner.lost.get().is_some()
    }

    pub(crate) fn tried<T>(&self, result: Result<T, DriverError>) -> Result<T, MemError> {
        result.map_err(|error| self.failed(error))
    }

    /// Remembers errors after which nothing works any more.
    pub(crate) fn failed(&self, error: DriverError) -> MemError {
        if error.is_sticky() {
            let first = self.inner.lost.get_or_init(|| error);
            return MemError::DeviceLost(first.clone());
        }
        MemError::Driver(error)
    }

    /// Keeps an error that came up where none can be returned; the next wait for a stream
    /// returns it.
    pub(crate) fn defer(&self, error: MemError) {
        tracing::error!("{error}");
        lock(&self.inner.deferred).get_or_insert(error);
    }

    pub(crate) fn take_deferred(&self) -> Result<(), MemError> {
        lock(&self.inner.deferred).take().map_or(Ok(()), Err)
    }
}

/// The CPU, with the limit of the options.
fn host(options: &DeviceOptions) -> Device {
    Device::host_with(options.budget_bytes.unwrap_or(u64::MAX))
}

/// CUDA's number of the best GPU, 0 if nobody knows.
fn best_ordinal() -> u32 {
    spark_hal::best_gpu()
        .and_then(|gpu| gpu.cuda_ordinal)
        .unwrap_or(0)
}
