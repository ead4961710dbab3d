//! Every tensor that PEFT computed: results, gradients, merged weights.

use std::collections::HashMap;

use candle_core::{Device, Tensor, Var};
use candle_nn::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Embedding, Linear, Module};
use spark_dora::{DoraConv1d, DoraConv2d, DoraEmbedding, DoraLinear, Factors};

use crate::data::{assert_close, truth, values};

const BOUND: f64 = 1e-5;

type Tensors = HashMap<String, Tensor>;

fn var(tensors: &Tensors, case: &str, what: &str) -> Tensor {
    let tensor = &tensors[&format!("{case}.{what}")];
    Var::from_tensor(tensor).expect("a variable").into_inner()
}

/// Runs one case; `make` gives the layer's function, its variables and its merged weight.
fn check(
    tensors: &Tensors,
    case: &str,
    make: impl FnOnce(Tensor, Option<Tensor>, (Tensor, Tensor), Tensor) -> Made,
) {
    let get = |what: &str| tensors.get(&format!("{case}.{what}"));
    let factors = (var(tensors, case, "A"), var(tensors, case, "B"));
    let weight = get("W").expect("a weight").clone();
    let made = make(
        weight.clone(),
        get("b").cloned(),
        factors,
        var(tensors, case, "m"),
    );
    let x = match get("gx") {
        Some(_) => var(tensors, case, "x"),
        None => get("x").expect("an input").clone(),
    };
    let y = (made.forward)(&x);
    assert_close(
        &format!("{case}.y"),
        &values(&y),
        &values(get("y").unwrap()),
        BOUND,
    );
    assert_close(
        &format!("{case}.W_merged"),
        &values(&made.merged),
        &values(get("W_merged").unwrap()),
        BOUND,
    );
    let g = get("G").expect("a cotangent");
    let loss = (y * g).and_then(|p| p.sum_all()).expect("one shape");
    let gradients = loss.backward().expect("a backward pass");
    assert!(
        gradients.get(&weight).is_none(),
        "{case}: the base is frozen"
    );
    let factors = &made.factors;
    let expected = [
        ("gA", factors.a()),
        ("gB", factors.b()),
        ("gm", factors.magnitude()),
        ("gx", get("gx").map(|_| &x)),
    ];
    for (what, tensor) in expected {
        let Some(tensor) = tensor else { continue };
        let got = gradients
            .get(tensor)
            .unwrap_or_else(|| panic!("{case}: no {what}"));
        let want = get(what).expect("a gradient");
        assert_close(
            &format!("{case}.{what}"),
            &values(got),
            &values(want),
            BOUND,
        );
    }
}

struct Made {
    forward: Box<dyn Fn(&Tensor) -> Tensor>,
    factors: Factors,
    merged: Tensor,
}

fn made<L: Module + 'static>(layer: L, factors: Factors, merged: Tensor) -> Made {
    Made {
        forward: Box::new(move |x| layer.forward(x).expect("an input that fits")),
        factors,
        merged,
    }
}

#[test]
fn peft_agrees_with_every_kind_of_layer() {
    let Some(path) = truth("peft_dora.safetensors") else {
        return;
    };
    let tensors = candle_core::safetensors::load(path, &Device::Cpu).expect("a tensor file");
    for (case, scaling) in [("linear", 2.0), ("linear_rs_nobias", 4.0)] {
        check(&tensors, case, |w, b, low, m| {
            let layer = Linear::new(w, b);
            let layer = DoraLinear::from_tensors(&layer, Some(low), Some(m), scaling).unwrap();
            let merged = layer.merge().unwrap().layer.weight().clone();
            made(layer.clone(), layer.factors().clone(), merged)
        });
    }
    for (case, stride, padding) in [("conv3x3_s2", 2, 1), ("conv1x1", 1, 0)] {
        check(&tensors, case, |w, b, low, m| {
            let config = Conv2dConfig {
                stride,
                padding,
                ..Conv2dConfig::default()
            };
            let layer = Conv2d::new(w, b, config);
            let layer = DoraConv2d::from_tensors(&layer, Some(low), Some(m), 2.0).unwrap();
            let merged = layer.merge().unwrap().layer.weight().clone();
            made(layer.clone(), layer.factors().clone(), merged)
        });
    }
    check(&tensors, "conv1d", |w, b, low, m| {
        let config = Conv1dConfig {
            padding: 1,
            ..Conv1dConfig::default()
        };
        let layer = Conv1d::new(w, b, config);
        let layer = DoraConv1d::from_tensors(&layer, Some(low), Some(m), 2.0).unwrap();
        let merged = layer.merge().unwrap().layer.weight().clone();
        made(layer.clone(), layer.factors().clone(), merged)
    });
    check(&tensors, "embedding", |w, _, low, m| {
        let layer = Embedding::new(w, 10);
        let layer = DoraEmbedding::from_tensors(&layer, Some(low), Some(m), 2.0).unwrap();
        let merged = layer.merge().unwrap().layer.embeddings().clone();
        made(layer.clone(), layer.factors().clone(), merged)
    });
}
