//! Windows over three axes, and lists of operators that are spelled out, whose numbers are huge: an
//! answer or an error, soon and in little memory.

use spark_onnx::graph::{Conv, CumProd, Graph, Op, Padding, Pool, PoolKind};

use super::hostile_sizes::{HUGE, check, floats, input, of_lists, output};

#[test]
fn windows_over_three_axes() {
    for huge in HUGE.map(|n| n as usize) {
        for axis in 0..3 {
            let ones = vec![1; 3];
            let mut long = ones.clone();
            long[axis] = huge;
            let mut pads = vec![0; 6];
            pads[axis] = huge;
            let both = [pads.clone(), vec![0; 6]];
            for (strides, dilations) in [(&long, &ones), (&ones, &long), (&long, &long)] {
                for pads in &both {
                    let conv = Conv {
                        strides: strides.clone(),
                        dilations: dilations.clone(),
                        padding: Padding::Explicit(pads.clone()),
                        groups: 1,
                    };
                    let mut graph = Graph::default();
                    let x = input(&mut graph, &[1, 2, 3, 3, 3]);
                    let w = floats(&mut graph, "w", &[2, 2, 1, 2, 1]);
                    let name = format!("{conv:?}");
                    check(&name, &output(graph, Op::Conv(conv), &[x, w]));
                    for kernel in [ones.clone(), vec![2; 3], long.clone()] {
                        let pool = Pool {
                            kind: PoolKind::Average,
                            kernel,
                            strides: strides.clone(),
                            dilations: dilations.clone(),
                            padding: Padding::Explicit(pads.clone()),
                            count_include_pad: true,
                            ceil_mode: axis == 1,
                        };
                        let name = format!("{pool:?}");
                        check(&name, &of_lists(Op::Pool(pool), &[1, 2, 3, 3, 3], &[]));
                    }
                }
            }
        }
    }
}

#[test]
fn axes_of_running_products() {
    for huge in HUGE {
        for axis in [huge, -huge] {
            let op = Op::CumProd(CumProd {
                exclusive: false,
                reverse: true,
            });
            check("a product", &of_lists(op, &[2, 3], &[&[axis]]));
        }
    }
}
