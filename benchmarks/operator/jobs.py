"""The jobs of the benchmark: two servers and four workers, as the peer's TFJob has them."""

from harness.wait import wait_for

JOBS = "/apis/trainyard.dev/v1alpha1/trainingjobs"     # of all namespaces, as the next two
PODS = "/api/v1/pods"
EVENTS = "/apis/events.k8s.io/v1/events"
REPLICAS = 6


def within(path, namespace):
    """The path of one namespace's objects, for that of all."""
    group, _, plural = path.rpartition("/")
    return f"{group}/namespaces/{namespace}/{plural}"


def make_namespaces(api, count):
    """The names of the namespaces that the jobs are spread over, ready for pods."""
    names = [f"team-{number}" for number in range(count)]
    for name in names:
        api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    for name in names:
        wait_for(f"the service account of {name}", lambda name=name: api.exists(f"/api/v1/namespaces/{name}/serviceaccounts/default"), 60)
    return names


def training_job(name, services):
    template = {"spec": {"containers": [{"name": "trainer", "image": "example.com/trainer:1", "resources": {"requests": {"cpu": "10m"}}}]}}
    return {
        "apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name},
        "spec": {
            "framework": "TensorFlow",
            "ps": {"replicas": 2, "template": template},
            "worker": {"replicas": 4, "template": template},
            "runPolicy": {"startPolicy": "Any", "cleanPodPolicy": "None"},
            "network": {"services": services},
        },
    }
