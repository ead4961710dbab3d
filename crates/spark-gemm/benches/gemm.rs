//! Matmul of one shape in every format: f32, bf16 where there are dot products of it, and bytes.
//!
//! ```text
//! case                 instruction set, format
//! m, n, k              rows, columns, depth
//! gop_per_s            10^9 multiply-adds per second, times two, on one thread, caches warm
//! ```
//!
//! Run: `cargo bench -p spark-gemm -- [FILTER]`. Every answer is checked before it is timed; under `cargo test`
//! it is checked and not timed.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(
    unsafe_code,
    reason = "times the kernels as engines call them, on operands that are as long as the shapes say"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use spark_gemm::int8::{ByteKind, Int8Gemm, Int8Instructions, Int8Layout, Int8Result};
use spark_gemm::{
    FloatFormat, Gemm, PackedLayout, TileEpilogue, WeightMemory, WeightShape, gemm_panel, panels,
};
use spark_parallel::Pool;
use spark_simd::Isa;

/// Rows, columns, depth: a pointwise convolution, a window of nine taps, few rows.
const SHAPES: [[usize; 3]; 5] = [
    [784, 128, 128],
    [784, 16, 128],
    [784, 32, 128],
    [196, 256, 1152],
    [4, 1024, 1024],
];
/// Timed runs of a case.
const RUNS: usize = 21;
/// Least time of a run: many times what the clock can tell.
const RUN: Duration = Duration::from_millis(5);

/// A matmul that can be repeated, and whether its answer is right.
struct Case {
    name: String,
    work: Box<dyn FnMut()>,
    is_right: Box<dyn FnMut() -> bool>,
}

/// Whole numbers from -8 to 8, whose sums every format holds exactly.
fn whole(i: usize, seed: usize) -> i32 {
    ((i * 7 + seed * 13) % 17) as i32 - 8
}

/// What row `m` and column `n` of the result is.
fn want([_, columns, depth]: [usize; 3], m: usize, n: usize) -> i64 {
    let products = (0..depth).map(|k| {
        let (x, w) = (whole(m * depth + k, 1), whole(k * columns + n, 2));
        i64::from(x) * i64::from(w)
    });
    products.sum()
}

/// Whether `got` gives a few of the results of `shape`.
fn check(shape: [usize; 3], got: impl Fn(usize, usize) -> i64) -> bool {
    let [rows, columns, _] = shape;
    let places = [(0, 0), (rows - 1, columns - 1), (rows / 2, columns / 3)];
    places.iter().all(|&(m, n)| got(m, n) == want(shape, m, n))
}

fn of_floats(isa: Isa, (layout, x_format): (PackedLayout, FloatFormat), shape: [usize; 3]) -> Case {
    let [m, n, k] = shape;
    let x: Vec<f32> = (0..m * k).map(|i| whole(i, 1) as f32).collect();
    let halves: Vec<u16> = x.iter().map(|v| (v.to_bits() >> 16) as u16).collect();
    let weights = WeightShape {
        groups: 1,
        taps: 1,
        depth: k,
    };
    let write = |_: usize, columns: std::ops::Range<usize>, to: &mut [f32], width: usize| {
        for (row, to) in to.chunks_exact_mut(width).enumerate() {
            for (to, column) in to.iter_mut().zip(columns.clone()) {
                *to = whole(row * n + column, 2) as f32;
            }
        }
    };
    let packed = layout.pack(
        isa,
        weights,
        0..n,
        write,
        &WeightMemory::default(),
        &Pool::new(1),
    );
    let y = std::rc::Rc::new(std::cell::RefCell::new(vec![0.0f32; m * n]));
    let seen = y.clone();
    Case {
        name: match x_format {
            FloatFormat::F32 => format!("{}-{layout:?}", isa.name()).to_lowercase(),
            FloatFormat::Bf16 => format!("{}-{layout:?}-from-bf16", isa.name()).to_lowercase(),
        },
        work: Box::new(move || {
            let gemm = Gemm {
                x: match x_format {
                    FloatFormat::F32 => x.as_ptr(),
                    FloatFormat::Bf16 => halves.as_ptr().cast(),
                },
                x_format,
                x_stride: k as isize,
                y: y.borrow_mut().as_mut_ptr(),
                y_stride: n as isize,
                residual: std::ptr::null(),
                residual_stride: 0,
                m,
                k,
                n,
                layout,
                epilogue: TileEpilogue::none(isa),
            };
            for panel in panels(isa, n) {
                // SAFETY: operands are as long as the shape says; the weights were packed for it.
                unsafe { gemm_panel(isa, &gemm, packed.as_slice().as_ptr(), panel, (0, m)) };
            }
        }),
        is_right: Box::new(move || {
            check(shape, |row, column| seen.borrow()[row * n + column] as i64)
        }),
    }
}

fn of_bytes(instructions: Int8Instructions, kind: ByteKind, shape: [usize; 3]) -> Case {
    let [m, n, k] = shape;
    let zero = match kind {
        ByteKind::Signed => 0,
        ByteKind::Unsigned => 128,
    };
    let x: Vec<u8> = (0..m * k).map(|i| (whole(i, 1) + zero) as u8).collect();
    let weights = WeightShape {
        groups: 1,
        taps: 1,
        depth: k,
    };
    let write = |_: usize, columns: std::ops::Range<usize>, to: &mut [u8], width: usize| {
        for (row, to) in to.chunks_exact_mut(width).enumerate() {
            for (to, column) in to.iter_mut().zip(columns.clone()) {
                *to = whole(row * n + column, 2) as u8;
            }
        }
    };
    let layout = Int8Layout::new(instructions, weights, n, ByteKind::Signed);
    let packed =
        layout
            .expect("few enough products")
            .pack(write, &WeightMemory::default(), &Pool::new(1));
    let mut initial = vec![0; packed.padded_columns()];
    packed.write_initial(0, (kind, zero), &[], &[], &mut initial);
    let y = std::rc::Rc::new(std::cell::RefCell::new(vec![0i32; m * n]));
    let seen = y.clone();
    let x_kind = match kind {
        ByteKind::Signed => "i8",
        ByteKind::Unsigned => "u8",
    };
    Case {
        name: format!("{}-{x_kind}xi8", instructions.name()),
        work: Box::new(move || {
            let gemm = Int8Gemm {
                x: x.as_ptr(),
                x_stride: k as isize,
                kind,
                weights: &packed,
                group: 0,
                initial: initial.as_ptr(),
                zero_points: std::ptr::null(),
                result: Int8Result::Sums {
                    y: y.borrow_mut().as_mut_ptr(),
                    stride: n as isize,
                },
            };
            for panel in panels(instructions.isa(), n) {
                // SAFETY: operands are as long as the shape says; the lists are padded.
                unsafe { spark_gemm::int8::int8_gemm_panel(&gemm, panel, (0, m)) };
            }
        }),
        is_right: Box::new(move || {
            check(shape, |row, column| {
                i64::from(seen.borrow()[row * n + column])
            })
        }),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_timed = arguments.iter().any(|argument| argument == "--bench");
    let filter = arguments
        .iter()
        .find(|argument| !argument.starts_with("--"));
    if is_timed {
        println!("case,m,n,k,runs,min_ms,median_ms,max_ms,gop_per_s");
    }
    for shape in SHAPES {
        let mut cases = Vec::new();
        for isa in Isa::available() {
            let mut add = |format| cases.push(of_floats(isa, format, shape));
            add((PackedLayout::F32, FloatFormat::F32));
            if let Some(layout) = PackedLayout::bf16_dot(isa) {
                add((layout, FloatFormat::F32));
                if layout == PackedLayout::Bf16Dot {
                    add((layout, FloatFormat::Bf16));
                }
            }
        }
        for instructions in Int8Instructions::available() {
            for kind in [ByteKind::Unsigned, ByteKind::Signed] {
                cases.push(of_bytes(instructions, kind, shape));
            }
        }
        for mut case in cases {
            if filter.is_some_and(|filter| !case.name.contains(filter)) {
                continue;
            }
            (case.work)();
            assert!((case.is_right)(), "{} {shape:?}", case.name);
            if is_timed {
                time(&mut case, shape);
            }
        }
    }
}

/// Prints the times of one call.
fn time(case: &mut Case, [m, n, k]: [usize; 3]) {
    let mut once = || {
        let start = Instant::now();
        black_box(&mut case.work)();
        start.elapsed()
    };
    let longest = (0..5).map(|_| once()).max().unwrap_or_default();
    let repeats = (RUN.as_secs_f64() / longest.as_secs_f64().max(1e-9)).ceil() as u32;
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            (0..repeats).for_each(|_| (case.work)());
            start.elapsed().as_secs_f64() / f64::from(repeats) * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let median = times[RUNS / 2];
    let gops = 2e-6 * (m * n * k) as f64 / median;
    println!(
        "{},{m},{n},{k},{RUNS},{:.4},{median:.4},{:.4},{gops:.1}",
        case.name,
        times[0],
        times[RUNS - 1]
    );
}
