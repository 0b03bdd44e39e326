"""TrainingJob objects for tests: a fluent maker that shows only what a test is about, and the paths of the API."""

import copy
import json
import subprocess

from . import places
from .wait import wait_for

JOBS = "/apis/trainyard.dev/v1alpha1/namespaces/default/trainingjobs"
PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


class job:  # noqa: N801 - reads as a word in a sentence: job("a").worker(2)
    """Worker 1, a training section that the schema accepts, nothing else. Each call changes and returns this maker; spec() is the object.

    A test that names no strategy gets the one that its replicas need, and may scale a job with servers while it runs.
    """

    def __init__(self, name):
        self._body = {
            "apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name},
            "spec": {"worker": {}, "training": {"model": {"preset": "lenet5"}, "data": {"format": "synthetic"}, "epochs": 1}},
        }

    def spec(self):
        body = copy.deepcopy(self._body)
        training = body["spec"].get("training")
        if training is not None and "strategy" not in training:
            training.update(self._strategy())
        return body

    def _strategy(self):
        if self._replicas("ps") > 0:
            return {"strategy": {"parameterServer": {"mode": "async"}}}
        return {"strategy": {"allReduce": {}}} if self._replicas("worker") > 1 else {}

    def _replicas(self, role):
        return self._body["spec"].get(role, {"replicas": 0}).get("replicas", 1)

    def set(self, field, value):
        self._body["spec"][field] = value
        return self

    def without(self, field):
        self._body["spec"].pop(field, None)
        return self

    def label(self, name, value):
        self._body["metadata"].setdefault("labels", {})[name] = value
        return self

    def framework(self, name):
        return self.set("framework", name)

    def ps(self, replicas=1, **fields):
        return self.set("ps", {"replicas": replicas, **fields})

    def worker(self, replicas=1, **fields):
        return self.set("worker", {"replicas": replicas, **fields})

    def chief(self, **fields):
        return self.set("chief", {"replicas": 1, **fields})

    def evaluator(self, **fields):
        return self.set("evaluator", {"replicas": 1, **fields})

    def policy(self, **fields):
        self._body["spec"].setdefault("runPolicy", {}).update(fields)
        return self

    def training(self, **fields):
        for name, value in fields.items():
            if value is None:
                self._body["spec"]["training"].pop(name, None)
            else:
                self._body["spec"]["training"][name] = value
        return self


def install_crd(api):
    """Creates the CRD of crds/trainingjob.yaml and waits until it is served."""
    converted = subprocess.run([places.BIN / "kubectl", "create", "--dry-run=client", "--validate=false", "-o", "json", "-f",
                                places.REPOSITORY / "crds/trainingjob.yaml", f"--kubeconfig={api.kubeconfig}"],
                               capture_output=True, text=True, check=False)
    if converted.returncode != 0:
        raise RuntimeError(f"crds/trainingjob.yaml: {converted.stderr.strip()}")
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api.create(path, json.loads(converted.stdout))

    def established():
        conditions = api.get(f"{path}/trainingjobs.trainyard.dev")["status"].get("conditions") or []
        broken = [c for c in conditions if c["type"] == "NonStructuralSchema" and c["status"] == "True"]
        assert not broken, broken
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions) and api.list(JOBS) == []

    wait_for("the CRD to be served", established)
