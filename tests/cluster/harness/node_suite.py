"""A real node for test cases: the two images built, a cluster started, the operator installed by Helm, and what cases ask and do there."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

from harness import images, needs, node, places, sandbox
from harness.control_plane import ControlPlane, Options
from harness.jobs import CONFIG_MAPS, EVENTS, JOBS, PODS, SERVICES
from harness.suite import skip_or_fail
from harness.wait import wait_for

OPERATOR_NAMESPACE = "trainyard-system"
STATE = places.state_folder("node-suite")
ARCHIVES = STATE.with_name("node-suite.images")


def program(name, folder):
    return pathlib.Path(os.environ.get(f"TRAINYARD_{name.upper()}", places.REPOSITORY / f"build/release/{folder}/trainyard-{name}"))


def lacks():
    found = needs.missing("node")
    for name in ("operator", "trainer"):
        if not program(name, name).exists():
            found.append(f"the program {program(name, name)} (build the target trainyard-{name})")
    return found


def build_images():
    archives = {"pause": images.pause(), "operator": images.operator(program("operator", "operator")), "trainer": images.trainer(program("trainer", "trainer"))}
    base = images.size_in_bytes(images.BASE)
    sizes = {name: images.size_in_bytes(image) - base for name, image in (("operator", images.OPERATOR), ("trainer", images.TRAINER))}
    print("over their base: " + ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in sizes.items()), flush=True)
    ARCHIVES.parent.mkdir(parents=True, exist_ok=True)
    versions = {name: subprocess.run([program(name, name), "--version"], capture_output=True, text=True, check=True).stdout for name in sizes}
    ARCHIVES.write_text(json.dumps({"archives": {name: str(path) for name, path in archives.items()}, "sizes": sizes, "versions": versions}))


class NodeSuite(unittest.TestCase):
    """Cases that share one cluster with the operator of the chart; each leaves the namespace empty, but for the jobs in `ahead`."""

    ahead = None  # jobs that wait already for the case that judges them; None: there are none yet

    @classmethod
    def setUpClass(cls):
        if not sandbox.inside():
            skip_or_fail(lacks())
        cls.built = json.loads(ARCHIVES.read_text())
        cls.plane = ControlPlane(STATE, Options(address=sandbox.NODE_ADDRESS, port=6443, scheduler=True))
        cls.addClassCleanup(cls.plane.stop)
        cls.plane.start()
        node.Node(cls.plane, cls.built["archives"]["pause"]).start()
        for name in ("operator", "trainer"):
            node.import_image(cls.built["archives"][name])
        cls.api = cls.plane.api()
        cls.addClassCleanup(cls.api.close)
        cls.tool("helm4", "install", "trainyard", places.REPOSITORY / "charts/trainyard-operator", "--namespace", OPERATOR_NAMESPACE, "--create-namespace",
                 "--wait", "--timeout", "90s")

    def setUp(self):
        self.addCleanup(self.leave_nothing)

    @classmethod
    def tool(cls, name, *argv, text=None):
        done = subprocess.run([str(places.BIN / name), *map(str, argv)], input=text, capture_output=True, text=True, check=False, timeout=180,
                              env={**os.environ, "KUBECONFIG": str(cls.plane.kubeconfig), "HOME": str(STATE)})
        if done.returncode != 0:
            raise AssertionError(f"{name} {' '.join(map(str, argv))}: {done.stderr.strip()}\n{cls.picture()}")
        return done.stdout

    @classmethod
    def kubectl(cls, *argv, text=None):
        return cls.tool("kubectl", *argv, text=text)

    @classmethod
    def picture(cls):
        """What a person would look at first, for the message of a failure."""
        shown = []
        for argv in (["get", "tj,pods", "-A", "-o", "wide"], ["logs", "-n", OPERATOR_NAMESPACE, "-l", "app.kubernetes.io/name=trainyard-operator", "--tail=25"],
                     ["get", "events", "-A", "--sort-by=.lastTimestamp"]):
            done = subprocess.run([places.BIN / "kubectl", f"--kubeconfig={cls.plane.kubeconfig}", *argv], capture_output=True, text=True, check=False)
            shown.append(f"$ kubectl {' '.join(argv)}\n" + "\n".join((done.stdout + done.stderr).splitlines()[-25:]))
        return "\n".join(shown)

    def wait(self, what, condition, seconds=120.0):
        try:
            return wait_for(what, condition, seconds, every=0.3)
        except AssertionError as error:
            logs = [self.log_of(pod) for pod in self.pods()]
            raise AssertionError(f"{error}\n{self.picture()}\n" + "\n".join(logs)) from error

    def log_of(self, pod):
        done = subprocess.run([places.BIN / "kubectl", f"--kubeconfig={self.plane.kubeconfig}", "logs", pod, "--tail=12"], capture_output=True, text=True, check=False)
        return f"$ kubectl logs {pod}\n{done.stdout}{done.stderr}"

    def pods(self):
        return sorted(each["metadata"]["name"] for each in self.api.list(PODS) if "deletionTimestamp" not in each["metadata"])

    def status(self, name):
        found = self.api.find(f"{JOBS}/{name}")
        return found.get("status", {}) if found else {}

    def is_true(self, name, kind):
        held = any(each["type"] == kind and each["status"] == "True" for each in self.status(name).get("conditions", []))
        assert held, self.status(name)
        return True

    def step(self, name):
        return self.status(name).get("progress", {}).get("step", 0)

    def wait_progress(self, name, seconds=120.0):
        """The chief's step grows from what it is now. The chief itself is asked: status tells it up to ten seconds later."""
        def step():
            address = self.api.get(f"{PODS}/{name}-worker-0")["status"].get("podIP")
            with urllib.request.urlopen(f"http://{address}:5001/progress", timeout=2) as answer:
                return json.load(answer).get("step", 0)

        before, = self.wait(f"the chief of {name} to answer", lambda: (step(),), seconds)
        self.wait(f"{name} to train on from step {before}", lambda: step() > before, seconds)

    def wait_running(self, name, workers, seconds=120.0):
        def runs():
            self.is_true(name, "Running")
            ready = self.status(name)["replicaStatuses"]["worker"]["ready"]
            assert ready == workers, self.status(name)["replicaStatuses"]
            return True

        self.wait(f"{name} to run with {workers} workers", runs, seconds)

    def assert_ended_well(self, name, workers):
        """Every replica of a job that has succeeded ended by itself, is counted so, and can be asked for its log."""
        def counted():
            counts = {role: {key: value for key, value in each.items() if key in ("active", "ready", "succeeded", "failed")}
                      for role, each in self.status(name)["replicaStatuses"].items()}
            assert counts == {role: {"active": 0, "ready": 0, "succeeded": number, "failed": 0} for role, number in (("ps", 1), ("worker", workers))}, counts
            return True

        self.wait("the counts to be those of the end", counted)
        pods = [f"{name}-ps-0", *[f"{name}-worker-{i}" for i in range(workers)]]

        def ended():
            phases = {each["metadata"]["name"]: each["status"]["phase"] for each in self.api.list(PODS)}
            assert phases == {pod: "Succeeded" for pod in pods}, phases
            return True

        self.wait("the pods to have ended", ended)  # the operator counts a pod by its container, before the kubelet writes the pod's phase
        for pod in pods:
            self.assertTrue(self.kubectl("logs", pod).strip(), f"kubectl logs {pod} says nothing")

    def claim(self, name, made=True):
        """A claim whose volume is a folder of root's, as an administrator makes one; the folder. With made=False the volume waits for its claim."""
        volumes = STATE / "volumes"
        volumes.mkdir(parents=True, exist_ok=True)
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=volumes))  # trainers of a case before may still write into theirs
        folder.chmod(0o755)
        size = {"storage": "1Gi"}
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
            "capacity": size, "accessModes": ["ReadWriteMany"], "storageClassName": "", "local": {"path": str(folder)}, "claimRef": {"namespace": "default", "name": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node.NAME]}]}]}}}}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {
            "accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": name, "resources": {"requests": size}}}
        objects = [("/api/v1/persistentvolumes", volume), ("/api/v1/namespaces/default/persistentvolumeclaims", claim)]
        for path, body in objects if made else objects[:1]:
            self.api.create(path, body)
            self.addCleanup(self.api.delete, f"{path}/{name}")
        return folder

    def failed_message(self, name, seconds=120.0):
        self.wait(f"{name} to fail", lambda: self.is_true(name, "Failed"), seconds)
        return self.status(name)["message"]

    def install(self, name, *options):
        self.tool("helm4", "install", name, places.REPOSITORY / "charts/trainingjob", *[part for option in options for part in ("--set", option)])

    def long_job(self, name, workers, *options):
        """A job that would train for hours."""
        self.install(name, f"worker.replicas={workers}", "ps.replicas=1", "training.epochs=100000", "training.batchSize=32", "training.evaluate.everyEpochs=0",
                     "training.resources.threads=1", "runPolicy.backoffLimit=50", *options)
        self.wait_running(name, workers)
        self.wait_progress(name)

    def kill_container(self, pod):
        """SIGKILL to the pod's main process, as the out-of-memory killer would."""
        identity = self.api.get(f"{PODS}/{pod}")["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        self.tool("ctr", "--address", node.SOCKET, "-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", identity)

    def left(self, path):
        """Names of what there is, but for the children of jobs in `ahead` and what is Kubernetes' own."""
        names = [each["metadata"]["name"] for each in self.api.list(path)]
        return [name for name in names if name not in ("kubernetes", "kube-root-ca.crt")
                and not any(name == job or name.startswith((f"{job}-", f"sh.helm.release.v1.{job}.")) for job in self.ahead or ())]

    def leave_nothing(self):
        for name in self.left(JOBS):
            self.api.delete(f"{JOBS}/{name}")

        def nothing():
            left = {path: self.left(path) for path in (JOBS, PODS, SERVICES, CONFIG_MAPS)}
            if not left[JOBS]:  # what becomes of a job that is stopped in time is what other cases are about
                for name in left[PODS]:
                    self.api.delete(f"{PODS}/{name}", grace_seconds=0)
            assert not any(left.values()), left
            return True

        self.wait("nothing of the jobs to be left", nothing, 90.0)
        secrets = "/api/v1/namespaces/default/secrets"
        for name in self.left(secrets):
            self.api.delete(f"{secrets}/{name}")
        if not self.ahead:
            self.api.request("DELETE", EVENTS)


def main(*also_lacks):
    """Builds the images and goes into a sandbox, where the same program runs its cases."""
    if not sandbox.inside() and not lacks() and not also_lacks:
        build_images()
        status = sandbox.run_inside([sys.executable, *sys.argv])
        shutil.rmtree(STATE / "node", ignore_errors=True)  # logs stay
        sys.exit(status)
    unittest.main()
