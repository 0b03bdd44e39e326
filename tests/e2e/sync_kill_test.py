"""Synchronous jobs whose replicas are killed and terminated at random moments: the bits of the undisturbed run, every time.

    python3 tests/e2e/sync_kill_test.py [--kills N] [--terms N] [--seed N]

A seed is printed, which repeats the choice of replicas, signals and moments (though not what the machine does meanwhile).
"""
import argparse
import pathlib
import random
import signal
import sys
import time
import unittest

from trainyard import JobTest, job_file

OPTIONS = argparse.Namespace(kills=12, terms=5, seed=None)
DISTURBANCES_PER_RUN = 3
REPLICAS = (("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1), ("worker", 2))


def sync_job(folder, **options):
    """LeNet on real digits: 2 servers, 3 workers, a job that may restart as often as it has to."""
    return job_file(folder, workers=3, ps=2, mode="sync", run_policy="", **options)


class SyncKillTest(JobTest):
    OVERRIDES = ("spec.runPolicy.backoffLimit=1000",)

    def undisturbed(self, job, overrides=()):
        return self.succeed(self.launch(job, (*self.OVERRIDES, *overrides)))["parametersSha256"]

    def disturb(self, run, role, index, with_signal):
        """The signal to a replica that runs, or nothing where it does not run now."""
        pid = run.replica_pid(role, index)
        if pid is None:
            return False
        try:
            run.kill(role, index, with_signal)
        except (AssertionError, ProcessLookupError):
            return False
        return True

    def check(self, run, sha256):
        report = self.succeed(run)
        self.assertEqual(report["parametersSha256"], sha256, f"{report['redone']}\n{run.logs()}")
        return report

    def test_random_kills_and_terms_change_no_bit(self):
        seed = OPTIONS.seed if OPTIONS.seed is not None else random.SystemRandom().randrange(1 << 32)
        chance = random.Random(seed)
        signals = [signal.SIGKILL] * OPTIONS.kills + [signal.SIGTERM] * OPTIONS.terms
        chance.shuffle(signals)
        print(f"seed {seed}", flush=True)
        job = sync_job(self.folder.name, steps=800, batch=16, checkpoint_every=100)
        sha256 = self.undisturbed(job)
        sent = redone = 0
        while sent < len(signals):
            run = self.launch(job, self.OVERRIDES)
            here = 0
            while here < DISTURBANCES_PER_RUN and sent < len(signals) and run.process.poll() is None:
                time.sleep(chance.uniform(0.05, 0.9))
                role, index = chance.choice(REPLICAS)
                if self.disturb(run, role, index, signals[sent]):
                    sent += 1
                    here += 1
            report = self.check(run, sha256)
            redone += sum(steps["to"] - steps["from"] for steps in report["redone"])
            self.assertTrue(all(steps["reason"] for steps in report["redone"]))
        print(f"{sent} signals, {redone} steps done again", flush=True)

    def test_a_server_that_is_lost_takes_the_job_back_to_a_checkpoint_and_the_report_says_so(self):
        job = sync_job(self.folder.name, steps=600, batch=16, checkpoint_every=150)
        sha256 = self.undisturbed(job)
        run = self.launch(job, self.OVERRIDES)
        run.await_step(200)
        run.kill("ps", 1)
        report = self.check(run, sha256)
        self.assertGreaterEqual(len(report["redone"]), 1)
        self.assertIn("server 1", report["redone"][0]["reason"])
        self.assertIn("done again", run.text)

    def test_a_server_lost_without_any_checkpoint_takes_the_job_back_to_the_start(self):
        job = sync_job(self.folder.name, steps=400, batch=16)
        sha256 = self.undisturbed(job)
        run = self.launch(job, self.OVERRIDES)
        run.await_step(100)
        run.kill("ps", 0)
        report = self.check(run, sha256)
        self.assertEqual(report["redone"][0]["from"], 0)

    def test_two_at_once(self):
        job = sync_job(self.folder.name, steps=600, batch=16, checkpoint_every=150)
        sha256 = self.undisturbed(job)
        for first, second in ((("ps", 0), ("worker", 0)), (("ps", 0), ("ps", 1)), (("worker", 0), ("worker", 2))):
            with self.subTest(killed=(first, second)):
                run = self.launch(job, self.OVERRIDES)
                run.await_step(200)
                run.kill(*first)
                run.kill(*second)
                self.check(run, sha256)

    def test_a_kill_at_the_last_step(self):
        job = sync_job(self.folder.name, steps=600, batch=16, checkpoint_every=150)
        sha256 = self.undisturbed(job)
        for role, index in REPLICAS:
            with self.subTest(killed=f"{role}-{index}"):
                run = self.launch(job, self.OVERRIDES)
                run.await_step(400)
                while run.process.poll() is None:
                    progress = run.progress()
                    if progress is None or progress.get("step", 0) >= 590:
                        break
                self.disturb(run, role, index, signal.SIGKILL)
                self.check(run, sha256)

    def test_a_stateful_recurrent_network(self):
        job = pathlib.Path(self.folder.name) / "text.yaml"
        job.write_text("""apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: text}
spec:
  ps: {replicas: 2}
  worker: {replicas: 2}
  training:
    model: {input: {shape: [10], vocabulary: 65}, layers: [{embedding: {outputDim: 8}}, {lstm: {units: 16, returnSequences: true, stateful: true}}, {dense: {units: 65}}], loss: softmaxCrossEntropy}
    data: {format: text, dir: examples/data/tinyshakespeare, tokens: characters, train: {files: [input.txt]}}
    batchSize: 4
    steps: 1500
    optimizer: {name: momentum, learningRate: 0.1}
    strategy: {parameterServer: {mode: sync}}
    checkpoint: {everySteps: 200}
    resources: {threads: 1}
""")
        sha256 = self.undisturbed(job)
        for role, index in (("worker", 1), ("worker", 0), ("ps", 1)):
            with self.subTest(killed=f"{role}-{index}"):
                run = self.launch(job, self.OVERRIDES)
                run.await_step(500)
                run.kill(role, index)
                self.check(run, sha256)

    def test_a_network_with_batch_normalization(self):
        job = sync_job(self.folder.name, steps=600, batch=16, checkpoint_every=150)
        model = ("training.model={input: {shape: [28, 28, 1]}, layers: [{conv2d: {filters: 4, kernelSize: 5, strides: 2}}, batchNormalization, "
                 "{activation: {function: relu}}, flatten, {dense: {units: 10}}], loss: softmaxCrossEntropy}")
        sha256 = self.undisturbed(job, (model,))
        for role, index in (("worker", 1), ("ps", 0)):
            with self.subTest(killed=f"{role}-{index}"):
                run = self.launch(job, (*self.OVERRIDES, model))
                run.await_step(200)
                run.kill(role, index)
                self.check(run, sha256)


class SmallShares(JobTest):
    def test_fewer_examples_than_workers_and_epochs_that_do_not_divide(self):
        for mode in ("sync", "async"):
            for servers in (1, 3):
                for examples, batch in ((1, 1), (9, 2)):
                    with self.subTest(mode=mode, servers=servers, examples=examples, batch=batch):
                        job = job_file(self.folder.name, workers=4, ps=servers, mode=mode, steps=7, batch=batch)
                        report = self.succeed(self.launch(job, [f"training.data.train.range=[0, {examples}]"]))
                        self.assertEqual(report["failures"], [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=OPTIONS.kills)
    parser.add_argument("--terms", type=int, default=OPTIONS.terms)
    parser.add_argument("--seed", type=int)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(verbosity=2, argv=[sys.argv[0], *rest])
