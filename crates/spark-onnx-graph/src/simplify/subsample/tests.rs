//! Where the stride goes, where it must not, and that values stay the same bits.

use super::*;
use crate::graph::{Binary, Dim, Graph, Slice, Unary, bind};
use crate::reference;

struct Build {
    graph: Graph,
    x: ValueId,
}

fn ramp(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let values = (0..n).map(|i| ((i * 7919) % 1009) as f32 / 504.0 - 1.0);
    Tensor::from_f32(shape, values.collect()).expect("fits")
}

const SHAPE: [usize; 4] = [2, 3, 7, 9];

impl Build {
    fn new() -> Self {
        let mut graph = Graph::default();
        let x = graph.add_input("x", DType::F32, SHAPE.map(Dim::Known).to_vec());
        Self { graph, x }
    }

    fn conv(&mut self, name: &str, x: ValueId, kernel: usize, stride: [usize; 2]) -> ValueId {
        let w = ramp(&[3, 3, kernel, kernel]);
        let w = self.graph.add_constant(format!("{name}.w"), w);
        let conv = Conv {
            strides: stride.to_vec(),
            dilations: vec![],
            padding: Padding::Explicit(vec![kernel / 2; 4]),
            groups: 1,
        };
        self.graph
            .add_node(name, Op::Conv(conv), &[Some(x), Some(w)])
    }

    fn elu(&mut self, name: &str, x: ValueId) -> ValueId {
        let op = Op::Unary(Unary::Elu { alpha: 1.0 });
        self.graph.add_node(name, op, &[Some(x)])
    }

    fn add(&mut self, name: &str, a: ValueId, b: ValueId) -> ValueId {
        self.graph
            .add_node(name, Op::Binary(Binary::Add), &[Some(a), Some(b)])
    }

    /// Rewrites, compares the results bit for bit, and gives `name stride` of every convolution
    /// and the names of slices, in order.
    fn after(mut self, outputs: &[ValueId]) -> Vec<String> {
        self.graph.outputs.extend(outputs);
        let before = bind(&self.graph, &[]).expect("binds");
        let mut after = before.clone();
        subsample(&mut after);
        let x = ramp(&SHAPE);
        let run = |g: &StaticGraph| reference::run(g, &[("x", &x)]).expect("runs");
        for ((name, want), (_, got)) in run(&before).iter().zip(run(&after)) {
            assert_eq!(want.shape(), got.shape(), "{name}");
            assert_eq!(want.to_f64(), got.to_f64(), "{name}");
        }
        let said = after.nodes.iter().filter_map(|node| match &node.op {
            Op::Conv(conv) => Some(format!("{} {:?}", node.name, strides(conv))),
            Op::Slice(Slice) => Some(node.name.clone()),
            _ => None,
        });
        said.collect()
    }
}

#[test]
fn a_stride_moves_up_through_a_residual_block() {
    for stride in [[2, 2], [3, 1], [1, 2]] {
        let mut b = Build::new();
        let z = b.elu("z", b.x);
        let a = b.conv("a", z, 3, [1, 1]);
        let a = b.elu("a.elu", a);
        let a = b.conv("point", a, 1, [1, 1]);
        let sum = b.add("sum", z, a);
        let out = b.elu("out", sum);
        let left = b.conv("left", out, 1, stride);
        let right = b.conv("right", out, 1, stride);
        let [sy, sx] = stride;
        let want = [
            format!("z[::{sy}, ::{sx}]"),
            format!("a [{sy}, {sx}]"),
            "point [1, 1]".to_owned(),
            "left [1, 1]".to_owned(),
            "right [1, 1]".to_owned(),
        ];
        assert_eq!(b.after(&[left, right]), want);
    }
}

#[test]
fn strides_multiply_and_one_slice_serves_two_readers() {
    let mut b = Build::new();
    let a = b.conv("a", b.x, 3, [2, 1]);
    let first = b.add("first", a, a);
    let left = b.conv("left", first, 1, [2, 2]);
    let right = b.conv("right", b.x, 3, [1, 1]);
    let right = b.conv("last", right, 1, [2, 3]);
    let want = [
        "a [2, 1]",
        "a[::2, ::2]",
        "left [1, 1]",
        "right [2, 3]",
        "last [1, 1]",
    ];
    assert_eq!(b.after(&[left, right]), want);
}

#[test]
fn what_another_reader_wants_whole_stays_whole() {
    // The caller, a window of several taps, another stride.
    for other in 0..3 {
        let mut b = Build::new();
        let a = b.conv("a", b.x, 3, [1, 1]);
        let left = b.conv("left", a, 1, [2, 2]);
        let right = match other {
            0 => a,
            1 => b.conv("right", a, 3, [2, 2]),
            _ => b.conv("right", a, 1, [2, 1]),
        };
        let said = b.after(&[left, right]);
        assert_eq!(said[..2], ["a [1, 1]", "left [2, 2]"], "{other}");
    }
}

#[test]
fn inputs_and_other_operators_are_left_alone() {
    let mut b = Build::new();
    let left = b.conv("left", b.x, 1, [2, 2]);
    let soft = Op::Softmax(crate::graph::Softmax {
        axis: 1,
        log: false,
        flatten: false,
    });
    let soft = b.graph.add_node("soft", soft, &[Some(b.x)]);
    let right = b.conv("right", soft, 1, [2, 2]);
    assert_eq!(
        b.after(&[left, right]),
        ["left [2, 2]", "right [2, 2]"].map(str::to_owned)
    );
}

#[test]
fn an_operand_that_is_the_same_for_all_pixels_stays() {
    let mut b = Build::new();
    let a = b.conv("a", b.x, 3, [1, 1]);
    let shift = b.graph.add_constant("shift", ramp(&[3, 1, 1]));
    let sum = b.add("sum", a, shift);
    let out = b.conv("out", sum, 1, [2, 2]);
    assert_eq!(
        b.after(&[out]),
        ["a [2, 2]", "out [1, 1]"].map(str::to_owned)
    );
}

#[test]
fn strides_whose_product_is_beyond_any_extent_leave_one_pixel() {
    let mut b = Build::new();
    let far = [1 << 31; 2];
    let a = b.conv("a", b.x, 3, far);
    let first = b.elu("first", a);
    let c = b.conv("c", first, 1, far);
    let second = b.elu("second", c);
    let out = b.conv("out", second, 1, far);
    let most = format!("a [{MAX_ELEMENTS}, {MAX_ELEMENTS}]");
    assert_eq!(b.after(&[out]), [most.as_str(), "c [1, 1]", "out [1, 1]"]);
}
