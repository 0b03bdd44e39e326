"""What is wrong with a launched job after its end. Each function returns sentences; none means all is well."""
import fcntl
import json
import os
import pathlib
import socket

STILL_NEEDED = "still needed it"  # why replicas that had ended with 0 started again: one of the others was lost at its end
ALLOWED_REASONS = ("signal 9", "signal 15", "exit code 143")


def outcome(job, report, undisturbed):
    """Its end: state, bits, counters. `undisturbed`: the report of the same job without blows, None where bits may differ."""
    wrong = []
    if job.process.returncode != 0:
        wrong.append(f"exit status {job.process.returncode}")
    if report is None:
        return [*wrong, "no report.json"]
    if report["state"] != "Succeeded":
        wrong.append(f"state {report['state']}")
    if undisturbed is not None and report.get("parametersSha256") != undisturbed["parametersSha256"]:
        wrong.append("other bits than the undisturbed run")
    return wrong + _steps(job, report) + _evaluations(job, undisturbed) + _failures(job, report) + checkpoints(job)


def _steps(job, report):
    wrong = []
    if job.shape.mode != "async" and report["steps"] != job.shape.steps:
        wrong.append(f"{report['steps']} steps, expected {job.shape.steps}")
    if report["workers"] != job.shape.workers + job.shape.chief or report["ps"] != job.shape.ps:
        wrong.append(f"{report['workers']} workers and {report['ps']} servers in the report")
    steps = [record["step"] for record in report["history"]]
    if any(later <= earlier for earlier, later in zip(steps, steps[1:])):
        wrong.append(f"the history's steps do not grow: {steps}")
    if len(report.get("perWorker", [])) != job.shape.workers + job.shape.chief:
        wrong.append(f"{len(report.get('perWorker', []))} workers under perWorker")
    if any(redone["from"] > redone["to"] or not redone["reason"] for redone in report["redone"]):
        wrong.append(f"redone {report['redone']}")
    return wrong


def _evaluations(job, undisturbed):
    """The same evaluations at the same steps as without blows, each once. An evaluator that was away may have missed some."""
    try:
        told = json.loads((job.output / "checkpoints/evaluations.json").read_text())["evaluations"]
    except OSError:
        return []
    steps = [each["step"] for each in told]
    wrong = [f"evaluations at steps {steps}"] if steps != sorted(set(steps)) else []
    if undisturbed is not None:
        expected = {record["step"]: record["eval"] for record in undisturbed["history"] if record.get("eval")}
        differ = [each["step"] for each in told if each["step"] in expected and each["metrics"] != expected[each["step"]]]
        if differ:
            wrong.append(f"other evaluations than the undisturbed run at steps {differ}")
        missing = sorted(set(expected) - set(steps))
        if missing and not job.shape.evaluator and not job.full_disks:  # a full disk takes the log of evaluations, which is said
            wrong.append(f"no evaluation at steps {missing}")
    return wrong


def _failures(job, report):
    """One failure for each process that was ended, and no others; an outage of a server is nobody else's failure."""
    wrong = []
    for replica in sorted({*job.pids, *(failure["replica"] for failure in report["failures"])}):
        told = [failure["reason"] for failure in report["failures"] if failure["replica"] == replica]
        needed = sum(STILL_NEEDED in restart["reason"] for restart in report["restarts"] if restart["replica"] == replica)
        again = len(job.pids.get(replica, ())) - 1 - needed
        sent = len(job.signals.get(replica, ()))
        if len(told) < again:
            wrong.append(f"{replica} was started again {again} times, the report has {len(told)} failures of it")
        if not job.full_disks and len(told) > sent:
            wrong.append(f"{replica} got {sent} signals and has {len(told)} failures: {told}")
        if not job.full_disks:
            wrong += [f"{replica} failed for another reason than a signal: {reason}" for reason in told if not reason.startswith(ALLOWED_REASONS)]
    # The launcher's restarts have no step; the others are what replicas saw from inside.
    by_launcher = sorted((each["replica"], each["reason"]) for each in report["restarts"]
                         if each["step"] < 0 and each["replica"] != "checkpoint" and STILL_NEEDED not in each["reason"])
    if any(each not in [(failure["replica"], failure["reason"]) for failure in report["failures"]] for each in by_launcher) and not job.full_disks:
        wrong.append(f"restarts {by_launcher} without a failure")
    outages = sum(name.startswith("ps-") for name in job.signals for _ in job.signals[name])
    refilled = [each for each in report["restarts"] if each["replica"] == "ps"]
    if len(refilled) > outages and not job.full_disks:
        wrong.append(f"{len(refilled)} times servers were filled again, {outages} were ended")
    return wrong


def checkpoints(job):
    """Those that the job keeps: the last one is of its last step."""
    found = sorted(int(folder.name.removeprefix("step-")) for folder in (job.output / "checkpoints").glob("step-*"))
    wrong = []
    if job.shape.mode != "async" and (not found or found[-1] != job.shape.steps):
        wrong.append(f"checkpoints {found}, the last one should be {job.shape.steps}")
    if len(found) > 3:
        wrong.append(f"checkpoints {found}, keep is 3")
    return wrong


LOCKS = (".lock", ".chief.lock")


def temporary_files(output):
    return [f"left behind: {path.relative_to(output)}" for path in output.rglob("*")
            if ".tmp" in path.name or "staging" in path.name or (path.name.startswith(".") and path.name not in LOCKS)]


def leftovers(job):
    """Temporary files, a lock that is still held, ports that are still open."""
    known = {"checkpoints", "config", "evaluation.json", "logs", "profile.json", "profile.txt", "profiles", "replicas", "report.html", "report.json", "summaries", "trace.json", "epochs.jsonl", "filler", *LOCKS}
    wrong = [f"left behind: {path.name}" for path in job.output.iterdir() if path.name not in known]
    wrong += temporary_files(job.output)
    for lock_file in filter(pathlib.Path.exists, (job.output / name for name in LOCKS)):  # a launcher that was stopped at its start has made none
        with lock_file.open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                wrong.append("the output is still locked")
    hosts_file = job.output / "config/cluster.json"
    if not job.isolated and hosts_file.exists():  # else its ports have gone with its network
        hosts = json.loads(hosts_file.read_text())
        for host in [*hosts["ps"], *hosts["worker"]]:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(host.rpartition(":")[2]))) == 0:
                    wrong.append(f"somebody still listens on {host}")
    return wrong


def processes(folder):
    """Processes of jobs below `folder` that have outlived them."""
    left = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or int(entry.name) == os.getpid() or (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                continue
            if str(folder).encode() in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                left.append(f"process {entry.name}: {(entry / 'cmdline').read_bytes().decode(errors='replace')}")
        except OSError:
            continue
    return left


def mounts(folder):
    return [f"mount {line.split()[1]}" for line in pathlib.Path("/proc/mounts").read_text().splitlines() if str(folder) in line]
