//! The training pass of a module, beside candle's [`Module`], whose `forward` is evaluation.
//!
//! candle's `ModuleT::forward_t` is the same as `forward` for every `Module`, and has no step.

use candle_core::{Result, Tensor};
use candle_nn::{Conv1d, Conv2d, Embedding, Linear, Module};

/// A module that may do something else while it is trained.
///
/// candle's plain layers are such modules too, so a network can be written for any kind of layers.
///
/// # Examples
///
/// ```
/// use candle_core::{DType, Device, Result, Tensor};
/// use candle_nn::{Linear, Module};
/// use spark_dora::{Adapter, DoraConfig, Init, TrainModule};
///
/// struct Net<L>(L, L);
///
/// impl<L: TrainModule> Net<L> {
///     fn forward_train(&self, x: &Tensor, step: u64) -> Result<Tensor> {
///         self.1.forward_train(&self.0.forward_train(x, step)?.relu()?, step)
///     }
/// }
///
/// let linear = || Tensor::eye(8, DType::F32, &Device::Cpu).map(|w| Linear::new(w, None));
/// // Not the usual initial values, under which an adapter adds nothing that could be dropped.
/// let config = DoraConfig::builder(2).dropout(0.5).init(Init::Random).build()?;
/// let mut adapter = Adapter::new(config, DType::F32, &Device::Cpu)?;
/// let net = Net(adapter.linear("a", &linear()?)?, adapter.linear("b", &linear()?)?);
/// # let bytes = |t: &Tensor| t.flatten_all().and_then(|t| t.to_vec1::<f32>());
/// let x = Tensor::ones((1, 8), DType::F32, &Device::Cpu)?;
/// let (one, two) = (net.forward_train(&x, 1)?, net.forward_train(&x, 2)?);
/// assert_ne!(bytes(&one)?, bytes(&two)?);
/// assert_eq!(bytes(&one)?, bytes(&net.forward_train(&x, 1)?)?);
/// # Ok::<(), spark_dora::DoraError>(())
/// ```
pub trait TrainModule: Module {
    /// As [`Module::forward`], with the configured dropout.
    ///
    /// What is dropped follows from the configuration's seed, the layer's name, `step` and an element's place
    /// in `x`: a resumed training has the masks of the one that was stopped. Count a step up for every pass
    /// that is to have masks of its own, micro-batches included; a layer used twice in one step drops the
    /// same places twice.
    ///
    /// # Errors
    ///
    /// As [`Module::forward`].
    fn forward_train(&self, x: &Tensor, step: u64) -> Result<Tensor> {
        let _ = step;
        self.forward(x)
    }
}

impl TrainModule for Linear {}
impl TrainModule for Conv1d {}
impl TrainModule for Conv2d {}
impl TrainModule for Embedding {}
