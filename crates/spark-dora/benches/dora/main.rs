//! Adapted layers: a training pass and inference, beside LoRA, the bare layer and candle's own.
//!
//! ```text
//! dora/<layer>/{dora,lora}   forward and backward for a given output gradient; A and B change every
//!                            fourth pass, as when gradients are accumulated over four micro-batches
//! dora/<layer>/base          the same for the frozen layer alone, by this workspace's kernels
//! dora/<layer>/candle        the same for candle's module
//! dora_eval/<layer>/{dora,lora}   forward only, nothing changes
//! ```
//!
//! Run: `cargo bench -p spark-dora --bench dora -- [FILTER]`; under `cargo test` each answer is checked and
//! each case runs once. Layers and ranks are those of `benches/rivals/peft`, which times PEFT. Run with
//! `RAYON_NUM_THREADS=1` to compare one thread with one thread.

use std::time::{Duration, Instant};

use candle_core::{CpuStorage, CustomOp1, DType, Device, Layout, Result, Shape, Tensor, Var};
use candle_nn::{Conv2d, Conv2dConfig, Linear, Module, VarBuilder, VarMap};
use criterion::Criterion;
use spark_dora::{DoraConv2d, DoraLinear, LayerConfig, equivalence};

criterion::criterion_group!(benches, layers);
criterion::criterion_main!(benches);

/// One layer of the list.
enum Case {
    /// Inputs, outputs, tokens, rank.
    Linear(usize, usize, usize, usize),
    Conv(Conv),
}

struct Conv {
    kernel: usize,
    stride: usize,
    inputs: usize,
    outputs: usize,
    extent: (usize, usize),
    batch: usize,
    rank: usize,
}

const CASES: [Case; 10] = [
    Case::Linear(512, 512, 800, 16),
    Case::Linear(2048, 512, 800, 16),
    Case::Linear(1024, 1024, 32, 16),
    Case::Linear(4096, 4096, 32, 16),
    Case::Linear(1536, 512, 25, 16),
    Case::Linear(1024, 2048, 8, 16),
    Case::Conv(conv(3, 1, (64, 64), (32, 64), 4, 16)),
    Case::Conv(conv(1, 1, (256, 256), (16, 32), 4, 16)),
    Case::Conv(conv(3, 2, (12, 64), (128, 256), 1, 8)),
    Case::Conv(conv(1, 1, (512, 1536), (4, 8), 8, 16)),
];

const fn conv(
    kernel: usize,
    stride: usize,
    (inputs, outputs): (usize, usize),
    extent: (usize, usize),
    batch: usize,
    rank: usize,
) -> Conv {
    Conv {
        kernel,
        stride,
        inputs,
        outputs,
        extent,
        batch,
        rank,
    }
}

/// Passes between two changes of A and B.
const ACCUMULATION: u64 = 4;

/// Every layer of the list.
fn layers(criterion: &mut Criterion) {
    let is_name = |a: &String| a.starts_with("dora");
    let filter: Vec<String> = std::env::args().skip(1).filter(is_name).collect();
    // Making and checking a large layer takes longer than timing it: those not asked for are left out.
    let meant = |name: &str| {
        let part = |f: &String| f.split('/').nth(1).is_none_or(|layer| name.contains(layer));
        filter.is_empty() || filter.iter().any(part)
    };
    for case in CASES.iter().filter(|case| meant(&case.name())) {
        let made = case.make().expect("layers of the list");
        for (kind, layer, variables) in &made.layers {
            let name = format!("dora/{}/{kind}", made.name);
            criterion.bench_function(&name, |bencher| {
                bencher.iter_custom(|passes| train(passes, layer.as_ref(), variables, &made.x));
            });
        }
        for (kind, layer, _) in made.layers.iter().take(2) {
            let x = made.x.as_detached_tensor();
            criterion.bench_function(&format!("dora_eval/{}/{kind}", made.name), |bencher| {
                bencher.iter(|| layer.forward(&x).expect("an input that fits"));
            });
        }
    }
}

/// Time of `passes` training passes.
fn train(passes: u64, layer: &dyn Module, variables: &VarMap, x: &Var) -> Duration {
    let variables = variables.all_vars();
    let shape = layer.forward(x).expect("an input that fits");
    let cotangent = Tensor::randn_like(&shape, 0.0, 1.0).expect("floats");
    let start = Instant::now();
    for pass in 0..passes {
        if pass % ACCUMULATION == 0 {
            for var in &variables {
                let stepped = (var.as_detached_tensor() * 1.000_001).expect("floats");
                var.set(&stepped).expect("one shape");
            }
        }
        let y = layer.forward(x).expect("an input that fits");
        let loss = y.apply_op1(Cotangent(cotangent.clone())).expect("a number");
        std::hint::black_box(loss.backward().expect("gradients"));
    }
    start.elapsed()
}

/// A loss whose gradient is given: what `y.backward(g)` is elsewhere.
struct Cotangent(Tensor);

impl CustomOp1 for Cotangent {
    fn name(&self) -> &'static str {
        "cotangent"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        Ok((CpuStorage::F32(vec![0.0]), Shape::from(())))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, _: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(self.0.clone()))
    }
}

/// A case ready to run.
struct Made {
    name: String,
    /// By [`KINDS`], with the variables that training changes.
    layers: Vec<(&'static str, Box<dyn Module>, VarMap)>,
    x: Var,
}

impl Made {
    /// The layers and their variables in the order of [`KINDS`].
    fn new(name: String, layers: [Box<dyn Module>; 4], variables: [VarMap; 4], x: Var) -> Self {
        let layers = KINDS.into_iter().zip(layers).zip(variables);
        let layers = layers.map(|((kind, layer), variables)| (kind, layer, variables));
        Self {
            name,
            layers: layers.collect(),
            x,
        }
    }
}

/// What is timed of each layer.
const KINDS: [&str; 4] = ["dora", "lora", "base", "candle"];

/// A layer and its variables.
fn adapted<L>(
    config: LayerConfig,
    adapt: impl Fn(LayerConfig, &VarMap) -> spark_dora::Result<L>,
) -> spark_dora::Result<(L, VarMap)> {
    let variables = VarMap::new();
    Ok((adapt(config, &variables)?, variables))
}

/// Error allowed against the merged layer, relative to the scale of the output.
const MAX_RELATIVE: f64 = 1e-5;

impl Case {
    fn name(&self) -> String {
        match self {
            Self::Linear(inputs, outputs, tokens, _) => {
                format!("linear_{inputs}x{outputs}_n{tokens}")
            }
            Self::Conv(c) => {
                let (height, width) = c.extent;
                format!(
                    "conv{0}x{0}_{1}_{2}_s{3}_{height}x{width}_b{4}",
                    c.kernel, c.inputs, c.outputs, c.stride, c.batch
                )
            }
        }
    }

    fn make(&self) -> spark_dora::Result<Made> {
        match *self {
            Self::Linear(inputs, outputs, tokens, rank) => {
                let weight = Tensor::randn(0f32, 0.02, (outputs, inputs), &Device::Cpu)?;
                let bias = Tensor::randn(0f32, 1.0, outputs, &Device::Cpu)?;
                let base = Linear::new(weight, Some(bias));
                let x = Var::randn(0f32, 1.0, (tokens, inputs), &Device::Cpu)?;
                let adapt = |config, variables: &VarMap| {
                    DoraLinear::from_linear(&base, &config, builder(variables))
                };
                let (dora, dora_variables) = adapted(LayerConfig::dora(rank), adapt)?;
                let (lora, lora_variables) = adapted(LayerConfig::lora(rank), adapt)?;
                disturb(&dora_variables)?;
                check(&dora, &dora.merge()?.layer, &x)?;
                let bare = DoraLinear::from_tensors(&base, None, None, 1.0)?;
                let layers: [Box<dyn Module>; 4] = [
                    Box::new(dora),
                    Box::new(lora),
                    Box::new(bare),
                    Box::new(base),
                ];
                let none = VarMap::new();
                let variables = [dora_variables, lora_variables, none.clone(), none];
                Ok(Made::new(self.name(), layers, variables, x))
            }
            Self::Conv(ref c) => {
                let shape = (c.outputs, c.inputs, c.kernel, c.kernel);
                let weight = Tensor::randn(0f32, 0.02, shape, &Device::Cpu)?;
                let bias = Tensor::randn(0f32, 1.0, c.outputs, &Device::Cpu)?;
                let config = Conv2dConfig {
                    padding: c.kernel / 2,
                    stride: c.stride,
                    ..Conv2dConfig::default()
                };
                let base = Conv2d::new(weight, Some(bias), config);
                let (height, width) = c.extent;
                let x = Var::randn(0f32, 1.0, (c.batch, c.inputs, height, width), &Device::Cpu)?;
                let adapt = |config, variables: &VarMap| {
                    DoraConv2d::from_conv2d(&base, &config, builder(variables))
                };
                let (dora, dora_variables) = adapted(LayerConfig::dora(c.rank), adapt)?;
                let (lora, lora_variables) = adapted(LayerConfig::lora(c.rank), adapt)?;
                disturb(&dora_variables)?;
                check(&dora, &dora.merge()?.layer, &x)?;
                let bare = DoraConv2d::from_tensors(&base, None, None, 1.0)?;
                let layers: [Box<dyn Module>; 4] = [
                    Box::new(dora),
                    Box::new(lora),
                    Box::new(bare),
                    Box::new(base),
                ];
                let none = VarMap::new();
                let variables = [dora_variables, lora_variables, none.clone(), none];
                Ok(Made::new(self.name(), layers, variables, x))
            }
        }
    }
}

fn builder(variables: &VarMap) -> VarBuilder<'static> {
    VarBuilder::from_varmap(variables, DType::F32, &Device::Cpu)
}

/// Moves every variable, so that the layer is no longer its base.
fn disturb(variables: &VarMap) -> Result<()> {
    for var in variables.all_vars() {
        let noise = var.randn_like(0.0, 0.02)?;
        var.set(&(var.as_detached_tensor() + noise)?)?;
    }
    Ok(())
}

/// Results and input gradients must be those of the merged layer, which is candle's.
fn check(layer: &impl Module, merged: &impl Module, x: &Var) -> spark_dora::Result<()> {
    let results = equivalence(layer, merged, x)?;
    assert!(results.relative < MAX_RELATIVE, "{results:?}");
    let gradient = |layer: &dyn Module| -> Result<Tensor> {
        let store = layer.forward(x)?.sqr()?.sum_all()?.backward()?;
        store
            .get(x)
            .cloned()
            .ok_or_else(|| candle_core::Error::Msg("no gradient".into()).bt())
    };
    let (got, want) = (gradient(layer)?, gradient(merged)?);
    let error = (got - &want)?.abs()?.max_all()?.to_scalar::<f32>()?;
    let scale = want.abs()?.max_all()?.to_scalar::<f32>()?;
    assert!(
        error <= 1e-5 * scale,
        "input gradient off by {error} of {scale}"
    );
    Ok(())
}
