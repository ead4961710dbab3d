//! Kernels of plans that are wrong on purpose: each must be caught, by its results or by the interpreter's checks, and unchanged
//! they are silent under other orders of warps and blocks.
//!
//! Without NVIDIA's compiler nothing is tested: kernels of the host's have no such checks.

use spark_mem::{Device, DeviceOptions};
use spark_onnx::Precision;
use spark_onnx::cuda::mutation::Change;
use spark_testing::driver::Persona;

use super::driver;
use super::elements::{agrees, floats_at_the_edges, integers_of_all_signs};
use super::operators::rows_of_no_numbers;
use super::tiles::{Case, conv, kernels_of, linear_and_sum, product, whole};

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    /// 16x32, three stages, two groups.
    Pieces,
    /// 32x32.
    Elements,
    Nk,
    Kn,
    Depthwise,
    F32,
    /// The residual behind the function.
    PiecesThenSum,
    DepthwiseThenSum,
    /// A product without tiles, to which an input is added.
    Plain,
    /// Reductions of what is no number.
    Rows,
    /// Programs of integers of all signs.
    Integers,
    /// Programs of what is no ordinary number.
    Floats,
}

const ALL: [Run; 12] = [
    Run::Pieces,
    Run::Elements,
    Run::Nk,
    Run::Kn,
    Run::Depthwise,
    Run::F32,
    Run::PiecesThenSum,
    Run::DepthwiseThenSum,
    Run::Plain,
    Run::Rows,
    Run::Integers,
    Run::Floats,
];

/// Whether the results are right, or the error that the run ends with.
fn run(device: &Device, run: Run) -> Result<bool, String> {
    let of_case = |case: Case, precision: Precision| case.run(device, precision);
    let then_sum = |case: Case| Case {
        residual: 2,
        residual_of_step: false,
        ..case
    };
    let of_plain = || {
        let (graph, inputs) = linear_and_sum([2, 5, 3], 1);
        let inputs = inputs.each_ref().map(|(name, x)| (*name, x));
        kernels_of(device, &graph, &inputs, Precision::Fp32, 0.0)
    };
    let of_rows = || {
        let (graph, x) = rows_of_no_numbers();
        kernels_of(device, &graph, &[("x", &x)], Precision::Fp32, 1e-5)
    };
    let of_product = |turned: bool| {
        let (batch, m, n, k) = (3, 17, 40, 24);
        let graph = product([batch, m, n, k], turned);
        let x = whole(&[batch, m, k], 1);
        let z = whole(&if turned { [batch, n, k] } else { [batch, k, n] }, 2);
        kernels_of(
            device,
            &graph,
            &[("x", &x), ("z", &z)],
            Precision::Fp16,
            0.0,
        )
    };
    let two_groups = Case {
        groups: 2,
        ..conv([1, 80, 5, 9], 33, 3, 1)
    };
    let depthwise = Case {
        groups: 20,
        ..conv([1, 20, 9, 11], 2, 5, 2)
    };
    let (done, kernel) = match run {
        Run::Pieces => (of_case(two_groups, Precision::Fp16), "plan_tiles_16x32"),
        Run::Elements => (
            of_case(conv([1, 3, 17, 9], 33, 7, 2), Precision::Fp16),
            "plan_tiles_32x32_by_element",
        ),
        Run::Nk => (of_product(true), "plan_tiles_matmul_nk_32x32"),
        Run::Kn => (of_product(false), "plan_tiles_matmul_kn_32x32"),
        Run::Depthwise => (of_case(depthwise, Precision::Fp16), "plan_depthwise_5_by_2"),
        Run::F32 => (
            of_case(two_groups_of_f32(), Precision::Fp32),
            "plan_tiles_f32",
        ),
        Run::PiecesThenSum => (
            of_case(then_sum(two_groups), Precision::Fp16),
            "plan_tiles_16x32",
        ),
        Run::DepthwiseThenSum => (
            of_case(then_sum(depthwise), Precision::Fp16),
            "plan_depthwise_5_by_2",
        ),
        Run::Plain => (of_plain(), "plan_matmul"),
        Run::Rows => (of_rows(), "plan_reduce"),
        Run::Integers => (agrees(device, &integers_of_all_signs()), "plan_program"),
        Run::Floats => (agrees(device, &floats_at_the_edges()), "plan_program"),
    };
    match done {
        Ok(kernels) => {
            assert!(kernels.contains(kernel), "{run:?}: {kernels:?}");
            Ok(true)
        }
        Err(error) if error.contains("element ") => Ok(false),
        Err(error) => Err(error),
    }
}

fn two_groups_of_f32() -> Case {
    Case {
        groups: 2,
        ..conv([1, 12, 5, 9], 33, 3, 1)
    }
}

/// Whether a run is right and the driver has nothing against it. An error that nothing was found behind, such as a kernel that does not
/// compile, is neither.
#[track_caller]
fn passes(what: Run, seed: u64) -> bool {
    let posed = driver().pose(Persona::Spark);
    posed.set_seed(seed);
    let device = Device::cuda(0, DeviceOptions::new()).expect("the stand-in driver has a device");
    let result = run(&device, what);
    drop(device);
    let is_clean = posed.violations().is_empty();
    posed.forget();
    match result {
        Ok(is_right) => is_right && is_clean,
        Err(error) => {
            assert!(!is_clean, "{what:?}, seed {seed}: {error}");
            false
        }
    }
}

#[rustfmt::skip]
const MUTANTS: &[(Run, &str, &str)] = &[
    // Barriers and copies that nobody waits for.
    (Run::Pieces, "    wait_copies_but_one();\n    __syncthreads();", "    wait_copies_but_one();"),
    (Run::Pieces, "overwrite what was just read.\n    __syncthreads();", "overwrite what was just read."),
    (Run::Pieces, "    wait_copies_but_one();", ""),
    (Run::Nk, "    wait_copies_but_one();\n    __syncthreads();", "    wait_copies_but_one();"),
    (Run::F32, "store(stage + 1);\n    __syncthreads();", "store(stage + 1);"),
    (Run::F32, "store(0);\n  __syncthreads();", "store(0);"),
    // Stages.
    (Run::Pieces, "memory + (stage + 1) % STAGES", "memory + stage % STAGES"),
    (Run::Pieces, "first_block * K_BLOCK_BYTES + ", ""),
    (Run::F32, "stage % STAGES * W_STAGE", "0 * W_STAGE"),
    (Run::Elements, "bring(stage + 1, memory", "bring(stage, memory"),
    // Fragments.
    (Run::Pieces, "+ column % 2 * 2, sum", "+ (1 - column % 2) * 2, sum"),
    (Run::Pieces, "2 * block + lane / 16)", "2 * block + lane / 8 % 2)"),
    (Run::Pieces, "16 * tile + lane % 16", "16 * tile + lane / 2"),
    (Run::Pieces, "8 * half + lane / 4", "8 * half + lane % 8"),
    (Run::Pieces, "words[1] = both.y", "words[1] = both.z"),
    (Run::Pieces, "part < T::WARPS_K", "part + 1 < T::WARPS_K"),
    (Run::Elements, "h[2] | h[3] << 16", "h[3] | h[2] << 16"),
    (Run::Nk, "STRIP * strip + 8 * tile + lane % 8", "STRIP * strip + 8 * half + lane % 8"),
    (Run::Kn, "2 * strip + tile", "2 * strip + half"),
    (Run::Kn, "load_matrix_x4_transposed(words", "load_matrix_x4(words"),
    // Places and bounds.
    (Run::Pieces, "static_cast<unsigned>(row.x + piece.dx) < tiles.in_width", "true"),
    (Run::Pieces, "static_cast<unsigned>(row.y + piece.dy) < tiles.in_height", "true"),
    (Run::Pieces, "2 * (rows[i].first + piece.offset)", "2 * rows[i].first"),
    (Run::Pieces, "m >= tiles.m || n >= tiles.n", "m >= tiles.m"),
    (Run::Pieces, "group * tiles.n + n, residual", "n, residual"),
    (Run::Pieces, "group * tiles.weights_stride", "0"),
    (Run::Elements, "stage * T::PIECES + my_piece", "stage * T::PIECES + my_piece + 1"),
    (Run::Nk, "(left < 8 ? 2 * left : PIECE)", "PIECE"),
    (Run::Kn, "first_m + idx / T::N", "first_m + idx / T::N / 2"),
    (Run::F32, "a_k * A_ROW + a_row", "a_k * A_ROW + a_row + 1"),
    (Run::F32, "stage * K + w_k", "w_k"),
    (Run::Depthwise, "column + static_cast<int>(i)) < conv.in_width", "column + static_cast<int>(i)) <= conv.in_width"),
    (Run::Depthwise, "seen[i * STRIDE + tap_column]", "seen[i + tap_column]"),
    (Run::Depthwise, "tap_row * WIDTH", "tap_row"),
    (Run::Depthwise, "from = x + (first + y * strides[2])", "from = x + first"),
    // Residuals.
    (Run::Pieces, "if (epilogue.flags & PLAN_HAS_RESIDUAL)", "if (false)"),
    (Run::Pieces, "bool is_first = epilogue.flags & PLAN_RESIDUAL_FIRST;", "bool is_first = false;"),
    (Run::Pieces, "tiles.epilogue.residual.strides, m, group) + n;", "tiles.epilogue.residual.strides, m, group);"),
    (Run::PiecesThenSum, "bool is_first = epilogue.flags & PLAN_RESIDUAL_FIRST;", "bool is_first = true;"),
    (Run::Depthwise, "if (epilogue.flags & PLAN_HAS_RESIDUAL)", "if (false)"),
    (Run::Depthwise, "residual += conv.epilogue.residual.strides[3];", ""),
    (Run::DepthwiseThenSum, "bool is_first = epilogue.flags & PLAN_RESIDUAL_FIRST;", "bool is_first = true;"),
    (Run::F32, "tiles.epilogue.residual.strides, m, group) + n;", "tiles.epilogue.residual.strides, m, group);"),
    (Run::Plain, "index(product.epilogue.residual.strides, row, column)", "index(product.epilogue.residual.strides, row, 0)"),
    // What is no number.
    (Run::Rows, "case PLAN_MAX: return b > a || b != b ? b : a;", "case PLAN_MAX: return b > a ? b : a;"),
    (Run::Rows, "case PLAN_MIN: return b < a || b != b ? b : a;", "case PLAN_MIN: return b < a ? b : a;"),
    (Run::Rows, "shift = fabsf(most) == SPARK_INFINITY ? 0.0f : most;", "shift = most;"),
    (Run::Floats, "return a != a || a > b ? a : b;", "return a > b ? a : b;"),
    (Run::Floats, "return a != a || a < b ? a : b;", "return a < b ? a : b;"),
    (Run::Floats, "if (x != x) return 0;", ""),
    (Run::Floats, "a != a ? 0.0f : plan_clamp(a,", "a != a ? 1.0f : plan_clamp(a,"),
    // Ties, ends of a type and zeros of both signs.
    (Run::Floats, "bits + 0x7FFFu + (bits >> 16 & 1u)", "bits + 0x8000u"),
    (Run::Floats, "bits + 0x7FFFu + (bits >> 16 & 1u)", "bits + 0x7FFFu"),
    (Run::Floats, "if (r == 0.0f) return copysignf(0.0f, b);", "if (r == 0.0f) return r;"),
    (Run::Floats, "(r < 0.0f) != (b < 0.0f) ? r + b : r", "r < 0.0f ? r + b : r"),
    // Signs of integers.
    (Run::Integers, "case PLAN_ABS: to.i = static_cast<long long>(a < 0 ? 0 - ua : ua);", "case PLAN_ABS: to.i = a;"),
    (Run::Integers, "case PLAN_NEG: to.i = static_cast<long long>(0 - ua);", "case PLAN_NEG: to.i = ~a;"),
    (Run::Integers, "case PLAN_GREATEST: to.i = a > b ? a : b;", "case PLAN_GREATEST: to.i = ua > ub ? a : b;"),
    (Run::Integers, "case PLAN_LEAST: to.i = a < b ? a : b;", "case PLAN_LEAST: to.i = ua < ub ? a : b;"),
    (Run::Integers, "case PLAN_LESS: to.f = a < b ? 1.0f : 0.0f; break;\n    case PLAN_LESS_OR_EQUAL: to.f = a <= b ? 1.0f : 0.0f; break;\n    case PLAN_GREATEST: to.i", "case PLAN_LESS: to.f = ua < ub ? 1.0f : 0.0f; break;\n    case PLAN_LESS_OR_EQUAL: to.f = a <= b ? 1.0f : 0.0f; break;\n    case PLAN_GREATEST: to.i"),
    (Run::Integers, "case PLAN_LESS_OR_EQUAL: to.f = a <= b ? 1.0f : 0.0f; break;\n    case PLAN_GREATEST: to.i", "case PLAN_LESS_OR_EQUAL: to.f = ua <= ub ? 1.0f : 0.0f; break;\n    case PLAN_GREATEST: to.i"),
    (Run::Integers, "instruction.code == PLAN_REMAINDER_FLOORED && r", "r"),
    (Run::Integers, "r != 0 && (r < 0)", "(r < 0)"),
    (Run::Integers, "(r < 0) != (b < 0);", "r < 0;"),
];

#[test]
fn every_wrong_kernel_is_caught() {
    if !driver().runs_ptx() {
        println!("no NVRTC: kernels that are wrong on purpose are not tested");
        return;
    }
    let mut missed = Vec::new();
    for (what, from, to) in MUTANTS {
        let change = Change { from, to };
        if change.during(|| passes(*what, 1)) {
            missed.push((what, from));
        }
    }
    let n = MUTANTS.len();
    assert!(
        missed.is_empty(),
        "{} of {n} pass: {missed:#?}",
        missed.len()
    );
}

#[test]
fn unchanged_kernels_are_silent_in_any_order() {
    for seed in 1..=20 {
        for what in ALL {
            assert!(passes(what, seed), "{what:?}, seed {seed}");
        }
    }
}
