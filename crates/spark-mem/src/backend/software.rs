//! A device without a driver: the host itself, or a discrete card emulated in host memory.
//!
//! ```text
//! Host       Host memory only; the device's address is the pointer
//! Emulated   Host, Pinned, Device; Device memory has addresses from 0xDEC0_0000_0000_0000
//!            on, which no processor accepts as a pointer: using one on the host faults
//! stream     work is done at once, in the calling thread; while captured it is written down
//! graph      the list that was written down
//! kernel     its host version; what it calls finds out that it is inside one
//! ```
//!
//! Deliberately absent: work that is done later. Ordering mistakes are found by the
//! stand-in driver, which defers work until something waits for it.

#![allow(unsafe_code, reason = "copies bytes between raw addresses")]

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::code::KernelCode;
use super::host_memory::{allocate_host, free_host};
use super::info::{DeviceInfo, DeviceKind};
use super::launch::{Arguments, HostFunction, LaunchOptions, LaunchShape};
use super::place::{Advice, Hint, Place, RawMemory, Side};
use super::{Backend, Handle, OUT_OF_MEMORY};
use crate::error::{DriverError, MemError};
use crate::kind::BufferKind;
use crate::lock::lock;
use crate::process;

/// Between allocations of the emulated card.
const PAGE_BYTES: usize = 4096;
/// Where emulated device memory begins: not a canonical x86-64 or AArch64 address.
const FIRST_DEVICE_ADDRESS: u64 = 0xDEC0_0000_0000_0000;

#[derive(Debug, Clone, Copy)]
struct Block {
    pointer: *mut u8,
    len_bytes: usize,
}

// SAFETY: a block is plain memory; who may touch it is decided above the backend.
unsafe impl Send for Block {}

#[derive(Clone)]
enum Op {
    Copy {
        to: usize,
        from: usize,
        n_bytes: usize,
    },
    Fill {
        at: usize,
        byte: u8,
        n_bytes: usize,
    },
    Launch {
        function: HostFunction,
        shape: LaunchShape,
        arguments: Arguments,
    },
}

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Copy { n_bytes, .. } => write!(f, "copy of {n_bytes} bytes"),
            Self::Fill { n_bytes, .. } => write!(f, "fill of {n_bytes} bytes"),
            Self::Launch { shape, .. } => write!(f, "launch of {shape:?}"),
        }
    }
}

#[derive(Debug, Default)]
struct Stream {
    /// Locked while a piece of work runs: pieces of one stream run one after the other.
    running: Mutex<()>,
    /// What it records; locked for a few instructions only, so that nobody who begins or ends a
    /// recording waits for work.
    captured: Mutex<Option<Captured>>,
}

impl Stream {
    fn captured(&self) -> Option<Captured> {
        lock(&self.captured).clone()
    }
}

/// What streams record together, in the order in which it was queued.
type Captured = Arc<Mutex<Vec<Op>>>;

#[derive(Default)]
struct Event {
    at: Option<Instant>,
    /// What it is a mark of, if that is a recording.
    captured: Option<Captured>,
}

#[derive(Default)]
struct Tables {
    streams: HashMap<Handle, Arc<Stream>>,
    events: HashMap<Handle, Event>,
    graphs: HashMap<Handle, Arc<Vec<Op>>>,
    functions: HashMap<Handle, HostFunction>,
    device_blocks: BTreeMap<u64, Block>,
    device_used_bytes: u64,
}

/// The host, or an emulated card.
pub(crate) struct Software {
    info: DeviceInfo,
    tables: Mutex<Tables>,
    next: AtomicU64,
    next_address: AtomicU64,
    /// The one it was made in.
    process: u64,
}

impl std::fmt::Debug for Software {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Software")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

thread_local! {
    /// Host versions of kernels that run on this thread.
    static KERNELS: Cell<usize> = const { Cell::new(0) };
}

/// Whether this thread is running the host version of a kernel.
pub(crate) fn is_inside_kernel() -> bool {
    KERNELS.get() > 0
}

/// Counts a host version that runs, also one that panics.
struct InsideKernel;

impl InsideKernel {
    fn enter() -> Self {
        KERNELS.set(KERNELS.get() + 1);
        Self
    }
}

impl Drop for InsideKernel {
    fn drop(&mut self) {
        KERNELS.set(KERNELS.get() - 1);
    }
}

fn failed(call: &'static str, code: i32, name: &str) -> DriverError {
    DriverError {
        call,
        code,
        name: name.to_owned(),
    }
}

impl Software {
    pub(crate) fn new(info: DeviceInfo) -> Self {
        Self {
            process: process::own(),
            info,
            tables: Mutex::default(),
            next: AtomicU64::new(1),
            next_address: AtomicU64::new(FIRST_DEVICE_ADDRESS),
        }
    }

    fn is_emulated(&self) -> bool {
        self.info.kind == DeviceKind::Emulated
    }

    fn handle(&self) -> Handle {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn stream(&self, stream: Handle) -> Arc<Stream> {
        lock(&self.tables)
            .streams
            .get(&stream)
            .cloned()
            .unwrap_or_default()
    }

    /// Where the host finds what the device calls `address`.
    fn resolve(&self, address: u64) -> usize {
        if address < FIRST_DEVICE_ADDRESS || !self.is_emulated() {
            return usize::try_from(address).unwrap_or(0);
        }
        let tables = lock(&self.tables);
        match tables.device_blocks.range(..=address).next_back() {
            Some((start, block)) => {
                let offset = usize::try_from(address - start).unwrap_or(usize::MAX);
                debug_assert!(offset <= block.len_bytes, "address outside its block");
                block.pointer as usize + offset.min(block.len_bytes)
            }
            None => 0,
        }
    }

    fn place(&self, place: Place) -> usize {
        match place {
            Place::Host(pointer) => pointer as usize,
            Place::Device(address) => self.resolve(address),
        }
    }

    /// Does the work, or writes it down while the stream is captured.
    fn submit(&self, stream: Handle, op: Op) {
        let stream = self.stream(stream);
        let _running = lock(&stream.running);
        match stream.captured() {
            Some(ops) => lock(&ops).push(op),
            None => self.execute(&op),
        }
    }

    fn execute(&self, op: &Op) {
        match op {
            Op::Copy { to, from, n_bytes } => {
                // SAFETY: `copy`'s contract: both places have this many bytes, do not
                // overlap, and nothing else writes them.
                unsafe {
                    std::ptr::copy_nonoverlapping(*from as *const u8, *to as *mut u8, *n_bytes);
                }
            }
            Op::Fill { at, byte, n_bytes } => {
                // SAFETY: `fill`'s contract.
                unsafe { std::ptr::write_bytes(*at as *mut u8, *byte, *n_bytes) };
            }
            Op::Launch {
                function,
                shape,
                arguments,
            } => {
                let arguments = arguments.for_host(|address| self.resolve(address) as *mut u8);
                let _inside = InsideKernel::enter();
                function(*shape, &arguments);
            }
        }
    }
}

impl Backend for Software {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn supports(&self, kind: BufferKind) -> Result<(), &'static str> {
        match (kind, self.is_emulated()) {
            (BufferKind::Host, _) | (BufferKind::Pinned | BufferKind::Device, true) => Ok(()),
            (BufferKind::Unified | BufferKind::System, true) => {
                Err("it emulates a card with an address space of its own")
            }
            (_, false) => Err("the host has Host memory only"),
        }
    }

    fn allocate(
        &self,
        kind: BufferKind,
        len_bytes: usize,
        taken: &mut dyn FnMut(usize),
    ) -> Result<RawMemory, DriverError> {
        let no_memory = |name: &str| failed("allocate", OUT_OF_MEMORY, name);
        if kind == BufferKind::Device {
            let mut tables = lock(&self.tables);
            let used = tables.device_used_bytes.saturating_add(len_bytes as u64);
            if used > self.info.total_bytes {
                return Err(no_memory("the emulated card is full"));
            }
            let pointer = allocate_host(len_bytes, taken);
            if pointer.is_null() {
                return Err(no_memory("the host has no memory for it"));
            }
            let room = (len_bytes as u64).next_multiple_of(PAGE_BYTES as u64) + PAGE_BYTES as u64;
            let device = self.next_address.fetch_add(room, Ordering::Relaxed);
            // Fresh device memory holds whatever was there: make that visible.
            // SAFETY: the block has this many bytes and nobody else knows it yet.
            unsafe { std::ptr::write_bytes(pointer, 0xCD, len_bytes) };
            tables
                .device_blocks
                .insert(device, Block { pointer, len_bytes });
            tables.device_used_bytes = used;
            return Ok(RawMemory {
                host: std::ptr::null_mut(),
                device,
                len_bytes,
                kind,
            });
        }
        let host = allocate_host(len_bytes, taken);
        if host.is_null() {
            return Err(no_memory("the host has no memory for it"));
        }
        let is_reached = kind != BufferKind::Host || !self.is_emulated();
        Ok(RawMemory {
            host,
            device: if is_reached { host as u64 } else { 0 },
            len_bytes,
            kind,
        })
    }

    unsafe fn free(&self, memory: RawMemory) -> Result<(), DriverError> {
        if memory.kind == BufferKind::Device {
            let mut tables = lock(&self.tables);
            let Some(block) = tables.device_blocks.remove(&memory.device) else {
                return Err(failed("free", 1, "not an allocation of this card"));
            };
            tables.device_used_bytes -= block.len_bytes as u64;
            // SAFETY: the block was in the table, so it is given back once.
            unsafe { free_host(block.pointer, block.len_bytes) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { free_host(memory.host, memory.len_bytes) };
        }
        Ok(())
    }

    fn allocates_in_order(&self) -> bool {
        false
    }

    fn allocate_in_order(
        &self,
        len_bytes: usize,
        _stream: Handle,
    ) -> Result<RawMemory, DriverError> {
        self.allocate(BufferKind::Device, len_bytes, &mut |_| {})
    }

    unsafe fn free_in_order(&self, memory: RawMemory, _stream: Handle) -> Result<(), DriverError> {
        // SAFETY: the caller's promise; work is done when it is queued.
        unsafe { self.free(memory) }
    }

    fn new_stream(&self) -> Result<Handle, DriverError> {
        let handle = self.handle();
        lock(&self.tables).streams.insert(handle, Arc::default());
        Ok(handle)
    }

    fn drop_stream(&self, stream: Handle) -> Result<(), DriverError> {
        lock(&self.tables).streams.remove(&stream);
        Ok(())
    }

    fn synchronize(&self, _stream: Handle) -> Result<(), DriverError> {
        Ok(())
    }

    fn is_idle(&self, _stream: Handle) -> Result<bool, DriverError> {
        Ok(true)
    }

    fn new_event(&self, _is_timed: bool) -> Result<Handle, DriverError> {
        let handle = self.handle();
        lock(&self.tables).events.insert(handle, Event::default());
        Ok(handle)
    }

    fn drop_event(&self, event: Handle) -> Result<(), DriverError> {
        lock(&self.tables).events.remove(&event);
        Ok(())
    }

    fn record(&self, event: Handle, stream: Handle) -> Result<(), DriverError> {
        let captured = self.stream(stream).captured();
        let mark = Event {
            at: captured.is_none().then(Instant::now),
            captured,
        };
        lock(&self.tables).events.insert(event, mark);
        Ok(())
    }

    fn wait(&self, stream: Handle, event: Handle) -> Result<(), DriverError> {
        let tables = lock(&self.tables);
        let captured = tables
            .events
            .get(&event)
            .and_then(|mark| mark.captured.clone());
        drop(tables);
        if let Some(captured) = captured {
            *lock(&self.stream(stream).captured) = Some(captured);
        }
        Ok(())
    }

    fn synchronize_event(&self, _event: Handle) -> Result<(), DriverError> {
        Ok(())
    }

    fn is_done(&self, _event: Handle) -> Result<bool, DriverError> {
        Ok(true)
    }

    fn elapsed_ms(&self, from: Handle, to: Handle) -> Result<f32, DriverError> {
        let tables = lock(&self.tables);
        let at = |event: Handle| tables.events.get(&event).and_then(|mark| mark.at);
        match (at(from), at(to)) {
            (Some(from), Some(to)) => {
                let seconds = match to.checked_duration_since(from) {
                    Some(after) => after.as_secs_f32(),
                    None => -from.duration_since(to).as_secs_f32(),
                };
                Ok(seconds * 1e3)
            }
            _ => Err(failed("elapsed_ms", 400, "an event was never recorded")),
        }
    }

    unsafe fn copy(
        &self,
        stream: Handle,
        to: Place,
        from: Place,
        n_bytes: usize,
    ) -> Result<(), DriverError> {
        let (to, from) = (self.place(to), self.place(from));
        self.submit(stream, Op::Copy { to, from, n_bytes });
        Ok(())
    }

    unsafe fn fill(
        &self,
        stream: Handle,
        address: u64,
        byte: u8,
        n_bytes: usize,
    ) -> Result<(), DriverError> {
        let at = self.resolve(address);
        self.submit(stream, Op::Fill { at, byte, n_bytes });
        Ok(())
    }

    fn prefetch(&self, _stream: Handle, _memory: RawMemory, _to: Side) -> Result<Hint, MemError> {
        Ok(Hint::NotApplicable)
    }

    fn advise(&self, _memory: RawMemory, _advice: Advice) -> Result<Hint, MemError> {
        Ok(Hint::NotApplicable)
    }

    fn load(&self, code: &KernelCode) -> Result<Handle, MemError> {
        let Some(function) = &code.host else {
            return Err(MemError::NoHostKernel {
                entry: code.entry.to_string(),
            });
        };
        let handle = self.handle();
        lock(&self.tables)
            .functions
            .insert(handle, Arc::clone(function));
        Ok(handle)
    }

    unsafe fn launch(
        &self,
        stream: Handle,
        function: Handle,
        shape: LaunchShape,
        _options: LaunchOptions,
        arguments: &Arguments,
    ) -> Result<(), DriverError> {
        let Some(function) = lock(&self.tables).functions.get(&function).cloned() else {
            return Err(failed("launch", 400, "no such kernel"));
        };
        let arguments = arguments.clone();
        let op = Op::Launch {
            function,
            shape,
            arguments,
        };
        self.submit(stream, op);
        Ok(())
    }

    fn symbol(&self, _function: Handle, _name: &str) -> Result<(u64, usize), MemError> {
        Err(MemError::Unsupported {
            what: "a constant of a kernel's file",
            why: "host versions of kernels have none".to_owned(),
        })
    }

    fn occupancy(
        &self,
        _function: Handle,
        _threads_per_block: u32,
        _shared_bytes: u32,
    ) -> Result<u32, MemError> {
        Err(MemError::Unsupported {
            what: "an occupancy query",
            why: "host versions of kernels do not run in blocks".to_owned(),
        })
    }

    fn begin_capture(&self, stream: Handle) -> Result<(), DriverError> {
        *lock(&self.stream(stream).captured) = Some(Arc::default());
        Ok(())
    }

    fn end_capture(&self, stream: Handle) -> Result<Handle, DriverError> {
        let ops = lock(&self.stream(stream).captured).take();
        let Some(ops) = ops else {
            return Err(failed("end_capture", 401, "the stream is not captured"));
        };
        let streams: Vec<_> = lock(&self.tables).streams.values().cloned().collect();
        for joined in streams {
            let mut captured = lock(&joined.captured);
            if matches!(&*captured, Some(its) if Arc::ptr_eq(its, &ops)) {
                *captured = None;
            }
        }
        let ops = std::mem::take(&mut *lock(&ops));
        let handle = self.handle();
        lock(&self.tables).graphs.insert(handle, Arc::new(ops));
        Ok(handle)
    }

    fn drop_graph(&self, graph: Handle) -> Result<(), DriverError> {
        lock(&self.tables).graphs.remove(&graph);
        Ok(())
    }

    unsafe fn launch_graph(&self, graph: Handle, stream: Handle) -> Result<(), DriverError> {
        let Some(ops) = lock(&self.tables).graphs.get(&graph).cloned() else {
            return Err(failed("launch_graph", 400, "no such graph"));
        };
        for op in ops.iter() {
            self.submit(stream, op.clone());
        }
        Ok(())
    }
}

impl Drop for Software {
    fn drop(&mut self) {
        let tables = self
            .tables
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        // A child of `fork` gives nothing back: all of it is its parent's.
        debug_assert!(
            self.process != process::own() || tables.device_blocks.is_empty(),
            "memory outlives its device"
        );
    }
}
