"""The speed that the control plane itself allows: a client only creates the objects that the
operator makes of each job."""

import json
import time

from harness.wait import wait_for

from clients import join, start_clients
from jobs import JOBS, PODS, REPLICAS, training_job, within
from observer import LOAD_RESOLUTION, Observer

SERVICES = "/api/v1/services"
CONFIG_MAPS = "/api/v1/configmaps"
THREADS = 56        # as many requests under way as the operator has for new jobs: half of its workers, and their helpers
PATTERN = "pattern"
OF_THE_SERVER = ("creationTimestamp", "generation", "managedFields", "namespace", "resourceVersion", "uid")


def _as_sent(found):
    """The object as its creator sends it: without what the server added. Labels and owner stay, so that services find their pods."""
    body = {key: found[key] for key in ("spec", "data") if key in found}
    body["metadata"] = {key: value for key, value in found["metadata"].items() if key not in OF_THE_SERVER}
    if body.get("spec", {}).get("clusterIP") not in (None, "None"):
        for field in ("clusterIP", "clusterIPs"):
            body["spec"].pop(field, None)
    body.get("spec", {}).pop("nodeName", None)
    return body


def _pattern(plane, namespace, services):
    """(uid, [(collection, JSON text)]): one job that the operator made the objects of, and those objects."""
    api = plane.api()
    uid = api.create(within(JOBS, namespace), training_job(PATTERN, services))["metadata"]["uid"]
    counts = {PODS: REPLICAS, SERVICES: REPLICAS if services == "PerReplica" else 1, CONFIG_MAPS: 1}
    owned = lambda path: [o for o in api.list(within(path, namespace)) if any(owner["uid"] == uid for owner in o["metadata"].get("ownerReferences", []))]
    wait_for("the objects of one job", lambda: all(len(owned(path)) == count for path, count in counts.items()), 60)
    texts = [(path, json.dumps(_as_sent(found))) for path in counts for found in owned(path)]
    api.delete(f"{within(JOBS, namespace)}/{PATTERN}")
    api.close()
    return uid, texts


def measure_reference(plane, operator, namespaces, count, services):
    """Pods a second of that client, for `count` jobs and their objects. The operator is stopped, the observer watches as it does beside the operator."""
    pattern_uid, texts = _pattern(plane, namespaces[0], services)
    operator.stop()

    def create(api, number):
        name, namespace = f"plain-{number}", namespaces[number % len(namespaces)]
        uid = api.create(within(JOBS, namespace), training_job(name, services))["metadata"]["uid"]
        for path, text in texts:
            api.create(within(path, namespace), json.loads(text.replace(pattern_uid, uid).replace(PATTERN, name)))

    observer = Observer(plane, JOBS, PODS, LOAD_RESOLUTION)
    time.sleep(1)
    began = time.monotonic()
    join(start_clients(plane, THREADS, range(count), create))
    seconds = time.monotonic() - began
    observer.stop()
    return count * REPLICAS / seconds
