"""Exported parameters in other hands: the snippet of docs/predict.md, and PyTorch's formulas in numpy, agree with `predict`."""
import in_venv  # isort: skip  (starts over in the environment that has the readers)

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy
import packaging
import safetensors
from PIL import Image
from safetensors import safe_open
from safetensors.numpy import load_file

sys.path.insert(0, str(in_venv.ROOT / "tests/e2e"))
from trainyard import TRAINER, Run, job_file  # noqa: E402


PYTORCH_SAYS = """
import numpy, torch
numpy.save("said.npy", model(torch.from_numpy(numpy.load("seen.npy"))).detach().numpy())
"""


def command(*arguments):
    return subprocess.run([TRAINER, *map(str, arguments)], cwd=in_venv.ROOT, capture_output=True, text=True, check=True).stdout


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def softmax(x):
    e = numpy.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def linear(p, name, x):
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def lstm(p, name, x, end=""):
    """torch.nn.LSTM's last h of [examples, steps, features]."""
    h = c = numpy.zeros((len(x), p[f"{name}.weight_hh_l0{end}"].shape[1]))
    for step in x.swapaxes(0, 1):
        gates = step @ p[f"{name}.weight_ih_l0{end}"].T + p[f"{name}.bias_ih_l0{end}"] + h @ p[f"{name}.weight_hh_l0{end}"].T + p[f"{name}.bias_hh_l0{end}"]
        i, f, g, o = numpy.split(gates, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * numpy.tanh(g)
        h = sigmoid(o) * numpy.tanh(c)
    return h


def gru(p, name, x):
    """torch.nn.GRU's last h."""
    h = numpy.zeros((len(x), p[f"{name}.weight_hh_l0"].shape[1]))
    for step in x.swapaxes(0, 1):
        r_x, z_x, n_x = numpy.split(step @ p[f"{name}.weight_ih_l0"].T + p[f"{name}.bias_ih_l0"], 3, axis=1)
        r_h, z_h, n_h = numpy.split(h @ p[f"{name}.weight_hh_l0"].T + p[f"{name}.bias_hh_l0"], 3, axis=1)
        z = sigmoid(z_x + z_h)
        h = (1 - z) * numpy.tanh(n_x + sigmoid(r_x + r_h) * n_h) + z * h
    return h


def rnn(p, name, x):
    h = numpy.zeros((len(x), p[f"{name}.weight_hh_l0"].shape[1]))
    for step in x.swapaxes(0, 1):
        h = numpy.tanh(step @ p[f"{name}.weight_ih_l0"].T + p[f"{name}.bias_ih_l0"] + h @ p[f"{name}.weight_hh_l0"].T + p[f"{name}.bias_hh_l0"])
    return h


def batch_norm(p, name, x, axes):
    scale, bias, mean, var = (p[f"{name}.{part}"].reshape(axes) for part in ("weight", "bias", "running_mean", "running_var"))
    return scale * (x - mean) / numpy.sqrt(var + 1e-3) + bias


def conv(p, name, x):
    weight = p[f"{name}.weight"]
    windows = numpy.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=(2, 3))
    return numpy.einsum("nchwij,ocij->nohw", windows, weight) + p[f"{name}.bias"][:, None, None]


class Exported(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-export-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def train(self, model="lenet5", **options):
        overrides = options.pop("overrides", ())
        output = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "out"
        run = Run(job_file(self.folder, model=model, **options), output=output, overrides=overrides)
        self.assertEqual(run.wait(), 0, f"{run.text}\n{run.logs()}")
        command("export", run.output, "--output", self.folder / "model.safetensors")
        return run.output

    def probabilities(self, output, examples, classes):
        numpy.save(self.folder / "x.npy", examples)
        lines = command("predict", output, self.folder / "x.npy", "--json", "--top", classes).splitlines()
        rows = numpy.zeros((len(lines), classes))
        for row, line in zip(rows, map(json.loads, lines), strict=True):
            for entry in line["top"]:
                row[entry["classNumber"]] = entry["probability"]
        return rows


class Export(Exported):
    def test_the_snippet_of_the_page_is_lenet(self):
        output = self.train(steps=40)
        snippet = re.search(r"```python\n(import numpy\nfrom safetensors.*?)```", (in_venv.ROOT / "docs/predict.md").read_text(), re.DOTALL)[1]
        snippet = snippet.replace('"lenet5.safetensors"', repr(str(self.folder / "model.safetensors")))
        names = {}
        exec(snippet, names)  # noqa: S102  (our own page)
        images = numpy.random.default_rng(1).integers(0, 256, (50, 28, 28), numpy.uint8)
        images[::2] //= 100  # mostly dark, as digits are
        numpy.testing.assert_allclose(names["lenet5"](images[:, None] / 255), self.probabilities(output, images, 10), atol=1e-5)

    def test_the_snippet_for_pytorch_is_lenet(self):
        output = self.train(steps=40)
        images = numpy.random.default_rng(1).integers(0, 256, (20, 28, 28), numpy.uint8)
        numpy.save(self.folder / "seen.npy", (images[:, None] / 255).astype("f"))
        (snippet,) = re.findall(r"```python\n([^`]*from torch import nn\n.*?)```", (in_venv.ROOT / "docs/predict.md").read_text(), re.DOTALL)
        (self.folder / "snippet.py").write_text(snippet.replace('"lenet5.safetensors"', '"model.safetensors"') + PYTORCH_SAYS)
        # Debian's PyTorch has Debian's NumPy, so it runs by itself, beside this environment's safetensors.
        told = subprocess.run([in_venv.ROOT / "scripts/torch.sh"], capture_output=True, text=True)
        self.assertEqual(told.returncode, 0, told.stderr)
        settings = dict(setting.split("=", 1) for setting in told.stdout.split())
        for package in (safetensors, packaging):
            (self.folder / package.__name__).symlink_to(pathlib.Path(package.__file__).parent)
        subprocess.run(["/usr/bin/python3", "snippet.py"], cwd=self.folder, env={**os.environ, **settings}, check=True)
        numpy.testing.assert_allclose(softmax(numpy.load(self.folder / "said.npy")), self.probabilities(output, images, 10), atol=1e-5)

    def test_the_file_says_what_it_is_of(self):
        self.train(steps=5)
        with safe_open(self.folder / "model.safetensors", "numpy") as file:
            metadata = file.metadata()
            shapes = {name: file.get_tensor(name).shape for name in file.keys()}
        self.assertEqual(metadata["format"], "pt")
        self.assertEqual(metadata["trainyard.step"], "5")
        self.assertEqual(json.loads(metadata["trainyard.model"])["training"]["model"], {"preset": "lenet5"})
        self.assertEqual(shapes["conv2.weight"], (50, 20, 5, 5))
        self.assertEqual(shapes["dense1.weight"], (500, 800))

    def test_recurrent_layers_have_the_gates_of_pytorch(self):
        layers = {
            "lstm": ("{name: cell, lstm: {units: 7}}", lstm),
            "gru": ("{name: cell, gru: {units: 7}}", gru),
            "simpleRnn": ("{name: cell, simpleRnn: {units: 7}}", rnn),
            "bidirectional": (
                "{name: cell, bidirectional: {layer: {lstm: {units: 7}}}}",
                lambda p, name, x: numpy.concatenate([lstm(p, name, x), lstm(p, name, x[:, ::-1], "_reverse")], axis=1),
            ),
        }
        x = numpy.random.default_rng(2).normal(size=(20, 6, 5)).astype(numpy.float32)
        for kind, (layer, formula) in layers.items():
            with self.subTest(kind):
                model = f"{{input: {{shape: [6, 5]}}, layers: [{layer}, {{name: out, dense: {{units: 3}}}}], loss: softmaxCrossEntropy}}"
                output = self.train("linear", steps=30, overrides=[f"training.model={model}"])
                p = load_file(self.folder / "model.safetensors")
                numpy.testing.assert_allclose(softmax(linear(p, "out", formula(p, "cell", x))), self.probabilities(output, x, 3), atol=1e-5)

    def test_normalisation_and_flatten_are_in_the_order_of_pytorch(self):
        model = (
            "{input: {shape: [6, 5, 2]}, layers: [{name: conv, conv2d: {filters: 4, kernelSize: 3, activation: relu}}, {name: norm, batchNormalization: {}}, "
            "flatten, {name: flat_norm, batchNormalization: {}}, {name: out, dense: {units: 3}}], loss: softmaxCrossEntropy}"
        )
        output = self.train("linear", steps=60, overrides=[f"training.model={model}"])
        p = load_file(self.folder / "model.safetensors")
        x = numpy.random.default_rng(3).normal(size=(20, 6, 5, 2)).astype(numpy.float32)
        y = numpy.maximum(conv(p, "conv", x.transpose(0, 3, 1, 2)), 0)
        y = batch_norm(p, "norm", y, (-1, 1, 1)).reshape(len(x), -1)
        y = linear(p, "out", batch_norm(p, "flat_norm", y, (-1,)))
        numpy.testing.assert_allclose(softmax(y), self.probabilities(output, x, 3), atol=1e-5)


class KerasNames(Exported):
    """Names and formulas; keras_snippet/ has Keras itself."""

    def tensors(self, model, **options):
        output = self.train(model, steps=5, **options)
        command("export", output, "--format", "keras-names", "--output", self.folder / "keras.safetensors")
        return output, load_file(self.folder / "keras.safetensors")

    def test_names_and_shapes_are_those_of_keras(self):
        _, tensors = self.tensors("lenet5")
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        self.assertEqual(shapes, {"conv1/kernel": (5, 5, 1, 20), "conv1/bias": (20,), "conv2/kernel": (5, 5, 20, 50), "conv2/bias": (50,),
                                  "dense1/kernel": (800, 500), "dense1/bias": (500,), "dense2/kernel": (500, 10), "dense2/bias": (10,)})  # fmt: skip

    def test_gates_are_in_the_order_of_keras(self):
        layers = "{name: r, lstm: {units: 4}}, {name: n, batchNormalization: {}}, {name: d, dense: {units: 3}}"
        model = f"{{input: {{shape: [6, 5]}}, layers: [{layers}], loss: softmaxCrossEntropy}}"
        output, p = self.tensors("linear", overrides=[f"training.model={model}"])
        x = numpy.random.default_rng(5).normal(size=(20, 6, 5)).astype(numpy.float32)
        h = c = numpy.zeros((len(x), 4))
        for step in x.swapaxes(0, 1):
            i, f, g, o = numpy.split(step @ p["r/kernel"] + h @ p["r/recurrent_kernel"] + p["r/bias"], 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * numpy.tanh(g)
            h = sigmoid(o) * numpy.tanh(c)
        y = p["n/gamma"] * (h - p["n/moving_mean"]) / numpy.sqrt(p["n/moving_variance"] + 1e-3) + p["n/beta"]
        numpy.testing.assert_allclose(softmax(y @ p["d/kernel"] + p["d/bias"]), self.probabilities(output, x, 3), atol=1e-5)


class Pictures(Exported):
    def test_resize_is_near_pillows(self):
        output = self.train(steps=40)
        random = numpy.random.default_rng(4)
        coarse = random.integers(0, 256, (9, 11), numpy.uint8)
        for size in ((64, 47), (20, 90)):
            large = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)
            large.save(self.folder / "large.png")
            small = numpy.asarray(large.resize((28, 28), Image.Resampling.BILINEAR))
            expected = self.probabilities(output, small, 10)[0]
            (line,) = map(json.loads, command("predict", output, self.folder / "large.png", "--resize", "--json", "--top", 10).splitlines())
            for entry in line["top"]:
                self.assertAlmostEqual(entry["probability"], expected[entry["classNumber"]], delta=0.01)


if __name__ == "__main__":
    unittest.main()
