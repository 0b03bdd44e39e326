"""What every gang scheduler and every queue must do with jobs that do not fit into the cluster together. The cluster has two nodes of 3 CPU."""

import calendar
import time

from harness import needs
from harness.control_plane import Options
from harness.jobs import JOBS, PODS, job
from harness.suite import skip_or_fail
from harness.wait import wait_for
from operator_case import OperatorCase

NODES = {"fake_nodes": 2, "fake_cpu": 3}
ONE_CPU = {"requests": {"cpu": "1", "memory": "64Mi"}}


def seconds(timestamp):
    return calendar.timegm(time.strptime(timestamp, "%Y-%m-%dT%H:%M:%SZ"))


class QueueCase(OperatorCase):
    """A subclass names the parts of build.sh, starts its scheduler, and marks its jobs. kwok runs the pods; the test ends them."""

    parts = ()
    options = Options(**NODES)

    @classmethod
    def setUpClass(cls):
        if lacks := needs.unbuilt("kwok", *cls.parts):
            skip_or_fail(lacks)
        super().setUpClass()
        cls.start_queue()

    @classmethod
    def start_queue(cls):
        """The programs of the queue, until they are ready."""

    def gang(self, name, workers=3, cpu=ONE_CPU):
        """A job of one server and workers, marked for the queue."""
        return self.mark(self.unmarked(name, workers, cpu))

    @staticmethod
    def unmarked(name, workers=3, cpu=ONE_CPU):
        return job(name).framework("None").without("training").set("image", "x").ps(1, resources=cpu).worker(workers, resources=cpu)

    def mark(self, maker):
        raise NotImplementedError

    def bound(self, name):
        """The job's pods that have a node, with the time at which they got it."""
        found = {}
        for pod in self.api.list(PODS, f"trainyard.dev/job-name={name}"):
            for condition in pod["status"].get("conditions", []):
                if condition["type"] == "PodScheduled" and condition["status"] == "True":
                    found[pod["metadata"]["name"]] = seconds(condition["lastTransitionTime"])
        return found

    def names(self, name, workers=3):
        return sorted([f"{name}-ps-0", *[f"{name}-worker-{index}" for index in range(workers)]])

    def wait_message(self, name, *words, timeout=60.0):
        def said():
            message = self.status(name).get("message", "")
            assert all(word in message for word in words), message
            return message

        return wait_for(f"the status of {name} to say {words}", said, timeout)

    def start_and_queue(self):
        """Job a runs; job b, which does not fit beside it, says that it waits. Both have 4 pods of 1 CPU."""
        self.create(self.gang("a"))
        self.wait_condition("a", "Running")
        self.assertEqual(sorted(self.bound("a")), self.names("a"))
        self.create(self.gang("b"))
        wait_for("the pods of b", lambda: set(self.names("b")) <= set(self.pods()))
        return self.wait_message("b", "waits for 4 CPU and 256Mi memory")


class WholeJobs:
    """Tests of a QueueCase."""

    def test_two_jobs_that_do_not_fit_together_run_one_after_the_other_whole(self):
        self.start_and_queue()
        self.assertEqual(self.bound("b"), {})
        self.assertEqual(self.status("b")["phase"], "Pending")
        ended = int(time.time())
        self.kubelet.succeed("a-worker-2", "a-worker-1", "a-worker-0")
        self.wait_condition("a", "Succeeded")
        self.wait_condition("b", "Running")
        bound = self.bound("b")
        self.assertEqual(sorted(bound), self.names("b"))
        self.assertGreaterEqual(min(bound.values()), ended, "a pod of b had a node while a ran")
        self.assertEqual((self.status("b")["restarts"], self.status("b").get("disruptions", 0)), (0, 0))

    def test_a_job_that_waits_its_turn_is_not_stalled(self):
        self.start_and_queue()
        self.assertNotEqual(self.condition("b", "Stalled")["status"], "True")
        told = self.plugin("why", "b")
        self.assertIn("Next:\n  wait for its turn, or make room for what the message above asks for", told)

    def test_a_replica_that_dies_is_replaced_within_its_running_job(self):
        self.start_and_queue()
        before = self.uid("a-worker-1")
        self.kubelet.fail("a-worker-1", code=137, reason="Error")
        wait_for("a new pod of a-worker-1", lambda: "a-worker-1" in self.pods() and self.uid("a-worker-1") != before)
        self.wait_condition("a", "Running")
        self.assertEqual(self.bound("b"), {})

    def test_a_suspended_job_gives_its_room_away_and_waits_for_it_when_it_resumes(self):
        self.start_and_queue()
        self.api.merge(f"{JOBS}/a", {"spec": {"runPolicy": {"suspend": True}}})
        self.wait_condition("b", "Running")
        self.assertEqual(self.bound("a"), {})
        self.api.merge(f"{JOBS}/a", {"spec": {"runPolicy": {"suspend": False}}})
        self.wait_message("a", "waits for 4 CPU")
        self.assertEqual(self.bound("a"), {})
        self.kubelet.succeed("b-worker-2", "b-worker-1", "b-worker-0")
        self.wait_condition("a", "Running")

    def test_when_a_job_is_deleted_nothing_is_left_and_its_room_is_free(self):
        self.start_and_queue()
        self.api.delete(f"{JOBS}/a")
        wait_for("the pods of a to be gone", lambda: not self.api.list(PODS, "trainyard.dev/job-name=a"), 90)
        self.wait_condition("b", "Running")
