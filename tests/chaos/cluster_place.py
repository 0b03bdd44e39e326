"""The real cluster that cluster_chaos.py disturbs: control plane, node, two operators by Helm."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

from harness import images, needs, node, places, sandbox  # noqa: E402
from harness.control_plane import ControlPlane, Options  # noqa: E402
from harness.jobs import CONFIG_MAPS, EVENTS, JOBS, PODS, SERVICES  # noqa: E402, F401
from harness.kube import Api, ApiError  # noqa: E402
from harness.wait import TimedOut, wait_for  # noqa: E402, F401

OPERATOR_NAMESPACE = "trainyard-system"
OPERATORS = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{OPERATOR_NAMESPACE}/leases/trainyard-operator"
STATE = places.state_folder("chaos")
ARCHIVES = STATE.with_name("chaos.images")
VOLUMES = ("/api/v1/persistentvolumes", "/api/v1/namespaces/default/persistentvolumeclaims")


def program(name):
    return pathlib.Path(os.environ.get(f"TRAINYARD_{name.upper()}", places.REPOSITORY / f"build/release/{name}/trainyard-{name}"))


def lacks():
    return needs.missing("node") + [f"the program {program(name)} (build the target trainyard-{name})" for name in ("operator", "trainer")
                                    if not program(name).exists()]


def build_images():
    archives = {"pause": images.pause(), "operator": images.operator(program("operator")), "trainer": images.trainer(program("trainer"))}
    ARCHIVES.parent.mkdir(parents=True, exist_ok=True)
    ARCHIVES.write_text(json.dumps({name: str(path) for name, path in archives.items()}))


def claim_and_volume(name, folder):
    """(path, object) of a volume that is a folder of the node, and of its claim."""
    size = {"storage": "1Gi"}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "capacity": size, "accessModes": ["ReadWriteMany"], "storageClassName": "", "local": {"path": str(folder)},
        "claimRef": {"namespace": "default", "name": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node.NAME]}]}]}}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": name, "resources": {"requests": size}}}
    return list(zip(VOLUMES, (volume, claim)))


class Cluster:
    """Belongs to one thread, inside the sandbox."""

    def __init__(self):
        archives = json.loads(ARCHIVES.read_text())
        self.plane = ControlPlane(STATE, Options(address=sandbox.NODE_ADDRESS, port=6443, scheduler=True)).start()
        node.Node(self.plane, archives["pause"]).start()
        for name in ("operator", "trainer"):
            node.import_image(archives[name])
        self.full_disks = []  # of all jobs
        self.api = Api(self.plane.kubeconfig, timeout=5.0)
        self._tool("helm4", "install", "trainyard", places.REPOSITORY / "charts/trainyard-operator", "--namespace", OPERATOR_NAMESPACE, "--create-namespace",
                   "--set", "replicas=2", "--wait", "--timeout", "120s")

    def _tool(self, name, *argv):
        done = subprocess.run([str(places.BIN / name), *map(str, argv)], capture_output=True, text=True, check=False, timeout=180,
                              env={**os.environ, "KUBECONFIG": str(self.plane.kubeconfig), "HOME": str(STATE)})
        if done.returncode != 0:
            raise RuntimeError(f"{name} {' '.join(map(str, argv))}: {done.stderr.strip()}")
        return done.stdout

    def stop(self):
        self.api.close()
        self.plane.stop()

    def attempt(self, function, *argv):
        """What the request answers; None while the API server is away or refuses it."""
        try:
            return function(*argv)
        except (ApiError, OSError):
            return None

    def patiently(self, what, function, *argv):
        """The same, until the API server answers; an answer of 409 or 5xx is no answer."""
        def answered():
            try:
                return (function(*argv),)
            except ApiError as error:
                if error.code in (409, 429) or error.code >= 500:
                    raise
                raise RuntimeError(str(error)) from error

        return wait_for(what, answered, 90.0, every=0.3)[0]

    def operators(self):
        """pod name → (pid, pod) of the operators that run."""
        found = {}
        for pod in self.attempt(self.api.list, OPERATORS) or []:
            pid = process_of(pod["metadata"]["name"])
            if pid:
                found[pod["metadata"]["name"]] = (pid, pod)
        return found

    def leader(self):
        """The name of the pod that holds the lease, or None."""
        lease = self.attempt(self.api.get, LEASE)
        return (lease["spec"].get("holderIdentity") or "").rpartition("_")[0] or None if lease else None

    def picture(self, name):
        """What a person would look at first, for the message of a failure."""
        shown = []
        for argv in (["get", f"tj/{name}", "-o", "yaml"], ["get", "pods,services,configmaps", "-o", "wide"], ["get", "events", "--sort-by=.lastTimestamp"],
                     ["logs", "-n", OPERATOR_NAMESPACE, "-l", "app.kubernetes.io/name=trainyard-operator", "--tail=-1", "--prefix"]):
            done = subprocess.run([places.BIN / "kubectl", f"--kubeconfig={self.plane.kubeconfig}", *argv], capture_output=True, text=True, check=False)
            lines = (done.stdout + done.stderr).splitlines()
            shown.append(f"$ kubectl {' '.join(argv)}\n" + "\n".join(line for line in lines if argv[0] != "get" or argv[1] == f"tj/{name}" or name in line))
        for log in sorted((pathlib.Path("/var/log/pods")).glob(f"default_{name}-*/*/*.log")):
            shown.append(f"== {log}\n{log.read_text(errors='replace')[-4000:]}")
        return "\n".join(shown)


def process_of(pod):
    """The process of the pod's main container as the sandbox sees it, or None."""
    wanted = f"HOSTNAME={pod}".encode()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            inside = [line for line in (entry / "status").read_text().splitlines() if line.startswith("NSpid:")]
        except OSError:
            continue
        if inside and inside[0].split()[-1] == "1" and len(inside[0].split()) > 2 and b"runc" not in (entry / "cmdline").read_bytes():
            return int(entry.name)
    return None


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def later(seconds, function, *arguments):
    """Calls it so much later, whatever the script waits for meanwhile."""
    timer = threading.Timer(seconds, function, arguments)
    timer.daemon = True
    timer.start()


def stop_for(pid, seconds):
    """SIGSTOP, and SIGCONT so much later. False where there is no such process."""
    if not send(pid, signal.SIGSTOP):
        return False
    later(seconds, send, pid, signal.SIGCONT)
    return True


def cut_for(pid, seconds):
    """The network of the process's pod loses everything that comes or goes for so long. False where it cannot be done."""
    try:
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)  # of the pod: it outlives the process
    except OSError:
        return False

    def tables(action):
        done = [subprocess.run(["nsenter", f"--net=/proc/self/fd/{namespace}", "iptables", action, chain, "!", way, "lo", "-j", "DROP"],
                               pass_fds=[namespace], capture_output=True, check=False).returncode == 0
                for chain, way in (("INPUT", "-i"), ("OUTPUT", "-o"))]
        return all(done)

    def join():
        tables("-D")
        os.close(namespace)

    if not tables("-A"):
        join()
        return False
    later(seconds, join)
    return True


def leave_signals_to_finally():
    """SIGTERM ends the script as an error does, so that what it started is stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
