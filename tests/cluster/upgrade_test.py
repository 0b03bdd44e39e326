"""A chart of another version over an old one, against a real API server: the command that the old chart prints brings the new CRD."""

import pathlib
import shutil
import tempfile
import unittest

from harness import places
from harness.suite import ControlPlaneCase, skip_or_fail
from harness.wait import wait_for

CHART = "charts/trainyard-operator"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/trainingjobs.trainyard.dev"
OLD, NEW = "Trains a neural network on one machine", "Trains a neural network on several machines"


class UpgradeTest(ControlPlaneCase):
    def description(self):
        return self.api.get(CRD)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"]

    def remove_crd(self):
        self.api.delete(CRD)
        wait_for("the CRD to be gone", lambda: self.api.find(CRD) is None)

    def upgrade(self, helm):
        if not (places.BIN / helm).exists():
            skip_or_fail([f"{helm}; run scripts/cluster/build.sh {helm}"])
        old, new = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "trainyard-operator", places.REPOSITORY / CHART
        shutil.copytree(new, old)
        crd = old / "crds/trainingjob.yaml"
        crd.write_text(crd.read_text().replace(NEW, OLD))
        self.addCleanup(self.remove_crd)
        printed = self.tool(helm, "install", "trainyard", old, "--set", "operator.workers=3")
        self.addCleanup(self.tool, helm, "uninstall", "trainyard")
        self.assertTrue(self.description().startswith(OLD), self.description())
        program, *words = next(line.split() for line in printed.splitlines() if line.startswith("  kubectl apply"))
        self.assertEqual((program, words[-1]), ("kubectl", CHART + "/crds/"))
        self.kubectl(*words[:-1], str(places.REPOSITORY / words[-1]))
        self.assertTrue(self.description().startswith(NEW), self.description())
        self.tool(helm, "upgrade", "trainyard", new, "--reset-then-reuse-values")
        self.assertIn("--workers=3", str(self.api.get("/apis/apps/v1/namespaces/default/deployments/trainyard-operator")))
        self.tool(helm, "uninstall", "trainyard")
        self.tool(helm, "install", "trainyard", new)  # over the CRD that the upgrade has brought

    def test_by_helm_4(self):
        self.upgrade("helm4")

    def test_by_helm_3(self):
        self.upgrade("helm3")


if __name__ == "__main__":
    unittest.main()
