"""A replica that gets too little memory, or a disk that takes no more: one clear error, or none where the training can go on."""
import json
import pathlib
import resource
import signal
import subprocess
import tempfile
import unittest

import trainyard

EXHAUSTED = 201  # docs/contract.md


def train(job, output, limits):
    """One replica alone, with {resource: bytes}. Returns (exit code, log)."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # as a shell starts programs
        for kind, size in limits.items():
            resource.setrlimit(kind, (size, size))

    command = [trainyard.TRAINER, "train", "--config", str(job), "--output", str(output), "--http_port", "0",
               "--job_name", "worker", "--task_index", "0", "--worker_hosts", "127.0.0.1:1"]
    done = subprocess.run(command, cwd=trainyard.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=trainyard.DEADLINE,
                          preexec_fn=limit, check=False)
    return done.returncode, done.stdout


class Limits(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_memory_that_cannot_be_had_is_one_error_that_names_what_it_was_for(self):
        job = trainyard.job_file(self.folder, model="linear", batch=100_000, steps=2)
        layers = "input: {shape: [28, 28, 1]}, layers: [flatten, {dense: {units: 20000}}, {dense: {units: 10}}], loss: softmaxCrossEntropy"
        text = job.read_text().replace("preset: linear", layers).replace("{examples: 1024}", "{examples: 100000}")
        job.write_text(text)
        code, log = train(job, self.folder / "out", {resource.RLIMIT_AS: 3 << 30})
        self.assertEqual(code, EXHAUSTED, log)
        self.assertRegex(log, r"cannot get .* for the arena of a batch of 100000")
        self.assertNotIn("abort", log.lower())

    def test_a_data_set_that_does_not_fit_is_one_error_with_the_bytes_that_it_wants(self):
        job = trainyard.job_file(self.folder, model="linear", steps=2)
        layers = "input: {shape: [28, 28, 1]}, layers: [flatten, {dense: {units: 10}}], loss: softmaxCrossEntropy"
        job.write_text(job.read_text().replace("preset: linear", layers).replace("{examples: 1024}", "{examples: 1000000}"))
        code, log = train(job, self.folder / "out", {resource.RLIMIT_AS: 2 << 30})
        self.assertEqual(code, EXHAUSTED, log)
        self.assertRegex(log, r"cannot get [0-9.]+ GB of memory for the data set: its limit leaves [0-9.]+ [GM]B")

    def test_a_full_disk_ends_the_job_at_its_end_only(self):
        job = trainyard.job_file(self.folder, steps=12, checkpoint_every=3)
        code, log = train(job, self.folder / "out", {resource.RLIMIT_FSIZE: 20_000})
        self.assertEqual(code, EXHAUSTED, log)
        for step in (3, 6, 9):
            self.assertIn(f"the checkpoint of step {step} is not written: cannot write", log)
        self.assertRegex(log.splitlines()[-1], "cannot write .*step-12.*parameters.safetensors: File too large")
        self.assertEqual([entry.name for entry in (self.folder / "out/checkpoints").iterdir() if entry.name != "evaluations.json"], [])

    def test_a_workers_recurrent_state_that_has_no_room_ends_nothing(self):
        job = trainyard.job_file(self.folder, model="linear", workers=2, ps=1, mode="sync", batch=512, steps=10_000, checkpoint_every=3)
        layers = "input: {shape: [2, 3]}, layers: [{lstm: {units: 64, stateful: true}}, {dense: {units: 2}}], loss: softmaxCrossEntropy"
        job.write_text(job.read_text().replace("preset: linear", layers).replace("{examples: 1024}", "{examples: 10240}"))
        run = trainyard.Run(job, output=self.folder / "out")
        self.addCleanup(run.process.kill)
        run.await_step(5, index=1)
        log = run.output / "logs/worker-1.log"
        worker = run.replica_pid("worker", 1)
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))  # less than a state
        trainyard.await_that(lambda: log.read_text().count("the state of recurrent layers at step") >= 2, run.logs)
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        run.await_step(run.progress(index=1)["step"] + 5, index=1)
        run.process.terminate()
        self.assertEqual(run.wait(), 130, run.text)
        self.assertEqual(run.report()["restarts"], [])

    def on_a_full_disk(self, *command):
        return subprocess.run(["bash", "-c", 'ulimit -f 0; exec "$0" "$@"', trainyard.TRAINER, *map(str, command)],
                              cwd=trainyard.ROOT, capture_output=True, text=True, check=False)

    def test_commands_that_make_a_folder_leave_none_where_they_cannot_fill_it(self):
        job = trainyard.job_file(self.folder, steps=1)
        run = trainyard.Run(job, output=self.folder / "out").succeed()
        subprocess.run([trainyard.TRAINER, "export", run.output, "--format", "onnx", "--output", self.folder / "net.onnx"], check=True, capture_output=True)
        (self.folder / "old").mkdir()
        for folder in ("old", "new", "new/deep"):
            output = self.folder / folder
            for command in (("data", "convert", "--job", job, "--out", output), ("import", self.folder / "net.onnx", "--job", job, "--output", output)):
                with self.subTest(command=command[0], folder=folder):
                    done = self.on_a_full_disk(*command)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn("File too large", done.stderr)
                    self.assertFalse((self.folder / "new").exists())
                    self.assertEqual(list((self.folder / "old").iterdir()), [])

    def test_init_leaves_no_file_where_it_cannot_write_it(self):
        job = self.folder / "job.yaml"
        command = [trainyard.TRAINER, "init", "examples/data/mnist", "--output", str(job)]
        done = self.on_a_full_disk(*command[1:])
        self.assertEqual((done.returncode, job.exists()), (1, False), done.stderr)
        self.assertIn(f"cannot write {job}: File too large", done.stderr)
        self.assertEqual(subprocess.run(command, cwd=trainyard.ROOT, capture_output=True, check=False).returncode, 0)

    def test_a_disk_with_room_for_checkpoints_only_ends_nothing(self):
        job = trainyard.job_file(self.folder, model="linear", steps=600, extra="    summary: {everySteps: 1}\n")
        code, log = train(job, self.folder / "out", {resource.RLIMIT_FSIZE: 100_000})
        self.assertEqual(code, 0, log)
        self.assertEqual(log.count("summaries are not written: cannot write"), 1, log)
        self.assertTrue((self.folder / "out/checkpoints/step-600/manifest.json").exists())
        json.loads((self.folder / "out/checkpoints/step-600/manifest.json").read_text())

    def test_a_profile_that_cannot_be_written_is_told_and_the_job_succeeds(self):
        job = trainyard.job_file(self.folder, model="linear", steps=3000, extra="    profile: {steps: [10, 14]}\n")
        run = trainyard.Run(job, output=self.folder / "out")
        self.addCleanup(run.process.kill)
        run.await_step(20)
        (run.output / "trace.json").mkdir()
        self.assertEqual(run.wait(), 0, run.text)
        self.assertIn("the profile of this run is not merged: cannot", run.text)
        self.assertEqual(run.report()["state"], "Succeeded")
        self.assertIn("Succeeded", run.text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
