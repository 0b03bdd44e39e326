#!/usr/bin/env python3
"""Writes networks.json: the first 50 training steps of whole networks by PyTorch, which trainer/model/network_golden_test.cc follows.

    venv/bin/python tests/golden/make_network_golden.py [NAME …]      # make_golden.py says how to get the venv; only these networks

Start values and batches come from formulas that both sides compute, so the file holds results only. All numbers are made of

    Mix(x): x ^= x >> 16; x *= 0x7feb352d; x ^= x >> 15; x *= 0x846ca68b; x ^= x >> 16                    (32 bits; Wellons' "lowbias32")
    Unit(stream, i) = (Mix(Mix(stream) ^ i) >> 16) / 65536                                                             (in [0, 1))

- element i of a kernel is (2 Unit(FNV-1a of its name, i) - 1) sqrt(3 / fan_in), rounded to f32, fan_in the product of all extents but the
  last; gammas and moving variances are 1, all other vectors 0;
- example n of step t (counted from 0) has label Mix(batch * t + n) % 10, and element i of it is
  (Unit(1000 + label, i) + Unit(2000 + batch * t + n, i)) / 2: a pattern of its class under noise;
- of a model of tokens, row n of step t has the words from place steps * t on of row n's endless text, and as labels the word after each.
  The word at place p is floor(vocabulary * u), u = 8 Unit(4000 + n, p) if that is below 1, else Unit(3000, (p + n) % 11): a phrase longer than
  a step, under noise. State is zero at first, goes on from step to step, and passes no gradient back;
- dropout drops what trainer/ops/philox.h says for seed 1, worker 0.

The judge computes in float64. A second run in float32 shows how far rounding alone drives two runs
apart. A relu or a max-pool may decide within rounding of a tie, or an adaptive rule may follow the
sign of a gradient near 0. Later steps then make the difference larger. The file holds both losses
of each step; the test allows a small multiple of PyTorch's difference from itself. For this to stay
a test, Adadelta runs at 0.1, not at the study's 1.0. There two right runs are apart by 3e-3 after a
dozen steps.
"""

import json
import sys

import numpy as np
import torch
from make_golden import FOLDER, is_moving, model, parameters_of, step

STEPS = 50


def mix(x):
    x = np.asarray(x, np.uint64)
    x = x ^ (x >> np.uint64(16))
    x = x * np.uint64(0x7FEB352D) & np.uint64(0xFFFFFFFF)
    x = x ^ (x >> np.uint64(15))
    x = x * np.uint64(0x846CA68B) & np.uint64(0xFFFFFFFF)
    return x ^ (x >> np.uint64(16))


def unit(stream, count):
    return (mix(mix(stream) ^ np.arange(count, dtype=np.uint64)) >> np.uint64(16)).astype(np.float64) / 65536


def fnv1a(text):
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def start_value(name, shape):
    if len(shape) == 1:
        return np.full(shape, 1.0 if name.endswith(("/gamma", "/moving_variance")) else 0.0)
    limit = np.sqrt(3.0 / np.prod(shape[:-1]))
    return ((2 * unit(fnv1a(name), np.prod(shape)) - 1) * limit).astype(np.float32).astype(np.float64).reshape(shape)


def make_batch(shape, batch, step_number):
    examples = batch * step_number + np.arange(batch)
    labels = (mix(examples) % np.uint64(10)).astype(np.int64)
    count = int(np.prod(shape))
    images = [(unit(1000 + label, count) + unit(2000 + example, count)) / 2 for label, example in zip(labels, examples)]
    return np.stack(images).reshape(batch, *shape), labels


def make_text_batch(spec, batch, step_number):
    steps, vocabulary = spec["input"]["shape"][0], spec["input"]["vocabulary"]
    places = steps * step_number + np.arange(steps + 1)
    rows = []
    for row in range(batch):
        noise = 8 * unit(4000 + row, places[-1] + 1)[places]
        phrase = unit(3000, 11)[(places + row) % 11]
        rows.append((vocabulary * np.where(noise < 1, noise, phrase)).astype(np.int64))
    words = np.stack(rows)
    return words[:, :-1], words[:, 1:]


def philox(counter, key):
    counter, key = [np.asarray(word, np.uint64) for word in counter], list(key)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * counter[0], np.uint64(0xCD9E8D57) * counter[2]
        counter = [(b >> half) ^ counter[1] ^ np.uint64(key[0]), b & low, (a >> half) ^ counter[3] ^ np.uint64(key[1]), a & low]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def dropout(step_number):
    def drop(stream, x, rate):
        derived = [int(word) for word in philox((step_number, 0, 0, stream), (1, 0))]
        samples, elements = x.shape[0], x[0].numel()
        quads, sample = np.meshgrid(np.arange(-(-elements // 4)), np.arange(samples))
        words = np.stack(philox((quads, sample, np.full_like(quads, derived[2]), np.full_like(quads, derived[3])), derived[:2]), -1)
        keep = words.reshape(samples, -1)[:, :elements] >= np.uint64(int(np.float64(np.float32(rate)) * 4294967296.0))
        return x * torch.tensor(keep.reshape(x.shape)).to(x.dtype) / (1 - rate)

    return drop


def layer(name, kind, inputs=None, **options):
    return {"name": name, kind: options} | ({"inputs": inputs} if inputs else {})


def lenet5():
    return model([28, 28, 1], [
        layer("conv1", "conv2d", filters=20, kernelSize=5, activation="tanh"), "maxPool2d",
        layer("conv2", "conv2d", filters=50, kernelSize=5, activation="tanh"), "maxPool2d", "flatten",
        layer("dense1", "dense", units=500, activation="tanh"), layer("dense2", "dense", units=10)])


def mnist_cnn():
    return model([28, 28, 1], [
        layer("conv1", "conv2d", filters=32, kernelSize=3, activation="relu"),
        layer("conv2", "conv2d", filters=64, kernelSize=3, activation="relu"), "maxPool2d", layer("dropout1", "dropout", rate=0.25), "flatten",
        layer("dense1", "dense", units=128, activation="relu"), layer("dropout2", "dropout", rate=0.5), layer("dense2", "dense", units=10)])


def resnet56v2(shape):
    """Keras' example cifar10_resnet, its version 2, depth 56."""
    layers = []

    def conv(name, filters, size, stride=1, source=None):
        layers.append(layer(name, "conv2d", source, filters=filters, kernelSize=size, strides=stride, padding="same", kernelRegularizer={"l2": 1e-4}))

    def norm_relu(name, source=None):
        layers.append(layer(name, "batchNormalization", source))
        layers.append(layer(name + "_relu", "activation", function="relu"))

    conv("stem", 16, 3)
    norm_relu("stem_norm")
    x, width = "stem_norm_relu", 16
    for stage in range(3):
        outputs = width * 4 if stage == 0 else width * 2
        for block in range(6):
            name = f"stage{stage + 1}_block{block + 1}"
            stride = 2 if stage > 0 and block == 0 else 1
            if stage > 0 or block > 0:
                norm_relu(name + "_norm1", [x])
            conv(name + "_conv1", width, 1, stride)
            norm_relu(name + "_norm2")
            conv(name + "_conv2", width, 3)
            norm_relu(name + "_norm3")
            conv(name + "_conv3", outputs, 1)
            if block == 0:
                conv(name + "_shortcut", outputs, 1, stride, [x])
                x = name + "_shortcut"
            layers.append(layer(name, "add", [x, name + "_conv3"]))
            x = name
        width = outputs
    norm_relu("norm")
    return model(shape, [*layers, "globalAveragePool2d", layer("dense", "dense", units=10)])


def ptb_lstm(vocabulary, embedding, units, steps):
    """The network of Zaremba, Sutskever and Vinyals (2014), two layers deep."""
    layers = [layer("embedding", "embedding", inputDim=vocabulary, outputDim=embedding)]
    layers += [layer(name, "lstm", units=units, returnSequences=True, stateful=True) for name in ("lstm1", "lstm2")]
    spec = model([steps], [*layers, layer("dense", "dense", units=vocabulary)])
    return spec | {"input": {"shape": [steps], "vocabulary": vocabulary}}


class KerasAdam(torch.optim.Optimizer):
    """As Keras has it: epsilon is added before the bias correction."""

    def __init__(self, values, rate):
        super().__init__(values, {"rate": rate})
        self.count = 0

    @torch.no_grad()
    def step(self):
        self.count += 1
        for group in self.param_groups:
            rate = group["rate"] * np.sqrt(1 - 0.999**self.count) / (1 - 0.9**self.count)
            for value in group["params"]:
                state = self.state[value]
                mean, square = state.setdefault("mean", torch.zeros_like(value)), state.setdefault("square", torch.zeros_like(value))
                mean.add_(0.1 * (value.grad - mean))
                square.add_(0.001 * (value.grad.square() - square))
                value.sub_(rate * mean / (square.sqrt() + 1e-7))


NETWORKS = {
    "lenet5": ({"preset": "lenet5"}, lenet5(), 20, {"name": "sgd", "learningRate": 0.05}, lambda values: torch.optim.SGD(values, lr=0.05)),
    "mnistCnn": ({"preset": "mnistCnn"}, mnist_cnn(), 20, {"name": "adadelta", "learningRate": 0.1},
                 lambda values: torch.optim.Adadelta(values, lr=0.1, rho=0.95, eps=1e-7)),
    "resnet56v2": ({"preset": "resnet56v2", "inputShape": [8, 8, 3]}, resnet56v2([8, 8, 3]), 20, {"name": "adam", "learningRate": 0.001},
                   lambda values: KerasAdam(values, 0.001)),
    "ptbLstm": ({"preset": "ptbLstm", "vocabulary": 50, "embedding": 16, "units": 24, "steps": 7}, ptb_lstm(50, 16, 24, 7), 5,
                {"name": "sgd", "learningRate": 5.0, "clipNorm": 0.4}, lambda values: torch.optim.SGD(values, lr=5.0)),
}


def clip(values, clip_norm):
    """All gradients by one factor, so that their norm is at most clip_norm: Pascanu et al. (2013). Returns whether it was larger."""
    norm = torch.sqrt(sum(value.grad.square().sum() for value in values))
    if norm <= clip_norm:
        return False
    for value in values:
        value.grad *= clip_norm / norm
    return True


def train(spec, batch, options, make_optimizer, dtype):
    """The loss of each step, and the number of clipped steps. Of each parameter the mean and the
    root of the mean square in the end."""
    shapes = {name: tuple(value.shape) for name, value in parameters_of(spec).items()}
    values = {name: torch.tensor(start_value(name, shape), dtype=dtype).requires_grad_(not is_moving(name)) for name, shape in shapes.items()}
    trained = [value for value in values.values() if value.requires_grad]
    optimizer = make_optimizer(trained)
    losses, state, clipped = [], {}, 0
    for number in range(STEPS):
        if "vocabulary" in spec["input"]:
            x, labels = [torch.tensor(words) for words in make_text_batch(spec, batch, number)]
        else:
            images, labels = make_batch(spec["input"]["shape"], batch, number)
            x, labels = torch.tensor(images, dtype=dtype), torch.tensor(labels)
        loss, _ = step(spec, values, x, labels, dropout(number), state)
        if "clipNorm" in options:
            clipped += clip(trained, options["clipNorm"])
        optimizer.step()
        losses.append(loss.item())
    ends = {name: [value.mean().item(), value.square().mean().sqrt().item()] for name, value in values.items()}
    return losses, ends, clipped


def main():
    path = FOLDER / "networks.json"
    networks = json.loads(path.read_text())["networks"] if path.exists() else {}
    for name in sys.argv[1:] or NETWORKS:
        preset, spec, batch, options, make_optimizer = NETWORKS[name]
        losses, ends, clipped = train(spec, batch, options, make_optimizer, torch.float64)
        single, single_ends, _ = train(spec, batch, options, make_optimizer, torch.float32)
        networks[name] = {"model": preset, "batch": batch, "optimizer": options, "losses": losses, "float32Losses": single, "end": ends,
                          "float32End": single_ends}
        apart = [abs(a - b) for a, b in zip(losses, single)]
        print(f"{name}: loss {losses[0]:.4f} to {losses[-1]:.4f}; {clipped} of {STEPS} steps clipped; "
              f"float32 apart by {max(apart[:10]):.1e} in 10 steps, {max(apart):.1e} in {STEPS}")
    path.write_text(json.dumps({"made by": f"make_network_golden.py with PyTorch {torch.__version__}", "networks": networks}, indent=1) + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
