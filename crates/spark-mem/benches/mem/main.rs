//! Copies, pools, guards, files, and bandwidth per kind of memory: answers first, then speed.
//!
//! ```text
//! case,n,runs,min_ms,median_ms,max_ms,gb_per_s          n bytes, or n operations where
//!                                                       gb_per_s is empty
//! ```
//!
//! Run: `cargo bench -p spark-mem --bench mem [--features cuda] [-- [--quick] [FILTER]]`. Without
//! `--bench`, as `cargo test` starts it, it only checks answers, on small sizes.
//!
//! The device is the one of `SPARK_DEVICE`. `gb_per_s` counts bytes read plus bytes written, of the
//! median. Large buffers are 256 MiB, which no cache holds, and touched before the clock runs; the
//! clock covers the call and the wait for it. A cold file's pages were dropped from the cache
//! (`posix_fadvise`); a warm one was just read.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(unsafe_code, reason = "launches kernels, maps and drops files")]

mod cases;
mod file;
mod kinds;

use std::time::Instant;

use spark_mem::{Device, MemError};

/// Bytes of large buffers and files.
const LARGE_BYTES: usize = 256 << 20;
/// The same when only answers are checked.
const SMALL_BYTES: usize = 1 << 20;

/// What is timed: `n` of something, `bytes` moved if that is the point.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) n: usize,
    pub(crate) bytes: Option<usize>,
    /// Before every run, outside the clock.
    pub(crate) prepare: Box<dyn FnMut() -> Result<(), MemError>>,
    pub(crate) run: Box<dyn FnMut() -> Result<(), MemError>>,
    /// After one run: whether it did what it says.
    pub(crate) check: Box<dyn FnMut() -> Result<bool, MemError>>,
}

fn main() -> Result<(), MemError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let filter = arguments
        .iter()
        .find(|argument| !argument.starts_with("--"));
    let timed = has("--bench");
    let n_bytes = if timed { LARGE_BYTES } else { SMALL_BYTES };
    let n_runs = if has("--quick") { 3 } else { 11 };
    let device = Device::open()?;
    println!("# {}", device.info().name);
    println!("# shared buffers: {}", device.shared_kind_choice());
    let file = file::Scratch::new(n_bytes)?;
    let mut cases = cases::all(&device, n_bytes)?;
    cases.extend(kinds::all(&device, n_bytes)?);
    cases.extend(file::all(&device, &file)?);
    cases.retain(|case| filter.is_none_or(|filter| case.name.contains(filter.as_str())));
    for case in &mut cases {
        (case.prepare)()?;
        (case.run)()?;
        assert!((case.check)()?, "{} gave a wrong answer", case.name);
    }
    if !timed {
        println!("checked {} cases", cases.len());
        return Ok(());
    }
    println!("case,n,runs,min_ms,median_ms,max_ms,gb_per_s");
    for case in &mut cases {
        time(case, n_runs)?;
    }
    Ok(())
}

fn time(case: &mut Case, n_runs: usize) -> Result<(), MemError> {
    let mut ms = Vec::with_capacity(n_runs);
    for _ in 0..n_runs {
        (case.prepare)()?;
        let started = Instant::now();
        (case.run)()?;
        ms.push(started.elapsed().as_secs_f64() * 1e3);
    }
    ms.sort_by(f64::total_cmp);
    let (min, median, max) = (ms[0], ms[n_runs / 2], ms[n_runs - 1]);
    let rate = case.bytes.map_or(String::new(), |bytes| {
        format!("{:.2}", bytes as f64 / median / 1e6)
    });
    println!(
        "{},{},{n_runs},{min:.4},{median:.4},{max:.4},{rate}",
        case.name, case.n
    );
    Ok(())
}
