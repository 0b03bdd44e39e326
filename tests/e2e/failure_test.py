"""Replicas that are killed, checkpoints that are torn, signals, and input that is broken."""
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import trainyard
from trainyard import JobTest, Run, job_file


AT_ONCE = 10.0  # seconds: a tenth of one where the machine is idle


class FailureTest(JobTest):
    def start(self, overrides=(), output=None, **options):
        return self.launch(job_file(self.folder.name, **options), overrides, output)

    def fails_at_once(self, run, words):
        """The job's own mistake: every replica that meets it ends once, none starts again, one reason is on the screen, exit code 1."""
        self.assertEqual(run.wait(AT_ONCE), 1, run.text)
        self.assertNotIn("starts again", run.text)
        for word in words:
            self.assertIn(word, run.text)
        if run.text.startswith("error:"):
            return  # it was found before anything started: what is in the folder is another run's
        report = run.report()
        self.assertEqual(report["state"], "Failed")
        self.assertEqual(report["restarts"], [])
        failed = [failure["replica"] for failure in report["failures"]]
        self.assertEqual(sorted(set(failed)), sorted(failed))


class Killed(FailureTest):
    """kill -9 of one replica in the middle: it is restarted, the job succeeds and says what happened."""

    def check(self, mode, role, index):
        network = index == 1  # replicas of one machine choose shared memory
        run = self.start([f"training.resources.sharedMemory={str(not network).lower()}"], workers=2, ps=2, mode=mode, steps=300, batch=16, checkpoint_every=40)
        run.await_step(100)
        run.kill(role, index)
        report = self.succeed(run)
        self.assertEqual([failure["replica"] for failure in report["failures"]], [f"{role}-{index}"])
        self.assertIn("9", report["failures"][0]["reason"])
        self.assertGreaterEqual(len(report["restarts"]), 1)
        self.assertEqual("through shared memory" in run.logs(), not network)
        refilled = [restart for restart in report["restarts"] if restart["replica"] == "ps"]
        self.assertEqual(len(refilled), 1 if (mode, role) == ("async", "ps") else 0, refilled)
        self.assertEqual((report["steps"], report["plannedSteps"]), (600, 600) if mode == "async" else (300, 300))


for mode in ("sync", "async"):
    for role, index in (("worker", 1), ("worker", 0), ("ps", 0), ("ps", 1)):

        def test(self, mode=mode, role=role, index=index):
            self.check(mode, role, index)

        name = "the_chief" if (role, index) == ("worker", 0) else f"{role}_{index}"
        setattr(Killed, f"test_{name}_of_a_{mode}_job", test)


class Epochs(FailureTest):
    def epochs(self, run):
        return [{name: epoch[name] for name in ("epoch", "step", "loss", "eval")} for epoch in self.succeed(run)["history"]]

    def test_epochs_in_which_the_chief_was_killed_have_the_losses_of_their_steps(self):
        for mode, workers in ((None, 1), ("allReduce", 2)):
            with self.subTest(mode=mode):
                options = {"workers": workers, "mode": mode, "steps": 230, "batch": 20, "checkpoint_every": 7, "extra": "    evaluate: {everySteps: 25}\n"}
                expected = self.epochs(self.start(**options))
                run = self.start(**options)
                for step in (60, 170):
                    run.await_step(step)
                    run.kill("worker")
                found = self.epochs(run)
                self.assertGreater(len(expected), 1)
                if mode is not None:
                    # The other workers have the parameters of later steps than the checkpoint, but not the chief's losses up to there.
                    for epoch, known in zip(found, expected):
                        self.assertAlmostEqual(epoch["loss"], known["loss"], delta=known["loss"] / 4)
                        epoch["loss"] = known["loss"]
                self.assertEqual(found, expected)


class KilledTogether(FailureTest):
    def test_an_async_job_that_loses_chief_and_server_without_a_checkpoint_goes_on_from_another_workers_values(self):
        run = self.start(workers=2, ps=1, mode="async", steps=400, batch=32)
        run.await_step(100)
        run.kill("ps")
        run.kill("worker", 0)
        report = self.succeed(run)
        self.assertIn("no checkpoint", (run.output / "logs/worker-0.log").read_text())
        self.assertRegex((run.output / "logs/worker-1.log").read_text(),
                         r"was filled with values of step 0; this worker sends it its own, of step \d\d+")
        self.assertRegex((run.output / "logs/ps-0.log").read_text(), r"takes the values of worker 1, of step \d\d+")
        self.assertEqual([restart for restart in report["restarts"] if restart["replica"] == "ps"], [])
        self.assertEqual((report["steps"], report["plannedSteps"]), (800, 800))


class KeyMadeAnew(FailureTest):
    def test_a_worker_that_starts_with_another_key_joins_the_replicas_that_began_with_the_first(self):
        run = self.start(workers=2, ps=1, mode="sync", steps=300, batch=32)
        run.await_step(50)
        (run.output / "config/key").write_text("5" * 64 + "\n")
        run.kill("worker", 1)
        report = self.succeed(run)
        self.assertEqual(report["steps"], 300)
        self.assertIn("another key", (run.output / "logs/ps-0.log").read_text())


class LogsRemoved(FailureTest):
    """The folder of the logs is removed while the job trains. A replica that starts again needs a log."""

    def lose_logs_and_a_worker(self, instead):
        run = self.start(workers=2, mode="allReduce", steps=3000, batch=16, checkpoint_every=1000)
        run.await_step(20)
        logs = run.output / "logs"
        logs.rename(run.output / "logs-away")
        instead(logs)
        run.kill("worker", 1)
        return run

    def test_a_replica_that_starts_again_makes_the_folder_anew(self):
        run = self.lose_logs_and_a_worker(lambda logs: None)
        run.await_step(1, index=1)
        self.assertTrue((run.output / "logs/worker-1.log").exists())
        run.process.terminate()
        self.assertEqual(run.wait(), 130, run.text)

    def test_a_replica_that_cannot_start_again_ends_the_job_with_a_checkpoint_and_a_report(self):
        run = self.lose_logs_and_a_worker(lambda logs: logs.write_text("a file in its place"))
        self.assertEqual(run.wait(), 1, run.text)
        report = run.report()
        self.assertEqual(report["state"], "Failed")
        self.assertGreaterEqual(report["steps"], 20)
        self.assertIn("logs: Not a directory", report["failures"][-1]["reason"])
        self.assertIn("Failed: worker-1: ", run.text)
        self.assertTrue((run.output / "checkpoints" / f"step-{report['steps']}").is_dir(), run.text)


class KilledAtStart(FailureTest):
    def test_a_server_killed_before_the_first_step(self):
        run = self.start(workers=2, ps=1, mode="async", steps=60, batch=32)
        end = time.monotonic() + 30
        while run.replica_pid("ps") is None and time.monotonic() < end:
            time.sleep(0.01)
        run.kill("ps")
        self.succeed(run)

    def test_a_worker_that_always_fails_ends_the_job_with_the_backoff_limit(self):
        run = self.start(workers=1, steps=20, overrides=["spec.runPolicy.backoffLimit=0"])
        end = time.monotonic() + 30
        while run.replica_pid("worker") is None and time.monotonic() < end:
            time.sleep(0.01)
        run.kill("worker")
        self.assertEqual(run.wait(), 137)
        self.assertEqual(run.report()["state"], "Failed")
        self.assertIn("BackoffLimitExceeded", run.text)


class Checkpoints(FailureTest):
    def test_a_job_whose_chief_is_killed_for_good_tells_its_steps_and_how_it_goes_on(self):
        run = self.start(model="linear", steps=1000000, batch=16, checkpoint_every=200, overrides=["runPolicy.backoffLimit=0"])
        run.await_step(500)
        run.kill("worker")
        self.assertNotEqual(run.wait(), 0)
        report = run.report()
        self.assertGreaterEqual(report["steps"], 400, run.text)
        self.assertRegex(run.text, rf", {report['steps']} (of 1000000 )?steps")
        hint = re.search(r"launch (\S+) --output (\S+).*\n +go on from the checkpoint of step (\d+)", run.text)
        self.assertTrue((run.output / "checkpoints" / f"step-{hint[3]}").is_dir(), run.text)

    def test_a_torn_checkpoint_is_skipped_for_the_one_before_and_said(self):
        first = self.start(steps=40, checkpoint_every=10)
        self.succeed(first)
        newest = first.output / "checkpoints" / "step-40" / "parameters.safetensors"
        newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
        second = self.start(steps=50, output=first.output)
        self.succeed(second)
        log = (second.output / "logs" / "worker-0.log").read_text()
        self.assertIn("step-40", log)
        self.assertIn("step-30", log)
        self.assertIn("went on from step 30, 10 steps lost", second.text)
        self.assertEqual([(restart["step"], restart["lostSteps"]) for restart in second.report()["restarts"]], [(30, 10)])

    def test_a_flipped_bit_is_found(self):
        first = self.start(steps=20, checkpoint_every=10)
        self.succeed(first)
        path = first.output / "checkpoints" / "step-20" / "parameters.safetensors"
        blob = bytearray(path.read_bytes())
        blob[-5] ^= 1
        path.write_bytes(blob)
        second = self.start(steps=30, output=first.output)
        self.succeed(second)
        self.assertIn("step-10", (second.output / "logs" / "worker-0.log").read_text())

    def test_a_checkpoint_of_another_model_is_refused_by_name(self):
        first = self.start(steps=4)
        self.succeed(first)
        second = self.start(model="linear", steps=4, output=first.output)
        self.fails_at_once(second, ["lenet5"])


class Signals(FailureTest):
    def test_sigterm_of_the_launcher_writes_a_checkpoint_and_resume_goes_on(self):
        # A server waits 30 s for workers that read it, but not for workers that are gone.
        run = self.start(["training.timeouts.stop=40"], workers=2, ps=1, mode="async", steps=5000, batch=32)
        run.await_step(50)
        began = time.monotonic()
        run.process.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(timeout=60), 130)
        self.assertLess(time.monotonic() - began, 15)
        self.assertEqual(run.report()["state"], "Stopped")
        checkpoints = list((run.output / "checkpoints").glob("step-*"))
        self.assertEqual(len(checkpoints), 1)
        resumed = self.start(workers=2, ps=1, mode="async", steps=60, batch=32, output=run.output)
        self.succeed(resumed)

    def test_sigterm_during_an_evaluation_keeps_what_was_trained(self):
        for mode, workers, ps in ((None, 1, 0), ("sync", 2, 1)):
            with self.subTest(mode=mode):
                job = job_file(self.folder.name, model="resnet56v2", workers=workers, ps=ps, mode=mode, batch=2, steps=3)
                overrides = ["training.data.eval.examples=20000", "training.data.train.examples=64"]
                run = self.launch(job, overrides)
                end = time.monotonic() + trainyard.DEADLINE
                while "evaluates" not in (run.progress() or {}).get("waiting", ""):
                    self.assertLess(time.monotonic(), end, run.logs())
                    time.sleep(0.05)
                run.process.send_signal(signal.SIGTERM)
                run.wait(AT_ONCE)
                self.assertEqual(run.report()["state"], "Stopped")
                self.assertEqual([folder.name for folder in (run.output / "checkpoints").glob("step-*")], ["step-3"], run.logs())
                again = self.launch(job, ["training.data.eval.examples=8", overrides[1]], run.output)
                report = self.succeed(again)
                self.assertIn("no step: all 3 steps of this job were done before", again.text)
                self.assertIn("accuracy", report["eval"])

    def test_a_terminal_that_goes_away_stops_the_job_as_ctrl_c_does(self):
        run = self.start(steps=100_000, batch=32)
        run.await_step(50)
        for _ in range(3):  # the shell and the kernel may both tell
            run.process.send_signal(signal.SIGHUP)
        self.assertEqual(run.wait(), 130, run.text)
        self.assertEqual(run.report()["state"], "Stopped")
        self.assertEqual(len(list((run.output / "checkpoints").glob("step-*"))), 1)

    def test_two_signals_at_once_are_one_stop(self):
        # timeout(1) signals its command, and then the command's process group.
        run = self.start(steps=100_000, batch=32)
        run.await_step(50)
        run.process.send_signal(signal.SIGTERM)
        run.process.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(), 130, run.text)
        self.assertEqual(len(list((run.output / "checkpoints").glob("step-*"))), 1, run.logs())

    def test_under_nohup_it_goes_on(self):
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        run = self.start(steps=300, batch=32)
        run.await_step(1)
        run.process.send_signal(signal.SIGHUP)
        self.assertEqual(self.succeed(run)["steps"], 300)

    def test_signals_of_a_worker_end_it_with_143_after_a_checkpoint(self):
        output = tempfile.mkdtemp(dir=self.folder.name)
        job = job_file(self.folder.name, steps=100000, batch=32)
        log = pathlib.Path(output) / "log"
        with log.open("w") as file:
            worker = subprocess.Popen([trainyard.TRAINER, "train", "--config", str(job), "--output", output, "--http_port", "0"],
                                      cwd=trainyard.ROOT, stdout=file, stderr=subprocess.STDOUT)
        self.addCleanup(lambda: worker.poll() is None and worker.kill())
        end = time.monotonic() + 60
        while "steps 0 to" not in log.read_text() and time.monotonic() < end:
            time.sleep(0.02)
        for sent in (signal.SIGTERM, signal.SIGINT):
            worker.send_signal(sent)
        self.assertEqual(worker.wait(timeout=10), 143, log.read_text())
        self.assertEqual(len(list((pathlib.Path(output) / "checkpoints").glob("step-*"))), 1)


class Strangers(FailureTest):
    def test_a_rank_names_the_connection_that_it_refuses_and_why(self):
        port, other = trainyard.free_ports(2)
        job = job_file(self.folder.name, workers=2, mode="allReduce", steps=8)
        log = pathlib.Path(self.folder.name) / "rank-0.log"
        with log.open("w") as output:
            rank = subprocess.Popen([trainyard.TRAINER, "train", "--job_name=worker", "--task_index=0", "--config", str(job), "--http_port", "0",
                                     f"--worker_hosts=127.0.0.1:{port},127.0.0.1:{other}", "--output", self.folder.name],
                                    cwd=trainyard.ROOT, stdout=output, stderr=subprocess.STDOUT)
        self.addCleanup(rank.wait)
        self.addCleanup(rank.kill)

        def ask():
            with socket.socket() as stranger:
                if stranger.connect_ex(("127.0.0.1", port)) != 0:
                    return False
                stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
                return "refuses" in log.read_text()

        trainyard.await_that(ask, log.read_text, timeout=30)
        self.assertIn("it does not speak HTTP/2: it begins with 'GET / HTTP/1.0", log.read_text())


class ByHand(FailureTest):
    """Four terminals, the tutorials' way."""

    def test_two_servers_and_two_workers_by_flags(self):
        ports = []
        sockets = [socket.socket() for _ in range(8)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
            ports.append(each.getsockname()[1])
        for each in sockets:
            each.close()
        job = job_file(self.folder.name, workers=2, ps=2, mode="sync", steps=8, batch=32)
        ps_hosts = f"127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"
        worker_hosts = f"127.0.0.1:{ports[2]},127.0.0.1:{ports[3]}"
        output = tempfile.mkdtemp(dir=self.folder.name)
        processes = []
        for number, (role, index) in enumerate((("ps", 0), ("ps", 1), ("worker", 1), ("worker", 0))):
            processes.append(subprocess.Popen(
                [trainyard.TRAINER, "train", f"--job_name={role}", f"--task_index={index}", f"--ps_hosts={ps_hosts}",
                 f"--worker_hosts={worker_hosts}", "--config", str(job), "--output", output, "--http_port", str(ports[4 + number])],
                cwd=trainyard.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        for process in processes:
            self.addCleanup(lambda process=process: process.poll() is None and process.kill())
        for process in processes:
            text, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, text)
        self.assertEqual([folder.name for folder in (pathlib.Path(output) / "checkpoints").glob("step-*")], ["step-8"])


class BadInput(FailureTest):
    def fails_with(self, words, overrides=(), **options):
        self.fails_at_once(self.start(overrides=overrides, **options), words)

    def test_a_missing_data_file_is_named(self):
        self.fails_with(["no-such-images"], overrides=["training.data.train.images=no-such-images"])

    def test_a_truncated_data_file_is_named(self):
        short = pathlib.Path(self.folder.name) / "short.gz"
        whole = (trainyard.ROOT / "examples/data/mnist/t10k-images-idx3-ubyte.gz").read_bytes()
        short.write_bytes(whole[: len(whole) // 2])
        self.fails_with(["short.gz"], overrides=[f"training.data.train.images={short}"])

    def test_an_unknown_field_is_named_with_its_path(self):
        self.fails_with(["spec.training.optimizer.learningrate"], overrides=["training.optimizer.learningrate=0.1"])

    def test_an_unknown_preset_is_named(self):
        self.fails_with(["lenet55"], overrides=["training.model.preset=lenet55"])

    def test_layers_that_do_not_fit_are_named(self):
        self.fails_with(["layers[0]"], overrides=["training.model={input: {shape: [28, 28, 1]}, layers: [{conv2d: {filters: 2, kernelSize: 40}}], loss: softmaxCrossEntropy}"])

    def test_data_that_do_not_fit_are_named_alone_and_among_replicas_that_wait_for_one_another(self):
        for words, override in (("range [0, 99999) is not inside", "training.data.train.range=[0, 99999]"),
                                ("label 7 of record 0 is not one of the model's 5 classes", "training.model={preset: lenet5, classes: 5}"),
                                ("the model's input is [32, 32, 1]", "training.model={preset: lenet5, inputShape: [32, 32, 1]}")):
            for options in ({}, {"workers": 2, "ps": 1, "mode": "sync"}, {"workers": 2, "mode": "allReduce"}):
                with self.subTest(override=override, **options):
                    self.fails_with([words], [override], **options)

    def test_a_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("0.0.0.0", 0))
            taken.listen()
            port = taken.getsockname()[1]
            job = job_file(self.folder.name, workers=1, ps=1, mode="async")
            result = subprocess.run(
                [trainyard.TRAINER, "train", "--job_name=ps", "--task_index=0", f"--ps_hosts=127.0.0.1:{port}",
                 "--worker_hosts=127.0.0.1:1", "--config", str(job), "--output", self.folder.name, "--http_port", "0"],
                cwd=trainyard.ROOT, capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(str(port), result.stderr)

    def test_another_model_on_a_worker_is_refused_at_once_by_name(self):
        ports = trainyard.free_ports(4)
        server_job = job_file(self.folder.name, workers=1, ps=1, mode="async")
        other = tempfile.mkdtemp(dir=self.folder.name)
        worker_job = job_file(other, model="linear", workers=1, ps=1, mode="async")
        flags = [f"--ps_hosts=127.0.0.1:{ports[0]}", f"--worker_hosts=127.0.0.1:{ports[1]}", "--output", other]
        server = subprocess.Popen([trainyard.TRAINER, "train", "--job_name=ps", "--task_index=0", *flags, "--config", str(server_job),
                                   "--http_port", str(ports[2])], cwd=trainyard.ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: server.poll() is None and server.kill())
        began = time.monotonic()
        worker = subprocess.run([trainyard.TRAINER, "train", "--job_name=worker", "--task_index=0", *flags, "--config", str(worker_job),
                                 "--http_port", str(ports[3])], cwd=trainyard.ROOT, capture_output=True, text=True, timeout=60)
        server.terminate()
        self.assertEqual(worker.returncode, 1, worker.stderr)
        self.assertLess(time.monotonic() - began, 20)
        self.assertIn("server 0 has 8, worker 0 has 2", worker.stderr)

    def test_a_server_that_never_answers_is_named_within_the_deadline(self):
        job = job_file(self.folder.name, workers=1, ps=1, mode="async")
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            port = silent.getsockname()[1]
            result = subprocess.run(
                [trainyard.TRAINER, "train", "--job_name=worker", "--task_index=0", f"--ps_hosts=127.0.0.1:{port}",
                 "--worker_hosts=127.0.0.1:1", "--config", str(job), "--output", self.folder.name, "--http_port", "0",
                 "--set", "training.timeouts.connect=0.5"],
                cwd=trainyard.ROOT, capture_output=True, text=True, timeout=100)
        self.assertEqual(result.returncode, 200, result.stderr)
        self.assertIn(str(port), result.stderr)

    def test_an_output_folder_that_cannot_be_made_is_named(self):
        run = Run(job_file(self.folder.name), output="/dev/null/run")
        self.assertEqual(run.wait(), 1)
        self.assertIn("/dev/null/run", run.text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
