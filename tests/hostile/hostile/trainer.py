"""The trainer's real program as the replicas of one small synchronous job, each a process with bounded memory and files."""

import contextlib
import json
import os
import pathlib
import resource
import secrets
import signal
import subprocess
import tempfile
import urllib.request

from harness.wait import wait_for

from hostile.operator import free_port

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("TRAINYARD_TRAINER", str(ROOT / "build/release/trainer/trainyard-trainer"))
MOST_MEBIBYTES = 400           # resident, of one replica
MOST_ADDRESSES = 6 << 30       # bytes of address space
MOST_FILES = 2000
MOST_LOG_BYTES = 64 << 10

# Over the network alone: that is where the attacks come from, and where a relay records what replicas say.
JOB = """apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: hostile}
spec:
  ps: {replicas: 1}
  worker: {replicas: 2}
  training:
    model:
      input: {shape: [10]}
      layers:
        - {dense: {units: 300}}
        - {dense: {units: 300}}
        - {dense: {units: 1}}
      loss: meanSquaredError
    data: {format: synthetic, train: {examples: 1024}, noise: 0.1}
    batchSize: 8
    steps: %(steps)d
    optimizer: {name: momentum, learningRate: 0.001, momentum: 0.9}
    strategy: {parameterServer: {mode: sync}}
    timeouts: {hello: %(hello)s, silence: %(silence)s, connect: %(connect)s}
    seed: 1
    resources: {threads: 1, sharedMemory: false}
%(extra)s"""


def limits(files, addresses):
    def apply():
        resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return apply


class Replica:
    def __init__(self, name, command, log, environment, bounds):
        self.name = name
        self._log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT, env=environment, preexec_fn=bounds)

    def log(self):
        return self._log.read_text(errors="replace")

    def log_bytes(self):
        return self._log.stat().st_size

    def peak_mebibytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def processor_seconds(self):
        times = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]  # in user and in system mode
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")

    def wait(self, seconds=60):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"{self.name} has not ended after {seconds} s:\n{self.log()[-3000:]}") from late

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


class Job:
    """Replicas by hand: `train` with a config folder, as in a pod."""

    def __init__(self, steps=40, hello=2, silence=30, connect=60, key=True, extra="", files=MOST_FILES, workers=2):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._folder.name)
        self.config = self.folder / "config"
        self.config.mkdir()
        self.output = self.folder / "out"
        self.files = files
        self.server_port, self.worker_ports = free_port(), [free_port() for _ in range(workers)]
        self.http = {}
        (self.config / "job.yaml").write_text(JOB % {"steps": steps, "hello": hello, "silence": silence, "connect": connect, "extra": extra})
        (self.config / "ps_hosts").write_text(f"127.0.0.1:{self.server_port}")
        (self.config / "worker_hosts").write_text(",".join(f"127.0.0.1:{port}" for port in self.worker_ports))
        self.key = secrets.token_bytes(32)
        if key:
            (self.config / "key").write_text(self.key.hex() + "\n")
        self.replicas = []

    def close(self):
        for replica in self.replicas:
            replica.kill()
        self._folder.cleanup()

    def start(self, role, index=0, server_port=None, config=None, overrides=(), alone=False, addresses=MOST_ADDRESSES, **environment):
        """A replica; with `server_port` it looks for the server there, `alone` it has no peers."""
        name = f"{role}-{index}"
        self.http.setdefault(name, free_port())
        command = [PROGRAM, "train", "--config", str(self.config / "job.yaml"), "--output", str(self.output), "--http_port", str(self.http[name])]
        if alone:
            overrides = ["training.strategy={local: {}}", "ps.replicas=0", "worker.replicas=1", *overrides]
            command += ["--worker_hosts=127.0.0.1:1"]
            config = self.folder
        for override in overrides:
            command += ["--set", override]
        if server_port:
            command += [f"--ps_hosts=127.0.0.1:{server_port}"]
            command += ["--worker_hosts=" + ",".join(f"127.0.0.1:{port}" for port in self.worker_ports)]
        replica = Replica(name, command, self.folder / f"{name}.log",
                          {**os.environ, "TRAINYARD_ROLE": role, "TRAINYARD_INDEX": str(index),
                           "TRAINYARD_CONFIG_DIR": str(config or self.config), **environment}, limits(self.files, addresses))
        self.replicas.append(replica)
        return replica

    def serve(self):
        server = self.start("ps")
        self.await_page(server)
        return server

    def await_page(self, replica):
        def ready():
            assert replica.process.poll() is None, replica.log()[-3000:]
            with contextlib.suppress(OSError):
                return self.page(replica, "/healthz")
        return wait_for(f"{replica.name} is ready", ready)

    def page(self, replica, path, timeout=5):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http[replica.name]}{path}", timeout=timeout) as answer:
            return answer.read().decode()

    def step(self, replica):
        with contextlib.suppress(OSError, ValueError):
            return json.loads(self.page(replica, "/progress")).get("step", 0)
        return 0

    def refused(self, server):
        for line in self.page(server, "/metrics").splitlines():
            if line.startswith("trainyard_trainer_refused_streams_total{"):
                return int(float(line.rsplit(" ", 1)[1]))
        return 0

    def digest(self):
        return json.loads((self.output / "replicas/worker-0.json").read_text())["chief"]["parametersSha256"]

    def server_record(self):
        return json.loads((self.output / "replicas/ps-0.json").read_text())["server"]
