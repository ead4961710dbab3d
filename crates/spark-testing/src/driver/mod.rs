//! The stand-in CUDA driver: `driver/*.cpp`, compiled by the host compiler when a test first asks for
//! it, and loaded in the driver's place.
//!
//! ```text
//! Build { kernels, includes, … } ──cc──> <build folder>/<hash>/libcuda.so.1   everything
//!                                                                 /libcuda.so  libnvrtc.so*
//! StandInDriver::load(&build) ──> the names above are open, so whoever asks for them by
//!                                 name gets these; a started program: LD_LIBRARY_PATH
//! driver.pose(Persona::Card)  ──> an H200, or another of four GPUs, and nothing has happened yet; faults
//!                                 are set, calls held, the record read
//! ```
//!
//! Kernels run as what ships. NVIDIA's own NVRTC (`nvrtc`) compiles their sources, with their headers and
//! options, for the GPU it poses as, its assembler included, which refuses what that GPU lacks and says
//! what registers a kernel takes. `spark-ptx` interprets the PTX, inline assembly included, on the memory
//! that the driver handed out (`interpreter`); what it finds wrong ends the context and is a violation. Only
//! the chip is missing. Without NVRTC, and in programs that tests start as a process,
//! the kernels are the `.cu` files of `Build`, compiled by the host compiler; images that a test
//! writes by hand name those too.
//!
//! With `SPARK_STAND_IN_SANITIZE=1` the driver is built with the address and undefined-behaviour
//! sanitisers; the process must then be started with the compiler's `libasan` preloaded.
//! `SPARK_STAND_IN_KERNELS=host` leaves the interpreter out.

#![allow(
    unsafe_code,
    reason = "loads a library of ours and calls its functions"
)]

mod build;
mod interpreter;
mod nvrtc;

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_long, c_uint};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use build::{Build, Flavor, kernels_in};
pub use interpreter::KernelCost;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// What the driver poses as. Every attribute and its source: `driver/personas.cpp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persona {
    /// A GB10: plain memory and the CPU's page tables are the GPU's too; compute capability 12.1, 48
    /// multiprocessors, 99 KiB of shared memory for a block.
    Spark,
    /// An H200, but with 4 GiB, so that a test can ask for more: discrete, 9.0, 132 multiprocessors,
    /// 227 KiB of shared memory.
    Card,
    /// A Jetson AGX Orin: one memory, but plain memory is the CPU's alone, and managed memory belongs
    /// to one side at a time (a host that touches it while a kernel is queued faults); no memory
    /// pools; 8.7, 16 multiprocessors, 163 KiB of shared memory. It runs no machine code of other GPUs.
    Jetson,
    /// An A100 with 40 GB: discrete and old, without types of 8 bits, clusters, and kernels that begin before
    /// the one in front has ended; 8.0, 108 multiprocessors, 163 KiB of shared memory.
    Ampere,
}

impl Persona {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Spark, Self::Card, Self::Jetson, Self::Ampere];

    fn number(self) -> c_int {
        match self {
            Self::Spark => 0,
            Self::Card => 1,
            Self::Jetson => 2,
            Self::Ampere => 3,
        }
    }

    /// Its name in `SPARK_STAND_IN_PERSONA`, for programs started as a process.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Spark => "spark",
            Self::Card => "card",
            Self::Jetson => "jetson",
            Self::Ampere => "ampere",
        }
    }
}

/// What the driver has handed out and not been given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Live {
    /// Pieces of memory that were allocated and not freed.
    pub allocations: usize,
    /// Streams that were created and not destroyed.
    pub streams: usize,
    /// Events that were created and not destroyed.
    pub events: usize,
    /// Modules that were loaded and not unloaded.
    pub modules: usize,
    /// Graphs that were made and not destroyed.
    pub graphs: usize,
    /// Times the context is retained.
    pub contexts: usize,
    /// Programs of the compiler.
    pub programs: usize,
}

/// The stand-in driver, loaded for the life of the process.
#[derive(Debug)]
pub struct StandInDriver {
    directory: PathBuf,
    runs_ptx: bool,
    functions: Functions,
    posed: Mutex<()>,
}

#[derive(Debug)]
struct Functions {
    pose: unsafe extern "C" fn(c_int),
    set_version: unsafe extern "C" fn(c_int),
    set_seed: unsafe extern "C" fn(u64),
    fail_call: unsafe extern "C" fn(c_long, c_int),
    fail_named: unsafe extern "C" fn(*const c_char, c_long, c_int),
    fail_every: unsafe extern "C" fn(*const c_char, c_int),
    fail_allocation: unsafe extern "C" fn(c_long),
    fail_kernel: unsafe extern "C" fn(c_long, c_int),
    hold: unsafe extern "C" fn(*const c_char),
    await_held: unsafe extern "C" fn(c_uint) -> c_int,
    let_go: unsafe extern "C" fn(),
    n_calls: unsafe extern "C" fn() -> usize,
    calls: unsafe extern "C" fn(*mut u8, usize) -> usize,
    violations: unsafe extern "C" fn(*mut u8, usize) -> usize,
    live: unsafe extern "C" fn(*mut usize),
    live_programs: unsafe extern "C" fn() -> usize,
}

fn symbol<F: Copy>(library: &Library, name: &str) -> io::Result<F> {
    // SAFETY: every use below names the type that the function has in `driver/*.cpp`.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found.map(|found| *found).map_err(io::Error::other)
}

/// Lets kernels run as what NVIDIA's compiler makes of them, where that is at hand.
fn lend_interpreter(library: &Library, keeps_to_ptx: bool) -> io::Result<bool> {
    // A sanitiser watches what its compiler built: kernels too, then.
    if std::env::var_os("SPARK_STAND_IN_KERNELS").is_some_and(|value| value == "host") {
        return Ok(false);
    }
    let Some(compiler) = nvrtc::find() else {
        return nvrtc::say_that_it_is_missing().map(|()| false);
    };
    // It asks for its second library by name alone, which is then open already.
    for builtins in nvrtc::builtins_beside(&compiler) {
        // SAFETY: NVIDIA's library, whose initialisers touch nothing of this process.
        let opened = unsafe { Library::open(Some(&builtins), RTLD_NOW | RTLD_GLOBAL) };
        Box::leak(Box::new(opened.map_err(io::Error::other)?));
    }
    let kept = Path::new(env!("OUT_DIR")).join("ptx");
    std::fs::create_dir_all(&kept)?;
    let text = |path: &Path| CString::new(path.as_os_str().as_encoded_bytes());
    let (path, kept) = (text(&compiler)?, text(&kept)?);
    type UseCompiler = unsafe extern "C" fn(*const c_char, *const c_char, c_int) -> c_int;
    type SetInterpreter = unsafe extern "C" fn(*const interpreter::Callbacks);
    let use_compiler: UseCompiler = symbol(library, "stand_in_use_compiler")?;
    // SAFETY: both texts end with NUL and are copied.
    if unsafe { use_compiler(path.as_ptr(), kept.as_ptr(), c_int::from(!keeps_to_ptx)) } == 0 {
        let what = format!("`{}` cannot be opened", compiler.display());
        return Err(io::Error::other(what));
    }
    let set_interpreter: SetInterpreter = symbol(library, "stand_in_set_interpreter")?;
    // SAFETY: the functions are there for the life of the process.
    unsafe { set_interpreter(&raw const interpreter::CALLBACKS) };
    Ok(true)
}

impl StandInDriver {
    /// Builds what is not built yet and opens it. A process can hold one build only.
    ///
    /// # Errors
    ///
    /// The compiler's or the linker's words.
    pub fn load(build: &Build<'_>) -> io::Result<Self> {
        let directory = build.make()?;
        let mut main = None;
        for name in build::LIBRARIES {
            let file = directory.join(name);
            // SAFETY: a library of ours whose initialisers link lists and read variables.
            let library = unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_GLOBAL) };
            let library = Box::leak(Box::new(library.map_err(io::Error::other)?));
            main.get_or_insert(library);
        }
        let Some(library) = main else {
            return Err(io::Error::other("nothing was built"));
        };
        let functions = Functions {
            pose: symbol(library, "stand_in_pose")?,
            set_version: symbol(library, "stand_in_set_version")?,
            set_seed: symbol(library, "stand_in_set_seed")?,
            fail_call: symbol(library, "stand_in_fail_call")?,
            fail_named: symbol(library, "stand_in_fail_named")?,
            fail_every: symbol(library, "stand_in_fail_every")?,
            fail_allocation: symbol(library, "stand_in_fail_allocation")?,
            fail_kernel: symbol(library, "stand_in_fail_kernel")?,
            hold: symbol(library, "stand_in_hold")?,
            await_held: symbol(library, "stand_in_await_held")?,
            let_go: symbol(library, "stand_in_let_go")?,
            n_calls: symbol(library, "stand_in_n_calls")?,
            calls: symbol(library, "stand_in_calls")?,
            violations: symbol(library, "stand_in_violations")?,
            live: symbol(library, "stand_in_live")?,
            live_programs: symbol(library, "stand_in_live_programs")?,
        };
        Ok(Self {
            directory,
            runs_ptx: lend_interpreter(library, build.keeps_to_ptx)?,
            functions,
            posed: Mutex::new(()),
        })
    }

    /// Whether kernels run as the PTX that NVIDIA's compiler makes of them, and not as the host
    /// compiler's.
    #[must_use]
    pub fn runs_ptx(&self) -> bool {
        self.runs_ptx
    }

    /// What the interpreter took for each kernel, by its entry, since this was last asked; nothing of kernels
    /// that run as code of the host.
    #[must_use]
    pub fn take_costs(&self) -> BTreeMap<String, KernelCost> {
        interpreter::take_costs()
    }

    /// The folder of the libraries, for `LD_LIBRARY_PATH`.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Waits until no other test uses the driver and makes it as if nobody ever had.
    pub fn pose(&self, persona: Persona) -> Posed<'_> {
        let turn = self.posed.lock().unwrap_or_else(PoisonError::into_inner);
        let posed = Posed {
            functions: &self.functions,
            persona,
            _turn: turn,
        };
        posed.forget();
        posed
    }
}

/// The driver in the hands of one test.
#[derive(Debug)]
pub struct Posed<'a> {
    functions: &'a Functions,
    persona: Persona,
    _turn: MutexGuard<'a, ()>,
}

impl Posed<'_> {
    /// As if nobody had ever used the driver: no calls, no faults, nothing alive.
    pub fn forget(&self) {
        // SAFETY: the type is that of `driver/record.cpp`; only this test uses the driver.
        unsafe { (self.functions.pose)(self.persona.number()) };
    }

    /// Lets the driver say that it has this CUDA version, such as `12_040`; 13.0 if nothing else is
    /// said. It has the same functions.
    pub fn set_version(&self, number: i32) {
        // SAFETY: the type is that of `driver/record.cpp`.
        unsafe { (self.functions.set_version)(number) };
    }

    /// Sets the order of blocks and warps in the launches from now on, where kernels are interpreted.
    pub fn set_seed(&self, seed: u64) {
        // SAFETY: the type is that of `driver/interpreted.cpp`.
        unsafe { (self.functions.set_seed)(seed) };
    }

    /// Lets the `nth` call from now on fail with this `CUresult`; every function counts.
    pub fn fail_call(&self, nth: usize, code: i32) {
        // SAFETY: as above, and in the functions below.
        unsafe { (self.functions.fail_call)(number(nth), code) };
    }

    /// Lets the `nth` call of this function from now on fail.
    pub fn fail_named(&self, name: &str, nth: usize, code: i32) {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the text ends with NUL and is copied.
        unsafe { (self.functions.fail_named)(name.as_ptr(), number(nth), code) };
    }

    /// Lets every call of this function fail, until another fault is set by [`Self::fail_named`].
    pub fn fail_every(&self, name: &str, code: i32) {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the text ends with NUL and is copied.
        unsafe { (self.functions.fail_every)(name.as_ptr(), code) };
    }

    /// Lets the `nth` allocation from now on find no memory.
    pub fn fail_allocation(&self, nth: usize) {
        // SAFETY: as above.
        unsafe { (self.functions.fail_allocation)(number(nth)) };
    }

    /// Lets the `nth` kernel from now on fail while it runs, which ends the context.
    pub fn fail_kernel(&self, nth: usize, code: i32) {
        // SAFETY: as above.
        unsafe { (self.functions.fail_kernel)(number(nth), code) };
    }

    /// Lets the next call of this function wait where it enters the driver, until
    /// [`Posed::let_go`]. Calls of other functions, and later ones of this, go on meanwhile.
    pub fn hold(&self, name: &str) {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the text ends with NUL and is copied.
        unsafe { (self.functions.hold)(name.as_ptr()) };
    }

    /// Waits until a thread is held.
    ///
    /// # Panics
    ///
    /// If none is within ten seconds.
    #[track_caller]
    pub fn await_held(&self) {
        // SAFETY: the type is that of `driver/record.cpp`.
        let is_held = unsafe { (self.functions.await_held)(10_000) } != 0;
        assert!(is_held, "nobody called what is held");
    }

    /// Lets the thread that is held go on, and holds nobody any more.
    pub fn let_go(&self) {
        // SAFETY: as above.
        unsafe { (self.functions.let_go)() };
    }

    /// Number of calls that the driver has recorded so far.
    #[must_use]
    pub fn n_calls(&self) -> usize {
        // SAFETY: as above.
        unsafe { (self.functions.n_calls)() }
    }

    /// Every call: the function, and for some what it was asked for.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        lines(self.functions.calls)
    }

    /// How often functions whose name begins like this were called.
    #[must_use]
    pub fn count(&self, prefix: &str) -> usize {
        let calls = self.calls();
        calls.iter().filter(|call| call.starts_with(prefix)).count()
    }

    /// Rules of the driver that were broken.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        lines(self.functions.violations)
    }

    /// What was handed out and not given back.
    #[must_use]
    pub fn live(&self) -> Live {
        let mut counts = [0_usize; 6];
        // SAFETY: the function writes six counts.
        unsafe { (self.functions.live)(counts.as_mut_ptr()) };
        let [allocations, streams, events, modules, graphs, contexts] = counts;
        Live {
            allocations,
            streams,
            events,
            modules,
            graphs,
            contexts,
            // SAFETY: as above.
            programs: unsafe { (self.functions.live_programs)() },
        }
    }

    /// Asserts that everything was given back and no rule was broken.
    ///
    /// # Panics
    ///
    /// If not.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert_eq!(self.live(), Live::default(), "something was not given back");
        assert_eq!(self.violations(), Vec::<String>::new());
    }
}

fn number(nth: usize) -> c_long {
    c_long::try_from(nth).unwrap_or(c_long::MAX)
}

fn lines(read: unsafe extern "C" fn(*mut u8, usize) -> usize) -> Vec<String> {
    // SAFETY: without a buffer it tells the length only.
    let len = unsafe { read(std::ptr::null_mut(), 0) };
    let mut text = vec![0_u8; len + 1];
    // SAFETY: the buffer has room for the text and its NUL; more is cut off.
    unsafe { read(text.as_mut_ptr(), text.len()) };
    text.truncate(len);
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::to_owned).collect()
}
