"""A chart of another version over an old one, against a real API server: the command that the old chart prints brings the new CRD."""

import pathlib
import shutil
import subprocess
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
        program = places.BIN / helm
        if not program.exists():
            skip_or_fail([f"{program}; run scripts/cluster/build.sh {helm}"])
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        chart = folder / "trainyard-operator"
        shutil.copytree(places.REPOSITORY / CHART, chart)
        crd = chart / "crds/trainingjob.yaml"
        crd.write_text(crd.read_text().replace(NEW, OLD))
        installed = subprocess.run([program, "install", "trainyard", chart, f"--kubeconfig={self.plane.kubeconfig}"], capture_output=True, text=True, check=False)
        self.assertEqual(installed.returncode, 0, installed.stderr)
        self.addCleanup(self.remove_crd)
        self.addCleanup(subprocess.run, [program, "uninstall", "trainyard", f"--kubeconfig={self.plane.kubeconfig}"], capture_output=True, check=True)
        self.assertTrue(self.description().startswith(OLD), self.description())
        program, *words = next(line.split() for line in installed.stdout.splitlines() if line.startswith("  kubectl apply"))
        self.assertEqual((program, words[-1]), ("kubectl", CHART + "/crds/"))
        self.kubectl(*words[:-1], str(places.REPOSITORY / words[-1]))
        self.assertTrue(self.description().startswith(NEW), self.description())

    def test_by_helm_4(self):
        self.upgrade("helm4")

    def test_by_helm_3(self):
        self.upgrade("helm3")


if __name__ == "__main__":
    unittest.main()
