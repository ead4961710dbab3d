"""The networks that are exported: torchvision's, timm's and a few of our own, small inputs, random weights.

    NETWORKS   name -> function without arguments -> (module in eval mode, inputs)

Nothing is downloaded: weights are drawn, from the generator that the caller has seeded. As initialised, many
networks would hide their own errors: gains of 1e-6 or 0 silence whole branches, and batch norms that have seen
nothing let activations grow or die layer by layer. So `enliven` draws parameters that are constant, and lets batch
norms see one batch of the inputs.
"""

import timm
import torch
import torchvision
from torch import nn
from torch.nn import functional as F
from torchvision.models import detection, segmentation, video


def enliven(module, inputs):
    """Draws what the initialisation left constant, and measures the statistics of batch norms."""
    with torch.no_grad():
        for parameter in module.parameters():
            if bool((parameter == parameter.flatten()[0]).all()):
                is_gain = parameter.flatten()[0].item() > 0.5
                parameter.copy_(torch.empty_like(parameter).uniform_(0.8, 1.2) if is_gain
                                else torch.empty_like(parameter).uniform_(-0.2, 0.2))
        norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        for norm in norms:
            norm.momentum = None
            norm.train()
        if norms:
            module(*(torch.cat([x, x.flip(-1), -x, 0.5 * x]) for x in inputs))
        module.eval()


def pictures(size, batch=1):
    return (torch.rand(batch, 3, size, size) * 2 - 1,)


def classifier(make, size):
    def build():
        inputs = pictures(size)
        module = make().eval()
        enliven(module, inputs)
        return module, inputs

    return build


def of_torchvision(name, size, **options):
    return classifier(lambda: torchvision.models.get_model(name, weights=None, **options), size)


def of_timm(name, size, **options):
    return classifier(lambda: timm.create_model(name, pretrained=False, **options), size)


# Segmentation


class Pixels(nn.Module):
    """torchvision's segmentation networks return dictionaries; this returns the classes of pixels."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x)["out"]


def deeplab():
    make = lambda: segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=19)
    return classifier(lambda: Pixels(make()), 96)()


class UNet(nn.Module):
    """U-Net (Ronneberger et al. 2015) of four levels. The way up is a transposed convolution or, with `bilinear`,
    a resize; the skip is padded where the extents of an odd picture differ, as most implementations do."""

    def __init__(self, widths=(16, 32, 64, 96), bilinear=False):
        super().__init__()
        self.bilinear = bilinear
        self.down = nn.ModuleList(self.twice(a, b) for a, b in zip((3, *widths), widths))
        pairs = list(zip(widths[:0:-1], widths[-2::-1]))
        self.widen = nn.ModuleList(
            nn.Conv2d(a, b, 1) if bilinear else nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in pairs)
        self.up = nn.ModuleList(self.twice(2 * b, b) for _, b in pairs)
        self.out = nn.Conv2d(widths[0], 4, 1)

    @staticmethod
    def twice(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
                             nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))

    def forward(self, x):
        skips = []
        for index, block in enumerate(self.down):
            x = block(x if index == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for widen, block, skip in zip(self.widen, self.up, skips[-2::-1]):
            if self.bilinear:
                x = widen(F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True))
            else:
                x = widen(x)
            rows, columns = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
            x = F.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
            x = block(torch.cat([skip, x], dim=1))
        return self.out(x)


# Detection


class SmallDetr(nn.Module):
    """DETR (Carion et al. 2020), two layers each way: convolutions, nn.Transformer, heads."""

    def __init__(self, width=64, n_queries=20, n_classes=10):
        super().__init__()
        resnet = torchvision.models.resnet18(weights=None)
        self.trunk = nn.Sequential(*list(resnet.children())[:-2])
        self.narrow = nn.Conv2d(512, width, 1)
        self.transformer = nn.Transformer(width, 4, 2, 2, 128, dropout=0.1)
        self.queries = nn.Parameter(torch.randn(n_queries, width))
        self.rows = nn.Parameter(torch.randn(50, width // 2))
        self.columns = nn.Parameter(torch.randn(50, width // 2))
        self.classes = nn.Linear(width, n_classes + 1)
        self.boxes = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, x):
        x = self.narrow(self.trunk(x))
        h, w = x.shape[-2:]
        position = torch.cat([self.columns[:w].unsqueeze(0).repeat(h, 1, 1),
                              self.rows[:h].unsqueeze(1).repeat(1, w, 1)], dim=-1).flatten(0, 1).unsqueeze(1)
        memory = position + 0.1 * x.flatten(2).permute(2, 0, 1)
        queries = self.queries.unsqueeze(1).repeat(1, x.shape[0], 1)
        x = self.transformer(memory, queries).transpose(0, 1)
        return self.classes(x), self.boxes(x).sigmoid()


class YoloHead(nn.Module):
    """A head without anchors on three feature maps: boxes and scores of all cells, as the YOLO family exports them;
    with `keep`, also which of them non-maximum suppression keeps."""

    def __init__(self, keep, n_classes=8, widths=(32, 48, 64), bins=8):
        super().__init__()
        self.keep, self.n_classes, self.bins = keep, n_classes, bins
        layers, width = [], 3
        for index, wide in enumerate((16, *widths)):
            layers.append(nn.Sequential(nn.Conv2d(width, wide, 3, stride=2, padding=1, bias=False),
                                        nn.BatchNorm2d(wide), nn.SiLU(inplace=True)))
            width = wide
        self.trunk = nn.ModuleList(layers)
        self.pool = nn.MaxPool2d(5, stride=1, padding=2)
        self.heads = nn.ModuleList(nn.Conv2d(wide, 4 * bins + n_classes, 1) for wide in widths)

    def forward(self, x):
        size = x.shape[-1]
        boxes, scores = [], []
        for index, layer in enumerate(self.trunk):
            x = layer(x)
            if index == 0:
                continue
            x = x + self.pool(x)
            cells = self.heads[index - 1](x).flatten(2).transpose(1, 2)
            stride = size // x.shape[-1]
            at = torch.arange(x.shape[-1], dtype=x.dtype) + 0.5
            y, x_at = torch.meshgrid(at, at, indexing="ij")
            centres = torch.stack([x_at, y], dim=-1).reshape(1, -1, 2)
            # The distance to each side is the mean of a distribution over bins.
            sides = cells[..., : 4 * self.bins].unflatten(-1, (4, self.bins)).softmax(-1)
            sides = sides @ torch.arange(self.bins, dtype=x.dtype)
            low, high = sides.chunk(2, dim=-1)
            boxes.append(torch.cat([centres - low, centres + high], dim=-1) * stride)
            scores.append(cells[..., 4 * self.bins :].sigmoid())
        boxes, scores = torch.cat(boxes, 1), torch.cat(scores, 1)
        if self.keep is None:
            return boxes, scores
        best, labels = scores[0].max(dim=-1)
        if self.keep == "nms":
            kept = torchvision.ops.nms(boxes[0], best, 0.5)
        else:
            kept = torchvision.ops.batched_nms(boxes[0], best, labels, 0.5)
        return boxes[0][kept], best[kept], labels[kept]


class Detector(nn.Module):
    """torchvision's detectors take and return lists; this takes a batch of one and returns three tensors."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        found = self.network([image for image in x])[0]
        return found["boxes"], found["scores"], found["labels"]


def spread(network, x, layers):
    """Scales the last layers of a detector until their results spread as trained ones do, logits by 2, offsets of boxes
    by 1/2. As initialised, biases outweigh what is seen: all boxes have the same score, or none is kept. Then nothing behind
    is looked at, and every order of the boxes is right."""
    with torch.no_grad():
        for layer, wanted in layers:
            layer.bias.zero_()
            seen = []
            hook = layer.register_forward_hook(lambda module, inputs, result: seen.append(result.flatten()))
            network(x)
            hook.remove()
            layer.weight.mul_(wanted / torch.cat(seen).std())
            layer.bias.uniform_(-0.5, 0.5)


def detector(make, size, last_layers):
    """Pictures are in 0..1, and statistics of batch norms are left as they are."""

    def build():
        network = make(weights=None, weights_backbone=None, num_classes=6, min_size=size, max_size=size).eval()
        inputs = (torch.rand(1, 3, size, size),)
        spread(network, [inputs[0][0]], last_layers(network))
        return Detector(network).eval(), inputs

    return build


def last_of_ssd(network):
    heads = [(network.head.classification_head, 2.0), (network.head.regression_head, 0.5)]
    return [(layers[-1], wanted) for head, wanted in heads for layers in head.module_list]


def last_of_retinanet(network):
    return [(network.head.classification_head.cls_logits, 2.0), (network.head.regression_head.bbox_reg, 0.5)]


def last_of_faster_rcnn(network):
    first, hidden, last = network.rpn.head, network.roi_heads.box_head, network.roi_heads.box_predictor
    return [(first.cls_logits, 2.0), (first.bbox_pred, 0.5), (hidden.fc6, 1.0), (hidden.fc7, 1.0),
            (last.cls_score, 2.0), (last.bbox_pred, 0.5)]


# Recurrent networks


class Recurrent(nn.Module):
    """A recurrent layer of torch on a sequence from given states, and what is left of them."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, *state):
        y, end = self.layer(x, state if len(state) > 1 else state[0])
        return (y, *end) if isinstance(end, tuple) else (y, end)


def recurrent(kind, **options):
    def build():
        layer = kind(24, 32, num_layers=2, **options)
        directions = 4 if layer.bidirectional else 2
        batch, steps = 2, 10
        x = torch.randn(batch, steps, 24) if layer.batch_first else torch.randn(steps, batch, 24)
        states = [torch.randn(directions, batch, 32)]
        if kind is nn.LSTM:
            states = [torch.randn(directions, batch, layer.proj_size or 32), torch.randn(directions, batch, 32)]
        return Recurrent(layer).eval(), (x, *states)

    return build


class LateGru(nn.Module):
    """A GRU that begins with zeros it makes itself, of which only the last step counts."""

    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.GRU(24, 32, batch_first=True), nn.Linear(32, 5)

    def forward(self, x):
        y, _ = self.layer(x)
        return self.out(y[:, -1])


class RmsNorm(nn.Module):
    """Spelled out, as in most code that is older than torch's own."""

    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-4) * self.gain


class Rssm(nn.Module):
    """Steps of a recurrent state-space model (Hafner et al., DreamerV3, 2023): a GRU with layer norm, and states of
    `groups` categorical variables of `classes` values. Noise that makes the argmax a sample is an input."""

    def __init__(self, width=64, groups=8, classes=8, actions=3, n_seen=48):
        super().__init__()
        self.groups, self.classes, self.width = groups, classes, width
        self.enter = nn.Sequential(nn.Linear(groups * classes + actions, width), RmsNorm(width), nn.SiLU())
        self.gates = nn.Linear(2 * width, 3 * width, bias=False)
        self.norm = nn.LayerNorm(3 * width, eps=1e-3)
        self.prior = nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.SiLU(),
                                   nn.Linear(width, groups * classes))
        self.posterior = nn.Sequential(nn.Linear(width + n_seen, width), nn.LayerNorm(width), nn.SiLU(),
                                       nn.Linear(width, groups * classes))
        self.reward = nn.Linear(width + groups * classes, 255)
        self.register_buffer("values", torch.sinh(torch.linspace(-5, 5, 255)))

    def sample(self, logits, noise):
        logits = logits.unflatten(-1, (self.groups, self.classes))
        probabilities = 0.99 * logits.softmax(-1) + 0.01 / self.classes
        chosen = (probabilities.log() + noise).argmax(-1)
        return F.one_hot(chosen, self.classes).to(logits.dtype).flatten(-2), probabilities

    def step(self, state, stochastic, action, seen, noise):
        entered = self.enter(torch.cat([stochastic, action], -1))
        reset, candidate, update = self.norm(self.gates(torch.cat([entered, state], -1))).chunk(3, -1)
        candidate = torch.tanh(torch.sigmoid(reset) * candidate)
        update = torch.sigmoid(update - 1)
        state = update * candidate + (1 - update) * state
        _, prior = self.sample(self.prior(state), noise)
        stochastic, posterior = self.sample(self.posterior(torch.cat([state, seen], -1)), noise)
        divergence = (posterior * (posterior.log() - prior.log())).sum((-2, -1)).clamp(min=1.0)
        reward = self.reward(torch.cat([state, stochastic], -1)).softmax(-1) @ self.values
        return state, stochastic, divergence, reward

    def forward(self, state, stochastic, actions, seen, noise):
        divergences, rewards = [], []
        for index in range(actions.shape[1]):
            state, stochastic, divergence, reward = self.step(
                state, stochastic, actions[:, index], seen[:, index], noise[:, index])
            divergences.append(divergence)
            rewards.append(reward)
        return state, stochastic, torch.stack(divergences, 1), torch.stack(rewards, 1)


def rssm():
    module, batch, steps = Rssm(), 2, 3
    gumbel = -torch.log(-torch.log(torch.rand(batch, steps, 8, 8).clamp(1e-6, 1 - 1e-6)))
    stochastic = F.one_hot(torch.randint(8, (batch, 8)), 8).float().flatten(1)
    inputs = (torch.randn(batch, 64), stochastic, torch.randn(batch, steps, 3), torch.randn(batch, steps, 48), gumbel)
    enliven(module, inputs)
    return module.eval(), inputs


def clip_of_video():
    inputs = (torch.rand(1, 3, 8, 56, 56) * 2 - 1,)
    module = video.r3d_18(weights=None).eval()
    enliven(module, inputs)
    return module, inputs


NETWORKS = {
    "resnet50": of_torchvision("resnet50", 96),
    "mobilenet_v3_large": of_torchvision("mobilenet_v3_large", 96),
    "efficientnet_b0": of_torchvision("efficientnet_b0", 96),
    "tf_efficientnetv2_b0": of_timm("tf_efficientnetv2_b0", 96),
    "regnet_y_400mf": of_torchvision("regnet_y_400mf", 96),
    "convnext_tiny": of_torchvision("convnext_tiny", 64),
    "ghostnetv2_100": of_timm("ghostnetv2_100", 96),
    "repvit_m0_9": of_timm("repvit_m0_9", 96),
    "fastvit_t8": of_timm("fastvit_t8", 128),
    "fastvit_sa12": of_timm("fastvit_sa12", 128),
    "mobilevit_xxs": of_timm("mobilevit_xxs", 128),
    "mobilevitv2_050": of_timm("mobilevitv2_050", 128),
    "vit_tiny_patch16_224": of_timm("vit_tiny_patch16_224", 224),
    "swin_t": of_torchvision("swin_t", 96),
    "swin_v2_t": of_torchvision("swin_v2_t", 96),
    "eca_nfnet_l0": of_timm("eca_nfnet_l0", 96),
    "nf_regnet_b0": of_timm("nf_regnet_b0", 96),
    "deeplabv3_mobilenet_v3_large": deeplab,
    "unet, transposed convolutions": classifier(UNet, 100),
    "unet, bilinear": classifier(lambda: UNet(bilinear=True), 96),
    "detr, two layers": classifier(SmallDetr, 128),
    "yolo head": classifier(lambda: YoloHead(None), 96),
    "yolo head, nms": classifier(lambda: YoloHead("nms"), 96),
    "yolo head, batched_nms": classifier(lambda: YoloHead("batched"), 96),
    "ssdlite320_mobilenet_v3_large": detector(
        lambda min_size, max_size, **options: detection.ssdlite320_mobilenet_v3_large(**options), 320, last_of_ssd),
    "retinanet_resnet50_fpn": detector(detection.retinanet_resnet50_fpn, 96, last_of_retinanet),
    "fasterrcnn_mobilenet_v3_large_320_fpn": detector(
        detection.fasterrcnn_mobilenet_v3_large_320_fpn, 96, last_of_faster_rcnn),
    "gru": recurrent(nn.GRU, batch_first=True),
    "gru, bidirectional": recurrent(nn.GRU, bidirectional=True),
    "gru, zero state": lambda: (LateGru().eval(), (torch.randn(2, 10, 24),)),
    "lstm": recurrent(nn.LSTM, batch_first=True),
    "lstm, bidirectional": recurrent(nn.LSTM, bidirectional=True),
    "lstm, projected": recurrent(nn.LSTM, proj_size=16),
    "rssm": rssm,
    "r3d_18": clip_of_video,
}
