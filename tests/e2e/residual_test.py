"""A residual network with batch normalisation on files of CIFAR-10's format: learns, resumes, and keeps its statistics in servers too."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import trainyard
from trainyard import Run

ACCURACY = 0.5  # of ten classes; what the training below must reach at least on images that it has not seen

MODEL = """
      input: {shape: [32, 32, 3]}
      layers:
        - {name: stem, conv2d: {filters: 8, kernelSize: 3, strides: 2, padding: same, kernelInitializer: heNormal, kernelRegularizer: {l2: 0.0001}}}
        - {name: norm1, batchNormalization: {momentum: 0.9}}
        - {name: relu1, activation: {function: relu}}
        - {name: narrow, conv2d: {filters: 8, kernelSize: 1, strides: 2, padding: same, kernelInitializer: heNormal}}
        - {name: norm2, batchNormalization: {momentum: 0.9}}
        - {name: relu2, activation: {function: relu}}
        - {name: middle, conv2d: {filters: 16, kernelSize: 3, padding: same, kernelInitializer: heNormal}}
        - {name: norm3, batchNormalization: {momentum: 0.9}}
        - {name: relu3, activation: {function: relu}}
        - {name: wide, conv2d: {filters: 32, kernelSize: 3, padding: same, kernelInitializer: heNormal}}
        - {name: shortcut, inputs: [relu1], conv2d: {filters: 32, kernelSize: 1, strides: 2, padding: same, kernelInitializer: heNormal}}
        - {inputs: [wide, shortcut], add: {}}
        - {name: norm4, batchNormalization: {momentum: 0.9}}
        - {name: relu4, activation: {function: relu}}
        - globalAveragePool2d
        - {dense: {units: 10}}
      loss: softmaxCrossEntropy"""


class Residual(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="trainyard-e2e-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.data = pathlib.Path(cls.folder.name) / "cifar10"
        script = trainyard.ROOT / "examples/data/make_cifar.py"
        subprocess.run([sys.executable, script, cls.data, "--train", "1000", "--test", "200"], check=True, timeout=trainyard.DEADLINE)

    def run_job(self, *, steps, workers=1, ps=0, strategy="{local: {}}", output=None):
        files = ", ".join(f"data_batch_{i}.bin" for i in range(1, 6))
        job = pathlib.Path(self.folder.name) / "job.yaml"
        job.write_text(f"""apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {{name: residual}}
spec:
  ps: {{replicas: {ps}}}
  worker: {{replicas: {workers}}}
  training:
    model:{MODEL}
    data:
      format: cifar10
      dir: {self.data}
      train: {{files: [{files}], augment: {{flip: true, shift: 2}}}}
      eval: {{files: [test_batch.bin]}}
    batchSize: 48
    steps: {steps}
    optimizer: {{name: adam, learningRate: 0.01}}
    strategy: {strategy}
    seed: 3
    evaluate: {{everyEpochs: 0}}
    resources: {{threads: 1}}
""")
        run = Run(job, output=output or tempfile.mkdtemp(dir=self.folder.name))
        code = run.wait()
        self.assertEqual(code, 0, f"{run.text}\n{run.logs()}")
        return run

    def digest(self, **options):
        return self.run_job(**options).report()["parametersSha256"]

    def statistics(self, run):
        values = trainyard.last_parameters(run.output)
        return {name: value for name, value in values.items() if "/moving_" in name}

    def test_it_learns_and_is_evaluated_with_its_moving_statistics(self):
        run = self.run_job(steps=200)
        self.assertGreater(run.report()["eval"]["accuracy"], ACCURACY)
        statistics = self.statistics(run)
        self.assertEqual(len(statistics), 8)
        for name, values in statistics.items():
            start = 1.0 if name.endswith("variance") else 0.0
            self.assertTrue(any(abs(value - start) > 1e-3 for value in values), name)

    def test_a_resumed_run_gives_the_bits_of_one_that_was_not_stopped(self):
        half = self.run_job(steps=25)
        resumed = self.run_job(steps=50, output=half.output)
        self.assertEqual(resumed.report()["parametersSha256"], self.digest(steps=50))

    def test_one_worker_over_two_servers_gives_the_bits_of_local(self):
        self.assertEqual(self.digest(steps=10), self.digest(steps=10, ps=2, strategy="{parameterServer: {mode: sync}}"))

    def test_two_workers_give_the_same_bits_again_in_sync_mode_and_finish_in_async_mode(self):
        sync = {"steps": 10, "workers": 2, "ps": 1, "strategy": "{parameterServer: {mode: sync}}"}
        self.assertEqual(self.digest(**sync), self.digest(**sync))
        run = self.run_job(steps=10, workers=2, ps=1, strategy="{parameterServer: {mode: async}}")
        self.assertEqual(run.report()["steps"], 20)
        for name, values in self.statistics(run).items():
            start = 1.0 if name.endswith("variance") else 0.0
            self.assertTrue(any(value != start for value in values), name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
