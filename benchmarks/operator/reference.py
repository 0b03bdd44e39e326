"""What the control plane itself allows: a client that only creates the objects that the operator makes of each job, with no thought."""

import copy
import threading
import time

from harness.jobs import CONFIG_MAPS, PODS, SERVICES
from harness.wait import wait_for

from jobs import JOBS, REPLICAS, training_job

THREADS = 12        # as many requests under way as the operator has: its workers and their helpers


def _children(plane, services):
    """(collection, object) of everything that the operator made for one job, as somebody would write it: without the server's fields, owner and labels."""
    api = plane.api()
    name = "pattern"
    api.create(JOBS, training_job(name, services))
    counts = {PODS: REPLICAS, SERVICES: REPLICAS if services == "PerReplica" else 1, CONFIG_MAPS: 1}
    owned = lambda path: [o for o in api.list(path) if any(w["name"] == name for w in o["metadata"].get("ownerReferences", []))]
    wait_for("the objects of one job", lambda: all(len(owned(path)) == count for path, count in counts.items()), 60)
    patterns = []
    for path in counts:
        for found in owned(path):
            body = {key: copy.deepcopy(found[key]) for key in ("spec", "data") if key in found}
            body.get("spec", {}).pop("nodeName", None)
            for field in ("clusterIP", "clusterIPs"):
                if body.get("spec", {}).get(field) not in (None, "None", ["None"]):
                    body["spec"].pop(field)
            patterns.append((path, found["metadata"]["name"].removeprefix(name), body))
    api.delete(f"{JOBS}/{name}")
    wait_for("the pattern to be gone", lambda: not any(owned(path) for path in counts), 60)
    api.close()
    return patterns


def measure_reference(plane, operator, count, services):
    """Pods a second of that client, for `count` jobs' objects. The operator is stopped afterwards and before."""
    patterns = _children(plane, services)
    operator.stop()

    def create(first):
        api = plane.api()
        for number in range(first, count, THREADS):
            for path, suffix, body in patterns:
                api.create(path, {"metadata": {"name": f"plain-{number}{suffix}"}, **body})
        api.close()

    threads = [threading.Thread(target=create, args=(first,)) for first in range(THREADS)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count * REPLICAS / (time.monotonic() - began)
