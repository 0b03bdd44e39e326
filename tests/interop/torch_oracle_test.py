"""The engine's ops beside PyTorch's: 300 random graphs of each family, forward, gradients and inference.

run_ops (oracle/main.cc) computes the graphs by every set of kernels that this machine has. PyTorch
computes them by its own ops and its own autograd. Differences are measured in the largest number of
a tensor. A failure tells the seed and the graph.

    TRAINYARD_ORACLE_SEED=N python3 tests/interop/torch_oracle_test.py     draws other graphs
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "oracle"))
import with_torch  # isort: skip  # noqa: F401  (starts over in the environment that has PyTorch)

import families  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
from case import Case  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

PROGRAM = pathlib.Path(os.environ["TRAINYARD_TRAINER"]).resolve().parents[1] / "tests/run_ops"
SEED = int(os.environ.get("TRAINYARD_ORACLE_SEED", "1"))
CASES = 300
# float32: of the largest number of a tensor, or of SMALLEST where that is less. Sums may nearly
# cancel, as gradients behind a normalisation do: then TIMES what PyTorch's own float32 is off its
# float64.
FLOAT32_MOST = 2e-5
WINOGRAD_MOST = 1e-4  # the transforms of 5x5 windows add and take away again numbers of some times the size
SMALLEST = 1e-3
TIMES = 8
# bfloat16: PyTorch multiplies rounded operands in float32, as the engine does. Now and then an
# operand lies close to the middle between two bfloat16 numbers. Then an unlike order of float32
# sums rounds it to the other one, 2^-8 away. Single numbers may be off by that; all together not.
BFLOAT16_MOST = 2.0**-6
BFLOAT16_MEAN = 2.0**-12  # the root of the mean square over all cases, of the same of the expected numbers


SETS = {"float32": ("avx512", "avx2", "baseline"), "bfloat16": ("amx", "avx512bf16")}  # of x86-64


def drawn(family, bfloat16=False):
    """The cases of a family: each has a seed of its own."""
    cases = [Case(zlib.crc32(f"{family.__name__} {SEED} {i}".encode()), bfloat16) for i in range(CASES)]
    for case in cases:
        family(case)
    return cases


class Oracle(unittest.TestCase):
    def computed(self, cases, precision):
        """What run_ops says: for each case {set of kernels: {name: array}}."""
        with tempfile.TemporaryDirectory(prefix="trainyard-oracle-") as name:
            folder = pathlib.Path(name)
            (folder / "cases.json").write_text(json.dumps([case.description() for case in cases]))
            save_file({f"{i}/{name}": value for i, case in enumerate(cases) for name, value in case.fed.items()}, folder / "values.safetensors")
            run = subprocess.run([PROGRAM, folder, precision], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, f"seed {SEED}: {run.stderr}")
            found = [{name: {} for name in run.stdout.split()} for _ in cases]
            for name, value in load_file(folder / "results.safetensors").items():
                number, kernels, rest = name.split("/", 2)
                found[int(number)][kernels][rest] = value
        return found

    def agree(self, what, case, kernels, found, wanted, most):
        """Of the tensors of one case by one set of kernels no number is too far off."""
        self.assertEqual(sorted(found), sorted(wanted), what)
        for name, right in wanted.items():
            value = found[name]
            self.assertEqual(value.shape, right.shape, f"{what}, {name}")
            difference = numpy.abs(value - right).max() / scale_of(right)
            if not difference <= most:
                place = numpy.unravel_index(numpy.abs(value - right).argmax(), right.shape)
                self.fail(f"{what}, {kernels}: {name}{[int(i) for i in place]} is {value[place]}, PyTorch says {right[place]}, off by {difference:.2e} "
                          f"of the largest, at most {most:.2e}\nfuse {case.fuse}: {json.dumps(case.description()['nodes'])}")  # fmt: skip

    def agree_in_float32(self, family):
        cases = drawn(family)
        for number, (case, sets) in enumerate(zip(cases, self.computed(cases, "float32"))):
            exact = case.exact()
            least = WINOGRAD_MOST if family is families.conv2d_winograd else FLOAT32_MOST
            most = max(least, *(TIMES * numpy.abs(value - exact[name]).max() / scale_of(exact[name]) for name, value in case.expected().items()))
            for kernels, found in sets.items():
                self.agree(f"seed {SEED}, {family.__name__}, case {number}", case, kernels, found, exact, most)

    def agree_in_bfloat16(self, family):
        cases = drawn(family, bfloat16=True)
        squares = {}
        for number, (case, sets) in enumerate(zip(cases, self.computed(cases, "bfloat16"))):
            wanted = case.expected()
            for kernels, found in sets.items():
                self.agree(f"seed {SEED}, {family.__name__}, case {number}", case, kernels, found, wanted, BFLOAT16_MOST)
                sums = squares.setdefault(kernels, [0.0, 0.0])
                for name, right in wanted.items():
                    sums[0] += float(numpy.square((found[name] - right) / scale_of(right)).mean())
                    sums[1] += float(numpy.square(right / scale_of(right)).mean())
        for kernels, (off, all_of_it) in squares.items():
            self.assertLessEqual(math.sqrt(off / all_of_it), BFLOAT16_MEAN, f"seed {SEED}, {family.__name__}, {kernels}")

    def test_dropout_is_that_of_pytorch_with_the_same_elements_dropped(self):
        cases = drawn(families.dropout)
        dropped, expected, variance = 0, 0.0, 0.0
        for number, (case, sets) in enumerate(zip(cases, self.computed(cases, "float32"))):
            (node,) = (node for node in case.nodes if node["op"] == "dropout")
            kept = [found[f"out/{node['name']}"] != 0 for found in sets.values()]
            wanted = case.expected(torch.from_numpy(kept[0]))
            for kernels, found in sets.items():
                self.agree(f"seed {SEED}, dropout, case {number}", case, kernels, found, wanted, FLOAT32_MOST)
            dropped += kept[0].size - numpy.count_nonzero(kept[0])
            expected += kept[0].size * node["rate"]
            variance += kept[0].size * node["rate"] * (1 - node["rate"])
        self.assertLess(abs(dropped - expected), 5 * math.sqrt(variance))

    def test_every_set_of_kernels_ran(self):
        for precision, known in SETS.items():
            (sets,) = self.computed(drawn(families.dense)[:1], precision)
            self.assertIn("reference", sets)
            for kernels in known:
                with self.subTest(precision=precision, kernels=kernels):
                    if kernels not in sets:
                        self.skipTest(f"this processor lacks {kernels}")


def scale_of(right):
    return max(float(numpy.abs(right).max()), SMALLEST)


def add_tests():
    for family in families.ALL:
        setattr(Oracle, f"test_{family.__name__}_is_that_of_pytorch", lambda self, family=family: self.agree_in_float32(family))
    for family in families.PRODUCTS:
        setattr(Oracle, f"test_{family.__name__}_in_bfloat16_is_that_of_pytorch", lambda self, family=family: self.agree_in_bfloat16(family))


add_tests()

if __name__ == "__main__":
    torch.set_num_threads(1)
    # On AVX2 its convolutions of PyTorch 1.13 write past the end of a gradient: [24, 6, 8, 1] by a kernel [1, 1, 1, 3], strides [2, 1], is one case.
    torch.backends.mkldnn.enabled = False
    unittest.main()
