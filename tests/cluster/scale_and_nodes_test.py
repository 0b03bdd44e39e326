"""The operator against a real API server: jobs that are scaled and suspended, and nodes that fail or are lost."""

import unittest

from harness.events import wait_events
from harness.jobs import JOBS, PODS, job
from harness.wait import wait_for
from operator_case import OperatorCase


class ScaleTest(OperatorCase):
    def test_scaling_up_and_down_moves_pods_services_and_host_lists(self):
        self.running(job("a").ps(1).worker(2).set("network", {"services": "PerReplica"}), "a-ps-0", "a-worker-0", "a-worker-1")
        epoch = self.status("a")["hostsEpoch"]
        kept = self.uid("a-worker-0")
        self.kubectl("scale", "tj/a", "--replicas=3")
        self.wait_pods("a-ps-0", "a-worker-0", "a-worker-1", "a-worker-2")
        self.kubelet.run("a-worker-2")
        self.wait_condition("a", "Running")
        self.assertGreater(self.status("a")["hostsEpoch"], epoch)
        self.assertEqual(self.hosts("a")["worker_hosts"].count(","), 2)
        self.kubectl("scale", "tj/a", "--replicas=1")
        self.wait_pods("a-ps-0", "a-worker-0")
        wait_for("the services to follow", lambda: self.services() == ["a-ps-0", "a-worker-0"])
        wait_for("the host lists to follow", lambda: self.hosts("a")["worker_hosts"] == "a-worker-0.default.svc:5000")
        self.assertEqual(self.uid("a-worker-0"), kept)
        self.assertEqual(self.api.get(f"{JOBS}/a/scale")["status"]["replicas"], 1)

    def test_a_new_number_of_pytorch_workers_starts_all_again_with_it(self):
        names = ["a-worker-0", "a-worker-1"]
        self.running(job("a").framework("PyTorch").set("image", "x").without("training").worker(2), *names)
        first = {name: self.uid(name) for name in names}
        for number in (3, 1):
            self.kubectl("scale", "tj/a", f"--replicas={number}")
            names = [f"a-worker-{index}" for index in range(number)]
            wait_for(f"{number} new pods", lambda names=names, first=first: self.pods() == names and all(self.uid(name) != first.get(name) for name in names))
            for name in names:
                environment = {each["name"]: each.get("value") for each in self.api.get(f"{PODS}/{name}")["spec"]["containers"][0]["env"]}
                self.assertEqual(environment["WORLD_SIZE"], str(number))
            first = {name: self.uid(name) for name in names}
            self.kubelet.run(*names)
            self.wait_condition("a", "Running")
        self.assertEqual((self.status("a").get("restarts", 0), self.status("a").get("disruptions", 0)), (0, 0))
        notes = [each["note"] for each in wait_events(self.api, "Scaled", count=2)]
        self.assertTrue(all("all replicas start again" in note for note in notes), notes)

    def test_suspend_removes_pods_and_resume_brings_them_back(self):
        self.running(job("a").ps(1).worker(1), "a-ps-0", "a-worker-0")
        began = self.status("a")["startTime"]
        self.api.merge(f"{JOBS}/a", {"spec": {"runPolicy": {"suspend": True}}})
        self.wait_pods()
        self.wait_condition("a", "Suspended")
        self.api.merge(f"{JOBS}/a", {"spec": {"runPolicy": {"suspend": False}}})
        self.wait_pods("a-ps-0")
        self.kubelet.run("a-ps-0")
        self.wait_pods("a-ps-0", "a-worker-0")
        self.kubelet.run("a-worker-0")
        self.wait_condition("a", "Running")
        self.wait_condition("a", "Suspended", "False")
        self.assertGreaterEqual(self.status("a")["startTime"], began)

    def test_an_operator_that_starts_knows_the_pods_beyond_the_first_page_of_its_list(self):
        """A page has 200 objects."""
        names = ["a-ps-0", *[f"a-worker-{index}" for index in range(202)]]
        self.running(job("a").ps(1).worker(202), *names)
        first = {name: self.uid(name) for name in names}
        self.operator.stop()
        self.operator.start()
        self.kubectl("scale", "tj/a", "--replicas=203")
        self.wait_pods(*names, "a-worker-202")
        self.kubelet.run("a-worker-202")
        self.wait_condition("a", "Running")
        self.assertEqual({name: self.uid(name) for name in names}, first)
        self.assertEqual((self.status("a").get("restarts", 0), self.status("a").get("disruptions", 0)), (0, 0))

    def test_a_job_born_suspended_starts_nothing(self):
        self.create(job("a").worker(1).policy(suspend=True))
        self.wait_condition("a", "Suspended")
        self.assertEqual(self.pods(), [])
        self.assertNotIn("startTime", self.status("a"))


class LostNodeTest(OperatorCase):
    flags = {"force-delete-after": "0"}
    NODE = "/api/v1/nodes/lost"

    def setUp(self):
        super().setUp()
        self.api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "lost"}})
        self.addCleanup(lambda: self.api.exists(self.NODE) and self.api.delete(self.NODE))
        self.api.merge(f"{self.NODE}/status", {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}})

    def deleted_on_the_lost_node(self, maker):
        """Binds the job's worker to the node that is not Ready, and deletes it as the node controller would; its uid."""
        self.create(maker)
        self.wait_pods("a-worker-0")
        self.api.create(f"{PODS}/a-worker-0/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a-worker-0"}, "target": {"kind": "Node", "name": "lost"}})
        self.kubelet.run("a-worker-0")
        self.wait_condition("a", "Running")
        first = self.uid("a-worker-0")
        self.api.delete(f"{PODS}/a-worker-0", grace_seconds=1)
        return first

    def test_a_pod_on_a_node_that_is_not_ready_is_waited_for_until_the_node_is_out_of_service(self):
        first = self.deleted_on_the_lost_node(job("a").worker(1))
        self.assertIn("node lost, which is not Ready", self.wait_condition("a", "Stalled", reason="NodeNotReady", seconds=90.0)["message"])
        self.assertEqual(self.uid("a-worker-0"), first, "its process may still run")
        self.api.merge(self.NODE, {"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]}})
        wait_for("a new pod", lambda: self.api.exists(f"{PODS}/a-worker-0") and self.uid("a-worker-0") != first)

    def test_a_job_that_asks_for_it_does_not_wait(self):
        first = self.deleted_on_the_lost_node(job("a").worker(1).policy(lostNodePolicy="ForceDelete"))
        wait_for("a new pod", lambda: self.api.exists(f"{PODS}/a-worker-0") and self.uid("a-worker-0") != first)


class FailedNodeTest(OperatorCase):
    NODES = "/api/v1/nodes"

    def setUp(self):
        super().setUp()
        for name in ("bad", "good"):
            self.api.create(self.NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
            self.addCleanup(lambda name=name: self.api.exists(f"{self.NODES}/{name}") and self.api.delete(f"{self.NODES}/{name}"))
            self.api.merge(f"{self.NODES}/{name}/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})

    def fails_on(self, pod, node):
        """The pod fails there; the pod that comes after it."""
        first = self.uid(pod)
        self.api.create(f"{PODS}/{pod}/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node}})
        self.kubelet.run(pod)
        self.kubelet.fail(pod, code=137)
        wait_for(f"{pod} to be made again", lambda: self.api.exists(f"{PODS}/{pod}") and self.uid(pod) != first)
        return self.api.get(f"{PODS}/{pod}")

    @staticmethod
    def avoided(pod):
        terms = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
        return [each["values"][0] for term in terms for each in term["matchFields"]]

    def test_the_next_pod_keeps_away_from_the_node_where_the_last_one_failed_until_it_is_deleted(self):
        self.create(job("a").worker(2).policy(avoidFailedNodes=True))
        self.wait_pods("a-worker-0", "a-worker-1")
        self.assertEqual(self.avoided(self.fails_on("a-worker-1", "bad")), ["bad"])
        self.wait_event("NodeAvoided")
        self.operator.kill()
        self.operator.start()
        self.api.delete(f"{PODS}/a-worker-1", grace_seconds=0)
        wait_for("a pod of the next operator", lambda: self.api.exists(f"{PODS}/a-worker-1") and self.avoided(self.api.get(f"{PODS}/a-worker-1")) == ["bad"])
        self.assertEqual(self.avoided(self.fails_on("a-worker-0", "good")), ["good"], "each by itself")
        self.assertEqual(self.status("a")["failedNodes"], [{"replica": "worker-1", "node": "bad"}, {"replica": "worker-0", "node": "good"}])
        self.assertEqual(self.avoided(self.fails_on("a-worker-1", "good")), ["good"], "no third node is there: it starts again where it failed first")
        self.api.delete(f"{self.NODES}/good")
        wait_for("the node to be forgotten", lambda: "failedNodes" not in self.status("a"))

    def test_a_job_that_restarts_together_keeps_away_as_a_whole(self):
        names = ("a-worker-0", "a-worker-1")
        self.create(job("a").framework("JAX").set("image", "x").without("training").worker(2).policy(avoidFailedNodes=True))
        self.wait_pods(*names)
        self.fails_on("a-worker-1", "bad")
        self.wait_pods(*names)
        self.assertEqual([self.avoided(self.api.get(f"{PODS}/{name}")) for name in names], [["bad"], ["bad"]])


if __name__ == "__main__":
    unittest.main()
