"""Trainyard on a real node: images built, the operator installed by Helm, LeNet-5 trained by pods, and what happens when things die.

Started outside, it builds the images and goes into a sandbox (harness/sandbox.py); there it starts the cluster and runs the cases in order.
"""

import gzip
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile
import urllib.request

import yaml
from harness import images, node, places
from harness.control_plane import free_port
from harness.jobs import CONFIG_MAPS, EVENTS, JOBS, PODS, SERVICES, job
from harness.kube import ApiError
from harness.node_suite import OPERATOR_NAMESPACE, NodeSuite, main, program
from harness.suite import skip_or_fail
from harness.wait import let_time_pass

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


class TrainingTest(NodeSuite):
    """Cases run in the order of their names' numbers."""

    def begin_waits(self, *judged):
        """Starts the jobs of all cases that mostly wait, once, so that they wait beside each other. The calling case judges some of them."""
        if self.ahead is None:
            type(self).ahead = {"patient", "in-place", "made-again", "wrong"}
            silent = [f"training.timeouts.{wait}=2" for wait in ("peer", "connect", "input", "silence", "hello")]
            self.install("patient", "worker.replicas=1", "ps.replicas=1", "runPolicy.startPolicy=Any", "runPolicy.backoffLimit=0", *silent,
                         "worker.template.spec.nodeSelector.no=such-node")
            server = {"name": "s", "image": images.TRAINER, "imagePullPolicy": "Never", "command": ["sh", "-c", "sleep 2; exit 200"]}
            for name, policy in (("in-place", "OnFailure"), ("made-again", "ExitCode")):
                body = job(name).framework("None").without("training").policy(backoffLimit=0)
                body.ps(1, restartPolicy=policy, template={"spec": {"containers": [server]}})
                body.worker(1, template={"spec": {"containers": [{**server, "name": "w"}], "nodeSelector": {"no": "such-node"}}})
                self.api.create(JOBS, body.spec())
            self.install("wrong", "worker.replicas=1", "ps.replicas=0", "training.strategy=null", "image=localhost/no-such-image:1")
        self.ahead.difference_update(judged)

    def environment(self):
        return {**os.environ, "PATH": f"{places.REPOSITORY / 'plugin'}:{places.BIN}:{os.environ['PATH']}", "KUBECONFIG": str(self.plane.kubeconfig)}

    def plugin(self, *argv):
        return subprocess.check_output([places.BIN / "kubectl", "trainyard", *argv], text=True, timeout=240, env=self.environment())

    def test_01_images_are_small_and_say_their_commit(self):
        self.assertLessEqual(self.built["sizes"]["operator"], 60e6)
        repositories = {"operator": images.OPERATOR, "trainer": images.TRAINER}
        for name, repository in repositories.items():
            self.addCleanup(self.api.delete, f"{PODS}/{name}", grace_seconds=0)
            self.api.create(PODS, {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"restartPolicy": "Never", "securityContext": {"runAsNonRoot": True}, "containers": [
                    {"name": "c", "image": repository, "imagePullPolicy": "Never", "args": ["--version"], "securityContext": {"readOnlyRootFilesystem": True}}]}})
        for name in repositories:
            self.wait(f"{name} --version", lambda name=name: self.api.get(f"{PODS}/{name}")["status"]["phase"] == "Succeeded")
            self.assertEqual(self.kubectl("logs", name), self.built["versions"][name])
            self.assertRegex(self.built["versions"][name], r"\([0-9a-f]{12}\)")

    def test_02_the_example_trains_unchanged(self):
        self.kubectl("apply", "-f", places.REPOSITORY / "examples/lenet5-ps.yaml")
        name = self.api.list(JOBS)[0]["metadata"]["name"]
        self.wait("the example to succeed", lambda: self.is_true(name, "Succeeded"), 300.0)
        progress = self.status(name)["progress"]
        self.assertGreater(progress["metrics"]["accuracy"], 0.9)
        self.assertEqual(progress["percent"], 100)
        self.assertIn("Succeeded", self.kubectl("get", "tj", name))
        self.assertIn("Succeeded", self.kubectl("describe", "tj", name))
        self.assertIn("accuracy 0.9", self.kubectl("get", "tj", name, "-o", "wide"))
        self.assert_ended_well(name, 2)

    def test_03_the_chart_trains_and_leaves_finished_pods_with_their_logs(self):
        self.install("mnist", "worker.replicas=2", "ps.replicas=1")
        self.wait("mnist to succeed", lambda: self.is_true("mnist", "Succeeded"), 300.0)
        self.assertGreater(self.status("mnist")["progress"]["metrics"]["accuracy"], 0.85)
        self.assert_ended_well("mnist", 2)
        self.tool("helm4", "uninstall", "mnist")

    def test_03_b_the_image_reads_parquet_files(self):
        if not program("trainer", "trainer").with_name("trainyard-parquet.so").exists():
            skip_or_fail(["Arrow; run scripts/venv.sh trainer/data/parquet/requirements.txt and build again"])
        folder = self.claim("tables")
        shutil.copy(places.REPOSITORY / "tests/golden/data/binary.parquet", folder)
        data = {"format": "parquet", "dir": "/data", "train": {"files": ["binary.parquet"]}, "features": {"image": "image", "label": "label"}}
        model = {"input": {"shape": [1, 2, 3]}, "layers": [{"flatten": {}}, {"dense": {"units": 3}}], "loss": "softmaxCrossEntropy"}
        self.api.create(JOBS, job("tables").worker(1).set("storage", {"claimName": "tables", "mountPath": "/data"}).set(
            "training", {"model": model, "data": data, "batchSize": 2, "epochs": 2, "strategy": {"local": {}}}).spec())
        self.addCleanup(self.api.delete, f"{JOBS}/tables")
        self.wait("tables to succeed", lambda: self.is_true("tables", "Succeeded"), 120)
        self.assertIn("binary.parquet", self.kubectl("logs", "tables-worker-0"))

    def test_03_c_a_job_is_followed_to_its_end_by_the_plugin_and_seen_on_the_page(self):
        self.install("seen", "worker.replicas=2", "ps.replicas=1", "training.epochs=3")
        followed = self.plugin("logs", "--all", "--follow", "seen")
        self.is_true("seen", "Succeeded")
        for replica in ("ps-0", "worker-0", "worker-1"):
            self.assertRegex(followed, f"(?m)^{replica} *[|] .")
        loss = self.status("seen")["progress"]["loss"]
        self.assertIn("loss", self.plugin("curve", "seen").splitlines()[0])
        self.assertIn("Succeeded", self.plugin("why", "seen"))
        self.assertRegex(self.plugin("top"), r"seen +Succeeded")
        port = free_port("127.0.0.1")
        with subprocess.Popen([places.BIN / "kubectl", "-n", OPERATOR_NAMESPACE, "port-forward", "deployment/trainyard-operator", f"{port}:8081"], env=self.environment(),
                              stdout=subprocess.DEVNULL) as forward:
            self.addCleanup(forward.kill)

            def page():
                with urllib.request.urlopen(f"http://localhost:{port}/api/v1/jobs/default/seen", timeout=5) as answer:
                    return json.load(answer)

            seen = self.wait("the page through port-forward", page)
            forward.terminate()
        self.assertEqual((seen["summary"]["phase"], seen["summary"]["loss"]), ("Succeeded", loss))
        self.assertEqual({row["node"] for row in seen["replicas"]}, {node.NAME})

    def test_04_scaling_while_it_trains(self):
        self.long_job("scaled", 2, "training.strategy.parameterServer.mode=async")
        self.kubectl("scale", "tj/scaled", "--replicas=3")
        self.wait_running("scaled", 3)
        self.wait_progress("scaled")
        self.kubectl("scale", "tj/scaled", "--replicas=1")
        self.wait("two workers to go", lambda: self.pods() == ["scaled-ps-0", "scaled-worker-0"])
        self.wait_running("scaled", 1)
        self.wait_progress("scaled")

        def follows():
            inside = self.kubectl("exec", "scaled-worker-0", "--", "cat", "/etc/trainyard/worker_hosts")
            assert inside == "scaled-worker-0.scaled.default.svc:5000", inside
            return True

        self.wait("the host list inside the running pod to follow", follows)
        self.assertFalse(self.status("scaled").get("restarts"))

    def test_05_a_sync_job_is_scaled_while_it_is_suspended(self):
        folder = self.claim("steps")
        self.long_job("in-step", 1, "storage.claimName=steps", "training.checkpoint.everySteps=20")
        with self.assertRaisesRegex(AssertionError, "each step waits for the gradients of all workers"):
            self.kubectl("scale", "tj/in-step", "--replicas=2")
        self.wait("a checkpoint", lambda: self.step("in-step") > 40)
        self.api.merge(f"{JOBS}/in-step", {"spec": {"runPolicy": {"suspend": True}}})
        self.wait("the job to be suspended", lambda: self.is_true("in-step", "Suspended"))
        self.wait("the pods to have ended", lambda: not [pod for pod in self.api.list(PODS) if pod["metadata"]["name"].startswith("in-step-")])
        before = max(int(path.name.removeprefix("step-")) for path in folder.glob("**/checkpoints/step-*"))
        self.wait("status to have the step that the job goes on from", lambda: self.step("in-step") == before)
        self.kubectl("scale", "tj/in-step", "--replicas=2")
        self.api.merge(f"{JOBS}/in-step", {"spec": {"runPolicy": {"suspend": False}}})
        self.wait_running("in-step", 2)
        self.wait(f"in-step to train on from step {before}", lambda: self.step("in-step") > before)
        self.assertFalse(self.status("in-step").get("restarts"))
        self.api.delete(f"{JOBS}/in-step")
        self.wait("the pods to go", lambda: self.pods() == [])

    def test_06_a_killed_worker_comes_back(self):
        self.long_job("worker-dies", 2)
        self.kill_container("worker-dies-worker-1")
        self.wait("the restart to be counted", lambda: self.status("worker-dies").get("restarts", 0) >= 1)
        self.wait_running("worker-dies", 2)
        self.wait_progress("worker-dies")
        before = self.api.get(f"{PODS}/worker-dies-worker-0")["metadata"]["uid"]
        self.api.delete(f"{PODS}/worker-dies-worker-0", grace_seconds=0)
        self.wait("the chief's pod to be made again", lambda: self.api.exists(f"{PODS}/worker-dies-worker-0")
                  and self.api.get(f"{PODS}/worker-dies-worker-0")["metadata"]["uid"] != before)
        self.wait_running("worker-dies", 2)
        self.wait_progress("worker-dies")

    def test_06_b_an_all_reduce_without_a_claim_outlives_its_chief_s_pod(self):
        name = "chief-dies"
        self.long_job(name, 2, "ps.replicas=0", "training.strategy.parameterServer=null", "training.strategy.allReduce.algorithm=auto")
        self.wait("a hundred steps", lambda: self.step(name) > 100)
        step, before = self.step(name), self.api.get(f"{PODS}/{name}-worker-0")["metadata"]["uid"]
        self.api.delete(f"{PODS}/{name}-worker-0", grace_seconds=0)
        self.wait("the chief's pod to be made again", lambda: self.api.exists(f"{PODS}/{name}-worker-0")
                  and self.api.get(f"{PODS}/{name}-worker-0")["metadata"]["uid"] != before)
        self.wait_running(name, 2)
        self.wait_progress(name)
        log = self.kubectl("logs", f"{name}-worker-0")
        self.assertIn("takes the start values", log)  # no checkpoint came along
        taken = re.search(r"worker 1 has the parameters of step (\d+): the training goes on from there", log)
        self.assertTrue(taken, log)
        self.assertGreaterEqual(int(taken[1]), step)

    def test_07_a_killed_server_comes_back(self):
        self.long_job("server-dies", 2, "training.checkpoint.everySteps=50")
        self.kill_container("server-dies-ps-0")
        self.wait("the restart to be counted", lambda: self.status("server-dies").get("restarts", 0) >= 1)
        self.wait_running("server-dies", 2, 180.0)
        self.wait_progress("server-dies", 180.0)

    def test_08_suspend_and_resume(self):
        self.long_job("sleeper", 1)
        self.api.merge(f"{JOBS}/sleeper", {"spec": {"runPolicy": {"suspend": True}}})
        self.wait("the pods to go", lambda: self.pods() == [])
        self.wait("the job to be suspended", lambda: self.is_true("sleeper", "Suspended"))
        self.api.merge(f"{JOBS}/sleeper", {"spec": {"runPolicy": {"suspend": False}}})
        self.wait_running("sleeper", 1)
        self.wait_progress("sleeper")

    def test_09_the_operator_dies_at_random_moments(self):
        chance = random.Random(9)
        self.install("survivor", "worker.replicas=2", "ps.replicas=1", "training.epochs=6")
        operators = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods"
        for _ in range(5):
            let_time_pass(chance.uniform(0.2, 3.0))
            for each in self.api.list(operators):
                self.api.delete(f"{operators}/{each['metadata']['name']}", grace_seconds=0)
        self.wait("survivor to succeed", lambda: self.is_true("survivor", "Succeeded"), 300.0)
        self.assertFalse(self.status("survivor").get("restarts"))
        self.assertGreater(self.status("survivor")["progress"]["metrics"]["accuracy"], 0.85)

    def test_10_a_job_over_tls_trains_with_keys_that_lie_in_its_secret(self):
        chart = places.REPOSITORY / "charts/trainyard-operator"
        self.install("before", "worker.replicas=1", "network.tls=true", "training.epochs=1")
        self.wait("the job to be told what is missing", lambda: "secrets.enabled=true" in self.status("before").get("message", ""))
        self.tool("helm4", "upgrade", "trainyard", chart, "--namespace", OPERATOR_NAMESPACE, "--set", "secrets.enabled=true", "--wait", "--timeout", "90s")
        self.addCleanup(self.tool, "helm4", "upgrade", "trainyard", chart, "--namespace", OPERATOR_NAMESPACE, "--wait", "--timeout", "90s")
        self.wait("the job to succeed once it may have a Secret", lambda: self.is_true("before", "Succeeded"), 300.0)
        self.tool("helm4", "uninstall", "before")
        self.install("private", "worker.replicas=2", "ps.replicas=1", "network.tls=true", "training.epochs=4")
        self.wait_running("private", 2)
        secret = self.api.get("/api/v1/namespaces/default/secrets/private-key")
        self.assertEqual(sorted(secret["data"]), ["ca.crt", "key", "tls.crt", "tls.key"])
        self.assertNotIn("key", self.api.get(f"{CONFIG_MAPS}/private-cluster")["data"])
        self.wait("private to succeed", lambda: self.is_true("private", "Succeeded"), 300.0)
        self.assertGreater(self.status("private")["progress"]["metrics"]["accuracy"], 0.85)
        self.assertFalse(self.status("private").get("restarts"))
        self.tool("helm4", "uninstall", "private")

    def test_11_a_server_waits_for_its_job_as_long_as_that_lives(self):
        self.begin_waits("patient")
        self.wait("the worker to be told unschedulable", lambda: self.is_true("patient", "Stalled"))  # 30 s later, by the operator
        status = self.status("patient")
        self.assertIn("worker-0 cannot start: no node takes it", status["message"])
        self.assertEqual((status.get("restarts", 0), status.get("disruptions", 0), status["phase"]), (0, 0, "Pending"), status)
        self.assertNotIn("runningTime", status)
        server = self.api.get(f"{PODS}/patient-ps-0")["status"]
        self.assertEqual((server["phase"], server["containerStatuses"][0]["restartCount"]), ("Running", 0), server)

    def test_11_b_ends_with_exit_code_200_spend_nothing_and_the_job_is_not_running(self):
        self.begin_waits("in-place", "made-again")
        for name in ("in-place", "made-again"):
            seen = set()

            def waited(name=name, seen=seen):
                status = self.status(name)
                seen.add(status.get("phase"))
                assert status.get("disruptions", 0) >= 3, status
                return True

            self.wait("the server to have ended three times", waited)
            status = self.status(name)
            self.assertFalse(status.get("restarts"), status)
            self.assertNotIn("runningTime", status)
            self.assertLessEqual(seen, {None, "Pending", "Restarting"})
            self.api.delete(f"{JOBS}/{name}")

    def test_11_c_an_image_that_cannot_be_pulled_is_one_event(self):
        self.begin_waits("wrong")
        self.wait("the job to be told", lambda: self.is_true("wrong", "Stalled"))
        stalled = next(each["lastTransitionTime"] for each in self.status("wrong")["conditions"] if each["type"] == "Stalled")

        def pulled_again():  # from then on both reasons must come in turn, and change nothing
            failures = [each for each in self.api.list(EVENTS) if each["regarding"].get("name") == "wrong-worker-0" and "ErrImagePull" in each["note"]]
            assert any((each.get("deprecatedLastTimestamp") or "") > stalled for each in failures), (stalled, failures)
            waiting = self.api.get(f"{PODS}/wrong-worker-0")["status"]["containerStatuses"][0]["state"].get("waiting", {})
            assert waiting.get("reason") == "ImagePullBackOff", waiting
            return True

        self.wait("the image to be pulled again after the job was told", pulled_again, 240.0)
        self.assertIn("no-such-image", self.status("wrong")["message"])
        told = [each for each in self.api.list(EVENTS) if each["regarding"]["kind"] == "TrainingJob" and each["regarding"]["name"] == "wrong"
                and "image" in each["note"]]
        self.assertEqual(len(told), 1, told)
        self.tool("helm4", "uninstall", "wrong")

    def test_12_a_claim_of_roots_is_written_to_and_a_job_made_again_goes_on_there(self):
        folder = self.claim("results")
        options = ("worker.replicas=1", "ps.replicas=1", "training.epochs=1", "storage.claimName=results")
        self.install("kept", *options)
        self.wait("kept to succeed", lambda: self.is_true("kept", "Succeeded"), 300.0)
        self.assertTrue(list((folder / "kept" / "checkpoints").glob("step-*")), "no checkpoint lies in <volume>/<job name>")
        self.tool("helm4", "uninstall", "kept")
        self.wait("the first one's pods to go", lambda: self.pods() == [])
        self.install("kept", *options, "training.epochs=2")
        self.wait("kept to succeed again", lambda: self.is_true("kept", "Succeeded"), 300.0)
        logs = self.kubectl("logs", "kept-ps-0") + self.kubectl("logs", "kept-worker-0")
        self.assertIn("which has ended: this job goes on from its files", logs)
        self.tool("helm4", "uninstall", "kept")

    def test_13_the_folder_of_a_job_that_runs_is_refused(self):
        self.claim("shared")
        self.long_job("owner", 1, "storage.claimName=shared")
        self.install("intruder", "worker.replicas=1", "ps.replicas=0", "training.strategy=null", "training.epochs=1", "storage.claimName=shared",
                     "worker.template.spec.containers[0].name=trainer", "worker.template.spec.containers[0].command={trainyard-trainer,train,--output,/var/lib/trainyard/owner}",
                     "worker.template.spec.securityContext.fsGroup=65532")
        message = self.failed_message("intruder")
        self.assertIn("is that of job owner", message)
        self.assertIn("which still runs", message)
        self.assertFalse(self.status("intruder").get("restarts"))
        self.wait_progress("owner")
        self.assertFalse(self.status("owner").get("restarts"))

    def test_14_a_failed_jobs_message_ends_with_the_reason(self):
        self.install("no-data", "worker.replicas=1", "ps.replicas=1", "training.data.dir=/nowhere")
        self.install("small", "worker.replicas=1", "ps.replicas=0", "training.strategy=null", "runPolicy.backoffLimit=0", "worker.resources.limits.memory=24Mi")
        message = self.failed_message("no-data")
        self.assertRegex(message, r"exit code 1 \(Error\): .*/nowhere/.*No such file")
        pod = re.search(r"\(kubectl logs (\S+) -n default; then correct the job, or change runPolicy.exitCodes\)", message).group(1)
        self.wait("the failed pod to have ended", lambda: self.api.get(f"{PODS}/{pod}")["status"]["phase"] == "Failed")
        self.assertIn("/nowhere/", self.kubectl("logs", pod, "-n", "default"))
        message = self.failed_message("small")
        self.assertIn("OOMKilled", message)
        self.assertTrue(message.endswith("than spec.worker.resources.limits.memory allows: found 24Mi, raise it"), message)
        for name in ("no-data", "small"):
            self.tool("helm4", "uninstall", name)

    def test_14_b_an_init_container_that_fails_is_named_and_tried_again(self):
        body = job("fetches").framework("None").without("training").policy(backoffLimit=1)
        container = {"image": images.TRAINER, "imagePullPolicy": "Never"}
        body.worker(1, restartPolicy="ExitCode", template={"spec": {
            "initContainers": [{**container, "name": "fetch", "command": ["sh", "-c", "echo 404 Not Found; exit 2"]}],
            "containers": [{**container, "name": "trainer", "command": ["true"]}]}})
        self.api.create(JOBS, body.spec())
        told = ("waits for worker-0; worker-0's init container fetch ended with exit code 2 (Error); "
                "kubectl get tj fetches -n default -o jsonpath={.status.failure} tells more: 404 Not Found")
        self.wait("the job to say why it waits", lambda: self.status("fetches").get("message") == told)
        message = self.failed_message("fetches")
        command = "kubectl logs fetches-worker-0 -n default -c fetch"
        self.assertEqual(message, f"worker-0 failed, and the job has used its 1 restart ({command}; then correct the job, or raise runPolicy.backoffLimit): "
                                  "init container fetch ended with exit code 2 (Error): 404 Not Found")
        self.assertIn("404 Not Found", self.kubectl(*command.split()[1:]))
        self.assertEqual(self.status("fetches")["failure"]["container"], "fetch")

    def test_15_default_pods_pass_the_restricted_pod_security_standard(self):
        self.api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": "restricted", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
        self.tool("helm4", "install", "modest", places.REPOSITORY / "charts/trainingjob", "--namespace", "restricted", "--set", "worker.replicas=1", "--set", "training.epochs=1")
        path = "/apis/trainyard.dev/v1alpha1/namespaces/restricted/trainingjobs/modest"

        def succeeded():
            status = self.api.get(path).get("status", {})
            assert status.get("phase") == "Succeeded", status
            return True

        self.wait("the job to succeed", succeeded)
        self.tool("helm4", "uninstall", "modest", "--namespace", "restricted")

    def test_15_b_a_container_that_an_injector_puts_first_holds_nothing_up(self):
        # As the proxy of Linkerd, and that of Istio with holdApplicationUntilProxyStarts: it stands before the trainer and never ends.
        admission = "/apis/admissionregistration.k8s.io/v1"
        self.api.create(f"{admission}/mutatingadmissionpolicies", {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": "mesh"}, "spec": {
                "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                                     "namespaceSelector": {"matchLabels": {"mesh": "on"}}},
                "failurePolicy": "Fail", "reinvocationPolicy": "Never", "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression":
                    '[JSONPatch{op: "add", path: "/spec/containers/0", value: Object.spec.containers{'
                    f'name: "proxy", image: "{images.TRAINER}", imagePullPolicy: "Never", command: ["sleep", "infinity"]}}}}]'}}]}})
        self.api.create(f"{admission}/mutatingadmissionpolicybindings", {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "mesh"}, "spec": {"policyName": "mesh"}})
        self.api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mesh", "labels": {"mesh": "on"}}})
        pods = "/api/v1/namespaces/mesh/pods"

        probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": {"containers": [{"name": "probe", "image": images.TRAINER}]}}
        self.wait("the policy to act", lambda: len(self.api.create(f"{pods}?dryRun=All", probe)["spec"]["containers"]) == 2)
        self.tool("helm4", "install", "meshed", places.REPOSITORY / "charts/trainingjob", "--namespace", "mesh", "--set", "worker.replicas=1", "--set", "training.epochs=1")
        path = "/apis/trainyard.dev/v1alpha1/namespaces/mesh/trainingjobs/meshed"
        self.wait("the job to succeed", lambda: self.api.get(path).get("status", {}).get("phase") == "Succeeded")
        first = self.api.get(f"{pods}/meshed-worker-0")["spec"]["containers"][0]["name"]
        self.assertEqual(first, "proxy", "without it nothing was tried")
        self.assertIn("accuracy", self.kubectl("logs", "meshed-worker-0", "-n", "mesh"))
        self.assertIn("accuracy", self.plugin("logs", "meshed", "--namespace", "mesh", "--tail=-1"))
        self.tool("helm4", "uninstall", "meshed", "--namespace", "mesh")
        for kind in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
            self.api.delete(f"{admission}/{kind}/mesh")

    def test_17_an_all_reduce_whose_worker_is_killed_has_the_bits_of_launch(self):
        folder = self.claim("sums")
        example = places.REPOSITORY / "examples/lenet5-allreduce.yaml"
        self.kubectl("apply", "-f", "-", text=example.read_text(encoding="utf-8").replace("spec:\n", "spec:\n  storage: {claimName: sums}\n", 1))
        name = "lenet5-allreduce"
        launched = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, launched)
        launch = subprocess.Popen([program("trainer", "trainer"), "launch", example, "--output", launched, "--progress", "none"], cwd=places.REPOSITORY,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(launch.kill)
        self.wait(f"{name} to train", lambda: self.step(name) > 0)
        self.kill_container(f"{name}-worker-1")
        self.wait(f"{name} to succeed", lambda: self.is_true(name, "Succeeded"), 300.0)
        self.assertEqual(self.status(name)["restarts"], 1)
        self.assertGreater(self.status(name)["progress"]["metrics"]["accuracy"], 0.9)
        output, _ = launch.communicate(timeout=120)
        self.assertEqual(launch.returncode, 0, output)
        in_pods, here = [json.loads((place / "replicas/worker-0.json").read_text())["chief"]["parametersSha256"] for place in (folder / name, launched)]
        self.assertEqual(in_pods, here)

    def test_17_b_checkpoints_are_served_while_the_job_trains_and_until_it_is_deleted(self):
        self.claim("models")
        local = ["worker.replicas=1", "ps.replicas=0", "training.strategy=null", "storage.claimName=models", "training.epochs=2"]
        self.install("digits", *local, "training.checkpoint.keepBest.metric=accuracy", "serve.when=best", "serve.replicas=2")
        self.wait("digits to be served", lambda: self.is_true("digits", "Serving"))
        self.wait("digits to succeed", lambda: self.is_true("digits", "Succeeded"))
        best = self.status("digits")["progress"]["bestCheckpointStep"]
        url = "http://digits-serve.default.svc:8080/v1/models/digits"
        self.wait("both pods and the best version to be told",
                  lambda: self.status("digits")["serving"] == {"readyReplicas": 2, "version": best, "url": url})
        self.assertGreater(self.right_predictions("digits", 50), 40)
        self.assertRegex(self.kubectl("get", "tj", "digits", "-o", "wide"), rf" {best} ")
        self.assertIn(f"version {best} answers at {url}", self.kubectl("describe", "tj", "digits"))

        self.tool("helm4", "uninstall", "digits")
        self.wait("what served to go with the job", lambda: not self.api.list(DEPLOYMENTS) and not self.left(SERVICES) and not self.pods())
        self.install("digits", *local, "serve.when=final")  # on the same claim: there is nothing left to train
        self.wait("digits to be served again", lambda: self.is_true("digits", "Serving"))
        self.assertTrue(self.is_true("digits", "Succeeded"))
        self.assertGreater(self.right_predictions("digits", 50), 40)
        self.tool("helm4", "uninstall", "digits")
        self.wait("all to go", lambda: not self.api.list(DEPLOYMENTS) and not self.pods())

    def test_17_c_a_model_that_reads_text_is_served(self):
        self.claim("texts")
        with (places.REPOSITORY / "examples/shakespeare-chars.yaml").open() as file:
            body = yaml.safe_load(file)
        body["spec"].update(storage={"claimName": "texts"}, serve={"when": "final"})
        del body["spec"]["training"]["epochs"]
        body["spec"]["training"]["steps"] = 100
        self.api.create(JOBS, body)
        self.wait("the characters to be served", lambda: self.is_true("shakespeare-chars", "Serving"))
        (row,) = self.predict("shakespeare-chars", ["ROMEO"])
        self.assertEqual(len(row), 66)
        self.assertAlmostEqual(sum(row), 1, places=3)
        self.api.delete(f"{JOBS}/shakespeare-chars")
        self.wait("all to go", lambda: not self.api.list(DEPLOYMENTS) and not self.pods())

    def predict(self, name, instances):
        """What the job's Service answers."""
        address = self.api.get(f"{SERVICES}/{name}-serve")["spec"]["clusterIP"]
        request = urllib.request.Request(f"http://{address}:8080/v1/models/{name}:predict", json.dumps({"instances": instances}).encode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)["predictions"]

    def right_predictions(self, name, number):
        """How many of the last so many handwritten digits the job's Service tells right."""
        with gzip.open(places.REPOSITORY / "examples/data/mnist/t10k-images-idx3-ubyte.gz") as images_file:
            pixels = images_file.read()[-number * 784:]
        with gzip.open(places.REPOSITORY / "examples/data/mnist/t10k-labels-idx1-ubyte.gz") as labels_file:
            labels = labels_file.read()[-number:]
        instances = [list(pixels[i * 784:(i + 1) * 784]) for i in range(number)]
        return sum(max(range(10), key=row.__getitem__) == label for row, label in zip(self.predict(name, instances), labels, strict=True))

    def test_18_the_operator_was_refused_nothing(self):
        log = self.kubectl("logs", "-n", OPERATOR_NAMESPACE, "-l", "app.kubernetes.io/name=trainyard-operator", "--tail=-1")
        refused = [line for line in log.splitlines() if "forbidden" in line.lower()]
        self.assertEqual(refused, [])

    def test_19_one_namespace_by_helm_3(self):
        self.tool("helm4", "uninstall", "trainyard", "--namespace", OPERATOR_NAMESPACE, "--wait")
        self.assertEqual([each["metadata"]["name"] for each in self.api.list("/apis/rbac.authorization.k8s.io/v1/clusterroles") if "trainyard" in each["metadata"]["name"]], [])
        self.kubectl("create", "namespace", "team")
        self.tool("helm3", "install", "scoped", places.REPOSITORY / "charts/trainyard-operator", "--namespace", "team", "--set", "watchNamespaces={team}",
                  "--set", "rbac.nodes=false", "--set", "rbac.aggregate=false", "--wait", "--timeout", "90s")
        self.install("elsewhere", "worker.replicas=1")
        self.tool("helm3", "install", "inside", places.REPOSITORY / "charts/trainingjob", "--namespace", "team", "--set", "worker.replicas=1", "--set", "training.epochs=1")
        team = "/apis/trainyard.dev/v1alpha1/namespaces/team/trainingjobs/inside"

        def succeeded():
            status = self.api.get(team).get("status", {})
            assert status.get("phase") == "Succeeded", status
            return True

        self.wait("the job inside the namespace to succeed", succeeded)
        self.assertEqual(self.status("elsewhere"), {})
        self.tool("helm3", "uninstall", "inside", "--namespace", "team")
        self.tool("helm3", "uninstall", "scoped", "--namespace", "team")

    def shows_a_page(self, command, address, environment):
        with subprocess.Popen(["bash", "-c", f"exec {command}"], env=environment, stdout=subprocess.DEVNULL) as forward:
            self.addCleanup(forward.kill)

            def page():
                with urllib.request.urlopen(address, timeout=5) as answer:
                    return answer.read().decode()

            self.assertIn("<title>Trainyard", self.wait(f"the page at {address}", page))
            forward.terminate()

    def test_20_the_cluster_commands_of_the_readme_work_word_by_word(self):
        page = (places.REPOSITORY / "README.md").read_text(encoding="utf-8")
        commands = [line for block in re.findall(r"```sh\n(.*?)```", page[page.index("## On a cluster"):], re.DOTALL) for line in block.splitlines()]
        elsewhere = {"docker": "the suite has built the images", "kind": "the suite has imported them", "tensorboard": "would not end",
                     "sudo": "another case runs the plugin where it lies"}
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "helm").symlink_to(places.BIN / "helm4")
        (folder / "kubectl").symlink_to(places.BIN / "kubectl")
        (folder / "out").mkdir()
        for name in ("charts", "deploy", "examples"):
            (folder / name).symlink_to(places.REPOSITORY / name)
        self.claim("results", made=False)
        printed = {}
        for command in commands:
            if command.split()[0] in elsewhere:
                continue
            environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "KUBECONFIG": str(self.plane.kubeconfig), "HOME": str(folder)}
            if " port-forward " in command:  # ends with the reader's Ctrl-C
                self.shows_a_page(command, re.search(r"http://\S+", command)[0], environment)
                continue
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=400, cwd=folder, env=environment)
            self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}\n{self.picture()}")
            printed[" ".join(command.split()[:3])] = done.stdout
            if command.startswith("kubectl cp"):
                self.assertTrue(list((folder / "out/mnist/summaries").rglob("events.out.tfevents.*")))
        self.assertIn("Succeeded", printed["kubectl get tj"])
        self.assertIn("accuracy", printed["kubectl logs lenet5-ps-worker-0"])
        self.assertIn("AVAILABLE", printed["kubectl get --raw"])
        self.assertIn("http://mnist-serve.default.svc:8080/v1/models/mnist", printed["kubectl get tj/mnist"])
        self.assertEqual(self.pods(), [])
        self.kubectl("create", "-f", places.REPOSITORY / "crds/trainingjob.yaml")  # removed by the page's last command; what ends a case asks for jobs

        def served():
            try:
                return self.api.list(JOBS) == []
            except ApiError as error:  # 404, then 429 "storage is (re)initializing"
                raise AssertionError(error) from error

        self.wait("jobs to be served again", served)


if __name__ == "__main__":
    main()
