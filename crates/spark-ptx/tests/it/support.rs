//! Kernels of a few lines, launched and read back.

use spark_ptx::{FindingKind, LaunchConfig, Module, OwnedMemory, Report};

/// What every kernel of the tests begins with.
pub(crate) const HEADER: &str = ".version 9.0\n.target sm_121a\n.address_size 64\n";

/// Registers that the bodies of the tests use.
const REGISTERS: &str = "\
.reg .pred %p<16>;
.reg .b16 %h<16>;
.reg .b32 %r<32>;
.reg .b64 %d<32>;
";

/// A kernel that takes an output and an input: `%d30` and `%d31` are their addresses, `%r30` the
/// number of the thread, `%d29` its place in words of 32 bits.
pub(crate) fn kernel(declarations: &str, body: &str) -> String {
    format!(
        "{HEADER}.visible .entry k(.param .u64 out, .param .u64 in)\n{{\n{REGISTERS}{declarations}
ld.param.u64 %d30, [out];
ld.param.u64 %d31, [in];
cvta.to.global.u64 %d30, %d30;
cvta.to.global.u64 %d31, %d31;
mov.u32 %r30, %tid.x;
mul.wide.u32 %d29, %r30, 4;
{body}
ret;
}}
"
    )
}

/// The bytes of parameters that are all addresses.
pub(crate) fn params(addresses: &[u64]) -> Vec<u8> {
    addresses.iter().flat_map(|it| it.to_le_bytes()).collect()
}

/// A launch of `kernel` with a full output and an input; the output and the report.
pub(crate) fn launch(
    ptx: &str,
    (grid, block): (u32, u32),
    seed: u64,
    input: &[u32],
    n_out: usize,
) -> (Vec<u32>, Report) {
    let module = Module::load(ptx).unwrap_or_else(|error| panic!("{error}\n{ptx}"));
    let mut memory = OwnedMemory::new();
    let out = memory.allocate_u32(&vec![0; n_out]);
    let given = memory.allocate_u32(input);
    let mut config = LaunchConfig::new([grid, 1, 1], [block, 1, 1]);
    config.seed = seed;
    config.budget = 10_000_000;
    config.globals = module.allocate_globals(&mut memory).unwrap();
    let report = module
        .launch("k", &config, &params(&[out, given]), &memory, 2)
        .unwrap_or_else(|error| panic!("{error}"));
    (memory.read_u32(out, n_out), report)
}

/// Runs a body with 32 threads; the outputs, and no finding.
#[track_caller]
pub(crate) fn warp(declarations: &str, body: &str, input: &[u32], n_out: usize) -> Vec<u32> {
    let (out, report) = launch(&kernel(declarations, body), (1, 32), 0, input, n_out);
    assert!(report.findings.is_empty(), "{}", report.findings[0]);
    out
}

/// The value of `%r0` after a body that finds its sources in `%r1`, `%r2`, …
#[track_caller]
pub(crate) fn value_32(body: &str, sources: &[u32]) -> u32 {
    let loads: String = (0..sources.len())
        .map(|idx| format!("ld.global.u32 %r{}, [%d31+{}];\n", idx + 1, 4 * idx))
        .collect();
    let body = format!("{loads}{body}\nst.global.u32 [%d30], %r0;");
    let (out, report) = launch(&kernel("", &body), (1, 1), 0, &padded(sources), 1);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    out[0]
}

/// The value of `%d0` after a body that finds its sources in `%d1`, `%d2`, …
#[track_caller]
pub(crate) fn value_64(body: &str, sources: &[u64]) -> u64 {
    let loads: String = (0..sources.len())
        .map(|idx| format!("ld.global.u64 %d{}, [%d31+{}];\n", idx + 1, 8 * idx))
        .collect();
    let body = format!("{loads}{body}\nst.global.u64 [%d30], %d0;");
    let words: Vec<u32> = sources
        .iter()
        .flat_map(|value| [*value as u32, (*value >> 32) as u32])
        .collect();
    let (out, report) = launch(&kernel("", &body), (1, 1), 0, &padded(&words), 2);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    u64::from(out[0]) | u64::from(out[1]) << 32
}

fn padded(values: &[u32]) -> Vec<u32> {
    let mut values = values.to_vec();
    values.resize(values.len().max(1), 0);
    values
}

/// Launches a kernel under some seeds; all findings.
pub(crate) fn findings(
    ptx: &str,
    shape: (u32, u32),
    n_in: usize,
    n_out: usize,
) -> Vec<FindingKind> {
    let input: Vec<u32> = (0..n_in as u32).collect();
    let mut found = Vec::new();
    for seed in 0..6 {
        let (_, report) = launch(ptx, shape, seed, &input, n_out);
        found.extend(report.findings.into_iter().map(|finding| finding.kind));
    }
    found
}

/// Shared memory of the bodies.
pub(crate) const TILE: &str = ".shared .align 16 .b8 tile[1024];";

/// Runs two kernels: `faulty` gives findings that `is_found` holds for, `sound` gives none.
#[track_caller]
pub(crate) fn check(
    shape: (u32, u32),
    n: (usize, usize),
    faulty: &str,
    sound: &str,
    is_found: impl Fn(&FindingKind) -> bool,
) {
    let found = findings(faulty, shape, n.0, n.1);
    assert!(found.iter().any(is_found), "{found:?}\n{faulty}");
    let found = findings(sound, shape, n.0, n.1);
    assert!(found.is_empty(), "{found:?}\n{sound}");
}

/// The same for two bodies.
#[track_caller]
pub(crate) fn check_bodies(
    shape: (u32, u32),
    declarations: &str,
    faulty: &str,
    sound: &str,
    is_found: impl Fn(&FindingKind) -> bool,
) {
    let (faulty, sound) = (kernel(declarations, faulty), kernel(declarations, sound));
    check(shape, (256, 256), &faulty, &sound, is_found);
}
