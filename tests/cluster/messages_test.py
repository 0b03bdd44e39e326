"""What `kubectl get tj` and `describe` say when something holds a job up: the real API server's words, read as a user reads them."""

import unittest

from harness.jobs import JOBS, PODS, job
from harness.kube import ApiError
from harness.wait import wait_for
from operator_case import OperatorCase

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
NAMESPACE = "/api/v1/namespaces/default"


def template(**container):
    return {"spec": {"containers": [{"name": "trainer", "image": "x", **container}]}}


class MessagesCase(OperatorCase):
    def row(self, name):
        """The job's line as `kubectl get tj` prints it, by column."""
        header, row = self.kubectl("get", "tj", name).rstrip("\n").splitlines()
        starts = [header.index(column) for column in header.split()]
        ends = [*starts[1:], None]
        return {column: row[start:end].strip() for column, start, end in zip(header.split(), starts, ends, strict=True)}

    def told(self, name, condition, reason, *words):
        """Waits for the condition; its sentence must hold the words, be in the table, in describe and in one event."""
        found = self.wait_condition(name, condition, reason=reason)
        for word in words:
            self.assertIn(word, found["message"])
        self.assertLessEqual(len(found["message"]), 1024)
        self.assertEqual(self.row(name)["MESSAGE"], found["message"])
        described = self.kubectl("describe", "tj", name)
        self.assertIn(found["message"][:60], described)
        return found["message"]


class RefusalTest(MessagesCase):
    def test_a_full_quota_is_told_with_the_next_step_and_over_when_it_is_raised(self):
        self.api.create(QUOTAS, {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "2"}}})
        self.addCleanup(lambda: self.api.exists(f"{QUOTAS}/small") and self.api.delete(f"{QUOTAS}/small"))
        wait_for("the quota to be counted", lambda: "hard" in self.api.get(f"{QUOTAS}/small").get("status", {}))
        self.create(job("a").ps(1).worker(4).policy(startPolicy="Any"))
        self.told("a", "Stalled", "CannotCreate", "3 Pods cannot be created", "exceeded quota: small", "limited: pods=2",
                  "raise the quota of namespace default (kubectl describe quota -n default)")
        self.assertIn("a-ps-0", self.pods(), "servers come first")
        self.assertEqual(self.row("a")["STATE"], "Pending")
        self.api.merge(f"{QUOTAS}/small", {"spec": {"hard": {"pods": "10"}}})
        self.wait_pods("a-ps-0", *[f"a-worker-{i}" for i in range(4)], seconds=90.0)
        self.wait_condition("a", "Stalled", "False", "Resolved")

    def test_a_big_job_in_a_full_namespace_costs_few_requests_one_event_and_a_small_status(self):
        self.api.create(QUOTAS, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
        self.addCleanup(lambda: self.api.delete(f"{QUOTAS}/none"))
        wait_for("the quota to be counted", lambda: "hard" in self.api.get(f"{QUOTAS}/none").get("status", {}))
        self.create(job("a").worker(500).policy(startPolicy="Any"))
        self.told("a", "Stalled", "CannotCreate", "500 Pods cannot be created")
        self.assertLess(self.operator.requests(), 200)
        self.wait_event("CannotCreate")
        found = [each for each in self.api.list("/apis/events.k8s.io/v1/namespaces/default/events") if each["reason"] == "CannotCreate"]
        self.assertEqual(len(found), 1)
        self.assertLess(len(str(self.status("a"))), 4000)

    def test_pod_security_is_told_in_the_api_servers_words(self):
        self.api.merge(NAMESPACE, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}})
        self.addCleanup(lambda: self.api.merge(NAMESPACE, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": None}}}))
        body = template()
        body["spec"]["hostNetwork"] = True
        self.create(job("a").worker(1, template=body))
        self.told("a", "Stalled", "CannotCreate", 'violates PodSecurity "baseline', "host namespaces (hostNetwork=true)",
                  "change the securityContext in spec.worker.template")

    def test_a_misspelt_field_of_a_template_is_named_and_an_edit_puts_it_right(self):
        self.create(job("a").worker(1, template=template(comand=["sleep"])))
        self.told("a", "Invalid", "RefusedByServer", 'unknown field "spec.containers[0].comand"', "correct the fields in spec.worker.template that the API server names")
        self.assertEqual(self.condition("a", "Stalled")["reason"], "CannotCreate")
        self.assertEqual(self.row("a")["STATE"], "Invalid")
        self.api.merge(f"{JOBS}/a", {"spec": {"worker": {"template": template(command=["sleep"])}}})
        self.wait_pods("a-worker-0")
        self.wait_condition("a", "Invalid", "False")

    def test_a_label_that_is_a_number_is_named(self):
        body = template()
        body["metadata"] = {"labels": {"a": 1}}
        self.create(job("a").worker(1, template=body))
        self.told("a", "Stalled", "CannotCreate", "cannot be handled as a Pod", "labels", "correct spec.worker.template")

    def test_what_the_api_server_calls_invalid_is_named(self):
        self.create(job("a").worker(1, template=template(imagePullPolicy="Sometimes")))
        self.told("a", "Stalled", "CannotCreate", "imagePullPolicy", "Sometimes", "correct spec.worker.template")

    def test_a_missing_service_account_is_named(self):
        body = template()
        body["spec"]["serviceAccountName"] = "nobody"
        self.create(job("a").worker(1, template=body))
        self.told("a", "Stalled", "CannotCreate", 'serviceaccount "nobody" not found', "spec.worker.template.spec.serviceAccountName")

    def test_a_missing_runtime_class_and_a_gpu_that_is_only_requested_are_named(self):
        self.create(job("a").worker(1, template={"spec": {"runtimeClassName": "nvidia"}}))
        self.told("a", "Stalled", "CannotCreate", 'RuntimeClass "nvidia" not found', "kubectl get runtimeclass", "spec.worker.template.spec.runtimeClassName")
        self.create(job("b").worker(1, resources={"requests": {"nvidia.com/gpu": 1}}))
        self.told("b", "Stalled", "CannotCreate", "Limit must be set for non overcommitable resources", "name the device in the limits of spec.<role>.resources")

    def test_a_map_where_a_list_belongs_is_named_by_the_operator(self):
        self.create(job("a").worker(1, template=template(env={"LR": "0.1"})))
        self.told("a", "Invalid", "InvalidSpec", "spec.worker.template.spec.containers[0].env", '{"LR":"0.1"}', "expected a list such as")
        self.create(job("b").worker(1, template={"metadata": "x"}).set("image", "x"))
        self.told("b", "Invalid", "InvalidSpec", 'spec.worker.template.metadata: found "x"')


class StartTest(MessagesCase):
    """The kubelet's and the scheduler's words are written by the test; the waits are the operator's own."""

    def pending(self, name, status):
        self.api.merge(f"{PODS}/{name}/status", {"status": {"phase": "Pending", **status}})

    def test_a_claim_that_is_missing(self):
        self.create(job("a").worker(1).set("storage", {"claimName": "data"}))
        self.wait_pods("a-worker-0")
        self.pending("a-worker-0", {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                                                    "message": 'persistentvolumeclaim "data" not found'}]})
        self.told("a", "Stalled", "Unschedulable", 'worker-0 cannot start: no node takes it: persistentvolumeclaim "data" not found',
                  "create that PersistentVolumeClaim in namespace default")


    def test_a_gpu_that_no_node_has_free(self):
        def unschedulable(message):
            return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]}

        preemption = " no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
        self.create(job("a").worker(1, resources={"limits": {"nvidia.com/gpu": 2}}))
        self.wait_pods("a-worker-0")
        self.pending("a-worker-0", unschedulable("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient nvidia.com/gpu." + preemption))
        why = "1 of 3 nodes has a taint that the pod does not tolerate, 2 lack nvidia.com/gpu"
        wait_for("the table to say why", lambda: self.row("a")["MESSAGE"] == f"waits for worker-0; no node takes worker-0: {why}")
        self.pending("a-worker-0", unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu." + preemption))
        self.told("a", "Stalled", "Unschedulable", "worker-0 cannot start: no node takes it: all 3 nodes lack nvidia.com/gpu",
                  "it starts when other pods free nvidia.com/gpu; or request less (spec.worker.resources, spec.worker.template), or add nodes")


class EditTest(MessagesCase):
    def refused(self, change, *words, path="a"):
        with self.assertRaises(ApiError) as caught:
            self.api.merge(f"{JOBS}/{path}", {"spec": change})
        self.assertEqual(caught.exception.code, 422)
        for word in words:
            self.assertIn(word, caught.exception.message)

    def test_what_made_the_pods_of_a_running_job_is_fixed_until_it_is_suspended(self):
        self.running(job("a").ps(1).worker(1, template=template()), "a-ps-0", "a-worker-0")
        wait_for("the start time", lambda: "startTime" in self.status("a"))
        self.refused({"worker": {"template": template(image="y")}}, "spec.worker.template: Forbidden: cannot change while the job runs", "runPolicy.suspend")
        self.refused({"worker": {"restartPolicy": "Never"}}, "spec.worker.restartPolicy: Forbidden")
        self.refused({"training": {"batchSize": 7}}, "spec.training: Forbidden", "runPolicy.suspend")
        self.api.merge(f"{JOBS}/a", {"spec": {"worker": {"replicas": 2}, "runPolicy": {"backoffLimit": 1}}})
        self.wait_pods("a-ps-0", "a-worker-0", "a-worker-1")
        self.api.merge(f"{JOBS}/a", {"spec": {"runPolicy": {"suspend": True}}})
        wait_for("the start time to go", lambda: "startTime" not in self.status("a"))
        self.api.merge(f"{JOBS}/a", {"spec": {"worker": {"template": template(image="y")}}})

    def test_a_world_that_replicas_keep_in_their_environment_is_not_scaled(self):
        alone = job("a").framework("PyTorch").worker(2).policy(restartScope="Replica").set("image", "x").without("training")  # Job starts all again
        self.running(alone, "a-worker-0", "a-worker-1")
        wait_for("the start time", lambda: "startTime" in self.status("a"))
        self.refused({"worker": {"replicas": 3}}, "spec.worker.replicas: Forbidden", "framework PyTorch", "runPolicy.suspend")
        self.refused({"replicas": 3}, "spec.worker.replicas: Forbidden", path="a/scale")

    def test_a_job_of_one_process_is_not_scaled(self):
        self.running(job("a").worker(1), "a-worker-0")
        self.refused({"replicas": 2}, "spec.worker", "local trains in one worker; set training.strategy.parameterServer", path="a/scale")

    def test_a_sync_job_is_not_scaled_while_it_runs_and_an_async_one_is(self):
        def of(mode):
            return job(mode).ps(1).worker(1).training(strategy={"parameterServer": {"mode": mode}})

        self.create(of("async"))
        self.running(of("sync"), "async-ps-0", "async-worker-0", "sync-ps-0", "sync-worker-0")
        for mode in ("sync", "async"):
            wait_for("the start time", lambda mode=mode: "startTime" in self.status(mode))
        self.refused({"worker": {"replicas": 3}}, "spec.worker.replicas: Forbidden", "each step waits for the gradients of all workers", "runPolicy.suspend", path="sync")
        self.refused({"replicas": 3}, "spec.worker.replicas: Forbidden", path="sync/scale")
        self.api.merge(f"{JOBS}/async/scale", {"spec": {"replicas": 3}})
        self.api.merge(f"{JOBS}/sync", {"spec": {"runPolicy": {"suspend": True}}})
        wait_for("the start time to go", lambda: "startTime" not in self.status("sync"))
        self.api.merge(f"{JOBS}/sync/scale", {"spec": {"replicas": 3}})

    def test_a_gang_is_never_left_with_fewer_replicas_than_it_needs(self):
        self.create(job("a").worker(3).policy(suspend=True, scheduling={"gang": "Volcano", "minAvailable": 3}))
        self.refused({"worker": {"replicas": 2}}, "spec.runPolicy.scheduling.minAvailable", "lower it, or raise worker.replicas")
        self.refused({"replicas": 2}, "spec.runPolicy.scheduling.minAvailable", path="a/scale")

    def test_a_typo_in_training_is_refused_by_a_strict_client(self):
        for field, value in (("optimizer", {"name": "sgd", "learningrate": 1}), ("data", {"format": "synthetic", "dirr": "x"}),
                             ("model", {"preset": "lenet5", "clases": 3}), ("checkpoint", {"everyStep": 1})):
            with self.subTest(field), self.assertRaises(ApiError) as caught:
                self.api.request("POST", f"{JOBS}?fieldValidation=Strict", job("typo").training(**{field: value}).spec())
            self.assertEqual(caught.exception.code, 400)
            self.assertIn(f'unknown field "spec.training.{field}.', caught.exception.message)


if __name__ == "__main__":
    unittest.main()
