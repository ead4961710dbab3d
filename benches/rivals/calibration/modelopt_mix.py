"""NVIDIA ModelOpt's choice of a format per layer for driver monitoring, judged as `calibrate_model --mix` judges its own.

Run, from the root of the repository, after frames.py beside this file:

    python3 -m venv /tmp/modelopt
    /tmp/modelopt/bin/pip install -r benches/rivals/calibration/modelopt-requirements.txt
    cargo run --release --example calibrate_model -- NET.onnx --batches frames.safetensors --mix 30 --json ours.json
    /tmp/modelopt/bin/python benches/rivals/calibration/modelopt_mix.py NET.onnx frames.safetensors --ours ours.json

The network becomes a torch module, batch normalisation folded, and must agree with onnxruntime. Every second frame
calibrates, from the first; the others judge. `mtq.auto_quantize` scores the layers once and chooses for each number of
bits; `mtq.quantize` makes that network anew, as ModelOpt's documentation says. Layers that it leaves alone have fp16
weights, as it counts them.

auto_quantize's default score wants the gradient of a loss, and a loss wants labels, which a recorded drive has none of;
the distance to the network's own outputs has a gradient of zero. Here the loss is each output times a random sign over
the size of its part, so that squared gradients are, on average, those of the error that judges. `--score kl_div` takes its other score, which needs no labels.

Signal to error is that of `OutputErrors` of spark-onnx: of all values, and averaged in power over the parts of the
output. Bytes are of all weights and biases: 1 a weight in eight bits and 4 a scale, 2 a weight left alone, 4 a bias; of
--ours the same as the report has it.

NVFP4 is absent: the code of ModelOpt 0.47 asserts a CUDA device for its scales.
"""

import argparse
import copy
import json
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper
from safetensors.numpy import load_file
from torch import nn

import modelopt.torch.quantization as mtq

FORMATS = {"fp8": mtq.FP8_DEFAULT_CFG, "int8": mtq.INT8_DEFAULT_CFG}
# Values of each part of the 38 outputs, in order, as `OutputLayout` of spark-openpilot has them.
PARTS = [3, 2, 1, 3, 2, 1, 1, 8, 1, 8] + [1] * 8
# Frames at a time.
BATCH = 8
# Random signs by frame.
DRAWS = 2


class Network(nn.Module):
    """An ONNX graph of the few operators that these networks have."""

    def __init__(self, path):
        super().__init__()
        graph = onnx.load(path).graph
        constants = {c.name: torch.from_numpy(numpy_helper.to_array(c).copy()) for c in graph.initializer}
        self.layers, self.steps = nn.ModuleDict(), []
        self.input, self.output = graph.input[0].name, graph.output[0].name
        for node in graph.node:
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            inputs = [name for name in node.input if name not in constants]
            values = [constants[name] for name in node.input if name in constants]
            make = getattr(self, node.op_type.lower(), None)
            layer = make(values, attributes, inputs) if make else None
            if layer is not None:
                self.layers[node.name] = layer
            self.steps.append((node.op_type, node.name, attributes, inputs, node.output[0]))

    def conv(self, values, attributes, _):
        weight, *bias = values
        groups, pads = attributes.get("group", 1), attributes.get("pads", [0] * 4)
        assert pads[:2] == pads[2:] and set(attributes.get("dilations", [1])) == {1}
        layer = nn.Conv2d(
            weight.shape[1] * groups,
            weight.shape[0],
            tuple(weight.shape[2:]),
            stride=tuple(attributes.get("strides", [1, 1])),
            padding=tuple(pads[:2]),
            groups=groups,
        )
        layer.weight.data = weight
        layer.bias.data = bias[0] if bias else torch.zeros(len(weight))
        return layer

    def gemm(self, values, attributes, _):
        weight, bias = values
        plain = {"alpha": 1.0, "beta": 1.0, "transA": 0}
        assert attributes.get("transB") == 1
        assert all(attributes.get(name, value) == value for name, value in plain.items())
        layer = nn.Linear(weight.shape[1], weight.shape[0])
        layer.weight.data, layer.bias.data = weight, bias
        return layer

    def batchnormalization(self, values, attributes, inputs):
        """Folds it into the convolution before it."""
        name, made_by = next((n, kind) for kind, n, _, _, output in self.steps if output == inputs[0])
        assert made_by == "Conv"
        layer = self.layers[name]
        scale, shift, mean, variance = (value.double() for value in values)
        factor = scale / torch.sqrt(variance + attributes.get("epsilon", 1e-5))
        layer.weight.data = (layer.weight.double() * factor[:, None, None, None]).float().detach()
        layer.bias.data = ((layer.bias.double() - mean) * factor + shift).float().detach()

    def forward(self, x):
        values = {self.input: x}
        for kind, name, attributes, inputs, output in self.steps:
            given = [values[i] for i in inputs]
            match kind:
                case "Conv" | "Gemm":
                    made = self.layers[name](given[0])
                case "BatchNormalization":
                    made = given[0]
                case "Relu":
                    made = torch.relu(given[0])
                case "Sigmoid":
                    made = torch.sigmoid(given[0])
                case "Add":
                    made = given[0] + given[1]
                case "Flatten":
                    made = given[0].flatten(attributes.get("axis", 1))
                case "Concat":
                    made = torch.cat(given, attributes["axis"])
                case _:
                    sys.exit(f"no {kind} here")
            values[output] = made
        return values[self.output]


@torch.no_grad()
def outputs(network, frames):
    return torch.cat([network(batch) for batch in frames.split(BATCH)]).double()


def decibels(noise, signal):
    return float(-10 * torch.log10(noise / signal))


def judge(want, got):
    """Signal to error of all values, and averaged in power over the parts."""
    noise, signal = ((got - want) ** 2).sum(0), (want**2).sum(0)
    parts = [n.sum() / s.sum() for n, s in zip(noise.split(PARTS), signal.split(PARTS))]
    return decibels(noise.sum(), signal.sum()), decibels(torch.stack(parts).mean(), 1)


def with_half_weights(network):
    network = copy.deepcopy(network)
    for layer in network.layers.values():
        layer.weight.data = layer.weight.data.half().float()
    return network


def stored(network):
    """Bytes of weights and biases, and how many layers are in eight bits."""
    n_bytes, n_narrow = 0, 0
    for layer in network.layers.values():
        quantizer = getattr(layer, "weight_quantizer", None)
        n_bytes += 4 * layer.bias.numel()
        if quantizer is not None and quantizer.is_enabled:
            n_bytes += layer.weight.numel() + 4 * quantizer.amax.numel()
            n_narrow += 1
        else:
            n_bytes += 2 * layer.weight.numel()
    return n_bytes, n_narrow


def sensitivities(network, frames, format_name, score, bits):
    """What auto_quantize finds out about every layer."""
    want = outputs(network, frames)
    size = torch.cat([(part**2).sum().sqrt().expand(part.shape[1]) for part in want.split(PARTS, 1)])
    signs = torch.Generator().manual_seed(0)
    data = [
        (batch, (torch.randint(0, 2, (len(batch), 38), generator=signs) * 2 - 1) / size.float())
        for _ in range(DRAWS)
        for batch in frames.split(BATCH)
    ]
    loss = {"loss_func": lambda output, given: (output * given[1]).sum()} if score == "gradient" else {}
    n_batches = len(data) // DRAWS
    _, state = mtq.auto_quantize(
        with_half_weights(network),
        constraints={"effective_bits": bits},
        quantization_formats=[FORMATS[format_name]],
        data_loader=data,
        forward_step=lambda model, given: model(given[0]),
        num_calib_steps=n_batches,
        num_score_steps=len(data) if score == "gradient" else n_batches,
        method=score,
        **loss,
    )
    return state


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("network")
    parser.add_argument("frames")
    parser.add_argument("--format", choices=FORMATS, default="fp8", help="the one beside fp16")
    parser.add_argument("--score", choices=["gradient", "kl_div"], default="gradient")
    parser.add_argument("--bits", type=float, nargs="+", default=[14, 13, 12, 11, 10, 9, 8])
    parser.add_argument("--ours", nargs="*", default=[], help="reports of calibrate_model --mix DB --json FILE")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")

    tensors = load_file(arguments.frames)
    frames = [tensors[f"case{n}/in/input_img"].astype(np.float32) for n in range(len(tensors))]
    frames = torch.from_numpy(np.concatenate(frames))
    calibrating, held_back = frames[0::2], frames[1::2]
    network = Network(arguments.network).eval()
    want = outputs(network, held_back)
    session = onnxruntime.InferenceSession(arguments.network, providers=["CPUExecutionProvider"])
    known = [session.run(None, {network.input: frame[None].numpy()})[0] for frame in held_back]
    off = float((want - torch.from_numpy(np.concatenate(known))).abs().max())
    assert off < 1e-4, f"{off} from onnxruntime"

    def row(name, n_bytes, n_narrow, total, parts):
        print(f"{name:40}  {n_bytes / 1e6:6.3f}  {n_narrow:6}  {total:8.2f}  {parts:8.2f}", flush=True)

    print(f"{'plan':40}  {'MB':>6}  {'narrow':>6}  {'total dB':>8}  {'parts dB':>8}")
    half = with_half_weights(network)
    row("fp16 everywhere", *stored(half), *judge(want, outputs(half, held_back)))
    for path in arguments.ours:
        with open(path) as file:
            report = json.load(file)
        mix, judged = report["mix"], report["calibrated"]
        narrow = sum(n for name, n in mix["layers"].items() if name in ("fp8", "fp4"))
        row(path, mix["stored_bytes"], narrow, judged["total_sqnr_db"], judged["mean_sqnr_db"])
    state = sensitivities(network, calibrating, arguments.format, arguments.score, arguments.bits[0])
    for bits in arguments.bits:
        config = mtq.get_auto_quantize_config(state, constraints={"effective_bits": bits})
        made = mtq.quantize(with_half_weights(network), config, lambda m: outputs(m, calibrating))
        name = f"ModelOpt {arguments.format} {arguments.score} {bits:g} bits"
        row(name, *stored(made), *judge(want, outputs(made, held_back)))


if __name__ == "__main__":
    main()
