"""The peer: kubeflow's training-operator with its client's limits raised (its defaults allow 20 requests a second), on jobs of the same shape.

Built by `scripts/cluster/build.sh training-operator`. Its webhook's certificate comes from a Secret that a kubelet would mount; here its files are
written where the program looks for them.
"""

import base64
import json
import pathlib
import subprocess
import time

from harness import places
from harness.control_plane import free_port
from harness.wait import wait_for

from clients import join, start_clients
from jobs import PODS, REPLICAS, within
from observer import LOAD_RESOLUTION, Observer
from single import measure_single
from usage import CpuMeter, peak_resident_mebibytes

TF_JOBS = "/apis/kubeflow.org/v1/tfjobs"
BINARY = places.BIN / "training-operator"
CRD = places.CLUSTER / "share/training-operator/kubeflow.org_tfjobs.yaml"
HOME = "kubeflow"                                                    # the program's default namespace
CERTIFICATES = pathlib.Path("/tmp/k8s-webhook-server/serving-certs")  # fixed in the program
LIMITS = {"kube-api-qps": 1000, "kube-api-burst": 2000, "controller-threads": 16}


def tf_job(name):
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "example.com/trainer:1", "resources": {"requests": {"cpu": "10m"}}}]}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name},
            "spec": {"runPolicy": {"cleanPodPolicy": "None"},
                     "tfReplicaSpecs": {"PS": {"replicas": 2, "template": template}, "Worker": {"replicas": 4, "template": template}}}}


def _install_crd(plane, api):
    converted = subprocess.run([places.BIN / "kubectl", "create", "--dry-run=client", "--validate=false", "-o", "json", "-f", CRD,
                                f"--kubeconfig={plane.kubeconfig}"], capture_output=True, text=True, check=True)
    api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json.loads(converted.stdout))
    wait_for("TFJobs to be served", lambda: api.exists(TF_JOBS), 30)


def _certificate_secret(api):
    """Where the program keeps its certificate, and a webhook for it to register with that concerns no object."""
    api.create("/api/v1/namespaces", {"metadata": {"name": HOME}})
    api.create(f"/api/v1/namespaces/{HOME}/secrets", {"metadata": {"name": "training-operator-webhook-cert"}})
    api.create("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", {
        "metadata": {"name": "validator.training-operator.kubeflow.org"},
        "webhooks": [{"name": "validator.none.training-operator.kubeflow.org", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                      "clientConfig": {"service": {"name": "training-operator", "namespace": HOME, "path": "/none"}},
                      "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["none"]}]}]})


def _mount_certificates(api):
    """As the kubelet does: the Secret's files, once the program has filled it."""
    secret = f"/api/v1/namespaces/{HOME}/secrets/training-operator-webhook-cert"
    wait_for("the peer's certificate", lambda: api.get(secret).get("data"), 60)
    CERTIFICATES.mkdir(parents=True, exist_ok=True)
    for name, text in api.get(secret)["data"].items():
        (CERTIFICATES / name).write_bytes(base64.b64decode(text))


def start(plane):
    """Starts it and returns its pid once it reconciles."""
    api = plane.api()
    _install_crd(plane, api)
    _certificate_secret(api)
    for old in CERTIFICATES.glob("*"):
        old.unlink()
    address, webhook = "127.0.0.1", free_port("127.0.0.1")
    plane.processes.start("training-operator", [
        BINARY, f"--kubeconfig={plane.kubeconfig}", "--enable-scheme=tfjob", f"--metrics-bind-address={address}:{free_port(address)}",
        f"--health-probe-bind-address={address}:{free_port(address)}", f"--webhook-server-port={webhook}",
        *[f"--{name}={value}" for name, value in LIMITS.items()]])
    _mount_certificates(api)
    probe, jobs = "probe", within(TF_JOBS, "default")
    api.create(jobs, tf_job(probe))
    wait_for("the peer's first pods", lambda: len(api.list(within(PODS, "default"))) == REPLICAS, 120)
    api.delete(f"{jobs}/{probe}")
    wait_for("the peer's first pods to be gone", lambda: not api.list(within(PODS, "default")), 60)
    api.close()
    return plane.processes.pid("training-operator")


def measure(plane, namespaces, count, singles, creators, seconds):
    """pods/s until the last of `count` jobs' pods exists, seconds until all pods of each job are
    ready and it is said to be Running, CPU and memory till then. Times of one job alone where `singles` asks for them."""
    pid = start(plane)
    result = measure_single(plane, TF_JOBS, namespaces[0], tf_job, singles) if singles else {}
    observer = Observer(plane, TF_JOBS, PODS, LOAD_RESOLUTION)
    time.sleep(1)
    meter, began = CpuMeter({"training-operator": pid}), time.monotonic()
    threads = start_clients(plane, creators, range(count), lambda api, number: api.create(
        within(TF_JOBS, namespaces[number % len(namespaces)]), tf_job(f"job-{number}")))
    observer.wait("every job's pods", lambda jobs: sum(len(job.created_pods) == REPLICAS for job in jobs.values()) >= count, seconds)
    join(threads)
    observer.wait("every job Running", lambda jobs: sum(job.runs_since(REPLICAS) is not None for job in jobs.values()) >= count, seconds)
    seen = observer.snapshot().values()
    observer.stop()
    last_pod = max(max(job.created_pods.values()) for job in seen)
    return result | {"podsPerSecond": count * REPLICAS / (last_pod - began), "secondsToAllRunning": max(job.runs_since(REPLICAS) for job in seen) - began,
                     "cpuSeconds": meter.used()["training-operator"], "peakResidentMebibytes": peak_resident_mebibytes(pid)}
