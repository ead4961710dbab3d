//! The table of the module's documentation, made from every sample.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::super::{GradientKind, GradientOptions, kind_of};
use crate::graph::op::each_operator;
use crate::graph::{ActivationFormat, CountedDropout, MaskedSoftmax, Op, RoundedActivations};
use crate::samples::every_operator;
use crate::tensor::DType;
use spark_testing::settings;

/// An operator with a number of operands, and the type of its first result.
type Form = (Op, usize, DType);

/// Every operator in every form, but those of embedders.
fn forms() -> Vec<Form> {
    let samples = every_operator();
    let forms = samples.iter().filter_map(|sample| {
        let node = sample.graph.nodes.last()?;
        let result = sample.graph.value(*sample.graph.outputs.first()?).dtype?;
        Some((node.op.clone(), node.inputs.len(), result))
    });
    let dropout = CountedDropout {
        probability: 0.5,
        key: 0,
    };
    let rounded = RoundedActivations {
        format: ActivationFormat::E4m3,
        axis: -1,
        together: 1,
        scale: None,
        len: None,
    };
    let more = [
        (Op::MaskedSoftmax(MaskedSoftmax), 1, DType::F32),
        (Op::CountedDropout(dropout), 2, DType::F32),
        (Op::RoundedActivations(rounded), 1, DType::F32),
    ];
    forms.chain(more).collect()
}

fn kinds(form: &Form, straight_through: bool) -> BTreeSet<&'static str> {
    let (op, n_operands, result) = form;
    let options = GradientOptions { straight_through };
    let kinds = (0..*n_operands).map(|operand| match kind_of(op, operand, *result, options) {
        GradientKind::Computed => "computed",
        GradientKind::Zero => "zero",
        GradientKind::Refused(reason) => reason,
    });
    kinds.collect()
}

fn table() -> String {
    let mut rows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut put = |row: &str, name: &str| {
        rows.entry(row.to_owned())
            .or_default()
            .insert(name.to_owned());
    };
    let forms = forms();
    let computed: BTreeSet<&str> = forms
        .iter()
        .filter(|form| kinds(form, false).contains("computed"))
        .map(|(op, ..)| op.name())
        .collect();
    for form in &forms {
        let name = form.0.name();
        let kinds_of_form = kinds(form, false);
        let rest: Vec<&&str> = kinds_of_form
            .iter()
            .filter(|kind| **kind != "zero")
            .collect();
        match &rest[..] {
            _ if kinds_of_form.contains("computed") => put("1 computed", name),
            [reason] => put(&format!("4 refused: {reason}"), name),
            _ if computed.contains(name) => {
                put("2 zero by definition, of results that are no floats", name);
            }
            _ if kinds(form, true).contains("computed") => {
                put(
                    "3 zero by definition, computed with `straight_through`",
                    name,
                );
            }
            _ => put("2 zero by definition", name),
        }
    }
    put("4 refused: only whoever made the operator knows", "custom");
    let mut table = "| Gradient | Operators |\n|---|---|\n".to_owned();
    for (row, names) in rows {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        table += &format!("| {} | {} |\n", &row[2..], names.join(", "));
    }
    format!(
        "\n# Which operators have a gradient\n\nOf operators with a gradient, operands that say which elements, how many \
         or under what condition\n(indices, axes, shapes, booleans) have one that is zero by definition; scales, sizes and \
         regions of `Resize` are refused, and so are those of `RoiAlign`.\n\n{table}"
    )
}

#[test]
fn the_documentation_says_what_every_operator_has() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/reference/gradient/operators.md");
    if settings::bless() {
        std::fs::write(&path, table()).expect("writes the table");
    }
    let written = std::fs::read_to_string(&path).expect("reads the table");
    assert_eq!(written, table(), "SPARK_BLESS=1 writes it anew");
}

#[test]
fn every_operator_of_the_list_is_in_the_table() {
    trait Named {
        const NAME: fn() -> &'static str;
    }
    impl<T> Named for T {
        const NAME: fn() -> &'static str = std::any::type_name::<T>;
    }
    let all: BTreeSet<&str> = each_operator!(list Named::NAME).map(|name| name()).into();
    let shown: BTreeSet<&str> = forms()
        .iter()
        .map(|(op, ..)| each_operator!(match op, it => std::any::type_name_of_val(it)))
        .collect();
    let missing: Vec<&&str> = all.difference(&shown).collect();
    let custom = std::any::type_name::<crate::graph::Custom>();
    assert_eq!(missing, [&custom], "has no sample");
}
