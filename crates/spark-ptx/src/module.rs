//! Modules: loaded from text, launched on memory.

use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::check::{Finding, FindingKind, Place};
use crate::error::{LaunchError, LoadError};
use crate::limits::{
    Limits, MOST_BLOCKS, MOST_LOCAL_BYTES, MOST_REGISTER_BYTES, MOST_SHARED_BYTES, MOST_THREADS,
};
use crate::machine::{self, GlobalRaces, Launch};
use crate::memory::{GlobalMemory, OwnedMemory, SHARED_BASE};
use crate::program::{self, CodeOf, Constant, EntryOf, FUNCTION_WINDOW, Program};
use crate::text;

/// Bytes of global variables that [`Module::allocate_globals`] takes: a text of a line may ask for any number.
pub const MOST_GLOBAL_BYTES: u64 = 1 << 30;

/// Characters of a line, or of a file's name, that a finding shows.
const MOST_SHOWN: usize = 400;

/// PTX that was read, checked and decoded.
#[derive(Debug)]
pub struct Module {
    program: Program,
    /// The text, for findings.
    lines: Vec<String>,
}

/// How a kernel is launched.
#[derive(Debug, Clone)]
pub struct LaunchConfig {
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub dynamic_shared_bytes: u32,
    /// Decides the order of blocks and warps.
    pub seed: u64,
    /// The card that is posed as.
    pub limits: Limits,
    /// Instructions of warps after which the kernel counts as hanging.
    pub budget: u64,
    /// Addresses of the module's global variables, in the order of [`Module::globals`].
    pub globals: Vec<u64>,
}

impl LaunchConfig {
    /// A launch on a GB10 with seed 0, no dynamic shared memory and no global variables.
    #[must_use]
    pub fn new(grid: [u32; 3], block: [u32; 3]) -> LaunchConfig {
        LaunchConfig {
            grid,
            block,
            dynamic_shared_bytes: 0,
            seed: 0,
            limits: Limits::GB10,
            budget: 1 << 40,
            globals: Vec::new(),
        }
    }
}

/// What a launch did.
#[derive(Debug, Clone)]
pub struct Report {
    /// Instructions that warps executed.
    pub instructions: u64,
    /// What was wrong, in the order of the code. Empty for a kernel without fault.
    pub findings: Vec<Finding>,
}

/// A global variable, which wants memory before a kernel is launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Global {
    /// Its name.
    pub name: String,
    /// Bytes that it takes.
    pub len_bytes: u64,
    /// What its address is a multiple of.
    pub align: u64,
    /// Whether kernels only read it.
    pub is_const: bool,
}

/// A kernel of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Offset and length of each parameter.
    pub parameters: Vec<(u32, u32)>,
    /// Bytes of all parameters.
    pub parameter_bytes: u32,
    /// Static shared memory of a block.
    pub shared_bytes: u32,
    /// Bound on the threads of a block, if it has one.
    pub max_threads: Option<u64>,
    /// The only shape of a block that it takes, if it says so.
    pub required_block: Option<[u32; 3]>,
}

impl Module {
    /// Reads and decodes PTX.
    ///
    /// # Errors
    ///
    /// [`LoadError`], with the line, if the text is not PTX or holds an instruction that the
    /// interpreter does not have. Memory taken is proportional to the text.
    pub fn load(text: &str) -> Result<Module, LoadError> {
        let parsed = text::parse(text)?;
        let program = program::load(&parsed)?;
        Ok(Module {
            program,
            lines: text.lines().map(str::to_owned).collect(),
        })
    }

    /// Compute capability of `.target`, as in 121 for `sm_121a`.
    #[must_use]
    pub fn capability(&self) -> u32 {
        self.program.target.capability()
    }

    /// All kernels, by name.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let entry = |(name, entry): (&String, &EntryOf)| Entry {
            name: name.clone(),
            parameters: entry
                .parameters
                .iter()
                .map(|it| (it.offset, it.len))
                .collect(),
            parameter_bytes: entry.parameter_bytes,
            shared_bytes: entry.shared_bytes,
            max_threads: entry.max_threads,
            required_block: entry.required_block,
        };
        let mut entries: Vec<Entry> = self.program.entries.iter().map(entry).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries
    }

    /// All global and constant variables.
    #[must_use]
    pub fn globals(&self) -> Vec<Global> {
        let globals = self.program.globals.iter();
        globals
            .map(|global| Global {
                name: global.name.clone(),
                len_bytes: global.len_bytes,
                align: global.align,
                is_const: global.is_const,
            })
            .collect()
    }

    /// The first bytes of a variable, zeros after them, where all variables lie at `addresses`.
    /// None for a variable that the module does not initialise.
    #[must_use]
    pub fn initial_bytes(&self, global: usize, addresses: &[u64]) -> Option<Vec<u8>> {
        let is_initialised = self.program.globals.get(global)?.is_initialised;
        is_initialised.then(|| self.program.initial_bytes(global, addresses))
    }

    /// Takes memory for all variables and fills it; their addresses.
    ///
    /// Variables without an initialiser hold zeros, as PTX says.
    ///
    /// # Errors
    ///
    /// [`LaunchError::Limit`] if they are more together than [`MOST_GLOBAL_BYTES`]; nothing is taken then.
    pub fn allocate_globals(&self, memory: &mut OwnedMemory) -> Result<Vec<u64>, LaunchError> {
        let globals = &self.program.globals;
        let lens = globals.iter().map(|global| global.len_bytes);
        let sum = lens.fold(0, u64::saturating_add);
        if sum > MOST_GLOBAL_BYTES {
            return Err(LaunchError::Limit {
                what: "the number of bytes of all variables",
                got: sum,
                limit: MOST_GLOBAL_BYTES,
            });
        }
        let allocate = |len_bytes: u64| memory.allocate(len_bytes as usize);
        let lens = globals.iter().map(|global| global.len_bytes);
        let addresses: Vec<u64> = lens.map(allocate).collect();
        for (idx, global) in globals.iter().enumerate() {
            let bytes = self.program.initial_bytes(idx, &addresses);
            memory.write(addresses[idx], &bytes);
            memory.mark_written(addresses[idx], global.len_bytes as usize);
            memory.describe(addresses[idx], &global.name, global.is_const);
        }
        Ok(addresses)
    }

    /// Runs a kernel to its end, its blocks over `n_threads` threads.
    ///
    /// # Errors
    ///
    /// [`LaunchError`] if the card or the kernel does not take such a launch; nothing is run then.
    /// What goes wrong while it runs is a finding.
    pub fn launch(
        &self,
        entry: &str,
        config: &LaunchConfig,
        params: &[u8],
        memory: &dyn GlobalMemory,
        n_threads: usize,
    ) -> Result<Report, LaunchError> {
        let program = &self.program;
        let Some(found) = program.entries.get(entry) else {
            return Err(LaunchError::UnknownEntry {
                name: entry.to_owned(),
            });
        };
        let shared_end = check(entry, found, config, params)?;
        let code = &program.functions[found.function as usize];
        check_room(code, config)?;
        if config.globals.len() != program.globals.len() {
            return Err(LaunchError::Globals {
                got: config.globals.len(),
                want: program.globals.len(),
            });
        }
        let mut allocations = memory.allocations();
        allocations.retain(|allocation| allocation.len > 0);
        allocations.sort_by_key(|allocation| allocation.base);
        let launch = Launch {
            program,
            entry: found,
            code,
            grid: config.grid,
            block: config.block,
            n_threads: config.block.iter().product(),
            dynamic_shared_bytes: config.dynamic_shared_bytes,
            shared_end,
            seed: config.seed,
            limits: config.limits,
            params,
            memory,
            races: GlobalRaces::new(&allocations),
            has_constants: allocations.iter().any(|it| it.is_read_only),
            allocations,
            constants_32: program
                .constants_32
                .iter()
                .map(|value| [*value; 32])
                .collect(),
            constants_64: self.constants_64(&config.globals),
            budget: AtomicU64::new(config.budget),
            budget_limit: config.budget,
            stopped: AtomicBool::new(false),
        };
        let (instructions, sink) = machine::run(&launch, n_threads);
        let found = sink.into_sorted().into_iter();
        let findings = found
            .map(|(place, kind, count)| self.finding(entry, config, place, kind, count))
            .collect();
        Ok(Report {
            instructions,
            findings,
        })
    }

    fn constants_64(&self, globals: &[u64]) -> Vec<[u64; 32]> {
        let value = |constant: &Constant| match *constant {
            Constant::Literal(value) => value,
            Constant::Global(idx, offset) => globals[idx as usize].wrapping_add_signed(offset),
            Constant::Function(idx) => FUNCTION_WINDOW | u64::from(idx),
        };
        let constants = self.program.constants_64.iter();
        constants.map(|constant| [value(constant); 32]).collect()
    }

    fn finding(
        &self,
        kernel: &str,
        config: &LaunchConfig,
        place: Place,
        kind: FindingKind,
        count: u64,
    ) -> Finding {
        let origins = &self.program.origins;
        let origin = origins.get(place.pc as usize).copied().unwrap_or_default();
        let text = self.lines.get((origin.line as usize).wrapping_sub(1));
        let source = (origin.file != 0).then(|| {
            let name = self.program.files.get(&origin.file);
            let name = name.map(|it| shortened(it)).unwrap_or_default();
            (name, origin.source_line)
        });
        let (x, y) = (u64::from(config.grid[0]), u64::from(config.grid[1]));
        Finding {
            kind,
            kernel: kernel.to_owned(),
            line: origin.line,
            text: text.map(|line| shortened(line.trim())).unwrap_or_default(),
            source,
            block: [
                (place.block % x) as u32,
                (place.block / x % y) as u32,
                (place.block / x / y) as u32,
            ],
            warp: place.warp,
            lane: place.lane,
            count,
        }
    }
}

/// The beginning of a text for a finding: a file may have one line of megabytes.
fn shortened(text: &str) -> String {
    text.chars().take(MOST_SHOWN).collect()
}

/// Holds a launch against the card and the kernel; the end of shared memory.
fn check(
    name: &str,
    entry: &EntryOf,
    config: &LaunchConfig,
    params: &[u8],
) -> Result<u32, LaunchError> {
    let limits = &config.limits;
    let within = |what, got: u64, limit: u64| match got {
        _ if got > limit => Err(LaunchError::Limit { what, got, limit }),
        _ => Ok(()),
    };
    let blocks = [
        "the number of blocks along x",
        "the number of blocks along y",
        "the number of blocks along z",
    ];
    let threads = [
        "the number of threads along x",
        "the number of threads along y",
        "the number of threads along z",
    ];
    let axes = |names: [&'static str; 3], got: [u32; 3], limits: [u32; 3]| {
        for ((what, got), limit) in names.into_iter().zip(got).zip(limits) {
            within(what, got.into(), limit.into())?;
            if got == 0 {
                let (got, limit) = (0, limit.into());
                return Err(LaunchError::Limit { what, got, limit });
            }
        }
        Ok(())
    };
    axes(blocks, config.grid, limits.max_grid)?;
    axes(threads, config.block, limits.max_block)?;
    within("the number of blocks", product(config.grid), MOST_BLOCKS)?;
    let n_threads = product(config.block);
    let what = "the number of threads of a block";
    within(what, n_threads, limits.max_threads.min(MOST_THREADS))?;
    within(what, n_threads, entry.max_threads.unwrap_or(u64::MAX))?;
    if let Some(block) = entry.required_block.filter(|block| *block != config.block) {
        let limit = product(block);
        let what = "the shape of a block, which the kernel requires to be another,";
        return Err(LaunchError::Limit {
            what,
            got: n_threads,
            limit,
        });
    }
    let offset = u64::from(entry.dynamic_shared_offset);
    let static_end = u64::from(entry.shared_bytes + SHARED_BASE);
    let end = match config.dynamic_shared_bytes {
        0 => static_end,
        dynamic => offset + u64::from(dynamic),
    };
    let what = "the shared memory of a block";
    let most = limits.max_shared_bytes.min(MOST_SHARED_BYTES);
    within(what, end - u64::from(SHARED_BASE), most)?;
    if limits.n_multiprocessors == 0 {
        let (what, got, limit) = ("the number of multiprocessors", 0, 1);
        return Err(LaunchError::Limit { what, got, limit });
    }
    let what = "the size of all parameters";
    within(
        what,
        entry.parameter_bytes.into(),
        limits.max_parameter_bytes,
    )?;
    if params.len() != entry.parameter_bytes as usize {
        return Err(LaunchError::Parameters {
            name: name.to_owned(),
            got: params.len(),
            want: entry.parameter_bytes as usize,
        });
    }
    Ok(end as u32)
}

/// The product of three numbers, or the largest number of all.
fn product(numbers: [u32; 3]) -> u64 {
    let [x, y, z] = numbers.map(u64::from);
    (x * y).saturating_mul(z)
}

/// Holds what the threads of a block have of their own against what a launch takes here.
fn check_room(code: &CodeOf, config: &LaunchConfig) -> Result<(), LaunchError> {
    let threads = product(config.block);
    let bytes_per_thread = u64::from(code.local_bytes) + u64::from(code.param_bytes);
    if bytes_per_thread * threads > MOST_LOCAL_BYTES {
        return Err(LaunchError::LocalMemory {
            bytes_per_thread,
            threads,
            limit: MOST_LOCAL_BYTES,
        });
    }
    let registers = 4 * u64::from(code.n_rows_32) + 8 * u64::from(code.n_rows_64);
    let got = registers * threads.next_multiple_of(32);
    if got > MOST_REGISTER_BYTES {
        return Err(LaunchError::Limit {
            what: "the number of bytes of all registers of a block",
            got,
            limit: MOST_REGISTER_BYTES,
        });
    }
    Ok(())
}
