"""Two hosts, as network namespaces with a cable between them, and jobs over both while the cable is out.

    python3 tests/e2e/partition_test.py        as root, with iproute2; else it exits with 77 (with CI=true: 1)

Each process has process ids of its own, as in containers, so that no two of them share memory: all talk goes through the network.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

from trainyard import DEADLINE, ROOT, TRAINER, JobTest, job_file

SILENCE_SECONDS = 3  # timeouts.silence of the jobs
CANNOT_RUN = 77
HOSTS = ("10.79.0.1", "10.79.0.2")


class TwoHosts:
    """Two namespaces and the cable between them."""

    def __init__(self):
        self.names = [f"trainyard-{os.getpid()}-{host}" for host in range(2)]
        for name in self.names:
            self.ip("netns", "add", name)
        self.ip("link", "add", "eth0", "netns", self.names[0], "type", "veth", "peer", "name", "eth0", "netns", self.names[1])
        for name, address in zip(self.names, HOSTS, strict=True):
            self.ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", name, "link", "set", "eth0", "up")

    @staticmethod
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True, timeout=30)

    def cable(self, state):
        self.ip("-n", self.names[0], "link", "set", "eth0", state)

    def start(self, host, command, log):
        """`command` on one of the hosts."""
        inside = ["ip", "netns", "exec", self.names[host], "unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        return subprocess.Popen([*inside, *command], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], check=False, timeout=30)


class PartitionTest(JobTest):
    def setUp(self):
        super().setUp()
        self.hosts = TwoHosts()
        self.addCleanup(self.hosts.close)

    def await_that(self, holds, processes, what):
        """Until `holds`; fails where a process ends before."""
        end = time.monotonic() + DEADLINE
        while not holds():
            self.assertLess(time.monotonic(), end, f"{what}\n{self.logs()}")
            self.assertTrue(all(process.poll() is None for process in processes), f"a replica has ended: {what}\n{self.logs()}")
            time.sleep(0.02)

    def logs(self):
        return "\n".join(f"== {log.name}\n{log.read_text()}" for log in sorted(self.output.glob("*.log")))

    def train_through_an_outage(self, job, replicas, noticed):
        """Runs `replicas`, (role, index, host) each. The cable is out from the first checkpoint on until each log of `noticed` holds its
        pattern. Worker 0's part of the report."""
        self.output = pathlib.Path(self.folder.name) / "output"
        self.output.mkdir()
        # A replica answers HTTP on its port + 1.
        hosts_of = {role: ",".join(f"{HOSTS[host]}:{5000 + 100 * len(role) + 2 * index}" for each, index, host in replicas if each == role)
                    for role in ("ps", "worker")}
        flags = [f"--{role}_hosts={hosts}" for role, hosts in hosts_of.items() if hosts]
        flags += ["--config", str(job), "--output", str(self.output), "--set", f"training.timeouts.silence={SILENCE_SECONDS}"]
        processes = []
        for role, index, host in replicas:
            with (self.output / f"{role}-{index}.log").open("w") as log:
                processes.append(self.hosts.start(host, [TRAINER, "train", f"--job_name={role}", f"--task_index={index}", *flags], log))
            self.addCleanup(processes[-1].wait)
            self.addCleanup(processes[-1].kill)
        self.await_that(lambda: list(self.output.glob("checkpoints/step-*")), processes, "no checkpoint")
        self.hosts.cable("down")
        for log, pattern in noticed.items():
            self.await_that(lambda: re.search(pattern, (self.output / log).read_text()), processes, f"{log} says nothing like {pattern}")
        self.hosts.cable("up")
        for process in processes:
            try:
                self.assertEqual(process.wait(DEADLINE), 0, self.logs())
            except subprocess.TimeoutExpired:
                self.fail(f"not over\n{self.logs()}")
        return json.loads((self.output / "replicas/worker-0.json").read_text(encoding="utf-8"))["chief"]

    def test_ranks_of_two_hosts_name_each_other_and_go_on(self):
        job = job_file(self.folder.name, workers=4, mode="allReduce", steps=600, batch=16, checkpoint_every=100)
        expected = self.succeed(self.launch(job))["parametersSha256"]
        report = self.train_through_an_outage(job, [("worker", rank, rank // 2) for rank in range(4)], {
            "worker-0.log": r"rank [23] \(10\.79\.0\.2:\d+\) is lost: .*, in all-reduce of step \d+",
            "worker-2.log": r"rank [01] \(10\.79\.0\.1:\d+\) is lost: .*, in all-reduce of step \d+"})
        self.assertEqual(report["parametersSha256"], expected, report["redone"])

    def test_a_worker_that_is_cut_off_from_its_server_goes_on(self):
        job = job_file(self.folder.name, workers=2, ps=1, mode="sync", steps=600, batch=16, checkpoint_every=100)
        expected = self.succeed(self.launch(job))["parametersSha256"]
        report = self.train_through_an_outage(job, [("ps", 0, 0), ("worker", 0, 0), ("worker", 1, 1)], {
            "worker-1.log": r"worker 1(:| lost) server 0 \(10\.79\.0\.1:\d+\): .*dialling again",
            "ps-0.log": r"worker 1 is lost"})
        self.assertEqual(report["parametersSha256"], expected, report["redone"])


if __name__ == "__main__":
    if os.geteuid() != 0 or shutil.which("ip") is None:
        print("needs root and iproute2 (scripts/setup.sh --cluster)")
        sys.exit(1 if os.environ.get("CI") else CANNOT_RUN)
    unittest.main(verbosity=2)
