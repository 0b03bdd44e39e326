"""What Kueue must do with jobs of restartScope Job, whose pods go all at once: those that come then are another group, of another number after a scale."""

from harness.jobs import EVENTS, PODS
from harness.kueue import CLUSTER_QUEUES
from harness.wait import wait_for
from queue_cases import ONE_CPU


class Together:
    """Tests of a QueueCase with Kueue, whose queue research has 4 CPU."""

    def together(self, name, workers):
        """Of a server, an evaluator and workers."""
        return self.gang(name, workers).evaluator(resources=ONE_CPU).policy(restartScope="Job")

    def all_names(self, name, workers):
        return sorted([f"{name}-evaluator-0", *self.names(name, workers)])

    def uids(self, name):
        return {each["metadata"]["uid"] for each in self.api.list(PODS, f"trainyard.dev/job-name={name}")}

    def wait_group(self, name, workers, old):
        """All pods of the new group are there, with its number; none is of the old one."""
        def replaced():
            pods = {each["metadata"]["name"]: each["metadata"] for each in self.api.list(PODS, f"trainyard.dev/job-name={name}")}
            assert sorted(pods) == self.all_names(name, workers), sorted(pods)
            assert not old & {meta["uid"] for meta in pods.values()}, "pods of the old group"
            counts = {meta["annotations"]["kueue.x-k8s.io/pod-group-total-count"] for meta in pods.values()}
            assert counts == {str(len(pods))}, counts
            return True

        wait_for(f"the pods of {name} with {workers} workers", replaced)

    def wait_whole(self, name, workers):
        def whole():
            assert sorted(self.bound(name)) == self.all_names(name, workers), self.bound(name)
            ready = {role: each["ready"] for role, each in self.status(name)["replicaStatuses"].items()}
            assert ready == {"ps": 1, "worker": workers, "evaluator": 1}, ready
            return True

        wait_for(f"{name} to run with {workers} workers", whole, 60)
        self.wait_condition(name, "Running")

    def used(self):
        """CPU that Kueue holds in queue research."""
        flavor, = self.api.get(f"{CLUSTER_QUEUES}/research")["status"]["flavorsUsage"]
        return next(each["total"] for each in flavor["resources"] if each["name"] == "cpu")

    def assert_spent(self, name, restarts):
        """So many restarts, and no disruption."""
        status = self.status(name)
        told = [f"{each['reason']}: {each['note']}" for each in self.api.list(EVENTS) if each["regarding"].get("name") == name]
        self.assertEqual((status["restarts"], status.get("disruptions", 0)), (restarts, 0), "\n".join(told))

    def test_a_running_job_that_restarts_together_is_scaled_and_admitted_with_its_new_number(self):
        self.create(self.together("a", workers=1))
        self.wait_whole("a", 1)
        for workers in (2, 1, 2):
            old = self.uids("a")
            self.kubectl("scale", "tj/a", f"--replicas={workers}")
            self.wait_group("a", workers, old)
            self.wait_whole("a", workers)
            wait_for("the quota of the new number", lambda workers=workers: self.used() == str(workers + 2))
        self.assert_spent("a", 0)

    def test_a_job_scaled_beyond_the_quota_says_what_it_waits_for_until_it_fits(self):
        self.create(self.together("a", workers=1))
        self.wait_whole("a", 1)
        old = self.uids("a")
        self.kubectl("scale", "tj/a", "--replicas=3")
        self.wait_group("a", 3, old)
        message = self.wait_message("a", "waits for 5 CPU and 320Mi memory in queue research of Kueue")
        group = message.partition("workloads.kueue.x-k8s.io ")[2].split()[0]
        self.assertTrue(self.api.exists(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads/{group}"), message)
        self.assertEqual((self.bound("a"), self.status("a")["phase"]), ({}, "Restarting"))
        self.assertNotEqual(self.condition("a", "Stalled")["status"], "True")
        old = self.uids("a")
        self.kubectl("scale", "tj/a", "--replicas=2")
        self.wait_group("a", 2, old)
        self.wait_whole("a", 2)
        self.assert_spent("a", 0)

    def test_a_failure_that_restarts_all_is_counted_once_and_the_new_group_is_admitted(self):
        self.create(self.together("a", workers=2))
        self.wait_whole("a", 2)
        for count in (1, 2):
            old = self.uids("a")
            self.kubelet.fail("a-worker-1", code=137)
            self.wait_group("a", 2, old)
            self.wait_whole("a", 2)
            self.assert_spent("a", count)

    def test_an_evaluator_that_fails_is_replaced_within_the_admitted_group(self):
        self.create(self.together("a", workers=2))
        self.wait_whole("a", 2)
        old = self.uids("a")
        self.kubelet.fail("a-evaluator-0", code=137)
        wait_for("another evaluator beside the same workers", lambda: len(old & self.uids("a")) == 3 and len(self.uids("a")) == 4)
        self.wait_whole("a", 2)
        self.assertEqual(len(old & self.uids("a")), 3)
        self.assert_spent("a", 0)

    def test_a_job_whose_replicas_all_restart_and_one_that_waits_run_one_after_the_other(self):
        """Which of them is first is Kueue's to say."""
        self.create(self.together("a", workers=2))
        self.wait_whole("a", 2)
        self.create(self.gang("b"))
        self.wait_message("b", "waits for 4 CPU")
        old = self.uids("a")
        self.kubelet.fail("a-worker-1", code=137)
        self.wait_group("a", 2, old)
        first, = wait_for("one of both to run", lambda: [name for name in "ab" if len(self.bound(name)) == 4])
        second = {"a": "b", "b": "a"}[first]
        self.wait_condition(first, "Running")
        self.assertEqual(self.bound(second), {})
        self.wait_message(second, "waits for 4 CPU and 256Mi memory in queue research of Kueue")
        self.kubelet.succeed(*[name for name in self.bound(first) if "worker" in name])
        self.wait_condition(second, "Running")
        self.assert_spent("a", 1)
