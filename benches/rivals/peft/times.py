"""Times PEFT's LoRA and DoRA on the layers of `crates/spark-dora/benches/dora`.

    python times.py [--seconds 3] [--threads 1] [--only NAME]

One forward and backward pass for a given output gradient, in ms: median and minimum. `base` is torch's own
layer, frozen, so its backward pass computes the input's gradient only. PEFT recomputes the norm in every
pass, whatever happens to A and B. Names are those of the Rust benchmark.
"""

import argparse
import statistics
import time

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


def network(kind, sizes, rank, method):
    torch.manual_seed(0)
    net = Net(kind, sizes)
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    if method == "base":
        return net
    config = LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules=["layer"], use_dora=method == "dora"
    )
    return get_peft_model(net, config).train()


def measure(net, x, seconds):
    y = net(x)
    gradient = torch.randn_like(y)
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        net(x).backward(gradient)
        times.append(1e3 * (time.perf_counter() - start))
        x.grad = None
        for parameter in net.parameters():
            parameter.grad = None
    return statistics.median(times), min(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("case,method,median_ms,min_ms", flush=True)
    for name, kind, sizes, shape, rank in LAYERS:
        if options.only not in name:
            continue
        x = torch.randn(shape, requires_grad=True)
        for method in ["base", "lora", "dora"]:
            median, least = measure(network(kind, sizes, rank, method), x, options.seconds)
            print(f"{name},{method},{median:.3f},{least:.3f}", flush=True)


if __name__ == "__main__":
    main()
