//! What is timed, and how its answer is checked.

use std::borrow::Cow;
use std::cell::RefCell;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::rc::Rc;

use half::{bf16, f16};
use spark_quant::block::stochastic::philox;
use spark_quant::block::{Nvfp4Formula, Quantizer, Recipe, ScaleSearch};
use spark_quant::calibration::Observer;
use spark_quant::gemm::{Epilogue, Input, InputMode};
use spark_quant::scalar::{MiniFormat, NanCode, Overflow, half as software, slice};
use spark_quant::{ExecutionPolicy, PackedTensor, reference};

use crate::memory;

/// Values whose answers are compared with the naive definition.
const N_CHECKED: usize = 1 << 14;
/// Values of the cases in cache: 512 KiB of f32.
const N_SMALL: usize = 1 << 17;
/// Values of the cases in a last-level cache: the weights of one large layer, 64 MiB of f32.
const N_LAYER: usize = 16 << 20;
/// Values per row of the large tensors.
const ROW: usize = 4096;

/// Where the values of a case lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In main memory: in no cache.
    Memory,
    /// In a last-level cache of more than 100 MiB, and in no smaller one.
    LastLevel,
    /// In the L2 cache.
    Cache,
}

/// One line of the table.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    /// Values or weights per call.
    pub(crate) n_units: usize,
    pub(crate) bytes_read: f64,
    pub(crate) bytes_written: f64,
    pub(crate) place: Place,
    /// Calls per run, so that no run is shorter than the clock can tell.
    pub(crate) repeats: usize,
    /// Runs whatever the filter says, as the others are compared with it.
    pub(crate) is_reference: bool,
    pub(crate) check: Box<dyn FnMut()>,
    pub(crate) work: Box<dyn FnMut()>,
}

impl Case {
    pub(crate) fn n_bytes(&self) -> f64 {
        self.bytes_read + self.bytes_written
    }
}

/// Weights as a trained network has them: roughly normal, standard deviation 0.02.
fn weights(n: usize) -> Vec<f32> {
    (0..n.div_ceil(4))
        .flat_map(|i| philox(1, i as u64))
        .take(n)
        .map(|word| {
            let bytes = word.to_le_bytes().map(|byte| f32::from(byte) - 127.5);
            bytes.iter().sum::<f32>() * (0.02 / 147.8)
        })
        .collect()
}

/// Large input and output, shared by all cases.
struct Memory {
    values: Vec<f32>,
    out: RefCell<Vec<f32>>,
    bytes: RefCell<Vec<u8>>,
    f16s: RefCell<Vec<f16>>,
    bf16s: RefCell<Vec<bf16>>,
}

impl Memory {
    fn new(n: usize) -> Self {
        Self {
            values: weights(n),
            out: RefCell::new(vec![1.0; n]),
            bytes: RefCell::new(vec![1; n]),
            f16s: RefCell::new(vec![f16::ONE; n]),
            bf16s: RefCell::new(vec![bf16::ONE; n]),
        }
    }
}

pub(crate) fn all(n: usize) -> Vec<Case> {
    let memory = Rc::new(Memory::new(n));
    let layer = Rc::new(Memory::new(N_LAYER.min(n)));
    let small = Rc::new(Memory::new(N_SMALL.min(n)));
    let one = ExecutionPolicy::one_thread();
    let mut cases = bandwidth(&memory);
    cases.extend(scalars(&memory));
    for (memory, suffix, place, repeats) in [
        (&layer, "_16mi", Place::LastLevel, 8),
        (&small, "_cache", Place::Cache, 400),
    ] {
        let references = match place {
            Place::LastLevel => bandwidth(memory),
            Place::Memory | Place::Cache => Vec::new(),
        };
        let placed = references
            .into_iter()
            .chain(scalars(memory))
            .chain(observing(memory))
            .chain(blocks(memory, one, 1));
        cases.extend(placed.map(|case| Case {
            name: case.name.replace("/1t", &format!("{suffix}/1t")),
            place,
            repeats,
            ..case
        }));
    }
    for threads in [1, 2] {
        let policy = ExecutionPolicy::detect()
            .with_threads(NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN));
        cases.extend(blocks(&memory, policy, threads));
        cases.extend(products(&memory, policy, threads));
    }
    cases
}

fn case(
    name: String,
    n: usize,
    [read, written]: [f64; 2],
    check: impl FnMut() + 'static,
    work: impl FnMut() + 'static,
) -> Case {
    Case {
        name,
        unit: "Gelem/s",
        n_units: n,
        bytes_read: read * n as f64,
        bytes_written: written * n as f64,
        place: Place::Memory,
        repeats: 1,
        is_reference: false,
        check: Box::new(check),
        work: Box::new(work),
    }
}

fn bandwidth(memory: &Rc<Memory>) -> Vec<Case> {
    let n = memory.values.len();
    let (source, target) = (memory.clone(), memory.clone());
    let read = case(
        "memory_read/1t".into(),
        n,
        [4.0, 0.0],
        || (),
        move || {
            black_box(memory::read(black_box(&source.values)));
        },
    );
    let write = case(
        "memory_write/1t".into(),
        n,
        [0.0, 4.0],
        || (),
        move || {
            memory::write(black_box(&mut target.out.borrow_mut()));
        },
    );
    [read, write]
        .map(|case| Case {
            is_reference: true,
            ..case
        })
        .into()
}

/// One pass of calibration over activations of some numbers of channels, half of the values of `relu` zero.
fn observing(memory: &Rc<Memory>) -> Vec<Case> {
    let policy = ExecutionPolicy::one_thread();
    let kinds = [("tensor", 1), ("relu", 1), ("64", 64), ("1000", 1000)];
    let cases = kinds.map(|(name, n_channels)| {
        let clip = move |x: &f32| if name == "relu" { x.max(0.0) } else { *x };
        let n = memory.values.len() / n_channels * n_channels;
        let values: Vec<f32> = memory.values[..n].iter().map(clip).collect();
        let checked = values[..N_CHECKED / n_channels * n_channels].to_vec();
        let mut observer = Observer::new(n_channels);
        case(
            format!("observe_{name}/1t"),
            n,
            [4.0, 0.0],
            move || {
                let mut observer = Observer::new(n_channels);
                observer.observe(policy, &checked).expect("whole rows");
                for (channel, seen) in observer.channels().enumerate() {
                    let values = checked[channel..].iter().step_by(n_channels);
                    let square: f64 = values.map(|&x| f64::from(x) * f64::from(x)).sum();
                    let got = seen.mean_square * seen.n_values as f64;
                    assert!((got - square).abs() <= 1e-12 * square);
                }
            },
            move || {
                observer
                    .observe(policy, black_box(&values))
                    .expect("whole rows");
            },
        )
    });
    cases.into()
}

fn scalars(memory: &Rc<Memory>) -> Vec<Case> {
    let n = memory.values.len();
    let policy = ExecutionPolicy::one_thread();
    let mut cases = Vec::new();
    for format in [MiniFormat::E4m3, MiniFormat::E5m2] {
        let name = format.spec().name.to_lowercase();
        let encode = move |memory: &Memory| {
            let (overflow, nan) = (Overflow::Saturate, NanCode::default());
            slice::encode(
                policy,
                format,
                overflow,
                nan,
                &memory.values,
                &mut memory.bytes.borrow_mut(),
            )
            .expect("equal lengths");
        };
        let decode = move |memory: &Memory| {
            slice::decode(
                policy,
                format,
                &memory.bytes.borrow(),
                &mut memory.out.borrow_mut(),
            )
            .expect("equal lengths");
        };
        let checks = move |memory: &Memory| {
            encode(memory);
            decode(memory);
            let (codes, back) = (memory.bytes.borrow(), memory.out.borrow());
            for i in 0..N_CHECKED {
                let want = reference::encode(
                    format,
                    memory.values[i],
                    Overflow::Saturate,
                    NanCode::default(),
                );
                assert_eq!(codes[i], want, "{name} of {}", memory.values[i]);
                assert_eq!(back[i].to_bits(), format.decode(want).to_bits());
            }
        };
        let lower = format.spec().name.to_lowercase();
        let (a, b, c) = (memory.clone(), memory.clone(), memory.clone());
        cases.push(case(
            format!("f32_to_{lower}/1t"),
            n,
            [4.0, 1.0],
            move || checks(&a),
            move || encode(&b),
        ));
        cases.push(case(
            format!("{lower}_to_f32/1t"),
            n,
            [1.0, 4.0],
            || (),
            move || decode(&c),
        ));
    }
    let to_f16 = move |m: &Memory| {
        slice::f32_to_f16(policy, &m.values, &mut m.f16s.borrow_mut()).expect("equal lengths")
    };
    let from_f16 = move |m: &Memory| {
        slice::f16_to_f32(policy, &m.f16s.borrow(), &mut m.out.borrow_mut()).expect("equal lengths")
    };
    let to_bf16 = move |m: &Memory| {
        slice::f32_to_bf16(policy, &m.values, &mut m.bf16s.borrow_mut()).expect("equal lengths")
    };
    let from_bf16 = move |m: &Memory| {
        slice::bf16_to_f32(policy, &m.bf16s.borrow(), &mut m.out.borrow_mut())
            .expect("equal lengths")
    };
    let check_f16 = move |m: &Memory| {
        to_f16(m);
        from_f16(m);
        for i in 0..N_CHECKED {
            assert_eq!(
                m.f16s.borrow()[i].to_bits(),
                software::f32_to_f16_bits(m.values[i])
            );
            assert_eq!(
                m.out.borrow()[i].to_bits(),
                m.f16s.borrow()[i].to_f32().to_bits()
            );
        }
    };
    let check_bf16 = move |m: &Memory| {
        to_bf16(m);
        from_bf16(m);
        for i in 0..N_CHECKED {
            assert_eq!(
                m.bf16s.borrow()[i].to_bits(),
                software::f32_to_bf16_bits(m.values[i])
            );
            assert_eq!(
                m.out.borrow()[i].to_bits(),
                m.bf16s.borrow()[i].to_f32().to_bits()
            );
        }
    };
    let m = || memory.clone();
    let (a, b, c, d, e, f) = (m(), m(), m(), m(), m(), m());
    cases.push(case(
        "f32_to_f16/1t".into(),
        n,
        [4.0, 2.0],
        move || check_f16(&a),
        move || to_f16(&b),
    ));
    cases.push(case(
        "f16_to_f32/1t".into(),
        n,
        [2.0, 4.0],
        || (),
        move || from_f16(&c),
    ));
    cases.push(case(
        "f32_to_bf16/1t".into(),
        n,
        [4.0, 2.0],
        move || check_bf16(&d),
        move || to_bf16(&e),
    ));
    cases.push(case(
        "bf16_to_f32/1t".into(),
        n,
        [2.0, 4.0],
        || (),
        move || from_bf16(&f),
    ));
    cases
}

/// Codes and values of the first rows against the naive definition under the same tensor scale.
fn check_packed(packed: &PackedTensor, recipe: Recipe, values: &[f32], back: &[f32]) {
    let n = N_CHECKED.min(values.len());
    let head = Quantizer::new(recipe)
        .quantize(
            ExecutionPolicy::one_thread(),
            &values[..n],
            &[n / ROW, ROW],
            1,
        )
        .expect("finite");
    let (codes, scales) = reference::quantize(recipe, &values[..n], n / ROW, ROW);
    assert_eq!(head.scales(), &scales);
    for row in 0..n / ROW {
        assert_eq!(&*head.row_codes(row), &codes[row * ROW..][..ROW]);
    }
    let naive = reference::dequantize(packed);
    assert!(
        naive
            .iter()
            .zip(back)
            .take(n)
            .all(|(a, b)| a.to_bits() == b.to_bits())
    );
}

fn blocks(memory: &Rc<Memory>, policy: ExecutionPolicy, threads: usize) -> Vec<Case> {
    let n = memory.values.len();
    let shape = [n / ROW, ROW];
    let formula = Nvfp4Formula::ModelOpt;
    let four_over_six = Recipe::Nvfp4 {
        formula,
        search: ScaleSearch::FourOverSix,
    };
    let torchao = Recipe::Nvfp4 {
        formula: Nvfp4Formula::TorchAo,
        search: ScaleSearch::Amax,
    };
    let all = [
        ("nvfp4", Recipe::NVFP4, 8.0, 0.5625, true),
        ("nvfp4_torchao", torchao, 8.0, 0.5625, false),
        ("nvfp4_sweep", Recipe::NVFP4_SWEEP, 8.0, 0.5625, false),
        ("nvfp4_four_over_six", four_over_six, 8.0, 0.5625, false),
        (
            "mxfp4",
            Recipe::Mx {
                format: MiniFormat::E2m1,
                scale: spark_quant::block::MxScale::Floor,
            },
            4.0,
            0.53125,
            true,
        ),
        ("mxfp4_mse", Recipe::MXFP4, 4.0, 0.53125, false),
        ("mxfp8", Recipe::MXFP8, 4.0, 1.03125, true),
        ("int8_row", Recipe::INT8, 4.0, 1.001, true),
    ];
    let mut cases = Vec::new();
    for (name, recipe, read, written, both_ways) in all {
        if threads > 1 && name != "nvfp4" {
            continue;
        }
        let quantizer = Quantizer::new(recipe);
        let packed = Rc::new(RefCell::new(None));
        let (m, slot) = (memory.clone(), packed.clone());
        let pack = move || {
            let old: Option<PackedTensor> = slot.borrow_mut().take();
            let new = match old {
                Some(old) => quantizer.quantize_reusing(policy, &m.values, &shape, 1, old),
                None => quantizer.quantize(policy, &m.values, &shape, 1),
            };
            *slot.borrow_mut() = Some(new.expect("finite values"));
        };
        let (m, slot) = (memory.clone(), packed.clone());
        let unpack = move || {
            let packed = slot.borrow();
            let packed = packed.as_ref().expect("packed before");
            packed
                .dequantize_into(policy, &mut m.out.borrow_mut())
                .expect("equal lengths");
        };
        let (m, slot) = (memory.clone(), packed.clone());
        let (first_pack, first_unpack, again) = (pack.clone(), unpack.clone(), pack.clone());
        let check = move || {
            first_pack();
            first_unpack();
            // Half a gigabyte of naive values is too slow; a small tensor stands for the format.
            let n = N_CHECKED;
            let small = quantizer
                .quantize(policy, &m.values[..n], &[n / ROW, ROW], 1)
                .expect("finite values");
            let back = small.dequantize(policy).expect("whole");
            check_packed(&small, recipe, &m.values[..n], &back);
            let packed = slot.borrow();
            assert_eq!(
                packed.as_ref().expect("packed before").n_values(),
                m.values.len()
            );
        };
        cases.push(case(
            format!("f32_to_{name}/{threads}t"),
            n,
            [read, written],
            check,
            pack,
        ));
        if both_ways {
            cases.push(case(
                format!("{name}_to_f32/{threads}t"),
                n,
                [written, 4.0],
                again,
                unpack,
            ));
        }
    }
    cases
}

/// GEMM in cache (1 Mi weights), in a last-level cache and from memory.
fn products(memory: &Memory, policy: ExecutionPolicy, threads: usize) -> Vec<Case> {
    let n_large = memory.values.len();
    let mut cases = Vec::new();
    let small = [512, 2048];
    let layer = [N_LAYER.min(n_large) / ROW, ROW];
    let large = [n_large / ROW, ROW];
    let all = [
        ("nvfp4", Recipe::NVFP4, 0.5625),
        ("mxfp4", Recipe::MXFP4, 0.53125),
        ("mxfp8", Recipe::MXFP8, 1.03125),
        ("fp8", Recipe::FP8, 1.0),
        ("int8", Recipe::INT8, 1.0),
    ];
    for (name, recipe, bytes) in all {
        let modes: &[(&str, InputMode)] = match name {
            "nvfp4" => &[
                ("f32", InputMode::Exact),
                ("i8", InputMode::Int8),
                ("nvfp4", InputMode::WeightFormat),
            ],
            "mxfp4" | "int8" => &[("f32", InputMode::Exact), ("i8", InputMode::Int8)],
            _ => &[("f32", InputMode::Exact)],
        };
        let sizes: &[(&str, [usize; 2], Place, usize)] = if threads == 1 {
            &[
                ("cache", small, Place::Cache, 400),
                ("16mi", layer, Place::LastLevel, 8),
                ("memory", large, Place::Memory, 1),
            ]
        } else {
            &[("memory", large, Place::Memory, 1)]
        };
        for &(suffix, shape, place, repeats) in sizes {
            let n = shape[0] * shape[1];
            // The weights of any size are the first of a larger one.
            let values = match memory.values.get(..n) {
                Some(values) => Cow::Borrowed(values),
                None => Cow::Owned(weights(n)),
            };
            let packed = Quantizer::new(recipe)
                .quantize(policy, &values, &shape, 1)
                .expect("finite values");
            let packed = Rc::new(packed);
            let x: Rc<Vec<f32>> = Rc::new(weights(shape[1]).iter().map(|x| x * 50.0).collect());
            for &(input, mode) in modes {
                let prepared = packed
                    .prepare(policy, Input::F32(&x), 1, mode)
                    .expect("supported");
                let mut out = vec![0.0; shape[0]];
                let (weights, inputs) = (packed.clone(), x.clone());
                let check = move || check_product(&weights, &inputs, mode, recipe);
                let weights = packed.clone();
                let work = move || {
                    weights
                        .gemm_prepared(policy, black_box(&prepared), Epilogue::default(), &mut out)
                        .expect("fits");
                    black_box(&mut out);
                };
                let line = case(
                    format!("gemv_{name}_{input}_{suffix}/{threads}t"),
                    n,
                    [bytes, 0.0],
                    check,
                    work,
                );
                cases.push(Case {
                    unit: "Gweights/s",
                    place,
                    repeats,
                    ..line
                });
            }
        }
    }
    cases
}

/// The first rows against the naive definition.
fn check_product(weights: &PackedTensor, x: &[f32], mode: InputMode, recipe: Recipe) {
    let policy = ExecutionPolicy::one_thread();
    let mut out = vec![0.0; weights.n_rows()];
    weights
        .gemv(policy, x, mode, Epilogue::default(), &mut out)
        .expect("supported");
    let depth = weights.depth();
    let n_rows = 5.min(weights.n_rows());
    // A tensor of the first rows alone has another tensor scale, so it is compared on its own.
    let values = weights.dequantize(policy).expect("whole");
    let head = Quantizer::new(recipe)
        .quantize(policy, &values[..n_rows * depth], &[n_rows, depth], 1)
        .expect("finite");
    let mut got = vec![0.0; n_rows];
    head.gemv(policy, x, mode, Epilogue::default(), &mut got)
        .expect("supported");
    assert_eq!(got, reference::gemm(&head, x, 1, mode));
    for (row, got) in out.iter().enumerate().take(n_rows) {
        let terms = || {
            values[row * depth..][..depth]
                .iter()
                .zip(x)
                .map(|(w, x)| f64::from(*w) * f64::from(*x))
        };
        let size = terms().map(|term| term * term).sum::<f64>().sqrt();
        assert!(
            (f64::from(*got) - terms().sum::<f64>()).abs() <= 0.5 * size,
            "row {row}"
        );
    }
}
