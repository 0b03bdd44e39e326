"""The CRD against a real kube-apiserver: what it defaults, what it refuses and with which words, what may change later."""

import copy
import json
import re
import subprocess
import unittest

from harness import places
from harness.jobs import JOBS, install_crd, job
from harness.kube import ApiError
from harness.suite import ControlPlaneCase


class CrdTest(ControlPlaneCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        install_crd(cls.api)

    def tearDown(self):
        self.api.request("DELETE", JOBS)

    @staticmethod
    def ruled(**rule):
        return job("a").policy(podFailurePolicy={"rules": [{"action": "Count", **rule}]})

    def refused(self, body, *words):
        """Creating `body` must be refused with a message that holds all words."""
        with self.assertRaises(ApiError, msg=f"accepted, though it should say {words}: {json.dumps(body['spec'])}") as caught:
            self.api.create(JOBS, body)
        self.assertEqual(caught.exception.code, 422, caught.exception)
        for word in words:
            self.assertIn(word, caught.exception.message)

    def test_defaults_are_filled_in(self):
        spec = self.api.create(JOBS, job("tiny").spec())["spec"]
        self.assertEqual(spec["framework"], "Trainyard")
        self.assertEqual(spec["worker"], {"replicas": 1}, "the restart policy depends on the framework")
        self.assertEqual(spec["runPolicy"]["lostNodePolicy"], "Wait")
        self.assertEqual(spec["runPolicy"]["backoffLimit"], 6)
        self.assertEqual(spec["runPolicy"]["cleanPodPolicy"], "Running")
        self.assertEqual(spec["runPolicy"]["successPolicy"], "Chief")
        self.assertEqual(spec["runPolicy"]["startPolicy"], "PSReady")
        self.assertFalse(spec["runPolicy"]["suspend"])
        self.assertEqual(spec["network"]["port"], 5000)
        self.assertNotIn("services", spec["network"], "the framework decides")
        self.assertEqual(spec["managedBy"], "trainyard.dev/operator")

    def test_good_jobs_are_accepted(self):
        good = {
            "all roles": job("a").ps(2).worker(4).chief().evaluator(),
            "no servers": job("b").worker(3).ps(0),
            "pytorch": job("c").framework("PyTorch").worker(2).without("training"),
            "mxnet with its scheduler": job("d").framework("MXNet").ps(1).worker(2).chief().without("training"),
            "a framework that answers for its progress": job("v").framework("XGBoost").worker(2).without("training").set("network", {"progressPort": 5001}),
            "no servers of a framework without them": job("r").framework("JAX").worker(2).ps(0).without("training"),
            "elastic workers": job("w").framework("PyTorch").worker(2).without("training").set("elastic", {"minWorkers": 1, "maxWorkers": 3}),
            "unknown pod fields": job("e").worker(1, template={"spec": {"containers": [{"name": "trainer", "image": "x", "later": {"deep": 1}}], "future": True}}),
            "gpu limits": job("f").worker(1, resources={"limits": {"nvidia.com/gpu": 1, "cpu": "500m", "memory": "1Gi"}}),
            "slices and shares of gpus, and where the pods may run": job("y").worker(
                1, resources={"limits": {"nvidia.com/mig-1g.5gb": 1, "nvidia.com/gpu.shared": "1", "amd.com/gpu": 2}, "claims": [{"name": "gpu"}]},
                template={"spec": {"runtimeClassName": "nvidia", "nodeSelector": {"gpu": "a100"}, "tolerations": [{"operator": "Exists"}]}}),
            "exit codes": job("g").worker(1, restartPolicy="ExitCode").policy(exitCodes=[{"from": 1, "to": 127, "action": "Fail"}]),
            "exit codes of one role": job("i").framework("JAX").worker(2).chief(restartPolicy="ExitCode").without("training")
            .policy(exitCodes=[{"from": 1, "to": 127, "action": "Fail"}]),
            "rules for failures": job("z").policy(podFailurePolicy={"rules": [
                {"action": "FailJob", "onExitCodes": {"containerName": "trainer", "operator": "In", "values": [42, 43]}},
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}, {"type": "ConfigIssue", "status": "False"}]}]}),
            "longest name with one worker": job("x" * 54),
            "served when it has succeeded": job("s").set("storage", {"claimName": "c"}).set("serve", {}),
            "served while it trains": job("t").set("storage", {"claimName": "c"}).set("serve", {"when": "best", "replicas": 2, "resources": {"limits": {"cpu": "500m"}}})
            .training(checkpoint={"keepBest": {"metric": "accuracy"}}),
            "the best restored": job("u").set("storage", {"claimName": "c"}).set("serve", {"when": "best"})
            .training(evaluate={"earlyStopping": {"restoreBest": True}}),
            "a model that reads text, served": job("text").set("storage", {"claimName": "c"}).set("serve", {}).training(data={"format": "text"}),
            "a foreign manager": job("h").set("managedBy", "kueue.x-k8s.io/multikueue"),
        }
        for what, maker in good.items():
            with self.subTest(what):
                self.api.create(JOBS, maker.spec())

    def test_the_examples_are_accepted(self):
        files = sorted((places.REPOSITORY / "examples").rglob("*.yaml"))
        jobs = [file for file in files if "kind: TrainingJob" in file.read_text(encoding="utf-8")]
        self.assertGreater(len(jobs), 20)
        for file in jobs:
            with self.subTest(file.relative_to(places.REPOSITORY)):
                self.kubectl("create", "--dry-run=server", "--validate=strict", "-f", file)

    def test_bad_jobs_are_refused_with_field_and_reason(self):
        bad = [
            (job("a").worker(0), "spec.worker", "at least one worker or a chief"),
            (job("a").worker(-1), "spec.worker.replicas", "greater than or equal to 0"),
            (job("a").worker(5000), "spec.worker.replicas", "4096"),
            (job("a").set("framework", "Keras"), "spec.framework", "Unsupported value"),
            (job("a").framework("PyTorch"), "spec.training", "framework Trainyard only"),
            (job("a").framework("MXNet").ps(1).without("training"), "spec.chief", "MXNet needs a chief"),
            *[(job("a").framework(each).ps(1).without("training"), "spec.ps", f"framework {each} has no parameter servers", "remove ps")
              for each in ("PyTorch", "MPI", "JAX", "XGBoost")],
            (job("a").framework("MPI").chief().without("training").policy(successPolicy="AllWorkers"), "spec.runPolicy.successPolicy", "use Chief"),
            (job("a").set("network", {"progressPort": 5001}), "spec.network.progressPort", "the Trainyard trainer answers on network.port + 1"),
            (job("a").framework("JAX").without("training").set("network", {"progressPort": 5000}), "spec.network.progressPort", "choose another"),
            (job("a").framework("JAX").without("training").set("elastic", {"minWorkers": 1, "maxWorkers": 3}), "spec.elastic", "is for torchrun"),
            (job("a").framework("PyTorch").worker(4).without("training").set("elastic", {"minWorkers": 1, "maxWorkers": 3}), "spec.worker.replicas",
             "is outside of elastic.minWorkers to elastic.maxWorkers; choose a number between them"),
            (job("a").framework("PyTorch").without("training").without("worker").chief().set("elastic", {"minWorkers": 1, "maxWorkers": 3}),
             "worker.replicas", "is outside of elastic.minWorkers to elastic.maxWorkers"),
            (job("a").framework("PyTorch").worker(2).without("training").set("elastic", {"minWorkers": 3, "maxWorkers": 1}), "spec.elastic",
             "minWorkers is above maxWorkers; exchange them, or raise maxWorkers"),
            (job("a").framework("PyTorch").chief().without("training").set("elastic", {"minWorkers": 1, "maxWorkers": 3}), "spec.chief", "holds the rendezvous"),
            (job("a").worker(1, restartPolicy="Sometimes"), "spec.worker.restartPolicy", "Unsupported value"),
            (job("a").worker(1, restartPolicy="Always").policy(restartScope="Job"), "spec.runPolicy.restartScope", "use OnFailure"),
            (job("a").worker(1, restartPolicy="Always").policy(avoidFailedNodes=True), "spec.runPolicy.avoidFailedNodes", "use OnFailure"),
            (job("a").training(epochs=None), "spec.training", "exactly one of epochs and steps"),
            (job("a").training(steps=5), "spec.training", "exactly one of epochs and steps"),
            (job("a").training(model={"preset": "lenet5", "layers": []}), "spec.training.model", "one and only one"),
            (job("a").training(model={"preset": "lenet6"}), "spec.training.model.preset", "Unsupported value"),
            (job("a").training(batchSize=0), "spec.training.batchSize", "greater than or equal to 1"),
            (job("a").training(strategy={"parameterServer": {"mode": "async"}}).ps(0), "spec.ps", "at least one parameter server"),
            (job("a").training(strategy={"local": {}, "parameterServer": {"mode": "sync"}}), "spec.training.strategy"),
            (job("a").training(strategy={"local": {}, "allReduce": {}}), "spec.training.strategy"),
            (job("a").training(strategy={"allReduce": {}}).ps(1), "spec.ps", "without servers"),
            (job("a").training(strategy={"local": {}}).ps(1), "spec.ps", "local trains in one worker, without servers"),
            (job("a").training(strategy={"local": {}}).worker(2), "spec.worker", "local trains in one worker"),
            (job("a").training(strategy={}).worker(1).chief(), "spec.worker", "keep one of worker and chief"),
            (job("a").policy(backoffLimit=-1), "spec.runPolicy.backoffLimit", "greater than or equal to 0"),
            (job("a").policy(activeDeadlineSeconds=0), "spec.runPolicy.activeDeadlineSeconds"),
            (job("a").policy(exitCodes=[{"from": 9, "to": 3, "action": "Fail"}]), "exitCodes[0]", "from must not be greater than to"),
            (job("a").framework("PyTorch").without("training").policy(exitCodes=[{"from": 42, "to": 42, "action": "Fail"}]), "spec.runPolicy.exitCodes",
             "set worker.restartPolicy: ExitCode"),
            (job("a").worker(1, restartPolicy="OnFailure").policy(exitCodes=[{"from": 42, "to": 42, "action": "Fail"}]), "spec.runPolicy.exitCodes"),
            (job("a").policy(podFailurePolicy={"rules": []}), "podFailurePolicy.rules", "should have at least 1 items"),
            (self.ruled(), "podFailurePolicy.rules[0]", "exactly one of onExitCodes and onPodConditions"),
            (self.ruled(onExitCodes={"operator": "In", "values": [1]}, onPodConditions=[{"type": "A"}]), "podFailurePolicy.rules[0]", "exactly one of"),
            (self.ruled(onExitCodes={"operator": "In", "values": []}), "onExitCodes.values", "should have at least 1 items"),
            (self.ruled(onExitCodes={"operator": "In", "values": [0]}), "onExitCodes.values[0]", "greater than or equal to 1"),
            (self.ruled(onExitCodes={"operator": "In", "values": [3, 3]}), "onExitCodes.values[1]", "Duplicate value"),
            (self.ruled(onExitCodes={"operator": "Above", "values": [3]}), "onExitCodes.operator", "Unsupported value"),
            (self.ruled(onPodConditions=[{"type": "Ready"}]), "onPodConditions[0].type", "every pod has this condition"),
            (self.ruled(action="Restart", onPodConditions=[{"type": "A"}]), "podFailurePolicy.rules[0].action", "Unsupported value"),
            (self.ruled(onPodConditions=[{"type": "A"}]).worker(1, restartPolicy="Always"), "spec.runPolicy.podFailurePolicy", "use OnFailure"),
            (job("a").set("network", {"port": 70000}), "spec.network.port"),
            (job("a").set("managedBy", "nobody"), "spec.managedBy"),
            (job("a").set("serve", {}), "spec.storage.claimName", "outlive their pods; name a PersistentVolumeClaim"),
            (job("a").set("serve", {}).set("storage", {"claimName": ""}), "spec.storage.claimName", "name a PersistentVolumeClaim"),
            (job("a").set("serve", {}).set("storage", {"claimName": "c"}).without("training"), "spec.training", "set spec.training, or remove spec.serve"),
            (job("a").set("serve", {}).set("storage", {"claimName": "c"}).framework("PyTorch").without("training"), "spec.serve", "framework Trainyard only"),
            (job("a").set("serve", {"when": "best"}).set("storage", {"claimName": "c"}), "spec.serve.when", "set spec.training.checkpoint.keepBest"),
            (job("a").set("serve", {"when": "last"}).set("storage", {"claimName": "c"}), "spec.serve.when", "Unsupported value"),
            (job("a").set("serve", {"replicas": -1}).set("storage", {"claimName": "c"}), "spec.serve.replicas", "greater than or equal to 0"),
            (job("1a"), "metadata.name", "starting with a letter"),
            (job("a.b"), "metadata.name", "lower-case letters, digits and -"),
            (job("x" * 55).worker(2), "metadata.name", "more than 63 characters"),
            (job("x" * 56), "metadata.name", "at most 55 characters"),
            (job("x" * 52).evaluator(), "metadata.name", "at most 51 characters"),
        ]
        for maker, *words in bad:
            with self.subTest(words):
                self.refused(maker.spec(), *words)

    def test_the_worker_count_may_change_and_other_shape_may_not(self):
        created = self.api.create(JOBS, job("fixed").ps(1).worker(2).spec())
        path = f"{JOBS}/fixed"
        self.assertEqual(self.api.merge(path, {"spec": {"worker": {"replicas": 5}}})["spec"]["worker"]["replicas"], 5)
        self.api.merge(path, {"spec": {"runPolicy": {"suspend": True, "backoffLimit": 9}}})
        for change, word in [
            ({"ps": {"replicas": 2}}, "spec.ps.replicas"), ({"framework": "None"}, "spec.framework"), ({"image": "other"}, "spec.image"),
            ({"network": {"port": 6000}}, "spec.network"), ({"storage": {"claimName": "x"}}, "spec.storage"), ({"managedBy": "x.y/z"}, "spec.managedBy"),
            ({"evaluator": {}}, "roles cannot be added"), ({"ps": None}, "roles cannot be added"),
            ({"runPolicy": {"scheduling": {"gang": "Volcano"}}}, "spec.runPolicy.scheduling.gang"),
        ]:
            with self.subTest(word), self.assertRaises(ApiError) as caught:
                self.api.merge(path, {"spec": change})
            self.assertEqual(caught.exception.code, 422)
            self.assertIn(word, caught.exception.message)
            self.assertIn("delete the job and make a new one", caught.exception.message)
        self.assertEqual(self.api.get(path)["spec"]["ps"], created["spec"]["ps"])

    def test_what_the_pods_of_a_started_job_were_made_from_cannot_change(self):
        container = {"name": "trainer", "image": "x", "env": [{"name": "A", "value": "1"}]}
        path = f"{JOBS}/started"
        self.api.create(JOBS, job("started").ps(1).worker(2, template={"spec": {"containers": [container], "tolerations": []}}).spec())
        changes = {
            "spec.worker.template": {"worker": {"template": {"spec": {"containers": [{**container, "image": "y"}]}}}},
            "spec.worker.restartPolicy": {"worker": {"restartPolicy": "Never"}},
            "spec.worker.resources": {"worker": {"resources": {"limits": {"cpu": "1"}}}},
            "spec.training": {"training": {"batchSize": 7}},
            "spec.ps.template": {"ps": {"template": {"spec": {"priorityClassName": "high"}}}},
            "spec.ps.restartPolicy": {"ps": {"restartPolicy": "OnFailure"}},
            "spec.runPolicy.restartScope": {"runPolicy": {"restartScope": "Job"}},
            "spec.runPolicy.avoidFailedNodes": {"runPolicy": {"avoidFailedNodes": True}},
        }
        self.api.merge(f"{path}/status", {"status": {"startTime": "2027-01-15T08:00:00Z"}})
        for field, change in changes.items():
            with self.subTest(field):
                with self.assertRaises(ApiError) as caught:
                    self.api.merge(path, {"spec": change})
                self.assertEqual(caught.exception.code, 422)
                self.assertIn(f"{field}: Forbidden: cannot change while the job runs", caught.exception.message)
                self.assertIn("runPolicy.suspend", caught.exception.message)
                self.assertIn("A job that has ended stays as it is: delete it and make a new one", caught.exception.message)
        self.api.merge(path, {"spec": {"worker": {"replicas": 3}, "runPolicy": {"suspend": True}}})
        self.api.merge(f"{path}/status", {"status": {"startTime": None}})
        for field, change in changes.items():
            with self.subTest(f"{field} of a suspended job"):
                self.api.merge(path, {"spec": change})

    def test_rules_for_failures_may_change_while_the_job_runs_and_come_and_go_only_while_it_is_suspended(self):
        def rules(*codes):
            return {"runPolicy": {"podFailurePolicy": {"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": list(codes)}}]}}}

        for name, policy in (("ruled", rules(1)["runPolicy"]), ("unruled", {})):
            self.api.create(JOBS, job(name).policy(**policy).spec())
            self.api.merge(f"{JOBS}/{name}/status", {"status": {"startTime": "2027-01-15T08:00:00Z"}})
        self.api.merge(f"{JOBS}/ruled", {"spec": rules(2)})
        for name, change in (("ruled", {"runPolicy": {"podFailurePolicy": None}}), ("unruled", rules(1))):
            with self.assertRaises(ApiError) as caught:
                self.api.merge(f"{JOBS}/{name}", {"spec": change})
            self.assertIn("spec.runPolicy.podFailurePolicy: Forbidden: cannot be added or removed while the job runs", caught.exception.message)
            self.api.merge(f"{JOBS}/{name}/status", {"status": {"startTime": None}})
            self.api.merge(f"{JOBS}/{name}", {"spec": change})

    def test_what_is_served_may_change_at_any_time(self):
        path = f"{JOBS}/served"
        self.api.create(JOBS, job("served").set("storage", {"claimName": "c"}).training(checkpoint={"keepBest": {}}).spec())
        self.api.merge(f"{path}/status", {"status": {"startTime": "2027-01-15T08:00:00Z"}})
        self.assertEqual(self.api.merge(path, {"spec": {"serve": {}}})["spec"]["serve"], {"replicas": 1, "when": "final"})
        for serve in ({"when": "best"}, {"replicas": 3}, {"resources": {"requests": {"cpu": 1}}}, None):
            self.api.merge(path, {"spec": {"serve": serve}})
        self.assertNotIn("serve", self.api.get(path)["spec"])

    def test_kubectl_scale_changes_the_workers(self):
        self.api.create(JOBS, job("scaled").worker(2).spec())
        self.kubectl("scale", "tj/scaled", "--replicas=4")
        self.assertEqual(self.api.get(f"{JOBS}/scaled")["spec"]["worker"]["replicas"], 4)
        self.assertEqual(self.api.get(f"{JOBS}/scaled/scale")["spec"]["replicas"], 4)

    def test_a_framework_that_keeps_the_number_of_workers_in_its_environment_is_not_scaled_while_it_runs(self):
        def started(name, framework, scope=None, **network):
            maker = job(name).framework(framework).without("training").worker(2).chief().set("network", network)
            self.api.create(JOBS, (maker.policy(restartScope=scope) if scope else maker).spec())
            self.api.merge(f"{JOBS}/{name}/status", {"status": {"startTime": "2027-01-15T08:00:00Z"}})

        for framework in ("PyTorch", "MPI", "MXNet", "TensorFlow", "JAX", "XGBoost"):
            with self.subTest(framework):
                name = f"fixed-{framework.lower()}"
                started(name, framework, "Replica")
                with self.assertRaises(ApiError) as caught:
                    self.api.merge(f"{JOBS}/{name}", {"spec": {"worker": {"replicas": 3}}})
                words = f"spec.worker.replicas.*replicas of framework {framework} keep the number in their environment; set runPolicy.suspend to true"
                self.assertRegex(caught.exception.message, words)
                with self.assertRaisesRegex(AssertionError, words):
                    self.kubectl("scale", f"tj/{name}", "--replicas=3")
                self.api.merge(f"{JOBS}/{name}/status", {"status": {"startTime": None}})  # as the operator does when the job is suspended
                self.kubectl("scale", f"tj/{name}", "--replicas=3")
                self.assertEqual(self.api.get(f"{JOBS}/{name}")["spec"]["worker"]["replicas"], 3)
        for name, framework, scope, network in (("sparse", "TensorFlow", None, {"hostList": "Sparse"}), ("none", "None", None, {}), ("mxnet", "MXNet", "Job", {}),
                                                ("dense", "TensorFlow", "Job", {}), ("pytorch", "PyTorch", None, {}), ("mpi", "MPI", None, {}),
                                                ("jax", "JAX", None, {}), ("xgboost", "XGBoost", None, {})):
            with self.subTest(name):
                started(name, framework, scope, **network)
                self.kubectl("scale", f"tj/{name}", "--replicas=3")
                self.assertEqual(self.api.get(f"{JOBS}/{name}")["spec"]["worker"]["replicas"], 3)

    def test_a_sync_job_is_scaled_while_it_runs_where_all_start_again_together(self):
        for name, policy in (("alone", {}), ("together", {"restartScope": "Job"})):
            self.api.create(JOBS, job(name).worker(2).training(strategy={"allReduce": {}}).policy(**policy).spec())
            self.api.merge(f"{JOBS}/{name}/status", {"status": {"startTime": "2027-01-15T08:00:00Z"}})
        with self.assertRaisesRegex(AssertionError, "cannot change while a sync job runs.*restartScope Job"):
            self.kubectl("scale", "tj/alone", "--replicas=3")
        self.kubectl("scale", "tj/together", "--replicas=3")

    def test_kubectl_explain_teaches(self):
        for field in ("worker", "serve", "serve.when", "runPolicy.backoffLimit", "training.strategy.parameterServer.mode", "network.services"):
            with self.subTest(field):
                text = self.kubectl("explain", f"tj.spec.{field}")
                self.assertIn("DESCRIPTION", text)
                self.assertNotIn("<empty>", text)

    def test_kubectl_get_shows_the_columns(self):
        self.api.create(JOBS, job("shown").worker(2).spec())
        self.api.merge(f"{JOBS}/shown/status", {"status": {"phase": "Running", "progress": {"step": 120, "percent": 21.4, "loss": 0.31, "examplesPerSecond": 6668.8}}})
        header, row = self.kubectl("get", "tj", "shown").splitlines()
        self.assertEqual(header.split(), ["NAME", "STATE", "PS", "WORKERS", "STEP", "PROGRESS", "LOSS", "SPEED", "AGE", "MESSAGE"])
        page = (places.REPOSITORY / "README.md").read_text(encoding="utf-8")
        readme = re.search(r"^kubectl get tj .*# ([A-Z ]+); -w follows, -o wide adds ([A-Z]+), ([A-Z]+) and ([A-Z]+)$", page, re.MULTILINE)
        self.assertEqual(readme.group(1).split(), header.split()[1:])
        wide = self.kubectl("get", "tj", "shown", "-o", "wide").splitlines()[0].split()
        self.assertEqual([name for name in wide if name not in header.split()], list(readme.groups()[1:]))
        for word in ("Running", "120", "21.4", "0.31"):
            self.assertIn(word, row.split())
        self.api.merge(f"{JOBS}/shown/status", {"status": {"progress": {"evaluation": "accuracy 0.973"}, "serving": {"readyReplicas": 1, "version": 56812}}})
        self.assertRegex(self.kubectl("get", "tj", "shown", "-o", "wide"), r"accuracy 0\.973 +56812 ")

    def test_a_typo_is_refused_by_kubectl_apply(self):
        body = job("typo").spec()
        body["spec"]["worker"]["replicaz"] = 3
        done = subprocess.run([places.BIN / "kubectl", f"--kubeconfig={self.plane.kubeconfig}", "apply", "-f", "-"], input=json.dumps(body), text=True,
                              capture_output=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("spec.worker.replicaz", done.stderr)

    def test_the_status_can_only_be_changed_through_its_subresource(self):
        body = copy.deepcopy(job("honest").spec())
        body["status"] = {"phase": "Succeeded"}
        self.assertNotIn("status", self.api.create(JOBS, body))


if __name__ == "__main__":
    unittest.main()
