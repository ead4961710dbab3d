//! Convolutions under DoRA: `W' = g (W + s B A)`, rows being output channels.
//!
//! ```text
//! Conv2d   W [out, in/groups, k, k]   A [r, in/groups, k, k]   B [out, r, 1, 1]   m [1, out, 1, 1]
//! Conv1d   W [out, in/groups, k]      A [r, in/groups, k]      B [out, r, 1]      m [1, out, 1]
//! ```
//!
//! With one group these are PEFT's shapes and values. With more, A is shared by all groups, which
//! makes `B A` a weight of the base's shape; PEFT's A reads all inputs and cannot be merged.

use candle_core::{Result as CandleResult, Shape, Tensor};
use candle_nn::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Module, VarBuilder};

use super::composed;
use super::factors::{FactorShapes, Factors};
use super::operation::Form;
use super::train::TrainModule;
use super::with_base::{Core, checked_base};
use crate::base::{Base, check_shape};
use crate::config::LayerConfig;
use crate::dropout::Dropout;
use crate::error::{DoraError, Result};
use crate::kernel::conv::Window;
use crate::merge::{self, Merged};

/// Sizes along both axes; those of one axis for one-dimensional layers.
#[derive(Debug, Clone, Copy)]
struct Settings {
    padding: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    groups: usize,
}

impl Settings {
    fn check(&self, rows: usize) -> Result<()> {
        let positive = [
            ("stride", self.stride[1]),
            ("dilation", self.dilation[1]),
            ("groups", self.groups),
        ];
        for (name, value) in positive {
            if value == 0 {
                let want = "1 or more";
                return Err(DoraError::Setting {
                    name: name.to_owned(),
                    value: 0.0,
                    want,
                });
            }
        }
        if !rows.is_multiple_of(self.groups) {
            return Err(DoraError::Setting {
                name: "groups".to_owned(),
                value: self.groups as f64,
                want: "a divisor of the output channels",
            });
        }
        Ok(())
    }

    /// For input `[batch, channels, height, width]` and weight `[_, channels, kernel..]`.
    fn window(&self, x: [usize; 4], channels: usize, kernel: [usize; 2]) -> CandleResult<Window> {
        let [batch, given, height, width] = x;
        if given != channels * self.groups {
            candle_core::bail!(
                "{given} input channels, expected {}",
                channels * self.groups
            )
        }
        let extent = [height, width];
        let mut out = [0; 2];
        for axis in 0..2 {
            let padded = extent[axis] + 2 * self.padding[axis];
            let reach = self.dilation[axis] * (kernel[axis].max(1) - 1) + 1;
            if padded < reach {
                candle_core::bail!("input of {padded} with padding under a kernel of {reach}")
            }
            out[axis] = (padded - reach) / self.stride[axis] + 1;
        }
        Ok(Window {
            batch,
            channels,
            extent,
            out,
            kernel,
            stride: self.stride,
            padding: self.padding,
            dilation: self.dilation,
        })
    }
}

fn shapes(base: &Base, axes: usize) -> Result<FactorShapes> {
    let dims = base.dims();
    if dims.len() != axes + 2 {
        check_shape("weight", dims, &vec![0; axes + 2])?;
    }
    Ok(FactorShapes::of_weight(dims))
}

macro_rules! conv_layer {
    ($(#[$doc:meta])* $name:ident, $base:ident, $from:ident, $axes:literal, $config:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            core: Core,
            config: $config,
        }

        impl $name {
            /// Adapts `conv`, with variables taken from `vb` or made in it.
            ///
            /// # Errors
            ///
            /// [`DoraError::RankZero`], [`DoraError::RankTooLarge`] and [`DoraError::Setting`] for a
            /// configuration that fits no weight of this shape; [`DoraError::NotFinite`] for a weight, a
            /// bias or stored variables that hold NaN or infinities; [`DoraError::Unsupported`] if `vb` has
            /// another type than f32 and f64, or for initial values from the weight; [`DoraError::Candle`] if it holds other shapes.
            pub fn $from(conv: &$base, config: &LayerConfig, vb: VarBuilder<'_>) -> Result<Self> {
                let layer = vb.prefix();
                let base = checked_base(&layer, conv.weight(), conv.bias())?;
                let shapes = shapes(&base, $axes)?;
                settings(conv.config()).check(shapes.rows)?;
                let factors = Factors::new(|| Ok(base.clone()), &shapes, config, &vb, None)?;
                let dropout = Dropout::new(config.dropout, config.seed, &layer);
                Ok(Self::assemble(conv, base, factors, dropout))
            }

            /// A layer of given tensors: `(A, B)` and the magnitude, with `scaling` as the factor of
            /// `B A`.
            ///
            /// # Errors
            ///
            /// [`DoraError::Shape`] for tensors that do not fit the weight, [`DoraError::NotFinite`] for a
            /// weight or a bias that holds NaN or infinities, [`DoraError::Setting`] for a scaling that f32
            /// does not hold.
            pub fn from_tensors(
                conv: &$base,
                low_rank: Option<(Tensor, Tensor)>,
                magnitude: Option<Tensor>,
                scaling: f64,
            ) -> Result<Self> {
                let base = checked_base("", conv.weight(), conv.bias())?;
                let shapes = shapes(&base, $axes)?;
                settings(conv.config()).check(shapes.rows)?;
                let factors = Factors::from_parts(&shapes, low_rank, magnitude, scaling)?;
                Ok(Self::assemble(conv, base, factors, Dropout::NONE))
            }

            fn assemble(conv: &$base, base: Base, factors: Factors, dropout: Dropout) -> Self {
                Self {
                    core: Core {
                        base,
                        bias: conv.bias().cloned(),
                        factors,
                        dropout,
                    },
                    config: *conv.config(),
                }
            }

            /// The trained variables: A, B and the magnitude, as far as the layer has them.
            pub fn factors(&self) -> &Factors {
                &self.core.factors
            }

            /// Norms of the rows of `W + s B A`; see [`crate::DoraLinear::row_norms`].
            ///
            /// # Errors
            ///
            /// As candle's.
            pub fn row_norms(&self) -> Result<Vec<f64>> {
                self.core.row_norms()
            }

            /// What [`TrainModule::forward_train`] drops of its inputs.
            pub fn dropout(&self) -> Dropout {
                self.core.dropout
            }

            pub(crate) fn core(&self) -> &Core {
                &self.core
            }

            /// A plain layer that computes the same; see [`crate::DoraLinear::merge`].
            ///
            /// # Errors
            ///
            /// [`DoraError::NotFinite`] if a merged weight is not a finite number.
            pub fn merge(&self) -> Result<Merged<$base>> {
                let (weight, report) = merge::weight(&self.core)?;
                let layer = $base::new(weight, self.core.bias.clone(), self.config);
                Ok(Merged { layer, report })
            }

            /// The layer as it was before adaptation; a bias that is trained has its present values.
            ///
            /// # Errors
            ///
            /// As candle's.
            pub fn base(&self) -> Result<$base> {
                let weight = self.core.base.to_tensor()?;
                Ok($base::new(weight, self.core.bias.clone(), self.config))
            }
        }

        impl TrainModule for $name {
            fn forward_train(&self, x: &Tensor, step: u64) -> CandleResult<Tensor> {
                composed::with_dropout(&self.core, x, step, |core, x| self.compute(core, x))
            }
        }

        impl Module for $name {
            /// Evaluates the layer, without dropout; [`TrainModule::forward_train`] has it.
            fn forward(&self, x: &Tensor) -> CandleResult<Tensor> {
                self.compute(&self.core, x)
            }
        }
    };
}

conv_layer!(
    /// A two-dimensional convolution under DoRA, LoRA, or a trained magnitude.
    ///
    /// # Shapes
    ///
    /// Input `[batch, in, height, width]`; see the module for the variables. Any stride, padding, dilation
    /// and number of groups, depthwise included.
    ///
    /// # Examples
    ///
    /// ```
    /// use candle_core::{DType, Device, Tensor};
    /// use candle_nn::{Conv2d, Conv2dConfig, Module, VarBuilder, VarMap};
    /// use spark_dora::{DoraConv2d, LayerConfig};
    ///
    /// let weight = Tensor::randn(0f32, 1.0, (6, 4, 3, 3), &Device::Cpu)?;
    /// let base = Conv2d::new(weight, None, Conv2dConfig { padding: 1, ..Default::default() });
    /// let variables = VarMap::new();
    /// let vb = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
    /// let layer = DoraConv2d::from_conv2d(&base, &LayerConfig::dora(2), vb.pp("stem"))?;
    /// let x = Tensor::randn(0f32, 1.0, (1, 4, 5, 7), &Device::Cpu)?;
    /// assert_eq!(layer.forward(&x)?.dims(), [1, 6, 5, 7]);
    /// assert_eq!(layer.factors().a().unwrap().dims(), [2, 4, 3, 3]);
    /// # Ok::<(), spark_dora::DoraError>(())
    /// ```
    DoraConv2d,
    Conv2d,
    from_conv2d,
    2,
    Conv2dConfig
);

conv_layer!(
    /// A one-dimensional convolution under DoRA, LoRA, or a trained magnitude.
    ///
    /// # Shapes
    ///
    /// Input `[batch, in, length]`; see the module for the variables.
    DoraConv1d,
    Conv1d,
    from_conv1d,
    1,
    Conv1dConfig
);

/// What both kinds of configuration hold.
trait Config {
    fn settings(&self) -> Settings;
}

impl Config for Conv2dConfig {
    fn settings(&self) -> Settings {
        Settings {
            padding: [self.padding; 2],
            stride: [self.stride; 2],
            dilation: [self.dilation; 2],
            groups: self.groups,
        }
    }
}

impl Config for Conv1dConfig {
    fn settings(&self) -> Settings {
        Settings {
            padding: [0, self.padding],
            stride: [1, self.stride],
            dilation: [1, self.dilation],
            groups: self.groups,
        }
    }
}

fn settings(config: &impl Config) -> Settings {
    config.settings()
}

impl DoraConv2d {
    fn compute(&self, core: &Core, x: &Tensor) -> CandleResult<Tensor> {
        let config = &self.config;
        if !core.has_kernels(x) {
            return composed::conv(core, x, |x, w| {
                x.conv2d(
                    w,
                    config.padding,
                    config.stride,
                    config.dilation,
                    config.groups,
                )
            });
        }
        let (batch, channels, height, width) = x.dims4()?;
        let dims = core.base.dims();
        let settings = settings(config);
        let window = settings.window(
            [batch, channels, height, width],
            dims[1],
            [dims[2], dims[3]],
        )?;
        let result = Shape::from((batch, dims[0], window.out[0], window.out[1]));
        let groups = settings.groups;
        core.run(x, Form::Conv { window, groups }, result)
    }
}

impl DoraConv1d {
    fn compute(&self, core: &Core, x: &Tensor) -> CandleResult<Tensor> {
        let config = &self.config;
        if !core.has_kernels(x) {
            return composed::conv(core, x, |x, w| {
                x.conv1d(
                    w,
                    config.padding,
                    config.stride,
                    config.dilation,
                    config.groups,
                )
            });
        }
        let (batch, channels, length) = x.dims3()?;
        let dims = core.base.dims();
        let settings = settings(config);
        let window = settings.window([batch, channels, 1, length], dims[1], [1, dims[2]])?;
        let result = Shape::from((batch, dims[0], window.out[1]));
        let groups = settings.groups;
        core.run(x, Form::Conv { window, groups }, result)
    }
}
