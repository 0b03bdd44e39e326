"""deploy/operator.yaml against a real API server: it applies as it is, and its service account may do what the operator does and no more."""

import unittest

from harness import places
from harness.suite import ControlPlaneCase

ACCOUNT = "system:serviceaccount:trainyard-system:trainyard-operator"


class DeployTest(ControlPlaneCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.apply()

    @classmethod
    def apply(cls):
        return cls.kubectl("apply", "--server-side", "-f", str(places.REPOSITORY / "deploy/operator.yaml"))

    def may(self, verb, resource, *more):
        """Whether the operator's service account may do this, by the server's own judgement."""
        group, _, plural = resource.rpartition("/")
        name, _, subresource = plural.partition("#")
        attributes = {"verb": verb, "group": group, "resource": name, "subresource": subresource, "namespace": more[0] if more else "team"}
        review = self.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": ACCOUNT, "groups": ["system:serviceaccounts", "system:authenticated"], "resourceAttributes": attributes}})
        return review["status"]["allowed"]

    def test_it_can_be_applied_again(self):
        self.assertIn("serverside-applied", self.apply())

    def test_the_operator_may_do_its_work(self):
        for verb, resource in [
            ("list", "trainyard.dev/trainingjobs"), ("watch", "trainyard.dev/trainingjobs"), ("delete", "trainyard.dev/trainingjobs"),
            ("update", "trainyard.dev/trainingjobs#status"), ("create", "pods"), ("delete", "pods"), ("patch", "pods"), ("create", "services"),
            ("update", "configmaps"), ("create", "events.k8s.io/events"), ("patch", "events.k8s.io/events"), ("watch", "nodes"),
            ("list", "apps/deployments"), ("create", "apps/deployments"), ("patch", "apps/deployments"), ("delete", "apps/deployments"),
        ]:
            with self.subTest(f"{verb} {resource}"):
                self.assertTrue(self.may(verb, resource))
        self.assertTrue(self.may("create", "coordination.k8s.io/leases", "trainyard-system"))

    def test_the_operator_may_do_no_more(self):
        for verb, resource in [
            ("update", "trainyard.dev/trainingjobs"), ("create", "trainyard.dev/trainingjobs"), ("get", "secrets"), ("list", "secrets"), ("create", "secrets"),
            ("create", "pods#exec"), ("update", "pods"), ("get", "pods#log"), ("update", "nodes"), ("update", "apps/deployments"), ("create", "apps/daemonsets"), ("create", "serviceaccounts#token"),
            ("create", "rbac.authorization.k8s.io/clusterroles"), ("deletecollection", "pods"), ("create", "coordination.k8s.io/leases"),
        ]:
            with self.subTest(f"{verb} {resource}"):
                self.assertFalse(self.may(verb, resource))


if __name__ == "__main__":
    unittest.main()
