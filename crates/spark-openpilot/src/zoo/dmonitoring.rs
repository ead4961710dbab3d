//! A driver-monitoring network of the shape of openpilot's `dmonitoring_model`.
//!
//! ```text
//! input_img  u8  [1, 1382400]     luma of a 1440 x 960 crop of the driver camera, row by row
//! calib      f32 [1, 3]           roll, pitch, yaw of the device, rad
//!   -> float, (x - 128) / 128, reshape                          1 x 960 x 1440
//!   stem    conv 4x4 s4, depthwise 3x3 s2, conv 1x1            24 x 120 x 180
//!   body    inverted residuals with squeeze-excite            192 x  15 x  23
//!   head    conv 1x1, mean, linear, joined with linear(calib)  512
//!   heads   two drivers' seats of 19, wheel side 1, features 512
//! outputs    f32 [1, 551]
//! ```
//!
//! Convolutions are followed by BatchNormalization nodes of their own and SiLU is
//! spelled out, as in a file exported from training. The body follows MobileNetV3
//! and EfficientNet (Howard et al. 2019, Tan and Le 2019), as openpilot's published
//! driver-monitoring networks do. The weights are random.

use super::network::{AFTER_GELU, AFTER_RELU, ConvLayer, Network};
use crate::slices;
use spark_onnx::DType;
use spark_onnx::graph::{Graph, Unary, ValueId};

const HEIGHT: usize = 960;
const WIDTH: usize = 1440;
const STEM: usize = 32;
const HEAD: usize = 640;
const FEATURES: usize = 512;

/// A run of inverted residuals; the first one has the stride and changes the channels.
struct Stage {
    channels: usize,
    blocks: usize,
    stride: usize,
    kernel: usize,
    expansion: usize,
}

const FIRST: usize = 24;
#[rustfmt::skip]
const STAGES: [Stage; 4] = [
    Stage { channels: 40,  blocks: 2, stride: 2, kernel: 5, expansion: 4 },
    Stage { channels: 80,  blocks: 3, stride: 2, kernel: 3, expansion: 6 },
    Stage { channels: 112, blocks: 2, stride: 1, kernel: 5, expansion: 4 },
    Stage { channels: 192, blocks: 4, stride: 2, kernel: 5, expansion: 6 },
];

pub(super) fn build(seed: u64) -> Graph {
    let mut net = Network::new("dmonitoring_model", seed);
    let luma = net.input("input_img", DType::U8, &[1, HEIGHT * WIDTH]);
    let calib = net.input("calib", DType::F32, &[1, 3]);
    let x = net.normalise_bytes("luma", luma);
    let x = net.reshape("image", x, &[1, 1, HEIGHT, WIDTH]);

    let patches = ConvLayer::dense(1, STEM, 4).stride(4).unpadded().gain(1.7);
    let x = conv_norm(&mut net, "stem.0", x, patches, STEM);
    let x = net.silu("stem.0.silu", x);
    let layer = ConvLayer::depthwise(STEM, STEM, 3)
        .stride(2)
        .gain(AFTER_GELU);
    let x = conv_norm(&mut net, "stem.1", x, layer, STEM);
    let x = net.silu("stem.1.silu", x);
    let layer = ConvLayer::dense(STEM, FIRST, 1).gain(AFTER_GELU);
    let mut x = conv_norm(&mut net, "stem.2", x, layer, FIRST);

    let mut channels = FIRST;
    for (stage_idx, stage) in STAGES.iter().enumerate() {
        for block in 0..stage.blocks {
            let name = format!("stages.{stage_idx}.{block}");
            let stride = if block == 0 { stage.stride } else { 1 };
            x = inverted_residual(&mut net, &name, x, channels, stage, stride);
            channels = stage.channels;
        }
    }
    let vector = summarise(&mut net, x, channels, calib);
    let parts: Vec<ValueId> = slices::DRIVER_MONITORING
        .iter()
        .map(|slice| {
            net.linear(
                &format!("heads.{}", slice.name),
                vector,
                (FEATURES, slice.len()),
                1.0,
            )
        })
        .collect();
    let outputs = net.concat("outputs", &parts, 1);
    net.finish(outputs, &[1, slices::total(slices::DRIVER_MONITORING)])
}

/// Maps and the calibration to one vector of [`FEATURES`] numbers.
fn summarise(net: &mut Network, x: ValueId, channels: usize, calib: ValueId) -> ValueId {
    let x = conv_norm(net, "head", x, ConvLayer::dense(channels, HEAD, 1), HEAD);
    let x = net.silu("head.silu", x);
    let x = net.global_average("pool", x);
    let x = net.flatten("pool.flatten", x);
    // Pooling shrinks what differs between images; angles are a few hundredths of a radian.
    let x = net.linear("fc", x, (HEAD, FEATURES), 4.0);
    let angles = net.linear("calib.fc", calib, (3, FEATURES), 8.0);
    let x = net.add("joined", x, angles);
    let x = net.unary("joined.relu", Unary::Relu, x);
    let x = net.linear("trunk", x, (FEATURES, FEATURES), AFTER_RELU);
    net.unary("trunk.relu", Unary::Relu, x)
}

fn inverted_residual(
    net: &mut Network,
    name: &str,
    x: ValueId,
    channels: usize,
    stage: &Stage,
    stride: usize,
) -> ValueId {
    let hidden = stage.expansion * channels;
    let layer = ConvLayer::dense(channels, hidden, 1);
    let y = conv_norm(net, &format!("{name}.expand"), x, layer, hidden);
    let y = net.silu(&format!("{name}.expand.silu"), y);
    let layer = ConvLayer::depthwise(hidden, hidden, stage.kernel)
        .stride(stride)
        .gain(AFTER_GELU);
    let y = conv_norm(net, &format!("{name}.depthwise"), y, layer, hidden);
    let y = net.silu(&format!("{name}.depthwise.silu"), y);
    let y = net.squeeze_excite(&format!("{name}.se"), y, hidden, (channels / 4).max(8));
    let residual = stride == 1 && channels == stage.channels;
    // The gate halves, SiLU shrinks; a branch that is added to its input stays smaller.
    let gain = if residual { 1.6 } else { 3.2 };
    let layer = ConvLayer::dense(hidden, stage.channels, 1).gain(gain);
    let y = conv_norm(net, &format!("{name}.project"), y, layer, stage.channels);
    if residual {
        net.add(&format!("{name}.add"), x, y)
    } else {
        y
    }
}

/// A convolution without bias, then normalisation by statistics that say "variance one".
fn conv_norm(
    net: &mut Network,
    name: &str,
    x: ValueId,
    layer: ConvLayer,
    channels: usize,
) -> ValueId {
    let x = net.conv(&format!("{name}.conv"), x, layer.without_bias());
    net.batch_norm(&format!("{name}.norm"), x, channels, 1.0)
}
