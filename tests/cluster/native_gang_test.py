"""Jobs of gang: Native under the scheduler of Kubernetes itself, whose gang scheduling is behind a feature gate."""

import unittest

from harness import places
from harness.control_plane import Options
from harness.jobs import JOBS, PODS, job
from harness.wait import wait_for
from queue_cases import NODES, ONE_CPU, QueueCase, WholeJobs

# The gates of 1.36, or of newer ones, and the version of scheduling.k8s.io that has PodGroups.
ALPHA = places.versions()["KUBERNETES_VERSION"].startswith("1.36.")
GATES, VERSION = ("GenericWorkload=true,GangScheduling=true", "v1alpha2") if ALPHA else ("GenericWorkload=true", "v1beta1")


class NativeGangTest(WholeJobs, QueueCase):
    options = Options(scheduler=True, feature_gates=GATES, runtime_config=f"scheduling.k8s.io/{VERSION}=true", **NODES)
    flags = {**QueueCase.flags, "native_pod_groups": VERSION}

    def mark(self, maker):
        return maker.policy(scheduling={"gang": "Native"})

    def nodes(self, name):
        return [pod["spec"].get("nodeName") for pod in self.api.list(PODS, f"trainyard.dev/job-name={name}")]

    @unittest.skipIf(ALPHA, "the number of a PodGroup of Kubernetes 1.36 cannot change")
    def test_a_pod_group_follows_the_scale(self):
        self.start_and_queue()
        self.kubectl("scale", "tj/b", "--replicas=1")
        self.wait_condition("b", "Running")

    @unittest.skipUnless(ALPHA, "the number of a PodGroup of Kubernetes 1.37 follows the scale")
    def test_a_job_scaled_below_its_pod_group_says_so_and_starts_after_suspend_and_resume(self):
        self.start_and_queue()
        self.kubectl("scale", "tj/b", "--replicas=1")
        self.wait_message("b", "its PodGroup asks for 4 pods, a number that cannot change, and the job was scaled to 2; set runPolicy.suspend")
        self.wait_condition("b", "Stalled", reason="Unschedulable")
        self.api.merge(f"{JOBS}/b", {"spec": {"runPolicy": {"suspend": True}}})
        wait_for("the pods of b to be gone", lambda: not self.api.list(PODS, "trainyard.dev/job-name=b"))
        self.wait_condition("b", "Suspended")
        self.api.merge(f"{JOBS}/b", {"spec": {"runPolicy": {"suspend": False}}})
        self.wait_condition("b", "Running")

    def test_exclusive_jobs_have_a_zone_each_in_which_their_replicas_are_together(self):
        for number in range(2):
            self.api.merge(f"/api/v1/nodes/fake-{number}", {"metadata": {"labels": {"zone": f"zone-{number}"}}})
        for name in ("a", "b", "c"):
            maker = job(name).framework("None").without("training").set("image", "x").ps(1, resources=ONE_CPU).worker(1, resources=ONE_CPU)
            self.create(maker.policy(scheduling={"topologyKey": "zone", "placement": "Exclusive"}))
            if name != "c":
                self.wait_condition(name, "Running")
        a, b = self.nodes("a"), self.nodes("b")
        self.assertEqual((len(a), len(set(a)), len(b), len(set(b))), (2, 1, 2, 1), (a, b))
        self.assertNotEqual(set(a), set(b))

        def refused():
            conditions = self.api.get(f"{PODS}/c-ps-0")["status"].get("conditions", [])
            return any(each["type"] == "PodScheduled" and "anti-affinity" in each.get("message", "") for each in conditions)

        wait_for("c to find no zone of its own", refused)


if __name__ == "__main__":
    unittest.main(verbosity=2)
