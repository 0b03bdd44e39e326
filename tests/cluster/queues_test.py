"""Jobs under the real programs of Kueue, Volcano and the coscheduling plugin. By hand: scripts/test.sh queues."""

import json
import unittest

from harness import places
from harness.control_plane import Options
from harness.jobs import JOBS, PODS
from harness.kueue import WORKLOADS, Kueue
from harness.wait import wait_for
from queue_cases import NODES, QueueCase, WholeJobs
from together_cases import Together

SHARE = places.CLUSTER / "share"


def apply(case, *paths):
    case.kubectl("apply", "--server-side", *[f"--filename={path}" for path in paths])


class PodGroups(WholeJobs):
    """Tests of a gang scheduler whose PodGroups follow the scale."""

    group = ""  # the API path of PodGroups

    def setUp(self):
        super().setUp()
        # The garbage collector looks for new kinds of objects, as PodGroups are to it here, every 30 s.
        wait_for("the PodGroups of earlier jobs to go", lambda: not self.api.get(self.group)["items"], seconds=90)

    def test_the_pod_group_asks_for_all_replicas_and_follows_the_scale(self):
        self.create(self.gang("a").policy(startPolicy="Any"))
        self.wait_condition("a", "Running")
        spec = self.api.get(f"{self.group}/a")["spec"]
        self.assertEqual((spec["minMember"], spec["minResources"]), (4, {"cpu": "4", "memory": "256Mi"}))
        self.kubectl("scale", "tj/a", "--replicas=4")

        def followed():
            scaled = self.api.get(f"{self.group}/a")["spec"]
            return (scaled["minMember"], scaled["minResources"]) == (5, {"cpu": "5", "memory": "320Mi"})

        wait_for("the PodGroup to follow the scale", followed)
        self.wait_condition("a", "Running")


class CoschedulingTest(PodGroups, QueueCase):
    parts = ("scheduler-plugins",)
    group = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"

    @classmethod
    def start_queue(cls):
        apply(cls, SHARE / "scheduler-plugins")
        configuration = cls.plane.folder / "coscheduling.yaml"
        configuration.write_text(json.dumps({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(cls.plane.kubeconfig)},
            "profiles": [{
                "schedulerName": "scheduler-plugins-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]},
                            "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}},
                "pluginConfig": [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 10}}]}]}))
        cls.plane.processes.start("coscheduling-scheduler", [places.BIN / "coscheduling-scheduler", f"--config={configuration}", "--secure-port=0",
                                                             "--pod-max-in-unschedulable-pods-duration=10s"])
        cls.plane.processes.start("coscheduling-controller", [places.BIN / "coscheduling-controller", "--metricsAddr=0", "--probeAddr=0"],
                                  {"KUBECONFIG": str(cls.plane.kubeconfig)})

    def mark(self, maker):
        return maker.policy(scheduling={"gang": "Coscheduling"})


class KueueTest(WholeJobs, Together, QueueCase):
    parts = ("kueue",)
    options = Options(scheduler=True, **NODES)

    @classmethod
    def start_queue(cls):
        kueue = Kueue(cls.plane, cls.api)
        kueue.start()
        kueue.queue("research", 4)
        kueue.priority("high", 1000)

    def setUp(self):
        super().setUp()
        self.addCleanup(self.end_jobs)

    def end_jobs(self):
        """While the operator lives: it takes Kueue's finalizer from the pods. Kueue 0.15.0 may forget a job that comes while it frees the room of
        another: the job then waits in an empty queue."""
        for path in (JOBS, PODS):
            self.api.request("DELETE", path)
        wait_for("the pods to be gone", lambda: not self.api.list(PODS))
        wait_for("Kueue to hold no room", lambda: not self.api.list(WORKLOADS) and self.used() == "0")

    def mark(self, maker):
        return maker.label("kueue.x-k8s.io/queue-name", "research")

    def test_a_job_of_higher_priority_preempts_a_running_one_which_goes_on_afterwards(self):
        self.create(self.gang("a"))
        self.wait_condition("a", "Running")
        self.create(self.gang("c").label("kueue.x-k8s.io/priority-class", "high"))
        self.wait_condition("c", "Running")
        self.wait_message("a", "waits for 4 CPU and 256Mi memory in queue research of Kueue")
        self.assertEqual(self.bound("a"), {})
        self.assertIn("preempt", self.wait_event("Disrupted")["note"].lower())
        self.kubelet.succeed("c-worker-2", "c-worker-1", "c-worker-0")
        self.wait_condition("a", "Running", seconds=120.0)
        status = self.status("a")
        self.assertEqual(status["restarts"], 0, "a preemption is no failure")
        self.assertGreater(status["disruptions"], 0)

    def test_a_job_stays_in_its_queue_though_its_label_changes_until_it_is_suspended(self):
        """Kueue ends all pods of a group that names two queues."""
        self.create(self.gang("a"))
        self.wait_condition("a", "Running")
        self.api.merge(f"{JOBS}/a", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}})
        self.wait_message("a", "its pods stay in queue research of Kueue, though its label names queue other")
        before = self.uid("a-worker-1")
        self.kubelet.fail("a-worker-1", code=137, reason="Error")
        wait_for("a new pod of a-worker-1", lambda: "a-worker-1" in self.pods() and self.uid("a-worker-1") != before)
        self.wait_condition("a", "Running")
        self.assertEqual((self.status("a")["restarts"], self.status("a").get("disruptions", 0)), (1, 0))
        self.api.merge(f"{JOBS}/a", {"spec": {"runPolicy": {"suspend": True}}})
        self.wait_pods()
        self.api.merge(f"{JOBS}/a", {"spec": {"runPolicy": {"suspend": False}}})
        self.wait_message("a", "waits for 4 CPU and 256Mi memory in queue other of Kueue")

    def test_a_label_that_comes_after_the_pods_counts_when_the_job_resumes(self):
        self.create(self.unmarked("a"))
        self.wait_condition("a", "Running")
        self.api.merge(f"{JOBS}/a", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "research"}}})
        self.wait_message("a", "its pods stay in no queue of Kueue, though its label names queue research")
        self.kubelet.fail("a-worker-1", code=137, reason="Error")
        wait_for("the restart", lambda: self.status("a").get("restarts") == 1)
        self.wait_condition("a", "Running")
        self.api.merge(f"{JOBS}/a", {"spec": {"runPolicy": {"suspend": True}}})
        self.wait_pods()
        self.api.merge(f"{JOBS}/a", {"spec": {"runPolicy": {"suspend": False}}})
        self.wait_condition("a", "Running")
        self.assertNotIn("Kueue", self.wait_message("a", "all replicas run"))

    def test_an_admitted_job_keeps_its_workers_until_it_is_suspended(self):
        self.create(self.gang("a"))
        self.wait_condition("a", "Running")
        self.kubectl("scale", "tj/a", "--replicas=2")
        self.wait_condition("a", "Invalid", reason="EditRefused")
        self.assertEqual(self.pods(), self.names("a"))
        self.api.merge(f"{JOBS}/a", {"spec": {"runPolicy": {"suspend": True}}})
        self.wait_pods()
        self.api.merge(f"{JOBS}/a", {"spec": {"runPolicy": {"suspend": False}}})
        self.wait_condition("a", "Running")
        self.assertEqual(self.pods(), self.names("a", workers=2))


class VolcanoTest(PodGroups, QueueCase):
    parts = ("volcano",)
    group = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"

    @classmethod
    def start_queue(cls):
        apply(cls, SHARE / "volcano")
        configuration = cls.plane.folder / "volcano.conf"
        configuration.write_text(json.dumps({"actions": "enqueue, allocate, backfill", "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
            {"plugins": [{"name": "predicates"}, {"name": "proportion"}, {"name": "nodeorder"}]}]}))
        common = [f"--kubeconfig={cls.plane.kubeconfig}", "--leader-elect=false", "--enable-healthz=false"]
        cls.plane.processes.start("volcano-controller", [places.BIN / "volcano-controller", *common])
        cls.plane.processes.start("volcano-scheduler", [places.BIN / "volcano-scheduler", *common, f"--scheduler-conf={configuration}",
                                                        "--enable-metrics=false"])
        queues = "/apis/scheduling.volcano.sh/v1beta1/queues"
        wait_for("Volcano's default queue", lambda: cls.api.exists(f"{queues}/default"))
        cls.api.create(queues, {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "research"},
                                "spec": {"weight": 1}})

    def mark(self, maker):
        return maker.policy(scheduling={"gang": "Volcano", "queue": "research"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
