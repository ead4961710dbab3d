//! `cargo xtask kernels`: every `.cu` file of the workspace, compiled by NVIDIA's compiler on a
//! machine without a GPU, and what came out looked at.
//!
//! ```text
//! toolchain   nvcc, nvdisasm and NVRTC from PyPI, pinned, into target/kernels
//! file x architecture ──nvcc──> cubin + what ptxas says ──> registers, spills, shared memory
//!                               cubin ──nvdisasm──> the instructions the file claims
//! spills.cu   must be found to spill, or the check itself is broken
//! NVRTC       the tests of spark-mem that use the real compiler, with it in the path
//! ```
//!
//! A file claims instructions in a line `// instructions: HMMA.16816.F32.BF16 LDSM`. One that options make
//! several kernels of has a line for each, with what only that one has on some architectures:
//! `// variant: -DFORMAT=2 | HMMA on sm_80 sm_90a | QMMA on sm_121a`. Options of the whole file stand in
//! a line `// options: --fmad=false`. Deliberately absent: running anything; that takes a GPU (`cargo xtask gpu`).

mod ptxas;
mod toolchain;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use crate::command::{self, cargo};
use crate::error::Error;
use crate::workspace::Workspace;
use ptxas::{Entry, entries};
pub(crate) use toolchain::Toolchain;

/// Ampere, Hopper, the family of desktop Blackwell, GB10.
const ARCHITECTURES: &[&str] = &["sm_80", "sm_90a", "sm_120f", "sm_121a"];
/// The least that programs ask for, and what they are made for. What only the others have is not seen there.
const ENDS: &[&str] = &["sm_80", "sm_121a"];
/// What a block of a GB10 may have: 99 KiB.
const SHARED_LIMIT_BYTES: u32 = 99 << 10;
/// What a thread may have on every architecture.
const REGISTER_LIMIT: u32 = 255;
/// Where kernels find `spark_warp.cuh`.
const INCLUDES: &str = "crates/spark-mem/kernels";
/// A kernel that cannot but spill, to check the check.
const SPILLS: &str = include_str!("spills.cu");
const SPILLS_PATH: &str = "xtask/src/kernels/spills.cu";

/// As [`run`], for the first and the last architecture alone: half of the time.
///
/// # Errors
///
/// The same.
pub(crate) fn run_for_ends(workspace: &Workspace) -> Result<(), Error> {
    run_for(workspace, ENDS)
}

/// Compiles and checks everything.
///
/// # Errors
///
/// [`Error::Kernels`] with the number of findings, each of which was printed; errors of the
/// programs that are started.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Error> {
    run_for(workspace, ARCHITECTURES)
}

fn run_for(workspace: &Workspace, architectures: &[&'static str]) -> Result<(), Error> {
    let started = Instant::now();
    let folder = workspace.target.join("kernels");
    let toolchain = Toolchain::get(&folder)?;
    let files: Vec<String> = workspace
        .files()?
        .into_iter()
        .filter(|path| path.ends_with(".cu") && path != SPILLS_PATH)
        .collect();
    let mut findings = Vec::new();
    let mut n_kernels = 0;
    println!("kernel                        arch      registers  spill bytes  shared bytes");
    let jobs = jobs(workspace, &files, architectures)?;
    let compile = |job: &Job<'_>, cubin: &Path| {
        let options = &job.variant.options;
        toolchain.compile(&workspace.root, job.file, job.arch, options, cubin)
    };
    in_order(&jobs, toolchain.scratch(), compile, |job, compiled| {
        let (file, arch, variant) = (job.file, job.arch, &job.variant);
        for entry in &compiled.entries {
            n_kernels += 1;
            println!(
                "{:28}  {arch:8}  {:9}  {:11}  {:12}  {}",
                entry.name,
                entry.registers,
                entry.spill_bytes,
                entry.shared_bytes,
                variant.options.join(" ")
            );
        }
        findings.extend(judge(file, arch, &compiled.entries));
        findings.extend(check_claims(
            file,
            arch,
            &job.source,
            &compiled.instructions,
        ));
        findings.extend(variant.check(file, arch, &compiled.instructions));
    })?;
    check_the_check(&toolchain, workspace, &folder, architectures)?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        return Err(Error::Kernels {
            n_findings: findings.len(),
        });
    }
    let n_files = files.len();
    let seconds = started.elapsed().as_secs_f64();
    println!("kernels: {n_kernels} from {n_files} files, no findings, {seconds:.1} s");
    real_compiler(workspace, &toolchain)
}

/// One run of the compiler.
struct Job<'a> {
    file: &'a str,
    source: Arc<str>,
    variant: Variant,
    arch: &'static str,
}

fn jobs<'a>(
    workspace: &Workspace,
    files: &'a [String],
    architectures: &[&'static str],
) -> Result<Vec<Job<'a>>, Error> {
    let mut jobs = Vec::new();
    for file in files {
        let source: Arc<str> = read(&workspace.root.join(file))?.into();
        for variant in variants(&source) {
            jobs.extend(architectures.iter().map(|&arch| Job {
                file,
                source: Arc::clone(&source),
                variant: variant.clone(),
                arch,
            }));
        }
    }
    Ok(jobs)
}

/// Runs the compiler for all jobs, on all processors, and hands on what came out in the order of the jobs,
/// as soon as it is there. Ends at the first error.
fn in_order<J: Sync>(
    jobs: &[J],
    scratch: &Path,
    compile: impl Fn(&J, &Path) -> Result<Compiled, Error> + Sync,
    mut judge: impl FnMut(&J, &Compiled),
) -> Result<(), Error> {
    let n_workers = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for worker in 0..n_workers.min(jobs.len()) {
            let (send, next, compile) = (send.clone(), &next, &compile);
            let cubin = scratch.join(format!("kernel-{worker}.cubin"));
            scope.spawn(move || {
                while let Some((idx, job)) = take(jobs, next) {
                    if send.send((idx, compile(job, &cubin))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let mut early = BTreeMap::new();
        let mut n_judged = 0;
        // Dropped at an error, so that the workers end too.
        for (idx, compiled) in receive {
            early.insert(idx, compiled?);
            while let Some(compiled) = early.remove(&n_judged) {
                judge(&jobs[n_judged], &compiled);
                n_judged += 1;
            }
        }
        Ok(())
    })
}

fn take<'a, J>(jobs: &'a [J], next: &AtomicUsize) -> Option<(usize, &'a J)> {
    let idx = next.fetch_add(1, Ordering::Relaxed);
    jobs.get(idx).map(|job| (idx, job))
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(Error::io("read", path))
}

/// What is wrong with the kernels of one file.
fn judge(file: &str, arch: &str, entries: &[Entry]) -> Vec<String> {
    let mut findings = Vec::new();
    if entries.is_empty() {
        findings.push(format!("{file}: [{arch}] the compiler told of no kernel"));
    }
    for entry in entries {
        let mut find =
            |what: String| findings.push(format!("{file}: [{arch}] {}: {what}", entry.name));
        if entry.spill_bytes > 0 {
            find(format!("spills {} bytes", entry.spill_bytes));
        }
        if entry.shared_bytes > SHARED_LIMIT_BYTES {
            find(format!(
                "{} bytes of shared memory, a GB10 has {SHARED_LIMIT_BYTES}",
                entry.shared_bytes
            ));
        }
        if entry.registers == 0 || entry.registers > REGISTER_LIMIT {
            find(format!("{} registers cannot be", entry.registers));
        }
    }
    findings
}

/// Instructions that a file claims and its machine code does not have.
fn check_claims(file: &str, arch: &str, source: &str, instructions: &str) -> Vec<String> {
    let claims = source
        .lines()
        .filter_map(|line| line.strip_prefix("// instructions: "))
        .flat_map(str::split_whitespace);
    claims
        .filter(|claim| !instructions.contains(*claim))
        .map(|claim| format!("{file}: [{arch}] no `{claim}` in its machine code"))
        .collect()
}

/// One of the kernels that options make of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Variant {
    options: Vec<String>,
    /// An instruction, and the architectures that have it.
    claims: Vec<(String, Vec<String>)>,
}

/// The variants that a file names; one, with the options of the whole file alone, if it names none.
fn variants(source: &str) -> Vec<Variant> {
    let words =
        |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    let of_file = source
        .lines()
        .filter_map(|line| line.strip_prefix("// options: "));
    let of_file: Vec<String> = of_file.flat_map(words).collect();
    let lines = source
        .lines()
        .filter_map(|line| line.strip_prefix("// variant: "));
    let mut variants: Vec<Variant> = lines
        .map(|line| {
            let mut parts = line.split('|');
            let mut options = of_file.clone();
            options.extend(words(parts.next().unwrap_or_default()));
            let claims = parts.flat_map(|part| {
                let (instructions, architectures) = part.split_once(" on ").unwrap_or((part, ""));
                let architectures = words(architectures);
                words(instructions)
                    .into_iter()
                    .map(move |instruction| (instruction, architectures.clone()))
            });
            Variant {
                options,
                claims: claims.collect(),
            }
        })
        .collect();
    if variants.is_empty() {
        variants.push(Variant {
            options: of_file,
            claims: Vec::new(),
        });
    }
    variants
}

impl Variant {
    /// What it claims for this architecture and does not have.
    fn check(&self, file: &str, arch: &str, instructions: &str) -> Vec<String> {
        let claimed = self
            .claims
            .iter()
            .filter(|(_, architectures)| architectures.iter().any(|name| name == arch));
        claimed
            .filter(|(claim, _)| !instructions.contains(claim.as_str()))
            .map(|(claim, _)| {
                let options = self.options.join(" ");
                format!("{file}: [{arch}] {options}: no `{claim}` in its machine code")
            })
            .collect()
    }
}

/// A check that finds nothing wrong with a kernel made to spill is broken.
fn check_the_check(
    toolchain: &Toolchain,
    workspace: &Workspace,
    folder: &Path,
    architectures: &[&str],
) -> Result<(), Error> {
    let path: PathBuf = folder.join("spills.cu");
    std::fs::write(&path, SPILLS).map_err(Error::io("write", &path))?;
    for arch in architectures {
        let name = path.to_string_lossy();
        let cubin = folder.join("spills.cubin");
        let compiled = toolchain.compile(&workspace.root, &name, arch, &[], &cubin)?;
        let findings = judge("spills.cu", arch, &compiled.entries);
        if !findings.iter().any(|finding| finding.contains("spills")) {
            return Err(Error::Usage(format!(
                "the check does not see that spills.cu spills on {arch}"
            )));
        }
    }
    println!("spills.cu is found to spill on each of them, as it must be");
    Ok(())
}

/// The tests of `spark-mem` that compile with NVRTC as a program does at run time.
fn real_compiler(workspace: &Workspace, toolchain: &Toolchain) -> Result<(), Error> {
    let mut test = cargo(&[
        "test",
        "-p",
        "spark-mem",
        "--features",
        "cuda",
        "--test",
        "it",
    ]);
    test.args(["real_compiler", "--", "--nocapture"]);
    test.env("LD_LIBRARY_PATH", toolchain.libraries());
    let mut has_compiled = false;
    command::for_each_line(test.current_dir(&workspace.root), |line| {
        has_compiled |= line.starts_with("NVRTC compiled");
    })?;
    if has_compiled {
        return Ok(());
    }
    Err(Error::Usage(
        "the tests of spark-mem did not find NVRTC".to_owned(),
    ))
}

/// Runs nvcc or nvdisasm and returns what it says on both streams.
fn words_of(program: &mut Command) -> Result<String, Error> {
    let output = program.output().map_err(|source| Error::Start {
        command: command::shown(program),
        source,
    })?;
    let mut words = String::from_utf8_lossy(&output.stdout).into_owned();
    words += &String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(words);
    }
    println!("{words}");
    Err(Error::Command {
        command: command::shown(program),
        code: output.status.code(),
    })
}

/// What came out of one file for one architecture.
struct Compiled {
    entries: Vec<Entry>,
    instructions: String,
}

impl Toolchain {
    fn compile(
        &self,
        root: &Path,
        file: &str,
        arch: &str,
        options: &[String],
        cubin: &Path,
    ) -> Result<Compiled, Error> {
        let mut nvcc = self.program("nvcc");
        nvcc.current_dir(root)
            .args(["-cubin", "-std=c++17", "-Xptxas", "-v"]);
        nvcc.arg(format!("-arch={arch}")).args(["-I", INCLUDES]);
        nvcc.args(options).arg("-o").arg(cubin).arg(file);
        let said = words_of(&mut nvcc)?;
        let instructions = words_of(self.program("nvdisasm").arg(cubin))?;
        Ok(Compiled {
            entries: entries(&said),
            instructions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(registers: u32, spill_bytes: u32, shared_bytes: u32) -> Entry {
        Entry {
            name: "k".to_owned(),
            registers,
            spill_bytes,
            shared_bytes,
        }
    }

    #[test]
    fn spills_and_too_much_shared_memory_are_findings() {
        assert!(judge("k.cu", "sm_121a", &[entry(32, 0, 101_376)]).is_empty());
        let findings = judge("k.cu", "sm_121a", &[entry(32, 24, 101_377)]);
        assert_eq!(
            findings,
            [
                "k.cu: [sm_121a] k: spills 24 bytes",
                "k.cu: [sm_121a] k: 101377 bytes of shared memory, a GB10 has 101376",
            ]
        );
    }

    #[test]
    fn what_was_compiled_is_judged_in_order_up_to_the_first_error() {
        let compiled = |n: &u32| Compiled {
            entries: vec![entry(*n, 0, 0)],
            instructions: String::new(),
        };
        let jobs: Vec<u32> = (0..100).collect();
        let mut judged = Vec::new();
        let judge = |job: &u32, made: &Compiled| judged.push((*job, made.entries[0].registers));
        in_order(&jobs, Path::new(""), |job, _| Ok(compiled(job)), judge).unwrap();
        assert!(
            judged
                .iter()
                .copied()
                .eq(jobs.iter().map(|job| (*job, *job)))
        );
        let fails = |job: &u32, _: &Path| match job {
            50 => Err(Error::Kernels { n_findings: 1 }),
            job => Ok(compiled(job)),
        };
        let mut n_judged = 0;
        assert!(in_order(&jobs, Path::new(""), fails, |_, _| n_judged += 1).is_err());
        assert!(n_judged <= 50);
    }

    #[test]
    fn silence_of_the_compiler_is_a_finding() {
        assert_eq!(judge("k.cu", "sm_80", &[]).len(), 1);
        assert_eq!(judge("k.cu", "sm_80", &[entry(0, 0, 0)]).len(), 1);
    }

    #[test]
    fn variants_are_read_and_their_claims_looked_for() {
        assert_eq!(variants("// a kernel\n"), [Variant::default()]);
        let of_file = variants("// options: --fmad=false -DA\n");
        assert_eq!(of_file[0].options, ["--fmad=false", "-DA"]);
        let of_both = variants("// options: -DA\n// variant: -DX=0\n// variant: -DX=1\n");
        assert_eq!(of_both[0].options, ["-DA", "-DX=0"]);
        assert_eq!(of_both[1].options, ["-DA", "-DX=1"]);
        let source =
            "// variant: -DX=0\n// variant: -DX=1 -DY | HMMA LDSM on sm_80 | QMMA on sm_121a\n";
        let both = variants(source);
        assert_eq!(both[0].options, ["-DX=0"]);
        assert_eq!(both[1].options, ["-DX=1", "-DY"]);
        assert!(
            both[1]
                .check("k.cu", "sm_80", "HMMA.16816\nLDSM.16")
                .is_empty()
        );
        assert!(both[1].check("k.cu", "sm_90a", "").is_empty());
        assert_eq!(
            both[1].check("k.cu", "sm_121a", "HMMA.16816"),
            ["k.cu: [sm_121a] -DX=1 -DY: no `QMMA` in its machine code"]
        );
    }

    #[test]
    fn claims_are_looked_for() {
        let source = "// instructions: HMMA.16816 LDSM\nint x;\n// text that claims nothing\n";
        assert!(check_claims("k.cu", "sm_80", source, "HMMA.16816.F32\nLDSM.16").is_empty());
        let findings = check_claims("k.cu", "sm_80", source, "LDSM.16");
        assert_eq!(
            findings,
            ["k.cu: [sm_80] no `HMMA.16816` in its machine code"]
        );
        assert!(check_claims("k.cu", "sm_80", "int x;", "").is_empty());
    }
}
