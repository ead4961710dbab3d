//! Kernels of block formats that are wrong on purpose: each must give other bytes than the host, or be found by the interpreter's
//! checks.
//!
//! Values are those of `device_cases`, whose checks every change here would fail too. Without NVIDIA's compiler nothing is tested:
//! kernels of the host's have no such checks.

#![allow(unsafe_code, reason = "launches kernels that are wrong on purpose")]

use spark_mem::{Buffer, Device, KernelSource, LaunchShape, Read, Stream, Write};
use spark_quant::packed::{Scales, swizzle};
use spark_quant::scalar::MiniFormat;
use spark_quant::{ExecutionPolicy, PackedFormat, Quantizer};
use spark_testing::driver::Persona::Spark;

use crate::device::driver;
use crate::device_cases::{FORMATS, rows_of_every_exponent, values};
use crate::mutants::{Outcome, changed, device, judged, whole};

const BLOCKS: &str = include_str!("../../kernels/blocks.cu");

/// Codes, scales, values, bits of the largest magnitude, groups of four values.
type ToNvfp4 = (Write<u8>, Write<u8>, Read<f32>, Read<u32>, u64);
/// Codes, scales, values, groups of four values.
type ToMx = (Write<u8>, Write<u8>, Read<f32>, u64);
/// Destination, source, rows, columns, bytes of the tiles.
type Move = (Write<u8>, Read<u8>, u32, u32, u64);

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    Nvfp4,
    Mxfp4,
    Mxfp8,
    Swizzle,
    Unswizzle,
}

const ALL: [Run; 5] = [
    Run::Nvfp4,
    Run::Mxfp4,
    Run::Mxfp8,
    Run::Swizzle,
    Run::Unswizzle,
];

#[rustfmt::skip]
const MUTANTS: [(Run, &str, &str); 15] = [
    // Where scales lie.
    (Run::Swizzle, "(n_columns + 3) / 4", "n_columns / 4 + 1"),
    (Run::Unswizzle, "(n_columns + 3) / 4", "n_columns / 4 + 1"),
    (Run::Swizzle, "inside % 16 / 4 * 32", "inside % 16 / 4 * 16"),
    (Run::Unswizzle, "tile / n_tiles * 128", "tile / n_tiles * 64"),
    (Run::Swizzle, "row < n_rows && column < n_columns ?", "row < n_rows ?"),
    // Zeros, and ends of what scales hold.
    (Run::Nvfp4, "amax == 0 ? 0x38u", "amax == 0 ? 0x08u"),
    (Run::Nvfp4, "raw > 0.001953125f ? raw", "raw > 0.0f ? raw"),
    (Run::Mxfp4, "exponent - emax : 0u", "exponent - emax : 1u"),
    (Run::Mxfp8, "exponent > emax ?", "exponent > emax + 1u ?"),
    (Run::Mxfp8, "magnitude < 448.0f ? magnitude : 448.0f", "magnitude"),
    // Ties.
    (Run::Mxfp4, "(x >= 0.75f)", "(x > 0.75f)"),
    (Run::Mxfp4, "(x > 5.0f)", "(x >= 5.0f)"),
    (Run::Mxfp8, "0x7FFFFu + (bits >> 20 & 1u)", "0x80000u"),
    // Neighbours that share a block.
    (Run::Nvfp4, "largest_of_threads(largest_of(x), 4)", "largest_of_threads(largest_of(x), 2)"),
    (Run::Mxfp8, "largest_of_threads(largest_of(x), 8)", "largest_of_threads(largest_of(x), 4)"),
];

fn upload<T: spark_mem::Element>(device: &Device, stream: &Stream, values: &[T]) -> Buffer<T> {
    let mut buffer = device.shared::<T>(values.len()).expect("there is memory");
    buffer.upload(stream, values).expect("it arrives");
    buffer
}

/// A thread for each of `n`.
fn shape(n: usize) -> LaunchShape {
    LaunchShape {
        grid: [n.div_ceil(256) as u32, 1, 1],
        block: [256, 1, 1],
        shared_bytes: 0,
    }
}

/// Whether codes and scales are those of the host; nothing if the launch failed.
fn quantizes(device: &Device, text: &str, format: PackedFormat, values: &[f32]) -> Option<bool> {
    let (_, recipe) = FORMATS.into_iter().find(|(own, _)| *own == format)?;
    let policy = ExecutionPolicy::one_thread();
    let host = Quantizer::new(recipe).quantize(policy, values, &[values.len() / 32, 32], 1);
    let host = host.expect("finite values");
    let (Scales::Nvfp4 { block: wanted, .. } | Scales::Mx(wanted)) = host.scales() else {
        return None;
    };
    let stream = device.new_stream().ok()?;
    let mut codes = upload(device, &stream, &vec![0xA5_u8; host.codes().len()]);
    let mut scales = upload(device, &stream, &vec![0xA5_u8; wanted.len()]);
    let given = upload(device, &stream, values);
    let n_fours = values.len() / 4;
    if format == PackedFormat::Nvfp4 {
        let source: KernelSource<ToNvfp4> =
            KernelSource::from_text("blocks.cu", text, "nvfp4_from_f32");
        let largest = values.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let largest = upload(device, &stream, &[largest.to_bits()]);
        let arguments = (
            codes.view_mut(),
            scales.view_mut(),
            given.view(),
            largest.view(),
            n_fours as u64,
        );
        let kernel = device.kernel(&source).expect("it compiles");
        // SAFETY: not sound on purpose where the text was changed: the interpreter keeps what it does
        // inside of the driver's memory.
        unsafe { kernel.launch(&stream, shape(n_fours), arguments) }.ok()?;
    } else {
        let entry = match format {
            PackedFormat::Mx(MiniFormat::E2m1) => "mxfp4_from_f32",
            _ => "mxfp8_from_f32",
        };
        let source: KernelSource<ToMx> = KernelSource::from_text("blocks.cu", text, entry);
        let arguments = (
            codes.view_mut(),
            scales.view_mut(),
            given.view(),
            n_fours as u64,
        );
        let kernel = device.kernel(&source).expect("it compiles");
        // SAFETY: as above.
        unsafe { kernel.launch(&stream, shape(n_fours), arguments) }.ok()?;
    }
    let is_same = *codes.read(&stream).ok()? == *host.codes();
    Some(is_same && *scales.read(&stream).ok()? == **wanted)
}

/// Whether scales go to their places in the tiles, or come from them; nothing if the launch failed.
fn moves(device: &Device, text: &str, entry: &str, [rows, columns]: [usize; 2]) -> Option<bool> {
    let scales: Vec<u8> = (0..rows * columns).map(|at| (at % 251 + 1) as u8).collect();
    let tiles = swizzle::swizzle(&scales, rows, columns).expect("it fits");
    let n_bytes = tiles.len();
    let (from, wanted) = match entry {
        "swizzle_scales" => (scales, tiles),
        _ => (tiles, scales),
    };
    let stream = device.new_stream().ok()?;
    let from = upload(device, &stream, &from);
    let mut to = upload(device, &stream, &vec![0xA5_u8; wanted.len()]);
    let source: KernelSource<Move> = KernelSource::from_text("blocks.cu", text, entry);
    let kernel = device.kernel(&source).expect("it compiles");
    let (n_rows, n_columns) = (rows as u32, columns as u32);
    let arguments = (
        to.view_mut(),
        from.view(),
        n_rows,
        n_columns,
        n_bytes as u64,
    );
    // SAFETY: as above.
    unsafe { kernel.launch(&stream, shape(n_bytes), arguments) }.ok()?;
    Some(*to.read(&stream).ok()? == *wanted)
}

fn outcome(text: &str, run: Run, seed: u64) -> Outcome {
    let posed = driver().pose(Spark);
    posed.set_seed(seed);
    let device = device();
    // All exponents, and ties; neither fills its last block of threads.
    let inputs = [rows_of_every_exponent(), values(32 * 33, 3, 2)];
    let each_input = |format| {
        inputs.iter().try_fold(true, |is_right, values| {
            quantizes(&device, text, format, values).map(|own| is_right && own)
        })
    };
    let each_shape = |entry| {
        // Tiles that no column pads, and tiles that some do; more than one row of tiles.
        [[129, 8], [130, 5]]
            .into_iter()
            .try_fold(true, |is_right, shape| {
                moves(&device, text, entry, shape).map(|own| is_right && own)
            })
    };
    let is_right = match run {
        Run::Nvfp4 => each_input(PackedFormat::Nvfp4),
        Run::Mxfp4 => each_input(PackedFormat::Mx(MiniFormat::E2m1)),
        Run::Mxfp8 => each_input(PackedFormat::Mx(MiniFormat::E4m3)),
        Run::Swizzle => each_shape("swizzle_scales"),
        Run::Unswizzle => each_shape("unswizzle_scales"),
    };
    judged(&posed, device, is_right)
}

#[test]
fn every_mutant_is_caught() {
    if !driver().runs_ptx() {
        return;
    }
    let text = whole(BLOCKS);
    let passes = |(run, from, to): &(Run, &str, &str)| {
        outcome(&changed(&text, from, to), *run, 1) == Outcome::Right
    };
    let survivors: Vec<_> = MUTANTS.iter().filter(|mutant| passes(mutant)).collect();
    assert!(survivors.is_empty(), "not caught: {survivors:#?}");
}

#[test]
fn what_is_right_is_silent_under_twenty_orders() {
    if !driver().runs_ptx() {
        return;
    }
    let text = whole(BLOCKS);
    for seed in 0..20 {
        for run in ALL {
            assert_eq!(
                outcome(&text, run, seed),
                Outcome::Right,
                "{run:?}, seed {seed}"
            );
        }
    }
}
