"""The jobs of the benchmark: two servers and four workers, as the peer's TFJob has them."""

JOBS = "/apis/trainyard.dev/v1alpha1/namespaces/default/trainingjobs"
REPLICAS = 6


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
