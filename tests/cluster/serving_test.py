"""spec.serve against a real API server and its Deployment controller, with the readiness of pods written by the test."""

import unittest

from harness.jobs import EVENTS, JOBS, PODS, SERVICES, job
from harness.operator import Operator
from harness.wait import let_time_pass, wait_for
from operator_case import OperatorCase

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
URL = "http://a-serve.default.svc:8080/v1/models/a"


def served(when="final", name="a", **serve):
    maker = job(name).worker(1).set("storage", {"claimName": "results"}).training(checkpoint={"keepBest": {"metric": "accuracy"}})
    return maker.set("serve", {"when": when, **serve})


class ServingTest(OperatorCase):
    def clean(self):
        # Garbage collection learns of TrainingJobs up to 30 s after the API server did: until then a Deployment makes its pods again.
        self.api.request("DELETE", JOBS)
        self.api.request("DELETE", DEPLOYMENTS)
        super().clean()
        self.api.request("DELETE", DEPLOYMENTS)
        wait_for("no Deployment to be left", lambda: not self.api.list(DEPLOYMENTS) and not self.api.list(PODS))

    def deployment(self, name="a-serve"):
        return self.api.find(f"{DEPLOYMENTS}/{name}")

    def serving_pods(self):
        return [name for name in self.pods() if name.startswith("a-serve-")]

    def wait_deployment(self, seconds=30.0):
        return wait_for("the Deployment", self.deployment, seconds)

    def wait_replicas(self, number):
        wait_for(f"{number} serving pods", lambda: len(self.serving_pods()) == number and self.deployment()["spec"]["replicas"] == number)

    def succeeded(self, maker):
        self.create(maker)
        self.wait_pods("a-worker-0")
        self.kubelet.run("a-worker-0")
        self.wait_condition("a", "Running")
        self.kubelet.succeed("a-worker-0")
        self.wait_condition("a", "Succeeded")

    def test_final_is_made_at_the_success_and_outlives_the_pods_and_ends_with_the_job(self):
        self.create(served(replicas=2).policy(cleanPodPolicy="All"))
        self.wait_pods("a-worker-0")
        self.kubelet.run("a-worker-0")
        self.wait_condition("a", "Serving", "False", "WaitsForSuccess")
        self.assertIsNone(self.deployment())
        self.kubelet.succeed("a-worker-0")
        self.wait_replicas(2)
        self.wait_condition("a", "Serving", "False", "NotReady")
        self.kubelet.run(*self.serving_pods())
        told = self.wait_condition("a", "Serving")
        self.assertTrue(told["message"].startswith(f"a model answers at {URL}; its version is not known: "), told)
        wait_for("the ready pods to be counted", lambda: self.status("a")["serving"] == {"readyReplicas": 2, "url": URL})
        self.assertEqual(self.wait_event("Serving")["note"], told["message"])
        self.assertEqual((len(self.pods()), self.services()), (2, ["a-serve"]), "cleanPodPolicy All takes the replicas'")
        self.api.delete(f"{JOBS}/a")
        wait_for("all to go with the job", lambda: not self.deployment() and not self.pods() and not self.services(), 60.0)

    def test_the_api_server_takes_the_pod_as_it_is_meant(self):
        self.succeeded(served(resources={"limits": {"cpu": "1000m"}}))
        self.wait_replicas(1)
        spec = self.api.get(f"{PODS}/{self.serving_pods()[0]}")["spec"]
        container = spec["containers"][0]
        self.assertEqual(container["args"], ["serve", "/var/lib/trainyard/a", "--name", "a", "--host", "0.0.0.0"])
        self.assertTrue(container["volumeMounts"][0]["readOnly"])
        self.assertEqual(len(container["volumeMounts"]), 1, "no token")
        self.assertEqual(container["resources"]["limits"], {"cpu": "1"})
        self.assertTrue(container["securityContext"]["runAsNonRoot"])
        service = self.api.get(f"{SERVICES}/a-serve")["spec"]
        self.assertEqual([(port["name"], port["port"]) for port in service["ports"]], [("http", 8080), ("grpc", 8081)])

    def test_best_is_there_while_the_job_trains(self):
        self.create(served("best"))
        wait_for("worker and server", lambda: "a-worker-0" in self.pods() and self.serving_pods())
        self.kubelet.run("a-worker-0")
        self.wait_condition("a", "Running")
        self.assertIn("first best checkpoint", self.wait_condition("a", "Serving", "False", "NotReady")["message"])
        self.kubelet.run(*self.serving_pods())
        self.wait_condition("a", "Serving")
        self.kubelet.fail("a-worker-0")
        self.wait_condition("a", "Failed")
        self.wait_condition("a", "Serving", "False", "JobFailed")
        wait_for("the Deployment to go with the hope for a checkpoint", lambda: not self.deployment())

    def test_a_suspended_job_uses_no_quota_and_serves_again_when_it_goes_on(self):
        self.create(served("best").policy(suspend=True))
        self.wait_condition("a", "Serving", "False", "Suspended")
        self.assertEqual((self.deployment(), self.services()), (None, []), "Kueue creates jobs so")
        self.api.merge(f"{JOBS}/a", {"spec": {"runPolicy": {"suspend": False}}})
        wait_for("the pods of training and serving", lambda: "a-worker-0" in self.pods() and self.serving_pods())
        self.kubelet.run("a-worker-0")
        uid = self.deployment()["metadata"]["uid"]
        self.api.merge(f"{JOBS}/a", {"spec": {"runPolicy": {"suspend": True}}})
        self.wait_pods()
        self.assertEqual((self.deployment()["metadata"]["uid"], self.services()), (uid, ["a", "a-serve"]))
        self.api.merge(f"{JOBS}/a", {"spec": {"runPolicy": {"suspend": False}}})
        self.wait_replicas(1)
        self.assertEqual(self.deployment()["metadata"]["uid"], uid)

    def test_an_edit_that_does_not_roll_out_is_told_while_the_old_pod_serves(self):
        self.succeeded(served())
        self.wait_replicas(1)
        old = self.serving_pods()
        self.kubelet.run(*old)
        self.wait_condition("a", "Serving")
        self.api.merge(f"{JOBS}/a", {"spec": {"serve": {"resources": {"limits": {"cpu": "2"}}}}})
        unready = "; 1 pod of Deployment a-serve is not ready; kubectl get pods -n default -l trainyard.dev/serve=a tells more"
        wait_for("the new pod, which does not get ready, to be told", lambda: self.condition("a", "Serving")["message"].endswith(unready), 60.0)
        self.assertEqual(self.condition("a", "Serving")["status"], "True", "the old pod answers")
        self.assertTrue(set(old) < set(self.serving_pods()))
        self.api.merge(f"{JOBS}/a", {"spec": {"serve": {"resources": {"limits": {"cpu": "1"}}}}})
        wait_for("a pod of the mended edit", lambda: set(self.serving_pods()) - set(old), 60.0)
        wait_for("only running pods", lambda: self.run_all_serving(), 60.0)
        wait_for("nothing more to be told", lambda: "not ready" not in self.condition("a", "Serving")["message"], 60.0)

    def run_all_serving(self):
        self.kubelet.run(*self.serving_pods())
        return len(self.serving_pods()) == 1

    def test_edits_of_the_job_are_followed_after_its_end_and_time_to_live_ends_all(self):
        self.succeeded(job("a").worker(1).set("storage", {"claimName": "results"}))
        self.assertEqual(self.condition("a", "Serving")["status"], "Absent")
        self.api.merge(f"{JOBS}/a", {"spec": {"serve": {"replicas": 2}}})
        self.wait_replicas(2)
        self.api.merge(f"{JOBS}/a", {"spec": {"serve": {"replicas": 1, "resources": {"limits": {"memory": "1Gi"}}}}})
        wait_for("the new limit", lambda: self.deployment()["spec"]["template"]["spec"]["containers"][0]["resources"] == {"limits": {"memory": "1Gi"}})
        self.assertEqual(self.deployment()["spec"]["replicas"], 1)
        self.api.merge(f"{JOBS}/a", {"spec": {"serve": None}})
        wait_for("what served to go", lambda: not self.deployment() and self.services() == ["a"] and not self.serving_pods())
        self.wait_condition("a", "Serving", "False", "Removed")
        self.assertNotIn("serving", self.status("a"))
        self.api.merge(f"{JOBS}/a", {"spec": {"serve": {}}})
        self.wait_deployment()
        self.api.merge(f"{JOBS}/a", {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 1}}})
        wait_for("all to go", lambda: not self.api.exists(f"{JOBS}/a") and not self.deployment())

    def test_what_others_edit_or_delete_comes_back(self):
        self.succeeded(served())
        right = self.wait_deployment()["spec"]
        self.api.merge(f"{DEPLOYMENTS}/a-serve", {"spec": {"replicas": 3, "paused": True, "template": {"spec": {"nodeSelector": {"mine": "yes"}}}}})
        wait_for("the Deployment to be put back", lambda: self.deployment()["spec"] == right, 40.0)
        self.assertIn("edit spec.serve", self.wait_event("ServingRestored")["note"])
        uid = self.deployment()["metadata"]["uid"]
        self.api.delete(f"{DEPLOYMENTS}/a-serve")
        wait_for("a new Deployment", lambda: (self.deployment() or {}).get("metadata", {}).get("uid") not in (None, uid))
        self.api.delete(f"{SERVICES}/a-serve")
        wait_for("a new Service", lambda: "a-serve" in self.services())

    def test_a_restarted_operator_changes_nothing_and_a_quiet_one_asks_nothing(self):
        self.succeeded(served())
        self.wait_replicas(1)
        self.kubelet.run(*self.serving_pods())
        self.wait_condition("a", "Serving")
        before = self.deployment()["metadata"]
        self.operator.stop()
        self.operator = Operator(self.plane, name="second", progress="off").start()
        self.addCleanup(self.operator.stop)
        wait_for("the jobs to be looked at", lambda: "trainyard_reconciles_total{" in self.operator.page("/metrics"))
        let_time_pass(3)
        self.assertEqual(self.deployment()["metadata"]["generation"], before["generation"])
        asked = self.operator.requests()
        let_time_pass(3)
        self.assertLessEqual(self.operator.requests() - asked, 2)

    def test_a_deployment_of_that_name_that_is_not_the_jobs_is_left_alone_and_the_training_goes_on(self):
        labels = {"app": "mine"}
        own = self.api.create(DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a-serve"}, "spec": {
            "replicas": 0, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}}})
        self.create(served("best"))
        found = self.wait_condition("a", "Serving", "False", "NameTaken")
        self.assertEqual(found["message"], "Deployment a-serve exists and is not controlled by this job; delete or rename it, or remove spec.serve")
        self.wait_event("NameTaken")
        self.kubelet.run("a-worker-0")
        self.wait_condition("a", "Running")
        self.assertEqual(self.condition("a", "Stalled")["status"], "Absent")
        self.api.delete(f"{JOBS}/a")
        wait_for("the job's own to go", lambda: not self.pods() and not self.services(), 60.0)
        self.assertEqual(self.deployment()["metadata"]["uid"], own["metadata"]["uid"])

    def test_a_refusal_of_the_api_server_is_told_in_its_words_and_the_training_goes_on(self):
        self.api.create(QUOTAS, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"count/deployments.apps": "0"}}})
        self.addCleanup(self.api.delete, f"{QUOTAS}/none")
        wait_for("the quota to count", lambda: self.api.get(f"{QUOTAS}/none").get("status", {}).get("hard"))
        self.create(served("best"))
        found = self.wait_condition("a", "Serving", "False", "CannotCreate")
        for word in ("Deployment a-serve cannot be created", "exceeded quota: none", "raise the quota of namespace default"):
            self.assertIn(word, found["message"])
        self.kubelet.run("a-worker-0")
        self.wait_condition("a", "Running")
        self.assertEqual(self.condition("a", "Stalled")["status"], "Absent")
        self.api.merge(f"{QUOTAS}/none", {"spec": {"hard": {"count/deployments.apps": "1"}}})
        self.wait_deployment(70.0)

    def test_a_job_recreated_under_its_name_waits_for_the_old_deployment_to_go(self):
        self.succeeded(served())
        old = self.wait_deployment()["metadata"]["uid"]
        self.api.delete(f"{JOBS}/a")
        self.succeeded(served())
        wait_for("a Deployment of the new job", lambda: (self.deployment() or {}).get("metadata", {}).get("uid") not in (None, old))
        self.assertNotIn("NameTaken", [event["reason"] for event in self.api.list(EVENTS)])


if __name__ == "__main__":
    unittest.main()
