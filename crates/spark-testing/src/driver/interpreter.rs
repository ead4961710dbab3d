//! The interpreter of PTX behind the stand-in driver: what the driver calls when code is loaded or
//! launched.
//!
//! ```text
//! cuModuleLoadData  ── load(text) ──────> spark_ptx::Module     entries and variables, line by line
//! cuLaunchKernel    ── launch(request) ─> Module::launch        on the bytes the driver allocated
//! cuMemAlloc, …     ── allocated, freed, written ─> a shadow per piece of device memory: what was
//!                                                    never written is known
//! ```
//!
//! Plain memory of the machine, which a GB10 reads too, has no bounds here: the driver is never told
//! of it. Its pages are taken as they are; the other personas reach none and check every access.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use spark_ptx::{
    Allocation, FindingKind, GlobalMemory, LaunchConfig, Limits, LoadError, Module, Shadow,
};

/// The functions that the driver is given; `driver/interpreter.h` declares the same.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Callbacks {
    load: extern "C" fn(*const u8, usize, *mut u8, usize) -> u64,
    unload: extern "C" fn(u64),
    initial_bytes: extern "C" fn(u64, usize, *const u64, usize, *mut u8, usize) -> usize,
    launch: extern "C" fn(*const Request, *mut u8, usize) -> c_int,
    allocated: extern "C" fn(u64, usize),
    freed: extern "C" fn(u64),
    written: extern "C" fn(u64, usize),
}

/// In place of a module's number: PTX that the target refuses, as a real driver would.
const NOT_ON_TARGET: u64 = u64::MAX;

/// A launch as the driver describes it.
#[repr(C)]
struct Request {
    module: u64,
    entry: *const u8,
    entry_len: usize,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared_bytes: u32,
    persona: u32,
    seed: u64,
    parameters: *const u8,
    parameter_bytes: usize,
    globals: *const u64,
    n_globals: usize,
    regions: *const Region,
    n_regions: usize,
}

/// Memory that a kernel may touch.
#[repr(C)]
#[derive(Clone, Copy)]
struct Region {
    base: u64,
    len: u64,
    /// 0 or 1.
    is_read_only: u64,
}

pub(super) static CALLBACKS: Callbacks = Callbacks {
    load,
    unload,
    initial_bytes,
    launch,
    allocated,
    freed,
    written,
};

/// What the launches of one kernel took in the interpreter.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelCost {
    /// How often it was launched.
    pub n_launches: u64,
    /// Instructions of warps.
    pub n_instructions: u64,
    /// Time from a launch's start to its end, on the threads of the interpreter.
    pub time: Duration,
}

/// What is loaded, what is known of device memory, and what launches took.
#[derive(Default)]
struct State {
    costs: BTreeMap<String, KernelCost>,
    modules: HashMap<u64, Arc<Module>>,
    last_module: u64,
    shadows: HashMap<u64, (usize, Arc<Shadow>)>,
}

fn state() -> MutexGuard<'static, State> {
    static STATE: OnceLock<Mutex<State>> = OnceLock::new();
    let state = STATE.get_or_init(Mutex::default);
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What launches took since this was last asked, by the kernel's entry.
pub(super) fn take_costs() -> BTreeMap<String, KernelCost> {
    std::mem::take(&mut state().costs)
}

/// Bytes of the driver's.
///
/// # Safety
///
/// `len` bytes lie at `bytes`, for as long as the result is used, or `len` is 0.
unsafe fn slice<'a, T>(items: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(items, len) }
}

/// Writes a text with its NUL, cut to the room.
fn tell(text: &str, to: *mut u8, room: usize) {
    let Some(most) = room.checked_sub(1) else {
        return;
    };
    let n = text.len().min(most);
    // SAFETY: the driver gives `room` bytes at `to`, and `n + 1` are no more.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to, n);
        to.add(n).write(0);
    }
}

extern "C" fn load(text: *const u8, len: usize, told: *mut u8, room: usize) -> u64 {
    // SAFETY: the driver's text lives for the call.
    let text = String::from_utf8_lossy(unsafe { slice(text, len) });
    let module = match Module::load(&text) {
        Ok(module) => module,
        Err(why) => {
            tell(&why.to_string(), told, room);
            return match why {
                LoadError::NotOnTarget { .. } => NOT_ON_TARGET,
                _ => 0,
            };
        }
    };
    let mut lines = String::new();
    for entry in module.entries() {
        let _ = write!(
            lines,
            "entry {} {} {} {}",
            entry.name,
            entry.shared_bytes,
            entry.parameter_bytes,
            entry.max_threads.unwrap_or(0)
        );
        for size in entry.required_block.unwrap_or_default() {
            let _ = write!(lines, " {size}");
        }
        for (offset, len) in entry.parameters {
            let _ = write!(lines, " {offset} {len}");
        }
        lines.push('\n');
    }
    for global in module.globals() {
        let is_const = u32::from(global.is_const);
        let _ = writeln!(
            lines,
            "global {} {} {is_const}",
            global.name, global.len_bytes
        );
    }
    tell(&lines, told, room);
    let mut state = state();
    state.last_module += 1;
    let number = state.last_module;
    state.modules.insert(number, Arc::new(module));
    number
}

extern "C" fn unload(module: u64) {
    state().modules.remove(&module);
}

extern "C" fn initial_bytes(
    module: u64,
    global: usize,
    addresses: *const u64,
    n: usize,
    to: *mut u8,
    room: usize,
) -> usize {
    let found = state().modules.get(&module).cloned();
    // SAFETY: the driver's addresses live for the call.
    let addresses = unsafe { slice(addresses, n) };
    let bytes = found.and_then(|module| module.initial_bytes(global, addresses));
    let bytes = bytes.unwrap_or_default();
    let n = bytes.len().min(room);
    // SAFETY: the driver gives `room` bytes at `to`.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, n) };
    n
}

extern "C" fn allocated(base: u64, len: usize) {
    let shadow = Arc::new(Shadow::new(len));
    state().shadows.insert(base, (len, shadow));
}

extern "C" fn freed(base: u64) {
    state().shadows.remove(&base);
}

extern "C" fn written(address: u64, len: usize) {
    for (base, (own_len, shadow)) in &state().shadows {
        if (*base..*base + *own_len as u64).contains(&address) {
            shadow.mark((address - base) as usize, len);
        }
    }
}

/// The driver's memory, by its real addresses.
struct DriverMemory {
    allocations: Vec<Allocation>,
}

/// What the posed GPU takes, by its number in `driver/personas.h`.
fn limits_of(persona: u32) -> Limits {
    match persona {
        1 => Limits::H200,
        2 => Limits::ORIN,
        3 => Limits::A100,
        _ => Limits::GB10,
    }
}

/// `ILLEGAL_ADDRESS`, `MISALIGNED_ADDRESS`, `LAUNCH_TIMEOUT`, `LAUNCH_FAILED` of cuda.h.
fn code_of(kind: &FindingKind) -> c_int {
    match kind {
        FindingKind::OutOfBounds { .. } => 700,
        FindingKind::Misaligned { .. } => 716,
        FindingKind::Deadlock { .. } | FindingKind::Budget { .. } => 702,
        _ => 719,
    }
}

extern "C" fn launch(request: *const Request, told: *mut u8, room: usize) -> c_int {
    // SAFETY: the driver's request, and everything it points to, lives for the call.
    let (request, entry, parameters, globals, regions) = unsafe {
        let request = &*request;
        (
            request,
            slice(request.entry, request.entry_len),
            slice(request.parameters, request.parameter_bytes),
            slice(request.globals, request.n_globals),
            slice(request.regions, request.n_regions),
        )
    };
    let (module, allocations) = {
        let state = state();
        let Some(module) = state.modules.get(&request.module).cloned() else {
            tell("the module is gone", told, room);
            return 719;
        };
        let allocation = |region: &Region| Allocation {
            base: region.base,
            len: region.len,
            shadow: state
                .shadows
                .get(&region.base)
                .map(|(_, shadow)| Arc::clone(shadow)),
            is_read_only: region.is_read_only != 0,
            name: None,
        };
        (module, regions.iter().map(allocation).collect())
    };
    let config = LaunchConfig {
        dynamic_shared_bytes: request.dynamic_shared_bytes,
        seed: request.seed,
        limits: limits_of(request.persona),
        globals: globals.to_vec(),
        // A minute or two of one that never ends; no kernel of a test takes a hundredth.
        budget: 1 << 32,
        ..LaunchConfig::new(request.grid, request.block)
    };
    let entry = String::from_utf8_lossy(entry);
    let memory = DriverMemory { allocations };
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let start = Instant::now();
    match module.launch(&entry, &config, parameters, &memory, n_threads) {
        Ok(report) => {
            let mut state = state();
            let cost = state.costs.entry(entry.into_owned()).or_default();
            cost.n_launches += 1;
            cost.n_instructions += report.instructions;
            cost.time += start.elapsed();
            match report.findings.first() {
                None => 0,
                Some(finding) => {
                    tell(&finding.to_string(), told, room);
                    code_of(&finding.kind)
                }
            }
        }
        Err(why) => {
            tell(&why.to_string(), told, room);
            1
        }
    }
}

impl GlobalMemory for DriverMemory {
    fn allocations(&self) -> Vec<Allocation> {
        self.allocations.clone()
    }

    fn load(&self, address: u64, bytes: &mut [u8]) {
        // SAFETY: the interpreter asks for bytes inside of one allocation, which the driver keeps
        // for the launch. Other blocks may write them meanwhile, as on a GPU; the checks report
        // that, and a torn value is then as good as any.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), bytes.len());
        }
    }

    fn store(&self, address: u64, bytes: &[u8]) {
        // SAFETY: as for `load`; the driver opened its memory for writing.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    }

    fn update_32(&self, address: u64, change: &mut dyn FnMut(u32) -> u32) -> u32 {
        // SAFETY: as for `store`, and the address is a multiple of 4.
        let cell = unsafe { AtomicU32::from_ptr(address as *mut u32) };
        let mut old = cell.load(Ordering::Relaxed);
        loop {
            match cell.compare_exchange(old, change(old), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(old) => return old,
                Err(other) => old = other,
            }
        }
    }

    fn update_64(&self, address: u64, change: &mut dyn FnMut(u64) -> u64) -> u64 {
        // SAFETY: as for `store`, and the address is a multiple of 8.
        let cell = unsafe { AtomicU64::from_ptr(address as *mut u64) };
        let mut old = cell.load(Ordering::Relaxed);
        loop {
            match cell.compare_exchange(old, change(old), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(old) => return old,
                Err(other) => old = other,
            }
        }
    }
}
