"""The class of tests that run the operator against a real API server."""

import os
import subprocess

from harness import operator as operators
from harness import places
from harness.events import wait_events
from harness.jobs import CONFIG_MAPS, EVENTS, JOBS, PODS, SERVICES, install_crd
from harness.kubelet import Kubelet
from harness.operator import Operator
from harness.suite import ControlPlaneCase, skip_or_fail
from harness.wait import wait_for


class OperatorCase(ControlPlaneCase):
    """One control plane for the class; one operator and no objects for each test."""

    flags = {}

    @classmethod
    def setUpClass(cls):
        if not operators.binary().exists():
            skip_or_fail([f"the operator's program {operators.binary()}; build the target trainyard-operator"])
        super().setUpClass()
        install_crd(cls.api)

    def setUp(self):
        self.kubelet = Kubelet(self.api)
        self.operator = Operator(self.plane, **self.flags).start()
        self.addCleanup(self.clean)
        self.addCleanup(self.operator.stop)

    def run(self, result=None):
        before = len(result.failures) + len(result.errors) if result else 0
        super().run(result)
        if result and len(result.failures) + len(result.errors) > before and hasattr(self, "operator"):
            print(f"--- {self.id()}: the operator's log ends:\n{self.operator.log()}\n---")

    def clean(self):
        for name in [each["metadata"]["name"] for each in self.api.list(JOBS)]:
            self.api.merge(f"{JOBS}/{name}", {"metadata": {"finalizers": None}})
        for path in (JOBS, PODS, CONFIG_MAPS, EVENTS):
            self.api.request("DELETE", path)
        for each in self.api.list(SERVICES):
            if each["metadata"]["name"] != "kubernetes":
                self.api.delete(f"{SERVICES}/{each['metadata']['name']}")
        wait_for("the namespace to be empty", lambda: not self.api.list(PODS) and not self.api.list(JOBS))

    # -- what is there

    def create(self, maker):
        return self.api.create(JOBS, maker.spec())

    def status(self, name):
        return self.api.get(f"{JOBS}/{name}").get("status", {})

    def condition(self, name, kind):
        found = [each for each in self.status(name).get("conditions", []) if each["type"] == kind]
        return found[0] if found else {"status": "Absent", "reason": "", "message": ""}

    def pods(self):
        return sorted(each["metadata"]["name"] for each in self.api.list(PODS) if "deletionTimestamp" not in each["metadata"])

    def services(self):
        return sorted(each["metadata"]["name"] for each in self.api.list(SERVICES) if each["metadata"]["name"] != "kubernetes")

    def hosts(self, name):
        return self.api.get(f"{CONFIG_MAPS}/{name}-cluster")["data"]

    def uid(self, pod):
        return self.api.get(f"{PODS}/{pod}")["metadata"]["uid"]

    def plugin(self, *argv, fails=False):
        """What `kubectl trainyard …` prints, or says on failure."""
        environment = {**os.environ, "PATH": f"{places.REPOSITORY / 'plugin'}:{places.BIN}:{os.environ['PATH']}", "KUBECONFIG": str(self.plane.kubeconfig), "COLUMNS": "100"}
        done = subprocess.run([places.BIN / "kubectl", "trainyard", *argv], capture_output=True, text=True, check=False, timeout=60, env=environment)
        self.assertEqual(done.returncode != 0, fails, done.stdout + done.stderr)
        return done.stderr if fails else done.stdout

    # -- waiting

    def wait_pods(self, *names, seconds=60.0):
        def same():
            found = self.pods()
            assert found == sorted(names), f"pods {found}"
            return True

        wait_for(f"exactly the pods {sorted(names)}", same, seconds)

    def wait_condition(self, name, kind, value="True", reason=None, seconds=60.0):
        def holds():
            found = self.condition(name, kind)
            assert found["status"] == value and reason in (None, found["reason"]), self.status(name)
            return found

        return wait_for(f"condition {kind} of {name} to be {value} {reason or ''}", holds, seconds)

    def wait_event(self, reason, seconds=60.0):
        return wait_events(self.api, reason, seconds=seconds)[0]

    def running(self, maker, *pods):
        """Creates the job and lets all its pods run."""
        created = self.create(maker)
        name = created["metadata"]["name"]
        servers = [pod for pod in pods if "-ps-" in pod]
        if servers:
            wait_for("the servers' pods", lambda: set(servers) <= set(self.pods()))
            self.kubelet.run(*servers)
        self.wait_pods(*pods)
        self.kubelet.run(*[pod for pod in pods if pod not in servers])
        self.wait_condition(name, "Running")
        return created
