"""What Argo CD, Flux and Helm 4 tell of a TrainingJob of a real operator: docs/gitops.md."""

import re
import subprocess
import unittest

import yaml

from harness import argo_cd, places
from harness.jobs import CONFIG_MAPS, JOBS, job
from harness.kube import ApiError
from harness.suite import skip_or_fail
from harness.wait import wait_for
from operator_case import OperatorCase

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
PROBE = "expression"
HELM = places.BIN / "helm4"


def flux_expressions():
    """{failed, current} of the page's example."""
    page = (places.REPOSITORY / "docs/gitops.md").read_text(encoding="utf-8")
    checks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.S) if "healthCheckExprs" in block]
    check = checks[0]["spec"]["healthCheckExprs"][0]
    assert (check["apiVersion"], check["kind"]) == ("trainyard.dev/v1alpha1", "TrainingJob"), check
    return {name: text for name, text in check.items() if name in ("failed", "current", "inProgress")}


def policy(name, expression):
    """Refuses an update of a job with the annotation expression=NAME unless the expression of Flux is true; Flux calls object.status `status`."""
    rule = {"apiGroups": ["trainyard.dev"], "apiVersions": ["v1alpha1"], "operations": ["UPDATE"], "resources": ["trainingjobs"]}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {"matchConstraints": {"resourceRules": [rule]}, "failurePolicy": "Fail",
                     "matchConditions": [{"name": "probe", "expression": f"object.metadata.?annotations['{PROBE}'].orValue('') == '{name}'"}],
                     "validations": [{"expression": re.sub(r"\bstatus\b", "object.status", expression)}]}}


def binding(name):
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]}}


class GitOpsTest(OperatorCase):
    @classmethod
    def setUpClass(cls):
        if argo_cd.LUA is None:
            skip_or_fail(["lua5.1; run scripts/setup.sh"])
        super().setUpClass()
        cls.expressions = {"never": "status.phase == 'Never'", **flux_expressions()}
        for name, expression in cls.expressions.items():
            cls.api.create(POLICIES, policy(name, expression))
            cls.api.create(BINDINGS, binding(name))

    # -- Argo CD

    def health(self, name):
        return argo_cd.health(self.api.get(f"{JOBS}/{name}"))

    def wait_health(self, name, status, *words):
        def same():
            found = self.health(name)
            assert found["status"] == status and all(word in found["message"] for word in words), found
            return found

        return wait_for(f"{name} to be {status} for Argo CD", same, 60.0)

    def act(self, action, name):
        """As Argo CD does: the script's object, written back as a merge patch of what differs."""
        found = self.api.get(f"{JOBS}/{name}")
        self.assertIn(action, argo_cd.allowed(found))
        self.api.merge(f"{JOBS}/{name}", {"spec": {"runPolicy": argo_cd.act(action, found)["spec"]["runPolicy"]}})

    # -- Flux

    def holds(self, expression, name):
        try:
            self.api.request("PATCH", f"{JOBS}/{name}?dryRun=All", {"metadata": {"annotations": {PROBE: expression}}},
                             content_type="application/merge-patch+json")
            return True
        except ApiError as error:
            self.assertIn(f"ValidatingAdmissionPolicy '{expression}'", error.message)
            return False

    def flux(self, name):
        """Flux asks inProgress, failed and current in this order, and takes the first that is true."""
        wait_for("the expressions to be asked", lambda: not self.holds("never", name))
        return next((each for each in ("failed", "current") if self.holds(each, name)), "inProgress")

    # -- a job's life

    def test_a_job_that_trains_is_suspended_and_succeeds(self):
        self.operator.stop()
        self.create(job("a").worker(1))
        self.assertEqual(self.health("a"), {"status": "Progressing", "message": "the operator has not seen the job yet"})
        self.assertEqual(self.flux("a"), "inProgress")
        self.operator.start()
        self.wait_pods("a-worker-0")
        self.wait_health("a", "Progressing", "worker-0")
        self.kubelet.run("a-worker-0")
        self.wait_condition("a", "Running")
        self.assertEqual(self.health("a")["status"], "Progressing")
        self.assertEqual(argo_cd.allowed(self.api.get(f"{JOBS}/a")), ["suspend"])
        self.act("suspend", "a")
        self.wait_health("a", "Suspended")
        self.assertEqual(self.flux("a"), "inProgress")
        self.assertEqual(argo_cd.allowed(self.api.get(f"{JOBS}/a")), ["resume"])
        self.act("resume", "a")
        self.wait_pods("a-worker-0")
        self.wait_health("a", "Progressing")
        self.kubelet.run("a-worker-0")
        self.wait_condition("a", "Running")
        self.kubelet.succeed("a-worker-0")
        self.wait_health("a", "Healthy")
        self.assertEqual(self.flux("a"), "current")
        self.assertEqual(argo_cd.allowed(self.api.get(f"{JOBS}/a")), [])

    def test_a_job_that_failed_is_degraded_and_says_why(self):
        self.running(job("a").worker(1, restartPolicy="Never"), "a-worker-0")
        self.kubelet.fail("a-worker-0", code=3)
        self.wait_health("a", "Degraded", "worker-0", "3")
        self.assertEqual(self.flux("a"), "failed")
        self.assertEqual(argo_cd.allowed(self.api.get(f"{JOBS}/a")), [])

    def test_a_job_that_something_holds_is_degraded_until_it_goes_on(self):
        self.api.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-cluster"}})
        self.create(job("a").worker(1))
        self.wait_health("a", "Degraded", "a-cluster")
        self.assertEqual(self.flux("a"), "inProgress")
        self.api.delete(f"{CONFIG_MAPS}/a-cluster")
        self.wait_health("a", "Progressing")

    def test_a_spec_that_is_not_valid_is_degraded(self):
        broken = {"spec": {"containers": [{"name": "trainer", "image": "x", "env": {"LR": "0.1"}}]}}
        self.create(job("a").worker(1, template=broken))
        self.wait_health("a", "Degraded", "spec.worker.template")
        self.assertEqual(self.flux("a"), "failed")

    # -- cases that would need a node's time: the job as the page of conditions has it

    def made_up(self, phase="Running", generation=1, spec=None, **conditions):
        listed = [{"type": kind, "status": "True" if holds else "False", "reason": reason, "message": f"about {reason}"}
                  for kind, (holds, reason) in conditions.items()]
        return {"metadata": {"name": "a", "generation": generation}, "spec": spec or {},
                "status": {"phase": phase, "observedGeneration": 1, "message": "as it is", "conditions": listed}}

    def test_only_a_stall_that_is_no_wait_for_room_is_degraded(self):
        page = (places.REPOSITORY / "docs/operator.md").read_text(encoding="utf-8")
        rows = page[page.index("| `Stalled` |"):page.index("| `Succeeded` | `JobSucceeded`")].splitlines()
        reasons = {reason for row in rows for reason in re.findall(r"`([A-Z]\w+)`", row.split(" | ")[1])} - {"Stalled", "Resolved"}
        self.assertLessEqual({"NameTaken", "Unschedulable", "ErrImagePull", "NoProgress"}, reasons)
        for reason in sorted(reasons):
            waits = reason in ("Unschedulable", "NodeNotReady", "Terminating", "ContainerCreating")
            with self.subTest(reason):
                found = argo_cd.health(self.made_up(Stalled=(True, reason)))
                self.assertEqual(found, {"status": "Progressing", "message": "as it is"} if waits else {"status": "Degraded", "message": f"about {reason}"})
        self.assertEqual(argo_cd.health(self.made_up(Stalled=(False, "Resolved")))["status"], "Progressing")

    def test_an_edit_counts_when_the_operator_has_seen_it(self):
        self.assertEqual(argo_cd.health(self.made_up("Suspended"))["status"], "Suspended")
        self.assertEqual(argo_cd.health(self.made_up("Suspended", generation=2))["status"], "Progressing")
        self.assertEqual(argo_cd.health(self.made_up(Invalid=(True, "EditRefused"))), {"status": "Degraded", "message": "about EditRefused"})
        for phase, status in (("Succeeded", "Healthy"), ("Failed", "Degraded")):
            self.assertEqual(argo_cd.health(self.made_up(phase, generation=2))["status"], status)

    def test_a_job_that_is_to_be_served_is_healthy_when_it_answers(self):
        expected = {(True, "VersionAnswers"): "Healthy", (False, "NoReplicas"): "Healthy", (False, "NotReady"): "Progressing",
                    (False, "NameTaken"): "Degraded", (False, "CannotCreate"): "Degraded"}
        for condition, status in expected.items():
            self.assertEqual(argo_cd.health(self.made_up("Succeeded", spec={"serve": {}}, Serving=condition))["status"], status, condition)
        self.assertEqual(argo_cd.health(self.made_up("Succeeded", spec={"serve": {}}))["status"], "Progressing")
        self.assertEqual(argo_cd.health(self.made_up("Succeeded", Serving=(False, "Removed")))["status"], "Healthy")

    # -- Helm

    def test_helm_waits_for_the_job_object_alone(self):
        if not HELM.exists():
            skip_or_fail([f"{HELM}; run scripts/cluster/build.sh helm4"])
        installed = subprocess.run([HELM, f"--kubeconfig={self.plane.kubeconfig}", "install", "a", places.REPOSITORY / "charts/trainingjob", "--wait",
                                    "--timeout=60s"], capture_output=True, text=True, check=False, timeout=90)
        self.assertEqual(installed.returncode, 0, installed.stderr)
        self.assertNotIn(self.status("a").get("phase"), ("Running", "Succeeded"))


if __name__ == "__main__":
    unittest.main()
