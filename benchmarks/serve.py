#!/usr/bin/env python3
"""Requests a second, latency and memory of `trainyard-trainer serve`, beside onnxruntime behind a small Python server.

    benchmarks/serve.py [--seconds 5]

LeNet-5; every request is one image of bytes over the Open Inference Protocol (HTTP). Each server has the first core alone, the clients have the
second: so many connections, each of which sends its next request when its answer has come. Prints a table in Markdown. Needs `release` built.
"""
import argparse
import json
import os
import pathlib
import re
import selectors
import socket
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TRAINER = os.environ.get("TRAINYARD_TRAINER", str(ROOT / "build/release/trainer/trainyard-trainer"))
CONNECTIONS = (1, 8, 64)
ROUNDS = 3  # the servers take turns; the table has the medians


def request():
    head = json.dumps({"inputs": [{"name": "input", "datatype": "UINT8", "shape": [1, 28, 28, 1], "parameters": {"binary_data_size": 784}}]}).encode()
    body = head + bytes(range(256)) * 3 + bytes(16)
    return (b"POST /v2/models/model/infer HTTP/1.1\r\nHost: a\r\nInference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n" % (len(head), len(body))) + body


def measure(process, port, connections, seconds):
    """(requests a second, requests in a second of the server's processor time, p50, p99 in milliseconds)"""
    message, waiting, times = request(), selectors.DefaultSelector(), []
    peers = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
    began, received = {}, {}

    def ask(peer):
        began[peer], received[peer] = time.perf_counter(), b""
        peer.sendall(message)

    for peer in peers:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting.register(peer, selectors.EVENT_READ)
        ask(peer)
    start, processor_start = time.perf_counter(), processor_seconds(process)
    while time.perf_counter() < start + seconds:
        for key, _ in waiting.select(timeout=10):
            peer = key.fileobj
            received[peer] += peer.recv(65536)
            head, _, body = received[peer].partition(b"\r\n\r\n")
            length = re.search(rb"Content-Length: (\d+)", head)
            if length and len(body) >= int(length[1]):
                if not head.startswith(b"HTTP/1.1 200"):
                    raise SystemExit(f"the server at {port} answers {received[peer][:300]!r}")
                times.append(time.perf_counter() - began[peer])
                ask(peer)
    took, processor_took = time.perf_counter() - start, processor_seconds(process) - processor_start
    for peer in peers:
        peer.close()
    times.sort()
    return len(times) / took, len(times) / processor_took, 1000 * times[len(times) // 2], 1000 * times[int(len(times) * 0.99)]


def peak_mebibytes(process):
    return int(pathlib.Path(f"/proc/{process.pid}/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def processor_seconds(process):
    times = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]  # in user and in system mode
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def start(*command, **streams):
    return subprocess.Popen(["taskset", "-c", "0", *map(str, command)], cwd=ROOT, text=True, **streams)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement")
    seconds = parser.parse_args().seconds
    os.sched_setaffinity(0, {1})
    python = subprocess.run([ROOT / "scripts/venv.sh", ROOT / "tests/interop/requirements.txt"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        out, onnx, log = f"{folder}/out", f"{folder}/lenet5.onnx", pathlib.Path(folder, "serve.log")
        quiet = {"cwd": ROOT, "check": True, "stdout": subprocess.DEVNULL}
        subprocess.run([TRAINER, "launch", "examples/lenet5-local.yaml", "--output", out, "--set", "training.steps=20", "--progress", "none"], **quiet)
        subprocess.run([TRAINER, "export", out, "--format", "onnx", "--with-transforms", "uint8", "--output", onnx], **quiet)
        with log.open("w") as lines:
            ours = start(TRAINER, "serve", out, "--port", 0, "--grpc-port", 0, stderr=lines)
        theirs = start(python, ROOT / "benchmarks/peer_onnxruntime_server.py", onnx, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            while not (found := re.search(r"REST on http://127.0.0.1:(\d+)", log.read_text())) or "is served" not in log.read_text():
                time.sleep(0.05)
            servers = {"trainyard-trainer serve": (ours, int(found[1])), "onnxruntime, Python": (theirs, int(theirs.stdout.readline()))}
            print("| server | connections | requests/s | of processor time | p50 ms | p99 ms | peak MiB |\n|---|---:|---:|---:|---:|---:|---:|")
            for connections in CONNECTIONS:
                rounds = {name: [] for name in servers}
                for _ in range(ROUNDS):
                    for name, (process, port) in servers.items():
                        rounds[name].append(measure(process, port, connections, seconds))
                for name, (process, _) in servers.items():
                    rate, of_processor, p50, p99 = (statistics.median(column) for column in zip(*rounds[name]))
                    print(f"| {name} | {connections} | {rate:.0f} | {of_processor:.0f} | {p50:.2f} | {p99:.2f} | {peak_mebibytes(process):.0f} |")
        finally:
            for process in (ours, theirs):
                process.kill()
                process.wait()


if __name__ == "__main__":
    main()
