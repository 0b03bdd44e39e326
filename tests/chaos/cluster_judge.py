"""What is wrong with a job on the cluster after its end: what is there against its spec, what is counted against what was done."""
import calendar
import json
import time

import launch_judge
from cluster_job import LABEL
from cluster_place import CONFIG_MAPS, EVENTS, JOBS, OPERATORS, PODS, SERVICES, STATE, VOLUMES

ROLES = ("ps", "chief", "worker", "evaluator")
FINAL_CONDITIONS = {"Created", "Succeeded"}
BAD_EVENTS = ("Invalid", "EditRefused", "Forbidden", "Unreadable", "Failed", "UnknownField")
LARGEST_STATUS = 20_000
OUT_OF_ROOM = "exit code 201"
TAKES_OVER = 60.0  # seconds until an operator acts, at most, also where both were stopped; nothing is put right in a job that has ended


def outcome(job, digests):
    """Sentences; none means all is well. Raises OSError or ApiError while the API server is away."""
    api = job.cluster.api
    found = api.find(f"{JOBS}/{job.name}")
    if found is None:
        return ["the job is gone"]
    status, spec = found.get("status", {}), found["spec"]
    if status.get("phase") != "Succeeded":
        return [f"phase {status.get('phase')}: {status.get('message')}"]
    named = {path: [each for each in api.list(path) if each["metadata"]["name"] == job.name or each["metadata"]["name"].startswith(job.name + "-")]
             for path in (PODS, SERVICES, CONFIG_MAPS)}
    desired = {role: spec.get(role, {}).get("replicas", 1) for role in ROLES if role in spec and spec[role].get("replicas", 1) > 0}
    events = [each for each in api.list(EVENTS) if each["regarding"].get("uid") == job.uid]
    too_late = _too_late(job, status, named[PODS])
    return (_status(found) + children(job, desired, per_replica(spec), named, too_late) + counts_against_pods(job, status, desired, named[PODS], too_late)
            + finished_chief_stayed(job, status, desired, named[PODS]) + restarts_against_ends(job, status, named[PODS], events) + _training(job, status, digests) + _disks(job) + [f"event {each['reason']}: {each['note']}" for each in events if each["reason"] in BAD_EVENTS])


def _status(found):
    status = found["status"]
    wrong = []
    kinds = [each["type"] for each in status["conditions"]]
    if len(kinds) != len(set(kinds)):
        wrong.append(f"conditions {kinds}")
    held = {each["type"] for each in status["conditions"] if each["status"] == "True"}
    if held != FINAL_CONDITIONS:
        wrong.append(f"conditions {sorted(held)} hold at the end")
    if status["observedGeneration"] != found["metadata"]["generation"]:
        wrong.append(f"observedGeneration {status['observedGeneration']}, generation {found['metadata']['generation']}")
    if not status.get("startTime", "") <= status.get("completionTime", ""):
        wrong.append(f"startTime {status.get('startTime')}, completionTime {status.get('completionTime')}")
    if len(json.dumps(status)) > LARGEST_STATUS:
        wrong.append(f"a status of {len(json.dumps(status))} bytes")
    return wrong


def _seconds(timestamp):
    return calendar.timegm(time.strptime(timestamp, "%Y-%m-%dT%H:%M:%SZ"))


def _too_late(job, status, pods):
    """Children that were touched, or scaled, when it may have been too late for an operator to put them right."""
    ended = min([_seconds(status["completionTime"]), *(_seconds(pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"])
                                                       for pod in pods if _finished(pod))])
    return {name for name, when in job.touched.items() if when > ended - TAKES_OVER}


def per_replica(spec):
    """Whether each replica has a service of its name; without that the job has one, of the job's name."""
    return spec.get("network", {}).get("services") == "PerReplica"


def children(job, desired, service_each, named, too_late):
    """What the spec asks for, once each, the job's own, with its labels."""
    replicas = {f"{job.name}-{role}-{index}" for role, number in desired.items() for index in range(number)}
    services = replicas if service_each else {job.name}
    wrong = []
    for path, expected, all_of_them in ((PODS, replicas, False), (SERVICES, services, True), (CONFIG_MAPS, {f"{job.name}-cluster"}, True)):
        kind = path.rpartition("/")[2]
        names = {each["metadata"]["name"] for each in named[path]}
        if names - expected - too_late:
            wrong.append(f"{kind} that the spec does not ask for: {sorted(names - expected - too_late)}")
        if all_of_them and expected - names - too_late:
            wrong.append(f"{kind} that are missing: {sorted(expected - names - too_late)}")
        for each in [each for each in named[path] if each["metadata"]["name"] not in too_late]:
            labels = each["metadata"].get("labels", {})
            owners = [owner["uid"] for owner in each["metadata"].get("ownerReferences", []) if owner.get("controller")]
            if owners != [job.uid]:
                wrong.append(f"{kind} {each['metadata']['name']} belongs to {owners}")
            if (labels.get(LABEL + "job-name"), labels.get(LABEL + "job-uid")) != (job.name, job.uid):
                wrong.append(f"{kind} {each['metadata']['name']} has the labels {labels}")
    for config in [config for config in named[CONFIG_MAPS] if config["metadata"]["name"] not in too_late]:
        hosts = [host for host in config["data"]["worker_hosts"].split(",") if host]
        if len(hosts) != desired["worker"]:
            wrong.append(f"worker_hosts has {len(hosts)} hosts, the spec {desired['worker']} workers")
    return wrong


def _ended_in_grace(job, status):
    """Pods that may have ended with success after they were deleted, and are gone."""
    ended = _seconds(status["completionTime"])
    return {name for name, when in job.deleted.items() if when > ended - TAKES_OVER}


def finished_chief_stayed(job, status, desired, pods):
    """Its logs are read after the end."""
    chief = f"{job.name}-chief-0" if "chief" in desired else f"{job.name}-worker-0"
    stayed = chief in {pod["metadata"]["name"] for pod in pods}
    return [] if stayed or chief in _ended_in_grace(job, status) else [f"the finished pod {chief} did not stay"]


def _finished(pod):
    states = [each.get("state", {}).get("terminated") for each in pod["status"].get("containerStatuses", [])]
    return bool(states) and all(state is not None and state["exitCode"] == 0 for state in states)


def counts_against_pods(job, status, desired, pods, too_late=frozenset()):
    """`too_late`: pods that may have been out of the operator's sight at the end, as they had lost the label by which it finds them."""
    wrong = [f"pod {pod['metadata']['name']} is still {pod['status']['phase']}" for pod in pods
             if pod["status"]["phase"] in ("Pending", "Running") and pod["metadata"]["name"] not in too_late]
    counts = status["replicaStatuses"]
    if set(counts) != set(desired):
        wrong.append(f"replicaStatuses of {sorted(counts)}, the spec has {sorted(desired)}")
        return wrong
    for role, number in desired.items():
        # By name: a label may have been taken too late. A pod that a late scale no longer wants is not counted.
        mine = [pod for pod in pods if pod["metadata"]["name"] in {f"{job.name}-{role}-{index}" for index in range(number)}]
        finished = sum(_finished(pod) for pod in mine)
        failed = sum(pod["status"]["phase"] == "Failed" for pod in mine)  # ended by a signal when the job was over already
        expected = {"desired": number, "active": 0, "ready": 0, "succeeded": finished, "failed": failed}
        told = {key: counts[role].get(key, 0) for key in expected}
        gone = {f"{job.name}-{role}-{index}" for index in range(number)} & _ended_in_grace(job, status) - {pod["metadata"]["name"] for pod in mine}
        if finished < told["succeeded"] <= finished + len(gone):
            expected["succeeded"] = told["succeeded"]
        if told != expected:
            wrong.append(f"{role}: counts {told}, expected {expected}")
    # Those of an evaluator spend nothing of the job's.
    if sum(each.get("restarts", 0) for role, each in counts.items() if role != "evaluator") != status.get("restarts", 0):
        wrong.append(f"{status.get('restarts', 0)} restarts, by role {[(role, each.get('restarts', 0)) for role, each in counts.items()]}")
    return wrong


def restarts_against_ends(job, status, pods, events=()):
    # By role: status.restarts leaves out those of an evaluator, which spend nothing of the job's.
    restarts = sum(each.get("restarts", 0) for each in status["replicaStatuses"].values())
    disruptions = status.get("disruptions", 0)
    wrong = []
    # A replica that starts while its disk is full ends with OUT_OF_ROOM, and is started again.
    without_room = sum(OUT_OF_ROOM in each["note"] for each in events if each["reason"] == "Restarting") if job.full_disks else 0
    if restarts > job.kills + without_room:
        wrong.append(f"{restarts} restarts, {job.kills} containers were killed" + (f", {without_room} found no room" if job.full_disks else ""))
    if disruptions > job.deletions:
        wrong.append(f"{disruptions} disruptions, {job.deletions} pods were deleted or taken away")
    if job.edits == 0:
        # No pod went for another reason: each end whose replica came again was counted, as the one or the other.
        now = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}
        again = {(name, uid) for name, uid in job.ended_pods if now.get(name, uid) != uid}
        in_place = sum(each["restartCount"] for pod in pods for each in pod["status"].get("containerStatuses", []))
        if restarts + disruptions < len(again) + in_place:
            wrong.append(f"{restarts} restarts and {disruptions} disruptions, but {len(again)} pods came again and {in_place} containers restarted in theirs")
    return wrong


def _training(job, status, digests):
    if job.shape is None:
        return []
    wrong = []
    progress = status.get("progress", {})
    if job.shape.mode != "async" and (progress.get("step"), progress.get("percent")) != (job.shape.steps, 100):
        wrong.append(f"progress says step {progress.get('step')}, {progress.get('percent')} %; {job.shape.steps} steps were asked for")
    if job.kind in digests:
        chief = "chief-0" if job.shape.chief else "worker-0"
        report = json.loads((job.output / "replicas" / f"{chief}.json").read_text())
        if report["chief"]["parametersSha256"] != digests[job.kind]:
            wrong.append("other bits than the undisturbed run")
    return wrong


def _disks(job):
    """Each full disk was told of, and nothing of what it cut short is left."""
    silent = sum(not full.told and not full.excused for full in job.full_disks)
    wrong = [f"the log does not tell of {silent} full disks"] if silent else []
    return wrong + (launch_judge.temporary_files(job.output) + launch_judge.checkpoints(job) if job.disk else [])


def operators(cluster):
    """Both run, one leads, and none has ended by a fault of its own."""
    wrong = []
    pods = cluster.api.list(OPERATORS)
    ready = [pod["metadata"]["name"] for pod in pods if any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", []))]
    if len(ready) != 2 or len(pods) != 2:
        wrong.append(f"{len(ready)} of {len(pods)} operators are ready")
    for pod in pods:
        for container in pod["status"].get("containerStatuses", []):
            ended = container.get("lastState", {}).get("terminated")
            if ended and ended["exitCode"] not in (0, 1, 137, 143):
                wrong.append(f"{pod['metadata']['name']} ended with {ended['exitCode']} ({ended.get('reason')}): {ended.get('message', '')[-500:]}")
    if cluster.leader() not in ready:
        wrong.append(f"the lease is held by {cluster.leader()}, ready are {ready}")
    return wrong


def leftovers(cluster):
    """What is there of jobs that are gone."""
    left = []
    for path in (JOBS, PODS, SERVICES, CONFIG_MAPS, *VOLUMES):
        left += [f"{path.rpartition('/')[2]} {each['metadata']['name']}" for each in cluster.api.list(path)
                 if each["metadata"]["name"] not in ("kubernetes", "kube-root-ca.crt")]
    left += launch_judge.mounts(STATE / "volumes")
    return left
