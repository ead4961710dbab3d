//! The layers that are timed, checked as they are made.

use std::time::{Duration, Instant};

use candle_core::{CpuStorage, CustomOp1, DType, Device, Layout, Result, Shape, Tensor, Var};
use candle_nn::{Conv2d, Conv2dConfig, Linear, Module, VarBuilder, VarMap};
use spark_dora::{DoraConv2d, DoraLinear, LayerConfig, equivalence};

use spark_testing::Watch;

/// One layer of the list.
pub(crate) enum Case {
    /// Inputs, outputs, tokens, rank.
    Linear(usize, usize, usize, usize),
    Conv(Conv),
}

pub(crate) struct Conv {
    kernel: usize,
    stride: usize,
    inputs: usize,
    outputs: usize,
    extent: (usize, usize),
    batch: usize,
    rank: usize,
}

pub(crate) const CASES: [Case; 10] = [
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
pub(crate) const ACCUMULATION: u32 = 4;

/// What is timed of a case.
pub(crate) const KINDS: [&str; 8] = [
    "dora",
    "lora",
    "base",
    "candle",
    "dora_eval",
    "lora_eval",
    "dora_threads",
    "dora_eval_threads",
];

/// A case ready to run.
pub(crate) struct Made {
    pub(crate) name: String,
    /// DoRA, LoRA, base, candle: with the variables that training changes.
    layers: Vec<(Box<dyn Module>, Vec<Var>)>,
    x: Var,
    /// The same numbers, without gradients.
    input: Tensor,
    /// The gradient of the results.
    cotangent: Tensor,
}

impl Made {
    fn new(
        name: String,
        layers: [Box<dyn Module>; 4],
        [dora, lora]: [VarMap; 2],
        x: Var,
    ) -> spark_dora::Result<Self> {
        let shape = layers[0].forward(&x)?;
        let variables = [dora.all_vars(), lora.all_vars(), Vec::new(), Vec::new()];
        Ok(Self {
            name,
            cotangent: Tensor::randn_like(&shape, 0.0, 1.0)?,
            layers: layers.into_iter().zip(variables).collect(),
            input: x.as_detached_tensor(),
            x,
        })
    }

    /// Time per pass of a round: one change of A and B with the training passes that follow it, or as
    /// many evaluations. One more goes before, so that caches hold what this kind needs.
    pub(crate) fn round(&self, kind: &str) -> Duration {
        let (kind, threads) = match kind.strip_suffix("_threads") {
            Some(kind) => (kind, 0),
            None => (kind, 1),
        };
        spark_dora::set_threads(threads);
        let index = KINDS.iter().position(|k| *k == kind).expect("a kind");
        let pass = |_| match kind {
            "dora_eval" => self.evaluate(0),
            "lora_eval" => self.evaluate(1),
            _ => self.train(index),
        };
        let passes = |count: u32| (0..count).try_for_each(pass).expect("an input that fits");
        passes(1);
        let start = Instant::now();
        self.step(index).expect("numbers");
        passes(ACCUMULATION);
        start.elapsed() / ACCUMULATION
    }

    fn evaluate(&self, index: usize) -> Result<()> {
        std::hint::black_box(self.layers[index].0.forward(&self.input)?);
        Ok(())
    }

    fn train(&self, index: usize) -> Result<()> {
        let y = self.layers[index].0.forward(&self.x)?;
        let loss = y.apply_op1(Cotangent(self.cotangent.clone()))?;
        std::hint::black_box(loss.backward()?);
        Ok(())
    }

    /// Changes A, B and the magnitude, as an optimiser does; evaluated kinds have none.
    fn step(&self, index: usize) -> Result<()> {
        for var in self.layers.get(index).map_or(&[][..], |(_, vars)| vars) {
            var.set(&(var.as_detached_tensor() * 1.000_001)?)?;
        }
        Ok(())
    }

    /// Most bytes that a training pass after a step of DoRA and of LoRA holds beyond the layer itself.
    pub(crate) fn peaks(&self) -> [usize; 2] {
        spark_dora::set_threads(1);
        [0, 1].map(|index| {
            self.train(index).expect("an input that fits");
            self.step(index).expect("numbers");
            let watch = Watch::start();
            self.train(index).expect("an input that fits");
            watch.peak()
        })
    }
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

/// Error allowed against the merged layer, relative to the scale of the output.
const MAX_RELATIVE: f64 = 1e-5;

impl Case {
    /// Its name in the bench and in `benches/rivals/peft`.
    pub(crate) fn name(&self) -> String {
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

    /// Makes and checks it.
    pub(crate) fn make(&self) -> spark_dora::Result<Made> {
        match *self {
            Self::Linear(inputs, outputs, tokens, rank) => {
                let weight = Tensor::randn(0f32, 0.02, (outputs, inputs), &Device::Cpu)?;
                let bias = Tensor::randn(0f32, 1.0, outputs, &Device::Cpu)?;
                let base = Linear::new(weight, Some(bias));
                let x = Var::randn(0f32, 1.0, (tokens, inputs), &Device::Cpu)?;
                let (dora, lora) = (VarMap::new(), VarMap::new());
                let adapt = |config, variables: &VarMap| {
                    DoraLinear::from_linear(&base, &config, builder(variables))
                };
                let layers = (
                    adapt(LayerConfig::dora(rank), &dora)?,
                    adapt(LayerConfig::lora(rank), &lora)?,
                );
                disturb(&dora)?;
                check(&layers.0, &layers.0.merge()?.layer, &x)?;
                let bare = DoraLinear::from_tensors(&base, None, None, 1.0)?;
                let layers: [Box<dyn Module>; 4] = [
                    Box::new(layers.0),
                    Box::new(layers.1),
                    Box::new(bare),
                    Box::new(base),
                ];
                Made::new(self.name(), layers, [dora, lora], x)
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
                let (dora, lora) = (VarMap::new(), VarMap::new());
                let adapt = |config, variables: &VarMap| {
                    DoraConv2d::from_conv2d(&base, &config, builder(variables))
                };
                let layers = (
                    adapt(LayerConfig::dora(c.rank), &dora)?,
                    adapt(LayerConfig::lora(c.rank), &lora)?,
                );
                disturb(&dora)?;
                check(&layers.0, &layers.0.merge()?.layer, &x)?;
                let bare = DoraConv2d::from_tensors(&base, None, None, 1.0)?;
                let layers: [Box<dyn Module>; 4] = [
                    Box::new(layers.0),
                    Box::new(layers.1),
                    Box::new(bare),
                    Box::new(base),
                ];
                Made::new(self.name(), layers, [dora, lora], x)
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
