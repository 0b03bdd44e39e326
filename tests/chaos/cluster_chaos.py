#!/usr/bin/env python3
"""Chaos on a real cluster: many small jobs while operators, API server, pods and objects are killed, paused, cut off, deleted, relabelled
and edited, and while disks are full.

    tests/chaos/cluster_chaos.py [--seconds 600] [--jobs 20] [--seed N] [--only JOB] [--at-once 3]

Two operators run, one leads. Every job must end Succeeded, with the children that its last spec asks for, once each; the counts of status
must be those of the pods and of what was done; a synchronous job has the bits of the run that nobody disturbed. At the end both operators are
well and nothing is left of the jobs. The cluster is that of docs/cluster.md, in a sandbox that ends with the script.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cluster_judge
import cluster_place
import plan
from cluster_job import SHAPES, ClusterJob
from cluster_place import OPERATORS, STATE, Cluster, TimedOut, sandbox, send, stop_for, wait_for

JOB_DEADLINE = 240.0  # of a job, after its last blow
SETTLED = 60.0        # what a job's last counts may take
BLOWS = 4


class ClusterBlows:
    """What is done to all jobs at once: to the operators and to the API server."""

    def __init__(self, cluster, chance, verdict):
        self._cluster, self._chance, self._verdict = cluster, chance, verdict
        self._next = time.monotonic() + chance.uniform(2, 6)

    def tend(self):
        now = time.monotonic()
        for name in self._cluster.plane.revive():
            self._verdict.say(f"        {name} had ended by itself and was started again")
        if now >= self._next:
            self._next = now + self._chance.uniform(5, 15)
            what = self._chance.choices([self._kill_leader, self._delete_operator, self._stop_leader, self._restart_api_server, self._stop_api_server],
                                        weights=[3, 2, 3, 2, 1])[0]()
            if what:
                self._verdict.say(f"        {what}")

    def _operator(self, leading):
        found = self._cluster.operators()
        name = self._cluster.leader() if leading else self._chance.choice(sorted(found) or [None])
        return (name, found[name][0]) if name in found else (None, None)

    def _kill_leader(self):
        name, pid = self._operator(leading=True)
        return f"SIGKILL to the leader {name}" if pid and send(pid, signal.SIGKILL) else None

    def _delete_operator(self):
        name, _ = self._operator(leading=False)
        deleted = name and self._cluster.attempt(self._cluster.api.delete, f"{OPERATORS}/{name}", self._chance.choice([0, None]))
        return f"operator {name} deleted" if deleted else None

    def _stop_leader(self):
        name, pid = self._operator(leading=True)
        seconds = self._chance.choice([self._chance.uniform(1, 5), self._chance.uniform(16, 25)])  # shorter and longer than the lease
        return f"SIGSTOP to the leader {name} for {seconds:.0f} s" if pid and stop_for(pid, seconds) else None

    def _restart_api_server(self):
        self._cluster.plane.restart("kube-apiserver")
        return "API server killed and started"

    def _stop_api_server(self):
        pid = self._cluster.plane.processes.pid("kube-apiserver")
        seconds = self._chance.uniform(1, 6)
        return f"SIGSTOP to the API server for {seconds:.0f} s" if pid and stop_for(pid, seconds) else None


class Disturbed:
    """One job and its blows to come."""

    def __init__(self, cluster, number, name, options, last_blow):
        self._chance = plan.chance(options.seed, number)
        self.job = ClusterJob(cluster, number, name)
        self._blows = self._chance.randint(1, BLOWS)
        self._last_blow = last_blow
        self._next = time.monotonic() + self._chance.uniform(0.5, 5)
        self._deadline = time.monotonic() + JOB_DEADLINE

    def tend(self):
        """Deals a blow when one is due. False when the job is over, or late."""
        self.job.tend()
        now = time.monotonic()
        if now < self._last_blow and self._fill_first_disk():
            self._deadline = time.monotonic() + JOB_DEADLINE
        if self._blows > 0 and self._next <= now < self._last_blow:
            self.job.disturb(self._chance)
            self._blows -= 1
            self._next = time.monotonic() + self._chance.uniform(0.5, 4)
            self._deadline = time.monotonic() + JOB_DEADLINE
        return not self.job.over() and now < self._deadline

    def _fill_first_disk(self):
        """Each run fills one disk at least. Whether it was this job's now."""
        known = any(full.told or not full.over() for full in self.job.cluster.full_disks)
        return not known and self.job.fill_disk(self._chance)

    def judge(self, digests, tend):
        """What is wrong with it once its counts have settled. `tend` is called while that is waited for."""
        last = ["nothing could be seen of it"]

        def settled():
            tend()
            last[:] = cluster_judge.outcome(self.job, digests)
            return self.job.tend(end=True) and not last

        try:
            wait_for("the job to be as its spec says", settled, SETTLED, every=0.5)
        except TimedOut:
            return list(last) or ["what was done to it could not be undone"]
        return []


def undisturbed():
    """name → parametersSha256 of a run of the same job by `launch`, for the shapes whose bits are always the same."""
    digests = {}
    for name, (shape, _, _) in SHAPES.items():
        if shape is None or shape.mode == "async":
            continue
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "job.yaml"
            file.write_text(shape.text())
            done = subprocess.run([cluster_place.program("trainer"), "launch", file, "--output", f"{folder}/out", "--progress", "none"],
                                  cwd=cluster_place.places.REPOSITORY, capture_output=True, text=True, check=False, timeout=JOB_DEADLINE)
            if done.returncode != 0:
                sys.exit(f"the undisturbed run of {name} failed:\n{done.stdout}{done.stderr}")
            chief = "chief-0" if shape.chief else "worker-0"
            digests[name] = json.loads((pathlib.Path(folder) / "out/replicas" / f"{chief}.json").read_text())["chief"]["parametersSha256"]
    return digests


def run(options, verdict, cluster, digests):
    names = list(SHAPES)
    numbers = [options.only] if options.only is not None else range(10**9)
    end = time.monotonic() + options.seconds
    above = ClusterBlows(cluster, plan.chance(options.seed, "cluster"), verdict)
    started, running = 0, []

    def tend_cluster():
        if time.monotonic() < end:
            above.tend()

    while True:
        while len(running) < options.at_once and started < len(numbers) and (started < options.jobs or time.monotonic() < end):
            number = numbers[started]
            running.append(Disturbed(cluster, number, names[number % len(names)], options, max(end, time.monotonic() + 10)))
            started += 1
        if not running:
            return
        tend_cluster()
        for each in [each for each in running if not each.tend()]:
            running.remove(each)
            job = each.job
            wrong = each.judge(digests, tend_cluster)
            place = None
            if wrong:
                place = STATE.with_name(f"chaos-{job.name}.txt")
                place.write_text("\n".join(job.blows) + "\n" + cluster.picture(job.name))
            verdict.add(f"{job.label} after {time.monotonic() - job.started:.0f} s", wrong, job.blows, place)
            job.remove()
        time.sleep(0.2)


def until_none(check, cluster, seconds):
    """What `check` still finds wrong after so long."""
    last = ["the API server does not answer"]

    def none():
        last[:] = check(cluster)
        return not last

    try:
        wait_for("nothing to be wrong", none, seconds, every=0.5)
    except TimedOut:
        return list(last)
    return []


def inside(options):
    verdict = plan.Verdict("cluster chaos", options)
    verdict.say(f"seed {options.seed}")
    digests = undisturbed()
    verdict.say(f"{len(digests)} undisturbed runs are done")
    cluster_place.leave_signals_to_finally()
    cluster = Cluster()
    verdict.say("the cluster runs")
    try:
        run(options, verdict, cluster, digests)
        if options.only is None:
            verdict.add(f"a log told of {sum(full.told for full in cluster.full_disks)} of {len(cluster.full_disks)} full disks", [] if any(full.told for full in cluster.full_disks) else ["none was told of"])
        verdict.add("both operators are well", until_none(cluster_judge.operators, cluster, 60.0))
        verdict.add("nothing is left behind", until_none(cluster_judge.leftovers, cluster, 60.0))
    finally:
        cluster.stop()
    return verdict.end()


def main():
    options = plan.parser(__doc__, at_once=3).parse_args()
    if sandbox.inside():
        return inside(options)
    lacks = cluster_place.lacks()
    if lacks:
        plan.refuse(lacks)
    cluster_place.build_images()
    status = sandbox.run_inside([sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--seed", str(options.seed)])
    shutil.rmtree(STATE / "node", ignore_errors=True)  # logs stay
    return status


if __name__ == "__main__":
    sys.exit(main())
