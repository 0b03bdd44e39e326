"""Runs small trainings under an operator that a Prometheus scrapes, and asks what dashboards ask.

    dashboards_data.py FOLDER

writes FOLDER/jobs.json and operator.json: each dashboard's panels with the points of their queries, for
dashboards_picture.py. It also writes page-jobs.png and page-job.png: the operator's own page in
headless Chromium. Cluster, Prometheus and trainings are those of tests/cluster/monitoring_test.py.
"""

import json
import pathlib
import re
import sys
import time
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(REPOSITORY / "tests/cluster"), str(REPOSITORY / "tests/e2e")]

from browser import Browser  # noqa: E402
from harness.control_plane import free_port  # noqa: E402
from harness.jobs import JOBS, job  # noqa: E402
from harness.wait import let_time_pass, wait_for  # noqa: E402
from monitoring_test import DIGITS, MONITORING, DashboardsTest, without_variables  # noqa: E402

SECONDS = 150
FOLDER = pathlib.Path(sys.argv[1]).resolve()


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def panels(dashboard):
    return json.loads((MONITORING / dashboard).read_text())["panels"]


class Run(DashboardsTest):
    """One run, told as a test for the sake of its set-up."""

    def setUp(self):
        self.page = free_port("127.0.0.1")
        self.flags = {**DashboardsTest.flags, "page_address": f"127.0.0.1:{self.page}"}
        super().setUp()
        self.began = time.time()

    def training(self, name, optimizer):
        body = {"model": {"preset": "lenet5"}, "data": DIGITS, "batchSize": 64, "epochs": 400, "optimizer": optimizer, "strategy": {"local": {}},
                "resources": {"threads": 1}}
        self.running(job(name).worker(1).set("training", body).set("network", {"port": free_port("", in_a_row=2)}), f"{name}-worker-0")
        self.train(name)

    def small(self, name, workers=2):
        """Without a trainer: its pods do what is written into their statuses."""
        maker = job(name).framework("None").set("image", "x").without("training").worker(workers)
        self.running(maker, *[f"{name}-worker-{i}" for i in range(workers)])

    def points(self, panel):
        """(legend, [[seconds since the beginning, value] …]) of each series of the panel."""
        for target in panel["targets"]:
            query = without_variables(target["expr"])
            for series in self.ask("query_range", query=query, start=self.began, end=time.time(), step="3")["result"]:
                legend = re.sub(r"\{\{(\w+)\}\}", lambda found, series=series: series["metric"].get(found[1], ""), target["legendFormat"])
                yield legend or "value", [[round(at - self.began, 1), float(value)] for at, value in series["values"] if value != "NaN"]

    def draw_page(self):
        browser = Browser()
        self.addCleanup(browser.close)
        for name, path, dark, text in (("page-jobs", "#/", False, "adagrad"), ("page-job", "#/default/momentum", True, "Training loss")):
            browser.look_as(1280, 560 if name == "page-jobs" else 900, dark=dark)
            browser.open("about:blank")
            browser.open(f"http://localhost:{self.page}/{path}")
            browser.await_true(f"document.body.innerText.includes({json.dumps(text)})")
            browser.screenshot(FOLDER / f"{name}.png")

    def run_and_tell(self):
        self.training("momentum", {"name": "momentum", "learningRate": 0.0002})
        let_time_pass(15)
        self.training("adagrad", {"name": "adagrad", "learningRate": 0.001})
        self.small("done")
        self.kubelet.succeed("done-worker-0", "done-worker-1")
        self.small("restarts", workers=3)
        self.create(job("held").worker(1))  # its pod has no node
        let_time_pass(15)
        first = self.uid("restarts-worker-1")
        self.kubelet.fail("restarts-worker-1", code=137)
        wait_for("a new pod", lambda: "restarts-worker-1" in self.pods() and self.uid("restarts-worker-1") != first)
        self.kubelet.run("restarts-worker-1", since=now())
        self.create(job("broken").framework("None").set("image", "x").without("training").worker(1, restartPolicy="Never"))
        self.wait_pods_of("broken", 1)
        self.kubelet.fail("broken-worker-0", code=1, message="FileNotFoundError: /data/train.idx")
        for i in range(4):  # work for the operator
            let_time_pass(10)
            self.small(f"sweep-{i}")
            self.kubelet.succeed(f"sweep-{i}-worker-0", f"sweep-{i}-worker-1")
        wait_for("enough to be seen", lambda: time.time() - self.began > SECONDS, SECONDS + 60)
        for dashboard in ("jobs", "operator"):
            told = [{"title": panel["title"], "type": panel["type"], "place": panel["gridPos"], "unit": panel["fieldConfig"]["defaults"]["unit"],
                     "series": list(self.points(panel))} for panel in panels(f"{dashboard}.json")]
            self.assertTrue(all(panel["series"] for panel in told), "a panel without data")
            (FOLDER / f"{dashboard}.json").write_text(json.dumps(told))
        self.draw_page()

    def wait_pods_of(self, name, number):
        wait_for(f"the pods of {name}", lambda: sum(pod.startswith(f"{name}-") for pod in self.pods()) == number)

    def running(self, maker, *pods):
        """As there, among the pods of other jobs."""
        name = self.create(maker)["metadata"]["name"]
        self.wait_pods_of(name, len(pods))
        self.kubelet.run(*pods, since=now())
        self.wait_condition(name, "Running")


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    sys.exit(not unittest.TextTestRunner().run(unittest.TestSuite([Run("run_and_tell")])).wasSuccessful())
