"""The charts, rendered by Helm 4 and Helm 3: what comes out by default, by each option, and what is refused."""

import json
import pathlib
import re
import subprocess
import sys
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests/cluster"))

from harness import places  # noqa: E402
from harness.suite import skip_or_fail  # noqa: E402

OPERATOR = REPOSITORY / "charts/trainyard-operator"
JOB = REPOSITORY / "charts/trainingjob"


def run(*argv, text=None):
    return subprocess.run([str(part) for part in argv], input=text, capture_output=True, text=True, check=False, timeout=60)


def objects(manifest):
    """The objects of a YAML text: kubectl reads it, without a server, and says it again in JSON."""
    done = run(places.BIN / "kubectl", "--kubeconfig=/dev/null", "annotate", "--local", "-f", "-", "test-", "-o", "json", text=manifest)
    if done.returncode != 0:
        raise AssertionError(f"kubectl cannot read the rendered objects: {done.stderr}")
    decoder, found, rest = json.JSONDecoder(), [], done.stdout.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        found += value["items"] if value["kind"] == "List" else [value]
        rest = rest[end:].strip()
    return found


def need(*parts):
    built = run(REPOSITORY / "scripts/cluster/build.sh", "--check", *parts)
    if built.returncode != 0:
        skip_or_fail([built.stdout.strip()])


class Rendered:
    def __init__(self, manifest):
        self.text = manifest
        self.objects = objects(manifest)

    def one(self, kind, name=None):
        found = [each for each in self.objects if each["kind"] == kind and name in (None, each["metadata"]["name"])]
        if len(found) != 1:
            raise AssertionError(f"{len(found)} objects of kind {kind} {name or ''}, expected one of {[(e['kind'], e['metadata']['name']) for e in self.objects]}")
        return found[0]

    def kinds(self):
        return {each["kind"] for each in self.objects}


class ChartsTest(unittest.TestCase):
    helm = "helm4"

    @classmethod
    def setUpClass(cls):
        need(cls.helm, "kubernetes")

    def render(self, chart, *options, name="trainyard"):
        done = self.template(chart, *options, name=name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return Rendered(done.stdout)

    def template(self, chart, *options, name="trainyard"):
        arguments = [part for option in options for part in (["--set", option] if isinstance(option, str) else ["--set-json", option[0]])]
        return run(places.BIN / self.helm, "template", name, chart, "--namespace", "trainyard-system", *arguments)

    def refused(self, chart, option, *words, name="trainyard"):
        done = self.template(chart, option, name=name)
        self.assertNotEqual(done.returncode, 0, f"{option} was accepted")
        for word in words:
            self.assertIn(word, done.stderr)

    def test_lint_finds_nothing(self):
        done = run(places.BIN / self.helm, "lint", "--strict", OPERATOR, JOB)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_operator_runs_without_any_privilege(self):
        pod = self.render(OPERATOR).one("Deployment")["spec"]["template"]["spec"]
        self.assertTrue(pod["securityContext"]["runAsNonRoot"])
        self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        container = pod["containers"][0]
        self.assertEqual(container["securityContext"],
                         {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}})
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            self.assertIn("httpGet", container[probe])
        self.assertEqual(container["image"], "trainyard/operator:0.1")

    def test_every_port_names_its_protocol(self):
        rendered = self.render(OPERATOR)
        ports = rendered.one("Service")["spec"]["ports"] + rendered.one("Deployment")["spec"]["template"]["spec"]["containers"][0]["ports"]
        self.assertEqual([port["protocol"] for port in ports], ["TCP", "TCP"])

    def test_rights_are_narrow(self):
        rendered = self.render(OPERATOR)
        rules = [rule for each in rendered.objects if each["kind"] in ("Role", "ClusterRole") for rule in each["rules"]]
        for rule in rules:
            self.assertNotIn("*", rule["verbs"] + rule["apiGroups"] + rule["resources"])
            self.assertNotIn("secrets", rule["resources"])
        role = rendered.one("ClusterRole", "trainyard-operator")
        self.assertEqual({resource: rule["verbs"] for rule in role["rules"] for resource in rule["resources"]}["trainingjobs/status"], ["update"])

    def test_every_verb_of_the_operator_has_its_reason(self):
        for template, options in (("rbac", ()), ("rbac", ("operator.extraArgs={--progress=proxy}", "mpi.enabled=true", "gang.volcano=true", "gang.coscheduling=true", "gang.native=true"))):
            text = self.render(OPERATOR, "rbac.aggregate=false", *options).text
            rules = re.findall(r"resources: \[([^\]]*)\]\n(?:  resourceNames:[^\n]*\n)?((?:  #[^\n]*\n)*)  verbs: \[([^\]]*)\]", text)
            self.assertGreater(len(rules), 8, template)
            for resources, comment, verbs in rules:
                for verb in verbs.split(", "):
                    self.assertRegex(comment, rf"\b{verb}\b", f"{resources}: no reason given for {verb}")

    def test_keys_in_secrets_come_with_the_right_to_make_them(self):
        rendered = self.render(OPERATOR, "secrets.enabled=true")
        rules = rendered.one("ClusterRole", "trainyard-operator")["rules"]
        granted = {resource: rule["verbs"] for rule in rules for resource in rule["resources"]}
        self.assertEqual(granted["secrets"], ["get", "create", "patch", "delete"])
        self.assertIn("--keys-in-secrets", rendered.one("Deployment", "trainyard-operator")["spec"]["template"]["spec"]["containers"][0]["args"])
        self.assertNotIn("--keys-in-secrets", self.render(OPERATOR).text)

    def test_mpi_and_gangs_add_their_rights(self):
        rendered = self.render(OPERATOR, "mpi.enabled=true", "gang.volcano=true", "gang.coscheduling=true", "gang.native=true")
        rules = rendered.one("ClusterRole", "trainyard-operator")["rules"]
        granted = {(rule["apiGroups"][0], resource): rule["verbs"] for rule in rules for resource in rule["resources"]}
        self.assertNotIn("list", granted[("", "secrets")])
        self.assertIn(("scheduling.volcano.sh", "podgroups"), granted)
        self.assertIn(("scheduling.x-k8s.io", "podgroups"), granted)
        self.assertIn(("scheduling.k8s.io", "podgroups"), granted)

    def test_native_gangs_get_the_pod_groups_that_the_cluster_has(self):
        for version, of_gangs in (("1.36.3", "v1alpha2"), ("1.37.0", "v1beta1")):
            done = run(places.BIN / self.helm, "template", "trainyard", OPERATOR, "--kube-version", version, "--set", "gang.native=true")
            self.assertIn(f"--native-pod-groups={of_gangs}\n", done.stdout, done.stderr)
        self.assertNotIn("--native-pod-groups", self.render(OPERATOR).text)

    def test_progress_through_the_api_server_comes_with_its_right(self):
        rules = self.render(OPERATOR, "operator.extraArgs={--progress=proxy}").one("ClusterRole", "trainyard-operator")["rules"]
        granted = {resource: rule["verbs"] for rule in rules for resource in rule["resources"]}
        self.assertEqual((granted["pods/proxy"], granted["services/proxy"]), (["get"], ["get"]))
        self.assertNotIn("pods/proxy", self.render(OPERATOR).text)

    def test_namespace_scoped_mode_needs_no_cluster_role(self):
        rendered = self.render(OPERATOR, "watchNamespaces={red,blue}", "rbac.nodes=false", "rbac.aggregate=false")
        self.assertNotIn("ClusterRole", rendered.kinds())
        self.assertNotIn("ClusterRoleBinding", rendered.kinds())
        roles = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in rendered.objects if each["kind"] == "Role"}
        self.assertEqual(roles, {("red", "trainyard-operator"), ("blue", "trainyard-operator"), ("trainyard-system", "trainyard-operator-leader-election")})
        self.assertIn("--namespaces=red,blue", rendered.one("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"])

    def test_options_add_their_objects(self):
        self.assertNotIn("PodDisruptionBudget", self.render(OPERATOR).kinds())
        self.assertNotIn("ServiceMonitor", self.render(OPERATOR).kinds())
        rendered = self.render(OPERATOR, "podDisruptionBudget.enabled=true", "serviceMonitor.enabled=true", "replicas=2")
        selector = {"app.kubernetes.io/name": "trainyard-operator", "app.kubernetes.io/instance": "trainyard"}
        self.assertEqual(rendered.one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"], selector)
        self.assertEqual(rendered.one("ServiceMonitor")["spec"]["selector"]["matchLabels"], selector)
        self.assertEqual(rendered.one("Deployment")["spec"]["template"]["metadata"]["labels"].items() & selector.items(), selector.items())

    def test_alerts_and_dashboards_are_those_of_the_charts_files(self):
        self.assertFalse({"PrometheusRule", "ConfigMap"} & self.render(OPERATOR).kinds())
        rendered = self.render(OPERATOR, "prometheusRule.enabled=true", "prometheusRule.labels.release=prom", "dashboards.enabled=true", "serviceMonitor.enabled=true")
        rule = rendered.one("PrometheusRule")
        self.assertEqual(rule["metadata"]["labels"]["release"], "prom")
        alerts = (OPERATOR / "monitoring/alerts.yaml").read_text()
        self.assertEqual([each["alert"] for group in rule["spec"]["groups"] for each in group["rules"]], re.findall(r"alert: (\w+)", alerts))
        self.assertIn("{{ $labels.reason }}", json.dumps(rule["spec"]))
        dashboards = rendered.one("ConfigMap", "trainyard-operator-dashboards")
        self.assertEqual(dashboards["metadata"]["labels"]["grafana_dashboard"], "1")
        self.assertEqual({name: json.loads(text) for name, text in dashboards["data"].items()},
                         {f"trainyard-{file.name}": json.loads(file.read_text()) for file in (OPERATOR / "monitoring").glob("*.json")})
        self.assertTrue(rendered.one("ServiceMonitor")["spec"]["endpoints"][0]["honorLabels"])

    def test_the_network_policy_lets_metrics_be_read_from_where_it_says_only(self):
        rendered = self.render(OPERATOR, "networkPolicy.fromNamespaces={observability}", "http.port=9090")
        policy = rendered.one("NetworkPolicy")["spec"]
        labels = rendered.one("Deployment")["spec"]["template"]["metadata"]["labels"]
        self.assertLessEqual(policy["podSelector"]["matchLabels"].items(), labels.items())
        self.assertEqual(policy["policyTypes"], ["Ingress"])
        port = rendered.one("Deployment")["spec"]["template"]["spec"]["containers"][0]["ports"][0]
        self.assertEqual((port["name"], port["containerPort"]), ("http", 9090))
        self.assertEqual(policy["ingress"], [{
            "ports": [{"port": "http", "protocol": "TCP"}],
            "from": [{"podSelector": {}}, {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "observability"}}}]}])
        self.assertIn("NetworkPolicy", self.render(OPERATOR).kinds())
        self.assertNotIn("NetworkPolicy", self.render(OPERATOR, "networkPolicy.enabled=false").kinds())

    def test_the_page_is_on_loopback_unless_a_host_is_chosen_and_then_reached_from_chosen_namespaces(self):
        def container(rendered):
            return rendered.one("Deployment")["spec"]["template"]["spec"]["containers"][0]

        rendered = self.render(OPERATOR)
        self.assertIn("--page-address=127.0.0.1:8081", container(rendered)["args"])
        self.assertEqual([port["name"] for port in container(rendered)["ports"] + rendered.one("Service")["spec"]["ports"]], ["http", "http"])
        self.assertEqual(len(rendered.one("NetworkPolicy")["spec"]["ingress"]), 1)
        self.assertFalse([each for each in container(self.render(OPERATOR, "page.enabled=false"))["args"] if "page" in each])
        rendered = self.render(OPERATOR, "page.host=::", "page.hosts={trainyard.example}", "page.fromNamespaces={ingress}")
        self.assertLessEqual({"--page-address=[::]:8081", "--page-hosts=trainyard.example"}, set(container(rendered)["args"]))
        self.assertEqual([port["name"] for port in container(rendered)["ports"] + rendered.one("Service")["spec"]["ports"]], ["http", "page", "http", "page"])
        self.assertEqual(rendered.one("NetworkPolicy")["spec"]["ingress"][1], {
            "ports": [{"port": "page", "protocol": "TCP"}],
            "from": [{"podSelector": {}}, {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}]})

    def test_without_leader_election_an_upgrade_never_runs_two_operators_at_once(self):
        self.assertNotIn("strategy", self.render(OPERATOR).one("Deployment")["spec"])
        alone = self.render(OPERATOR, "leaderElection.enabled=false").one("Deployment")["spec"]
        self.assertEqual(alone["strategy"], {"type": "Recreate"})

    def test_the_admission_policy_is_off_by_default_and_denies_when_on(self):
        self.assertFalse([kind for kind in self.render(OPERATOR).kinds() if kind.startswith("ValidatingAdmission")])
        rendered = self.render(OPERATOR, "admissionPolicy.enabled=true", "admissionPolicy.serviceAccounts={default,trainer}",
                               ['admissionPolicy.namespaceSelector={"matchLabels":{"team":"ml"}}'])
        policy, binding = rendered.one("ValidatingAdmissionPolicy"), rendered.one("ValidatingAdmissionPolicyBinding")
        self.assertEqual(policy["spec"]["failurePolicy"], "Fail")
        self.assertIn("['default','trainer']", policy["spec"]["validations"][-1]["expression"])
        self.assertEqual(binding["spec"]["policyName"], policy["metadata"]["name"])
        self.assertEqual(binding["spec"]["validationActions"], ["Deny"])
        self.assertEqual(binding["spec"]["matchResources"], {"namespaceSelector": {"matchLabels": {"team": "ml"}}})
        self.refused(OPERATOR, "admissionPolicy.serviceAccounts={}", "serviceAccounts")

    def test_the_admission_policy_needs_a_kubernetes_that_has_such_policies(self):
        for version, status in (("1.29.15", 1), ("1.30.0", 0)):
            done = run(places.BIN / self.helm, "template", "trainyard", OPERATOR, "--kube-version", version, "--set", "admissionPolicy.enabled=true")
            self.assertEqual(done.returncode, status, done.stderr)
            if status:
                self.assertIn("admissionPolicy.enabled=true needs Kubernetes 1.30 or newer, which has ValidatingAdmissionPolicy; found v1.29.15", done.stderr)

    def test_pod_labels_and_service_monitor_labels_are_added(self):
        rendered = self.render(OPERATOR, "podLabels.team=ml", "serviceMonitor.enabled=true", "serviceMonitor.labels.release=prom")
        self.assertEqual(rendered.one("Deployment")["spec"]["template"]["metadata"]["labels"]["team"], "ml")
        self.assertEqual(rendered.one("ServiceMonitor")["metadata"]["labels"]["release"], "prom")

    def test_values_that_make_no_sense_are_refused(self):
        self.refused(OPERATOR, "replicaz=2", "replicaz")
        self.refused(OPERATOR, "operator.logLevel=loud", "logLevel")
        self.refused(OPERATOR, "operator.progressIntervalSeconds=0", "progressIntervalSeconds", "minimum")
        self.refused(OPERATOR, "http.port=80", "port", "minimum")
        self.refused(OPERATOR, "page.port=8080", "page.port: found 8080, which http.port has too")
        self.refused(JOB, "worker.replicas=-1", "replicas")
        self.refused(JOB, "chief.replicas=2", "replicas")
        self.refused(JOB, "framework=Keras", "framework")

    def test_a_typo_in_a_job_is_refused_by_its_name(self):
        for option, word in (("training.optimizer.learningrate=1", "learningrate"), ("training.strategy.local.replicas=1", "replicas"),
                             ("runPolicy.backofLimit=1", "backofLimit"), ("runPolicy.exitCodes[0].code=1", "code"), ("storage.claim=x", "claim"),
                             ("network.ports=1", "ports"), ("serve.replica=1", "replica"), ("serve.when=last", "when"), ("worker.replica=1", "replica")):
            with self.subTest(option):
                self.refused(JOB, option, word)
        self.refused(JOB, "training.batchSize=0", "batchSize", "minimum")
        self.assertNotIn("strategy", self.render(JOB, "ps.replicas=0", "training.strategy=null").one("TrainingJob")["spec"]["training"])

    def test_two_replicas_without_leader_election_are_refused(self):
        done = self.template(OPERATOR, "replicas=2", "leaderElection.enabled=false")
        self.assertIn("needs leaderElection.enabled=true", done.stderr)

    def test_the_job_chart_makes_lenet(self):
        made = self.render(JOB, "worker.replicas=2", "ps.replicas=1", name="mnist").one("TrainingJob")
        self.assertEqual(made["metadata"]["name"], "mnist")
        self.assertEqual({role: made["spec"][role]["replicas"] for role in ("ps", "worker")}, {"ps": 1, "worker": 2})
        self.assertNotIn("chief", made["spec"])
        self.assertEqual(made["spec"]["training"]["model"], {"preset": "lenet5"})
        self.assertEqual(made["spec"]["training"]["strategy"], {"parameterServer": {"mode": "sync"}})
        self.assertNotIn("image", made["spec"])
        self.assertNotIn("serve", made["spec"])

    def test_the_job_chart_passes_everything_on(self):
        made = self.render(
            JOB, "framework=PyTorch", "image=team/torch:1", "ps.replicas=0", "chief.replicas=1", "worker.resources.limits.nvidia\\.com/gpu=1",
            "storage.claimName=work", "network.services=Headless", "serve.when=best", "managedBy=a.b/c", "labels.team=ml", "annotations.note=x",
            ['worker.template={"spec":{"tolerations":[{"operator":"Exists"}]}}'], name="net").one("TrainingJob")
        spec = made["spec"]
        self.assertNotIn("training", spec)
        self.assertNotIn("ps", spec)
        self.assertEqual(spec["chief"]["replicas"], 1)
        self.assertEqual(spec["worker"]["resources"]["limits"]["nvidia.com/gpu"], 1)
        self.assertEqual(spec["worker"]["template"]["spec"]["tolerations"], [{"operator": "Exists"}])
        self.assertEqual((spec["image"], spec["storage"], spec["network"], spec["serve"], spec["managedBy"]),
                         ("team/torch:1", {"claimName": "work"}, {"services": "Headless"}, {"when": "best"}, "a.b/c"))
        self.assertEqual((made["metadata"]["labels"]["team"], made["metadata"]["annotations"]["note"]), ("ml", "x"))

    def test_the_job_chart_knows_every_framework_and_elastic_workers(self):
        for framework in ("JAX", "XGBoost"):
            made = self.render(JOB, f"framework={framework}").one("TrainingJob")
            self.assertEqual(made["spec"]["framework"], framework)
            self.assertNotIn("ps", made["spec"], "it has no servers")
        self.assertIn("ps", self.render(JOB, "framework=TensorFlow").one("TrainingJob")["spec"])
        made = self.render(JOB, "framework=PyTorch", "elastic.minWorkers=1", "elastic.maxWorkers=4").one("TrainingJob")
        self.assertEqual(made["spec"]["elastic"], {"minWorkers": 1, "maxWorkers": 4})
        self.assertNotIn("elastic", self.render(JOB).one("TrainingJob")["spec"])
        self.refused(JOB, "elastic.minimum=1", "minimum")

    def test_where_the_pods_of_a_role_may_run_is_put_into_its_template(self):
        made = self.render(JOB, "worker.resources.limits.nvidia\\.com/gpu=1", "worker.runtimeClassName=nvidia", "worker.nodeSelector.gpu=a100",
                           ['worker.tolerations=[{"key":"nvidia.com/gpu","operator":"Exists"}]'], ['worker.affinity={"nodeAffinity":{}}']).one("TrainingJob")["spec"]
        self.assertEqual(made["worker"]["template"], {"spec": {
            "runtimeClassName": "nvidia", "nodeSelector": {"gpu": "a100"}, "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}}}})
        self.assertNotIn("template", made["ps"])
        made = self.render(JOB, "worker.runtimeClassName=nvidia", "worker.nodeSelector.gpu=a100", ["worker.tolerations=[{}]"],
                           ['worker.template={"metadata":{"labels":{"a":"b"}},"spec":{"runtimeClassName":"own","tolerations":[],"hostIPC":true}}'])
        self.assertEqual(made.one("TrainingJob")["spec"]["worker"]["template"], {
            "metadata": {"labels": {"a": "b"}}, "spec": {"runtimeClassName": "own", "nodeSelector": {"gpu": "a100"}, "tolerations": [{}], "hostIPC": True}})
        for option, word in (("worker.nodeSelektor.gpu=a100", "nodeSelektor"), ("worker.tolerations.key=x", "tolerations"), ("ps.runtimeClassName=7", "runtimeClassName")):
            with self.subTest(option):
                self.refused(JOB, option, word)

    def test_a_release_name_that_makes_too_long_pod_names_is_refused(self):
        self.refused(JOB, "worker.replicas=2000", "too long", name="x" * 53)

    def test_copies_are_equal_to_their_source(self):
        done = run(REPOSITORY / "scripts/generate-deploy.sh", "--check")
        self.assertEqual(done.returncode, 0, done.stderr)


class Helm3ChartsTest(ChartsTest):
    helm = "helm3"


class NotesTest(unittest.TestCase):
    """Only Helm 4 shows the notes without a cluster."""

    @classmethod
    def setUpClass(cls):
        need("helm4")

    def test_notes_tell_what_to_do_next(self):
        done = run(places.BIN / "helm4", "install", "trainyard", OPERATOR, "--dry-run=client", "--namespace", "trainyard-system")
        self.assertIn("kubectl get tj -w", done.stdout, done.stderr)


if __name__ == "__main__":
    unittest.main()
