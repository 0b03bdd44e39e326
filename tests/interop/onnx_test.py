"""Exported networks in other hands: onnx.checker passes them, and onnxruntime computes what our kernels compute."""
import in_venv  # isort: skip  (starts over in the environment that has the readers)

import json
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy
import onnx
import onnxruntime
from safetensors.numpy import load_file

sys.path.insert(0, str(in_venv.ROOT / "tests/e2e"))
from trainyard import TRAINER, Run, job_file  # noqa: E402

PROGRAM = pathlib.Path(TRAINER).resolve().parents[1] / "tests/export_networks"
NETWORKS = 200
MOST = 1e-5  # of the largest number of an output

CELLS = ("lstm", "gru", "simpleRnn")
ACTIVATIONS = ("linear", "tanh", "relu", "sigmoid")


class Networks:
    """Random networks of all kinds of layers, small enough that hundreds run in seconds. Shapes are without the batch."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.kinds = set()

    def layer(self, kind, **fields):
        self.kinds.add(kind)
        name = f"l{len(self.layers)}"
        layer = {"name": name, kind: fields}
        self.layers.append(layer)
        return name

    def activation(self):
        return self.random.choice(ACTIVATIONS)

    def padding(self):
        return self.random.choice(("valid", "same"))

    def pair(self, most):
        return [self.random.randint(1, most), self.random.randint(1, most)]

    @staticmethod
    def windows(extent, size, stride, padding):
        return -(-extent // stride) if padding == "same" else (extent - size) // stride + 1

    def image_layer(self, shape):
        height, width, channels = shape
        kind = self.random.choice(("conv2d", "conv2d", "maxPool2d", "avgPool2d", "batchNormalization", "residual", "any"))
        if kind == "any":
            self.same_shape_layer()
            return shape
        if kind == "batchNormalization":
            self.layer(kind, epsilon=self.random.choice((1e-3, 1e-5)))
            return shape
        if kind == "residual":
            start = self.layer("activation", function="tanh")
            kernel = self.pair(3)
            end = self.layer("conv2d", filters=channels, kernelSize=kernel, padding="same", activation=self.activation())
            self.add([start, end] if self.random.random() < 0.7 else [start, end, start])
            return shape
        size = [min(self.random.randint(1, 4), extent) for extent in (height, width)]
        strides = self.pair(3)
        padding = self.padding()
        fields = {"strides": strides, "padding": padding}
        if kind == "conv2d":
            channels = self.random.randint(1, 5)
            self.layer(kind, filters=channels, kernelSize=size, activation=self.activation(), useBias=self.random.random() < 0.8, **fields)
        else:
            self.layer(kind, poolSize=size, **fields)
        return [*(self.windows(*each, padding) for each in zip((height, width), size, strides, strict=True)), channels]

    def add(self, inputs):
        self.kinds.add("add")
        self.layers.append({"name": f"l{len(self.layers)}", "inputs": inputs, "add": {}})

    def same_shape_layer(self):
        kind = self.random.choice(("activation", "dropout", "batchNormalization", "softmax"))
        if kind == "softmax":
            self.layer("activation", function="softmax")
        else:
            self.layer(kind, **{"activation": {"function": self.activation()}, "dropout": {"rate": 0.5}, "batchNormalization": {}}[kind])

    def sequence_layer(self, shape, last):
        steps, features = shape
        kind = self.random.choice((*CELLS, "bidirectional", "dense", "any"))
        if kind == "any":
            self.same_shape_layer()
            return shape
        units = self.random.randint(1, 6)
        if kind == "dense":
            self.layer(kind, units=units, activation=self.activation(), useBias=self.random.random() < 0.8)
            return [steps, units]
        fields = {"units": units, "returnSequences": not last, "useBias": self.random.random() < 0.8}
        merge = self.random.choice(("concat", "sum"))
        cell = self.random.choice(CELLS) if kind == "bidirectional" else kind
        if cell == "simpleRnn":
            fields["activation"] = self.activation()
        if kind == "bidirectional":
            self.kinds.add(cell)
            self.layer(kind, layer={cell: fields}, mergeMode=merge)
            units *= 2 if merge == "concat" else 1
        else:
            fields["stateful"] = self.random.random() < 0.4
            fields["goBackwards"] = self.random.random() < 0.3
            self.layer(kind, **fields)
        return [steps, units] if fields["returnSequences"] else [units]

    def flat(self, shape):
        if len(shape) == 3 and self.random.random() < 0.3:
            self.layer("globalAveragePool2d")
            return shape[-1:]
        if self.random.random() < 0.5:
            self.layer("flatten")
        else:
            self.layer("reshape", targetShape=[-1])
        return [int(numpy.prod(shape))]

    def image(self):
        shape = entry = [self.random.randint(3, 9), self.random.randint(3, 9), self.random.randint(1, 3)]
        for _ in range(self.random.randint(1, 6)):
            shape = self.image_layer(shape)
        if self.random.random() < 0.2:
            shape = [shape[0] * shape[1], shape[2]]
            self.layer("reshape", targetShape=shape)
            shape = self.sequence_layer(shape, last=True)
        elif self.random.random() < 0.8:
            shape = self.flat(shape)
        return {"shape": entry}, shape

    def sequence(self, tokens):
        shape = [self.random.randint(1, 7), self.random.randint(1, 5)]
        entry = {"shape": list(shape)}
        if tokens:
            entry = {"shape": shape[:1], "vocabulary": 11}
            self.layer("embedding", outputDim=shape[1])
        for _ in range(self.random.randint(1, 3)):
            shape = self.sequence_layer(shape, last=False)
        if self.random.random() < 0.4:
            shape = self.sequence_layer(shape, last=True)
        if self.random.random() < 0.2:
            shape = self.flat(shape)
        return entry, shape

    def model(self):
        self.layers = []
        start = self.random.choice(("image", "image", "sequence", "tokens", "vector"))
        if start == "image":
            entry, shape = self.image()
        elif start == "vector":
            shape = [self.random.randint(1, 9)]
            entry = {"shape": shape}
        else:
            entry, shape = self.sequence(start == "tokens")
        for _ in range(self.random.randint(0 if self.layers else 1, 2)):
            if self.random.random() < 0.5:
                self.same_shape_layer()
            shape = [*shape[:-1], self.random.randint(1, 6)]
            self.layer("dense", units=shape[-1], activation=self.activation(), useBias=self.random.random() < 0.8)
        if self.random.random() < 0.2:
            self.layer("activation", function="softmax")
        steps = len(shape) == 2 and any(layer.keys() & {*CELLS, "bidirectional", "embedding"} for layer in self.layers)
        classes = shape[-1] > 1 and (len(shape) == 1 or steps) and self.random.random() < 0.6
        return {"input": entry, "layers": self.layers, "loss": "softmaxCrossEntropy" if classes else "meanSquaredError"}


class Exported(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-onnx-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def export(self, networks):
        """{name: (batch, model)}"""
        listed = [{"name": name, "batch": batch, "model": model} for name, (batch, model) in networks.items()]
        (self.folder / "networks.json").write_text(json.dumps(listed))
        done = subprocess.run([PROGRAM, self.folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def session(self, name):
        path = self.folder / f"{name}.onnx"
        onnx.checker.check_model(onnx.load(path), full_check=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def numbers(self, name):
        """The inputs, and the outputs of our kernels: those of trainings, and those of predictions."""
        numbers = {"in": {}, "evaluated": {}, "predicted": {}}
        for key, x in load_file(self.folder / f"{name}.safetensors").items():
            kind, name = key.split(":", 1)
            numbers[kind][name] = x.astype(numpy.int64) if x.dtype == numpy.int32 else x
        return numbers["in"], [numbers["evaluated"], numbers["predicted"]]

    def compare(self, session, inputs, of_kernels):
        names = [output.name for output in session.get_outputs()]
        outputs = session.run(None, inputs)
        for expected in of_kernels:
            self.assertEqual(sorted(names), sorted(expected))
            for name, found in zip(names, outputs, strict=True):
                numpy.testing.assert_allclose(found, expected[name], rtol=0, atol=MOST * max(1e-3, numpy.abs(expected[name]).max()), err_msg=name)


class Onnx(Exported):
    def test_onnxruntime_agrees_on_random_networks(self):
        random_networks = Networks(seed=1)
        networks = {f"n{i}": (3, random_networks.model()) for i in range(NETWORKS)}
        self.export(networks)
        for name, (_, model) in networks.items():
            with self.subTest(name, model=json.dumps(model)):
                session = self.session(name)
                inputs, outputs = self.numbers(name)
                self.compare(session, inputs, outputs)
                self.compare(session, {key: x[1:2] for key, x in inputs.items()}, [{key: y[1:2] for key, y in of.items()} for of in outputs])
        layers = {"dense", "conv2d", "maxPool2d", "avgPool2d", "globalAveragePool2d", "flatten", "reshape", "activation", "dropout", "add",
                  "batchNormalization", "embedding", "lstm", "gru", "simpleRnn", "bidirectional"}  # fmt: skip
        self.assertEqual(random_networks.kinds, layers)

    def test_onnxruntime_agrees_on_all_presets(self):
        presets = {name: (2, {"preset": name}) for name in ("linear", "lenet5", "mnistCnn", "resnet56v2")}
        presets["ptbLstm"] = (2, {"preset": "ptbLstm", "vocabulary": 500, "dropout": 0.5})
        self.export(presets)
        for name in presets:
            with self.subTest(name):
                self.compare(self.session(name), *self.numbers(name))

    def test_free_steps_are_those_of_a_network_that_is_made_for_them(self):
        for tokens in (False, True):
            networks = {}
            for steps in (3, 8):
                layers = [{"name": "l", "lstm": {"units": 4, "returnSequences": True, "stateful": True}},
                          {"name": "b", "bidirectional": {"layer": {"gru": {"units": 3, "returnSequences": True}}}},
                          {"name": "n", "batchNormalization": {}}, {"name": "d", "dense": {"units": 5}}]  # fmt: skip
                entry = {"shape": [steps], "vocabulary": 9} if tokens else {"shape": [steps, 2]}
                if tokens:
                    layers.insert(0, {"name": "e", "embedding": {"outputDim": 2}})
                networks[f"steps{steps}"] = (2, {"input": entry, "layers": layers, "loss": "softmaxCrossEntropy"})
            self.export(networks)
            session = self.session("steps3")
            self.assertEqual(session.get_inputs()[0].shape[:2], ["batch", "steps"])
            self.compare(session, *self.numbers("steps8"))


class Checkpoints(Exported):
    """The commands, from a training to onnxruntime and back."""

    def command(self, *arguments):
        done = subprocess.run([TRAINER, *map(str, arguments)], cwd=in_venv.ROOT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def train(self, overrides=(), output=None, **options):
        run = Run(job_file(self.folder, **options), output=output or tempfile.mkdtemp(dir=self.folder), overrides=overrides)
        self.assertEqual(run.wait(), 0, f"{run.text}\n{run.logs()}")
        return run

    def probabilities(self, output, examples, classes=10):
        numpy.save(self.folder / "x.npy", examples)
        rows = numpy.zeros((len(examples), classes), numpy.float32)
        lines = self.command("predict", output, self.folder / "x.npy", "--json", "--top", classes).splitlines()
        for row, line in zip(rows, map(json.loads, lines), strict=True):
            for entry in line["top"]:
                row[entry["classNumber"]] = entry["probability"]
        return rows

    def images(self):
        return numpy.random.default_rng(1).integers(0, 256, (20, 28, 28, 1), numpy.uint8)

    def test_the_snippet_of_the_page_runs(self):
        output = self.train(steps=5).output
        path = self.folder / "lenet5.onnx"
        self.command("export", output, "--format", "onnx", "--output", path)
        snippet = re.search(r"```python\n(import numpy\nimport onnxruntime.*?)```", (in_venv.ROOT / "docs/predict.md").read_text(), re.DOTALL)[1]
        names = {}
        exec(snippet.replace('"lenet5.onnx"', repr(str(path))), names)  # noqa: S102  (our own page)
        expected = self.probabilities(output, numpy.zeros((2, 28, 28, 1), numpy.uint8))
        numpy.testing.assert_allclose(names["likely"], expected, atol=MOST)
        properties = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
        self.assertEqual(properties["trainyard.step"], "5")
        self.assertEqual(json.loads(properties["trainyard.model"])["training"]["model"], {"preset": "lenet5"})

    def test_transforms_in_the_graph_are_those_of_predict(self):
        pipelines = ("[{map: {normalize: {mean: [0.13], std: 0.31}}}]", "[{map: {normalize: {scale: 1}}}, {map: {normalize: {mean: 30, std: 200}}}]", "[]")
        images = self.images()
        for pipeline in pipelines:
            output = self.train(steps=5, overrides=[f"training.data.pipeline={pipeline}"] if pipeline != "[]" else []).output
            for taken, examples in (("uint8", images), ("float32", images.astype(numpy.float32) / 100)):
                with self.subTest(pipeline, taken=taken):
                    self.command("export", output, "--format", "onnx", "--with-transforms", taken, "--output", self.folder / "net.onnx")
                    (found,) = self.session("net").run(["probabilities"], {"input": examples})
                    numpy.testing.assert_allclose(found, self.probabilities(output, examples), rtol=0, atol=MOST)

    def test_columns_in_the_graph_are_those_of_predict(self):
        draw = numpy.random.default_rng(2)
        years, heights, sexes = draw.integers(1990, 2030, 60), draw.normal(1.7, 0.1, 60), draw.integers(0, 2, 60)
        cells = [f"{year},{'' if i % 9 == 0 else round(height, 6)}" for i, (year, height) in enumerate(zip(years, heights, strict=True))]
        table = self.folder / "table.csv"
        table.write_text("year,height,sex,kind\n" + "".join(f"{cell},{'fm'[sex]},{i % 2}\n" for i, (cell, sex) in enumerate(zip(cells, sexes, strict=True))))
        self.command("init", table, "--output", self.folder / "table.yaml")
        output = self.folder / "table"
        self.command("launch", self.folder / "table.yaml", "--output", output, "--set", "training.epochs=2", "--progress", "none")
        self.command("export", output, "--format", "onnx", "--with-transforms", "float32", "--output", self.folder / "net.onnx")
        heights[::9] = numpy.nan
        examples = numpy.stack([years, heights, sexes == 0, sexes == 1], axis=1).astype(numpy.float32)
        (found,) = self.session("net").run(["probabilities"], {"input": examples})
        lines = self.command("predict", output, table, "--json", "--top", 2).splitlines()
        expected = [{entry["classNumber"]: entry["probability"] for entry in json.loads(line)["top"]} for line in lines]
        numpy.testing.assert_allclose(found, [[row[0], row[1]] for row in expected], rtol=0, atol=MOST)

    def test_a_standardised_label_in_the_graph_has_its_unit(self):
        draw = numpy.random.default_rng(3)
        rooms, areas = draw.integers(1, 7, 80), draw.normal(90, 20, 80).round(3)
        table = self.folder / "houses.csv"
        table.write_text("rooms,area,price\n" + "".join(f"{room},{area},{3000 * area + 1000 * room + 0.5}\n" for room, area in zip(rooms, areas, strict=True)))
        self.command("init", table, "--output", self.folder / "houses.yaml")
        self.assertIn("standardizeLabel: true", (self.folder / "houses.yaml").read_text())
        output = self.folder / "houses"
        self.command("launch", self.folder / "houses.yaml", "--output", output, "--set", "training.epochs=100", "--progress", "none")
        expected = [json.loads(line)["values"] for line in self.command("predict", output, table, "--json").splitlines()]
        examples = numpy.stack([rooms, areas], axis=1).astype(numpy.float32)
        self.command("export", output, "--format", "onnx", "--with-transforms", "float32", "--output", self.folder / "net.onnx")
        (found,) = self.session("net").run(["prediction"], {"input": examples})
        numpy.testing.assert_allclose(found, expected, rtol=MOST)
        self.assertGreater(json.loads(self.command("evaluate", output, "--json"))["r2"], 0.9)
        self.command("export", output, "--format", "onnx", "--output", self.folder / "plain.onnx")
        model = json.loads(next((output / "checkpoints").glob("step-*/model.json")).read_text())
        means, stds = ([column[name] for column in model["columns"]] for name in ("mean", "std"))
        (plain,) = self.session("plain").run(["prediction"], {"input": ((examples - means) / stds).astype(numpy.float32)})
        numpy.testing.assert_allclose(plain * model["label"]["std"] + model["label"]["mean"], expected, rtol=MOST)

    def test_a_training_goes_on_from_an_imported_file(self):
        first = self.train(steps=60).output
        self.command("export", first, "--format", "onnx", "--output", self.folder / "net.onnx")
        tuned = self.folder / "tuned"
        self.command("import", self.folder / "net.onnx", "--job", self.folder / "job.yaml", "--output", tuned)
        numpy.testing.assert_array_equal(self.probabilities(tuned, self.images()), self.probabilities(first, self.images()))
        run = self.train(steps=20, output=tuned)
        self.assertIn("step-0 (step 0)", run.logs())
        self.assertLess(run.report()["firstLoss"], 1.0)  # of start values 2.3

    def compare_imported(self, nodes, weights, shape, model, to_ours):
        """A graph of [batch, *shape] that another program might write: here and in onnxruntime it gives the same probabilities."""
        tensors = [onnx.numpy_helper.from_array(values.astype(numpy.float32) if values.dtype == float else values, name) for name, values in weights.items()]
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(nodes, "foreign", [value("x", 1, ["batch", *shape])], [value("y", 1, ["batch", 4])], tensors)
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), self.folder / "foreign.onnx")
        x = numpy.random.default_rng(6).normal(size=(20, *shape)).astype(numpy.float32)
        (expected,) = self.session("foreign").run(None, {"x": x})
        tuned = self.folder / "tuned"
        job = job_file(self.folder, model="linear")
        printed = self.command("import", self.folder / "foreign.onnx", "--job", job, "--output", tuned, "--set", f"training.model={model}")
        program, *launch = shlex.split(printed.splitlines()[1], comments=True)
        self.assertEqual([program, *launch], ["trainyard-trainer", "launch", str(job), "--output", str(tuned), "--set", f"training.model={model}"])
        numpy.testing.assert_allclose(self.probabilities(tuned, x.transpose(to_ours), expected.shape[1]), expected, rtol=0, atol=MOST)

    def test_a_convolutional_network_of_another_program_computes_the_same_here(self):
        normal = numpy.random.default_rng(7).normal
        weights = {"conv.weight": normal(size=(3, 2, 3, 3)), "scale": normal(size=3), "shift": normal(size=3), "mean": normal(size=3),
                   "variance": numpy.abs(normal(size=3)) + 0.1, "fc.weight": normal(size=(4, 18)), "fc.bias": normal(size=4)}  # fmt: skip
        node = onnx.helper.make_node
        nodes = [node("Conv", ["x", "conv.weight"], ["conv"], pads=[1, 1, 1, 1]),
                 node("BatchNormalization", ["conv", "scale", "shift", "mean", "variance"], ["norm"], epsilon=1e-5), node("Relu", ["norm"], ["relu"]),
                 node("MaxPool", ["relu"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]), node("Flatten", ["pool"], ["flat"]),
                 node("Gemm", ["flat", "fc.weight", "fc.bias"], ["fc"], transB=1), node("Softmax", ["fc"], ["y"])]  # fmt: skip
        layers = ("{conv2d: {filters: 3, kernelSize: 3, padding: same, useBias: false}}, {batchNormalization: {epsilon: 1e-5}}, "
                  "{activation: {function: relu}}, {maxPool2d: {}}, flatten, {dense: {units: 4}}")  # fmt: skip
        model = f"{{input: {{shape: [6, 5, 2]}}, layers: [{layers}], loss: softmaxCrossEntropy}}"
        self.compare_imported(nodes, weights, (2, 6, 5), model, (0, 2, 3, 1))

    def test_a_recurrent_network_of_another_program_computes_the_same_here(self):
        for operator, layer, gates in (("LSTM", "lstm", 4), ("GRU", "gru", 3), ("RNN", "simpleRnn", 1)):
            with self.subTest(layer):
                normal = numpy.random.default_rng(8).normal
                weights = {"w": normal(size=(2, gates * 3, 5)), "r": normal(size=(2, gates * 3, 3)), "b": normal(size=(2, gates * 6)),
                           "fc": normal(size=(6, 4)), "fc.bias": normal(size=4), "flat": numpy.array([0, -1])}  # fmt: skip
                node = onnx.helper.make_node
                more = {"linear_before_reset": 1} if operator == "GRU" else {}
                nodes = [node("Transpose", ["x"], ["steps"], perm=[1, 0, 2]),
                         node(operator, ["steps", "w", "r", "b"], ["", "last"], hidden_size=3, direction="bidirectional", **more),
                         node("Transpose", ["last"], ["samples"], perm=[1, 0, 2]), node("Reshape", ["samples", "flat"], ["state"]),
                         node("MatMul", ["state", "fc"], ["product"]), node("Add", ["fc.bias", "product"], ["sum"]), node("Softmax", ["sum"], ["y"])]  # fmt: skip
                layers = f"{{bidirectional: {{layer: {{{layer}: {{units: 3}}}}}}}}, {{dense: {{units: 4}}}}"
                model = f"{{input: {{shape: [6, 5]}}, layers: [{layers}], loss: softmaxCrossEntropy}}"
                self.compare_imported(nodes, weights, (6, 5), model, (0, 1, 2))
                shutil.rmtree(self.folder / "tuned")

    def test_a_file_of_other_layers_is_refused_and_nothing_is_written(self):
        output = self.train(steps=2).output
        self.command("export", output, "--format", "onnx", "--output", self.folder / "net.onnx")
        refused = subprocess.run([TRAINER, "import", self.folder / "net.onnx", "--job", self.folder / "job.yaml", "--output", self.folder / "other",
                                  "--set", "training.model={preset: mnistCnn}"], cwd=in_venv.ROOT, capture_output=True, text=True)  # fmt: skip
        self.assertEqual(refused.returncode, 1)
        self.assertIn("net.onnx: tensor 'conv1/kernel' is [5, 5, 1, 20] in the order of parameter 'conv1/kernel', expected [3, 3, 1, 32]", refused.stderr)
        self.assertFalse((self.folder / "other").exists())
        again = subprocess.run([TRAINER, "import", self.folder / "net.onnx", "--job", self.folder / "job.yaml", "--output", output],
                               cwd=in_venv.ROOT, capture_output=True, text=True)  # fmt: skip
        self.assertIn("has the checkpoint of step 2 already", again.stderr)


if __name__ == "__main__":
    unittest.main()
