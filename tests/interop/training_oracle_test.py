"""Whole trainings beside PyTorch: random networks, optimizers, schedules and workers, step by step.

Each job starts from given values and writes a checkpoint after each step. PyTorch computes, in
float64 and from the values of the checkpoint before, the gradients of every rank's examples. The
formulas of docs/models.md make the next values of them. These are compared, and the losses of epochs. A wrong
gradient, slot, schedule, share of a rank or moving statistic is a difference. The growth of
rounding over steps is none.

    TRAINYARD_ORACLE_SEED=N python3 tests/interop/training_oracle_test.py     draws other trainings
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent / "oracle"), str(pathlib.Path(__file__).resolve().parents[1] / "e2e")]
import with_torch  # isort: skip  # noqa: F401  (starts over in the environment that has PyTorch)

import dropped  # noqa: E402
import jobs  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
from network import Network  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402
from trainyard import ROOT, TRAINER  # noqa: E402
from updates import Optimizer, clipped  # noqa: E402

SEED = int(os.environ.get("TRAINYARD_ORACLE_SEED", "1"))
TRAININGS = {"numbers": 36, "texts": 12}
STEPS = 8
TEXT = "the quick brown fox jumps over the lazy dog and runs away " * 40
# Of the largest number. Gradients may nearly cancel, as behind a normalisation, and an adaptive rule
# makes a whole step of what is left. So the updates are also computed from gradients that are off by
# SHIFT of the largest one, and may be as far off as those are, times TIMES.
# Means of a batch may cancel, too: moving statistics are measured in their size, or in SMALLEST.
MOST, SHIFT, TIMES, SMALLEST = 2e-5, 1e-6, 4, 0.1


class Training:
    def __init__(self, kind, number, folder):
        self.random = random.Random(f"{SEED} {kind} {number}")
        self.numbers = numpy.random.default_rng([SEED, number])
        self.folder = folder
        self.name = f"seed {SEED}, {kind} {number}"
        self.ranks, self.spec, self.training, self.strategy = jobs.layout(self.random)
        self.batch = self.random.choice((2, 3, 5, 16))
        draw = jobs.Model(self.random, dropout=True)
        self.network = Network(draw.of_numbers() if kind == "numbers" else draw.of_tokens(len(set(TEXT)) + 1))
        self.optimizer = jobs.optimizer(self.random)
        self.seed = self.random.randint(1, 2**31)
        self.steps = self.steps_of_numbers() if kind == "numbers" else self.steps_of_text()
        self.start = self.network.start_values(self.numbers)

    def steps_of_numbers(self):
        model, whole = self.network.model, self.batch * self.ranks
        examples = whole * 2 + self.random.randint(0, whole)
        x = self.numbers.normal(size=(examples, *model["input"]["shape"])).astype(numpy.float32)
        classes = model["loss"] == "softmaxCrossEntropy"
        y = self.numbers.integers(0, self.network.output[0], examples) if classes else self.numbers.normal(size=(examples, *self.network.output)).astype(numpy.float32)
        numpy.save(self.folder / "x.npy", x)
        numpy.save(self.folder / "y.npy", y)
        self.data = {"format": "numpy", "dir": str(self.folder), "train": {"images": "x.npy", "labels": "y.npy"}, "shuffle": False}
        return [[(x[begin:end], y[begin:end]) for begin, end in step] for step in jobs.slices(examples, self.batch, self.ranks)]

    def steps_of_text(self):
        (self.folder / "text.txt").write_text(TEXT)
        self.data = {"format": "text", "dir": str(self.folder), "tokens": "characters", "train": {"files": ["text.txt"]}}
        order = sorted(set(TEXT), key=lambda token: (-TEXT.count(token), token))
        tokens = numpy.array([order.index(token) for token in TEXT])
        (length,), rows = self.network.model["input"]["shape"], self.batch * self.ranks
        row = len(tokens) // rows
        steps = []
        for begin in range(0, row - length, length):
            x, y = (numpy.stack([tokens[n * row + begin + ahead :][:length] for n in range(rows)]) for ahead in (0, 1))
            steps.append([(x[self.batch * rank :][: self.batch], y[self.batch * rank :][: self.batch]) for rank in range(self.ranks)])
        return steps

    def run(self):
        save_file(self.start, self.folder / "start.safetensors")
        training = {"model": self.network.model, "data": self.data, "batchSize": self.batch, "steps": STEPS, "seed": self.seed, "optimizer": self.optimizer,
                    "initFrom": str(self.folder / "start.safetensors"), "checkpoint": {"everySteps": 1, "keep": STEPS}, "summary": {"everySteps": 0},
                    "resources": {"threads": self.random.randint(1, 2), "devices": "cpu"}, **self.training}  # fmt: skip
        job = {"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "oracle"}, "spec": {**self.spec, "training": training}}
        (self.folder / "job.yaml").write_text(json.dumps(job))
        self.job = json.dumps(job["spec"])
        done = subprocess.run([TRAINER, "launch", self.folder / "job.yaml", "--output", self.folder / "out", "--progress", "none"], cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"{self.name}: {done.stdout}{done.stderr}\n{self.job}")

    def values_after(self, step):
        return load_file(self.folder / f"out/checkpoints/step-{step}/parameters.safetensors") if step else self.start

    def gradients(self, values, step, rank, states):
        """Loss, gradients and next moving statistics of a rank's examples, by PyTorch."""
        x, y = self.steps[step % len(self.steps)][rank]
        leaves = {name: torch.from_numpy(value).double() for name, value in values.items()}
        learned = [name for name in leaves if "/moving_" not in name]
        for name in learned:
            leaves[name].requires_grad_()

        rates = [options["rate"] for _, kind, options, _ in self.network.layers if kind == "dropout"]
        output, moving = self.network.forward(leaves, torch.from_numpy(x) if x.dtype == numpy.int64 else torch.from_numpy(x).double(), state=states[rank],
                                              drop=lambda number, h: dropped.mask(h.shape, rates[number], self.seed, step, rank, number))  # fmt: skip
        loss = self.network.loss(leaves, output, torch.from_numpy(y) if y.dtype == numpy.int64 else torch.from_numpy(y).double())
        found = torch.autograd.grad(loss, [leaves[name] for name in learned], allow_unused=True)
        made = {name: numpy.zeros(leaves[name].shape) if gradient is None else gradient.numpy() for name, gradient in zip(learned, found)}
        return loss.item(), made, {name: value.detach().numpy() for name, value in moving.items()}

    def of_all_ranks(self, values, step, states):
        """(loss, examples) of each rank, and the rest of a whole step. A rank's gradients count as its examples do, and are clipped after that."""
        examples = [len(x) for x, _ in self.steps[step % len(self.steps)]]
        total, means, losses = {}, {}, []
        for rank, own in enumerate(examples):
            loss, gradients, moving = self.gradients(values, step, rank, states)
            weight = own * self.ranks / sum(examples)
            for name, gradient in clipped({name: weight * gradient for name, gradient in gradients.items()}, self.optimizer.get("clipNorm", 0)).items():
                total[name] = total.get(name, 0) + gradient / self.ranks
            for name, value in moving.items():
                means[name] = means.get(name, 0) + value / self.ranks
            losses.append((loss, own))
        return losses, total, means


class TrainingOracle(unittest.TestCase):
    def follow(self, training):
        """Each step of the engine is that of PyTorch."""
        training.run()
        optimizers, told = [Optimizer(training.optimizer) for _ in range(3)], []
        for step in range(STEPS):
            if step % len(training.steps) == 0:
                states = [{} for _ in range(training.ranks)]
            values, found = training.values_after(step), training.values_after(step + 1)
            losses, gradients, wanted = training.of_all_ranks(values, step, states)
            told.append((step // len(training.steps), losses))
            shift = SHIFT * max(numpy.abs(gradient).max() for gradient in gradients.values())
            before = {name: values[name].astype(numpy.float64) for name in gradients}
            exact, *near = (optimizer.update(before, {name: gradient + by for name, gradient in gradients.items()}) for optimizer, by in zip(optimizers, (0, shift, -shift)))
            self.assertEqual(sorted(found), sorted(values), training.name)
            for name, right in {**exact, **wanted}.items():
                most = 2.0**-22 * numpy.abs(right).max()
                if name in exact:
                    most = most + MOST * numpy.abs(right - values[name]).max() + TIMES * numpy.maximum(*(numpy.abs(other[name] - right) for other in near))
                else:
                    most = most + MOST * max(numpy.abs(right).max(), SMALLEST)
                off = numpy.abs(found[name] - right) - most
                if off.max() > 0:
                    place = numpy.unravel_index(off.argmax(), right.shape)
                    self.fail(f"{training.name}, {training.strategy} of {training.ranks}, step {step}: {name}{[int(i) for i in place]} becomes {found[name][place]}, "
                              f"PyTorch says {right[place]}, before it was {values[name][place]}\n{training.job}")  # fmt: skip
        self.compare_losses(training, told)

    def compare_losses(self, training, told):
        """The report's loss of an epoch is the mean over the examples of the chief, which has all devices."""
        chief = range(training.ranks if training.strategy == "devices" else 1)
        history = json.loads((training.folder / "out/report.json").read_text())["history"]
        for epoch, record in enumerate(history):
            counted = [(loss, examples) for in_epoch, step in told if in_epoch == epoch for rank, (loss, examples) in enumerate(step) if rank in chief]
            mean = sum(loss * examples for loss, examples in counted) / sum(examples for _, examples in counted)
            self.assertAlmostEqual(record["loss"], mean, delta=1e-5 * max(1, abs(mean)), msg=f"{training.name}, epoch {epoch}\n{training.job}")

    def all_of(self, kind):
        for number in range(TRAININGS[kind]):
            with tempfile.TemporaryDirectory(prefix="trainyard-oracle-") as folder:
                training = Training(kind, number, pathlib.Path(folder))
                self.follow(training)

    def test_networks_of_numbers_are_trained_as_pytorch_trains_them(self):
        self.all_of("numbers")

    def test_networks_of_text_carry_state_and_drop_elements_as_pytorch_does(self):
        self.all_of("texts")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.backends.mkldnn.enabled = False  # torch_oracle_test.py says why
    unittest.main()
