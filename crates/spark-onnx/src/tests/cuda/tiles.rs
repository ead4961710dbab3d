//! Products on tensor cores: exact on whole numbers, whatever their shapes; close to the plain kernels; right about what is no
//! number; and which steps take them.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use spark_mem::Device;
use spark_onnx::cuda::CudaSession;
use spark_onnx::graph::{
    Binary, Cast, Conv, Dim, Gemm, Graph, MatMul, Op, Padding, Pool, PoolKind, Transpose, Unary,
    ValueId, bind,
};
use spark_onnx::plan::{Step, lower};
use spark_onnx::tensor::TensorData;
use spark_onnx::{DType, Precision, Tensor, reference};
use spark_testing::driver::Persona;
use spark_testing::numbers;

use super::{compare, on, options, tensor};
use crate::tests::operators::{cases, same};

/// Whole numbers from -2 to 2, whose products add up exactly.
pub(super) fn whole(shape: &[usize], seed: u64) -> Tensor {
    let n = shape.iter().product();
    let values = numbers(n, seed).into_iter().map(|v| (2.5 * v).round());
    Tensor::from_f32(shape, values.collect()).expect("fits")
}

/// `[samples, channels, height, width]`, then what is convolved with it.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) x: [usize; 4],
    pub(super) groups: usize,
    pub(super) out_per_group: usize,
    pub(super) kernel: [usize; 2],
    pub(super) stride: [usize; 2],
    pub(super) dilation: [usize; 2],
    pub(super) pad: [usize; 4],
    /// 0 nothing, 1 the sum and then ReLU, 2 ReLU and then the sum.
    pub(super) residual: usize,
    /// What is added is the result of a step; else an input of the network, which a step reads too: for the sake of
    /// that step it lies as pictures do, and as what it is added to.
    pub(super) residual_of_step: bool,
    pub(super) bytes: bool,
    pub(super) seed: u64,
}

impl Case {
    /// `relu`, a residual where it says so, of the convolution, and its inputs.
    pub(super) fn build(&self) -> (Graph, Vec<(&'static str, Tensor)>) {
        let [samples, channels, height, width] = self.x;
        let mut graph = Graph::default();
        let dims = self.x.map(Dim::Known).to_vec();
        let (dtype, x) = match self.bytes {
            true => {
                let values = numbers(self.x.iter().product(), self.seed);
                let bytes = values.into_iter().map(|v| (2.0 + 2.0 * v) as u8).collect();
                let x = Tensor::new(self.x.to_vec(), TensorData::U8(bytes));
                (DType::U8, x.expect("fits"))
            }
            false => (DType::F32, whole(&self.x, self.seed)),
        };
        let mut input = graph.add_input("x", dtype, dims);
        let mut inputs = vec![("x", x)];
        if self.bytes {
            let cast = Cast { to: DType::F32 };
            input = graph.add_node("cast", Op::Cast(cast), &[Some(input)]);
        }
        let out = self.groups * self.out_per_group;
        let extent = |axis: usize, size: usize| {
            let reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1;
            (size + self.pad[axis] + self.pad[axis + 2] - reach) / self.stride[axis] + 1
        };
        let shape = [samples, out, extent(0, height), extent(1, width)];
        // Before the convolution, for it is the later of two products that takes the sum.
        let other = (self.residual > 0).then(|| {
            inputs.push(("other", whole(&shape, self.seed ^ 3)));
            let dims = shape.map(Dim::Known).to_vec();
            let other = graph.add_input("other", DType::F32, dims);
            let pool = Op::Pool(Pool {
                kind: PoolKind::Max,
                kernel: vec![1, 1],
                strides: vec![],
                dilations: vec![],
                padding: Padding::Valid,
                count_include_pad: false,
                ceil_mode: false,
            });
            let pooled = graph.add_node("pooled", pool, &[Some(other)]);
            (other, pooled)
        });
        let w_shape = [out, channels / self.groups, self.kernel[0], self.kernel[1]];
        let w = graph.add_constant("w", whole(&w_shape, self.seed ^ 1));
        let b = graph.add_constant("b", whole(&[out], self.seed ^ 2));
        let conv = Op::Conv(Conv {
            strides: self.stride.to_vec(),
            dilations: self.dilation.to_vec(),
            padding: Padding::Explicit(self.pad.to_vec()),
            groups: self.groups,
        });
        let mut y = graph.add_node("conv", conv, &[Some(input), Some(w), Some(b)]);
        let relu = |graph: &mut Graph, y: ValueId| {
            graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(y)])
        };
        if self.residual == 2 {
            y = relu(&mut graph, y);
        }
        if let Some((input, pooled)) = other {
            let other = if self.residual_of_step { pooled } else { input };
            y = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(y), Some(other)]);
        }
        if self.residual < 2 {
            y = relu(&mut graph, y);
        }
        graph.outputs.push(y);
        if let (Some((_, pooled)), false) = (other, self.residual_of_step) {
            graph.outputs.push(pooled);
        }
        (graph, inputs)
    }

    /// Compares a run with the reference, which it must equal, and says which kernels computed it.
    ///
    /// # Panics
    ///
    /// If the product does not add the residual itself, in the order of the case.
    pub(super) fn run(
        &self,
        device: &Device,
        precision: Precision,
    ) -> Result<BTreeSet<&'static str>, String> {
        let (graph, inputs) = self.build();
        let orders = residual_orders(&graph);
        let want = [self.residual == 1];
        assert_eq!(orders, want[..self.residual.min(1)], "{self:?}");
        let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(name, x)| (*name, x)).collect();
        kernels_of(device, &graph, &inputs, precision, 0.0)
    }

    fn is_possible(&self) -> bool {
        (0..2).all(|axis| {
            let reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1;
            self.x[2 + axis] + self.pad[axis] + self.pad[axis + 2] >= reach
        })
    }
}

/// Shapes with tails in every direction, of which most reach the tensor cores.
fn case() -> impl Strategy<Value = Case> {
    let x = (1usize..3, 1usize..40, 1usize..12, 1usize..14);
    let pair = || [1usize..4, 1usize..4];
    (
        x,
        (1usize..4, 1usize..70, any::<bool>()),
        (pair(), pair(), [1usize..3, 1usize..3]),
        [0usize..3, 0usize..3, 0usize..3, 0usize..3],
        (0usize..3, any::<bool>()),
        any::<u64>(),
    )
        .prop_map(
            |(x, (groups, out, narrow), (kernel, stride, dilation), pad, residual, seed)| {
                let (residual, residual_of_step) = residual;
                let (samples, channels, height, width) = x;
                // Half of the cases have channels in whole pieces.
                let channels = if narrow {
                    channels
                } else {
                    channels.next_multiple_of(8)
                };
                Case {
                    x: [samples, groups * channels, height, width],
                    groups,
                    out_per_group: out,
                    kernel,
                    stride,
                    dilation,
                    pad,
                    residual,
                    residual_of_step,
                    bytes: narrow && seed % 4 == 0,
                    seed,
                }
            },
        )
        .prop_filter("a window that fits", Case::is_possible)
}

/// Of each product that adds a residual by itself: whether it does so before its function.
fn residual_orders(graph: &Graph) -> Vec<bool> {
    let plan = lower(&bind(graph, &[]).expect("binds")).expect("lowers");
    let epilogues = plan.steps.iter().filter_map(|planned| match &planned.step {
        Step::Conv(step) => Some(&step.epilogue),
        Step::Linear(step) => Some(&step.epilogue),
        _ => None,
    });
    epilogues
        .filter(|epilogue| epilogue.residual.is_some())
        .map(|epilogue| epilogue.residual_first)
        .collect()
}

/// Runs `graph` in `precision`, compares it with the reference, and says which kernels computed it.
pub(super) fn kernels_of(
    device: &Device,
    graph: &Graph,
    inputs: &[(&str, &Tensor)],
    precision: Precision,
    bar: f64,
) -> Result<BTreeSet<&'static str>, String> {
    let bound = bind(graph, &[]).map_err(|e| format!("bind: {e}"))?;
    let want = reference::run(&bound, inputs).map_err(|e| format!("reference: {e}"))?;
    let session = CudaSession::from_graph(graph.clone(), device, &options(precision));
    let mut session = session.map_err(|e| format!("load: {e}"))?;
    for _ in 0..2 {
        let got = session.run(inputs).map_err(|e| format!("run: {e}"))?;
        for ((name, got), (_, want)) in got.iter().zip(&want) {
            same(got, want, bar).map_err(|e| format!("{name}, {precision}: {e}"))?;
        }
    }
    Ok(session.steps().iter().map(|step| step.kernel).collect())
}

/// Runs cases of `strategy` in both precisions, of which each result must be exact, and returns the kernels.
fn exact<S: Strategy<Value = Case>>(most: u32, strategy: &S) -> BTreeSet<&'static str> {
    let seen = std::cell::RefCell::new(BTreeSet::new());
    on(Persona::Card, |_, device| {
        let mut runner = TestRunner::new(ProptestConfig {
            failure_persistence: None, // what failed is told, with its numbers
            ..cases(most)
        });
        let outcome = runner.run(strategy, |case| {
            for precision in [Precision::Fp32, Precision::Fp16] {
                let kernels = case.run(device, precision);
                seen.borrow_mut()
                    .extend(kernels.map_err(TestCaseError::fail)?);
            }
            Ok(())
        });
        outcome.unwrap();
    });
    seen.into_inner()
}

#[test]
fn convolutions_of_whole_numbers_are_exact() {
    println!("{:?}", exact(60, &case()));
}

/// Of one input channel for each group, in windows that have a kernel.
fn depthwise_case() -> impl Strategy<Value = Case> {
    let widths = prop_oneof![Just(3usize), Just(5), Just(7)];
    (
        (1usize..3, 2usize..40, 1usize..12, 1usize..14),
        (1usize..4, 1usize..8, widths),
        (1usize..4, 1usize..3, 1usize..3),
        [0usize..4, 0usize..4, 0usize..4, 0usize..4],
        (0usize..3, any::<bool>()),
        any::<u64>(),
    )
        .prop_map(
            |(x, (out, height, width), (down, right, dilation), pad, residual, seed)| Case {
                x: [x.0, x.1, x.2, x.3],
                groups: x.1,
                out_per_group: out,
                kernel: [height, width],
                stride: [down, right],
                dilation: [dilation, 1],
                pad,
                residual: residual.0,
                residual_of_step: residual.1,
                bytes: false,
                seed,
            },
        )
        .prop_filter("a window that fits", Case::is_possible)
}

#[test]
fn depthwise_convolutions_of_whole_numbers_are_exact() {
    let kernels = exact(40, &depthwise_case());
    println!("{kernels:?}");
}

#[test]
fn every_depthwise_kernel_is_taken_and_exact() {
    on(Persona::Spark, |_, device| {
        for (width, stride, kernel) in [
            (3, 1, "plan_depthwise_3"),
            (5, 1, "plan_depthwise_5"),
            (7, 1, "plan_depthwise_7"),
            (3, 2, "plan_depthwise_3_by_2"),
            (5, 2, "plan_depthwise_5_by_2"),
            (7, 2, "plan_depthwise_7_by_2"),
        ] {
            for (residual, precision) in [
                (1, Precision::Fp32),
                (2, Precision::Fp32),
                (1, Precision::Fp16),
                (2, Precision::Fp16),
            ] {
                let case = Case {
                    groups: 40,
                    residual,
                    ..conv([1, 40, 9, 11], 2, width, stride)
                };
                let kernels = case.run(device, precision).unwrap();
                assert!(kernels.contains(kernel), "{kernel}: {kernels:?}");
            }
        }
    });
}

pub(super) fn conv(x: [usize; 4], out_per_group: usize, kernel: usize, stride: usize) -> Case {
    Case {
        x,
        groups: 1,
        out_per_group,
        kernel: [kernel; 2],
        stride: [stride; 2],
        dilation: [1; 2],
        pad: [kernel / 2; 4],
        residual: 1,
        residual_of_step: true,
        bytes: false,
        seed: 7,
    }
}

#[test]
fn every_kernel_is_taken_and_exact() {
    let cases = [
        ("plan_tiles_64x64", conv([1, 24, 24, 80], 70, 3, 1)),
        ("plan_tiles_32x32", conv([1, 40, 20, 20], 125, 1, 1)),
        ("plan_tiles_16x32", conv([1, 136, 1, 3], 40, 1, 1)),
        (
            "plan_tiles_64x64_by_element",
            conv([2, 3, 32, 64], 65, 3, 1),
        ),
        ("plan_tiles_32x32_by_element", conv([1, 3, 17, 9], 33, 7, 2)),
    ];
    // Each with the residual before its function and behind it, on two personas.
    for (number, persona) in Persona::ALL.into_iter().enumerate() {
        on(persona, |_, device| {
            for (idx, (kernel, case)) in cases.iter().enumerate() {
                let case = Case {
                    residual: 1 + (number + idx) % 2,
                    residual_of_step: number < 2,
                    ..case.clone()
                };
                let kernels = case.run(device, Precision::Fp16).unwrap();
                assert!(kernels.contains(kernel), "{kernel}: {kernels:?}");
            }
        });
    }
}

/// `y = x W' + b`, of these rows.
fn linear([m, n, k]: [usize; 3], w: Tensor) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(m), Dim::Known(k)]);
    // Behind a step, so that it is held in 16 bits.
    let x = graph.add_node("abs", Op::Unary(Unary::Abs), &[Some(x)]);
    let w = graph.add_constant("w", w);
    let b = graph.add_constant("b", whole(&[n], 2));
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
    };
    let y = graph.add_node("y", Op::Gemm(gemm), &[Some(x), Some(w), Some(b)]);
    graph.outputs.push(y);
    graph
}

#[test]
fn linear_layers_of_whole_numbers_are_exact() {
    on(Persona::Card, |_, device| {
        for [m, n, k] in [
            [1, 70, 136],
            [17, 33, 520],
            [1, 224, 512],
            [70, 129, 24],
            [5, 40, 100],
        ] {
            let graph = linear([m, n, k], whole(&[n, k], 3));
            let x = whole(&[m, k], 4);
            let kernels = kernels_of(device, &graph, &[("x", &x)], Precision::Fp16, 0.0);
            let kernels = kernels.unwrap_or_else(|e| panic!("{m} {n} {k}: {e}"));
            let has_tiles = kernels.iter().any(|name| name.starts_with("plan_tiles"));
            assert!(has_tiles, "{m} {n} {k}: {kernels:?}");
        }
    });
}

/// The same with an input added, before ReLU or, where `residual` is 2, behind it; and what it is given.
pub(super) fn linear_and_sum(
    [m, n, k]: [usize; 3],
    residual: usize,
) -> (Graph, [(&'static str, Tensor); 2]) {
    let mut graph = linear([m, n, k], whole(&[n, k], 3));
    let relu =
        |graph: &mut Graph, y: ValueId| graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(y)]);
    let mut y = graph.outputs.pop().expect("it has one");
    if residual == 2 {
        y = relu(&mut graph, y);
    }
    let other = graph.add_input("other", DType::F32, vec![Dim::Known(m), Dim::Known(n)]);
    y = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(y), Some(other)]);
    if residual == 1 {
        y = relu(&mut graph, y);
    }
    graph.outputs.push(y);
    let inputs = [("x", whole(&[m, k], 4)), ("other", whole(&[m, n], 5))];
    assert_eq!(residual_orders(&graph), [residual == 1]);
    (graph, inputs)
}

#[test]
fn linear_layers_add_an_input() {
    on(Persona::Card, |_, device| {
        for (extents, precision, kernel) in [
            ([17, 33, 520], Precision::Fp16, "plan_tiles_16x32"),
            ([70, 129, 24], Precision::Fp32, "plan_tiles_f32"),
            ([2, 5, 3], Precision::Fp16, "plan_matmul"),
            ([2, 5, 3], Precision::Fp32, "plan_matmul"),
        ] {
            for residual in [1, 2] {
                let (graph, inputs) = linear_and_sum(extents, residual);
                let inputs = inputs.each_ref().map(|(name, x)| (*name, x));
                let kernels = kernels_of(device, &graph, &inputs, precision, 0.0).unwrap();
                assert!(kernels.contains(kernel), "{kernel}: {kernels:?}");
            }
        }
    });
}

/// `relu(x) relu(z)`, z turned on the way where `turned`.
pub(super) fn product([batch, m, n, k]: [usize; 4], turned: bool) -> Graph {
    let mut graph = Graph::default();
    let computed = |graph: &mut Graph, name: &str, shape: [usize; 3]| {
        let x = graph.add_input(name, DType::F32, shape.map(Dim::Known).to_vec());
        graph.add_node(format!("relu_{name}"), Op::Unary(Unary::Relu), &[Some(x)])
    };
    let x = computed(&mut graph, "x", [batch, m, k]);
    let z = match turned {
        false => computed(&mut graph, "z", [batch, k, n]),
        true => {
            let z = computed(&mut graph, "z", [batch, n, k]);
            let turn = Transpose {
                perm: Some(vec![0, 2, 1]),
            };
            graph.add_node("turned", Op::Transpose(turn), &[Some(z)])
        }
    };
    let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(z)]);
    graph.outputs.push(y);
    graph
}

#[test]
fn products_of_computed_matrices_are_exact() {
    let mut seen = BTreeSet::new();
    on(Persona::Card, |_, device| {
        for (extents, turned) in [
            ([3, 17, 40, 24], false),
            ([3, 17, 40, 24], true),
            ([2, 70, 136, 72], false),
            ([2, 70, 136, 72], true),
            ([20, 130, 128, 40], false),
            ([20, 130, 128, 40], true),
            // Rows that do not begin at multiples of 16 bytes.
            ([2, 17, 33, 25], false),
            ([2, 17, 33, 25], true),
        ] {
            let [batch, m, n, k] = extents;
            let graph = product(extents, turned);
            let x = whole(&[batch, m, k], 1);
            let z = whole(&if turned { [batch, n, k] } else { [batch, k, n] }, 2);
            let inputs = [("x", &x), ("z", &z)];
            let kernels = kernels_of(device, &graph, &inputs, Precision::Fp16, 0.0);
            seen.extend(kernels.unwrap_or_else(|e| panic!("{extents:?} {turned}: {e}")));
        }
    });
    for kernel in [
        "plan_tiles_matmul_nk_64x64",
        "plan_tiles_matmul_kn_64x64",
        "plan_tiles_matmul_nk_32x32",
        "plan_tiles_matmul_kn_32x32",
        "plan_matmul",
    ] {
        assert!(seen.contains(kernel), "{kernel}: {seen:?}");
    }
}

#[test]
fn what_is_no_number_stays_where_it_is_seen() {
    let case = Case {
        residual: 0,
        ..conv([1, 24, 9, 11], 40, 3, 1)
    };
    let (graph, inputs) = case.build();
    let mut values = inputs[0].1.to_f32();
    // Two of them meet in one window; a subnormal of f16 counts.
    values[12] = f32::NAN;
    values[99 + 30] = f32::INFINITY;
    values[99 * 2 + 31] = f32::NEG_INFINITY;
    values[99 * 3 + 70] = 2.0f32.powi(-24);
    let x = Tensor::from_f32(case.x, values).expect("fits");
    on(Persona::Card, |_, device| {
        let kernels = kernels_of(device, &graph, &[("x", &x)], Precision::Fp16, 1e-3).unwrap();
        assert!(kernels.contains("plan_tiles_16x32"), "{kernels:?}");
    });
}

#[test]
fn subnormals_are_multiplied() {
    let (m, n, k) = (16, 32, 64);
    let graph = linear(
        [m, n, k],
        Tensor::from_f32([n, k], vec![1.0; n * k]).expect("fits"),
    );
    let tiny = 2.0f32.powi(-24);
    let x = Tensor::from_f32([m, k], vec![tiny; m * k]).expect("fits");
    on(Persona::Card, |_, device| {
        let mut session =
            CudaSession::from_graph(graph, device, &options(Precision::Fp16)).expect("loads");
        let bias = whole(&[n], 2).to_f32();
        let got = session.run(&[("x", &x)]).expect("runs")[0].1.to_f32();
        for (got, bias) in got.iter().zip(bias.iter().cycle()) {
            assert_eq!(*got, bias + 64.0 * tiny);
        }
    });
}

#[test]
fn weights_beyond_f16_are_the_plain_kernels() {
    let mut w = whole(&[40, 64], 3).to_f32();
    w[70] = 1e6;
    let graph = linear([32, 40, 64], Tensor::from_f32([40, 64], w).expect("fits"));
    on(Persona::Card, |_, device| {
        let session = CudaSession::from_graph(graph, device, &options(Precision::Fp16));
        let session = session.expect("loads");
        let kernels: Vec<_> = session.steps().iter().map(|step| step.kernel).collect();
        assert!(kernels.contains(&"plan_matmul"), "{kernels:?}");
    });
}

#[test]
fn fp32_has_no_products_on_tensor_cores() {
    let case = conv([1, 24, 9, 11], 40, 3, 1);
    on(Persona::Card, |_, device| {
        let kernels = case.run(device, Precision::Fp32).unwrap();
        let mut tiles = kernels.iter().filter(|name| name.starts_with("plan_tiles"));
        assert!(tiles.all(|name| *name == "plan_tiles_f32"), "{kernels:?}");
        assert!(kernels.contains("plan_tiles_f32"), "{kernels:?}");
    });
}

#[test]
fn inputs_in_f32_stay_what_they_are() {
    let mut graph = Graph::default();
    let x = graph.add_input("x", DType::F32, vec![Dim::Known(20), Dim::Known(40)]);
    let w = graph.add_constant("w", whole(&[40, 48], 3));
    let y = graph.add_node("y", Op::MatMul(MatMul), &[Some(x), Some(w)]);
    graph.outputs.push(y);
    // No number of f16.
    let mut values = whole(&[20, 40], 4).to_f32();
    values[7] = 2049.0;
    let x = Tensor::from_f32([20, 40], values).expect("fits");
    on(Persona::Card, |_, device| {
        let kernels = kernels_of(device, &graph, &[("x", &x)], Precision::Fp16, 0.0).unwrap();
        assert!(kernels.contains("plan_tiles_f32_f16"), "{kernels:?}");
    });
}

#[test]
fn other_numbers_are_close() {
    on(Persona::Spark, |_, device| {
        let (graph, inputs) = conv([1, 64, 12, 12], 96, 3, 2).build();
        let inputs = inputs
            .into_iter()
            .map(|(name, x)| (name.to_owned(), tensor(x.shape(), 5)));
        let inputs: Vec<(String, Tensor)> = inputs.collect();
        compare(device, &graph, &inputs, Precision::Fp16, 2e-3).unwrap();
    });
}
