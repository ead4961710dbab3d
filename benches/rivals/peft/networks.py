"""Times a step of training whole networks: PEFT's DoRA over onnx2torch, in turns with spark-train.

    pip install -r requirements.txt onnx2torch
    cargo build --release -p spark-train --example step_speed
    python networks.py MODEL.onnx --ours target/release/examples/step_speed [--batch 8] [--rank 4] [--threads 2] [--rounds 5]

The same on both sides: every Conv in one group and every Gemm that holds the rank is adapted, the base is frozen, the loss is the
mean squared error of all outputs to those of the untouched network, moved by 0.1; a step is forward, backward and, for PEFT, nothing
more (AdamW is left out on both sides). A round is a process of ours (eleven steps) and eleven steps here; medians of rounds are
printed with the least and the most. Memory is by how much the process has grown at most since before its first step: of ours from before the
plan was made, of PEFT's from after the adapters were added. `--recompute` is ours alone.
"""

import argparse
import os
import re
import statistics
import subprocess
import time

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--ours", required=True)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--rank", type=int, default=4)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--recompute", action="store_true")
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(arguments.threads)

import onnx  # noqa: E402
import torch  # noqa: E402
from onnx2torch import convert  # noqa: E402
from peft import LoraConfig, get_peft_model  # noqa: E402

from convertible import widened, with_linear  # noqa: E402

torch.set_num_threads(arguments.threads)
torch.manual_seed(0)
STEPS = 11


def adapted(module, rank):
    """Whether a layer is adapted: in one group, and of at least the rank."""
    if isinstance(module, torch.nn.Conv2d):
        return module.groups == 1 and min(module.weight.shape[0], module.weight[0].numel()) >= rank
    return isinstance(module, torch.nn.Linear) and min(module.weight.shape) >= rank


model = widened(onnx.load(arguments.model))
for value in list(model.graph.input) + list(model.graph.output):
    value.type.tensor_type.shape.dim[0].dim_param = "batch"
network = with_linear(convert(model)).eval()
names = [name for name, module in network.named_modules() if adapted(module, arguments.rank)]
constants = {constant.name for constant in model.graph.initializer}


def made_up(value):
    """Numbers around zero, or any bytes."""
    kind = value.type.tensor_type
    shape = [arguments.batch] + [d.dim_value for d in kind.shape.dim[1:]]
    if kind.elem_type == onnx.TensorProto.UINT8:
        return torch.randint(0, 256, shape, dtype=torch.uint8)
    return torch.rand(shape) - 0.5


inputs = [made_up(value) for value in model.graph.input if value.name not in constants]


def outputs(network):
    result = network(*inputs)
    return list(result) if isinstance(result, (list, tuple)) else [result]


with torch.no_grad():
    targets = [y + 0.1 for y in outputs(network)]
    began = time.perf_counter()
    for _ in range(STEPS):
        outputs(network)
    forward = (time.perf_counter() - began) / STEPS
config = LoraConfig(r=arguments.rank, lora_alpha=arguments.rank, use_dora=True, target_modules=names)
tuned = get_peft_model(network, config)
parameters = [p for p in tuned.parameters() if p.requires_grad]


def step():
    for parameter in parameters:
        parameter.grad = None
    loss = sum(torch.nn.functional.mse_loss(y, t) for y, t in zip(outputs(tuned), targets))
    loss.backward()


def status(key):
    """KiB of this process."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key))


with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = status("VmRSS:")
step()
ours, theirs, our_memory = [], [], []
for _ in range(arguments.rounds):
    said = subprocess.run(
        [arguments.ours, arguments.model]
        + [f"--{name}={getattr(arguments, name)}" for name in ("batch", "rank", "threads")]
        + ["--recompute"] * arguments.recompute,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    ours.append(float(re.search(r"step ([0-9.]+) ms", said).group(1)))
    our_memory.append(float(re.search(r"grew by ([0-9.]+) MB", said).group(1)))
    times = []
    for _ in range(STEPS):
        began = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - began))
    theirs.append(statistics.median(times))


def text(values):
    return f"{statistics.median(values):.1f} ms ({min(values):.1f} to {max(values):.1f})"


ratios = [b / a for a, b in zip(ours, theirs)]
print(f"{len(names)} layers, {sum(p.numel() for p in parameters)} trained, {arguments.threads} threads")
print(f"torch forward {1e3 * forward:.1f} ms")
print(f"spark-train {text(ours)}   PEFT {text(theirs)}   PEFT / ours {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
memory = (status("VmHWM:") - before) * 1024 / 1e6
print(f"grown by: spark-train {statistics.median(our_memory):.0f} MB, PEFT {memory:.0f} MB, ours / PEFT's {statistics.median(our_memory) / memory:.2f}")
