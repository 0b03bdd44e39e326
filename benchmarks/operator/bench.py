#!/usr/bin/env python3
"""Measures trainyard-operator against a real etcd, kube-apiserver, controller-manager and scheduler with kwok's fake nodes; prints one table.

  benchmarks/operator/bench.py [--jobs 1000] [--namespaces 10] [--single 30] [--services Headless PerReplica] [--peer]
                              [--flag NAME=VALUE …] [--output FILE.json]

The jobs are spread over namespaces, since scheduler and controllers compare each pod with every
service of its namespace. With thousands of services in one namespace little else is measured
(--namespaces 1).

Nothing is written by hand: each row is counted or timed here. Needs scripts/cluster/build.sh to have run, and the release build (or
$TRAINYARD_OPERATOR). Times are those of an observer outside of the operator, which watches pods and jobs as a user's kubectl would.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests/cluster")]

from harness import needs, places  # noqa: E402
from harness.control_plane import ControlPlane, Options  # noqa: E402
from harness.jobs import install_crd  # noqa: E402
from harness.operator import Operator, binary  # noqa: E402

import peer  # noqa: E402
from clients import join, start_clients  # noqa: E402
from jobs import EVENTS, JOBS, PODS, REPLICAS, make_namespaces, training_job, within  # noqa: E402
from observer import LOAD_RESOLUTION, Observer  # noqa: E402
from reference import measure_reference  # noqa: E402
from single import measure_single  # noqa: E402
from usage import CpuMeter, peak_resident_mebibytes, resident_mebibytes  # noqa: E402

WRITES = ("create", "update", "patch", "delete")
CREATORS = 16       # threads that create and delete jobs, so that this is not what is measured
QUIET_SECONDS = 20


class Requests:
    """The operator's own count of its requests, by verb and code."""

    def __init__(self, operator):
        self._counts = {}
        for line in operator.page("/metrics").splitlines():
            match = re.match(r'trainyard_api_requests_total\{(.*)\} (\S+)', line)
            if match:
                labels = dict(re.findall(r'(\w+)="([^"]*)"', match.group(1)))
                self._counts[labels["verb"], labels["code"]] = float(match.group(2))

    def since(self, before, verbs=None, code=None):
        return sum(count - before._counts.get(key, 0) for key, count in self._counts.items()
                   if (verbs is None or key[0] in verbs) and (code is None or key[1] == code))


def metric(operator, name):
    match = re.search(rf"^{name} (\S+)$", operator.page("/metrics"), re.MULTILINE)
    return float(match.group(1)) if match else 0.0


def create_jobs(plane, namespaces, count, services):
    return start_clients(plane, CREATORS, range(count), lambda api, number: api.create(
        within(JOBS, namespaces[number % len(namespaces)]), training_job(f"job-{number}", services)))


def measure_load(plane, operator, pids, namespaces, count, services, seconds):
    """`count` jobs at once, until each of them is said to be Running."""
    observer = Observer(plane, JOBS, PODS, LOAD_RESOLUTION)
    time.sleep(1)
    before, dropped, sent = Requests(operator), metric(operator, "trainyard_events_dropped_total"), metric(operator, "trainyard_events_sent_total")
    meter, began = CpuMeter(pids), time.monotonic()
    threads = create_jobs(plane, namespaces, count, services)
    observer.wait("every job Running", lambda jobs: sum(job.runs_since(REPLICAS) is not None for job in jobs.values()) >= count, seconds)
    cpu = meter.used()
    join(threads)
    jobs = observer.snapshot()
    time.sleep(5)  # events that still wait are sent
    after = Requests(operator)
    last_pod = max(max(job.created_pods.values()) for job in jobs.values())
    lag = [job.status_lag() for job in jobs.values()]
    about = [event["regarding"]["name"] for event in plane.api().list(EVENTS) if event["reportingController"] == "trainyard.dev/operator"]
    per_job = {name: about.count(name) for name in jobs}
    observer.stop()
    return {
        "podsPerSecond": count * REPLICAS / (last_pod - began),
        "secondsToAllRunning": max(job.runs_since(REPLICAS) for job in jobs.values()) - began,
        "writesPerJob": after.since(before, WRITES) / count,
        "conflicts": after.since(before, code="409"),
        "eventsPerJob": sum(per_job.values()) / count,
        "jobsWithoutEvent": sum(events == 0 for events in per_job.values()),
        "eventsLost": metric(operator, "trainyard_events_dropped_total") - dropped +
                      max(0.0, metric(operator, "trainyard_events_sent_total") - sent - len(about)),
        "endedOfObserver": observer.ended,
        "statusLagSeconds": {"median": statistics.median(lag), "p99": sorted(lag)[len(lag) * 99 // 100], "max": max(lag)},
        "cpuSeconds": cpu,
        "residentMebibytes": resident_mebibytes(pids["trainyard-operator"]),
        "peakResidentMebibytes": peak_resident_mebibytes(pids["trainyard-operator"]),
    }


def measure_quiet(operator, pids):
    before, meter = Requests(operator), CpuMeter({"trainyard-operator": pids["trainyard-operator"]})
    time.sleep(QUIET_SECONDS)
    after = Requests(operator)
    return {"writes": after.since(before, WRITES), "reads": after.since(before, ("get", "list")),
            "cpuPercent": meter.used()["trainyard-operator"] / QUIET_SECONDS * 100}


def delete_jobs(plane, jobs):
    """One request a job, as `kubectl delete tj --all` does it."""
    join(start_clients(plane, CREATORS, jobs, lambda api, job: api.delete(
        f"{within(JOBS, job['metadata']['namespace'])}/{job['metadata']['name']}")))


def measure_deletion(plane, pids, seconds):
    api = plane.api()
    jobs = api.list(JOBS)
    meter, began = CpuMeter(pids), time.monotonic()
    delete_jobs(plane, jobs)
    while any(api.get(path + "?limit=1")["items"] for path in (JOBS, PODS)):
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"jobs and pods are not gone within {seconds} s")
        time.sleep(0.5)
    return {"seconds": time.monotonic() - began, "cpuSeconds": meter.used()}


@contextlib.contextmanager
def fresh_plane(namespaces):
    """A control plane with so many namespaces for jobs, and their names."""
    plane = ControlPlane(places.state_folder(f"bench-{os.getpid()}"), Options(scheduler=True, high_limits=True, fake_nodes=20))
    try:
        plane.start()
        yield plane, make_namespaces(plane.api(), namespaces)
    except BaseException:
        for name in ("operator", "training-operator"):
            print(plane.processes.log_tail(name, 20) if plane.processes else "", file=sys.stderr)
        raise
    finally:
        plane.remove()


def start_operator(plane, flags):
    """With its default flags, but for `flags` and where the metrics are served."""
    install_crd(plane.api())
    return Operator(plane, leader_elect="true", **flags).start()


def ended_watches(plane):
    """Watches of pods and jobs that the API server has ended since its start, as it found them slow."""
    with contextlib.closing(plane.api()) as api:
        lines = api.text("GET", "/metrics").splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("apiserver_terminated_watchers_total{"))


def measure_peer(arguments):
    with fresh_plane(arguments.namespaces) as (plane, namespaces):
        return peer.measure(plane, namespaces, arguments.jobs, arguments.single, CREATORS, arguments.timeout)


def measure(arguments, services, beside):
    """A fresh control plane for each part: what one leaves behind does not weigh on the next. `beside`: the peer's results, if asked for."""
    with fresh_plane(arguments.namespaces) as (plane, namespaces):
        reference = measure_reference(plane, start_operator(plane, arguments.flag), namespaces, arguments.jobs, services)
    with fresh_plane(arguments.namespaces) as (plane, namespaces):
        operator = start_operator(plane, arguments.flag)
        pids = {name: plane.processes.pid(name) for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")}
        pids["trainyard-operator"] = plane.processes.pid("operator")
        idle = resident_mebibytes(pids["trainyard-operator"])
        result = {"services": services, "jobs": arguments.jobs, "namespaces": arguments.namespaces, "idleMebibytes": idle, "referencePodsPerSecond": reference,
                  "peer": beside}
        if arguments.single:
            result["single"] = measure_single(plane, JOBS, namespaces[0], lambda name: training_job(name, services), arguments.single)
        result["load"] = measure_load(plane, operator, pids, namespaces, arguments.jobs, services, arguments.timeout)
        result["endedWatches"] = ended_watches(plane)
        result["quiet"] = measure_quiet(operator, pids)
        result["deletion"] = measure_deletion(plane, pids, arguments.timeout)
        return result


def ours_to_theirs(ours, theirs, shown="{:.1f}"):
    return f"{shown.format(ours)} / {shown.format(theirs)} = {ours / theirs:.2f}"


def rows(result):
    """(what, measured, bound or "") in the order in which they are read."""
    load, quiet, deletion = result["load"], result["quiet"], result["deletion"]
    yield "pods/s", f"{load['podsPerSecond']:.0f}", ""
    yield "beside a client that only creates, pods/s", ours_to_theirs(load["podsPerSecond"], result["referencePodsPerSecond"], "{:.0f}"), ">= 0.85"
    yield "all Running after, s", f"{load['secondsToAllRunning']:.1f}", ""
    yield "writes a job", f"{load['writesPerJob']:.1f}", "<= 18"
    yield "events a job / jobs without / lost", f"{load['eventsPerJob']:.1f} / {load['jobsWithoutEvent']} / {load['eventsLost']:.0f}", "<= 3 / 0 / 0"
    yield "409 from own writes", f"{load['conflicts']:.0f}", "0"
    lag = load["statusLagSeconds"]
    yield "status after the last pod, s (median, p99, max)", f"{lag['median']:.2f}, {lag['p99']:.2f}, {lag['max']:.2f}", "p99 <= 1"
    yield "operator CPU, s", f"{load['cpuSeconds']['trainyard-operator']:.1f}", ""
    others = " ".join(f"{load['cpuSeconds'][name]:.0f}" for name in ("kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "kwok"))
    yield "CPU of API server, etcd, controllers, scheduler, kwok, s", others, ""
    own = load["endedOfObserver"]
    yield "watches that the API server ended; the observer's of pods, jobs", f"{result['endedWatches']:.0f}; {own['pods']}, {own['jobs']}", ""
    yield "operator resident, MiB (idle, now, peak)", f"{result['idleMebibytes']:.0f}, {load['residentMebibytes']:.0f}, {load['peakResidentMebibytes']:.0f}", "<= 50"
    yield f"quiet {QUIET_SECONDS} s: writes, reads, CPU %", f"{quiet['writes']:.0f}, {quiet['reads']:.0f}, {quiet['cpuPercent']:.2f}", "0, 0, ~0"
    yield "deleting all: operator CPU, s", f"{deletion['cpuSeconds']['trainyard-operator']:.2f}", "<= 1 (Zen 4)"
    if "single" in result:
        single = result["single"]
        yield "one job: six pods, Running, ms (medians)", f"{single['sixPodsMilliseconds']:.0f}, {single['runningMilliseconds']:.0f}", ""
        yield "one job: its status behind its last ready pod, ms (median)", f"{single['statusBehindMilliseconds']:.0f}", ""
    if result["peer"]:
        yield from peer_rows(result["peer"], load, result.get("single"))


def peer_rows(beside, load, single):
    yield "beside training-operator: pods/s", ours_to_theirs(load["podsPerSecond"], beside["podsPerSecond"], "{:.0f}"), ""
    yield "  all Running after, s", ours_to_theirs(load["secondsToAllRunning"], beside["secondsToAllRunning"]), "<= 0.8"
    yield "  CPU, s", ours_to_theirs(load["cpuSeconds"]["trainyard-operator"], beside["cpuSeconds"]), "<= 0.35"
    yield "  most resident, MiB", ours_to_theirs(load["peakResidentMebibytes"], beside["peakResidentMebibytes"], "{:.0f}"), "<= 0.25"
    if single:
        yield "  one job: six pods, ms", ours_to_theirs(single["sixPodsMilliseconds"], beside["sixPodsMilliseconds"], "{:.0f}"), "<= 0.6"
        yield "  one job: Running, ms", ours_to_theirs(single["runningMilliseconds"], beside["runningMilliseconds"], "{:.0f}"), "<= 0.8"


def print_table(result):
    print(f"\n{result['jobs']} jobs of 2 servers and 4 workers in {result['namespaces']} namespaces, services: {result['services']}")
    print(f"{'':57} {'measured':>20} {'bound':>14}")
    for what, measured, bound in rows(result):
        print(f"{what:57} {measured:>20} {bound:>14}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--namespaces", type=int, default=10, help="how many the jobs are spread over")
    parser.add_argument("--single", type=int, default=30, help="repeats of the one-job measurement; 0 leaves it out")
    parser.add_argument("--services", nargs="+", choices=["PerReplica", "Headless"], default=["Headless", "PerReplica"],
                        help="Headless is what a TensorFlow job gets that says nothing")
    parser.add_argument("--peer", action="store_true", help="measure kubeflow's training-operator too; scripts/cluster/build.sh training-operator first")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds that loading and deleting may take each")
    parser.add_argument("--flag", action="append", default=[], type=lambda text: text.split("=", 1), metavar="NAME=VALUE",
                        help="a flag of the operator, as workers=4; may be repeated")
    parser.add_argument("--output", type=pathlib.Path, help="also write the results here, as JSON")
    arguments = parser.parse_args()
    if any(len(flag) != 2 for flag in arguments.flag):
        parser.error("--flag: expected NAME=VALUE, as workers=4")
    arguments.flag = dict(arguments.flag)
    for lack in needs.unbuilt("etcd", "kubernetes", "kwok"):
        parser.error(lack)
    if not binary().exists():
        parser.error(f"{binary()} is missing; build the release preset, or set TRAINYARD_OPERATOR")
    if arguments.peer and not (peer.BINARY.exists() and peer.CRD.exists()):
        parser.error(f"--peer: {peer.BINARY} or {peer.CRD} is missing; run scripts/cluster/build.sh training-operator")
    beside = measure_peer(arguments) if arguments.peer else None
    results = []
    for services in arguments.services:
        results.append(measure(arguments, services, beside))
        print_table(results[-1])
        arguments.single = 0  # with the first mode alone
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
