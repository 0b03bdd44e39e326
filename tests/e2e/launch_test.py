"""One job file, run as local processes: shapes, exactness, resume, and what is left behind."""
import json
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

import trainyard
from trainyard import TRAINER, JobTest, job_file


class LaunchTest(JobTest):
    def run_job(self, output=None, overrides=(), **options):
        run = self.launch(job_file(self.folder.name, **options), overrides, output)
        code = run.wait()
        self.assertEqual(code, 0, f"{run.text}\n{run.logs()}")
        return run


class Shapes(LaunchTest):
    """Workers and servers of the tutorials, in both modes."""

    def check(self, workers, ps, mode, model):
        run = self.run_job(workers=workers, ps=ps, mode=mode, model=model, steps=6, batch=16)
        report = run.report()
        self.assertEqual(report["state"], "Succeeded")
        self.assertEqual((report["workers"], report["ps"]), (workers, ps))
        self.assertEqual([worker["batches"] for worker in report["perWorker"]], [6] * workers)
        self.assertEqual(report["steps"], 6 * workers if mode == "async" else 6)
        keys = sum(server["keys"] for server in report["perServer"])
        self.assertGreater(keys, 0)


def add_shapes():
    for mode in ("sync", "async"):
        for model in ("linear", "lenet5"):
            for workers, ps in ((1, 1), (2, 1), (3, 1), (1, 2), (1, 3), (2, 2)):

                def test(self, workers=workers, ps=ps, mode=mode, model=model):
                    self.check(workers, ps, mode, model)

                setattr(Shapes, f"test_{workers}w{ps}p_{mode}_{model}_succeeds", test)


add_shapes()


class Exactness(LaunchTest):
    def digest(self, **options):
        return self.run_job(**options).report()["parametersSha256"]

    def test_the_same_seed_gives_the_same_bits_with_two_workers(self):
        first = self.digest(workers=2, ps=2, mode="sync")
        self.assertEqual(first, self.digest(workers=2, ps=2, mode="sync"))
        self.assertEqual(len(first), 64)

    def test_one_worker_over_one_or_three_servers_gives_the_bits_of_local(self):
        local = self.digest()
        self.assertEqual(local, self.digest(workers=1, ps=1, mode="sync"))
        self.assertEqual(local, self.digest(workers=1, ps=3, mode="sync"))

    def test_two_workers_of_64_agree_with_local_at_128_to_rounding(self):
        two = trainyard.last_parameters(self.run_job(workers=2, ps=1, mode="sync", batch=64).output)
        one = trainyard.last_parameters(self.run_job(batch=128).output)
        self.assertEqual(two.keys(), one.keys())
        worst = max(abs(a - b) for name in one for a, b in zip(one[name], two[name]))
        self.assertLess(worst, 1e-4)
        self.assertNotEqual(one, {name: (0.0,) * len(values) for name, values in one.items()})

    def check_resume(self, **options):
        whole = self.run_job(steps=40, **options)
        half = self.run_job(steps=20, **options)
        resumed = self.run_job(steps=40, output=half.output, **options)
        self.assertEqual(whole.report()["parametersSha256"], resumed.report()["parametersSha256"])
        self.assertNotEqual(whole.report()["parametersSha256"], "")

    def test_a_local_run_that_was_stopped_and_resumed_gives_the_bits_of_one_that_was_not(self):
        self.check_resume()

    def test_so_does_a_sync_run_with_two_workers_and_two_servers(self):
        self.check_resume(workers=2, ps=2, mode="sync")


class Output(LaunchTest):
    def test_a_run_leaves_report_checkpoints_summaries_trace_and_logs(self):
        run = self.run_job(workers=2, ps=1, mode="async", steps=30, checkpoint_every=10)
        report = run.report()
        for field in ("job", "state", "model", "strategy", "workers", "ps", "batchSize", "epochs", "steps", "seconds", "batchesPerSecond",
                      "examplesPerSecond", "eval", "history", "perWorker", "perServer", "staleness", "parametersSha256", "version", "cpu"):
            self.assertIn(field, report)
        self.assertIn("accuracy", report["eval"])
        self.assertGreater(report["examplesPerSecond"], 0)
        for worker in report["perWorker"]:
            self.assertGreater(worker["maxRssBytes"], 1 << 20)
            self.assertGreater(worker["computeSeconds"], 0)
        self.assertLessEqual(len(list((run.output / "checkpoints").glob("step-*"))), 3)
        for replica in ("worker-0", "worker-1"):
            self.assertTrue(list((run.output / "summaries" / replica).glob("events.out.tfevents.*")), replica)
        self.assertTrue((run.output / "logs" / "ps-0.log").exists())
        spans = json.loads((run.output / "trace.json").read_text())
        self.assertEqual({span["pid"] for span in spans if span.get("ph") == "X"}, {1, 2, 3})
        self.assertEqual(report["profile"]["steps"], [10, 20])
        self.assertIn("Where the time went, steps 10-19 of 2 workers", run.text)
        for replica in report["perWorker"] + report["perServer"]:
            self.assertGreater(replica["cpuCores"], 0)
            self.assertLessEqual(max((point["residentBytes"] for point in replica["usage"]), default=0), replica["maxRssBytes"])

    def test_profile_prints_the_table_again_and_says_where_there_is_none(self):
        run = self.run_job(workers=1, steps=12, extra="    profile: {steps: [3, 5]}\n")
        self.assertEqual(run.report()["profile"]["steps"], [3, 5])
        (run.output / "trace.json").unlink()
        again = subprocess.run([TRAINER, "profile", str(run.output), "--rows", "3"], capture_output=True, text=True, check=False)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("steps 3-4 of 1 worker", again.stdout)
        self.assertTrue((run.output / "trace.json").exists())
        none = self.run_job(workers=1, steps=3, extra="    profile: {steps: [0, 0]}\n")
        self.assertNotIn("profile", none.report())
        self.assertFalse((none.output / "trace.json").exists())
        missing = subprocess.run([TRAINER, "profile", str(none.output)], capture_output=True, text=True, check=False)
        self.assertEqual(missing.returncode, 1)
        self.assertIn("holds no profile", missing.stderr)

    def test_a_resumed_run_keeps_its_profile_and_one_that_trains_nothing_its_report(self):
        options = {"workers": 1, "model": "linear", "extra": "    profile: {steps: [2, 4]}\n"}
        first = self.run_job(steps=10, **options)
        resumed = self.run_job(steps=20, output=first.output, **options)
        self.assertIn("Where the time went, steps 2-3", resumed.text)
        self.assertEqual(subprocess.run([TRAINER, "profile", str(first.output)], capture_output=True, check=False).returncode, 0)
        before = resumed.report()
        self.assertEqual((before["steps"], before["perWorker"][0]["batches"]), (20, 10))
        self.run_job(steps=20, output=first.output, **options)
        self.assertEqual(resumed.report(), before)
        self.assertTrue((first.output / "trace.json").exists())

    def test_a_launch_that_goes_on_tells_of_no_restart(self):
        for options in ({"ps": 1, "mode": "sync"}, {"ps": 1, "mode": "async"}, {"mode": "allReduce"}):
            with self.subTest(**options):
                first = self.run_job(workers=3, model="linear", steps=10, **options)
                resumed = self.run_job(workers=3, model="linear", steps=20, output=first.output, **options)
                self.assertEqual(resumed.report()["restarts"], [])
                self.assertGreater(resumed.report()["firstStep"], 0)

    def test_printed_paths_and_commands_follow_the_folders_that_the_job_names(self):
        kept = pathlib.Path(self.folder.name, "kept")
        run = self.run_job(workers=1, steps=6, overrides=[f"training.checkpoint.dir={kept}", "training.summary.dir=curves"])
        self.assertIn(f"checkpoints   {kept}\n", run.text)
        self.assertIn(f"--logdir {run.output}/curves\n", run.text)
        evaluated = subprocess.run([TRAINER, "evaluate", str(run.output)], capture_output=True, text=True, check=False, cwd=trainyard.ROOT)
        self.assertIn(f"{kept}/step-6", evaluated.stdout, evaluated.stderr)

    def test_what_a_user_removed_meanwhile_is_not_told_to_be_there(self):
        run = self.launch(job_file(self.folder.name, steps=1_000_000))
        run.await_step(1)
        removed = run.output.rename(f"{run.output}-removed")
        self.addCleanup(shutil.rmtree, removed)
        run.process.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(), 130)
        for path in re.findall(rf"^  (?:page|report|checkpoints|TensorBoard|trace|logs) +(?:tensorboard --logdir )?({run.output}\S*)", run.text, re.MULTILINE):
            self.assertTrue(pathlib.Path(path).exists(), f"{path}\n{run.text}")
        self.assertIn(f"logs          none: {run.output}/logs is not there", run.text)
        self.assertTrue(run.report())

    def test_the_last_line_of_progress_is_that_of_the_end(self):
        job = job_file(self.folder.name, workers=2, ps=1, mode="sync", model="linear", steps=400, batch=16)
        output = pathlib.Path(self.folder.name, "run")
        done = subprocess.run([TRAINER, "launch", job, "--output", output, "--progress", "plain"], capture_output=True, text=True, check=True, cwd=trainyard.ROOT)
        last = re.findall(r"^step (\d+)/(\d+) \(100%\), epoch (\d+),", done.stdout + done.stderr, re.MULTILINE)[-1]
        history = json.loads((output / "report.json").read_text())["history"]
        self.assertEqual([int(number) for number in last], [400, 400, history[-1]["epoch"]])
        self.assertGreater(history[-1]["epoch"], 1)

    def test_launches_of_one_second_without_output_get_folders_of_their_own(self):
        job = job_file(self.folder.name, model="linear", steps=3, batch=16)
        command = [TRAINER, "launch", str(job), "--progress", "none"]
        runs = [subprocess.Popen(command, cwd=self.folder.name, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(3)]
        texts = [run.communicate(timeout=trainyard.DEADLINE)[0] for run in runs]
        self.assertEqual([run.returncode for run in runs], [0, 0, 0], texts)
        self.assertEqual(len({re.search(r"report +(\S+)", text)[1] for text in texts}), 3, texts)

    def test_each_evaluation_has_a_line_however_fast_they_come(self):
        job = job_file(self.folder.name, model="linear", batch=256)
        command = [TRAINER, "launch", job, "--output", pathlib.Path(self.folder.name, "run"), "--progress", "plain", "--set", "training.steps=null", "--set", "training.epochs=60"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=trainyard.ROOT)
        self.assertEqual(re.findall(r"^epoch (\d+), step", done.stderr, re.MULTILINE), [str(epoch) for epoch in range(60)])

    def test_hints_name_the_program_as_it_was_called(self):
        run = self.run_job(workers=1, steps=3)
        self.assertIn(f"  {TRAINER} inspect", run.text)
        self.assertIn("accuracy", run.text)
        self.assertIn(str(run.output), run.text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
