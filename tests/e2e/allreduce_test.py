"""Synchronous jobs without servers: the bits of jobs with servers, whatever happens to a worker.

    python3 tests/e2e/allreduce_test.py [--kills N] [--terms N] [--seed N]

A seed is printed, which repeats the choice of replicas, signals and moments (though not what the machine does meanwhile).
"""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

from trainyard import ROOT, TRAINER, JobTest, free_ports, job_file

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


SHARDED = "training.strategy.allReduce.shardOptimizer=true"


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
            for algorithm in ("auto", "direct", "halvingDoubling", "hierarchical"):
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

    def test_slots_that_the_workers_have_among_them(self):
        for optimizer in ("{name: momentum, learningRate: 0.1}", "{name: adamw, learningRate: 0.001, clipNorm: 0.5}"):
            override = f"training.optimizer={optimizer}"
            for workers in (1, 3):
                servers = self.digest(job_file(self.folder.name, workers=workers, ps=1, mode="sync", steps=30, batch=16), override, BATCH_NORM)
                job = job_file(self.folder.name, workers=workers, mode="allReduce", steps=30, batch=16, checkpoint_every=10)
                whole = self.succeed(self.launch(job, (RESTARTS, QUICK, override, BATCH_NORM)))
                for algorithm in ("auto", "halvingDoubling"):
                    with self.subTest(optimizer=optimizer, workers=workers, algorithm=algorithm):
                        run = self.launch(job, (RESTARTS, QUICK, override, BATCH_NORM, SHARDED, f"training.strategy.allReduce.algorithm={algorithm}"))
                        report = self.check(run, servers)
                        self.assertEqual(whole["parametersSha256"], servers)
                        slots = [worker["slotBytes"] for worker in report["perWorker"]]
                        self.assertAlmostEqual(sum(slots), whole["perWorker"][0]["slotBytes"], delta=200)
                        if algorithm == "auto":
                            self.assertLessEqual(max(slots) - min(slots), 200)

    def test_a_checkpoint_of_shared_slots_goes_on_with_another_number_of_workers(self):
        override = "training.optimizer={name: adam, learningRate: 0.001}"
        job = job_file(self.folder.name, workers=3, mode="allReduce", steps=20, batch=16)
        begun = [self.launch(job, (RESTARTS, QUICK, override, *sharded)) for sharded in ((SHARDED,), ())]
        for run in begun:
            self.succeed(run)
        reports = [self.succeed(self.launch(job, (RESTARTS, QUICK, override, "training.steps=40", "worker.replicas=2", *sharded), output=run.output))
                   for run in begun for sharded in ((SHARDED,), ())]
        self.assertEqual(len({report["parametersSha256"] for report in reports}), 1)

    def test_workers_of_two_nodes_sum_within_each_node_first(self):
        job = job_file(self.folder.name, workers=4, mode="allReduce", steps=20, batch=16)
        expected = self.digest(job)
        ports = free_ports(8)
        output = pathlib.Path(self.folder.name) / "by-hand"
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports[:4])
        workers = [subprocess.Popen([TRAINER, "train", "--job_name=worker", f"--task_index={rank}", f"--worker_hosts={hosts}", "--config", str(job),
                                     "--output", str(output), "--http_port", str(ports[4 + rank]),
                                     "--set", "training.strategy.allReduce.algorithm=hierarchical"],
                                    cwd=ROOT, env={**os.environ, "TRAINYARD_NODE": f"node-{rank // 2}"}, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True) for rank in range(4)]
        for worker in workers:
            self.addCleanup(worker.kill)
        for worker in workers:
            said = worker.communicate(timeout=120)[0]
            self.assertEqual(worker.returncode, 0, said)
            self.assertIn("all-reduce: hierarchical (2 nodes of 2)", said)
        report = json.loads((output / "replicas/worker-0.json").read_text(encoding="utf-8"))["chief"]
        self.assertEqual(report["parametersSha256"], expected)
        self.assertEqual(report["allReduce"], {"algorithm": "hierarchical (2 nodes of 2)"})

    def test_the_report_says_how_gradients_were_added(self):
        job = job_file(self.folder.name, workers=3, mode="allReduce", steps=10, batch=16)
        run = self.launch(job, (RESTARTS, QUICK))
        measured = self.succeed(run)["allReduce"]
        self.assertIn(measured["algorithm"].split()[0], ("direct", "halvingDoubling"))
        self.assertGreater(measured["latencySeconds"], 0)
        self.assertIn(f"all-reduce: {measured['algorithm']}; latency", run.logs())
        fixed = self.succeed(self.launch(job, (RESTARTS, QUICK, "training.strategy.allReduce.algorithm=direct")))["allReduce"]
        self.assertEqual(fixed, {"algorithm": "direct"})

    def test_a_recurrent_network_whose_embedding_is_sparse(self):
        job = pathlib.Path(self.folder.name) / "text.yaml"
        job.write_text(TEXT)
        short = "training.steps=100"
        servers = self.digest(job, short, "spec.ps={replicas: 1}", "training.strategy={parameterServer: {mode: sync}}")
        self.assertEqual(self.digest(job, short), servers)


class LongJob:
    """LeNet by three workers for three seconds of this machine: long enough for a kill. A slow machine would take a minute for what a fast one does
    in those. Its quarters end with a checkpoint."""

    WORKERS, BATCH, SECONDS = 3, 16, 3.0
    LEAST, MOST = 160, 600  # steps

    def __init__(self, test):
        begun = test.succeed(test.launch(job_file(test.folder.name, workers=self.WORKERS, mode="allReduce", steps=60, batch=self.BATCH), (RESTARTS, QUICK)))
        pace = 60 / begun["perWorker"][0]["seconds"]
        self.quarter = round(min(max(self.SECONDS * pace, self.LEAST), self.MOST) / 4)
        self.steps = 4 * self.quarter
        self._digests = {}

    def file(self, folder, **options):
        return job_file(folder, workers=self.WORKERS, mode="allReduce", steps=self.steps, batch=self.BATCH, **{"checkpoint_every": self.quarter, **options})

    def digest(self, test, *overrides):
        """Of the undisturbed job, which runs once."""
        if overrides not in self._digests:
            self._digests[overrides] = test.digest(self.file(test.folder.name), *overrides)
        return self._digests[overrides]


class Disturbed(AllReduceTest):
    _long_job = None

    def long_job(self):
        if Disturbed._long_job is None:
            Disturbed._long_job = LongJob(self)
        return Disturbed._long_job

    def disturb(self, run, index, with_signal):
        """The signal to a worker that runs, or nothing where it does not run now."""
        if run.replica_pid("worker", index) is None:
            return False
        try:
            run.kill("worker", index, with_signal)
        except (AssertionError, ProcessLookupError):
            return False
        return True

    def redone_after_a_kill(self, job, index, after, sha256, *overrides):
        """The steps that came again. A kill right behind a save, or at the end of a fast job, takes none back: then the next run is killed."""
        for _ in range(6):
            run = self.launch(job, (RESTARTS, QUICK, *overrides))
            step = run.await_step(after)["step"]
            self.disturb(run, index, signal.SIGKILL)
            report = self.check(run, sha256)
            redone = report["redone"]
            if redone:
                self.assertGreaterEqual(max(steps["to"] for steps in redone), step)
                self.assertEqual({restart["replica"] for restart in report["restarts"]}, {f"worker-{index}"})
                return redone
        self.fail("six kills took no step back")

    def test_random_kills_and_terms_change_no_bit(self):
        self.disturb_often()

    def test_random_kills_and_terms_change_no_bit_where_workers_share_the_slots(self):
        self.disturb_often(SHARDED, "training.optimizer={name: adam, learningRate: 0.001}")

    def disturb_often(self, *overrides):
        seed = OPTIONS.seed if OPTIONS.seed is not None else random.SystemRandom().randrange(1 << 32)
        chance = random.Random(seed)
        signals = [signal.SIGKILL] * OPTIONS.kills + [signal.SIGTERM] * OPTIONS.terms
        chance.shuffle(signals)
        print(f"seed {seed}", flush=True)
        long = self.long_job()
        sha256 = long.digest(self, *overrides)
        job = long.file(self.folder.name, checkpoint_every=long.quarter // 2)
        sent = redone = 0
        while sent < len(signals):
            run = self.launch(job, (RESTARTS, QUICK, *overrides))
            here = 0
            while here < DISTURBANCES_PER_RUN and sent < len(signals) and run.process.poll() is None:
                time.sleep(chance.uniform(0.05, 0.9))
                if self.disturb(run, chance.randrange(3), signals[sent]):
                    sent += 1
                    here += 1
            report = self.check(run, sha256)
            redone += sum(steps["to"] - steps["from"] for steps in report["redone"])
        print(f"{sent} signals, {redone} steps done again", flush=True)

    def test_a_worker_that_is_lost_costs_at_most_the_step_under_way(self):
        long = self.long_job()
        sha256 = long.digest(self)
        for index, checkpoint_every in ((2, long.quarter), (0, long.quarter), (0, 0)):
            with self.subTest(killed=index, checkpoint_every=checkpoint_every):
                run = self.launch(long.file(self.folder.name, checkpoint_every=checkpoint_every), (RESTARTS, QUICK))
                run.await_step(long.quarter + 10)
                run.kill("worker", index)
                report = self.check(run, sha256)
                self.assertLessEqual(sum(steps["to"] - steps["from"] for steps in report["redone"]), 1, report["redone"])
                self.assertEqual({restart["replica"] for restart in report["restarts"]}, {f"worker-{index}"})

    def test_a_worker_that_is_lost_takes_its_slots_with_it(self):
        long = self.long_job()
        sha256, job = long.digest(self), long.file(self.folder.name)
        for index in (2, 0):
            with self.subTest(killed=index):
                redone = self.redone_after_a_kill(job, index, long.quarter + 10, sha256, SHARDED)
                self.assertEqual([steps["from"] % long.quarter for steps in redone], [0] * len(redone), redone)

    def test_a_kill_at_the_last_step(self):
        long = self.long_job()
        sha256, job = long.digest(self), long.file(self.folder.name)
        for index, overrides in ((0, ()), (1, ()), (2, ()), (0, (SHARDED,)), (2, (SHARDED,))):
            with self.subTest(killed=index, overrides=overrides):
                run = self.launch(job, (RESTARTS, QUICK, *overrides))
                run.await_step(long.steps * 2 // 3)
                while run.process.poll() is None:
                    progress = run.progress()
                    if progress is None or progress.get("step", 0) >= long.steps - 10:
                        break
                self.disturb(run, index, signal.SIGKILL)
                self.check(run, sha256)

    def test_a_job_that_is_stopped_goes_on_where_it_was(self):
        long = self.long_job()
        sha256, job = long.digest(self), long.file(self.folder.name, checkpoint_every=0)
        for overrides in ((), (SHARDED,)):
            with self.subTest(overrides=overrides):
                run = self.launch(job, (RESTARTS, QUICK, *overrides))
                run.await_step(long.steps // 3)
                run.process.send_signal(signal.SIGINT)
                self.assertEqual(run.wait(), 130, f"{run.text}\n{run.logs()}")
                steps = sorted(int(folder.name.split("-")[1]) for folder in (run.output / "checkpoints").glob("step-*"))
                self.assertGreaterEqual(steps[-1], long.steps // 3)
                report = self.check(self.launch(job, (RESTARTS, QUICK, *overrides), output=run.output), sha256)
                self.assertEqual(report["redone"], [])

    def test_a_stateful_recurrent_network(self):
        job = pathlib.Path(self.folder.name) / "text.yaml"
        # A machine of its own does 30,000 steps a second: the job must last until it is seen at step 500.
        job.write_text(TEXT.replace("steps: 1500", "steps: 20000").replace("everySteps: 200", "everySteps: 2000"))
        sha256 = self.digest(job)
        for index in (1, 0):
            with self.subTest(killed=index):
                run = self.launch(job, (RESTARTS, QUICK))
                run.await_step(500)
                run.kill("worker", index)
                self.check(run, sha256)

    def test_a_stateful_recurrent_network_without_checkpoint_settings_goes_back_to_the_end_of_an_epoch(self):
        folder = pathlib.Path(self.folder.name)
        text = (pathlib.Path(ROOT) / "examples/data/tinyshakespeare/input.txt").read_bytes()[:8100]  # an epoch of 101 steps
        (folder / "input.txt").write_bytes(text)
        job = folder / "text.yaml"
        job.write_text(TEXT.replace("examples/data/tinyshakespeare", str(folder)).replace("    checkpoint: {everySteps: 200}\n", "")
                       .replace("vocabulary: 65", "vocabulary: 56").replace("units: 65", "units: 56").replace("steps: 1500", "steps: 4000"))
        for redone in self.redone_after_a_kill(job, 1, 500, self.digest(job)):
            self.assertGreater(redone["from"], 0)
            self.assertEqual(redone["from"] % 101, 0)

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
                                   ("training.strategy.allReduce.algorithm=ring", "expected auto, direct, halvingDoubling or hierarchical")):
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
