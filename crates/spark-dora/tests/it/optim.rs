//! Every variable of every kind of layer is trained, and nothing else; optimisers, schedules, clipping.

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{
    Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Embedding, Linear, Module, Optimizer, ParamsAdamW,
};
use spark_dora::optim::{
    Accumulator, AdamW, Gradients, Group, LoraPlus, Plateau, Schedule, clip_by_norm,
};
use spark_dora::{Adapter, DoraConfig, Init};

use crate::data::{assert_close, noise, values};

fn tensor(shape: &[usize], seed: u64) -> Tensor {
    let data = noise(shape.iter().product(), seed);
    let tensor = Tensor::from_vec(data, shape, &Device::Cpu).expect("as many values");
    tensor.to_dtype(DType::F32).expect("a float type")
}

/// A network with a layer of every kind; all bases are variables, as after training.
struct Net {
    forward: Box<dyn Fn(&Tensor) -> Tensor>,
    bases: Vec<Var>,
    adapter: Adapter,
}

fn net(config: DoraConfig) -> Net {
    let base = |shape: &[usize], seed| Var::from_tensor(&tensor(shape, seed)).unwrap();
    let bases = vec![
        base(&[11, 6], 1),
        base(&[8, 6, 3], 2),
        base(&[8, 1, 3, 3], 3),
        base(&[6, 8, 3, 3], 4),
        base(&[5, 6], 5),
        base(&[5], 6),
    ];
    let t = |i: usize| bases[i].as_tensor().clone();
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    let embedding = adapter
        .embedding("embedding", &Embedding::new(t(0), 6))
        .unwrap();
    let conv1d = Conv1d::new(
        t(1),
        None,
        Conv1dConfig {
            padding: 1,
            ..Default::default()
        },
    );
    let conv1d = adapter.conv1d("conv1d", &conv1d).unwrap();
    let depthwise = Conv2dConfig {
        padding: 1,
        groups: 8,
        ..Default::default()
    };
    let depthwise = adapter
        .conv2d("depthwise", &Conv2d::new(t(2), None, depthwise))
        .unwrap();
    let conv = Conv2dConfig {
        padding: 1,
        ..Default::default()
    };
    let conv = adapter
        .conv2d("conv", &Conv2d::new(t(3), None, conv))
        .unwrap();
    let linear = adapter
        .linear("linear", &Linear::new(t(4), Some(t(5))))
        .unwrap();
    adapter.finish().unwrap();
    let forward = move |ids: &Tensor| -> Tensor {
        let run = || -> candle_core::Result<Tensor> {
            let x = embedding.forward(ids)?.t()?;
            let x = conv1d.forward(&x)?.tanh()?.unsqueeze(2)?;
            let x = conv.forward(&depthwise.forward(&x)?.tanh()?)?;
            linear.forward(&x.squeeze(2)?.t()?.contiguous()?)
        };
        run().expect("shapes that fit")
    };
    Net {
        forward: Box::new(forward),
        bases,
        adapter,
    }
}

fn ids() -> Tensor {
    Tensor::new(&[[0u32, 3, 10, 3, 7], [1, 1, 2, 9, 4]], &Device::Cpu).unwrap()
}

fn loss(net: &Net) -> Tensor {
    let y = (net.forward)(&ids());
    (y - 1.0)
        .and_then(|d| d.sqr())
        .and_then(|d| d.mean_all())
        .unwrap()
}

#[test]
fn every_variable_gets_a_gradient_and_no_frozen_weight_does() {
    for config in [DoraConfig::builder(2), DoraConfig::builder(2).lora()] {
        // With B zero, A's gradient is zero: it exists all the same.
        let net = net(config.init(Init::Random).build().unwrap());
        let gradients = loss(&net).backward().unwrap();
        let variables = net.adapter.variables();
        assert_eq!(
            variables.all().count(),
            net.adapter.adapted().count() * if variables.magnitude.is_empty() { 2 } else { 3 }
        );
        for var in variables.all() {
            let gradient = gradients.get(var).expect("a gradient");
            assert!(
                values(gradient).iter().any(|&g| g != 0.0),
                "{:?}",
                var.dims()
            );
        }
        for base in &net.bases {
            assert!(gradients.get(base).is_none(), "{:?} is frozen", base.dims());
        }
    }
}

#[test]
fn layers_that_train_their_magnitude_only_have_no_other_variable() {
    let config = DoraConfig::builder(2)
        .targets(["conv"])
        .magnitude_only(["linear", "depthwise"]);
    let net = net(config.build().unwrap());
    let variables = net.adapter.variables();
    assert_eq!(
        [
            variables.a.len(),
            variables.b.len(),
            variables.magnitude.len()
        ],
        [1, 1, 3]
    );
    let gradients = loss(&net).backward().unwrap();
    for var in variables.all() {
        assert!(gradients.get(var).is_some(), "{:?}", var.dims());
    }
}

#[test]
fn training_changes_variables_only_and_lowers_the_loss() {
    let net = net(DoraConfig::builder(2).build().unwrap());
    let before: Vec<_> = net.bases.iter().map(|b| values(b)).collect();
    let variables = net.adapter.variables();
    let rates = LoraPlus {
        rate: 1e-2,
        ratio: 4.0,
        ..LoraPlus::default()
    };
    let mut optimiser = AdamW::new(variables.optimiser_groups(rates)).unwrap();
    let mut accumulator = Accumulator::new(variables.all().cloned());
    let first = loss(&net).to_scalar::<f32>().unwrap();
    for step in 0..60 {
        for _ in 0..2 {
            accumulator.add(&loss(&net).backward().unwrap()).unwrap();
        }
        let mut gradients = accumulator.mean().unwrap();
        clip_by_norm(&mut gradients, 1.0).unwrap();
        optimiser
            .step(&gradients, Schedule::cosine(60).factor(step))
            .unwrap();
    }
    let last = loss(&net).to_scalar::<f32>().unwrap();
    assert!(last < 0.2 * first, "{first} -> {last}");
    for (base, before) in net.bases.iter().zip(before) {
        assert_eq!(values(base), before);
    }
}

#[test]
fn adamw_makes_the_steps_of_candles() {
    let (own, theirs) = (
        Var::from_tensor(&tensor(&[7], 1)).unwrap(),
        Var::from_tensor(&tensor(&[7], 1)).unwrap(),
    );
    let params = ParamsAdamW {
        lr: 0.05,
        weight_decay: 0.1,
        ..Default::default()
    };
    let mut reference = candle_nn::AdamW::new(vec![theirs.clone()], params).unwrap();
    let group = Group {
        variables: vec![own.clone()],
        rate: 0.1,
        weight_decay: 0.1,
    };
    let mut optimiser = AdamW::new(vec![group]).unwrap();
    for _ in 0..5 {
        let loss = |var: &Var| {
            var.sqr()
                .and_then(|s| s.sum_all())
                .unwrap()
                .backward()
                .unwrap()
        };
        reference.step(&loss(&theirs)).unwrap();
        let gradients = Gradients::of(&loss(&own), [&own]);
        optimiser.step(&gradients, 0.5).unwrap();
    }
    assert_close("weights", &values(&own), &values(&theirs), 1e-6);
}

#[test]
fn a_resumed_run_makes_the_same_steps() {
    let run = |resume_at: Option<usize>| {
        let var = Var::from_tensor(&tensor(&[7], 1)).unwrap();
        let make = || {
            AdamW::new(vec![Group {
                variables: vec![var.clone()],
                rate: 0.1,
                weight_decay: 0.0,
            }])
        };
        let mut optimiser = make().unwrap();
        for step in 0..6 {
            if resume_at == Some(step) {
                let state = optimiser.state().clone();
                optimiser = make().unwrap();
                optimiser.resume(state).unwrap();
            }
            let store = var
                .powf(4.0)
                .and_then(|s| s.sum_all())
                .unwrap()
                .backward()
                .unwrap();
            optimiser.step(&Gradients::of(&store, [&var]), 1.0).unwrap();
        }
        values(&var)
    };
    assert_eq!(run(None), run(Some(3)), "bit for bit");
}

#[test]
fn clipping_keeps_the_direction_and_refuses_nan() {
    let var = Var::new(&[3f32, 4.0], &Device::Cpu).unwrap();
    let store = (var.sqr().unwrap() * 0.5)
        .unwrap()
        .sum_all()
        .unwrap()
        .backward()
        .unwrap();
    let mut gradients = Gradients::of(&store, [&var]);
    assert_eq!(clip_by_norm(&mut gradients, 10.0).unwrap(), 5.0);
    assert_eq!(values(gradients.get(&var).unwrap()), [3.0, 4.0]);
    clip_by_norm(&mut gradients, 1.0).unwrap();
    assert_close(
        "clipped",
        &values(gradients.get(&var).unwrap()),
        &[0.6, 0.8],
        1e-6,
    );
    let store = (var.as_tensor() * f64::NAN)
        .unwrap()
        .sum_all()
        .unwrap()
        .backward()
        .unwrap();
    assert!(clip_by_norm(&mut Gradients::of(&store, [&var]), 1.0).is_err());
}

#[test]
fn schedules_rise_and_fall() {
    let cosine = Schedule::cosine(100).warm_up(9).floor(0.1);
    assert!((cosine.factor(0) - 0.1).abs() < 1e-12);
    assert!((cosine.factor(9) - 1.0).abs() < 1e-12);
    assert!((cosine.factor(100) - 0.1).abs() < 1e-12);
    assert!((cosine.factor(u64::MAX) - 0.1).abs() < 1e-12);
    assert!((Schedule::linear(10).factor(5) - 0.5).abs() < 1e-12);
    assert_eq!(Schedule::constant().factor(1 << 40), 1.0);
    let mut plateau = Plateau::new(0.5, 1, 0.0);
    let factors: Vec<f64> = [3.0, 2.0, 2.0, 2.0, f64::NAN, 1.0]
        .map(|v| plateau.observe(v))
        .into();
    assert_eq!(factors, [1.0, 1.0, 1.0, 0.5, 0.5, 0.5]);
}
