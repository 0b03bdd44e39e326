"""A trained network used: evaluate and predict on real digits, and what they say of wrong input."""
import collections
import gzip
import itertools
import json
import pathlib
import struct
import subprocess
import tempfile
import unittest
import zlib

import trainyard
from trainyard import ROOT, TRAINER, Run, job_file

DIGITS = ROOT / "examples/data/mnist"
EVAL = range(9000, 9200)  # trainyard.MNIST's


def command(*arguments, stdin=None):
    return subprocess.run([TRAINER, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, input=stdin)


def digits():
    """(pixels, label) of each digit."""
    with gzip.open(DIGITS / "t10k-images-idx3-ubyte.gz") as file:
        images = file.read()[16:]
    with gzip.open(DIGITS / "t10k-labels-idx1-ubyte.gz") as file:
        labels = file.read()[8:]
    return [(images[784 * i : 784 * (i + 1)], labels[i]) for i in range(len(labels))]


def png(pixels, height=28, width=28, channels=1):
    """8-bit grey, RGB or RGBA."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = width * channels
    raw = b"".join(b"\0" + pixels[row * y : row * (y + 1)] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def npy(data, shape, descr="|u1"):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


class Trained(unittest.TestCase):
    """LeNet-5 after a short training, and the digits of its evaluation as pictures."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-e2e-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        run = Run(job_file(cls.folder, steps=60), output=cls.folder / "out").succeed()
        cls.output = run.output
        cls.report = run.report()
        cls.digits = digits()
        cls.pictures = []
        for number in EVAL:
            picture = cls.folder / f"{number}.png"
            picture.write_bytes(png(cls.digits[number][0]))
            cls.pictures.append(picture)

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def predict(self, *arguments, stdin=None, code=0):
        """The JSON lines."""
        result = command("predict", self.output, "--json", *arguments, stdin=stdin)
        self.assertEqual(result.returncode, code, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()], result.stderr

    def refused(self, file, *says):
        """A wrong file beside a right one, which is predicted all the same."""
        lines, errors = self.predict(file, self.pictures[0], code=1)
        self.assertEqual([line["file"] for line in lines if "class" in line], [str(self.pictures[0])])
        for text in says:
            self.assertIn(text, errors)
        self.assertEqual(errors.count(str(file)), 1, errors)
        failures = [line for line in lines if "error" in line]
        self.assertEqual([line["file"] for line in failures], [str(file)])


class Checkpoint(Trained):
    def test_a_checkpoint_describes_itself(self):
        (folder,) = (self.output / "checkpoints").glob("step-60")
        model = json.loads((folder / "model.json").read_text())
        self.assertEqual((model["format"], model["version"]), ("trainyard-model", 1))
        self.assertEqual(model["training"]["model"], {"preset": "lenet5"})
        self.assertEqual(model["input"], {"shape": [28, 28, 1]})
        self.assertEqual(model["classes"], [str(digit) for digit in range(10)])

    def test_a_changed_description_is_noticed(self):
        folder = self.folder / "changed"
        folder.mkdir()
        for file in (self.output / "checkpoints/step-60").iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        (folder / "model.json").write_text((folder / "model.json").read_text().replace("lenet5", "lenet6"))
        result = command("evaluate", folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("model.json has the SHA-256", result.stderr)

    def test_an_older_checkpoint_needs_its_job_file(self):
        folder = self.folder / "older"
        folder.mkdir()
        for file in (self.output / "checkpoints/step-60").iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        (folder / "model.json").unlink()
        manifest = json.loads((folder / "manifest.json").read_text())
        del manifest["description"]
        (folder / "manifest.json").write_text(json.dumps(manifest))
        for arguments in (("evaluate", folder), ("predict", folder, self.pictures[0])):
            result = command(*arguments)
            self.assertEqual(result.returncode, 1)
            self.assertIn("has no model.json: an older version wrote it; name the job file of its training by --job FILE", result.stderr)
            result = command(*arguments, "--job", self.folder / "job.yaml")
            self.assertEqual(result.returncode, 0, result.stderr)


class Evaluate(Trained):
    def evaluate(self, *arguments):
        result = command("evaluate", self.output, "--json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_it_gives_what_the_run_said(self):
        evaluation = self.evaluate()
        self.assertEqual(evaluation["accuracy"], self.report["eval"]["accuracy"])
        self.assertEqual(evaluation["loss"], self.report["eval"]["loss"])
        self.assertEqual((evaluation["step"], evaluation["examples"]), (60, len(EVAL)))

    def test_the_matrix_adds_up(self):
        evaluation = self.evaluate()
        matrix = evaluation["confusion"]
        labels = collections.Counter(self.digits[number][1] for number in EVAL)
        self.assertEqual([sum(row) for row in matrix], [labels[digit] for digit in range(10)])
        self.assertEqual(sum(matrix[i][i] for i in range(10)) / len(EVAL), evaluation["accuracy"])
        for digit, entry in enumerate(evaluation["classes"]):
            predicted = sum(row[digit] for row in matrix)
            self.assertEqual((entry["class"], entry["examples"], entry["predicted"]), (str(digit), labels[digit], predicted))
            if predicted:
                self.assertAlmostEqual(entry["precision"], matrix[digit][digit] / predicted)
            self.assertAlmostEqual(entry["recall"], matrix[digit][digit] / labels[digit])

    def test_other_examples_of_the_data(self):
        evaluation = self.evaluate("--set", "training.data.eval.range=[2048, 3048]")
        self.assertEqual(evaluation["examples"], 1000)

    def test_a_table_for_people(self):
        result = command("evaluate", self.output)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"accuracy +0\.\d{4}\n")
        self.assertIn("precision  recall      F1  examples", result.stdout)

    def test_data_that_is_not_there_is_named(self):
        result = command("evaluate", self.output, "--data", "no-such-folder")
        self.assertEqual(result.returncode, 1)
        self.assertIn("error: --data no-such-folder: found no folder or file of that name", result.stderr)

    def test_a_run_without_a_best_checkpoint_says_so(self):
        result = command("evaluate", self.output, "--best")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no best checkpoint in", result.stderr)


class Predict(Trained):
    def test_pictures_get_the_classes_that_evaluate_counted(self):
        lines, _ = self.predict(*self.pictures)
        self.assertEqual([line["file"] for line in lines], list(map(str, self.pictures)))
        right = sum(int(line["class"]) == self.digits[number][1] for line, number in zip(lines, EVAL, strict=True))
        self.assertEqual(right / len(EVAL), self.report["eval"]["accuracy"])

    def test_arrays_and_idx_files_and_json_give_the_same(self):
        pixels = b"".join(self.digits[number][0] for number in EVAL)
        expected = [(line["class"], line["probability"]) for line in self.predict(*self.pictures)[0]]
        batch = self.write("batch.npy", npy(pixels, f"({len(EVAL)}, 28, 28)"))
        idx = self.write("digits.idx.gz", gzip.compress(struct.pack(">BBBBIII", 0, 0, 8, 3, len(EVAL), 28, 28) + pixels))
        for file in (batch, idx):
            lines, _ = self.predict(file)
            self.assertEqual([line["index"] for line in lines], list(range(len(EVAL))))
            self.assertEqual([(line["class"], line["probability"]) for line in lines], expected)
        text = "\n".join(json.dumps([pixel / 255 for pixel in self.digits[number][0]]) for number in EVAL)
        lines, _ = self.predict("-", stdin=text)
        self.assertEqual([line["class"] for line in lines], [name for name, _ in expected])
        for line, (_, probability) in zip(lines, expected, strict=True):
            self.assertAlmostEqual(line["probability"], probability, delta=1e-5)

    def test_the_likeliest_classes_are_told(self):
        (line,), _ = self.predict(self.pictures[0], "--top", "10")
        self.assertEqual(sorted(entry["class"] for entry in line["top"]), [str(digit) for digit in range(10)])
        self.assertAlmostEqual(sum(entry["probability"] for entry in line["top"]), 1, delta=1e-5)
        self.assertEqual(line["top"][0]["class"], line["class"])

    def test_a_table_for_people(self):
        result = command("predict", self.output, self.pictures[0], self.pictures[1], "--top", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        header, first, second = result.stdout.splitlines()
        self.assertEqual(header.split(), ["file", "class", "probability", "class", "probability"])
        self.assertEqual((first.split()[0], second.split()[0]), (str(self.pictures[0]), str(self.pictures[1])))

    def test_colours_become_grey_and_another_size_needs_resize(self):
        pixels = self.digits[9000][0]
        colours = self.write("colours.png", png(b"".join(bytes([p, p, p]) for p in pixels), channels=3))
        twice = b"".join(bytes(p for p in pixels[28 * (y // 2) : 28 * (y // 2 + 1)] for _ in range(2)) for y in range(56))
        large = self.write("large.png", png(twice, 56, 56))
        lines, _ = self.predict(self.pictures[0], colours, large, "--resize")
        self.assertEqual(lines[0]["probability"], lines[1]["probability"])
        self.assertEqual(lines[0]["class"], lines[2]["class"])
        self.refused(large, "the picture is 56 x 56 pixels (height x width), the model takes 28 x 28", "--resize")

    def test_wrong_files_are_named_and_the_rest_is_predicted(self):
        self.refused(self.folder / "no-such.png", "No such file or directory")
        self.refused(self.write("empty.png", b""), "the file is empty")
        self.refused(self.write("cut.png", self.pictures[0].read_bytes()[:60]), "the PNG cannot be read")
        self.refused(self.write("photo.jpg", b"\xff\xd8\xff\xe0JFIF"), "the JPEG cannot be read")
        self.refused(self.write("clear.png", png(b"\0\0\0\0" * 784, channels=4)), "has transparent pixels")
        self.refused(self.write("planes.npy", npy(bytes(3 * 32 * 32), "(3, 32, 32)")), "the array is [3, 32, 32], the model takes [28, 28, 1]")
        (self.folder / "nothing").mkdir()
        self.refused(self.folder / "nothing", "is a folder without .png or .jpg pictures")

    def test_failures_are_told_in_the_order_of_the_files(self):
        wrong = self.write("order.jsonl", b"[1, 2]\n")
        files = [self.pictures[0], wrong, self.folder / "no-such.png", self.pictures[1], wrong]
        lines, _ = self.predict(*files, code=1)
        self.assertEqual([line["file"] for line in lines], list(map(str, files)))
        self.assertEqual(["error" in line for line in lines], [False, True, True, False, True])

    def test_a_file_is_named_though_its_name_is_a_word_of_the_error(self):
        self.write("file", b"")
        result = subprocess.run([TRAINER, "predict", self.output, "file"], cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)
        self.assertIn("error: file: the file is empty", result.stderr)

    def test_a_folder_is_the_pictures_in_it(self):
        folder = self.folder / "a folder"
        folder.mkdir()
        for name, picture in (("b.png", self.pictures[1]), ("a.png", self.pictures[0])):
            (folder / name).write_bytes(picture.read_bytes())
        (folder / "notes.txt").write_text("two digits")
        lines, _ = self.predict(folder, self.pictures[1])
        self.assertEqual([line["file"] for line in lines], [str(folder / "a.png"), str(folder / "b.png"), str(self.pictures[1])])
        self.assertEqual(lines[1]["probability"], lines[2]["probability"])

    def test_a_huge_picture_and_a_huge_array_take_no_more_memory(self):
        header = struct.pack(">IIBBBBB", 1 << 30, 1 << 30, 8, 0, 0, 0, 0)
        bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
        self.refused(self.write("bomb.png", bomb), "PNG")
        self.refused(self.write("promise.npy", npy(b"", "(1000000000, 28, 28)")), "the file is cut off: it ends within example 0")
        sparse = self.folder / "sparse.npy"
        examples = 4_000
        with open(sparse, "wb") as file:
            file.write(npy(b"", f"({examples}, 28, 28)", "<f8"))
            file.truncate(file.tell() + examples * 784 * 8)
        limited = ["bash", "-c", 'ulimit -v 1500000; exec "$0" "$@"', TRAINER, "predict", self.output, "--json", sparse]
        result = subprocess.run(list(map(str, limited)), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), examples)

    def test_a_wrong_line_is_named_and_the_next_ones_are_predicted(self):
        good = json.dumps([0] * 784)
        lines, errors = self.predict("-", stdin=f"{good}\n[1, 2]\n{good}\n", code=1)
        self.assertEqual(["error" in line for line in lines if "class" in line or "error" in line].count(True), 1)
        self.assertIn("line 2: found an array of [2], expected an array of numbers of shape [28, 28, 1]", errors)
        self.assertEqual(sum("class" in line for line in lines), 2)

    def test_without_a_file_the_command_line_is_wrong(self):
        result = command("predict", self.output)
        self.assertEqual(result.returncode, 2)
        self.assertIn("predict: FILE: missing", result.stderr)


class Numbers(trainyard.JobTest):
    def test_a_regression_gives_numbers(self):
        run = self.launch(job_file(self.folder.name, model="linear", steps=5))
        self.succeed(run)
        result = command("predict", run.output, "-", "--json", stdin="[0,0,0,0,0,0,0,0,0,0]\n")
        self.assertEqual(result.returncode, 0, result.stderr)
        (line,) = map(json.loads, result.stdout.splitlines())
        self.assertEqual(len(line["values"]), 1)
        # Of all signs some are those of the weights.
        huge = "".join(json.dumps(list(signs)) + "\n" for signs in itertools.product((-3e38, 3e38), repeat=10))
        result = command("predict", run.output, "-", stdin=huge)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"-: example \d+: the prediction is not finite: the example has very large numbers")
        result = command("evaluate", run.output, "--json")
        self.assertEqual(json.loads(result.stdout)["loss"], run.report()["eval"]["loss"])


if __name__ == "__main__":
    unittest.main()
