"""Synchronous jobs without servers: the bits of jobs with servers, whatever happens to a worker.

    python3 tests/e2e/allreduce_test.py [--kills N] [--terms N] [--seed N]

A seed is printed, which repeats the choice of replicas, signals and moments (though not what the machine does meanwhile).
"""
import argparse
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

from trainyard import ROOT, TRAINER, JobTest, job_file

OPTIONS = argparse.Namespace(kills=6, terms=3, seed=None)
DISTURBANCES_PER_RUN = 3
RESTARTS = "spec.runPolicy.backoffLimit=1000"
QUICK = "training.timeouts.silence=3"
BATCH_NORM = ("training.model={input: {shape: [28, 28, 1]}, layers: [{conv2d: {filters: 4, kernelSize: 5, strides: 2}}, batchNormalization, "
              "{activation: {function: relu}}, flatten, {dense: {units: 10}}], loss: softmaxCrossEntropy}")
TEXT = """apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: text}
spec:
  worker: {replicas: 2}
  training:
    model: {input: {shape: [10], vocabulary: 65}, layers: [{embedding: {outputDim: 8}}, {lstm: {units: 16, returnSequences: true, stateful: true}}, {dense: {units: 65}}], loss: softmaxCrossEntropy}
    data: {format: text, dir: examples/data/tinyshakespeare, tokens: characters, train: {files: [input.txt]}}
    batchSize: 4
    steps: 1500
    optimizer: {name: momentum, learningRate: 0.1}
    strategy: {allReduce: {}}
    checkpoint: {everySteps: 200}
    resources: {threads: 1}
"""


class AllReduceTest(JobTest):
    def digest(self, job, *overrides):
        return self.succeed(self.launch(job, (RESTARTS, QUICK, *overrides)))["parametersSha256"]

    def check(self, run, sha256):
        report = self.succeed(run)
        self.assertEqual(report["parametersSha256"], sha256, f"{report['redone']}\n{run.logs()}")
        return report


class SameBits(AllReduceTest):
    def test_workers_end_with_the_bits_of_sync_servers(self):
        for workers in (1, 2, 3, 4):
            servers = self.digest(job_file(self.folder.name, workers=workers, ps=1, mode="sync", steps=40, batch=16))
            job = job_file(self.folder.name, workers=workers, mode="allReduce", steps=40, batch=16)
            for algorithm in ("auto", "direct", "halvingDoubling"):
                with self.subTest(workers=workers, algorithm=algorithm):
                    self.assertEqual(self.digest(job, f"training.strategy.allReduce.algorithm={algorithm}"), servers)

    def test_moving_statistics_clipping_and_another_optimizer(self):
        for override in (BATCH_NORM, "training.optimizer={name: adam, learningRate: 0.001, clipNorm: 0.5, schedule: {name: cosine, decaySteps: 30}}"):
            with self.subTest(override=override):
                servers = self.digest(job_file(self.folder.name, workers=3, ps=2, mode="sync", steps=30, batch=16), override)
                self.assertEqual(self.digest(job_file(self.folder.name, workers=3, mode="allReduce", steps=30, batch=16), override), servers)

    def test_fewer_examples_than_workers_and_epochs_that_do_not_divide(self):
        for examples, batch in ((1, 1), (9, 2), (70, 16)):
            for override in (BATCH_NORM, "training.seed=3"):
                with self.subTest(examples=examples, batch=batch):
                    data = f"training.data.train.range=[0, {examples}]"
                    servers = self.digest(job_file(self.folder.name, workers=4, ps=1, mode="sync", steps=7, batch=batch), data, override)
                    job = job_file(self.folder.name, workers=4, mode="allReduce", steps=7, batch=batch)
                    for algorithm in ("direct", "halvingDoubling"):
                        self.assertEqual(self.digest(job, data, override, f"training.strategy.allReduce.algorithm={algorithm}"), servers)

    def test_a_recurrent_network_whose_embedding_is_sparse(self):
        job = pathlib.Path(self.folder.name) / "text.yaml"
        job.write_text(TEXT)
        short = "training.steps=100"
        servers = self.digest(job, short, "spec.ps={replicas: 1}", "training.strategy={parameterServer: {mode: sync}}")
        self.assertEqual(self.digest(job, short), servers)


class Disturbed(AllReduceTest):
    def disturb(self, run, index, with_signal):
        """The signal to a worker that runs, or nothing where it does not run now."""
        if run.replica_pid("worker", index) is None:
            return False
        try:
            run.kill("worker", index, with_signal)
        except (AssertionError, ProcessLookupError):
            return False
        return True

    def test_random_kills_and_terms_change_no_bit(self):
        seed = OPTIONS.seed if OPTIONS.seed is not None else random.SystemRandom().randrange(1 << 32)
        chance = random.Random(seed)
        signals = [signal.SIGKILL] * OPTIONS.kills + [signal.SIGTERM] * OPTIONS.terms
        chance.shuffle(signals)
        print(f"seed {seed}", flush=True)
        job = job_file(self.folder.name, workers=3, mode="allReduce", steps=800, batch=16, checkpoint_every=100)
        sha256 = self.digest(job)
        sent = redone = 0
        while sent < len(signals):
            run = self.launch(job, (RESTARTS, QUICK))
            here = 0
            while here < DISTURBANCES_PER_RUN and sent < len(signals) and run.process.poll() is None:
                time.sleep(chance.uniform(0.05, 0.9))
                if self.disturb(run, chance.randrange(3), signals[sent]):
                    sent += 1
                    here += 1
            report = self.check(run, sha256)
            redone += sum(steps["to"] - steps["from"] for steps in report["redone"])
        print(f"{sent} signals, {redone} steps done again", flush=True)

    def test_a_worker_that_is_lost_costs_no_step_and_the_chief_those_since_its_checkpoint(self):
        job = job_file(self.folder.name, workers=3, mode="allReduce", steps=600, batch=16, checkpoint_every=150)
        sha256 = self.digest(job)
        for index in (2, 0):
            with self.subTest(killed=index):
                run = self.launch(job, (RESTARTS, QUICK))
                run.await_step(200)
                run.kill("worker", index)
                report = self.check(run, sha256)
                redone = sum(steps["to"] - steps["from"] for steps in report["redone"])
                if index == 0:
                    self.assertGreaterEqual(redone, 40)
                    self.assertIn("rank 0", report["redone"][0]["reason"])
                else:
                    self.assertLessEqual(redone, 1)

    def test_a_kill_at_the_last_step(self):
        job = job_file(self.folder.name, workers=3, mode="allReduce", steps=600, batch=16, checkpoint_every=150)
        sha256 = self.digest(job)
        for index in range(3):
            with self.subTest(killed=index):
                run = self.launch(job, (RESTARTS, QUICK))
                run.await_step(400)
                while run.process.poll() is None:
                    progress = run.progress()
                    if progress is None or progress.get("step", 0) >= 590:
                        break
                self.disturb(run, index, signal.SIGKILL)
                self.check(run, sha256)

    def test_a_job_that_is_stopped_goes_on_where_it_was(self):
        job = job_file(self.folder.name, workers=3, mode="allReduce", steps=600, batch=16)
        sha256 = self.digest(job)
        run = self.launch(job, (RESTARTS, QUICK))
        run.await_step(200)
        run.process.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(), 130, f"{run.text}\n{run.logs()}")
        steps = sorted(int(folder.name.split("-")[1]) for folder in (run.output / "checkpoints").glob("step-*"))
        self.assertGreaterEqual(steps[-1], 200)
        report = self.check(self.launch(job, (RESTARTS, QUICK), output=run.output), sha256)
        self.assertEqual(report["redone"], [])

    def test_a_stateful_recurrent_network(self):
        job = pathlib.Path(self.folder.name) / "text.yaml"
        job.write_text(TEXT)
        sha256 = self.digest(job)
        for index in (1, 0):
            with self.subTest(killed=index):
                run = self.launch(job, (RESTARTS, QUICK))
                run.await_step(500)
                run.kill("worker", index)
                self.check(run, sha256)

    def test_early_stopping_ends_all_workers_at_one_step(self):
        job = job_file(self.folder.name, workers=3, mode="allReduce", steps=2000, batch=16,
                       extra="    evaluate: {everySteps: 20, earlyStopping: {metric: loss, patience: 1, minDelta: 10}}\n")
        reports = [self.succeed(self.launch(job, (RESTARTS, QUICK))) for _ in range(2)]
        self.assertLess(reports[0]["steps"], 2000)
        self.assertEqual(reports[0]["parametersSha256"], reports[1]["parametersSha256"])
        self.assertIn("stoppedEarly", reports[0])


class Refused(AllReduceTest):
    def test_servers_a_chief_and_a_ring_are_refused_with_a_reason(self):
        job = job_file(self.folder.name, workers=2, mode="allReduce")
        for override, expected in (("spec.ps.replicas=1", "the workers hold the parameters"),
                                   ("spec.chief={replicas: 1}", "worker 0 is the chief"),
                                   ("training.strategy.allReduce.algorithm=ring", "expected auto, direct or halvingDoubling")):
            with self.subTest(override=override):
                done = subprocess.run([TRAINER, "launch", str(job), "--output", self.folder.name + "/out", "--set", override], cwd=ROOT,
                                      capture_output=True, text=True, timeout=60, check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(expected, done.stdout + done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=OPTIONS.kills)
    parser.add_argument("--terms", type=int, default=OPTIONS.terms)
    parser.add_argument("--seed", type=int)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(verbosity=2, argv=[sys.argv[0], *rest])
