"""A model that is large for its servers trains, through shared memory and over gRPC. Its memory is
the peak resident bytes of every process (VmHWM) while it trains.

TRAINYARD_BIG_MODEL_MB is the size of the parameters, 200 by default; benchmarks/big_model.sh measures 1000.
"""
import os
import pathlib
import time
import unittest

from trainyard import JobTest

MEGABYTES = int(os.environ.get("TRAINYARD_BIG_MODEL_MB", "200"))
UNITS = 2500  # a kernel of 25 MB
STEPS = 6
WORKER = 3.2  # times the parameters: values, gradients, what is under way
SERVER = 1.5  # times values and optimizer slots
PROGRAM = 30
LINK = 10.5  # two rings of 1 MiB and two arenas of 4 MiB, which both processes have mapped (docs/wire.md)


def job_file(folder, *, servers, workers, mode, memory):
    layers = MEGABYTES * 1_000_000 // (4 * UNITS * UNITS)
    text = f"""apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {{name: big-model}}
spec:
  ps: {{replicas: {servers}}}
  worker: {{replicas: {workers}}}
  training:
    model:
      input: {{shape: [10]}}
      layers:
{"".join(f"        - {{dense: {{units: {UNITS}}}}}{chr(10)}" for _ in range(layers + 1))}        - {{dense: {{units: 1}}}}
      loss: meanSquaredError
    data: {{format: synthetic, train: {{examples: 1024}}, noise: 0.1}}
    batchSize: 4
    steps: {STEPS}
    optimizer: {{name: sgd, learningRate: 0.000001}}
    strategy: {{parameterServer: {{mode: {mode}}}}}
    seed: 1
    resources: {{threads: 1, sharedMemory: {str(memory).lower()}}}
"""
    path = pathlib.Path(folder) / "job.yaml"
    path.write_text(text)
    return path


def peak_megabytes(pid):
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    except (OSError, TypeError):
        pass
    return 0.0


class Cases:
    """For both ways between the replicas."""

    MEMORY = True

    def check(self, *, servers, workers, mode):
        run = self.launch(job_file(self.folder.name, servers=servers, workers=workers, mode=mode, memory=self.MEMORY))
        replicas = [("ps", index) for index in range(servers)] + [("worker", index) for index in range(workers)]
        pids, peaks, progress = {}, {}, None
        end = time.monotonic() + 600
        while run.process.poll() is None and time.monotonic() < end:
            pids.update({replica: run.replica_pid(*replica) for replica in replicas if pids.get(replica) is None})
            progress = run.progress() or progress
            if progress and progress.get("step", 0) >= STEPS - 1:  # the end of a run writes a checkpoint, which is not training
                break
            peaks.update({replica: max(peaks.get(replica, 0), peak_megabytes(pid)) for replica, pid in pids.items() if pid})
            time.sleep(0.05)
        way = "shared memory" if self.MEMORY else "gRPC"
        print(f"{mode}, {servers} servers, {workers} workers, {MEGABYTES} MB, {way}:", {f"{role}-{index}": round(peak) for (role, index), peak in peaks.items()})
        self.succeed(run)
        self.assertEqual("through shared memory" in run.logs(), self.MEMORY)
        self.assertEqual(set(peaks), set(replicas))
        for (role, index), peak in peaks.items():
            limit = WORKER * MEGABYTES if role == "worker" else SERVER * MEGABYTES / servers + PROGRAM + (workers * LINK if self.MEMORY else 0)
            self.assertLessEqual(peak, limit, f"{role}-{index} holds {peak:.0f} MB")

    def test_sync_with_two_workers(self):
        self.check(servers=1, workers=2, mode="sync")

    def test_async_with_two_workers(self):
        self.check(servers=1, workers=2, mode="async")

    def test_sync_over_four_servers(self):
        self.check(servers=4, workers=2, mode="sync")


class ThroughMemory(Cases, JobTest):
    pass


class OverNetwork(Cases, JobTest):
    MEMORY = False


if __name__ == "__main__":
    unittest.main()
