//! A GPU, through the CUDA driver.
//!
//! ```text
//! open   dlopen and dlsym by spark-hal -> list of symbols -> primary context retained
//! call   context made current on this thread if it is not, then one driver function
//! drop   modules unloaded, context released
//! ```
//!
//! Code stands in `images` (modules), `compiler` and `nvrtc`; what is launched in `functions`.
//!
//! cudarc's declarations are used and none of its safe layer: it tracks events per slice
//! and ends the process when a library or function is missing. What is called here was
//! looked up first (`symbols`). A driver newer than the declarations that answered with an
//! error number they do not know could not be represented; CUDA 13.0's list is used.

#![allow(unsafe_code, reason = "calls the CUDA driver")]

mod call;
mod compiler;
mod functions;
mod images;
mod includes;
mod nvrtc;
mod symbols;

use std::ffi::{c_int, c_uint, c_void};
use std::path::Path;

use cudarc::driver::sys::{self, CUmem_advise_enum as CuAdvice, CUresult};
use spark_hal::Reading;
use spark_hal::cuda::{CudaApi as _, CudaDriver, CudaUnavailable};
use spark_hal::gpu::CudaAttribute;
use spark_hal::stack::Version;

use super::cache::KernelCache;
use super::code::KernelCode;
use super::host_memory::{allocate_host, free_host};
use super::info::{DeviceInfo, DeviceKind};
use super::launch::{Arguments, LaunchOptions, LaunchShape};
use super::place::{Advice, Hint, Place, RawMemory, Side};
use super::{Backend, Handle, OUT_OF_MEMORY};
use crate::error::{DriverError, MemError};
use crate::kind::BufferKind;
use crate::process;
use call::{call, check, pointer};
use functions::Functions;
use images::Images;

pub(crate) use images::{compile, precompile};

/// One GPU and its primary context.
#[derive(Debug)]
pub(crate) struct Cuda {
    driver: &'static CudaDriver,
    info: DeviceInfo,
    /// What tells the GPU from others of its model, and what it is, for people.
    words: (String, String),
    is_integrated: bool,
    has_managed: bool,
    has_pageable: bool,
    /// Memory is taken and given back in the order of streams.
    has_pools: bool,
    use_unified: bool,
    device: c_int,
    context: Handle,
    images: Images,
    functions: Functions,
    /// The process that opened it; a child of `fork` must not call the driver.
    process: u64,
}

impl Cuda {
    /// CUDA's device of this number. `use_unified`: whether memory shared with the CPU may be
    /// made use of. Compiled kernels are kept under `cache_dir`, if there is one.
    pub(crate) fn open(
        ordinal: u32,
        use_unified: bool,
        cache_dir: Option<&Path>,
    ) -> Result<Self, MemError> {
        let driver = spark_hal::cuda::driver()?;
        symbols::check_driver()?;
        if ordinal >= driver.device_count().map_err(CudaUnavailable::from)? {
            return Err(CudaUnavailable::NoDevice.into());
        }
        let found = driver.describe(ordinal).map_err(CudaUnavailable::from)?;
        let is = |attribute| known(found.attributes.flag(attribute), false);
        let count = |attribute| known(found.attributes.count(attribute), 0);
        let is_integrated = is(CudaAttribute::Integrated)?;
        let has_pageable = is(CudaAttribute::PageableMemoryAccess)?;
        let shares_page_tables =
            has_pageable && is(CudaAttribute::PageableMemoryAccessUsesHostPageTables)?;
        let has_managed =
            is(CudaAttribute::ManagedMemory)? && is(CudaAttribute::ConcurrentManagedAccess)?;
        let has_pools = is(CudaAttribute::MemoryPoolsSupported)?;
        if is_integrated && !use_unified {
            tracing::warn!(
                "the GPU shares the machine's memory and that is switched off: data are copied"
            );
        }
        let info = DeviceInfo {
            kind: DeviceKind::Cuda(ordinal),
            name: known(found.name, format!("CUDA device {ordinal}"))?,
            compute: known(found.compute.map(Some), None)?,
            is_unified: is_integrated && use_unified,
            shares_page_tables: shares_page_tables && use_unified,
            total_bytes: known(found.total_memory_bytes, 0)?,
            n_multiprocessors: count(CudaAttribute::MultiprocessorCount)?,
            shared_bytes_per_block: count(CudaAttribute::MaxSharedMemoryPerBlockOptin)?,
        };
        let version = known(driver.version().map(Some), None)?;
        // Figures that are kept without it serve every GPU of the model.
        let uuid = found.uuid.value().unwrap_or_default();
        let about = about(&info, version.as_ref());
        let images = Images::new(info.compute, version, cache_dir.map(KernelCache::new));
        let (device, context) = retain(ordinal)?;
        Ok(Self {
            driver,
            info,
            words: (uuid, about),
            is_integrated,
            has_managed,
            has_pageable,
            has_pools,
            use_unified,
            device,
            context,
            images,
            functions: Functions::default(),
            process: process::own(),
        })
    }

    /// Whether the GPU works in the machine's memory.
    pub(crate) fn is_integrated(&self) -> bool {
        self.is_integrated
    }

    /// What tells the GPU from others of its model, and what it is, for people.
    pub(crate) fn words(&self) -> (&str, &str) {
        (&self.words.0, &self.words.1)
    }

    /// Makes the context current on this thread; others may have made theirs. It is also
    /// tried after a failure: what gives something back goes on and reports it afterwards.
    fn enter(&self) -> Result<(), DriverError> {
        let mut current: sys::CUcontext = std::ptr::null_mut();
        // SAFETY: the driver is started; `current` is writable.
        let asked = unsafe { call!(cuCtxGetCurrent(&raw mut current)) };
        if asked.is_ok() && current as Handle == self.context {
            return Ok(());
        }
        // SAFETY: the context is retained until this value is dropped.
        let set = unsafe { call!(cuCtxSetCurrent(pointer(self.context))) };
        asked.and(set)
    }
}

/// What the driver told. An answer it does not have is `absent`; one that failed is an
/// error: a Spark must not be taken for a card because a call went wrong.
fn known<T>(reading: Reading<T>, absent: T) -> Result<T, MemError> {
    match reading {
        Reading::Value(value) => Ok(value),
        Reading::NotSupported => Ok(absent),
        Reading::Failed(why) => Err(CudaUnavailable::from(why).into()),
    }
}

/// The GPU and the driver's CUDA version in words.
fn about(info: &DeviceInfo, version: Option<&Version>) -> String {
    let mut about = info.name.clone();
    if let Some(compute) = info.compute {
        about += &format!(", compute capability {compute}");
    }
    if let Some(version) = version {
        about += &format!(", CUDA {version}");
    }
    about
}

fn retain(ordinal: u32) -> Result<(c_int, Handle), DriverError> {
    let number = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
    let mut device = 0;
    // SAFETY: the driver is started; a wrong number is answered with an error.
    unsafe { call!(cuDeviceGet(&raw mut device, number)) }?;
    let mut context: sys::CUcontext = std::ptr::null_mut();
    // SAFETY: the device is valid; `context` is writable.
    unsafe { call!(cuDevicePrimaryCtxRetain(&raw mut context, device)) }?;
    Ok((device, context as Handle))
}

impl Backend for Cuda {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn supports(&self, kind: BufferKind) -> Result<(), &'static str> {
        match kind {
            BufferKind::Host | BufferKind::Pinned | BufferKind::Device => Ok(()),
            BufferKind::Unified | BufferKind::System if !self.use_unified => {
                Err("sharing memory with the GPU is switched off")
            }
            BufferKind::Unified if self.has_managed => Ok(()),
            BufferKind::Unified => Err("CPU and GPU may not use managed memory at the same time"),
            BufferKind::System if self.has_pageable => Ok(()),
            BufferKind::System => Err("the GPU cannot read plain memory of the system"),
        }
    }

    fn allocate(
        &self,
        kind: BufferKind,
        len_bytes: usize,
        taken: &mut dyn FnMut(usize),
    ) -> Result<RawMemory, DriverError> {
        self.enter()?;
        let mut host: *mut u8 = std::ptr::null_mut();
        let mut device: sys::CUdeviceptr = 0;
        match kind {
            BufferKind::Host | BufferKind::System => {
                host = allocate_host(len_bytes, taken);
                if host.is_null() {
                    return Err(DriverError {
                        call: "malloc",
                        code: OUT_OF_MEMORY,
                        name: "the system has no memory".to_owned(),
                    });
                }
                if kind == BufferKind::System {
                    device = host as u64;
                }
            }
            BufferKind::Pinned => {
                let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
                let place = (&raw mut host).cast::<*mut c_void>();
                // SAFETY: `host` is writable; the size is not 0.
                unsafe { call!(cuMemHostAlloc(place, len_bytes, flags)) }?;
                device = host as u64;
            }
            BufferKind::Unified => {
                let flags = sys::CUmemAttach_flags_enum::CU_MEM_ATTACH_GLOBAL as c_uint;
                // SAFETY: `device` is writable; the size is not 0.
                unsafe { call!(cuMemAllocManaged(&raw mut device, len_bytes, flags)) }?;
                host = pointer(device);
            }
            BufferKind::Device => {
                // SAFETY: `device` is writable; the size is not 0.
                unsafe { call!(cuMemAlloc_v2(&raw mut device, len_bytes)) }?;
            }
        }
        if matches!(kind, BufferKind::Pinned | BufferKind::Unified) {
            // SAFETY: new host-visible memory of this many bytes that nobody else knows.
            unsafe { std::ptr::write_bytes(host, 0, len_bytes) };
        }
        Ok(RawMemory {
            host,
            device,
            len_bytes,
            kind,
        })
    }

    unsafe fn free(&self, memory: RawMemory) -> Result<(), DriverError> {
        match memory.kind {
            BufferKind::Host | BufferKind::System => {
                // SAFETY: the caller's promise: allocated above, given back once.
                unsafe { free_host(memory.host, memory.len_bytes) };
                Ok(())
            }
            BufferKind::Pinned => {
                let entered = self.enter();
                // SAFETY: as above.
                entered.and(unsafe { call!(cuMemFreeHost(memory.host.cast())) })
            }
            BufferKind::Unified | BufferKind::Device => {
                let entered = self.enter();
                // SAFETY: as above.
                entered.and(unsafe { call!(cuMemFree_v2(memory.device)) })
            }
        }
    }

    fn allocates_in_order(&self) -> bool {
        self.has_pools
    }

    fn allocate_in_order(
        &self,
        len_bytes: usize,
        stream: Handle,
    ) -> Result<RawMemory, DriverError> {
        self.enter()?;
        let mut device: sys::CUdeviceptr = 0;
        // SAFETY: `device` is writable; the size is not 0; a live stream; the device has pools.
        unsafe { call!(cuMemAllocAsync(&raw mut device, len_bytes, pointer(stream))) }?;
        Ok(RawMemory {
            host: std::ptr::null_mut(),
            device,
            len_bytes,
            kind: BufferKind::Device,
        })
    }

    unsafe fn free_in_order(&self, memory: RawMemory, stream: Handle) -> Result<(), DriverError> {
        let entered = self.enter();
        // SAFETY: the caller's promise; a live stream.
        entered.and(unsafe { call!(cuMemFreeAsync(memory.device, pointer(stream))) })
    }

    fn new_stream(&self) -> Result<Handle, DriverError> {
        self.enter()?;
        let mut stream: sys::CUstream = std::ptr::null_mut();
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as c_uint;
        // SAFETY: `stream` is writable.
        unsafe { call!(cuStreamCreate(&raw mut stream, flags)) }?;
        Ok(stream as Handle)
    }

    fn drop_stream(&self, stream: Handle) -> Result<(), DriverError> {
        let entered = self.enter();
        // SAFETY: a live stream, given back once; the driver finishes its work first.
        entered.and(unsafe { call!(cuStreamDestroy_v2(pointer(stream))) })
    }

    fn synchronize(&self, stream: Handle) -> Result<(), DriverError> {
        self.enter()?;
        // SAFETY: a live stream.
        unsafe { call!(cuStreamSynchronize(pointer(stream))) }
    }

    fn is_idle(&self, stream: Handle) -> Result<bool, DriverError> {
        self.enter()?;
        // SAFETY: a live stream.
        ready(unsafe { call!(cuStreamQuery(pointer(stream))) })
    }

    fn new_event(&self, is_timed: bool) -> Result<Handle, DriverError> {
        self.enter()?;
        let mut event: sys::CUevent = std::ptr::null_mut();
        let flags = if is_timed {
            sys::CUevent_flags_enum::CU_EVENT_DEFAULT
        } else {
            sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING
        };
        // SAFETY: `event` is writable.
        unsafe { call!(cuEventCreate(&raw mut event, flags as c_uint)) }?;
        Ok(event as Handle)
    }

    fn drop_event(&self, event: Handle) -> Result<(), DriverError> {
        let entered = self.enter();
        // SAFETY: a live event, given back once.
        entered.and(unsafe { call!(cuEventDestroy_v2(pointer(event))) })
    }

    fn record(&self, event: Handle, stream: Handle) -> Result<(), DriverError> {
        self.enter()?;
        // SAFETY: both are live.
        unsafe { call!(cuEventRecord(pointer(event), pointer(stream))) }
    }

    fn wait(&self, stream: Handle, event: Handle) -> Result<(), DriverError> {
        self.enter()?;
        // SAFETY: both are live; the flags must be 0.
        unsafe { call!(cuStreamWaitEvent(pointer(stream), pointer(event), 0)) }
    }

    fn synchronize_event(&self, event: Handle) -> Result<(), DriverError> {
        self.enter()?;
        // SAFETY: a live event.
        unsafe { call!(cuEventSynchronize(pointer(event))) }
    }

    fn is_done(&self, event: Handle) -> Result<bool, DriverError> {
        self.enter()?;
        // SAFETY: a live event.
        ready(unsafe { call!(cuEventQuery(pointer(event))) })
    }

    fn elapsed_ms(&self, from: Handle, to: Handle) -> Result<f32, DriverError> {
        self.enter()?;
        let mut ms = 0.0;
        let (from, to) = (pointer(from), pointer(to));
        if self.driver.has_symbol(symbols::ELAPSED) {
            // SAFETY: the driver has the function; both are live; `ms` is writable.
            unsafe { call!(cuEventElapsedTime_v2(&raw mut ms, from, to)) }?;
            return Ok(ms);
        }
        // Older than CUDA 12.8: the declarations at hand no longer have the function.
        let Some(address) = self.driver.address_of(symbols::OLD_ELAPSED) else {
            return Err(DriverError {
                call: symbols::OLD_ELAPSED,
                code: CUresult::CUDA_ERROR_NOT_FOUND as i32,
                name: "the driver has no such function".to_owned(),
            });
        };
        type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> CUresult;
        // SAFETY: `cuda.h` gives the function of this name this type; the driver stays open.
        let elapsed: Elapsed = unsafe { std::mem::transmute(address.as_ptr()) };
        // SAFETY: both are live; `ms` is writable.
        check(symbols::OLD_ELAPSED, unsafe {
            elapsed(&raw mut ms, from, to)
        })?;
        Ok(ms)
    }

    unsafe fn copy(
        &self,
        stream: Handle,
        to: Place,
        from: Place,
        n_bytes: usize,
    ) -> Result<(), DriverError> {
        self.enter()?;
        let queue = pointer(stream);
        match (to, from) {
            (Place::Device(to), Place::Device(from)) => {
                // SAFETY: the caller's promise for both places.
                unsafe { call!(cuMemcpyAsync(to, from, n_bytes, queue)) }
            }
            (Place::Device(to), Place::Host(from)) => {
                // SAFETY: as above. The driver has taken pageable memory when it returns.
                unsafe { call!(cuMemcpyHtoDAsync_v2(to, from.cast(), n_bytes, queue)) }
            }
            (Place::Host(to), Place::Device(from)) => {
                // SAFETY: as above.
                unsafe { call!(cuMemcpyDtoHAsync_v2(to.cast(), from, n_bytes, queue)) }
            }
            (Place::Host(to), Place::Host(from)) => {
                self.synchronize(stream)?;
                // SAFETY: as above; the stream has passed all earlier work.
                unsafe { std::ptr::copy_nonoverlapping(from, to, n_bytes) };
                Ok(())
            }
        }
    }

    unsafe fn fill(
        &self,
        stream: Handle,
        address: u64,
        byte: u8,
        n_bytes: usize,
    ) -> Result<(), DriverError> {
        self.enter()?;
        // SAFETY: the caller's promise for the memory.
        unsafe { call!(cuMemsetD8Async(address, byte, n_bytes, pointer(stream))) }
    }

    fn prefetch(&self, stream: Handle, memory: RawMemory, to: Side) -> Result<Hint, MemError> {
        if memory.kind != BufferKind::Unified {
            return Ok(Hint::NotApplicable);
        }
        self.require(symbols::PREFETCH, "prefetching")?;
        self.enter()?;
        let location = self.location(to);
        // SAFETY: managed memory of this many bytes and a live stream; the driver has the
        // function; the flags must be 0.
        unsafe {
            call!(cuMemPrefetchAsync_v2(
                memory.device,
                memory.len_bytes,
                location,
                0,
                pointer(stream)
            ))
        }?;
        Ok(Hint::Given)
    }

    fn advise(&self, memory: RawMemory, advice: Advice) -> Result<Hint, MemError> {
        if memory.kind != BufferKind::Unified {
            return Ok(Hint::NotApplicable);
        }
        self.require(symbols::ADVISE, "advice on memory")?;
        self.enter()?;
        let (advice, side) = match advice {
            Advice::MostlyRead => (CuAdvice::CU_MEM_ADVISE_SET_READ_MOSTLY, Side::Device),
            Advice::NotMostlyRead => (CuAdvice::CU_MEM_ADVISE_UNSET_READ_MOSTLY, Side::Device),
            Advice::PreferredSide(side) => (CuAdvice::CU_MEM_ADVISE_SET_PREFERRED_LOCATION, side),
            Advice::AccessedFrom(side) => (CuAdvice::CU_MEM_ADVISE_SET_ACCESSED_BY, side),
        };
        let location = self.location(side);
        // SAFETY: managed memory of this many bytes; the driver has the function.
        unsafe {
            call!(cuMemAdvise_v2(
                memory.device,
                memory.len_bytes,
                advice,
                location
            ))
        }?;
        Ok(Hint::Given)
    }

    fn load(&self, code: &KernelCode) -> Result<Handle, MemError> {
        self.enter()?;
        let module = self.images.module(&code.image)?;
        self.functions.load(self.driver, module, code)
    }

    unsafe fn launch(
        &self,
        stream: Handle,
        function: Handle,
        shape: LaunchShape,
        options: LaunchOptions,
        arguments: &Arguments,
    ) -> Result<(), DriverError> {
        self.enter()?;
        let is_early = options.programmatic_dependency && self.begins_early();
        // SAFETY: the caller's promise; the stream is live.
        unsafe {
            self.functions
                .launch(stream, function, shape, is_early, arguments)
        }
    }

    fn symbol(&self, function: Handle, name: &str) -> Result<(u64, usize), MemError> {
        self.enter()?;
        self.functions.symbol(function, name)
    }

    fn occupancy(
        &self,
        function: Handle,
        threads_per_block: u32,
        shared_bytes: u32,
    ) -> Result<u32, MemError> {
        self.enter()?;
        Ok(self
            .functions
            .occupancy(function, threads_per_block, shared_bytes)?)
    }

    fn begin_capture(&self, stream: Handle) -> Result<(), DriverError> {
        self.enter()?;
        // Relaxed: memory may be allocated and freed meanwhile, which does not concern the
        // recording; what would is refused by `Stream`.
        let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: a live stream that is not captured.
        unsafe { call!(cuStreamBeginCapture_v2(pointer(stream), mode)) }
    }

    fn end_capture(&self, stream: Handle) -> Result<Handle, DriverError> {
        let entered = self.enter();
        let mut graph: sys::CUgraph = std::ptr::null_mut();
        // SAFETY: a live stream; `graph` is writable.
        unsafe { call!(cuStreamEndCapture(pointer(stream), &raw mut graph)) }?;
        let mut ready: sys::CUgraphExec = std::ptr::null_mut();
        // SAFETY: a recorded graph; `ready` is writable.
        let made = unsafe { call!(cuGraphInstantiateWithFlags(&raw mut ready, graph, 0)) };
        // SAFETY: the graph, given back once; what was made of it stands alone.
        let dropped = unsafe { call!(cuGraphDestroy(graph)) };
        made?;
        if let Err(error) = entered.and(dropped) {
            // SAFETY: just made, and handed to nobody.
            let _ = unsafe { call!(cuGraphExecDestroy(ready)) };
            return Err(error);
        }
        Ok(ready as Handle)
    }

    fn drop_graph(&self, graph: Handle) -> Result<(), DriverError> {
        let entered = self.enter();
        // SAFETY: a live graph, given back once; the driver finishes its launches first.
        entered.and(unsafe { call!(cuGraphExecDestroy(pointer(graph))) })
    }

    unsafe fn launch_graph(&self, graph: Handle, stream: Handle) -> Result<(), DriverError> {
        self.enter()?;
        // SAFETY: both are live; the rest is the caller's promise.
        unsafe { call!(cuGraphLaunch(pointer(graph), pointer(stream))) }
    }
}

impl Cuda {
    fn location(&self, side: Side) -> sys::CUmemLocation {
        let (type_, id) = match side {
            Side::Host => (sys::CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_HOST, 0),
            Side::Device => (
                sys::CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE,
                self.device,
            ),
        };
        sys::CUmemLocation { type_, id }
    }

    /// Whether kernels can wait for the one in front of them by themselves.
    fn begins_early(&self) -> bool {
        self.info.compute.is_some_and(|compute| compute.major >= 9)
    }

    fn require(&self, symbol: &str, what: &'static str) -> Result<(), MemError> {
        if self.driver.has_symbol(symbol) {
            return Ok(());
        }
        Err(MemError::Unsupported {
            what,
            why: format!("the driver has no `{symbol}`"),
        })
    }
}

/// "Not ready" is an answer, no error.
fn ready(result: Result<(), DriverError>) -> Result<bool, DriverError> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.code == CUresult::CUDA_ERROR_NOT_READY as i32 => Ok(false),
        Err(error) => Err(error),
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if self.process != process::own() {
            return;
        }
        // Errors have no receiver any more; releasing the context takes the rest with it.
        let _ = self.enter();
        // Memory is given back in the order of queues, so that nobody has waited for the last work yet.
        // SAFETY: the context is current, or the driver says that it is not.
        if let Err(error) = unsafe { call!(cuCtxSynchronize()) } {
            tracing::error!("the last work on `{}`: {error}", self.info.name);
        }
        self.images.unload();
        // SAFETY: retained once when opened, and nothing of it is used any more.
        let _ = unsafe { call!(cuDevicePrimaryCtxRelease_v2(self.device)) };
    }
}
