"""Runs trainyard-trainer as a user would and looks at what it leaves. Standard library only.

TRAINYARD_TRAINER names the program; tests run from the repository's root.
"""
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINER = os.environ["TRAINYARD_TRAINER"]
DEADLINE = 120.0

MNIST = """
    data:
      format: idx
      dir: examples/data/mnist
      train: {images: t10k-images-idx3-ubyte.gz, labels: t10k-labels-idx1-ubyte.gz, range: [0, 2048]}
      eval: {images: t10k-images-idx3-ubyte.gz, labels: t10k-labels-idx1-ubyte.gz, range: [9000, 9200]}
"""


def job_file(folder, *, model="lenet5", workers=1, ps=0, mode=None, steps=12, batch=64, checkpoint_every=0, extra="", run_policy=""):
    """Writes a TrainingJob below `folder` and returns its path. mode None: local; "allReduce": without servers."""
    strategy = {None: "{local: {}}", "allReduce": "{allReduce: {}}"}.get(mode, "{parameterServer: {mode: %s}}" % mode)
    data = MNIST if model == "lenet5" else "    data: {format: synthetic, train: {examples: 1024}, eval: {examples: 128}}\n"
    text = f"""apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {{name: e2e}}
spec:
  framework: Trainyard
  ps: {{replicas: {ps}}}
  worker: {{replicas: {workers}}}
  runPolicy: {{backoffLimit: 6{run_policy}}}
  training:
    model: {{preset: {model}}}
{data}
    batchSize: {batch}
    steps: {steps}
    optimizer: {{name: momentum, learningRate: 0.02, momentum: 0.9}}
    strategy: {strategy}
    seed: 7
    checkpoint: {{everySteps: {checkpoint_every}, keep: 3}}
    resources: {{threads: 1}}
{extra}"""
    path = pathlib.Path(folder) / "job.yaml"
    path.write_text(text)
    return path


class Run:
    """One `launch`, in a folder of its own unless `output` is given."""

    def __init__(self, job, output=None, overrides=()):
        self.output = pathlib.Path(output or tempfile.mkdtemp(prefix="trainyard-e2e-"))
        command = [TRAINER, "launch", str(job), "--output", str(self.output), "--progress", "none"]
        for override in overrides:
            command += ["--set", override]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.text = ""

    def wait(self, timeout=DEADLINE):
        """The exit status. A job that is not over in time is killed and its logs are told."""
        try:
            self.text, _ = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as late:
            self.process.kill()
            self.text, _ = self.process.communicate(timeout=30)
            raise AssertionError(f"the job is not over after {timeout} s:\n{self.text}\n{self.logs()}") from late
        return self.process.returncode

    def succeed(self):
        """This run, which must end with 0, for tests that look at what it has left."""
        if self.wait() != 0:
            raise AssertionError(f"{self.text}\n{self.logs()}")
        return self

    def report(self):
        return json.loads((self.output / "report.json").read_text())

    def logs(self):
        return "\n".join(f"== {log.name}\n{log.read_text()}" for log in sorted((self.output / "logs").glob("*.log")))

    def replica_pid(self, role, index=0):
        """The process of a replica that runs now, or None."""
        for thread in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/children"):  # proc_pid_children(5); all of /proc takes 10 ms
            try:
                children = thread.read_text().split()
            except OSError:
                continue
            for child in children:
                try:
                    environment = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                if f"TRAINYARD_ROLE={role}".encode() in environment and f"TRAINYARD_INDEX={index}".encode() in environment:
                    return int(child)
        return None

    def progress(self, role="worker", index=0):
        """The answer of the replica's /progress, or None while it does not answer."""
        pid = self.replica_pid(role, index)
        if pid is None:
            return None
        try:
            arguments = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            port = arguments[arguments.index("--http_port") + 1]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/progress", timeout=1) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return None

    def await_step(self, step, role="worker", index=0, timeout=DEADLINE):
        """Waits until the replica has done `step` steps."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(f"the job ended before step {step}:\n{self.process.stdout.read()}\n{self.logs()}")
            progress = self.progress(role, index)
            if progress and progress.get("step", 0) >= step:
                return progress
            time.sleep(0.02)
        raise AssertionError(f"no step {step} within {timeout} s:\n{self.logs()}")

    def kill(self, role, index=0, with_signal=signal.SIGKILL):
        pid = self.replica_pid(role, index)
        if pid is None:
            raise AssertionError(f"{role}-{index} is not running")
        os.kill(pid, with_signal)


def await_that(holds, tell, timeout=DEADLINE):
    """Waits until `holds()`; `tell()` is the text of the error where it never does."""
    end = time.monotonic() + timeout
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"it does not come within {timeout} s:\n{tell()}")
        time.sleep(0.02)


def free_ports(count):
    """Ports of this machine that nobody listens at."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def safetensors(path):
    """name → list of floats of a safetensors file with F32 tensors."""
    blob = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8 : 8 + size])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        data = blob[8 + size + begin : 8 + size + end]
        tensors[name] = struct.unpack(f"<{len(data) // 4}f", data)
    return tensors


def last_parameters(output):
    folders = sorted((pathlib.Path(output) / "checkpoints").glob("step-*"), key=lambda folder: int(folder.name.split("-")[1]))
    return safetensors(folders[-1] / "parameters.safetensors")


class JobTest(unittest.TestCase):
    """Jobs in a folder that goes with the test, and ended with it."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="trainyard-e2e-")
        self.addCleanup(self.folder.cleanup)

    def launch(self, job, overrides=(), output=None):
        run = Run(job, output=output or tempfile.mkdtemp(dir=self.folder.name), overrides=overrides)
        self.addCleanup(lambda: run.process.poll() is None and run.process.kill())
        return run

    def succeed(self, run):
        """The report of the job, which must succeed."""
        code = run.wait()
        self.assertEqual(code, 0, f"{run.text}\n{run.logs()}")
        report = run.report()
        self.assertEqual(report["state"], "Succeeded")
        return report
