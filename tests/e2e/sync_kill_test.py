"""Synchronous jobs whose replicas are killed and terminated at random moments: the bits of the undisturbed run, every time.

    python3 tests/e2e/sync_kill_test.py [--kills N] [--terms N] [--seed N]

A seed is printed, which repeats the choice of replicas, signals and moments (though not what the machine does meanwhile). Every second run talks
over gRPC: without that the replicas of one machine choose shared memory.
"""
import argparse
import collections
import contextlib
import os
import pathlib
import random
import signal
import sys
import time
import unittest

from trainyard import DEADLINE, JobTest, job_file

OPTIONS = argparse.Namespace(kills=20, terms=8, seed=None)
STEPS = 160
SAVE_EVERY = 30
LAST_BLOW = 0.8  # of the steps; later blows could find the job at its end
REPLICAS = (("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1), ("worker", 2))
ENDS = {signal.SIGKILL: ("signal 9",), signal.SIGTERM: ("exit code 143", "signal 15")}  # 15: before the program has read its options
Blow = collections.namedtuple("Blow", "replica signal")


def sync_job(folder, **options):
    """LeNet on real digits: 2 servers, 3 workers, a job that may restart as often as it has to."""
    return job_file(folder, workers=3, ps=2, mode="sync", run_policy="", **{"batch": 4, **options})


class SyncKillTest(JobTest):
    OVERRIDES = ("spec.runPolicy.backoffLimit=1000", "training.timeouts.stop=1")

    def setUp(self):
        super().setUp()
        self.started = 0

    def undisturbed(self, job, overrides=()):
        return self.succeed(self.launch(job, (*self.OVERRIDES, *overrides)))["parametersSha256"]

    def start(self, job, overrides=()):
        """A run to be disturbed; every second one over gRPC."""
        self.started += 1
        run = self.launch(job, (*self.OVERRIDES, *overrides, f"training.resources.sharedMemory={'false' if self.started % 2 else 'true'}"))
        run.in_memory = self.started % 2 == 0
        run.falls = []  # (from, to): the chief's steps that were seen to go back
        run.last_step = 0
        return run

    def check(self, run, sha256):
        report = self.succeed(run)
        self.assertEqual(report["parametersSha256"], sha256, f"{report['redone']}\n{run.logs()}")
        self.assertEqual("through shared memory" in run.logs(), run.in_memory)
        return report

    def await_training(self, run, until):
        """Waits until the chief does steps: a second one after what was under way. False where the job is past the step `until`, or over."""
        done, end = 0, time.monotonic() + DEADLINE
        while run.process.poll() is None and time.monotonic() < end:
            step = (run.progress() or {}).get("step", 0)
            if step > until:
                return False
            if step > 0 and step != run.last_step:  # 0: a chief that starts
                if step < run.last_step:
                    run.falls.append((run.last_step, step))
                done += 1
                run.last_step = step
            if done == 3:
                return True
            time.sleep(0.01)
        self.assertIsNotNone(run.process.poll(), f"no step is done for {DEADLINE} s:\n{run.logs()}")
        return False

    def await_ends(self, pids):
        end = time.monotonic() + DEADLINE
        while any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def await_process(self, run, replica, other_than):
        """The replica's process, when it is another one than the last that was struck; None where the job is over."""
        end = time.monotonic() + DEADLINE
        while run.process.poll() is None and time.monotonic() < end:
            pid = run.replica_pid(*replica)
            if pid is not None and pid != other_than:
                return pid
            time.sleep(0.01)
        self.assertIsNotNone(run.process.poll(), f"{replica} does not come back within {DEADLINE} s:\n{run.logs()}")
        return None

    def strike(self, run, signals, chance):
        """Deals blows at random moments of the training, and some while the job still recovers from the one before. Those dealt."""
        dealt, struck = [], {}
        # Each replica once and one twice: the second restart of a replica waits for a second, the third for two.
        victims = [*chance.sample(REPLICAS, len(REPLICAS)), chance.choice(REPLICAS)]
        for replica, number in zip(victims, signals):
            if not dealt or chance.random() < 0.7:
                self.await_ends(struck.values())
                if not self.await_training(run, LAST_BLOW * STEPS):
                    break
            time.sleep(chance.uniform(0, 0.1))
            pid = self.await_process(run, replica, struck.get(replica))
            if pid is None:
                break
            with contextlib.suppress(ProcessLookupError):  # it has just ended: missed() finds that
                os.kill(pid, number)
            struck[replica] = pid
            dealt.append(Blow("%s-%d" % replica, number))
        return dealt

    def missed(self, dealt, report):
        """The signals of the blows that ended no replica. The report tells every other one, and nothing else, as a failure."""
        failures = [(failure["replica"], failure["reason"]) for failure in report["failures"]]
        missed = []
        for blow in dealt:
            told = next(((replica, reason) for replica, reason in failures if replica == blow.replica and reason.startswith(ENDS[blow.signal])), None)
            if told is None:
                missed.append(blow.signal)
            else:
                failures.remove(told)
        self.assertEqual(failures, [], dealt)
        return missed

    def check_redone(self, run, report):
        """The report has every step that the chief was seen to go back, whichever replicas were lost with it. How many times it was."""
        redone = report["redone"]
        for steps in redone:
            self.assertTrue(steps["reason"])
            self.assertTrue(0 <= steps["from"] < steps["to"] <= STEPS, redone)
        for high, low in run.falls:
            self.assertTrue(any(steps["from"] <= low and high <= steps["to"] for steps in redone), f"{high} to {low}: {redone}")
        return len(run.falls)

    def test_random_kills_and_terms_change_no_bit(self):
        seed = OPTIONS.seed if OPTIONS.seed is not None else random.SystemRandom().randrange(1 << 32)
        chance = random.Random(seed)
        signals = [signal.SIGKILL] * OPTIONS.kills + [signal.SIGTERM] * OPTIONS.terms
        chance.shuffle(signals)
        print(f"seed {seed}", flush=True)
        job = sync_job(self.folder.name, steps=STEPS, checkpoint_every=SAVE_EVERY)
        sha256 = self.undisturbed(job)
        hits, redone, told = collections.Counter(), 0, 0
        most_runs = 3 * len(signals)
        while signals:
            run = self.start(job)
            self.assertLessEqual(self.started, most_runs)
            dealt = self.strike(run, signals, chance)
            report = self.check(run, sha256)
            missed = self.missed(dealt, report)
            told += self.check_redone(run, report)
            hits += collections.Counter(blow.signal for blow in dealt) - collections.Counter(missed)
            signals = signals[len(dealt):] + missed
            redone += sum(steps["to"] - steps["from"] for steps in report["redone"])
        self.assertEqual((hits[signal.SIGKILL], hits[signal.SIGTERM]), (OPTIONS.kills, OPTIONS.terms))
        self.assertGreaterEqual(told, OPTIONS.kills // 20)
        print(f"{hits[signal.SIGKILL]} kills and {hits[signal.SIGTERM]} terms in {self.started} runs, {redone} steps done again", flush=True)

    def test_a_server_that_is_lost_takes_the_job_back_to_a_checkpoint_and_the_report_says_so(self):
        job = sync_job(self.folder.name, steps=120, checkpoint_every=30)
        sha256 = self.undisturbed(job)
        run = self.start(job)
        run.await_step(40)
        run.kill("ps", 1)
        report = self.check(run, sha256)
        self.assertGreaterEqual(len(report["redone"]), 1)
        self.assertIn("server 1", report["redone"][0]["reason"])
        self.assertIn("done again", run.text)

    def test_a_server_lost_without_any_checkpoint_takes_the_job_back_to_the_start(self):
        job = sync_job(self.folder.name, steps=120)
        sha256 = self.undisturbed(job)
        run = self.start(job)
        run.await_step(40)
        run.kill("ps", 0)
        report = self.check(run, sha256)
        self.assertEqual(report["redone"][0]["from"], 0)

    def test_two_at_once(self):
        job = sync_job(self.folder.name, steps=120, checkpoint_every=30)
        sha256 = self.undisturbed(job)
        for first, second in ((("ps", 0), ("worker", 0)), (("ps", 0), ("ps", 1)), (("worker", 0), ("worker", 2))):
            with self.subTest(killed=(first, second)):
                run = self.start(job)
                run.await_step(40)
                run.kill(*first)
                run.kill(*second)
                self.check(run, sha256)

    def test_the_chief_and_all_servers_at_once_and_the_report_says_which_steps_came_again(self):
        job = sync_job(self.folder.name, steps=120, checkpoint_every=30)
        sha256 = self.undisturbed(job)
        for also in ((), (("worker", 1), ("worker", 2))):
            with self.subTest(also=also):
                run = self.start(job)
                told = run.await_step(40)["step"]
                pids = [run.replica_pid(*replica) for replica in (("worker", 0), ("ps", 0), ("ps", 1), *also)]
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)
                redone = self.check(run, sha256)["redone"]
                self.assertEqual(len(redone), 1, redone)
                # The job goes on until the kills are dealt, maybe past another checkpoint. The newest one may not be written yet.
                self.assertIn(redone[0]["from"], (0, 30, 60, 90))
                self.assertLess(redone[0]["from"], redone[0]["to"])
                self.assertLessEqual(told, redone[0]["to"], redone)
                self.assertIn("the chief was lost", redone[0]["reason"])

    def kill_near_the_end(self, job, replica, sha256):
        """Whether the job was still there for it."""
        run = self.start(job)
        run.await_step(60)
        while run.process.poll() is None:
            progress = run.progress()
            if progress is None or progress.get("step", 0) >= 112:
                break
        pid = run.replica_pid(*replica)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        return self.check(run, sha256)["failures"] != []

    def test_a_kill_at_the_last_step(self):
        job = sync_job(self.folder.name, steps=120, checkpoint_every=30)
        sha256 = self.undisturbed(job)
        for replica in REPLICAS:
            with self.subTest(killed=replica):
                self.assertTrue(any(self.kill_near_the_end(job, replica, sha256) for _ in range(5)))

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
                run = self.start(job)
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
                run = self.start(job, (model,))
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
