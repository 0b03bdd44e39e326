"""Other frameworks' own programs under the operator on a real node: each trains the digits, loses a worker, and shows its progress in status.

The job files are those of examples/frameworks. All run in the image of examples/frameworks/mpi, which has Python and NumPy: a framework itself lies in
a folder of this machine, which its pods mount, so that no image of gigabytes is built. Started outside, it builds that image and goes into a sandbox
(harness/sandbox.py).

  frameworks_test.py [-v]                the cases of FREQUENT
  frameworks_test.py [-v] CASE … | all   these cases of CASES, or all of them; loads up to 8 GB of packages
"""

import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import unittest
import urllib.request

import yaml
from harness import images, needs, node, operator, places, sandbox
from harness.control_plane import ControlPlane, Options
from harness.jobs import CONFIG_MAPS, EVENTS, JOBS, PODS, install_crd
from harness.operator import Operator
from harness.suite import skip_or_fail
from harness.wait import wait_for

MOST_SECONDS_IN_CI = 600
EXAMPLES = places.REPOSITORY / "examples/frameworks"
STATE = places.state_folder("frameworks-test")
PREPARED = STATE.with_name("frameworks-test.prepared")
IN_IMAGE = "/opt/trainyard/examples/frameworks/modules"  # as the Dockerfiles have it
DEBIAN_TORCH = "Debian's PyTorch"
# Case: where its framework is from, as a folder of the examples with requirements. Debian's torchrun fails with its own Python.
CASES = {"mpi": None, "mpich": "mpich", "pytorch": DEBIAN_TORCH, "jax": "jax", "mirrored": "tensorflow", "servers": "tensorflow", "xgboost": "xgboost", "torchrun": "pytorch",
         "mxnet": "mxnet"}
FREQUENT = ("mpi", "mpich", "pytorch", "jax")
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def lacks():
    found = needs.missing("node")
    if not operator.binary().exists():
        found.append(f"the program {operator.binary()} (build the target trainyard-operator)")
    return found


def _printed(*argv):
    return subprocess.run([str(part) for part in argv], capture_output=True, text=True, check=True).stdout.strip()


def environment_of(source):
    """Loads a framework where it is not there yet; the environment in which Debian's Python finds it."""
    own = {}
    if source == DEBIAN_TORCH:
        own = dict(each.split("=", 1) for each in shlex.split(_printed(places.REPOSITORY / "scripts/torch.sh")))
        own["PYTHONPATH"] += ":/node/usr/lib/python3/dist-packages"
    elif source:
        python = pathlib.Path(_printed(places.REPOSITORY / "scripts/venv.sh", EXAMPLES / source / "requirements.txt"))
        own = {"PYTHONPATH": str(next(python.parent.parent.glob("lib/python3.*/site-packages")))}
    if own:  # what this machine has was not loaded: it comes last, the image's own first
        node_has = [f"/node{folder}" for folder in (LIBRARIES, f"{LIBRARIES}/blas", f"{LIBRARIES}/lapack", "/usr/lib")]
        own["LD_LIBRARY_PATH"] = ":".join(filter(None, [LIBRARIES, own.get("LD_LIBRARY_PATH"), *node_has]))
    return own


def prepare(cases):
    prepared = {"pause": str(images.pause()), "image": str(images.example("mpi")), "environments": {case: environment_of(CASES[case]) for case in cases}}
    PREPARED.parent.mkdir(parents=True, exist_ok=True)
    PREPARED.write_text(json.dumps(prepared))


class FrameworksTest(unittest.TestCase):
    """Cases share one cluster and one operator; each leaves nothing."""

    @classmethod
    def setUpClass(cls):
        if not sandbox.inside():
            skip_or_fail(lacks())
        prepared = json.loads(PREPARED.read_text())
        cls.environments = prepared["environments"]
        cls.plane = ControlPlane(STATE, Options(address=sandbox.NODE_ADDRESS, port=6443, scheduler=True))
        cls.addClassCleanup(cls.plane.stop)
        cls.plane.start()
        node.Node(cls.plane, prepared["pause"]).start()
        node.import_image(prepared["image"])
        cls.api = cls.plane.api()
        cls.addClassCleanup(cls.api.close)
        install_crd(cls.api)
        cls.operator = Operator(cls.plane, progress_interval=2).start()
        cls.addClassCleanup(cls.operator.stop)

    def setUp(self):
        self.epochs = None  # the example's own
        self.api.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hold"}, "data": {"EPOCHS": "1000000"}})
        self.addCleanup(self.api.delete, f"{CONFIG_MAPS}/hold")
        self.addCleanup(self.leave_nothing)

    def leave_nothing(self):
        for each in self.api.list(JOBS):
            self.api.delete(f"{JOBS}/{each['metadata']['name']}")
        for each in self.api.list(PODS):
            self.api.delete(f"{PODS}/{each['metadata']['name']}", grace_seconds=0)
        self.wait("the pods to go", lambda: not self.api.list(PODS))
        self.api.request("DELETE", EVENTS)

    # -- what is there

    def kubectl(self, *argv):
        done = subprocess.run([places.BIN / "kubectl", f"--kubeconfig={self.plane.kubeconfig}", *argv], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def picture(self):
        shown = [f"$ kubectl {argv}\n{self.kubectl(*argv.split())}" for argv in ("get tj,pods -o wide", "get events --sort-by=.lastTimestamp")]
        shown += [f"$ kubectl logs {each['metadata']['name']}\n{self.kubectl('logs', each['metadata']['name'], '--tail=15')}" for each in self.api.list(PODS)]
        return "\n".join([*shown, self.operator.log(10)])

    def wait(self, what, condition, seconds=120.0):
        try:
            return wait_for(what, condition, seconds, every=0.2)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.picture()}") from error

    def status(self, name):
        return self.api.get(f"{JOBS}/{name}").get("status", {})

    def is_true(self, name, kind):
        status = self.status(name)
        assert any(each["type"] == kind and each["status"] == "True" for each in status.get("conditions", [])), status
        return True

    def kill(self, pod):
        """SIGKILL to the pod's main process, as the out-of-memory killer would."""
        identity = self.api.get(f"{PODS}/{pod}")["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        subprocess.run([places.BIN / "ctr", "--address", node.SOCKET, "-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", identity], check=True, capture_output=True)

    # -- what is done

    def apply(self, framework, file="job.yaml", epochs=None):
        """Creates the example's job in the one image, with the framework mounted; its name. Without `epochs` it trains until `hold` is let go: EPOCHS
        comes from a ConfigMap, which pods read when they are made."""
        job = json.loads(json.dumps(yaml.safe_load((EXAMPLES / framework / file).read_text())))  # roles may share one template
        job["spec"]["image"] = "docker.io/trainyard/mpi:0.1"
        own = self.environments[self._testMethodName.removeprefix("test_")]
        for role in ("chief", "ps", "worker"):
            if role not in job["spec"] or not (own or "template" in job["spec"][role]):
                continue
            job["spec"][role].setdefault("template", {"spec": {"containers": [{"name": "trainer"}]}})
            pod = job["spec"][role]["template"]["spec"]
            container = pod["containers"][0]
            env = {each["name"]: each["value"] for each in container.get("env", [])}
            env.update(own, PYTHONPATH=":".join([*filter(None, [own.get("PYTHONPATH")]), IN_IMAGE]))
            own_epochs = env.pop("EPOCHS", None)
            container["env"] = [{"name": key, "value": value} for key, value in env.items()]
            if own_epochs:
                held = {"valueFrom": {"configMapKeyRef": {"name": "hold", "key": "EPOCHS"}}}
                container["env"].append({"name": "EPOCHS", **({"value": str(epochs)} if epochs else held)})
                self.epochs = own_epochs
            mounts = {"framework": (places.CACHE, places.CACHE), "libraries": ("/usr/lib", "/node/usr/lib")} if own else {}
            pod["volumes"] = [{"name": key, "hostPath": {"path": str(path), "type": "Directory"}} for key, (path, _) in mounts.items()]
            container["volumeMounts"] = [{"name": key, "mountPath": str(inside), "readOnly": True} for key, (_, inside) in mounts.items()]
        return self.api.create(JOBS, job)["metadata"]["name"]

    def trains(self, name, reporter):
        """Waits until the reporter has answered with a step; status tells it up to some seconds later."""
        def stepped():
            address = self.api.get(f"{PODS}/{name}-{reporter}")["status"].get("podIP")
            with urllib.request.urlopen(f"http://{address}:5001/progress", timeout=0.5) as answer:
                return json.load(answer)["step"]

        self.wait(f"{name} to train", stepped)

    def ends_well(self, name, accuracy, restarts=None, seconds=150.0):
        self.wait(f"{name} to show its progress", lambda: self.status(name).get("progress", {}).get("examplesPerSecond"))
        self.wait(f"{name} to succeed", lambda: self.is_true(name, "Succeeded"), seconds)
        status = self.status(name)
        progress = status["progress"]
        self.assertGreaterEqual(progress["metrics"]["accuracy"], accuracy, progress)
        self.assertEqual(progress["step"], progress["totalSteps"])
        if restarts is not None:
            self.assertEqual(status.get("restarts", 0), restarts, self.picture())
        titles, values = self.kubectl("get", "tj", name).splitlines()[:2]
        print(f"\n{titles}\n{values}", flush=True)
        for title in ("STEP", "LOSS", "SPEED"):
            self.assertRegex(values[titles.index(title):].split()[0], r"^[0-9.e-]+$")

    def loses_a_worker(self, name, killed, accuracy=0.9):
        """A job that would not end loses a worker. The pods that come for all train as long as the example says."""
        self.wait(f"{name} to show its progress", lambda: self.status(name).get("progress", {}).get("loss"))
        self.api.merge(f"{CONFIG_MAPS}/hold", {"data": {"EPOCHS": self.epochs}})
        self.kill(f"{name}-{killed}")
        self.wait("the restart to be counted", lambda: self.status(name).get("restarts", 0) == 1)
        self.ends_well(name, accuracy, restarts=1)

    # -- the frameworks

    def test_mpi(self):
        self.loses_a_worker(self.apply("mpi"), "worker-1")

    def test_mpich(self):
        self.loses_a_worker(self.apply("mpich"), "worker-1")

    def test_pytorch(self):
        self.loses_a_worker(self.apply("pytorch"), "worker-1")

    def test_jax(self):
        self.loses_a_worker(self.apply("jax"), "worker-1")

    def test_mirrored(self):
        self.loses_a_worker(self.apply("tensorflow", "mirrored.yaml"), "worker-1")

    def test_xgboost(self):
        self.loses_a_worker(self.apply("xgboost"), "worker-1")

    def test_mxnet(self):
        self.loses_a_worker(self.apply("mxnet"), "worker-1")

    def test_servers(self):
        name = self.apply("tensorflow", "servers.yaml", epochs=40)  # of the chief, which goes on
        self.trains(name, "chief-0")
        self.kill(f"{name}-worker-1")
        self.wait("the restart to be counted", lambda: self.status(name).get("restarts", 0) == 1)
        self.ends_well(name, 0.9, restarts=1)

    def test_torchrun(self):
        """Two workers train, one of them is lost and comes back, a third is added. No pod is made anew, and what was learned is not lost."""
        name = self.apply("pytorch", "elastic.yaml", epochs=80)
        self.trains(name, "worker-0")
        pods = {each["metadata"]["uid"] for each in self.api.list(PODS)}
        self.wait("a snapshot", lambda: self.kubectl("exec", f"{name}-worker-0", "--", "ls", "/var/lib/trainyard").split() == ["state.pt"])
        self.kill(f"{name}-worker-1")
        self.wait("the restart to be counted", lambda: self.status(name).get("restarts", 0) >= 1)
        self.kubectl("scale", f"tj/{name}", "--replicas=3")
        self.wait("a third worker", lambda: self.status(name)["replicaStatuses"]["worker"]["desired"] == 3 and len(self.api.list(PODS)) == 3)
        self.ends_well(name, 0.9, seconds=400.0)  # torchrun may give up once more, after a minute, before all have met
        self.assertLess(pods, {each["metadata"]["uid"] for each in self.api.list(PODS)})


def main(cases, options):
    unknown = set(cases) - set(CASES)
    if unknown:
        sys.exit(f"frameworks_test: unknown cases {', '.join(sorted(unknown))} (known: {', '.join(CASES)}, all)")
    if not sandbox.inside() and not lacks():
        prepare(cases)
        status = sandbox.run_inside([sys.executable, __file__, *sys.argv[1:]])
        shutil.rmtree(STATE / "node", ignore_errors=True)  # logs stay
        sys.exit(status)
    unittest.main(argv=[sys.argv[0], *options, *[f"FrameworksTest.test_{case}" for case in cases]])


if __name__ == "__main__":
    named = [each for each in sys.argv[1:] if not each.startswith("-")] or list(FREQUENT)
    main(list(CASES) if named == ["all"] else named, [each for each in sys.argv[1:] if each.startswith("-")])
