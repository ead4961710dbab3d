//! A vision network of the shape of openpilot's `driving_vision`.
//!
//! ```text
//! img, big_img  u8 [1, 12, 128, 256]    two frames of six YUV planes, road and wide camera
//!   -> float, concat (24 channels), (x - 128) / 128
//!   stem      conv 3x3 s2, depthwise 3x3 s2, conv 1x1              64 x 32 x 64
//!   stage 1   2 x [mixer 3x3, ConvFFN]                             64 x 32 x 64
//!   stage 2   down, 2 x [mixer 3x3, ConvFFN]                      128 x 16 x 32
//!   stage 3   down, 6 x [mixer 3x3, ConvFFN]                      256 x  8 x 16
//!   stage 4   down, position, 2 x [attention, ConvFFN]            512 x  4 x  8
//!   head      depthwise 3x3, squeeze-excite, mean, linear         2048
//!   summary   residual block 2048, linear, normalised             512  = hidden_state
//!   hydra     one small network per output head                   1064
//! outputs       f32 [1, 1576]
//!
//! ConvFFN   x + gamma * fc2(gelu(fc1(depthwise 7x7 (x))))
//! down      depthwise 7x7 s2 to twice the channels, squeeze-excite, conv 1x1
//! ```
//!
//! The trunk follows FastViT (Vasu et al., ICCV 2023) after reparametrisation,
//! which turns every mixer into one depthwise convolution; the block counts
//! 2, 2, 6, 2, the 2048-wide summary and the hydra heads follow what is known of
//! openpilot's network, whose stage widths are not published. The weights are
//! random: this measures speed and number formats, and drives nothing.

use super::network::{AFTER_GELU, AFTER_RELU, ConvLayer, Network};
use crate::slices::{self, OutputSlice};
use spark_onnx::DType;
use spark_onnx::graph::{Graph, Unary, ValueId};

const WIDTHS: [usize; 4] = [64, 128, 256, 512];
const BLOCKS: [usize; 4] = [2, 2, 6, 2];
/// Height and width of each stage's maps.
const EXTENTS: [(usize, usize); 4] = [(32, 64), (16, 32), (8, 16), (4, 8)];
/// Hidden width of a ConvFFN over its outer width.
const EXPANSION: usize = 4;
const HEADS: usize = 16;
const SUMMARY: usize = 2048;
const HEAD_HIDDEN: usize = 224;

/// About the square root of how much one block grows the mean square of its stream.
const BLOCK_GROWTH: f32 = 1.08;

pub(super) fn build(seed: u64) -> Graph {
    let mut net = Network::new("driving_vision", seed);
    let planes = [1, 12, 128, 256];
    let img = net.input("img", DType::U8, &planes);
    let big_img = net.input("big_img", DType::U8, &planes);
    let img = net.normalise_bytes("img_normalised", img);
    let big_img = net.normalise_bytes("big_img_normalised", big_img);
    let both = net.concat("images", &[img, big_img], 1);

    let mut x = stem(&mut net, both);
    for stage in 0..WIDTHS.len() {
        let name = format!("stages.{stage}");
        if stage > 0 {
            x = downsample(&mut net, &format!("{name}.downsample"), x, stage);
        }
        if stage == 3 {
            let layer = ConvLayer::depthwise(WIDTHS[3], WIDTHS[3], 7)
                .identity(0.8)
                .gain(0.6);
            x = net.conv(&format!("{name}.position"), x, layer);
        }
        for block in 0..BLOCKS[stage] {
            let name = format!("{name}.blocks.{block}");
            x = if stage == 3 {
                attention_block(&mut net, &name, x)
            } else {
                mixer_block(&mut net, &name, x, WIDTHS[stage])
            };
        }
    }
    let summary = summarise(&mut net, x);
    let outputs = hydra(&mut net, summary);
    net.finish(outputs, &[1, slices::total(slices::VISION)])
}

fn stem(net: &mut Network, images: ValueId) -> ValueId {
    // Bytes spread evenly over their range have a standard deviation of 0.58 after normalisation.
    let layer = ConvLayer::dense(24, WIDTHS[0], 3).stride(2).gain(1.7);
    let x = net.conv("stem.0", images, layer);
    let x = net.gelu("stem.0.gelu", x);
    let layer = ConvLayer::depthwise(WIDTHS[0], WIDTHS[0], 3)
        .stride(2)
        .gain(AFTER_GELU);
    let x = net.conv("stem.1", x, layer);
    let x = net.gelu("stem.1.gelu", x);
    let layer = ConvLayer::dense(WIDTHS[0], WIDTHS[0], 1).gain(AFTER_GELU);
    net.conv("stem.2", x, layer)
}

/// Half the extent, twice the channels.
fn downsample(net: &mut Network, name: &str, x: ValueId, stage: usize) -> ValueId {
    let (from, to) = (WIDTHS[stage - 1], WIDTHS[stage]);
    // Divided step by step: `powi` may round differently elsewhere.
    let undo_growth = (0..BLOCKS[stage - 1]).fold(1.0, |gain, _| gain / BLOCK_GROWTH);
    let layer = ConvLayer::depthwise(from, to, 7)
        .stride(2)
        .gain(undo_growth);
    let x = net.conv(&format!("{name}.large"), x, layer);
    let x = net.squeeze_excite(&format!("{name}.se"), x, to, to / 16);
    let x = net.gelu(&format!("{name}.gelu"), x);
    // The gate of the squeeze-excite halves its input, which costs GELU more than half.
    let layer = ConvLayer::dense(to, to, 1).gain(3.6);
    net.conv(&format!("{name}.pointwise"), x, layer)
}

fn mixer_block(net: &mut Network, name: &str, x: ValueId, width: usize) -> ValueId {
    let layer = ConvLayer::depthwise(width, width, 3)
        .identity(0.8)
        .gain(0.6);
    let x = net.conv(&format!("{name}.mixer"), x, layer);
    conv_ffn(net, &format!("{name}.mlp"), x, width)
}

fn attention_block(net: &mut Network, name: &str, x: ValueId) -> ValueId {
    let width = WIDTHS[3];
    let (height, columns) = EXTENTS[3];
    let tokens = height * columns;
    let normed = net.batch_norm(&format!("{name}.norm"), x, width, 1.0);
    let flat = net.reshape(&format!("{name}.to_tokens"), normed, &[1, width, tokens]);
    let rows = net.transpose(&format!("{name}.tokens_first"), flat, &[0, 2, 1]);
    let mixed = net.attention(&format!("{name}.attn"), rows, (tokens, width, HEADS));
    let back = net.transpose(&format!("{name}.channels_first"), mixed, &[0, 2, 1]);
    let maps = net.reshape(
        &format!("{name}.to_maps"),
        back,
        &[1, width, height, columns],
    );
    let x = net.scaled_residual(&format!("{name}.layer_scale"), x, maps, &[width, 1, 1]);
    conv_ffn(net, &format!("{name}.mlp"), x, width)
}

fn conv_ffn(net: &mut Network, name: &str, x: ValueId, width: usize) -> ValueId {
    let hidden = EXPANSION * width;
    let large = net.conv(
        &format!("{name}.conv"),
        x,
        ConvLayer::depthwise(width, width, 7),
    );
    let layer = ConvLayer::dense(width, hidden, 1);
    let wide = net.conv(&format!("{name}.fc1"), large, layer);
    let active = net.gelu(&format!("{name}.gelu"), wide);
    let layer = ConvLayer::dense(hidden, width, 1).gain(AFTER_GELU);
    let narrow = net.conv(&format!("{name}.fc2"), active, layer);
    net.scaled_residual(&format!("{name}.layer_scale"), x, narrow, &[width, 1, 1])
}

/// Maps to one vector of [`SUMMARY`] numbers.
fn summarise(net: &mut Network, x: ValueId) -> ValueId {
    let expanded = 2 * WIDTHS[3];
    let x = net.conv("final", x, ConvLayer::depthwise(WIDTHS[3], expanded, 3));
    let x = net.squeeze_excite("final.se", x, expanded, expanded / 16);
    let x = net.gelu("final.gelu", x);
    let x = net.global_average("pool", x);
    let x = net.flatten("pool.flatten", x);
    let x = net.linear("fc", x, (expanded, SUMMARY), 4.0);
    let hidden = net.unary("fc.relu", Unary::Relu, x);
    let y = net.linear("summary.0", hidden, (SUMMARY, SUMMARY / 2), AFTER_RELU);
    let y = net.unary("summary.0.relu", Unary::Relu, y);
    let y = net.linear("summary.1", y, (SUMMARY / 2, SUMMARY), 0.7);
    net.add("summary.add", hidden, y)
}

/// The output heads, in the order of [`slices::VISION`].
fn hydra(net: &mut Network, summary: ValueId) -> ValueId {
    let parts: Vec<ValueId> = slices::VISION
        .iter()
        .map(|slice| match slice.name {
            "hidden_state" => {
                let state = net.linear("hidden", summary, (SUMMARY, slice.len()), 1.0);
                net.layer_norm("hidden_state", state, slice.len())
            }
            _ => head(net, summary, slice),
        })
        .collect();
    net.concat("outputs", &parts, 1)
}

fn head(net: &mut Network, summary: ValueId, slice: &OutputSlice) -> ValueId {
    let name = format!("hydra.{}", slice.name);
    let x = net.linear(&format!("{name}.0"), summary, (SUMMARY, HEAD_HIDDEN), 0.8);
    let x = net.unary(&format!("{name}.0.relu"), Unary::Relu, x);
    let y = net.linear(&format!("{name}.1"), x, (HEAD_HIDDEN, HEAD_HIDDEN), 1.0);
    let y = net.unary(&format!("{name}.1.relu"), Unary::Relu, y);
    let x = net.add(&format!("{name}.add"), x, y);
    net.linear(&format!("{name}.out"), x, (HEAD_HIDDEN, slice.len()), 0.7)
}
