"""Trainings on a real node that Kueue preempts, or admits again with another number: they go on from their checkpoints. By hand: scripts/test.sh queues."""

from harness import needs
from harness.jobs import JOBS, PODS, job
from harness.kueue import Kueue
from harness.node_suite import NodeSuite, main
from harness.suite import skip_or_fail

SMALL = {"requests": {"cpu": "100m", "memory": "64Mi"}}


class PreemptionTest(NodeSuite):
    @classmethod
    def setUpClass(cls):
        if lacks := needs.unbuilt("kueue"):
            skip_or_fail(lacks)
        super().setUpClass()
        kueue = Kueue(cls.plane, cls.api)
        kueue.start()
        kueue.queue("research", "300m")
        kueue.priority("high", 1000)

    def test_a_preempted_training_goes_on_from_its_checkpoint(self):
        folder = self.claim("results")
        long = self.training("low", 1000000).training(checkpoint={"everySteps": 20}).set("storage", {"claimName": "results"})
        self.api.create(JOBS, long.spec())
        self.wait_running("low", 1)
        self.wait("a checkpoint", lambda: list((folder / "low" / "checkpoints").glob("step-*")))
        self.api.create(JOBS, self.training("urgent", 20).label("kueue.x-k8s.io/priority-class", "high").spec())
        self.wait("urgent to succeed", lambda: self.is_true("urgent", "Succeeded"), 300.0)
        self.wait_running("low", 1, 240.0)
        self.wait_progress("low")
        self.assertEqual((self.status("low")["restarts"], self.status("low")["disruptions"] > 0), (0, True), self.status("low"))
        pods = {each["metadata"]["name"]: each["status"].get("phase") for each in self.api.list(PODS)}
        self.assertEqual(pods["urgent-worker-0"], "Succeeded", "finished pods stay though the room is free")
        self.assertIn("going on from", self.kubectl("logs", "low-worker-0"))

    def test_a_training_that_restarts_together_goes_on_with_its_new_number_and_after_a_failure(self):
        folder = self.claim("results")
        grows = self.training("grows", 1000000).training(checkpoint={"everySteps": 20}).set("storage", {"claimName": "results"})
        self.api.create(JOBS, grows.policy(restartScope="Job").spec())
        self.wait_running("grows", 1)
        self.wait("a checkpoint", lambda: list((folder / "grows" / "checkpoints").glob("step-*")))
        self.kubectl("scale", "tj/grows", "--replicas=2")
        self.goes_on("grows", workers=2)
        self.assertEqual((self.status("grows")["restarts"], self.status("grows").get("disruptions", 0)), (0, 0), self.status("grows"))
        chief = self.api.get(f"{PODS}/grows-worker-0")["metadata"]["uid"]
        self.kill_container("grows-worker-1")
        self.wait("another chief", lambda: self.api.exists(f"{PODS}/grows-worker-0") and self.api.get(f"{PODS}/grows-worker-0")["metadata"]["uid"] != chief)
        self.goes_on("grows", workers=2)
        self.assertEqual((self.status("grows")["restarts"], self.status("grows").get("disruptions", 0)), (1, 0), self.status("grows"))

    def goes_on(self, name, workers):
        self.wait_running(name, workers, 240.0)
        self.wait_progress(name)
        self.assertIn("going on from", self.kubectl("logs", f"{name}-worker-0"))

    @staticmethod
    def training(name, steps):
        maker = job(name).ps(1, resources=SMALL).worker(1, resources=SMALL).label("kueue.x-k8s.io/queue-name", "research")
        data = {"format": "synthetic", "train": {"examples": 1000}}
        return maker.training(epochs=None, steps=steps, batchSize=32, data=data, strategy={"parameterServer": {"mode": "async"}}, resources={"threads": 1})


if __name__ == "__main__":
    main(*needs.unbuilt("kueue"))
