"""Holds training against PEFT's DoRA over onnx2torch in f64: first gradients, losses of AdamW, trained factors.

    pip install -r requirements.txt onnx2torch
    cargo run --release -p spark-train --example exchange -- MODEL.onnx FOLDER
    python networks_exact.py MODEL.onnx FOLDER

Layers are matched by their weights. Differences are relative to the largest number of their tensor. Weights of f16 are read as f32 on
both sides: what casts them is taken out of the file first; a network that casts between its layers is not for this program. What PEFT
itself gives in f32 is told beside, for what f32 can be held to; ours is refused if most of it is ten times as far and beyond 1e-5.
"""

import argparse
import copy
import json
import math
import sys
from pathlib import Path

import numpy
import onnx
import torch
from onnx import numpy_helper
from onnx2torch import convert
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file

from convertible import widened, with_linear

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("folder", type=Path)
arguments = parser.parse_args()
model = widened(onnx.load(arguments.model))
for value in list(model.graph.input) + list(model.graph.output):
    if value.type.tensor_type.shape.dim:
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
weights = {c.name: numpy_helper.to_array(c) for c in model.graph.initializer}
network = with_linear(convert(model)).double().eval()
ours = load_file(arguments.folder / "adapter" / "adapter_model.safetensors")
given = {name: tensor.double() for name, tensor in load_file(arguments.folder / "given.safetensors").items()}
first = load_file(arguments.folder / "gradients.safetensors")
names = sorted({name.split(".lora_")[0] for name in first})


def of_ours(end, layer):
    return next(t for name, t in ours.items() if name.startswith(f"base_model.model.{layer}.{end}")).double()


# By their values: modules of torch are called after nodes, ours after weights.
by_bytes = {}
for node in model.graph.node:
    for name in node.input:
        weight = weights.get(name)
        if weight is None or weight.ndim < 2:
            continue
        layer = name.removesuffix(".weight") if name.endswith(".weight") else node.name or node.output[0]
        for turned in (weight, weight.T) if weight.ndim == 2 else (weight,):
            by_bytes.setdefault((turned.shape, numpy.ascontiguousarray(turned).astype(numpy.float64).tobytes()), []).append(layer)
layer_of = {}
for name, module in network.named_modules():
    if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
        weight = module.weight.detach().numpy()
        found = [layer for layer in by_bytes.get((weight.shape, weight.tobytes()), []) if layer in names]
        if found:
            layer_of[name] = found[0]
assert sorted(layer_of.values()) == names, f"not matched: {sorted(set(names) ^ set(layer_of.values()))}"
rank = of_ours("lora_A", names[0]).shape[0]
settings = json.loads((arguments.folder / "adapter" / "adapter_config.json").read_text())
n_steps = len(json.loads((arguments.folder / "losses.json").read_text()))
KINDS = ("lora_A", "lora_B", "lora_magnitude_vector")


def trained_by_peft(kind):
    """First gradients, losses and trained factors of PEFT in this type."""
    targets = list(layer_of)
    config = LoraConfig(r=rank, lora_alpha=settings["lora_alpha"], use_dora=True, target_modules=targets)
    tuned = get_peft_model(copy.deepcopy(network), config).to(kind)
    variables = {}
    for name, parameter in tuned.named_parameters():
        if not parameter.requires_grad:
            continue
        layer = layer_of[name.removeprefix("base_model.model.").split(".lora_")[0]]
        end = next(end for end in KINDS if end in name)
        variables[layer, end] = parameter
        with torch.no_grad():
            parameter.copy_(of_ours(end, layer).reshape(parameter.shape))
    inputs = [given[f"in/{v.name}"].to(kind) for v in model.graph.input if f"in/{v.name}" in given]
    wanted = [given[f"target/{v.name}"].to(kind) for v in model.graph.output]
    optimiser = torch.optim.AdamW(list(variables.values()), lr=1e-3, weight_decay=0.0)
    losses, first = [], {}
    for step in range(n_steps):
        optimiser.zero_grad()
        result = tuned(*inputs)
        result = list(result) if isinstance(result, (list, tuple)) else [result]
        loss = sum(torch.nn.functional.mse_loss(y, t) for y, t in zip(result, wanted))
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            first = {key: parameter.grad.clone().double() for key, parameter in variables.items()}
        optimiser.step()
    return first, losses, {key: parameter.detach().double() for key, parameter in variables.items()}


def trained_by_us():
    trained = load_file(arguments.folder / "trained" / "adapter_model.safetensors")
    losses = json.loads((arguments.folder / "losses.json").read_text())
    named = lambda tensors, prefix, key: next(t for n, t in tensors.items() if n.startswith(f"{prefix}{key[0]}.{key[1]}")).double()
    gradients = {key: named(first, "", key) for key in want[0]}
    factors = {key: named(trained, "base_model.model.", key) for key in want[0]}
    return gradients, losses, factors


def compare(name, got):
    off = sorted(((got[0][k].reshape(w.shape) - w).abs().max() / w.abs().max(), k) for k, w in want[0].items())
    losses = [abs(a - b) / abs(b) for a, b in zip(got[1], want[1])]
    moved = [
        ((got[2][k].reshape(w.shape) - w).abs().max() / (w - of_ours(k[1], k[0]).reshape(w.shape)).abs().max()).item()
        for k, w in want[2].items()
    ]
    if not all(math.isfinite(number) for number in [*losses, *moved, *(float(value) for value, _ in off)]):
        sys.exit(f"{name}: not all numbers are finite")
    print(
        f"{name}: gradients off by {off[len(off) // 2][0]:.1e}, worst {off[-1][0]:.1e} ({'.'.join(off[-1][1])}); "
        f"losses by {losses[0]:.1e} at first, {losses[-1]:.1e} at last; "
        f"factors by {sorted(moved)[len(moved) // 2]:.1e} of how far they moved, worst {max(moved):.1e}"
    )
    return float(off[len(off) // 2][0])


want = trained_by_peft(torch.float64)
print(f"{len(names)} layers, {len(want[0])} variables, {n_steps} steps: loss {want[1][0]:.6e} to {want[1][-1]:.6e}")
our_middle = compare("spark-train", trained_by_us())
theirs = compare("PEFT in f32", trained_by_peft(torch.float32))
if our_middle > max(10 * theirs, 1e-5):
    sys.exit("the gradients of spark-train are others")
