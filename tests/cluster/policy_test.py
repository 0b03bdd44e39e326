"""The chart's example ValidatingAdmissionPolicy against a real kube-apiserver: which TrainingJobs it refuses, and with which words."""

import json
import subprocess
import unittest

from harness import places
from harness.jobs import JOBS, install_crd, job
from harness.kube import ApiError
from harness.suite import ControlPlaneCase, skip_or_fail
from harness.wait import wait_for

HELM = places.BIN / "helm4"


def with_pod(spec, name="a"):
    return job(name).worker(1, template={"spec": {"containers": [{"name": "trainer", "image": "x"}], **spec}}).spec()


class PolicyTest(ControlPlaneCase):
    @classmethod
    def setUpClass(cls):
        if not HELM.exists():
            skip_or_fail([f"{HELM}; run scripts/cluster/build.sh helm4"])
        super().setUpClass()
        install_crd(cls.api)
        rendered = subprocess.run([HELM, "template", "trainyard", places.REPOSITORY / "charts/trainyard-operator", "--show-only",
                                   "templates/admissionpolicy.yaml", "--set", "admissionPolicy.enabled=true", "--set",
                                   "admissionPolicy.serviceAccounts={default,trainer}"], capture_output=True, text=True, check=True)
        applied = subprocess.run([places.BIN / "kubectl", f"--kubeconfig={cls.plane.kubeconfig}", "apply", "-f", "-"], input=rendered.stdout,
                                 capture_output=True, text=True, check=False)
        if applied.returncode != 0:
            raise AssertionError(f"the rendered policy cannot be applied: {applied.stderr}")

        def enforced():
            try:
                cls.api.request("POST", f"{JOBS}?dryRun=All", with_pod({"hostNetwork": True}))
            except ApiError:
                return True
            return False

        wait_for("the policy to be enforced", enforced)

    def refused(self, body, *words):
        with self.assertRaises(ApiError, msg=json.dumps(body["spec"])) as caught:
            self.api.request("POST", f"{JOBS}?dryRun=All", body)
        self.assertIn(caught.exception.code, (403, 422))
        for word in words:
            self.assertIn(word, caught.exception.message)

    def test_ordinary_jobs_are_accepted(self):
        for body in (job("a").ps(1).worker(2).spec(), with_pod({}), with_pod({"serviceAccountName": "trainer", "hostNetwork": False}),
                     with_pod({"volumes": [{"name": "d", "emptyDir": {}}], "initContainers": [{"name": "i", "image": "x"}]}),
                     job("a").worker(1, template={"metadata": {"labels": {"a": "b"}}}).spec()):
            with self.subTest(json.dumps(body["spec"])):
                self.api.request("POST", f"{JOBS}?dryRun=All", body)

    def test_templates_that_reach_for_the_node_are_refused(self):
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            with self.subTest(field):
                self.refused(with_pod({field: True}), "must not set hostNetwork, hostPID or hostIPC")
        self.refused(with_pod({"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}), "hostPath", "PersistentVolumeClaim")

    def test_privileges_of_any_container_are_refused(self):
        for context in ({"privileged": True}, {"allowPrivilegeEscalation": True}, {"capabilities": {"add": ["SYS_ADMIN"]}}):
            for spec in ({"containers": [{"name": "t", "securityContext": context}]}, {"initContainers": [{"name": "i", "securityContext": context}]}):
                with self.subTest(json.dumps(spec)):
                    self.refused(with_pod(spec), "securityContext must not set")

    def test_only_the_listed_service_accounts_may_be_named(self):
        self.refused(with_pod({"serviceAccountName": "admin"}), "only these service accounts: default, trainer")
        self.refused(with_pod({"serviceAccount": "admin"}), "only these service accounts")

    def test_every_role_is_looked_at_also_in_an_edit(self):
        for role in ("ps", "chief", "evaluator"):
            maker = job("a").ps(1).worker(1).set(role, {"replicas": 1, "template": {"spec": {"hostPID": True}}})
            with self.subTest(role):
                self.refused(maker.spec(), "hostPID")
        self.api.create(JOBS, with_pod({}, "edited"))
        with self.assertRaises(ApiError) as caught:
            self.api.merge(f"{JOBS}/edited", {"spec": {"worker": {"template": {"spec": {"hostNetwork": True}}}}})
        self.assertIn("hostNetwork", caught.exception.message)

    def test_a_template_that_is_no_object_is_refused_as_well(self):
        self.refused(job("a").worker(1, template={"spec": [1]}).spec(), "trainyard-operator-templates")


if __name__ == "__main__":
    unittest.main()
