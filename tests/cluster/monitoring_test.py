"""The chart's dashboards and alerts, in a real Prometheus that reads a real operator and a real training.

The training is a trainer process of this machine. It reads the files that the operator made for its pod, and the pod's address is this machine's.
"""

import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.parse
import urllib.request

import yaml

from harness import places
from harness.control_plane import free_port
from harness.jobs import CONFIG_MAPS, JOBS, job
from harness.suite import skip_or_fail
from harness.wait import wait_for
from operator_case import OperatorCase

MONITORING = places.REPOSITORY / "charts/trainyard-operator/monitoring"
TRAINER = pathlib.Path(os.environ.get("TRAINYARD_TRAINER", places.REPOSITORY / "build/release/trainer/trainyard-trainer"))
DIGITS = {"format": "idx", "dir": str(places.REPOSITORY / "examples/data/mnist"),
          "train": {"images": "t10k-images-idx3-ubyte.gz", "labels": "t10k-labels-idx1-ubyte.gz"}}


def prometheus():
    """The folder of Prometheus' programs."""
    found = subprocess.run([places.REPOSITORY / "scripts/unpack.sh", "prometheus"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        skip_or_fail([found.stderr.strip()])
    return pathlib.Path(found.stdout.strip()) / "usr/bin"


def without_variables(query):
    """A panel's query as Grafana sends it for all namespaces and jobs, where the data source is scraped every 15 s."""
    return re.sub(r"\$(namespace|job)\b", ".*", query).replace("$__rate_interval", "1m")


def queries(dashboard):
    """(title of the panel, query for all namespaces and jobs) of a dashboard."""
    for panel in json.loads((MONITORING / dashboard).read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], without_variables(target["expr"])


class AlertsTest(unittest.TestCase):
    def test_each_alert_fires_on_what_it_is_for_and_none_on_a_healthy_operator(self):
        tool = prometheus() / "promtool"
        with tempfile.TemporaryDirectory() as folder:
            for file in (MONITORING / "alerts.yaml", places.REPOSITORY / "tests/charts/alerts_test.yaml"):
                shutil.copy(file, folder)
            for command in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
                done = subprocess.run([tool, *command], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_alert_is_tried_and_named_on_its_page(self):
        named = set(re.findall(r"alert: (\w+)", (MONITORING / "alerts.yaml").read_text()))
        tried = set(re.findall(r"alertname: (\w+)", (places.REPOSITORY / "tests/charts/alerts_test.yaml").read_text()))
        told = set(re.findall(r"`(Trainyard\w+)`", (places.REPOSITORY / "docs/monitoring.md").read_text()))
        self.assertEqual(tried, named)
        self.assertEqual(told, named)

    def test_no_rate_of_a_dashboard_has_a_window_that_a_slow_scrape_leaves_empty(self):
        for name in ("jobs", "operator"):
            windows = set(re.findall(r"\[([^\[\]]+)\]\)", (MONITORING / f"{name}.json").read_text()))
            self.assertLessEqual(windows, {"$__rate_interval", "5m", "1h"})

    def test_the_pictures_of_the_dashboards_have_each_panel(self):
        for name in ("jobs", "operator"):
            picture = (places.REPOSITORY / f"docs/pictures/dashboard-{name}.svg").read_text()
            lacking = {title for title, _ in queries(f"{name}.json")} - set(re.findall(r">([^<>]+)</text>", picture))
            self.assertEqual(lacking, set(), "run docs/pictures/dashboards.sh: the picture is old")


def state_metrics():
    """The metrics that kube-state-metrics makes of a job, by name."""
    resource, = yaml.safe_load((places.REPOSITORY / "deploy/kube-state-metrics.yaml").read_text())["spec"]["resources"]
    return {f"{resource['metricNamePrefix']}_{metric['name']}": metric["each"] for metric in resource["metrics"]}


def sources(each):
    """(path of the value, its kind) and of the labels, of one metric. A path goes into the values of a map or list as "*"."""
    body = each[each["type"][0].lower() + each["type"][1:]]
    many = ["*"] if "valueFrom" in body else []
    if "path" in body:
        yield [*body["path"], *many, *body.get("valueFrom", [])], each["type"]
    for path in body.get("labelsFromPath", {}).values():
        yield [*body.get("path", []), *many, *path], "label"


class StateMetricsTest(unittest.TestCase):
    """The configuration of kube-state-metrics is held against the schema, and below against a status. state_metrics_test.py runs the program."""

    def test_each_path_leads_to_a_field_of_the_right_type(self):
        crd = yaml.safe_load((places.REPOSITORY / "crds/trainingjob.yaml").read_text())
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["metadata"] = {"properties": {"creationTimestamp": {"type": "string", "format": "date-time"}, "uid": {"type": "string"}}}
        for name, each in state_metrics().items():
            for path, kind in sources(each):
                with self.subTest(name, path=path):
                    field = schema
                    for part in path:
                        inner = field.get("items") or field.get("additionalProperties") or next(iter(field.get("properties", {}).values()), None)
                        field = inner if part == "*" else field["properties"][part]
                    if kind == "StateSet":
                        words, = re.findall(r"kPhases = \{(.*?)\}", (places.REPOSITORY / "operator/api/words.h").read_text(), re.DOTALL)
                        self.assertEqual(each["stateSet"]["list"], re.findall(r'"(\w+)"', words))
                    elif kind == "Gauge" and path[-1:] != ["status"]:
                        self.assertTrue(field["type"] in ("integer", "number", "boolean") or field.get("format") == "date-time", field)
                    else:
                        self.assertEqual(field["type"], "string")

    def test_each_metric_is_named_on_its_page(self):
        told = set(re.findall(r"`(kube_trainingjob\w+)`", (places.REPOSITORY / "docs/monitoring.md").read_text()))
        self.assertEqual(told, set(state_metrics()))


class DashboardsTest(OperatorCase):
    flags = {"progress": "direct", "progress_interval": 1}

    def setUp(self):
        if not TRAINER.exists():
            skip_or_fail([f"the trainer's program {TRAINER}; build the target trainyard-trainer"])
        super().setUp()
        folder = pathlib.Path(tempfile.mkdtemp(prefix="trainyard-monitoring-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.folder = folder
        self.port = free_port("127.0.0.1")
        shutil.copy(MONITORING / "alerts.yaml", folder)
        (folder / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": ["alerts.yaml"],
            "scrape_configs": [{"job_name": "operator", "honor_labels": True, "static_configs": [{"targets": [f"127.0.0.1:{self.operator.port}"]}]}]}))
        self.run_process("prometheus", [prometheus() / "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                                        f"--web.listen-address=127.0.0.1:{self.port}"])

    def run_process(self, name, command, environment=None):
        self.plane.processes.start(name, command, environment)
        self.addCleanup(self.plane.processes.kill, name)

    def train(self, name):
        """The trainer of the job's worker 0, as its pod would run it."""
        config = self.folder / f"config-{name}"
        config.mkdir()
        body = self.api.get(f"{JOBS}/{name}")
        for file, text in self.api.get(f"{CONFIG_MAPS}/{name}-cluster")["data"].items():
            (config / file).write_text(text)
        self.run_process(f"trainer-{name}", [TRAINER, "train", "--output", self.folder / f"out-{name}"], {
            "TRAINYARD_ROLE": "worker", "TRAINYARD_INDEX": "0", "TRAINYARD_CONFIG_DIR": str(config), "TRAINYARD_JOB_NAME": name,
            "TRAINYARD_JOB_UID": body["metadata"]["uid"]})

    @classmethod
    def reaches(cls, value, path):
        """Whether the object has a value there."""
        if not path:
            return value is not None
        if path[0] == "*":
            return any(cls.reaches(inner, path[1:]) for inner in (value.values() if isinstance(value, dict) else value))
        return path[0] in value and cls.reaches(value[path[0]], path[1:])

    def ask(self, path, **parameters):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def has_data(self, query):
        """Whether one of the series has a number now; an error when a process has ended by itself."""
        self.plane.processes.check()
        return any(not math.isnan(float(series["value"][1])) for series in self.ask("query", query=query)["result"])

    def test_every_panel_shows_data_of_a_training_and_no_alert_is_broken(self):
        training = {"model": {"preset": "lenet5"}, "data": DIGITS, "batchSize": 64, "epochs": 10000, "strategy": {"local": {}}, "resources": {"threads": 1}}
        self.running(job("digits").worker(1).set("training", training).set("network", {"port": free_port("", in_a_row=2)}), "digits-worker-0")
        self.train("digits")
        self.create(job("held").worker(1))  # its pod has no node
        wait_for("the operator to be scraped", lambda: self.has_data('up{job="operator"} == 1'), 30)
        for dashboard in ("jobs.json", "operator.json"):
            for title, query in queries(dashboard):
                with self.subTest(f"{dashboard}: {title}: {query}"):
                    wait_for(f"data for {query}", lambda query=query: self.has_data(query), 60)
        speed = 'trainyard_job_examples_per_second{namespace="default", job="digits"}'
        self.assertGreater(float(self.ask("query", query=speed)["result"][0]["value"][1]), 0)
        found = self.api.get(f"{JOBS}/digits")
        lacking = {name for name, each in state_metrics().items() for path, _ in sources(each) if not self.reaches(found, path)}
        self.assertEqual(lacking, {f"kube_trainingjob_status_{name}" for name in ("disruptions", "completion_time")}, "a training that went well has all others")
        rules = [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]
        self.assertEqual({rule["name"]: rule["health"] for rule in rules}, {rule["name"]: "ok" for rule in rules})
        self.assertEqual([rule["name"] for rule in rules if rule["state"] == "firing"], [])


if __name__ == "__main__":
    unittest.main()
