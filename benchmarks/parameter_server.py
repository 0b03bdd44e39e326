"""LeNet-5 over parameter servers on this machine: Trainyard and TensorFlow's own parameter-server job in turn, several rounds in one run.

  benchmarks/run.sh parameter_server        (installs TensorFlow into .cache/venv first)

The layouts are 1 server + 2 workers, 1 server + 1 worker and no server, in turn in each round.
Measured are images a second over all workers, processor milliseconds a batch over all processes,
and memory. The processor time of a run of one step is taken off, to leave start-up out as far as it
can be. Measured too is the time from the start of the processes to the end of the first step.
Medians over the rounds. The last line is the median over the rounds of a round's ratio.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = {"1 server, 2 workers": (1, 2), "1 server, 1 worker": (1, 1), "no server": (0, 1)}


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def cpu_and_memory(pid):
    """Processor seconds so far and the most memory that was resident, of a live process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    ticks = os.sysconf("SC_CLK_TCK")
    return (int(fields[11]) + int(fields[12])) / ticks, int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) * 1024


def trainyard(trainer, servers, workers, steps, batch):
    job = f"""apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {{name: benchmark}}
spec:
  ps: {{replicas: {servers}}}
  worker: {{replicas: {workers}}}
  training:
    model: {{preset: lenet5}}
    data:
      format: idx
      dir: examples/data/mnist
      train: {{images: t10k-images-idx3-ubyte.gz, labels: t10k-labels-idx1-ubyte.gz, range: [0, 9000]}}
    batchSize: {batch}
    steps: {steps}
    optimizer: {{name: sgd, learningRate: 0.05}}
    strategy: {"{parameterServer: {mode: async}}" if servers else "{local: {}}"}
    summary: {{everySteps: 0}}
    profile: {{steps: [0, 1]}}
    resources: {{threads: 1}}
"""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trainyard-bench-"))
    try:
        (folder / "job.yaml").write_text(job)
        began = time.time()
        subprocess.run([trainer, "launch", str(folder / "job.yaml"), "--output", str(folder / "run"), "--progress", "none"], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)
        report = json.loads((folder / "run/report.json").read_text())
        # Spans are [kind, id, worker, step, start, end], nanoseconds of the system's clock; kind 0 is a whole step.
        profiles = [json.loads(file.read_text()) for file in (folder / "run/profiles").glob("worker-*.json")]
        first = min(span[5] for profile in profiles for span in profile["spans"] if span[0] == 0) / 1e9 - began
        replicas = report["perWorker"] + report["perServer"]
        return {"imagesPerSecond": sum(worker["examples"] / worker["seconds"] for worker in report["perWorker"]),
                "cpuSeconds": sum(replica["cpuSeconds"] for replica in replicas), "firstStepSeconds": first,
                "workerMegabytes": max(worker["maxRssBytes"] for worker in report["perWorker"]) / 1e6,
                "serverMegabytes": max([server["maxRssBytes"] for server in report["perServer"]], default=0) / 1e6}
    finally:
        shutil.rmtree(folder)


def tensorflow(python, servers, workers, steps, batch):
    ports = free_ports(servers + workers)
    ps_hosts = ",".join(f"127.0.0.1:{port}" for port in ports[:servers]) or "-"
    worker_hosts = ",".join(f"127.0.0.1:{port}" for port in ports[servers:])

    def start(role, index):
        return subprocess.Popen([python, ROOT / "benchmarks/peer_tensorflow_ps.py", role, str(index), ps_hosts, worker_hosts, str(steps), str(batch)],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    server_processes = [start("ps", index) for index in range(servers)]
    worker_processes = [start("worker", index) for index in range(workers)]
    try:
        results = []
        for process in worker_processes:
            text, _ = process.communicate(timeout=300)
            if process.returncode != 0:
                sys.exit(f"parameter_server: TensorFlow's worker ended with {process.returncode}")
            results.append(json.loads(text.splitlines()[-1]))
        server_usage = [cpu_and_memory(process.pid) for process in server_processes]
    finally:
        for process in server_processes + worker_processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
    return {"imagesPerSecond": sum(batch * result["steps"] / result["seconds"] for result in results),
            "cpuSeconds": sum(result["cpuSeconds"] for result in results) + sum(cpu for cpu, _ in server_usage),
            "firstStepSeconds": min(result["firstStepSeconds"] for result in results),
            "workerMegabytes": max(result["maxRssBytes"] for result in results) / 1e6,
            "serverMegabytes": max([memory for _, memory in server_usage], default=0) / 1e6}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default=str(ROOT / "build/release/trainer/trainyard-trainer"))
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has TensorFlow")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300, help="of each worker")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--programs", nargs="+", choices=["trainyard", "tensorflow"], default=["trainyard", "tensorflow"])
    args = parser.parse_args()

    measures = {"trainyard": lambda *shape: trainyard(args.trainer, *shape), "tensorflow": lambda *shape: tensorflow(args.python, *shape)}
    programs = {name: measures[name] for name in args.programs}
    rounds = {(shape, name): [] for shape in SHAPES for name in programs}
    for number in range(args.rounds):
        for shape, (servers, workers) in SHAPES.items():
            print(f"{shape}: round {number + 1} of {args.rounds}", file=sys.stderr)
            for name, measure in programs.items():
                start_up = measure(servers, workers, 1, args.batch)["cpuSeconds"]
                result = measure(servers, workers, args.steps, args.batch)
                result["cpuMillisecondsPerBatch"] = 1000 * (result["cpuSeconds"] - start_up) / ((args.steps - 1) * workers)
                rounds[shape, name].append(result)
    medians = {key: {field: statistics.median(result[field] for result in results) for field in results[0]} for key, results in rounds.items()}

    print(f"LeNet-5, batch {args.batch}, {args.steps} steps a worker, asynchronous; medians of {args.rounds} rounds\n")
    print("| shape | program | images/s | ratio | processor ms/batch | worker MB | server MB | start to first step, s |")
    print("|---|---|---|---|---|---|---|---|")
    for shape in SHAPES:
        peer = medians[shape, args.programs[-1]]["imagesPerSecond"]
        for name in programs:
            m = medians[shape, name]
            print(f"| {shape} | {name} | {m['imagesPerSecond']:.0f} | {m['imagesPerSecond'] / peer:.2f} | {m['cpuMillisecondsPerBatch']:.1f} | "
                  f"{m['workerMegabytes']:.0f} | {m['serverMegabytes']:.0f} | {m['firstStepSeconds']:.2f} |")
    if "trainyard" in programs:
        ratios = [served["imagesPerSecond"] / alone["imagesPerSecond"]
                  for served, alone in zip(rounds["1 server, 1 worker", "trainyard"], rounds["no server", "trainyard"], strict=True)]
        print(f"\ntrainyard, 1 server + 1 worker against no server: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
