"""Two replicas of a network on two cores, in step with each other: Trainyard, PyTorch's DistributedDataParallel and TensorFlow's
MultiWorkerMirroredStrategy in turn, several rounds in one run, and one replica of each alone on one core.

  benchmarks/run.sh data_parallel [--model lenet5 resnet56v2 ptbLstm]        (installs the peers first)

Each replica has one thread and a batch of its own. A step's time is that from its end to the end of
the next: the median of a run's steps, then the median of the rounds. Processor time of a batch is
that of all processes by the batches of all replicas, servers and communication included. What it is
above that of one replica alone is the price of the communication, and of two cores that share
caches and memory. Two replicas apart are two jobs at the same time, which tell each other nothing.
Their rate is what both cores give.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from parameter_server import free_ports

ROOT = pathlib.Path(__file__).resolve().parent.parent
HERE = ROOT / "benchmarks"
REPLICAS = 2
LEAST_WARM_UP = 3  # steps at the start of Trainyard's runs that are not measured, or a tenth
SYNTHETIC = {"format": "synthetic", "train": {"examples": 8192}}
TEXT = {"format": "text", "dir": "examples/data/tinyshakespeare", "vocabulary": 10000, "train": {"files": ["input.txt"]}}
# name → title, batch, examples' data, optimizer, steps of a run, unit, units of an example
MODELS = {
    "lenet5": ("LeNet-5", 128, SYNTHETIC, "sgd", 300, "images", 1),
    "resnet56v2": ("ResNet-56 v2 with Adam", 64, SYNTHETIC, "adam", 15, "images", 1),
    "ptbLstm": ("PTB LSTM", 20, TEXT, "sgd", 60, "words", 30),
}
# What is measured of Trainyard: fields of the job, and of how many jobs at the same time
LAYOUTS = {
    "one replica": {"workers": 1, "strategy": {"local": {}}},
    "two replicas apart": {"workers": 1, "strategy": {"local": {}}, "jobs": REPLICAS},
    "all-reduce": {"workers": 2, "strategy": {"allReduce": {}}},
    "all-reduce over gRPC": {"workers": 2, "strategy": {"allReduce": {}}, "resources": {"sharedMemory": False}},
    "one worker with 2 devices": {"workers": 1, "devices": 2, "strategy": {"local": {}}, "resources": {"threads": 2}},
    "1 sync server, 2 workers": {"workers": 2, "servers": 1, "strategy": {"parameterServer": {"mode": "sync"}}},
}
PEERS = {"PyTorch DDP": "peer_pytorch_ddp.py", "TensorFlow MultiWorkerMirrored": "peer_tensorflow_mirrored.py"}


def warm_up(steps):
    return max(LEAST_WARM_UP, steps // 10)


def job(model, layout, steps):
    """Of `steps` steps after those of the warm-up."""
    _, batch, data, optimizer, _, _, _ = MODELS[model]
    servers = {"ps": {"replicas": layout["servers"]}} if "servers" in layout else {}
    training = {"model": {"preset": model}, "data": data, "batchSize": batch, "steps": warm_up(steps) + steps, "devices": layout.get("devices", 1),
                "optimizer": {"name": optimizer, "learningRate": 0.001}, "strategy": layout["strategy"], "summary": {"everySteps": 0},
                "profile": {"steps": [warm_up(steps), warm_up(steps) + steps]}, "resources": {"threads": 1, **layout.get("resources", {})}}
    return {"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "benchmark"},
            "spec": {**servers, "worker": {"replicas": layout["workers"]}, "training": training}}


def median_period(profile):
    """Seconds from the end of a step to the end of the next. A span is [kind, id, worker, step, start, end], kind 0 a whole step."""
    ends = sorted(span[5] for span in profile["spans"] if span[0] == 0)
    return statistics.median(later - earlier for earlier, later in zip(ends, ends[1:])) / 1e9


def launch(trainer, model, layout, steps, cores):
    """Seconds of a step and processor seconds of all replicas."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trainyard-bench-"))
    try:
        (folder / "job.yaml").write_text(json.dumps(job(model, layout, steps)))
        done = subprocess.run([trainer, "launch", str(folder / "job.yaml"), "--output", str(folder / "run"), "--progress", "none"], cwd=ROOT,
                              capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))
        if done.returncode != 0:
            sys.exit(f"data_parallel: {done.stdout}{done.stderr}")
        report = json.loads((folder / "run/report.json").read_text())
        cpu = sum(replica["cpuSeconds"] for replica in report["perWorker"] + report["perServer"])
        return median_period(json.loads((folder / "run/profiles/worker-0.json").read_text())), cpu
    finally:
        shutil.rmtree(folder)


def trainyard(trainer, model, layout, cores):
    """(seconds of a step, processor seconds of a batch, the version). The processor time of a short run is taken off, for the start."""
    steps, short = MODELS[model][4], 2
    replicas = layout["workers"] * layout.get("devices", 1)
    _, start = launch(trainer, model, layout, short, cores)
    of_jobs = [cores] if layout.get("jobs", 1) == 1 else [{core} for core in cores]
    with concurrent.futures.ThreadPoolExecutor(len(of_jobs)) as pool:
        found = list(pool.map(lambda own: launch(trainer, model, layout, steps, own), of_jobs))
    seconds, cpu = (statistics.mean(of_each) for of_each in zip(*found))
    return seconds, (cpu - start) / (warm_up(steps) + steps - warm_up(short) - short) / replicas, ""


def peer(python, script, model, replicas, cores):
    _, batch, _, _, steps, _, _ = MODELS[model]
    hosts = ",".join(f"127.0.0.1:{port}" for port in free_ports(replicas))
    command = [python, HERE / script, "--model", model, "--batch", str(batch), "--steps", str(steps), "--hosts", hosts]
    errors = [tempfile.TemporaryFile("w+") for _ in range(replicas)]
    processes = [subprocess.Popen([*command, "--rank", str(rank)], stdout=subprocess.PIPE, stderr=errors[rank], text=True,
                                  preexec_fn=lambda: os.sched_setaffinity(0, cores)) for rank in range(replicas)]
    try:
        texts = [process.communicate(timeout=600)[0] for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    for rank, process in enumerate(processes):
        if process.returncode != 0:
            errors[rank].seek(0)
            sys.exit(f"data_parallel: replica {rank} of {script} ended with status {process.returncode}: {errors[rank].read()[-2000:]}")
    found = [json.loads(text.splitlines()[-1]) for text in texts]
    return found[0]["secondsPerStep"], statistics.mean(one["cpuSecondsPerStep"] for one in found), found[0]["version"]


def measure(args, model):
    """program → layout → results, one for each round. The first layout of each program is one replica."""
    both = set(sorted(os.sched_getaffinity(0))[-REPLICAS:])
    one = {max(both)}
    found = {"trainyard": {name: [] for name in args.layouts}, **{name: {"one replica": [], "2 replicas": []} for name in args.peers}}
    for number in range(args.rounds):
        print(f"{model}: round {number + 1} of {args.rounds}", file=sys.stderr)
        for name, results in found["trainyard"].items():
            results.append(trainyard(args.trainer, model, LAYOUTS[name], one if name == "one replica" else both))
        for name in args.peers:
            found[name]["one replica"].append(peer(args.python, PEERS[name], model, 1, one))
            found[name]["2 replicas"].append(peer(args.python, PEERS[name], model, REPLICAS, both))
    return found


def print_table(model, found):
    title, batch, _, _, steps, unit, units = MODELS[model]
    rates, cpu = {}, {}
    for program, layouts in found.items():
        for name, results in layouts.items():
            replicas = 1 if name == "one replica" else REPLICAS
            rates[program, name] = replicas * batch * units / statistics.median(seconds for seconds, _, _ in results)
            cpu[program, name] = 1000 * statistics.median(processor for _, processor, _ in results)
    peers = [program for program in found if program != "trainyard"]
    print(f"\n{title}, batch {batch} for each replica, {steps} steps a run, medians of {len(found['trainyard']['one replica'])} rounds\n")
    heads = [f"times {name}" for name in peers]
    print(f"| program | layout | {unit}/s | times one replica of its own | " + "".join(f"{head} | " for head in heads) + "processor ms/batch | above one replica |")
    print("|---|---|" + "---|" * (4 + len(heads)))
    for (program, name), rate in rates.items():
        version = found[program][name][0][2]
        alone = name == "one replica"
        against = [rate / rates[each, "one replica" if alone else "2 replicas"] for each in peers]
        print(f"| {program} {version}".rstrip() + f" | {name} | {rate:.0f} | {rate / rates[program, 'one replica']:.2f} | "
              + "".join(f"{ratio:.2f} | " for ratio in against)
              + f"{cpu[program, name]:.2f} | {'' if alone else format(cpu[program, name] - cpu[program, 'one replica'], '.2f')} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--trainer", default=str(ROOT / "build/release/trainer/trainyard-trainer"))
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the peers")
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS), help="of Trainyard; one replica is always among them")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    args.layouts = list(dict.fromkeys(["one replica", *args.layouts]))
    for model in args.model:
        print_table(model, measure(args, model))


if __name__ == "__main__":
    main()
