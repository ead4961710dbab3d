//! Element-wise networks with constants: pictures that are normalised, quotients by powers of two.

use spark_onnx::cpu::Isa;
use spark_onnx::graph::{Binary, Cast, Dim, Graph, Op, Transpose, ValueId};
use spark_onnx::{DType, Model, RunOptions, Tensor};
use spark_testing::numbers;

/// Appends `op` of `x` and a constant.
fn with_constant(graph: &mut Graph, op: Binary, x: ValueId, value: f32) -> ValueId {
    let name = format!("v{}", graph.values.len());
    let value = Tensor::from_f32([], vec![value]).expect("one element");
    let constant = graph.add_constant(format!("{name}.constant"), value);
    graph.add_node(name, Op::Binary(op), &[Some(x), Some(constant)])
}

/// The bits of the one result of `graph` for its one input.
fn bits(graph: &Graph, x: &Tensor, isa: Isa, threads: usize) -> Vec<u32> {
    let options = RunOptions::new().with_isa(isa).with_threads(threads);
    let model = Model::from_graph(graph.clone(), &options).expect("plans");
    let results = model.session().run(&[("x", x)]).expect("runs");
    results[0]
        .1
        .to_f32()
        .into_iter()
        .map(f32::to_bits)
        .collect()
}

/// `(x - centre) / range` of bytes, by rows and transposed, is what f32 makes of it step by step.
#[test]
fn pictures_are_normalised_bit_by_bit() {
    let (rows, columns) = (37, 1_111);
    for dtype in [DType::U8, DType::I8] {
        let least = if dtype == DType::U8 { 0.0 } else { -128.0 };
        let values: Vec<f64> = (0..rows * columns)
            .map(|i| least + f64::from((i * 7 + i / 256) as u8))
            .collect();
        let x = Tensor::from_f64(dtype, vec![rows, columns], values.clone()).expect("fits");
        for (centre, range) in [
            (128.0_f32, 128.0_f32),
            (0.0, 255.0),
            (127.5, 127.5),
            (0.1, 0.3),
            (-0.0, -2.0),
            (1e38, 1e-3),
            (f32::NAN, 1.0),
            (3.0, 0.0),
        ] {
            for transposed in [false, true] {
                let mut graph = Graph::default();
                let shape = vec![Dim::Known(rows), Dim::Known(columns)];
                let mut y = graph.add_input("x", dtype, shape);
                if transposed {
                    let perm = Some(vec![1, 0]);
                    y = graph.add_node("turned", Op::Transpose(Transpose { perm }), &[Some(y)]);
                }
                let to = DType::F32;
                y = graph.add_node("floats", Op::Cast(Cast { to }), &[Some(y)]);
                y = with_constant(&mut graph, Binary::Sub, y, centre);
                y = with_constant(&mut graph, Binary::Div, y, range);
                graph.outputs.push(y);
                let at = |i: usize| match transposed {
                    true => values[i % rows * columns + i / rows],
                    false => values[i],
                };
                let want: Vec<u32> = (0..values.len())
                    .map(|i| ((at(i) as f32 - centre) / range).to_bits())
                    .collect();
                for isa in Isa::available() {
                    for threads in [1, 3] {
                        let got = bits(&graph, &x, isa, threads);
                        let alike = got.iter().zip(&want).all(|(&got, &want)| {
                            let both = [got, want].map(f32::from_bits);
                            got == want || both.iter().all(|v| v.is_nan())
                        });
                        assert!(alike, "{dtype:?} {centre} {range} {transposed} {isa:?}");
                    }
                }
            }
        }
    }
}

/// Constants are there for every block and every thread, and a product in place of a quotient has its bits.
#[test]
fn constants_last_for_all_blocks() {
    for n in [1, 255, 256, 257, 40_000] {
        let mut values = numbers(n, 3);
        values[n / 2] = f32::MIN_POSITIVE / 3.0;
        let x = Tensor::from_f32([n], values.clone()).expect("fits");
        let mut graph = Graph::default();
        let input = graph.add_input("x", DType::F32, vec![Dim::Known(n)]);
        let mut y = input;
        let steps = [
            (Binary::Div, 8.0_f32),
            (Binary::Add, 0.3),
            (Binary::Div, 0.3),
            (Binary::Mul, 8.0),
            (Binary::Sub, 1.7),
            (Binary::Div, -0.5),
        ];
        for (op, value) in steps {
            y = with_constant(&mut graph, op, y, value);
        }
        // Of an operand as well, so that no step before takes the constants.
        y = graph.add_node("sum", Op::Binary(Binary::Add), &[Some(y), Some(input)]);
        graph.outputs.push(y);
        let want: Vec<u32> = values
            .iter()
            .map(|&v| ((((v / 8.0 + 0.3) / 0.3 * 8.0 - 1.7) / -0.5) + v).to_bits())
            .collect();
        for isa in Isa::available() {
            for threads in [1, 3] {
                assert!(bits(&graph, &x, isa, threads) == want, "{n} {isa:?}");
            }
        }
    }
}
