//! Kernels that are wrong on purpose: each must be caught, by its results or by the interpreter's checks.
//!
//! ```text
//! text of a kernel, one place changed ──NVRTC──> PTX ──interpreter──> results differ, or a finding
//! the same text unchanged, under 20 orders of its warps and blocks ──> exact, no finding
//! ```
//!
//! What passes here would pass for a kernel in the making too. Without NVIDIA's compiler nothing is
//! tested: the instructions of the GEMM have no version for the host compiler.

#![allow(unsafe_code, reason = "launches kernels that are wrong on purpose")]

use half::f16;
use spark_mem::{Device, DeviceOptions, KernelSource, LaunchShape, Read, Write};
use spark_quant::scalar::{MiniFormat, NanCode, Overflow};
use spark_testing::driver::{Persona, Posed};

use crate::device::driver;

const WARP: &str = include_str!("../../../spark-mem/kernels/spark_warp.cuh");
const GEMM: &str = include_str!("../../kernels/gemm.cu");
const ROWS: &str = include_str!("../../../spark-mem/tests/kernels/rows.cu");

/// A kernel with its header in it, so that both can be changed, and without what only the host compiler includes: a
/// text that may read a file is compiled anew for every launch.
pub(crate) fn whole(text: &str) -> String {
    let header = WARP.replace("#pragma once", "");
    let header = header.replace("#include \"spark_warp_on_host.h\"", "");
    text.replace("#include \"spark_warp.cuh\"", &header)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    F16,
    E4m3,
    Nvfp4,
}

/// What becomes of a launch.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    Right,
    Wrong,
    Found(String),
}

type Gemm = (
    Write<f32>,
    Read<u8>,
    Read<u8>,
    Read<u8>,
    Read<u8>,
    u32,
    u32,
    u32,
    u64,
    u64,
    u64,
    f32,
    f32,
);

struct Operand {
    codes: Vec<u8>,
    scales: Vec<u8>,
    values: Vec<f64>,
    stride: usize,
    row_bytes: usize,
}

/// Small whole numbers, and where the format has it a NaN in some rows, at odd and at even places; scales
/// that differ from block to block. What pads a row is no zero: NaN, or -6 of E2M1.
fn operand(format: Format, rows: usize, depth: usize, mut seed: u32) -> Operand {
    let mut below = |n: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % n
    };
    let bits = match format {
        Format::F16 => 16,
        Format::E4m3 => 8,
        Format::Nvfp4 => 4,
    };
    let row_bytes = depth * bits / 8;
    let stride = row_bytes.next_multiple_of(16);
    let mut own = Operand {
        codes: vec![0xFF; rows * stride],
        scales: vec![0; (rows * depth / 16).max(1)],
        values: Vec::new(),
        stride,
        row_bytes,
    };
    for scale in &mut own.scales {
        *scale = 0x40 + 8 * below(4) as u8;
    }
    for row in 0..rows {
        own.codes[row * stride..][..row_bytes].fill(0);
        for at in 0..depth {
            let to = &mut own.codes[row * stride..];
            let is_nan = [4, 9].contains(&(row % 16)) && at == row;
            let value = match format {
                Format::F16 if is_nan => {
                    to[2 * at..][..2].copy_from_slice(&f16::NAN.to_le_bytes());
                    f64::NAN
                }
                Format::E4m3 if is_nan => {
                    to[at] = 0x7F;
                    f64::NAN
                }
                Format::F16 => {
                    let value = below(17) as f32 - 8.0;
                    to[2 * at..][..2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
                    f64::from(value)
                }
                Format::E4m3 => {
                    let value = below(17) as f32 - 8.0;
                    to[at] = MiniFormat::E4m3.encode(
                        value,
                        Overflow::Saturate,
                        NanCode::LargestPositive,
                    );
                    f64::from(value)
                }
                Format::Nvfp4 => {
                    let code = below(16) as u8;
                    to[at / 2] |= code << (4 * (at % 2));
                    let scale = MiniFormat::E4m3.decode(own.scales[(row * depth + at) / 16]);
                    f64::from(MiniFormat::E2m1.decode(code)) * f64::from(scale)
                }
            };
            own.values.push(value);
        }
    }
    own
}

pub(crate) fn device() -> Device {
    Device::cuda(0, DeviceOptions::new()).expect("the stand-in driver has a device")
}

/// What the launch left behind: a finding counts before what it computed.
pub(crate) fn judged(posed: &Posed<'_>, device: Device, is_right: Option<bool>) -> Outcome {
    drop(device);
    let found = posed.violations().into_iter().next();
    posed.forget();
    match (found, is_right) {
        (Some(what), _) => Outcome::Found(what),
        (None, Some(true)) => Outcome::Right,
        (None, _) => Outcome::Wrong,
    }
}

fn gemm(text: &str, format: Format, persona: Persona, seed: u64) -> Outcome {
    let posed = driver().pose(persona);
    posed.set_seed(seed);
    let device = device();
    let is_right = run_gemm(&device, text, format);
    judged(&posed, device, is_right)
}

/// Whether all sums are right; nothing if the launch failed.
fn run_gemm(device: &Device, text: &str, format: Format) -> Option<bool> {
    // Ragged in every direction, several stages, several blocks.
    let (m, n) = (70, 71);
    let depth = match format {
        Format::F16 => 84,
        Format::E4m3 => 168,
        Format::Nvfp4 => 336,
    };
    let number = match format {
        Format::F16 => 0,
        Format::E4m3 => 2,
        Format::Nvfp4 => 3,
    };
    let (a, b) = (operand(format, m, depth, 1), operand(format, n, depth, 2));
    let stream = device.new_stream().ok()?;
    let source: KernelSource<Gemm> = KernelSource::from_text("gemm.cu", text, "spark_gemm")
        .with_option(format!("-DSPARK_GEMM_FORMAT={number}"));
    let kernel = device.kernel(&source).expect("it compiles");
    let upload = |bytes: &[u8]| {
        let mut buffer = device.shared::<u8>(bytes.len()).expect("there is memory");
        buffer.upload(&stream, bytes).expect("it arrives");
        buffer
    };
    let operands = [&a.codes, &b.codes, &a.scales, &b.scales].map(|bytes| upload(bytes));
    let mut c = device.shared::<f32>(m * n).ok()?;
    c.write(&stream).ok()?.fill(f32::NAN);
    let shape = LaunchShape {
        grid: [n.div_ceil(64) as u32, m.div_ceil(64) as u32, 1],
        block: [128, 1, 1],
        shared_bytes: 0,
    };
    let arguments = (
        c.view_mut(),
        operands[0].view(),
        operands[1].view(),
        operands[2].view(),
        operands[3].view(),
        m as u32,
        n as u32,
        a.row_bytes as u32,
        a.stride as u64,
        b.stride as u64,
        n as u64,
        0.5,
        4.0,
    );
    // SAFETY: not sound on purpose where the text was changed: the interpreter keeps what it does
    // inside of the driver's memory.
    unsafe { kernel.launch(&stream, shape, arguments) }.ok()?;
    let got = c.read(&stream).ok()?.to_vec();
    let want = |row: usize, column: usize| -> f64 {
        let x = &a.values[row * depth..][..depth];
        let y = &b.values[column * depth..][..depth];
        x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>() * 0.5 * 4.0
    };
    let is_equal = |(at, got): (usize, &f32)| {
        let want = want(at / n, at % n);
        f64::from(*got) == want || got.is_nan() && want.is_nan()
    };
    Some(got.iter().enumerate().all(is_equal))
}

fn softmax(text: &str, persona: Persona, seed: u64) -> Outcome {
    let posed = driver().pose(persona);
    posed.set_seed(seed);
    let device = device();
    let is_right = run_softmax(&device, text);
    judged(&posed, device, is_right)
}

fn run_softmax(device: &Device, text: &str) -> Option<bool> {
    let (rows, columns) = (3, 300);
    let stream = device.new_stream().ok()?;
    let source: KernelSource<(Write<f32>, Read<f32>, u32)> =
        KernelSource::from_text("rows.cu", text, "softmax_rows_f32");
    let kernel = device.kernel(&source).expect("it compiles");
    let values: Vec<f32> = (0..rows * columns)
        .map(|at| ((at * 37 % 101) as f32 - 50.0) / 9.0)
        .collect();
    let mut input = device.shared::<f32>(values.len()).ok()?;
    input.upload(&stream, &values).ok()?;
    let mut out = device.shared::<f32>(values.len()).ok()?;
    let shape = LaunchShape {
        grid: [rows as u32, 1, 1],
        block: [128, 1, 1],
        shared_bytes: 4 * columns as u32,
    };
    // SAFETY: as for the GEMM.
    unsafe {
        kernel.launch(
            &stream,
            shape,
            (out.view_mut(), input.view(), columns as u32),
        )
    }
    .ok()?;
    let got = out.read(&stream).ok()?.to_vec();
    let is_near = |row: usize| {
        let x = &values[row * columns..][..columns];
        let largest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let powers: Vec<f64> = x.iter().map(|x| f64::from(x - largest).exp()).collect();
        let sum: f64 = powers.iter().sum();
        let pairs = got[row * columns..].iter().zip(&powers);
        pairs
            .into_iter()
            .all(|(got, power)| (f64::from(*got) - power / sum).abs() < 1e-6)
    };
    Some((0..rows).all(is_near))
}

/// What is changed, into what, and where it shows.
struct Mutant {
    what: &'static str,
    from: &'static str,
    to: &'static str,
    format: Format,
    persona: Persona,
}

const fn mutant(
    what: &'static str,
    from: &'static str,
    to: &'static str,
    format: Format,
    persona: Persona,
) -> Mutant {
    Mutant {
        what,
        from,
        to,
        format,
        persona,
    }
}

use Format::{E4m3, F16, Nvfp4};
use Persona::{Ampere, Card, Jetson, Spark};

#[rustfmt::skip]
const GEMM_MUTANTS: [Mutant; 37] = [
    mutant("the barrier before a stage is read is gone", "wait_copies_but_one();\n    __syncthreads();", "wait_copies_but_one();", F16, Card),
    mutant("the barrier after a stage was read is gone", "    // The next round overwrites what was just read.\n    __syncthreads();", "", F16, Card),
    mutant("one group too many may be pending", "cp.async.wait_group 1;", "cp.async.wait_group 2;", F16, Spark),
    mutant("copies of later stages are in no group", "    // Also where nothing was copied: waiting for all groups but one then means this stage.\n    commit_copies();", "", F16, Card),
    mutant("copies are never waited for", "    wait_copies_but_one();\n", "", E4m3, Spark),
    mutant("pieces are copied to other places than they are read from", "tile + place(row, piece)", "tile + row * TILE_BYTES + piece * PIECE", F16, Card),
    mutant("one stage is used for all", "Stage& stage = stages[stage_idx % STAGES];\n    unsigned byte", "Stage& stage = stages[0];\n    unsigned byte", F16, Spark),
    mutant("the next stage is the one at hand", "bring(stage_idx + 1);", "bring(stage_idx);", F16, Card),
    mutant("one stage too few", "(row_bytes + TILE_BYTES - 1) / TILE_BYTES", "row_bytes / TILE_BYTES", F16, Card),
    mutant("lanes name other halves of K in A", "place(row, 2 * step + lane / 16)", "place(row, 2 * step + lane / 8 % 2)", F16, Spark),
    mutant("lanes name the upper rows twice", "warp_row + 16 * tile + lane % 16", "warp_row + 16 * tile + lane % 8", F16, Card),
    mutant("lanes name other halves of K in B", "place(row, 2 * step + lane / 8 % 2)", "place(row, 2 * step + lane / 16)", F16, Card),
    mutant("registers of A are exchanged", "f32.f16.f16.f32 \"\n      \"{%0,%1,%2,%3}, {%4,%5,%6,%7}", "f32.f16.f16.f32 \"\n      \"{%0,%1,%2,%3}, {%4,%6,%5,%7}", F16, Spark),
    mutant("registers of B are exchanged", "f32.e4m3.e4m3.f32 \"\n      \"{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}", "f32.e4m3.e4m3.f32 \"\n      \"{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%9,%8}", E4m3, Spark),
    mutant("the sum so far is left out", "{%8,%9}, {%10,%11,%12,%13};\"\n      : \"=f\"(d[0]), \"=f\"(d[1]), \"=f\"(d[2]), \"=f\"(d[3])\n      : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1]), \"f\"(c[0])", "{%8,%9}, {%10,%11,%12,%13};\"\n      : \"=f\"(d[0]), \"=f\"(d[1]), \"=f\"(d[2]), \"=f\"(d[3])\n      : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1]), \"f\"(0.0f * c[0])", F16, Card),
    mutant("rows of the result are permuted", "group + idx / 2 * 8", "group + idx % 2 * 8", F16, Card),
    mutant("columns of the result overlap", "2 * part + idx % 2;", "part + idx % 2;", F16, Card),
    mutant("a row behind the end is written", "if (row < m && at < n)", "if (row <= m && at < n)", F16, Card),
    mutant("columns behind the end are written", "if (row < m && at < n)", "if (row < m)", F16, Card),
    mutant("a row behind the end is read", "if (first_row + row < n_rows &&", "if (first_row + row <= n_rows &&", F16, Card),
    mutant("the last bytes of a row are left out", "row_bytes - byte < PIECE ? row_bytes - byte : PIECE", "row_bytes - byte < PIECE ? 0u : PIECE", F16, Spark),
    mutant("what pads a row is multiplied", "row_bytes - byte < PIECE ? row_bytes - byte : PIECE", "PIECE", F16, Card),
    mutant("what pads a row of bytes is multiplied", "row_bytes - byte < PIECE ? row_bytes - byte : PIECE", "PIECE", E4m3, Ampere),
    mutant("the factor is left out", "alpha * sums", "sums", F16, Card),
    mutant("the second factor is left out", "[idx] * beta", "[idx]", F16, Card),
    mutant("sums begin with what is in the registers", "float sums[ROW_TILES][COLUMN_TILES][4] = {};", "float sums[ROW_TILES][COLUMN_TILES][4];", F16, Card),
    mutant("warps compute the same columns", "32 * (warp % 2)", "32 * (warp / 2)", F16, Card),
    mutant("scales of a row in the wrong order", "<< (8 * (idx % 4))", "<< (8 * (3 - idx % 4))", Nvfp4, Spark),
    mutant("scales of the other row", "lane % 2 == 0 ? scales_a", "lane % 2 == 1 ? scales_a", Nvfp4, Spark),
    mutant("scales of A and B are exchanged", "\"r\"(a_scales), \"r\"(b_scales)", "\"r\"(b_scales), \"r\"(a_scales)", Nvfp4, Spark),
    mutant("the second step has the scales of the first", "stage.a_scales + row * SCALES + 4 * step", "stage.a_scales + row * SCALES", Nvfp4, Card),
    mutant("a lane's scale is its neighbour's", "2 * half + threadIdx.x % 4 / 2", "2 * half + threadIdx.x % 2", Nvfp4, Card),
    mutant("both halves of a word are the first", "word >> (16 * pair)", "word >> (0 * pair)", E4m3, Ampere),
    mutant("the sign stays in the exponent", "(two & 0x8000u) << 16", "(two & 0x8000u) << 15", E4m3, Ampere),
    mutant("a NaN in the upper half becomes a number", "if ((two & 0x7F00u) == 0x7F00u) values |= 0x7FFF0000u;", "", E4m3, Jetson),
    mutant("a NaN in the lower half becomes a number", "if ((two & 0x7Fu) == 0x7Fu) values |= 0x7FFFu;", "", E4m3, Ampere),
    mutant("decoded values are half of what they are", "low | high, 0x5C005C00u", "low | high, 0x58005800u", E4m3, Jetson),
];

#[rustfmt::skip]
const SOFTMAX_MUTANTS: [(&str, &str, &str); 4] = [
    ("the barrier behind the maxima is gone", "of_warp[warp] = largest;\n  __syncthreads();", "of_warp[warp] = largest;"),
    ("the barrier before the sums is gone", "largest = of_warp[other] > largest ? of_warp[other] : largest;\n  __syncthreads();", "largest = of_warp[other] > largest ? of_warp[other] : largest;"),
    ("half of the warp misses the barrier", "of_warp[warp] = sum;\n  __syncthreads();", "of_warp[warp] = sum;\n  if (threadIdx.x % 32 < 16) __syncthreads();"),
    ("one column too many", "i < n_columns; i += THREADS) {\n    row[i] = row_ptr[i];", "i <= n_columns; i += THREADS) {\n    row[i] = row_ptr[i];"),
];

/// The text with one place changed, which must be there once or mean the same each time.
pub(crate) fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "no `{from}` to change");
    text.replace(from, to)
}

#[test]
fn every_mutant_is_caught() {
    if !driver().runs_ptx() {
        return;
    }
    let mut survivors = Vec::new();
    let mut n_found = 0;
    let text = whole(GEMM);
    for mutant in &GEMM_MUTANTS {
        let own = changed(&text, mutant.from, mutant.to);
        match gemm(&own, mutant.format, mutant.persona, 1) {
            Outcome::Right => survivors.push(mutant.what),
            Outcome::Wrong => {}
            Outcome::Found(_) => n_found += 1,
        }
    }
    let text = whole(ROWS);
    for (what, from, to) in SOFTMAX_MUTANTS {
        match softmax(&changed(&text, from, to), Card, 1) {
            Outcome::Right => survivors.push(what),
            Outcome::Wrong => {}
            Outcome::Found(_) => n_found += 1,
        }
    }
    assert_eq!(survivors, [""; 0], "not caught");
    // Those whose results may be right by luck are caught by the checks.
    assert!(n_found >= 8, "{n_found} findings");
}

#[test]
fn what_is_right_is_silent_under_twenty_orders() {
    if !driver().runs_ptx() {
        return;
    }
    let (products, rows) = (whole(GEMM), whole(ROWS));
    for seed in 0..20 {
        let persona = Persona::ALL[seed as usize % 4];
        for format in [F16, E4m3, Nvfp4] {
            let outcome = gemm(&products, format, persona, seed);
            assert_eq!(outcome, Outcome::Right, "{format:?}, seed {seed}");
        }
        let outcome = softmax(&rows, persona, seed);
        assert_eq!(outcome, Outcome::Right, "seed {seed}");
    }
}
