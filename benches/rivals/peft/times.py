"""Times PEFT's LoRA and DoRA and spark-dora's in turns, on the layers of `crates/spark-dora/benches/dora`.

    cargo bench -p spark-dora --bench dora --no-run        # prints the executable's path
    python times.py --ours EXECUTABLE [--turns 9] [--only NAME] [--csv FILE]

One thread each. A turn is one round of four passes of every kind of both programs, one after the other, in
an order that is reversed every turn; the one that does not run waits for input. A pass is forward and
backward for a given output gradient; A and B change before every round, as when gradients are accumulated
over four micro-batches (PEFT computes the norm in every pass, whatever happens to A and B). `base` is the
frozen layer, whose backward pass computes the input's gradient only; `eval` is forward only. Each round
follows a pass that is not timed.

Printed per kind: medians in ms with the 10th and 90th percentile, and the median over turns of PEFT's time
over ours.
"""

import argparse
import os
import statistics
import subprocess
import time

os.environ["OMP_NUM_THREADS"] = os.environ["RAYON_NUM_THREADS"] = "1"

import torch
from peft import LoraConfig, get_peft_model

LAYERS = [
    ("linear_512x512_n800", "linear", (512, 512), (800, 512), 16),
    ("linear_2048x512_n800", "linear", (2048, 512), (800, 2048), 16),
    ("linear_1024x1024_n32", "linear", (1024, 1024), (32, 1024), 16),
    ("linear_4096x4096_n32", "linear", (4096, 4096), (32, 4096), 16),
    ("linear_1536x512_n25", "linear", (1536, 512), (25, 1536), 16),
    ("linear_1024x2048_n8", "linear", (1024, 2048), (8, 1024), 16),
    ("conv3x3_64_64_s1_32x64_b4", "conv", (64, 64, 3, 1), (4, 64, 32, 64), 16),
    ("conv1x1_256_256_s1_16x32_b4", "conv", (256, 256, 1, 1), (4, 256, 16, 32), 16),
    ("conv3x3_12_64_s2_128x256_b1", "conv", (12, 64, 3, 2), (1, 12, 128, 256), 8),
    ("conv1x1_512_1536_s1_4x8_b8", "conv", (512, 1536, 1, 1), (8, 512, 4, 8), 16),
]
KINDS = ["base", "lora", "dora", "lora_eval", "dora_eval"]
PASSES = 4


class Net(torch.nn.Module):
    def __init__(self, kind, sizes):
        super().__init__()
        if kind == "linear":
            self.layer = torch.nn.Linear(*sizes)
        else:
            inputs, outputs, kernel, stride = sizes
            self.layer = torch.nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2)

    def forward(self, x):
        return self.layer(x)


class Peft:
    """One layer of the list, in every kind."""

    def __init__(self, kind, sizes, shape, rank):
        torch.manual_seed(0)
        self.x = torch.randn(shape, requires_grad=True)
        self.nets = {}
        for method in ["base", "lora", "dora"]:
            net = Net(kind, sizes)
            for parameter in net.parameters():
                parameter.requires_grad_(False)
            if method != "base":
                config = LoraConfig(
                    r=rank, lora_alpha=2 * rank, target_modules=["layer"], use_dora=method == "dora"
                )
                net = get_peft_model(net, config)
            self.nets[method] = net
        self.gradient = torch.randn_like(self.nets["base"](self.x))

    def round(self, kind):
        method, _, evaluates = kind.partition("_")
        net = self.nets[method].train(not evaluates)
        trained = [p for p in net.parameters() if p.requires_grad]

        def one():
            if evaluates:
                with torch.no_grad():
                    net(self.x)
                return
            net(self.x).backward(self.gradient)
            self.x.grad = None
            for parameter in trained:
                parameter.grad = None

        one()
        start = time.perf_counter()
        if not evaluates:
            with torch.no_grad():
                for parameter in trained:
                    parameter.mul_(1.000001)
        for _ in range(PASSES):
            one()
        return 1e3 * (time.perf_counter() - start) / PASSES


class Ours:
    def __init__(self, executable):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([executable, "--serve"], stdin=pipe, stdout=pipe, text=True)

    def round(self, layer, kind):
        self.process.stdin.write(f"{layer} {kind} 1\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def spread(times):
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    return f"{statistics.median(times):.3f},{tenths[0]:.3f},{tenths[-1]:.3f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ours", required=True)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--only", default="")
    parser.add_argument("--csv")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ours = Ours(options.ours)
    lines = ["layer,kind,peft_ms,peft_p10,peft_p90,ours_ms,ours_p10,ours_p90,peft_over_ours"]
    print(lines[0], flush=True)
    for name, kind, sizes, shape, rank in LAYERS:
        if options.only not in name:
            continue
        peft = Peft(kind, sizes, shape, rank)
        times = {k: ([], []) for k in KINDS}
        for turn in range(options.turns):
            for k in KINDS if turn % 2 == 0 else reversed(KINDS):
                times[k][0].append(peft.round(k))
                times[k][1].append(ours.round(name, k))
        for k, (theirs, own) in times.items():
            ratio = statistics.median(t / o for t, o in zip(theirs, own))
            lines.append(f"{name},{k},{spread(theirs)},{spread(own)},{ratio:.2f}")
            print(lines[-1], flush=True)
    ours.process.stdin.close()
    ours.process.wait()
    if options.csv:
        with open(options.csv, "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
