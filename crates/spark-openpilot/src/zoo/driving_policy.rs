//! A policy network of the shape of openpilot's `driving_policy`.
//!
//! ```text
//! features_buffer     f32 [1, 25, 512]   hidden states of the last 5 s, every 0.2 s, newest last
//! desire_pulse        f32 [1, 25, 8]
//! traffic_convention  f32 [1, 2]
//!   tokens  = linear(features) + linear(desire) + linear(traffic) + position      25 x 512
//!   2 x [ x + attention(norm x); x + fc2(gelu(fc1(norm x))) ]                      25 x 512
//!   mean over tokens of norm x -> linear, relu                                     512
//!   plan 990, desire_state 8 through small networks of their own, pad 2
//! outputs             f32 [1, 1000]
//! ```
//!
//! openpilot's own file declares its inputs f16; these are f32, for random weights
//! gain nothing from the conversion. GELU is spelled out with `Erf`, as files made
//! by PyTorch's older exporter have it. The temporal network follows what is known
//! of openpilot's: 8 heads, 512 wide, an MLP of 2048. The weights are random.

use super::network::{AFTER_GELU, AFTER_RELU, Network};
use crate::slices;
use spark_onnx::DType;
use spark_onnx::graph::{Graph, Unary, ValueId};

const STEPS: usize = 25;
const WIDTH: usize = 512;
const HEADS: usize = 8;
const MLP: usize = 2048;
const BLOCKS: usize = 2;
const PLAN_HIDDEN: usize = 192;
const DESIRE_HIDDEN: usize = 32;

pub(super) fn build(seed: u64) -> Graph {
    let mut net = Network::new("driving_policy", seed);
    let desire = net.input("desire_pulse", DType::F32, &[1, STEPS, 8]);
    let traffic = net.input("traffic_convention", DType::F32, &[1, 2]);
    let features = net.input("features_buffer", DType::F32, &[1, STEPS, WIDTH]);

    let mut x = tokens(&mut net, features, desire, traffic);
    for block in 0..BLOCKS {
        x = transformer_block(&mut net, &format!("blocks.{block}"), x);
    }
    let x = net.layer_norm("norm", x, WIDTH);
    let x = net.mean("mean", x, 1);
    // A mean over 25 tokens is small; this gain brings it back to order one.
    let x = net.linear("trunk", x, (WIDTH, WIDTH), 2.0);
    let x = net.unary("trunk.relu", Unary::Relu, x);
    let parts: Vec<ValueId> = slices::POLICY
        .iter()
        .map(|slice| {
            let name = format!("hydra.{}", slice.name);
            match slice.name {
                "plan" => head(&mut net, &name, x, PLAN_HIDDEN, slice.len()),
                "desire_state" => head(&mut net, &name, x, DESIRE_HIDDEN, slice.len()),
                _ => net.constant_f32(slice.name, &[1, slice.len()], vec![0.0; slice.len()]),
            }
        })
        .collect();
    let outputs = net.concat("outputs", &parts, 1);
    net.finish(outputs, &[1, slices::total(slices::POLICY)])
}

fn tokens(net: &mut Network, features: ValueId, desire: ValueId, traffic: ValueId) -> ValueId {
    let x = net.linear_3d("features", features, (WIDTH, WIDTH), 1.0);
    // A pulse is one in eight of one step, so its gain is larger.
    let desire = net.linear_3d("desire", desire, (8, WIDTH), 4.0);
    let traffic = net.linear("traffic", traffic, (2, WIDTH), 0.7);
    let position = net.weights("position", &[1, STEPS, WIDTH], -0.5, 0.5);
    let x = net.add("tokens.desire", x, desire);
    let x = net.add("tokens.traffic", x, traffic);
    net.add("tokens", x, position)
}

fn transformer_block(net: &mut Network, name: &str, x: ValueId) -> ValueId {
    let normed = net.layer_norm(&format!("{name}.norm1"), x, WIDTH);
    let mixed = net.attention(&format!("{name}.attn"), normed, (STEPS, WIDTH, HEADS));
    let x = net.add(&format!("{name}.add1"), x, mixed);
    let normed = net.layer_norm(&format!("{name}.norm2"), x, WIDTH);
    let wide = net.linear_3d(&format!("{name}.fc1"), normed, (WIDTH, MLP), 1.0);
    let active = net.gelu_spelled_out(&format!("{name}.gelu"), wide);
    let narrow = net.linear_3d(&format!("{name}.fc2"), active, (MLP, WIDTH), AFTER_GELU);
    net.add(&format!("{name}.add2"), x, narrow)
}

fn head(net: &mut Network, name: &str, x: ValueId, hidden: usize, n_out: usize) -> ValueId {
    let x = net.linear(&format!("{name}.0"), x, (WIDTH, hidden), AFTER_RELU);
    let x = net.unary(&format!("{name}.0.relu"), Unary::Relu, x);
    let y = net.linear(&format!("{name}.1"), x, (hidden, hidden), 1.0);
    let y = net.unary(&format!("{name}.1.relu"), Unary::Relu, y);
    let x = net.add(&format!("{name}.add"), x, y);
    net.linear(&format!("{name}.out"), x, (hidden, n_out), 1.0)
}
