"""Workers with several devices: the bits of as many workers with one device each, whatever happens to a worker.

    python3 tests/e2e/devices_test.py
"""
import pathlib
import signal
import subprocess
import unittest

from trainyard import ROOT, TRAINER, JobTest, job_file

RESTARTS = "spec.runPolicy.backoffLimit=1000"
QUICK = "training.timeouts.silence=3"
# Batch normalization has next values, dropout depends on the rank.
NETWORK = ("training.model={input: {shape: [28, 28, 1]}, layers: [{conv2d: {filters: 4, kernelSize: 5, strides: 2}}, batchNormalization, "
           "{activation: {function: relu}}, flatten, {dropout: {rate: 0.3}}, {dense: {units: 10}}], loss: softmaxCrossEntropy}")
CLIPPED_ADAM = "training.optimizer={name: adam, learningRate: 0.001, clipNorm: 0.5, schedule: {name: cosine, decaySteps: 30}}"
SYNC = "{parameterServer: {mode: sync}}"
ALL_REDUCE = "{allReduce: {}}"
TEXT = """apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: text}
spec:
  worker: {replicas: 1}
  training:
    model: {input: {shape: [10], vocabulary: 65}, layers: [{embedding: {outputDim: 8}}, {lstm: {units: 16, returnSequences: true, stateful: true}}, {dropout: {rate: 0.2}}, {dense: {units: 65}}], loss: softmaxCrossEntropy}
    data: {format: text, dir: examples/data/tinyshakespeare, tokens: characters, train: {files: [input.txt]}}
    batchSize: 4
    steps: 100
    optimizer: {name: sgd, learningRate: 0.1}
    checkpoint: {everySteps: 50}
    resources: {threads: 1}
"""


class DevicesTest(JobTest):
    def overrides(self, workers, devices, strategy, *others):
        servers = 2 if "parameterServer" in (strategy or "") else 0
        return (RESTARTS, QUICK, f"spec.worker.replicas={workers}", f"training.devices={devices}", f"spec.ps={{replicas: {servers}}}",
                f"training.strategy={strategy or '{local: {}}'}", *others)

    def report(self, job, workers, devices, strategy, *others):
        return self.succeed(self.launch(job, self.overrides(workers, devices, strategy, *others)))

    def digest(self, job, workers, devices, strategy, *others):
        return self.report(job, workers, devices, strategy, *others)["parametersSha256"]

    def text_job(self):
        job = pathlib.Path(self.folder.name) / "text.yaml"
        job.write_text(TEXT)
        return job


class SameBits(DevicesTest):
    # (workers, devices, strategy); the first is what all others must be like.
    FOUR = ((4, 1, SYNC), (1, 4, None), (1, 4, SYNC), (2, 2, SYNC), (1, 4, ALL_REDUCE), (2, 2, ALL_REDUCE))

    def check(self, job, layouts, *others):
        expected = self.digest(job, *layouts[0], *others)
        for layout in layouts[1:]:
            with self.subTest(layout=layout, others=others):
                self.assertEqual(self.digest(job, *layout, *others), expected)

    def test_devices_of_one_worker_or_of_several_are_as_workers_with_one(self):
        job = job_file(self.folder.name, steps=20, batch=16)
        self.check(job, self.FOUR, NETWORK)
        self.check(job, self.FOUR, CLIPPED_ADAM)

    def test_any_number_of_devices_of_one_worker_and_a_number_of_workers_that_is_no_power_of_two(self):
        job = job_file(self.folder.name, steps=20, batch=16)
        self.check(job, ((3, 1, SYNC), (1, 3, None), (1, 3, SYNC), (1, 3, ALL_REDUCE)), NETWORK)
        self.check(job, ((6, 1, SYNC), (3, 2, SYNC), (3, 2, "{allReduce: {algorithm: halvingDoubling}}"), (1, 6, None)), NETWORK)

    def test_fewer_examples_than_devices_and_epochs_that_do_not_divide(self):
        for examples, batch in ((1, 1), (9, 2), (70, 16)):
            job = job_file(self.folder.name, steps=7, batch=batch)
            self.check(job, self.FOUR, f"training.data.train.range=[0, {examples}]", NETWORK)

    def test_slots_that_the_workers_have_among_them(self):
        job = job_file(self.folder.name, steps=20, batch=16)
        self.check(job, ((2, 2, SYNC), (2, 2, "{allReduce: {shardOptimizer: true}}")), NETWORK, CLIPPED_ADAM)

    def test_a_recurrent_network_whose_embedding_is_sparse(self):
        self.check(self.text_job(), self.FOUR)

    def test_a_part_of_the_data_for_each_device(self):
        job = job_file(self.folder.name, steps=20, batch=16)
        self.check(job, ((4, 1, SYNC), (2, 2, ALL_REDUCE), (1, 4, None)), "training.data.pipeline=[read, shard, shuffle, batch]")

    def test_one_asynchronous_worker_applies_the_mean_of_its_devices(self):
        job = job_file(self.folder.name, steps=20, batch=16)
        self.check(job, ((1, 4, None), (1, 4, "{parameterServer: {mode: async}}")), NETWORK)


class Counted(DevicesTest):
    def test_the_report_counts_the_examples_of_all_devices_and_names_each_in_the_profile(self):
        job = job_file(self.folder.name, steps=10, batch=16)
        for workers, devices, strategy in ((1, 4, None), (2, 2, ALL_REDUCE)):
            report = self.report(job, workers, devices, strategy, "training.profile.steps=[2, 8]")
            with self.subTest(workers=workers):
                names = [f"worker-{worker} device {device}" for worker in range(workers) for device in range(devices)]
                self.assertEqual([row["name"] for row in report["profile"]["devices"]], names)
                self.assertTrue(all(row["milliseconds"] > 0 for row in report["profile"]["devices"]))
                self.assertEqual(sum(worker["examples"] for worker in report["perWorker"]), 10 * 16 * 4)
                self.assertEqual((report["batchSize"], report["devices"]), (16, devices))

    def test_asynchronous_workers_have_devices_too(self):
        whole_batches = "training.data.train.range=[0, 1920]"
        report = self.report(job_file(self.folder.name, steps=40, batch=16), 2, 3, "{parameterServer: {mode: async}}", whole_batches)
        self.assertEqual(sum(worker["examples"] for worker in report["perWorker"]), 2 * 40 * 16 * 3)
        self.assertLess(report["lastLoss"], report["firstLoss"])


class Disturbed(DevicesTest):
    def killed(self, job, workers, devices, strategy, index, *others):
        run = self.launch(job, self.overrides(workers, devices, strategy, *others))
        run.await_step(120)
        run.kill("worker", index, signal.SIGKILL)
        return self.succeed(run)["parametersSha256"]

    def test_a_kill_of_a_worker_with_devices_changes_no_bit(self):
        job = job_file(self.folder.name, steps=600, batch=4, checkpoint_every=50)
        expected = self.digest(job, 2, 2, SYNC, NETWORK)
        for strategy in (SYNC, ALL_REDUCE):
            for index in (0, 1):
                with self.subTest(strategy=strategy, index=index):
                    self.assertEqual(self.killed(job, 2, 2, strategy, index, NETWORK), expected)

    def test_nor_where_layers_of_each_device_carry_state(self):
        job, steps = self.text_job(), "training.steps=1500"
        expected = self.digest(job, 1, 4, None, steps)
        for workers, devices, strategy, index in ((1, 4, None, 0), (2, 2, SYNC, 1), (2, 2, ALL_REDUCE, 0), (2, 2, ALL_REDUCE, 1)):
            with self.subTest(strategy=strategy, index=index):
                self.assertEqual(self.killed(job, workers, devices, strategy, index, steps), expected)

    def test_a_run_goes_on_with_the_state_of_every_device(self):
        job = self.text_job()
        for workers, devices, strategy in ((1, 4, None), (2, 2, SYNC), (2, 2, ALL_REDUCE)):
            with self.subTest(strategy=strategy):
                whole = self.digest(job, workers, devices, strategy, "training.steps=160")
                begun = self.launch(job, self.overrides(workers, devices, strategy))
                self.succeed(begun)
                run = self.launch(job, self.overrides(workers, devices, strategy, "training.steps=160"), output=begun.output)
                self.assertEqual(self.succeed(run)["parametersSha256"], whole, run.logs())


class Refused(DevicesTest):
    def test_a_number_of_devices_whose_sums_are_no_part_of_the_tree_is_refused_with_a_reason(self):
        job = job_file(self.folder.name)
        for strategy in (SYNC, ALL_REDUCE):
            with self.subTest(strategy=strategy):
                command = [TRAINER, "launch", str(job), "--output", self.folder.name + "/out"]
                for override in self.overrides(2, 3, strategy):
                    command += ["--set", override]
                done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("spec.training.devices: found 3, expected a power of two, such as 2 or 4, because 2 workers add their gradients",
                              done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
