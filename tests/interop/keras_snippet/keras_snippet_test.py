"""The code of docs/predict.md for Keras, run by Keras; and Keras' own recurrent layers with exported weights."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import in_venv  # isort: skip  (starts over in the environment that has Keras)

import json
import os
import re
import subprocess
import tempfile
import unittest

os.environ.update(KERAS_BACKEND="openvino", OPENVINO_TELEMETRY_OPT_OUT="1")
import keras  # noqa: E402
import numpy  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402

sys.path.insert(0, str(in_venv.ROOT / "tests/e2e"))
from trainyard import TRAINER, Run, job_file  # noqa: E402

RECURRENT = """{input: {shape: [6, 5]}, loss: softmaxCrossEntropy, layers: [{name: a, lstm: {units: 7, returnSequences: true}},
    {name: b, gru: {units: 6, returnSequences: true}}, {name: c, bidirectional: {layer: {lstm: {units: 4}}}}, {name: n, batchNormalization: {}},
    {name: d, dense: {units: 3}}]}"""


class Keras(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-keras-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def command(self, *arguments):
        return subprocess.run([TRAINER, *map(str, arguments)], cwd=in_venv.ROOT, capture_output=True, text=True, check=True).stdout

    def trained(self, model, **options):
        run = Run(job_file(self.folder, model=model, steps=40), output=self.folder / "out", **options).succeed()
        self.command("export", run.output, "--format", "keras-names", "--output", self.folder / "model.safetensors")
        return run.output

    def check(self, model, output, examples, seen, classes):
        numpy.save(self.folder / "x.npy", examples)
        expected = numpy.zeros((len(examples), classes))
        lines = self.command("predict", output, self.folder / "x.npy", "--json", "--top", classes).splitlines()
        for row, line in zip(expected, map(json.loads, lines), strict=True):
            for entry in line["top"]:
                row[entry["classNumber"]] = entry["probability"]
        # model(x), as model.predict(x) of this backend computes in bfloat16 where the processor does.
        numpy.testing.assert_allclose(numpy.asarray(model(seen.astype("f"))), expected, atol=1e-5)

    def test_the_code_of_the_page_is_lenet(self):
        output = self.trained("lenet5")
        (code,) = re.findall(r"```python\n(import keras\n.*?)```", (in_venv.ROOT / "docs/predict.md").read_text(), re.DOTALL)
        names = {}
        exec(code.replace('"lenet5.safetensors"', repr(str(self.folder / "model.safetensors"))), names)  # noqa: S102  (our own page)
        images = numpy.random.default_rng(1).integers(0, 256, (20, 28, 28), numpy.uint8)
        self.check(names["model"], output, images, images[..., None] / 255, 10)

    def test_recurrent_layers_take_the_weights(self):
        output = self.trained("linear", overrides=[f"training.model={RECURRENT}"])
        p = load_file(self.folder / "model.safetensors")
        layers = keras.layers
        model = keras.Sequential([
            keras.Input((6, 5)), layers.LSTM(7, return_sequences=True, name="a"), layers.GRU(6, return_sequences=True, name="b"),
            layers.Bidirectional(layers.LSTM(4), name="c"), layers.BatchNormalization(name="n"), layers.Dense(3, activation="softmax", name="d")])
        for layer in model.layers:
            parts = ("forward/", "backward/") if layer.name == "c" else ("",)
            names = [part + weight for part in parts for weight in ("kernel", "recurrent_kernel", "bias")]
            if layer.name in "nd":
                names = [weight.name for weight in layer.weights]
            layer.set_weights([p[f"{layer.name}/{name}"] for name in names])
        x = numpy.random.default_rng(2).normal(size=(20, 6, 5)).astype("f")
        self.check(model, output, x, x, 3)


if __name__ == "__main__":
    unittest.main()
