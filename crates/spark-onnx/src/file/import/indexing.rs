//! Operators that pick or place elements by index.

use super::Translator;
use super::call::{Call, Translated};
use crate::ModelError;
use crate::graph::{
    Gather, GatherElements, GatherNd, NonZero, OneHot, Op, ScatterElements, ScatterNd,
    ScatterReduction,
};

pub(super) const OPERATORS: &[Translator] = &[
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("Scatter", scatter_elements),
    ("ScatterElements", scatter_elements),
    ("ScatterND", scatter_nd),
    ("OneHot", one_hot),
    ("NonZero", non_zero),
];

fn gather(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    let axis = call.int_or("axis", 0)?;
    call.finish_as_is(Op::Gather(Gather { axis }))
}

fn gather_elements(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    let axis = call.int_or("axis", 0)?;
    call.finish_as_is(Op::GatherElements(GatherElements { axis }))
}

fn gather_nd(call: &mut Call<'_, '_>) -> Translated {
    call.operands(2, 2)?;
    let batch_dims = call.int_or("batch_dims", 0)?;
    match usize::try_from(batch_dims) {
        Ok(batch_dims) => call.finish_as_is(Op::GatherNd(GatherNd { batch_dims })),
        Err(_) => Err(call.error(format!("attribute `batch_dims` is {batch_dims}"))),
    }
}

fn reduction(call: &Call<'_, '_>) -> Result<ScatterReduction, ModelError> {
    call.choice(
        "reduction",
        ScatterReduction::None,
        &[
            ("none", ScatterReduction::None),
            ("add", ScatterReduction::Add),
            ("mul", ScatterReduction::Mul),
            ("max", ScatterReduction::Max),
            ("min", ScatterReduction::Min),
        ],
    )
}

/// Scatter is its name before operator set 11.
fn scatter_elements(call: &mut Call<'_, '_>) -> Translated {
    call.operands(3, 3)?;
    let op = Op::ScatterElements(ScatterElements {
        axis: call.int_or("axis", 0)?,
        reduction: reduction(call)?,
    });
    call.finish_as_is(op)
}

fn scatter_nd(call: &mut Call<'_, '_>) -> Translated {
    call.operands(3, 3)?;
    let reduction = reduction(call)?;
    call.finish_as_is(Op::ScatterNd(ScatterNd { reduction }))
}

fn one_hot(call: &mut Call<'_, '_>) -> Translated {
    call.operands(3, 3)?;
    let axis = call.int_or("axis", -1)?;
    call.finish_as_is(Op::OneHot(OneHot { axis }))
}

fn non_zero(call: &mut Call<'_, '_>) -> Translated {
    call.operands(1, 1)?;
    call.finish_as_is(Op::NonZero(NonZero))
}
