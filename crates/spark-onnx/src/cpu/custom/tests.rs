//! What is lent: the right elements of every type, and never one element to two.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::cpu::{Executor, Isa, Pool};
use crate::graph::{
    Custom, CustomAttributes, CustomOperator, Dim, Graph, Op, Operand, OperatorError, TensorType,
    Transpose, bind,
};
use crate::plan::{Plan, Step, lower};
use crate::{DType, Tensor, TensorView, TensorViewMut};

/// Two results, each the operand.
struct Twice;

impl CustomOperator for Twice {
    fn infer(
        &self,
        operands: &[Option<Operand<'_>>],
        n: usize,
    ) -> Result<Vec<TensorType>, OperatorError> {
        let x = operands[0].ok_or("no operand")?;
        Ok(vec![x.ty(); n])
    }

    fn run(
        &self,
        operands: &[Option<TensorView<'_>>],
        results: &mut [Option<TensorViewMut<'_>>],
    ) -> Result<(), OperatorError> {
        use crate::ElementsMut::*;
        let x = operands[0].as_ref().ok_or("no operand")?;
        for result in results.iter_mut().flatten() {
            macro_rules! each {
                ($($variant:ident)*) => {
                    match result.elements_mut() {
                        $($variant(y) => y.copy_from_slice(x.as_slice().ok_or("one type")?),)*
                    }
                };
            }
            each!(F32 F64 F16 BF16 I8 I16 I32 I64 U8 U16 U32 U64 Bool);
        }
        Ok(())
    }
}

/// `y0, y1 = twice(transpose(x))`.
fn plan(dtype: DType) -> Plan {
    let mut graph = Graph::default();
    let x = graph.add_input("x", dtype, vec![Dim::Known(5), Dim::Known(7)]);
    let transpose = Op::Transpose(Transpose { perm: None });
    let turned = graph.add_node("turned", transpose, &[Some(x)]);
    let op = Custom::new(
        "com.example",
        "Twice",
        CustomAttributes::default(),
        Arc::new(Twice),
    );
    let y0 = graph.add_node("y0", Op::Custom(op), &[Some(turned)]);
    let y1 = graph.add_value(crate::graph::Value {
        name: "y1".to_owned(),
        ..graph.value(y0).clone()
    });
    graph.nodes[1].outputs.push(Some(y1));
    graph.outputs = vec![y0, y1];
    lower(&bind(&graph, &[]).expect("fixed shapes")).expect("lowers")
}

fn executor(plan: Plan) -> Executor {
    Executor::new(plan, Isa::detect(), Arc::new(Pool::new(2))).expect("prepares")
}

#[test]
fn elements_of_every_type_are_lent_and_taken_back() {
    for dtype in DType::ALL {
        let mut executor = executor(plan(dtype));
        let value = |i: usize| {
            (i % 2) as f64
                + if dtype == DType::Bool {
                    0.0
                } else {
                    (i % 50) as f64
                }
        };
        let values = (0..35).map(value).collect();
        let x = Tensor::from_f64(dtype, [5, 7], values).expect("as many");
        let want: Vec<f64> = (0..35).map(|i| value(i % 5 * 7 + i / 5)).collect();
        for _ in 0..2 {
            executor.set_input(0, &x).expect("fits");
            executor.run().expect("runs");
            for output in 0..2 {
                let y = executor.output(output).expect("there");
                assert_eq!((y.dtype(), y.to_f64()), (dtype, want.clone()));
            }
        }
    }
}

#[test]
fn a_result_that_lies_in_what_else_is_lent_stops_the_run() {
    let mut of_operand = plan(DType::F32);
    let mut of_result = plan(DType::F32);
    for (plan, takes_operand) in [(&mut of_operand, true), (&mut of_result, false)] {
        // Row-major, so that it is lent where it lies.
        for planned in &mut plan.steps {
            let Step::Custom(step) = &mut planned.step else {
                continue;
            };
            let own = step.results[0].clone().expect("wanted");
            match takes_operand {
                true => step.operands[0] = Some(own),
                false => step.results[1] = Some(own),
            }
        }
    }
    for plan in [of_operand, of_result] {
        let mut executor = executor(plan);
        let x = Tensor::zeros(DType::F32, [5, 7]).expect("zeros");
        executor.set_input(0, &x).expect("fits");
        let ran = catch_unwind(AssertUnwindSafe(|| executor.run()));
        let payload = ran.expect_err("it would lend one element twice");
        let message = payload.downcast_ref::<&str>();
        assert_eq!(message, Some(&"a result of its own memory"));
    }
}
