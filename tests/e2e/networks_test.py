"""The studies' convolutional networks as their examples have them, on less data: they learn."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import trainyard
from trainyard import Run

EXAMPLES = trainyard.ROOT / "examples"


class Networks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def train(self, example, **overrides):
        run = Run(EXAMPLES / example, output=self.folder / "run", overrides=[f"training.{path.replace('__', '.')}={value}"
                                                                               for path, value in overrides.items()])
        self.assertEqual(run.wait(600), 0, f"{run.text}\n{run.logs()}")
        return run.report()

    def test_the_mnist_cnn_reads_nine_of_ten_digits_after_150_steps(self):
        report = self.train("mnist-cnn-local.yaml", epochs=1, data__train__range="[0, 4800]")
        self.assertEqual(report["steps"], 150)
        self.assertGreater(report["eval"]["accuracy"], 0.9)

    def test_resnet_56_learns_generated_images(self):
        data = self.folder / "cifar10"
        subprocess.run([sys.executable, EXAMPLES / "data/make_cifar.py", data, "--train", "640", "--test", "50"], check=True, timeout=60)
        report = self.train("resnet56-cifar10.yaml", epochs=2, batchSize=16, data__dir=data)
        self.assertEqual(report["steps"], 80)
        # Ten classes by chance are 2.3, and the penalty adds 0.3 at the start.
        self.assertLess(report["history"][-1]["loss"], 2.2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
