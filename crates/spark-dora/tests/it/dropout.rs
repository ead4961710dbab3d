//! Dropout acts in training, follows (seed, step, layer), and is absent from evaluation.

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Embedding, Linear, Module};
use spark_dora::{Adapter, DoraConfig, DoraConfigBuilder, DoraLinear, Init, Offered, TrainModule};

use crate::adapter::{Folder, linear, open};
use crate::data::{assert_close, noise, values};

fn tensor(shape: &[usize], seed: u64) -> Tensor {
    let data = noise(shape.iter().product(), seed);
    let tensor = Tensor::from_vec(data, shape, &Device::Cpu).unwrap();
    tensor.to_dtype(DType::F32).unwrap()
}

fn config() -> DoraConfigBuilder {
    DoraConfig::builder(4)
        .init(Init::Random)
        .dropout(0.3)
        .seed(11)
}

/// A network of two linear layers under an adapter.
struct Net(Offered<Linear, DoraLinear>, Offered<Linear, DoraLinear>);

impl Net {
    fn new(adapter: &mut Adapter) -> Self {
        Self(
            adapter.linear("a", &linear(16, 12, 1)).unwrap(),
            adapter.linear("b", &linear(12, 16, 2)).unwrap(),
        )
    }

    fn of(config: DoraConfigBuilder) -> (Adapter, Self) {
        let config = config.build().unwrap();
        let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
        let net = Self::new(&mut adapter);
        (adapter, net)
    }

    fn train(&self, x: &Tensor, step: u64) -> Vec<f64> {
        let run = || -> Result<Tensor> {
            let hidden = self.0.forward_train(x, step)?.relu()?;
            self.1.forward_train(&hidden, step)
        };
        values(&run().unwrap())
    }

    fn evaluate(&self, x: &Tensor) -> Vec<f64> {
        let hidden = self.0.forward(x).unwrap().relu().unwrap();
        values(&self.1.forward(&hidden).unwrap())
    }
}

#[test]
fn an_adapted_network_drops_by_seed_and_step_and_in_training_only() {
    let x = tensor(&[5, 12], 3);
    let (_, net) = Net::of(config());
    let first = net.train(&x, 0);
    let plain = net.evaluate(&x);
    assert_ne!(first, plain, "dropout acts");
    assert_eq!(net.evaluate(&x), plain, "evaluation has none");
    assert_ne!(net.train(&x, 1), first, "another step");
    assert_eq!(
        net.train(&x, 0),
        first,
        "the same step, whatever ran between"
    );
    let (_, twin) = Net::of(config());
    assert_eq!(twin.train(&x, 0), first, "another run");
    let (_, other) = Net::of(config().seed(12));
    // The initial values follow the seed as well, so it is the change by dropout that is compared.
    assert_ne!(other.train(&x, 0), first);
    let (_, none) = Net::of(config().dropout(0.0));
    assert_eq!(none.train(&x, 0), none.evaluate(&x), "none configured");
}

#[test]
fn threads_and_the_order_of_calls_change_no_bit() {
    let x = tensor(&[64, 12], 3);
    let (_, net) = Net::of(config());
    let want: Vec<_> = (0..8).map(|step| net.train(&x, step)).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8u64)
            .rev()
            .map(|step| {
                (
                    step,
                    scope.spawn({
                        let (net, x) = (&net, &x);
                        move || net.train(x, step)
                    }),
                )
            })
            .collect();
        for (step, thread) in threads {
            assert_eq!(thread.join().unwrap(), want[step as usize], "step {step}");
        }
    });
}

#[test]
fn a_resumed_training_has_the_masks_of_the_one_that_was_stopped() {
    let x = tensor(&[5, 12], 3);
    let (adapter, net) = Net::of(config());
    let folder = Folder::new("resume");
    adapter.save(&folder.0).unwrap();
    let mut resumed = open(&folder.0).unwrap();
    let again = Net::new(&mut resumed);
    resumed.finish().unwrap();
    for step in [0, 7, u64::MAX] {
        assert_eq!(again.train(&x, step), net.train(&x, step), "step {step}");
    }
}

#[test]
fn inputs_of_the_update_are_dropped_at_the_rate_and_the_others_made_larger() {
    // A and B are ones and W is zero: the output is the sum of what was kept.
    let inputs = 64;
    let weight = Tensor::zeros((1, inputs), DType::F32, &Device::Cpu).unwrap();
    let config = DoraConfig::builder(1)
        .lora()
        .alpha(1.0)
        .dropout(0.3)
        .seed(5)
        .build()
        .unwrap();
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    let layer = adapter.linear("fc", &Linear::new(weight, None)).unwrap();
    let variables = adapter.variables();
    for var in variables.a.iter().chain(&variables.b) {
        var.set(&Tensor::ones_like(var).unwrap()).unwrap();
    }
    // Each token has one element that is not zero: its output is the mask there.
    let tokens = 20_000;
    let data = (0..tokens * inputs).map(|i| if i % inputs == 3 { 1f32 } else { 0.0 });
    let data: Vec<f32> = data.collect();
    let x = Tensor::from_vec(data, (tokens, inputs), &Device::Cpu).unwrap();
    let mask = values(&layer.forward_train(&x, 9).unwrap());
    let kept = (1.0 / 0.7) as f32;
    assert!(
        mask.iter().all(|&v| v == 0.0 || v == f64::from(kept)),
        "dropped or made larger"
    );
    let dropped = mask.iter().filter(|&&v| v == 0.0).count() as f64 / tokens as f64;
    let deviation = (0.3f64 * 0.7 / tokens as f64).sqrt();
    assert!((dropped - 0.3).abs() < 5.0 * deviation, "rate {dropped}");
}

#[test]
fn the_mean_over_steps_is_the_evaluation() {
    let x = tensor(&[3, 12], 3);
    let config = config().build().unwrap();
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    let layer = adapter.linear("a", &linear(16, 12, 1)).unwrap();
    let steps = 4000;
    let mut mean = vec![0.0; 3 * 16];
    let mut squares = vec![0.0; 3 * 16];
    for step in 0..steps {
        let y = values(&layer.forward_train(&x, step).unwrap());
        for ((mean, square), y) in mean.iter_mut().zip(&mut squares).zip(y) {
            *mean += y / steps as f64;
            *square += y * y / steps as f64;
        }
    }
    let want = values(&layer.forward(&x).unwrap());
    for ((mean, square), want) in mean.iter().zip(&squares).zip(want) {
        let deviation = ((square - mean * mean) / steps as f64).sqrt();
        assert!(deviation > 0.0, "dropout acts");
        assert!(
            (mean - want).abs() < 5.0 * deviation,
            "{mean}, not {want} within {deviation}"
        );
    }
}

#[test]
fn convolutions_drop_embeddings_and_plain_layers_do_not() {
    let mut adapter = Adapter::new(
        config().exclude(["plain"]).build().unwrap(),
        DType::F32,
        &Device::Cpu,
    )
    .unwrap();
    let differs = |layer: &dyn TrainModule, x: &Tensor| {
        let step = |step| values(&layer.forward_train(x, step).unwrap());
        let plain = values(&layer.forward(x).unwrap());
        let all = [plain, step(1), step(2)];
        all[0] != all[1] && all[1] != all[2]
    };
    let conv2d = Conv2d::new(tensor(&[8, 6, 3, 3], 1), None, Conv2dConfig::default());
    let conv2d = adapter.conv2d("conv2d", &conv2d).unwrap();
    assert!(differs(&conv2d, &tensor(&[2, 6, 5, 7], 2)));
    let conv1d = Conv1d::new(tensor(&[8, 6, 3], 1), None, Conv1dConfig::default());
    let conv1d = adapter.conv1d("conv1d", &conv1d).unwrap();
    assert!(differs(&conv1d, &tensor(&[2, 6, 9], 2)));
    let embedding = adapter
        .embedding("e", &Embedding::new(tensor(&[9, 6], 1), 6))
        .unwrap();
    let ids = Tensor::new(&[1u32, 5], &Device::Cpu).unwrap();
    assert!(!differs(&embedding, &ids), "as in PEFT");
    let plain = adapter.linear("plain", &linear(16, 12, 1)).unwrap();
    assert!(plain.adapted().is_none());
    assert!(!differs(&plain, &tensor(&[5, 12], 3)));
}

#[test]
fn gradients_flow_through_what_was_kept_only() {
    let config = config().lora().build().unwrap();
    let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu).unwrap();
    let weight = Tensor::zeros((16, 12), DType::F32, &Device::Cpu).unwrap();
    let layer = adapter.linear("a", &Linear::new(weight, None)).unwrap();
    let x = candle_core::Var::from_tensor(&tensor(&[5, 12], 3)).unwrap();
    let loss = layer.forward_train(&x, 4).unwrap().sum_all().unwrap();
    let gradients = loss.backward().unwrap();
    let gx = values(gradients.get(&x).unwrap());
    let zero = gx.iter().filter(|&&g| g == 0.0).count();
    assert!((5..40).contains(&zero), "{zero} of 60 were dropped");
    let full = layer
        .forward(&x)
        .unwrap()
        .sum_all()
        .unwrap()
        .backward()
        .unwrap();
    let full = values(full.get(&x).unwrap());
    let kept: Vec<f64> = gx
        .iter()
        .zip(&full)
        .map(|(g, f)| if *g == 0.0 { 0.0 } else { f / 0.7 })
        .collect();
    assert_close("gradient", &gx, &kept, 1e-5);
}
