"""GPUs in pods on a real node: pods are placed, wait and are told why, and what becomes of them when a device ends. A device plugin of the tests
(device_plugin/) tells the kubelet of GPUs that this machine does not have, so the training itself runs on the processor.

Started outside, it builds the images and goes into a sandbox (harness/sandbox.py).
"""

from harness import gpus, images, node, places, sandbox
from harness.events import wait_events
from harness.gpus import GPU, Gpus
from harness.jobs import JOBS, PODS, job
from harness.node_suite import NodeSuite, lacks, main

MIG = "nvidia.com/mig-1g.5gb"
ASKS = "worker.resources.limits.nvidia\\.com/gpu=1"
LOCAL = ("ps.replicas=0", "training.strategy=null", "training.epochs=1")


class GpuTest(NodeSuite):
    """Cases run in the order of their names' numbers; each begins with the devices that it names."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gpus = Gpus(cls.plane).start()

    def wait_message(self, name, *words):
        def said():
            message = self.status(name).get("message", "")
            assert all(word in message for word in words), message
            return message

        return self.wait(f"the status of {name} to say {words}", said)

    def variable(self, pod, name):
        """Of the pod's container, by a program that runs in it; empty where it is not set."""
        return self.kubectl("exec", pod, "--", "sh", "-c", f"printf %s \"${name}\"")

    def wait_ready(self, pod):
        def ready():
            conditions = self.api.get(f"{PODS}/{pod}")["status"].get("conditions", [])
            assert any(each["type"] == "Ready" and each["status"] == "True" for each in conditions), conditions
            return True

        self.wait(f"{pod} to be ready", ready)

    def test_01_a_worker_waits_for_a_gpu_and_is_told_why_and_trains_when_there_is_one(self):
        self.gpus.has("GPU-0")
        self.kubectl("apply", "-f", places.REPOSITORY / "examples/lenet5-gpu.yaml")
        self.wait_message("lenet5-gpu", "; no node takes worker-", "the only node lacks nvidia.com/gpu")
        waits = next(each for each in self.api.list(PODS) if "nodeName" not in each["spec"])
        placed = {"lenet5-gpu-worker-0", "lenet5-gpu-worker-1"} - {waits["metadata"]["name"]}
        self.assertIn("the only node lacks nvidia.com/gpu", self.kubectl("get", "tj", "lenet5-gpu"))
        said = next(each["message"] for each in waits["status"]["conditions"] if each["type"] == "PodScheduled")
        self.assertIn("No preemption victims found", said, "by these words the operator knows that the GPU is in use")
        for pod in placed:
            self.wait_ready(pod)
            self.assertEqual([self.variable(pod, name) for name in ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")], ["GPU-0", "GPU-0"])
        self.assertEqual(self.variable("lenet5-gpu-ps-0", "NVIDIA_VISIBLE_DEVICES"), "void", "it asks for none")
        self.assertEqual(self.variable("lenet5-gpu-ps-0", "CUDA_VISIBLE_DEVICES"), "")
        self.gpus.has("GPU-0", "GPU-1")
        self.wait("the job to succeed", lambda: self.is_true("lenet5-gpu", "Succeeded"), 300.0)
        self.assertGreater(self.status("lenet5-gpu")["progress"]["metrics"]["accuracy"], 0.9)
        self.assertIn("allocates GPU-1", self.gpus.log())
        self.assertFalse(self.status("lenet5-gpu").get("restarts"))

    def test_02_a_worker_whose_gpu_gets_unhealthy_starts_again_on_another_one(self):
        self.gpus.has("GPU-0")
        self.long_job("unwell", 1, ASKS)
        self.gpus.has("GPU-0", unhealthy=("GPU-0",))

        def told():
            container = self.api.get(f"{PODS}/unwell-worker-0")["status"]["containerStatuses"][0]
            assert {"resourceID": "GPU-0", "health": "Unhealthy"} in container["allocatedResourcesStatus"][0]["resources"], container
            return True

        self.wait("the kubelet to tell of the device", told)
        self.wait_message("unwell", "; worker-0 runs on an unhealthy device: nvidia.com/gpu GPU-0")
        self.kill_container("unwell-worker-0")  # as the device's driver does in the end
        self.wait_message("unwell", "waits for worker-0; no node takes worker-0: the only node lacks nvidia.com/gpu")
        self.assertEqual(self.status("unwell")["phase"], "Restarting")
        self.gpus.has("GPU-0", "GPU-1", unhealthy=("GPU-0",))
        self.wait_running("unwell", 1)
        self.assertEqual(self.variable("unwell-worker-0", "NVIDIA_VISIBLE_DEVICES"), "GPU-1")
        self.assertEqual((self.status("unwell").get("restarts", 0), self.status("unwell")["disruptions"]), (0, 1))
        wait_events(self.api, "Disrupted", "its nvidia.com/gpu GPU-0 is unhealthy")

    def test_03_a_device_that_vanishes_after_the_scheduler_chose_it_costs_no_restart(self):
        self.gpus.has("GPU-0")
        self.gpus.refuse("GPU-0 has fallen off the bus")
        self.install("vanished", *LOCAL, ASKS, "runPolicy.backoffLimit=0")
        self.wait("the rejected pod to be made again", lambda: self.status("vanished").get("disruptions", 0) >= 1)
        told = wait_events(self.api, "Disrupted", "fallen off the bus")
        self.assertIn("UnexpectedAdmissionError", told[0]["note"])
        self.gpus.refuse("")
        self.wait("vanished to succeed", lambda: self.is_true("vanished", "Succeeded"))
        self.assertFalse(self.status("vanished").get("restarts"))

    def test_04_a_slice_of_a_gpu_behind_a_taint_a_selector_and_a_runtime_class(self):
        self.gpus.has("MIG-0", resource=MIG)
        runtimes, this = "/apis/node.k8s.io/v1/runtimeclasses", f"/api/v1/nodes/{node.NAME}"
        self.api.create(runtimes, {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "runc"})
        self.addCleanup(self.api.delete, f"{runtimes}/nvidia")
        self.api.merge(this, {"metadata": {"labels": {"gpu": "h100"}}, "spec": {"taints": [{"key": GPU, "value": "present", "effect": "NoSchedule"}]}})
        self.addCleanup(self.api.merge, this, {"metadata": {"labels": {"gpu": None}}, "spec": {"taints": None}})
        asks = (f"worker.resources.limits.{MIG.replace('.', chr(92) + '.')}=1", "worker.runtimeClassName=nvidia", "worker.nodeSelector.gpu=h100")
        self.install("outside", *LOCAL, *asks)
        self.wait_message("outside", "no node takes worker-0: the only node has a taint that the pod does not tolerate")
        self.install("inside", *LOCAL, *asks, f"worker.tolerations[0].key={GPU}", "worker.tolerations[0].operator=Exists")
        self.wait("inside to succeed", lambda: self.is_true("inside", "Succeeded"))
        self.assertIn("allocates MIG-0", self.gpus.log())

    def test_05_without_a_device_plugin_no_node_has_a_gpu(self):
        self.gpus.has("GPU-0")
        self.gpus.stop()
        self.api.create(JOBS, job("nowhere").framework("None").without("training").worker(
            1, resources={"limits": {GPU: 1}}, template={"spec": {"containers": [{"name": "c", "image": images.TRAINER}]}}).spec())
        self.wait_message("nowhere", "no node takes worker-0: the only node lacks nvidia.com/gpu")
        said = next(each["message"] for each in self.api.get(f"{PODS}/nowhere-worker-0")["status"]["conditions"] if each["type"] == "PodScheduled")
        self.assertIn("Preemption is not helpful", said, "by these words the operator knows that no node has one")


if __name__ == "__main__":
    if not sandbox.inside() and not lacks():
        gpus.prepare()
    main()
