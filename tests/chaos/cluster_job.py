"""One TrainingJob of cluster_chaos.py, and what is done to it alone: its pods, its children, its spec."""
import signal
import time

from cluster_disk import FullDisk, JobDisk, step_at
from cluster_place import CONFIG_MAPS, JOBS, PODS, SERVICES, cut_for, process_of, send, stop_for
from harness import images
from shapes import Shape

LABEL = "trainyard.dev/"
HTTP_PORT = 5001
LAST_FILL = 0.5    # of the steps: from then on a disk is not filled
LAST_FULL = 0.75   # from then on it has room again: a job whose results find none rightly fails


def sleepers(ps, workers, seconds, services):
    """A job of any other framework: its workers sleep, its servers sleep for ever. Its containers restart in their pods."""
    def role(replicas, duration):
        container = {"name": "main", "image": images.TRAINER, "imagePullPolicy": "Never", "command": ["sleep", str(duration)]}
        return {"replicas": replicas, "template": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}}

    spec = {"framework": "None", "network": {"services": services}, "worker": role(workers, seconds), "runPolicy": {"backoffLimit": 1000, "successPolicy": "AllWorkers"}}
    if ps:
        spec["ps"] = role(ps, 100000)
    return spec


# name → (what is trained or None for sleepers, spec of sleepers, may the workers be scaled)
SHAPES = {
    "sync": (Shape("sync", 1, 2, 400, 60), None, False),
    "async": (Shape("async", 1, 2, 600, 60), None, True),
    "sleepers": (None, sleepers(1, 3, 8, "PerReplica"), True),
    "local": (Shape("local", 0, 1, 500, 60), None, False),
    "sync-2x3": (Shape("sync", 2, 3, 250, 50), None, False),
    "sleepers-alone": (None, sleepers(0, 2, 10, "Headless"), True),
    "chief-evaluator": (Shape("sync", 1, 1, 300, 60, chief=1, evaluator=1), None, False),
}


class ClusterJob:
    def __init__(self, cluster, number, shape):
        self.cluster = cluster
        self.shape, spec, self.may_scale = SHAPES[shape]
        self.disk = None
        self.kind = shape
        self.name = f"j{number:03d}"
        self.label = f"job {number} ({shape})"
        body = self.shape.job(self.name) if self.shape else {"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": self.name}, "spec": spec}
        if self.shape:
            self.disk = JobDisk(cluster, self.name)
            self.output = self.disk.output
            body["spec"]["storage"] = {"claimName": self.name}
        self.started = time.monotonic()
        self.blows = []
        self.ended_pods = []  # (pod, uid): what a blow ended, where its end must be counted
        self.kills = 0        # containers that a signal ended
        self.deletions = 0    # pods that were deleted or taken away from the job
        self.deleted = {}     # name of a pod → when it was deleted, also by a suspension, in seconds since the epoch
        self.edits = 0
        self.full_disks = []  # one FullDisk for each time
        self.touched = {}     # name of a child → when it was deleted or lost a label, in seconds since the epoch
        self._undo = []       # (when, what, function); the function says whether it is done
        created = cluster.patiently(f"{self.name} to be created", self._create, body)
        self.uid = created["metadata"]["uid"]

    def _create(self, body):
        return self.cluster.api.find(f"{JOBS}/{self.name}") or self.cluster.api.create(JOBS, body)

    def remove(self):
        self.cluster.patiently(f"{self.name} to be deleted", self.cluster.api.delete, f"{JOBS}/{self.name}")
        if self.disk:
            self.disk.remove()

    def status(self):
        found = self.cluster.attempt(self.cluster.api.find, f"{JOBS}/{self.name}")
        return (found or {}).get("status", {})

    def over(self):
        return self.status().get("phase") in ("Succeeded", "Failed", "Invalid")

    def pods(self):
        """The job's pods that have not ended and are not about to."""
        found = self.cluster.attempt(self.cluster.api.list, PODS, f"{LABEL}job-uid={self.uid}") or []
        return [pod for pod in found if pod["status"].get("phase") in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]]

    def tend(self, end=False):
        now = time.monotonic()
        for item in list(self._undo):
            if (end or item[0] <= now) and item[2]():
                self._undo.remove(item)
                self._note(item[1])
        return not self._undo

    def disturb(self, chance):
        chance.choices([self._kill, self._delete, self._pause, self._cut, self._delete_child, self._strip_labels, self._change_labels, self._scale, self._suspend,
                        self.fill_disk], weights=[5, 4, 3, 3, 2, 2, 1, 3 if self.may_scale else 0, 2, 3 if self.disk else 0])[0](chance)

    def fill_disk(self, chance):
        """Whether it was done: not while the chief is silent, and not late in the training."""
        chief = self.cluster.attempt(self.cluster.api.find, f"{PODS}/{self.name}-{'chief' if self.shape.chief else 'worker'}-0") if self.disk else None
        address = (chief or {}).get("status", {}).get("podIP")
        progress = f"http://{address}:{HTTP_PORT}/progress"
        step = step_at(progress) if address else None
        if step is None or not 0 < step <= LAST_FILL * self.shape.steps or any(not full.over() for full in self.full_disks):
            return False
        full = FullDisk(self.disk, progress, LAST_FULL * self.shape.steps, chance.uniform(0.5, 4))
        self.full_disks.append(full)
        self.cluster.full_disks.append(full)
        self._note(f"disk full at step {step}")
        self._after(0, "the disk has room again", full.over)
        return True

    def _note(self, what):
        self.blows.append(f"{time.monotonic() - self.started:6.1f} s  {what}")

    def _after(self, seconds, what, function):
        self._undo.append((time.monotonic() + seconds, what, function))

    def _victim(self, chance):
        found = sorted(self.pods(), key=lambda pod: pod["metadata"]["name"])
        return chance.choice(found)["metadata"] if found else None

    def _all_exist(self):
        """Whether status says that every replica has a pod: only then can an operator that starts later know of one that was deleted."""
        counts = self.status().get("replicaStatuses", {})
        return bool(counts) and all(each.get("active", 0) + each.get("succeeded", 0) >= each.get("desired", 0) for each in counts.values())

    def _kill(self, chance):
        victim = self._victim(chance)
        pid = process_of(victim["name"]) if victim else None
        if pid is None or not send(pid, signal.SIGKILL):
            return
        self.kills += 1
        self.ended_pods.append((victim["name"], victim["uid"]))
        self._note(f"SIGKILL to {victim['name']}")

    def _delete(self, chance):
        victim = self._victim(chance)
        grace = chance.choice([0, None])
        if victim is None:
            return
        self.deletions += 1  # also where the answer is lost
        self.deleted[victim["name"]] = time.time()
        counted = self._all_exist()
        if self.cluster.attempt(self.cluster.api.delete, f"{PODS}/{victim['name']}", grace) is None:
            return self._note(f"deleting {victim['name']} got no answer")
        if counted:
            self.ended_pods.append((victim["name"], victim["uid"]))
        return self._note(f"pod {victim['name']} deleted" + (" at once" if grace == 0 else ""))

    def _pause(self, chance):
        victim = self._victim(chance)
        seconds = chance.choice([chance.uniform(0.3, 2), chance.uniform(3.5, 6)])
        pid = process_of(victim["name"]) if victim else None
        if pid is not None and stop_for(pid, seconds):
            self._note(f"SIGSTOP to {victim['name']} for {seconds:.1f} s")

    def _cut(self, chance):
        victim = self._victim(chance)
        seconds = chance.choice([chance.uniform(0.3, 2), chance.uniform(3.5, 6)])  # shorter and longer than timeouts.silence
        pid = process_of(victim["name"]) if victim else None
        if pid is not None and cut_for(pid, seconds):
            self._note(f"network of {victim['name']} cut for {seconds:.1f} s")

    def _child(self, chance, paths):
        """(path, object) of a service or ConfigMap of the job."""
        path = chance.choice(paths)
        found = self.cluster.attempt(self.cluster.api.list, path, f"{LABEL}job-uid={self.uid}")
        return (path, chance.choice(sorted(found, key=lambda each: each["metadata"]["name"]))) if found else (None, None)

    def _delete_child(self, chance):
        path, child = self._child(chance, [SERVICES, CONFIG_MAPS])
        if child and self.cluster.attempt(self.cluster.api.delete, f"{path}/{child['metadata']['name']}") is not None:
            self.touched[child["metadata"]["name"]] = time.time()
            self._note(f"{path.rpartition('/')[2]} {child['metadata']['name']} deleted")

    def _strip_labels(self, chance):
        """A child without the job's labels is still the job's: it gets them back."""
        path, child = self._child(chance, [SERVICES, CONFIG_MAPS, PODS])
        label = chance.choice(["job-name", "job-uid", "role"])
        if child and self.cluster.attempt(self.cluster.api.merge, f"{path}/{child['metadata']['name']}", {"metadata": {"labels": {LABEL + label: None}}}):
            self.touched[child["metadata"]["name"]] = time.time()
            if path == PODS and label == "job-uid":
                self.deletions += 1  # the operator sees no pod without it
            self._note(f"{path.rpartition('/')[2]} {child['metadata']['name']} lost its label {label}")

    def _change_labels(self, chance):
        """A child with another job's labels is released; what it was is made again once its name is free."""
        path, child = self._child(chance, [SERVICES, CONFIG_MAPS, PODS])
        if child is None:
            return
        name, uid = child["metadata"]["name"], child["metadata"]["uid"]
        if not self.cluster.attempt(self.cluster.api.merge, f"{path}/{name}", {"metadata": {"labels": {LABEL + "job-uid": "another"}}}):
            return
        self.touched[name] = time.time()
        if path == PODS:
            self.deletions += 1

        def remove():
            found = self.cluster.attempt(lambda: (self.cluster.api.find(f"{path}/{name}"),))
            if found is None:
                return False
            if found[0] is None or found[0]["metadata"]["uid"] != uid:
                return True
            return self.cluster.attempt(self.cluster.api.delete, f"{path}/{name}", 0) is not None

        self._note(f"{path.rpartition('/')[2]} {name} got another job's label")
        self._after(chance.uniform(1, 4), f"{name} of nobody is removed", remove)

    def _scale(self, chance):
        replicas = chance.randint(1, 4)
        if self.cluster.attempt(self.cluster.api.merge, f"{JOBS}/{self.name}", {"spec": {"worker": {"replicas": replicas}}}):
            self.edits += 1
            self.touched.update({f"{self.name}-{child}": time.time() for child in ["cluster", *[f"worker-{index}" for index in range(5)]]})
            self._note(f"scaled to {replicas} workers")

    def _suspend(self, chance):
        running = [pod["metadata"]["name"] for pod in self.pods()]
        if not self.cluster.attempt(self.cluster.api.merge, f"{JOBS}/{self.name}", {"spec": {"runPolicy": {"suspend": True}}}):
            return
        self.edits += 1
        self.deleted.update({name: time.time() for name in running})
        self._note("suspended")
        self._after(chance.uniform(0.5, 6), "resumed",
                    lambda: self.cluster.attempt(self.cluster.api.merge, f"{JOBS}/{self.name}", {"spec": {"runPolicy": {"suspend": False}}}) is not None)
