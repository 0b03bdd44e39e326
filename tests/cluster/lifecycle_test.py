"""The operator against a real API server: the life of jobs, with pod phases written by the test."""

import random
import unittest

from harness.events import wait_events
from harness.jobs import CONFIG_MAPS, EVENTS, JOBS, PODS, SERVICES, job
from harness.operator import Operator
from harness.wait import let_time_pass, wait_for
from operator_case import OperatorCase


class LifeTest(OperatorCase):
    def test_workers_are_created_when_all_servers_are_ready(self):
        self.create(job("a").ps(2).worker(2))
        self.wait_pods("a-ps-0", "a-ps-1")
        self.kubelet.run("a-ps-0")
        self.kubelet.run("a-ps-1", ready=False)
        self.assertEqual(self.pods(), ["a-ps-0", "a-ps-1"])
        self.kubelet.run("a-ps-1")
        self.wait_pods("a-ps-0", "a-ps-1", "a-worker-0", "a-worker-1")

    def test_start_policy_any_creates_all_at_once(self):
        self.create(job("a").ps(1).worker(2).policy(startPolicy="Any"))
        self.wait_pods("a-ps-0", "a-worker-0", "a-worker-1")

    def test_every_child_is_owned_labelled_and_reachable(self):
        uid = self.running(job("a").ps(1).worker(1), "a-ps-0", "a-worker-0")["metadata"]["uid"]
        self.assertEqual(self.services(), ["a"])
        for path in (f"{PODS}/a-ps-0", f"{SERVICES}/a", f"{CONFIG_MAPS}/a-cluster"):
            owner = self.api.get(path)["metadata"]["ownerReferences"][0]
            self.assertEqual((owner["kind"], owner["name"], owner["uid"], owner["controller"]), ("TrainingJob", "a", uid, True))
        service, pod = self.api.get(f"{SERVICES}/a"), self.api.get(f"{PODS}/a-ps-0")
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertTrue(service["spec"]["publishNotReadyAddresses"])
        self.assertEqual(service["spec"]["ports"][0]["port"], 5000)
        self.assertEqual(pod["metadata"]["labels"].items() & service["spec"]["selector"].items(), service["spec"]["selector"].items())
        self.assertEqual((pod["spec"]["hostname"], pod["spec"]["subdomain"]), ("a-ps-0", "a"))
        environment = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
        self.assertEqual((environment["TRAINYARD_ROLE"], environment["TRAINYARD_INDEX"]), ("ps", "0"))

    def test_host_lists_name_every_replica(self):
        self.running(job("a").ps(1).worker(2), "a-ps-0", "a-worker-0", "a-worker-1")
        hosts = self.hosts("a")
        self.assertEqual(hosts["ps_hosts"], "a-ps-0.a.default.svc:5000")
        self.assertEqual(hosts["worker_hosts"], "a-worker-0.a.default.svc:5000,a-worker-1.a.default.svc:5000")
        self.assertEqual(hosts["hostfile"], "a-worker-0.a.default.svc slots=1\na-worker-1.a.default.svc slots=1\n")

    def test_each_replica_has_a_service_where_the_job_says_so(self):
        self.running(job("a").ps(1).worker(1).set("network", {"services": "PerReplica"}), "a-ps-0", "a-worker-0")
        self.assertEqual(self.services(), ["a-ps-0", "a-worker-0"])
        self.assertEqual(self.hosts("a")["ps_hosts"], "a-ps-0.default.svc:5000")
        service, pod = self.api.get(f"{SERVICES}/a-ps-0"), self.api.get(f"{PODS}/a-ps-0")
        self.assertEqual(pod["metadata"]["labels"].items() & service["spec"]["selector"].items(), service["spec"]["selector"].items())
        self.assertNotIn("subdomain", pod["spec"])

    def test_the_chiefs_success_is_the_jobs_and_servers_are_stopped(self):
        self.running(job("a").ps(1).worker(2), "a-ps-0", "a-worker-0", "a-worker-1")
        self.kubelet.succeed("a-worker-0")
        self.wait_condition("a", "Succeeded")
        self.assertEqual(self.pods(), ["a-ps-0", "a-worker-0", "a-worker-1"], "the others have time to end by themselves")
        self.wait_pods("a-worker-0")
        status = self.status("a")
        self.assertEqual(status["phase"], "Succeeded")
        self.assertIn("completionTime", status)
        self.assertEqual(self.condition("a", "Running")["status"], "False")

    def test_replicas_that_end_after_the_chief_keep_their_pods_and_are_counted(self):
        self.running(job("a").ps(1).worker(2), "a-ps-0", "a-worker-0", "a-worker-1")
        self.kubelet.succeed("a-worker-0")
        self.wait_condition("a", "Succeeded")
        self.kubelet.succeed("a-worker-1", "a-ps-0")
        wait_for("the counts of the end", lambda: self.status("a")["replicaStatuses"]["worker"].get("succeeded") == 2)
        counts = self.status("a")["replicaStatuses"]
        self.assertEqual([(role, counts[role].get("active", 0), counts[role].get("ready", 0)) for role in ("ps", "worker")], [("ps", 0, 0), ("worker", 0, 0)])
        self.assertEqual(self.pods(), ["a-ps-0", "a-worker-0", "a-worker-1"])

    def test_all_workers_policy_waits_for_all(self):
        self.running(job("a").worker(2).policy(successPolicy="AllWorkers"), "a-worker-0", "a-worker-1")
        self.kubelet.succeed("a-worker-0")
        wait_for("the first success to be counted", lambda: self.status("a")["replicaStatuses"]["worker"].get("succeeded") == 1)
        self.assertEqual(self.condition("a", "Succeeded")["status"], "Absent")
        self.kubelet.succeed("a-worker-1")
        self.wait_condition("a", "Succeeded")

    def test_clean_pod_policy_all_takes_every_child(self):
        self.running(job("a").ps(1).worker(1).policy(cleanPodPolicy="All"), "a-ps-0", "a-worker-0")
        self.kubelet.succeed("a-worker-0")
        self.wait_condition("a", "Succeeded")
        self.wait_pods()
        wait_for("services and ConfigMap to go", lambda: not self.services() and not self.api.exists(f"{CONFIG_MAPS}/a-cluster"))

    def test_clean_pod_policy_none_keeps_all_but_the_servers(self):
        self.running(job("a").ps(1).worker(2).policy(cleanPodPolicy="None"), "a-ps-0", "a-worker-0", "a-worker-1")
        self.kubelet.succeed("a-worker-0")
        self.wait_condition("a", "Succeeded")
        self.wait_pods("a-worker-0", "a-worker-1")

    def test_time_to_live_deletes_the_job_and_its_children(self):
        self.running(job("a").worker(1).policy(ttlSecondsAfterFinished=1), "a-worker-0")
        self.kubelet.succeed("a-worker-0")
        wait_for("the job to be deleted", lambda: not self.api.exists(f"{JOBS}/a"))
        self.wait_pods()

    def test_a_time_to_live_of_zero_deletes_the_job_at_its_end_and_tells_the_end_before(self):
        self.running(job("a").worker(1).policy(ttlSecondsAfterFinished=0), "a-worker-0")
        self.kubelet.succeed("a-worker-0")
        wait_for("the job to be deleted", lambda: not self.api.exists(f"{JOBS}/a"))
        self.wait_pods()
        self.wait_event("Succeeded")

    def test_a_deadline_needs_no_event_from_outside(self):
        self.running(job("a").ps(1).worker(1).policy(activeDeadlineSeconds=2), "a-ps-0", "a-worker-0")
        self.wait_condition("a", "Failed", reason="DeadlineExceeded")
        self.wait_pods()


class FailureTest(OperatorCase):
    def test_a_failed_pod_is_made_again_and_counted(self):
        self.running(job("a").ps(1).worker(1), "a-ps-0", "a-worker-0")
        first = self.uid("a-worker-0")
        self.kubelet.fail("a-worker-0", code=137)
        wait_for("a new pod", lambda: self.uid("a-worker-0") != first)
        wait_for("the restart to be counted", lambda: self.status("a").get("restarts") == 1)
        self.kubelet.run("a-worker-0")
        self.wait_condition("a", "Running")

    def test_never_fails_the_job_and_keeps_the_failure(self):
        self.running(job("a").ps(1).worker(2, restartPolicy="Never"), "a-ps-0", "a-worker-0", "a-worker-1")
        self.kubelet.fail("a-worker-1", code=3, message="ValueError: shapes differ")
        self.wait_condition("a", "Failed")
        failure = self.status("a")["failure"]
        self.assertEqual((failure["replica"], failure["pod"], failure["exitCode"]), ("worker-1", "a-worker-1", 3))
        self.assertIn("ValueError: shapes differ", failure["message"])
        self.wait_pods("a-worker-1")

    def test_exit_codes_decide(self):
        policy = {"exitCodes": [{"from": 42, "to": 42, "action": "Ignore"}, {"from": 1, "to": 127, "action": "Fail"}]}
        self.running(job("a").worker(1, restartPolicy="ExitCode").policy(**policy), "a-worker-0")
        first = self.uid("a-worker-0")
        self.kubelet.fail("a-worker-0", code=42)
        wait_for("a new pod", lambda: self.uid("a-worker-0") != first)
        self.assertFalse(self.status("a").get("restarts"))
        self.kubelet.run("a-worker-0")
        self.kubelet.fail("a-worker-0", code=2)
        self.wait_condition("a", "Failed")

    def test_rules_see_every_container_and_the_conditions_of_a_pod(self):
        rules = [{"action": "Ignore", "onExitCodes": {"containerName": "fetch", "operator": "In", "values": [7]}},
                 {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget"}]},
                 {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [7]}}]
        containers = {"initContainers": [{"name": "fetch", "image": "x"}], "containers": [{"name": "trainer", "image": "x"}]}
        self.running(job("a").framework("None").without("training").worker(1, template={"spec": containers}).policy(podFailurePolicy={"rules": rules}), "a-worker-0")
        self.assertEqual(self.api.get(f"{PODS}/a-worker-0")["spec"]["restartPolicy"], "Never", "of OnFailure: rules decide, not the kubelet")

        def made_again(end):
            first = self.uid("a-worker-0")
            end()
            wait_for("a new pod", lambda: self.api.exists(f"{PODS}/a-worker-0") and self.uid("a-worker-0") != first)
            self.kubelet.run("a-worker-0")

        ended = {"name": "fetch", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": {"terminated": {"exitCode": 7, "reason": "Error"}}}
        made_again(lambda: self.api.merge(f"{PODS}/a-worker-0/status", {"status": {"phase": "Failed", "initContainerStatuses": [ended]}}))
        self.assertIn("rules[0] says Ignore: init container fetch ended with exit code 7", self.wait_event("Disrupted")["note"])
        self.assertEqual((self.status("a").get("restarts", 0), self.status("a")["disruptions"]), (0, 1))
        made_again(lambda: self.kubelet.evict("a-worker-0"))
        self.assertIn("rules[1] says Count: its condition DisruptionTarget is True", self.wait_event("Restarting")["note"])
        self.assertEqual((self.status("a")["restarts"], self.status("a")["disruptions"]), (1, 1))
        self.kubelet.fail("a-worker-0", code=42)
        self.assertIn("rules[2] says FailJob: container trainer ended with exit code 42", self.wait_condition("a", "Failed", reason="PodFailurePolicy")["message"])

    def test_backoff_limit_counts_over_recreated_pods(self):
        self.running(job("a").worker(1, restartPolicy="ExitCode").policy(backoffLimit=1), "a-worker-0")
        first = self.uid("a-worker-0")
        self.kubelet.fail("a-worker-0", code=137)
        wait_for("a new pod", lambda: self.uid("a-worker-0") != first)
        self.kubelet.fail("a-worker-0", code=137)
        self.wait_condition("a", "Failed", reason="BackoffLimitExceeded")

    def test_a_failure_of_one_pytorch_replica_recreates_all_and_counts_once(self):
        names = ("a-worker-0", "a-worker-1", "a-worker-2")
        self.running(job("a").framework("PyTorch").set("image", "x").without("training").worker(3), *names)
        first = {name: self.uid(name) for name in names}
        self.assertEqual(self.api.get(f"{PODS}/a-worker-0")["spec"]["restartPolicy"], "Never")
        self.api.merge(f"{PODS}/a-worker-2", {"metadata": {"finalizers": ["example.com/slow"]}})
        self.kubelet.fail("a-worker-1", code=1, message="ProcessGroupGloo: connection reset")
        wait_for("the others to be deleted", lambda: not self.api.exists(f"{PODS}/a-worker-0") and not self.api.exists(f"{PODS}/a-worker-1"))
        let_time_pass(2)
        self.assertEqual([each["metadata"]["name"] for each in self.api.list(PODS)], ["a-worker-2"], "an old pod is still there")
        self.api.merge(f"{PODS}/a-worker-2", {"metadata": {"finalizers": None}})
        wait_for("three new pods", lambda: self.pods() == sorted(names) and all(self.uid(name) != first[name] for name in names))
        self.kubelet.run(*names)
        self.wait_condition("a", "Running")
        status = self.status("a")
        self.assertEqual((status["restarts"], status.get("disruptions", 0), status["failure"]["replica"]), (1, 0, "worker-1"))

    def test_restarts_by_the_kubelet_count_too(self):
        self.running(job("a").worker(1, restartPolicy="OnFailure").policy(backoffLimit=2), "a-worker-0")
        self.kubelet.run("a-worker-0", restarts=2)
        wait_for("both to be counted", lambda: self.status("a").get("restarts") == 2)
        self.assertEqual(self.condition("a", "Failed")["status"], "Absent")
        self.kubelet.run("a-worker-0", restarts=3)
        self.wait_condition("a", "Failed", reason="BackoffLimitExceeded")

    def test_an_absent_peer_spends_nothing_in_place_or_by_a_new_pod(self):
        self.running(job("a").worker(2, restartPolicy="OnFailure").policy(backoffLimit=0), "a-worker-0", "a-worker-1")
        self.kubelet.run("a-worker-1", restarts=4, last_code=200)
        wait_for("the restarts to be seen", lambda: self.status("a").get("disruptions") == 4)
        self.assertFalse(self.status("a").get("restarts"))
        self.running(job("b").worker(1).policy(backoffLimit=0), "a-worker-0", "a-worker-1", "b-worker-0")
        first = self.uid("b-worker-0")
        self.kubelet.fail("b-worker-0", code=200)
        wait_for("a new pod", lambda: self.uid("b-worker-0") != first)
        self.assertFalse(self.status("b").get("restarts"))
        self.kubelet.fail("b-worker-0", code=1, message="loading\ncannot open data: No such file")
        self.assertTrue(self.wait_condition("b", "Failed", reason="ExitCode")["message"].endswith("cannot open data: No such file"))

    def test_peers_that_have_ended_start_again_for_a_chief_that_was_lost_after_its_goodbye(self):
        self.running(job("a").ps(1).worker(2), "a-ps-0", "a-worker-0", "a-worker-1")
        first = {name: self.uid(name) for name in ("a-ps-0", "a-worker-0", "a-worker-1")}
        self.kubelet.fail("a-worker-0", code=137)
        wait_for("a new chief", lambda: self.uid("a-worker-0") != first["a-worker-0"])
        self.kubelet.run("a-worker-0")
        self.kubelet.succeed("a-worker-1")
        self.kubelet.succeed("a-ps-0", seconds_ago=31)
        for name in ("a-ps-0", "a-worker-1"):  # in the order of any start
            wait_for(f"another {name}", lambda name=name: self.uid(name) != first[name])
            self.kubelet.run(name)
        self.assertEqual(self.status("a")["restarts"], 1)
        self.assertFalse(self.status("a").get("disruptions"))
        self.assertEqual(len(wait_events(self.api, "Restarting", "because worker-0 still needs it", count=2)), 2)
        self.kubelet.succeed("a-worker-0")
        self.wait_condition("a", "Succeeded")

    def test_a_job_whose_workers_never_ran_is_pending_after_its_server_restarted(self):
        self.create(job("a").ps(1, restartPolicy="OnFailure").worker(1))
        self.wait_pods("a-ps-0")
        self.kubelet.run("a-ps-0")
        self.wait_pods("a-ps-0", "a-worker-0")
        self.kubelet.run("a-ps-0", ready=False, restarts=1, last_code=200)
        wait_for("the restart to be told", lambda: self.status("a").get("phase") == "Restarting")
        self.kubelet.run("a-ps-0", restarts=1, last_code=200)
        wait_for("the server to be counted as ready", lambda: self.status("a")["replicaStatuses"]["ps"].get("ready") == 1)
        self.assertEqual(self.status("a")["phase"], "Pending")
        self.assertIn("waits for worker-0", self.condition("a", "Restarting")["message"])

    def test_children_that_a_finalizer_keeps_are_waited_for_without_a_request(self):
        self.running(job("a").worker(2).framework("None").set("image", "x").without("training").set("network", {"services": "PerReplica"}),
                     "a-worker-0", "a-worker-1")
        held = (f"{PODS}/a-worker-1", f"{SERVICES}/a-worker-1")
        for path in held:
            self.api.merge(path, {"metadata": {"finalizers": ["example.com/hold"]}})
        self.addCleanup(lambda: [self.api.merge(path, {"metadata": {"finalizers": None}}) for path in held if self.api.exists(path)])
        self.kubectl("scale", "tj/a", "--replicas=1")
        for path in held:
            wait_for(f"{path} to be Terminating", lambda path=path: "deletionTimestamp" in self.api.get(path)["metadata"])

        def quiet():
            before = self.operator.requests()
            let_time_pass(2.0)
            assert self.operator.requests() == before, "requests went out"
            return True

        wait_for("no more requests", quiet, 20.0)
        wait_for("the status to name the finalizer", lambda: "its finalizers are example.com/hold" in self.condition("a", "Stalled")["message"], 60.0)

    def test_an_eviction_spends_nothing(self):
        self.running(job("a").worker(1, restartPolicy="Never").policy(backoffLimit=0), "a-worker-0")
        first = self.uid("a-worker-0")
        self.kubelet.evict("a-worker-0")
        wait_for("a new pod", lambda: self.uid("a-worker-0") != first)
        self.assertFalse(self.status("a").get("restarts"))
        self.assertEqual(self.condition("a", "Failed")["status"], "Absent")

    def test_a_pod_deleted_from_outside_comes_back(self):
        self.running(job("a").ps(1).worker(1).policy(backoffLimit=0), "a-ps-0", "a-worker-0")
        first = self.uid("a-ps-0")
        self.api.delete(f"{PODS}/a-ps-0", grace_seconds=0)
        wait_for("a new pod", lambda: self.api.exists(f"{PODS}/a-ps-0") and self.uid("a-ps-0") != first)
        self.assertFalse(self.status("a").get("restarts"))

    def test_children_deleted_or_edited_by_hand_are_mended(self):
        self.running(job("a").ps(1).worker(1), "a-ps-0", "a-worker-0")
        good = self.hosts("a")
        self.api.delete(f"{SERVICES}/a")
        wait_for("the service to come back", lambda: self.services() == ["a"])
        self.api.merge(f"{CONFIG_MAPS}/a-cluster", {"data": {"worker_hosts": "evil:1", "more": "x"}})
        wait_for("the host lists to be mended", lambda: self.hosts("a") == good)
        self.api.delete(f"{CONFIG_MAPS}/a-cluster")
        wait_for("the ConfigMap to come back", lambda: self.api.exists(f"{CONFIG_MAPS}/a-cluster") and self.hosts("a") == good)


class OwnershipTest(OperatorCase):
    def test_a_foreign_pod_of_a_childs_name_is_reported_and_left_alone(self):
        foreign = self.api.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a-worker-0"},
                                         "spec": {"containers": [{"name": "mine", "image": "x"}]}})
        self.create(job("a").worker(2))
        wait_for("the rest to go on", lambda: "a-worker-1" in self.pods())

        def told():
            text = str(self.status("a").get("conditions")) + str([each["note"] for each in self.api.list(EVENTS) if each["type"] == "Warning"])
            assert "a-worker-0" in text, text
            return True

        wait_for("a condition and a warning that name the pod", told)
        self.assertEqual(self.uid("a-worker-0"), foreign["metadata"]["uid"])
        self.assertNotIn("ownerReferences", self.api.get(f"{PODS}/a-worker-0")["metadata"])

    def test_an_orphan_of_the_job_is_adopted(self):
        self.running(job("a").worker(1), "a-worker-0")
        first = self.uid("a-worker-0")
        self.operator.stop()
        self.api.merge(f"{PODS}/a-worker-0", {"metadata": {"ownerReferences": None}})
        self.operator.start()
        wait_for("the pod to be adopted", lambda: self.api.get(f"{PODS}/a-worker-0")["metadata"].get("ownerReferences"))
        self.assertEqual(self.uid("a-worker-0"), first)

    def test_a_job_of_another_manager_is_left_alone(self):
        self.create(job("other").worker(1).set("managedBy", "kueue.x-k8s.io/multikueue"))
        self.create(job("ours").worker(1))
        self.wait_pods("ours-worker-0")
        self.assertEqual(self.status("other"), {})

    def test_a_job_that_makes_no_sense_says_which_field(self):
        body = job("a").worker(1).training(modle={"preset": "lenet5"}).spec()
        body["spec"]["training"]["data"]["dirr"] = "x"
        body["spec"]["worker"]["template"] = {"spec": {"containers": []}}
        self.api.create(JOBS, body)
        found = self.wait_condition("a", "Invalid")
        self.assertIn("spec.worker.template.spec.containers", found["message"])
        self.assertEqual(self.pods(), [])
        # This client does not ask for strict field validation, so the server has dropped what it does not know.
        kept = self.api.get(f"{JOBS}/a")["spec"]["training"]
        self.assertEqual((sorted(kept), sorted(kept["data"])), (["data", "epochs", "model"], ["format"]))

    def test_a_deleted_job_leaves_nothing(self):
        self.running(job("a").ps(1).worker(1), "a-ps-0", "a-worker-0")
        self.api.delete(f"{JOBS}/a")
        # The cluster's garbage collector learns of new kinds every 30 s.
        self.wait_pods(seconds=90.0)
        wait_for("services and ConfigMap to go", lambda: not self.services() and not self.api.exists(f"{CONFIG_MAPS}/a-cluster"), 40.0)


class OperatorTest(OperatorCase):
    def test_a_quiet_job_costs_no_requests(self):
        self.running(job("a").ps(1).worker(1).policy(startPolicy="Any").framework("None").set("image", "x").without("training"), "a-ps-0", "a-worker-0")
        version = self.api.get(f"{JOBS}/a")["metadata"]["resourceVersion"]

        def still():
            before = self.operator.requests()
            let_time_pass(3.0)
            assert self.operator.requests() == before, "requests went out"
            return True

        wait_for("the operator to be quiet", still, 30.0)
        self.assertEqual(self.api.get(f"{JOBS}/a")["metadata"]["resourceVersion"], version)

    def test_killed_at_random_moments_it_ends_with_the_same_objects(self):
        chance = random.Random(20)
        for round_number in range(6):
            name = f"k{round_number}"
            with self.subTest(name):
                self._live_through_kills(name, chance)

    def _live_through_kills(self, name, chance):
        pods = [f"{name}-ps-0", f"{name}-worker-0", f"{name}-worker-1"]

        def kill():
            let_time_pass(chance.uniform(0.0, 0.15))
            self.operator.kill()
            self.operator.start(wait=False)

        self.create(job(name).ps(1).worker(2))
        kill()
        wait_for("the server's pod", lambda: pods[0] in self.pods())
        self.kubelet.run(pods[0])
        kill()
        wait_for("all pods", lambda: set(pods) <= set(self.pods()))
        self.kubelet.run(*pods[1:])
        self.wait_condition(name, "Running")
        self.kubelet.succeed(*pods)
        kill()
        self.wait_condition(name, "Succeeded")
        wait_for("all ends to be counted", lambda: self.status(name)["replicaStatuses"]["worker"].get("succeeded") == 2)
        self.assertEqual([pod for pod in self.pods() if pod.startswith(f"{name}-")], pods)
        self.assertFalse(self.status(name).get("restarts"))
        self.assertEqual(self.services(), [name])
        self.api.delete(f"{JOBS}/{name}")
        self.wait_pods()
        wait_for("the services to go", lambda: not self.services())

    def test_killed_in_the_middle_of_a_suspend_or_a_resume_it_carries_it_through(self):
        chance = random.Random(21)
        pods = ["a-ps-0", "a-worker-0", "a-worker-1"]
        self.running(job("a").ps(1).worker(2).policy(startPolicy="Any"), *pods)
        for _ in range(4):
            for suspend in (True, False):
                self.api.merge(f"{JOBS}/a", {"spec": {"runPolicy": {"suspend": suspend}}})
                let_time_pass(chance.uniform(0.0, 0.05))
                self.operator.kill()
                self.operator.start(wait=False)
                if suspend:
                    self.wait_condition("a", "Suspended")
                    self.wait_pods()
                else:
                    self.wait_pods(*pods)
                    self.kubelet.run(*pods)
                    self.wait_condition("a", "Running")
        status = self.status("a")
        self.assertEqual((status.get("restarts", 0), status.get("disruptions", 0)), (0, 0), status)

    def test_it_survives_an_api_server_that_goes_away(self):
        self.running(job("a").ps(1).worker(1), "a-ps-0", "a-worker-0")
        self.plane.restart("kube-apiserver")
        wait_for("the API server to answer again", lambda: self.api.text("GET", "/readyz") == "ok", 60.0)
        self.assertTrue(self.operator.alive())
        self.create(job("b").worker(1))
        wait_for("the next job's pod", lambda: "b-worker-0" in self.pods(), 60.0)
        self.kubelet.succeed("a-worker-0")
        self.wait_condition("a", "Succeeded", seconds=60.0)

    def test_health_readiness_and_metrics_are_served(self):
        self.assertEqual((self.operator.status("/healthz"), self.operator.status("/readyz")), (200, 200))
        self.assertIn("trainyard_", self.operator.page("/metrics"))


class LeaderTest(OperatorCase):
    flags = {"leader-elect": "true", "leader-elect-namespace": "default"}

    def test_one_of_two_operators_acts_and_the_other_takes_over(self):
        second = Operator(self.plane, name="second", **self.flags).start(wait=False)
        self.addCleanup(second.stop)
        self.running(job("a").worker(1), "a-worker-0")
        lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/trainyard-operator"
        first_holder = self.api.get(lease)["spec"]["holderIdentity"]
        self.operator.kill()
        wait_for("the lease to change hands", lambda: self.api.get(lease)["spec"]["holderIdentity"] not in ("", first_holder), 60.0)
        self.create(job("b").worker(1))
        wait_for("the second one to act", lambda: "b-worker-0" in self.pods(), 30.0)


if __name__ == "__main__":
    unittest.main()
