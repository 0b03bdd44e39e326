"""Data of one's own, from files to a served model: pictures in folders, rows of CSV; `init`, which
writes the job, and `data stats`, which counts."""
import csv
import io
import json
import pathlib
import random
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
import zlib

import trainyard
from trainyard import ROOT, TRAINER, Run

sys.path.insert(0, str(ROOT / "examples/data"))
import make_cifar  # noqa: E402
import make_digits  # noqa: E402
import make_table  # noqa: E402


def command(*arguments, stdin=None):
    return subprocess.run([TRAINER, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=trainyard.DEADLINE, check=False, input=stdin)


def header_only(side):
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))


class Pictures(unittest.TestCase):
    """The example job on real digits as PNG files."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-e2e-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.data = cls.folder / "digits"
        make_digits.write(cls.data, 4000)
        cls.run_of_example = Run(ROOT / "examples/pictures.yaml", output=cls.folder / "out", overrides=[f"training.data.dir={cls.data}", "training.epochs=3"]).succeed()
        cls.report = cls.run_of_example.report()

    def model(self):
        (file,) = (self.folder / "out/checkpoints").glob("step-*/model.json")
        return json.loads(file.read_text())

    def predict(self, *files, code=0):
        result = command("predict", self.folder / "out", "--json", *files)
        self.assertEqual(result.returncode, code, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()], result.stderr

    def test_lenet_learns_digits_from_png_files(self):
        self.assertGreater(self.report["eval"]["accuracy"], 0.9)

    def test_the_checkpoint_keeps_classes_and_fit(self):
        model = self.model()
        self.assertEqual(model["classes"], [str(digit) for digit in range(10)])
        self.assertEqual(model["input"], {"fit": "crop", "shape": [28, 28, 1]})

    def test_evaluate_has_the_same_part_of_the_set(self):
        result = command("evaluate", self.folder / "out", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        evaluation = json.loads(result.stdout)
        self.assertAlmostEqual(evaluation["accuracy"], self.report["eval"]["accuracy"], places=6)
        self.assertEqual(evaluation["examples"], sum(round(0.1 * len(list((self.data / str(digit)).iterdir()))) for digit in range(10)))

    def test_predict_takes_pictures_of_any_size_as_the_training_did(self):
        (pixels, label) = make_digits.digits()[9000]
        twice = b"".join(bytes(p for p in pixels[28 * (y // 2) : 28 * (y // 2 + 1)] for _ in range(2)) for y in range(56))
        wide = b"".join(bytes(30) + twice[56 * y : 56 * (y + 1)] + bytes(30) for y in range(56))
        files = []
        for name, data in (("small.png", make_digits.png(pixels)), ("large.png", make_digits.png(twice, 56, 56)), ("wide.png", make_digits.png(wide, 56, 116))):
            files.append(self.folder / name)
            files[-1].write_bytes(data)
        lines, _ = self.predict(*files)
        self.assertEqual([line["class"] for line in lines], [str(label)] * 3)
        self.assertEqual(lines[1]["probability"], lines[2]["probability"])

    def test_a_hostile_picture_ends_the_training_by_its_name(self):
        whole = (self.data / "3").iterdir().__next__().read_bytes()
        for name, data, says in (
            ("zero.png", b"", "the file is empty"),
            ("cut.png", whole[:100], "the PNG cannot be read"),
            ("bomb.png", header_only(60000), "PNG"),
            ("text.jpg", b"hello", "the file begins with the bytes 68 65 6c 6c 6f"),
            ("clear.png", make_digits.png(bytes(28 * 28 * 4), channels=4), "has transparent pixels"),
        ):
            with self.subTest(name):
                hostile = self.data / "3" / name
                hostile.write_bytes(data)
                self.addCleanup(hostile.unlink)
                run = Run(ROOT / "examples/pictures.yaml", output=self.folder / f"out-{name}",
                          overrides=[f"training.data.dir={self.data}", "training.data.evalFraction=null", "training.evaluate=null", "training.epochs=1"])
                self.assertEqual(run.wait(), 1, run.text)
                self.assertIn(f"3/{name}", run.text)
                self.assertIn(says, run.text)
                hostile.unlink()
                hostile.write_bytes(whole)

    def test_what_does_not_fit_the_model_is_told_before_anything_starts(self):
        result = command("inspect", ROOT / "examples/pictures.yaml", "--set", "training.data.size=[64, 64]", "--set", "training.data.channels=3")
        self.assertEqual(result.returncode, 1)
        self.assertIn("spec.training.data.size: found [64, 64], expected [28, 28]: the model's input", result.stderr)
        self.assertIn("spec.training.data.channels: found 3, expected 1", result.stderr)


def flowers(count, seed):
    """Rows of three kinds that two of the numbers and the colour tell apart, with some cells empty."""
    rng = random.Random(seed)
    kinds = {"aster": (1.5, 900.0, "white"), "bellflower": (4.5, 400.0, "blue"), "clover": (6.0, 100.0, "pink")}
    rows = []
    for _ in range(count):
        kind = rng.choice(list(kinds))
        length, weight, colour = kinds[kind]
        cells = [f"{rng.gauss(length, 0.6):.2f}", f"{rng.gauss(weight, 90):.1f}", f"{rng.gauss(0, 1):.3f}", colour if rng.random() < 0.8 else "green, pale"]
        if rng.random() < 0.1:
            cells[rng.randrange(4)] = ""
        rows.append([*cells, kind])
    return rows


def csv_text(rows):
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


CSV_JOB = """apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: rows}
spec:
  worker: {replicas: 1}
  training:
    model:
      input: {shape: [%(inputs)d]}
      layers:
        - {name: hidden, dense: {units: 16, activation: tanh}}
        - {name: out, dense: {units: %(outputs)d}}
      loss: %(loss)s
    data:
      format: csv
      dir: %(dir)s
      train: {files: [train.csv]}
      evalFraction: 0.25
      %(data)s
    batchSize: 16
    epochs: 20
    optimizer: {name: adam, learningRate: 0.01}
    seed: 3
    resources: {threads: 1}
"""
HEADER = ["length", "weight", "noise", "colour", "kind"]
FLOWERS = """label: kind
      missing: mean
      columns: [{name: length}, {name: weight}, {name: noise}, {name: colour, type: category}]"""


class Rows(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def train(self, text, data, *, inputs, outputs, loss="softmaxCrossEntropy"):
        (self.folder / "train.csv").write_text(text)
        job = self.folder / "job.yaml"
        job.write_text(CSV_JOB % {"inputs": inputs, "outputs": outputs, "loss": loss, "dir": self.folder, "data": data})
        run = Run(job, output=self.folder / "out")
        code = run.wait()
        return run, code

    def predict(self, *files, stdin=None, code=0):
        result = command("predict", self.folder / "out", "--json", *files, stdin=stdin)
        self.assertEqual(result.returncode, code, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()], result.stderr

    def test_classes_are_learnt_from_rows_and_served(self):
        run, code = self.train(csv_text([HEADER, *flowers(600, 1)]), FLOWERS, inputs=7, outputs=3)
        self.assertEqual(code, 0, run.text)
        report = run.report()
        self.assertGreater(report["eval"]["accuracy"], 0.95)
        (file,) = (self.folder / "out/checkpoints").glob("step-*/model.json")
        model = json.loads(file.read_text())
        self.assertEqual(model["classes"], ["aster", "bellflower", "clover"])
        self.assertEqual([column["name"] for column in model["columns"]], HEADER[:4])
        self.assertEqual(model["columns"][3]["categories"], ["blue", "green, pale", "pink", "white"])
        evaluation = json.loads(command("evaluate", self.folder / "out", "--json").stdout)
        self.assertEqual(evaluation["accuracy"], report["eval"]["accuracy"])
        # Columns in another order, without the label; from standard input, too.
        rows = flowers(200, 2)
        text = csv_text([["colour", "noise", "weight", "length"], *([row[3], row[2], row[1], row[0]] for row in rows)])
        (self.folder / "new.csv").write_text(text)
        lines, _ = self.predict(self.folder / "new.csv")
        right = sum(line["class"] == row[4] for line, row in zip(lines, rows, strict=True))
        self.assertGreater(right, 185)
        self.assertEqual([line["index"] for line in lines], list(range(200)))
        piped, _ = self.predict("-", stdin=text)
        self.assertEqual([line["class"] for line in piped], [line["class"] for line in lines])
        # A category that the training did not have is told once.
        (_, _), errors = self.predict("-", stdin="length,weight,noise,colour\n1,2,3,mauve\n1,2,3,grey\n")
        self.assertIn('-:2: column "colour" has the category "mauve", which the training did not have', errors)
        self.assertNotIn("grey", errors)
        # A wrong row is named, and the others are predicted.
        wrong = text.splitlines(keepends=True)[:4]
        wrong[2] = "blue,much,1,1\n"
        (self.folder / "wrong.csv").write_text("".join(wrong))
        lines, errors = self.predict(self.folder / "wrong.csv", code=1)
        self.assertEqual(len([line for line in lines if "class" in line]), 2)
        self.assertIn('wrong.csv:3: column "noise": found "much", expected a finite number', errors)
        # So is a file without rows.
        (self.folder / "header.csv").write_text(text.splitlines(keepends=True)[0])
        lines, errors = self.predict(self.folder / "header.csv", code=1)
        self.assertEqual([line["file"] for line in lines if "error" in line], [str(self.folder / "header.csv")])
        self.assertIn("header.csv: found a header and no rows, expected a row for each example", errors)

    def test_a_number_is_learnt_from_rows_without_a_header(self):
        rng = random.Random(5)
        points = [(rng.uniform(0, 100), rng.uniform(-1, 1)) for _ in range(500)]
        rows = [[f"{x:.3f}", f"{y:.4f}", f"{0.02 * x - y:.5f}"] for x, y in points]
        run, code = self.train("".join(";".join(row) + "\n" for row in rows), 'label: 2\n      header: false\n      delimiter: ";"', inputs=2, outputs=1, loss="meanSquaredError")
        self.assertEqual(code, 0, run.text)
        self.assertLess(run.report()["eval"]["loss"], 0.02)
        (line,), _ = self.predict("-", stdin="50;0.5\n")
        self.assertAlmostEqual(line["values"][0], 0.5, delta=0.2)

    def test_what_is_wrong_with_a_file_is_told_by_its_line(self):
        good = [HEADER, *flowers(20, 1)]
        for text, says in (
            (csv_text([*good, ["1", "2", "3", "blue"]]), "train.csv:22: the row has 4 cells, those before it have 5"),
            (csv_text([*good, ["1", "2", "x", "blue", "clover"]]), 'train.csv:22: found "x", expected a finite number'),
            (csv_text([*good, ["1", "2", "3", "blue", "daisy"]]), "its labels are 4 classes, the model has 3"),
            (csv_text([["a", "b", "c", "d", "e"], *good[1:]]), 'has no column "kind"'),
            ("", "train.csv is empty"),
        ):
            with self.subTest(says):
                run, code = self.train(text, FLOWERS, inputs=7, outputs=3)
                self.assertEqual(code, 1, run.text)
                self.assertIn(says, run.text)


def npy(data, shape, descr):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


class Table(unittest.TestCase):
    def test_the_example_learns_the_digits_from_their_measurements(self):
        with tempfile.TemporaryDirectory(prefix="trainyard-e2e-") as folder:
            make_table.write(pathlib.Path(folder) / "digits.csv", 10000)
            run = Run(ROOT / "examples/table.yaml", output=pathlib.Path(folder) / "out", overrides=[f"training.data.dir={folder}", "training.epochs=6"])
            self.assertEqual(run.wait(), 0, f"{run.text}\n{run.logs()}")
            self.assertGreater(run.report()["eval"]["accuracy"], 0.9)


class Init(unittest.TestCase):
    """The job files that `init` writes train at once."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.job = self.folder / "job.yaml"

    def init(self, data, *overrides):
        """Trains by the job that is written; its report."""
        self.job.unlink(missing_ok=True)
        result = command("init", data, "--output", self.job)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(shlex.split(result.stdout.splitlines()[-1]), ["trainyard-trainer", "launch", str(self.job)])
        run = Run(self.job, output=self.folder / f"out{len(list(self.folder.glob('out*')))}", overrides=["training.resources={threads: 1}", *overrides])
        self.assertEqual(run.wait(), 0, f"{self.job.read_text()}\n{run.text}")
        return run.report()

    SHORT = ("training.epochs=null", "training.steps=4")

    def test_pictures(self):
        make_digits.write(self.folder / "My Digits", 1500)
        report = self.init(self.folder / "My Digits", "training.epochs=6")
        self.assertIn("name: my-digits\n", self.job.read_text())
        self.assertIn("inputShape: [28, 28, 1], classes: 10", self.job.read_text())
        self.assertGreater(report["eval"]["accuracy"], 0.9)

    def test_pictures_of_two_splits(self):
        make_digits.write(self.folder / "digits/train", 100)
        make_digits.write(self.folder / "digits/val", 100)
        report = self.init(self.folder / "digits/", *self.SHORT)
        self.assertIn("eval: {folder: val}", self.job.read_text())
        self.assertIn("accuracy", report["eval"])

    def test_files_that_are_no_pictures_are_told_once(self):
        make_digits.write(self.folder / "digits", 100)
        (self.folder / "digits/3/notes.txt").write_text("of the third class")
        result = command("init", self.folder / "digits", "--output", self.job)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("1 file is left out, such as 3/notes.txt"), 1, result.stderr)

    def test_csv(self):
        rows = flowers(600, 1)
        (self.folder / "rows").mkdir()
        (self.folder / "rows/flowers.csv").write_text(csv_text([[*HEADER, "id"], *([*row, f"id{number}"] for number, row in enumerate(rows))]).replace("kind", "species", 1))
        report = self.init(self.folder / "rows/flowers.csv")
        self.assertIn('# "id" is left out: it has more than 100 different texts', self.job.read_text())
        self.assertGreater(report["eval"]["accuracy"], 0.93)

    def test_the_next_command_is_quoted_for_the_shell(self):
        (self.folder / "flowers.csv").write_text(csv_text([HEADER, *flowers(60, 1)]))
        self.job = self.folder / "it's my job.yaml"
        self.init(self.folder / "flowers.csv", *self.SHORT)

    def test_csv_with_a_number_to_learn(self):
        (self.folder / "rows").mkdir()
        (self.folder / "rows/points.csv").write_text("".join(f"{x};{0.5 * x + 0.25}\n" for x in range(200)))
        self.init(self.folder / "rows", *self.SHORT)
        self.assertIn("loss: meanSquaredError", self.job.read_text())

    def test_arrays_and_text(self):
        (self.folder / "cifar").mkdir()
        for name in ("data_batch_1.bin", "test_batch.bin"):
            make_cifar.write(self.folder / "cifar" / name, 40, random.Random(1))
        digits = make_digits.digits()[:60]
        with zipfile.ZipFile(self.folder / "digits.npz", "w") as archive:
            archive.writestr("x_train.npy", npy(b"".join(pixels for pixels, _ in digits), (60, 28, 28), "|u1"))
            archive.writestr("y_train.npy", npy(bytes(label for _, label in digits), (60,), "|u1"))
        for data, says in (
            (ROOT / "examples/data/mnist", "format: idx"),
            (ROOT / "examples/data/tinyshakespeare/input.txt", "tokens: characters"),
            (self.folder / "cifar", "format: cifar10"),
            (self.folder / "digits.npz", "format: numpy"),
        ):
            with self.subTest(says):
                self.init(data, *self.SHORT)
                self.assertIn(says, self.job.read_text())

    def write_arrays(self, name, **arrays):
        with zipfile.ZipFile(self.folder / name, "w") as archive:
            for array, bytes_of in arrays.items():
                archive.writestr(f"{array}.npy", bytes_of)
        return self.folder / name

    def test_archives_are_told_apart_by_their_names(self):
        labels = npy(bytes(i % 2 for i in range(40)), (40,), "|u1")
        folder = self.folder / "archives"
        folder.mkdir()
        for name in ("archives/more.npz", "archives/train.npz", "archives/test.npz"):
            self.write_arrays(name, x=npy(bytes(40 * 4), (40, 4), "|u1"), y=labels)
        self.init(folder, *self.SHORT)
        job = self.job.read_text()
        self.assertIn('# "train.npz" trains; 1 file is left out: "more.npz"\n', job)
        self.assertIn('train: {file: "train.npz", images: x, labels: y}', job)
        self.assertIn('eval: {file: "test.npz", images: x, labels: y}', job)

    def test_a_text_and_its_evaluation_are_told_apart_by_their_names(self):
        folder = self.folder / "words"
        folder.mkdir()
        for name in ("ptb.test.txt", "ptb.train.txt", "ptb.valid.txt"):
            (folder / name).write_text("the quick brown fox jumps over the lazy dog " * 60)
        self.init(folder, *self.SHORT)
        job = self.job.read_text()
        self.assertIn('train: {files: ["ptb.train.txt"]}', job)
        self.assertIn('eval: {files: ["ptb.valid.txt"]}', job)
        self.assertIn('# "ptb.train.txt" trains; 1 file is left out: "ptb.test.txt"\n', job)

    def test_arrays_of_any_number_of_axes(self):
        labels = npy(bytes(i % 2 for i in range(40)), (40,), "|u1")
        self.init(self.write_arrays("one.npz", x=npy(struct.pack("<40f", *range(40)), (40,), "<f4"), y=labels), *self.SHORT)
        self.assertIn("input: {shape: [1]}", self.job.read_text())
        self.init(self.write_arrays("six.npz", x=npy(bytes(40 * 32), (40, 2, 2, 2, 2, 2), "|u1"), y=labels), *self.SHORT)
        self.assertIn("input: {shape: [32]}", self.job.read_text())
        self.init(self.write_arrays("two.npz", x=npy(bytes(40 * 128), (40, 8, 8, 2), "|u1"), y=labels), *self.SHORT)

    def test_arrays_that_no_job_can_train_on_are_told(self):
        pixels = npy(bytes(60 * 4), (60, 4), "|u1")
        labels = npy(bytes(i % 2 for i in range(60)), (60,), "|u1")
        for arrays, says in (
            ({"x": npy(b"", (0, 4), "|u1"), "y": npy(b"", (0,), "|u1")}, "x in a.npz has the shape [0, 4], expected numbers in it"),
            ({"x": pixels, "y": npy(b"\0\1" * 30, (60,), "|b1")}, "y in a.npz has elements of type '|b1'"),
            ({"x": npy(bytes(480), (60, 4), "<f2"), "y": labels}, "x in a.npz has elements of type '<f2'"),
            ({"x": pixels, "y": npy(struct.pack("<60i", -1, *range(59)), (60,), "<i4")}, "label -1 of record 0 is not one of the model's 59 classes"),
            ({"x": pixels, "y": npy(bytes(i % 2 for i in range(50)), (50,), "|u1")}, "x in a.npz has 60 examples but y in a.npz has 50 labels"),
            ({"x": pixels, "y": npy(struct.pack("<120f", *range(120)), (60, 2), "<f4")}, "record 0 has 2 numbers, the model's output is [1]"),
        ):
            with self.subTest(says):
                result = command("init", self.write_arrays("a.npz", **arrays), "--output", self.job)
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertIn(says, result.stderr.replace(f"{self.folder}/", ""))
                self.assertFalse(self.job.exists())

    def test_records(self):
        golden = ROOT / "tests/golden/data"
        for number, (files, says) in enumerate((
            (["bytes.tfrecord"], "features: {image: image_raw, label: label}"),
            (["part0.tfrecord", "part1.tfrecord"], 'train: {files: ["part0.tfrecord", "part1.tfrecord"]'),
            (["binary.parquet"], "format: parquet"),
        )):
            with self.subTest(files):
                folder = self.folder / f"records{number}"
                folder.mkdir()
                for file in files:
                    shutil.copy(golden / file, folder)
                shutil.copy(golden / files[0], folder / f"test{pathlib.Path(files[0]).suffix}")
                if files[0].endswith(".parquet") and not pathlib.Path(TRAINER).with_name("trainyard-parquet.so").exists():
                    self.assertIn("Parquet files are not read by this build", command("init", folder, "--output", self.folder / "none.yaml").stderr)
                    continue
                self.init(folder, *self.SHORT)
                self.assertIn(says, self.job.read_text())
                self.assertIn("eval: {files: [", self.job.read_text())

    def test_records_of_pictures_in_files_are_refused_by_name(self):
        folder = self.folder / "packed"
        folder.mkdir()
        shutil.copy(ROOT / "tests/golden/data/png.tfrecord", folder)
        result = command("init", folder, "--output", self.job)
        self.assertEqual(result.returncode, 1)
        self.assertIn("png.tfrecord", result.stderr)
        self.assertIn("only raw pixels are read", result.stderr)

    def test_what_is_no_data_is_told_and_no_file_written_over(self):
        (self.folder / "empty").mkdir()
        for data, says in ((self.folder / "empty", "holds none of these"), (self.folder / "nowhere", "No such file or directory")):
            result = command("init", data, "--output", self.job)
            self.assertEqual(result.returncode, 1)
            self.assertIn(says, result.stderr)
            self.assertFalse(self.job.exists())
        self.job.write_text("mine")
        result = command("init", ROOT / "examples/data/mnist", "--output", self.job)
        self.assertEqual(result.returncode, 1)
        self.assertIn("is there already", result.stderr)
        self.assertEqual(self.job.read_text(), "mine")

    def test_of_several_at_once_one_writes_the_file(self):
        (self.folder / "flowers.csv").write_text(csv_text([HEADER, *flowers(60, 1)]))
        arguments = list(map(str, (TRAINER, "init", self.folder / "flowers.csv", "--output", self.job)))
        several = [subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(8)]
        self.assertEqual(sorted(one.wait(timeout=120) for one in several), [0] + [1] * 7)
        # A link that leads nowhere is a name that is taken.
        self.job.unlink()
        self.job.symlink_to(self.folder / "nowhere.yaml")
        result = command("init", self.folder / "flowers.csv", "--output", self.job)
        self.assertIn("is there already", result.stderr)
        self.assertFalse((self.folder / "nowhere.yaml").exists())


class Stats(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_job_and_a_folder_are_counted(self):
        result = command("data", "stats", ROOT / "examples/lenet5-local.yaml", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        stats = json.loads(result.stdout)
        self.assertEqual((stats["train"]["examples"], stats["eval"]["examples"]), (9000, 1000))
        images, labels = zip(*make_digits.digits()[:9000], strict=True)
        (channel,) = stats["train"]["channels"]
        self.assertAlmostEqual(channel["mean"], sum(map(sum, images)) / 9000 / 784 / 255, places=6)
        self.assertEqual([entry["examples"] for entry in stats["train"]["classes"]], [labels.count(digit) for digit in range(10)])
        make_digits.write(self.folder / "digits", 200)
        result = command("data", "stats", self.folder / "digits")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("examples of shape [28, 28, 1]", result.stdout)
        self.assertRegex(result.stdout, r"numbers +mean 0\.1\d+  std 0\.(28|29|30)")

    def test_every_damaged_picture_is_named(self):
        make_digits.write(self.folder / "digits", 200)
        for name in ("0/a.png", "5/b.jpg"):
            (self.folder / "digits" / name).write_bytes(b"broken")
        result = command("data", "stats", self.folder / "digits")
        self.assertEqual(result.returncode, 1)
        for name in ("0/a.png", "5/b.jpg"):
            self.assertIn(f"{name}: the file begins with the bytes 62 72 6f 6b 65 6e", result.stdout)
        self.assertIn("examples are damaged; remove or mend them", result.stderr)


if __name__ == "__main__":
    unittest.main()
