"""The operator's page, in a real browser, with jobs in a real API server. Statuses of jobs that another controller manages are written by the test."""

import concurrent.futures
import json
import pathlib
import sys
import unittest
import urllib.error
import urllib.request

from harness import places
from harness.control_plane import free_port
from harness.jobs import JOBS, job
from harness.operator import Operator
from harness.suite import skip_or_fail
from harness.wait import wait_for
from operator_case import OperatorCase

sys.path.insert(0, str(places.REPOSITORY / "tests/e2e"))
from browser import Browser  # noqa: E402

MANY = 1000
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"


# Milliseconds from the navigation to the end of the frame in which the list has its first rows.
WHEN_PAINTED = """new MutationObserver((_, observer) => {
  if (!document.querySelector('#jobs tbody tr')) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.painted = performance.now(); }));
}).observe(document, {childList: true, subtree: true});"""


def others(name):
    """A job that the operator leaves alone: its status is the test's."""
    return job(name).worker(2).set("managedBy", "example.com/controller")


def training(step, loss=0.5, total=10000):
    return {"phase": "Running", "message": "2 of 2 replicas ready", "startTime": "2026-01-01T00:00:00Z",
            "replicaStatuses": {"worker": {"desired": 2, "active": 2, "ready": 2}},
            "progress": {"step": step, "totalSteps": total, "percent": 100 * step / total, "loss": loss, "examplesPerSecond": 1234.5, "etaSeconds": 90}}


class PageCase(OperatorCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.browser = Browser()
        except FileNotFoundError as error:
            skip_or_fail([str(error)])
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.page_port = free_port("127.0.0.1")
        self.flags = {"page_address": f"127.0.0.1:{self.page_port}"}
        super().setUp()
        self.url = f"http://localhost:{self.page_port}/"
        self.addCleanup(self.browser.open, "about:blank")

    def add(self, name, status=None):
        self.create(others(name))
        if status:
            self.write(name, status)

    def write(self, name, status):
        self.api.merge(f"{JOBS}/{name}/status", {"status": status})

    def see(self, text, where="document.body"):
        self.browser.await_true(f"{where}.innerText.includes({json.dumps(text)})")

    def press(self, *keys):
        for key in keys:
            text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
            self.browser.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            self.browser.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def shown(self):
        """The names in the list, from its top."""
        return self.browser.ask("[...document.querySelectorAll('#jobs .name')].map((each) => each.textContent)")

    def get(self, path, host=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.page_port}{path}", headers={"Host": host} if host else {})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers, answer.read().decode()


    def curve(self, name):
        return json.loads(self.get(f"/api/v1/jobs/default/{name}")[2]).get("curve", [])


class PageTest(PageCase):
    def test_a_job_is_followed_from_its_creation_to_its_failure_without_a_reload(self):
        self.browser.look_as()
        self.browser.open(self.url)
        self.see("No TrainingJob in the namespaces")
        self.create(job("digits").worker(2).policy(backoffLimit=0))
        self.see("digits")
        self.wait_pods("digits-worker-0", "digits-worker-1")
        self.kubelet.run("digits-worker-0", "digits-worker-1")
        self.see("Running", "document.querySelector('#jobs tbody')")
        self.press("j", "Enter")
        self.see("digits-worker-1.digits.default.svc:5000")
        self.see("worker-0", "document.querySelector('#job table')")
        self.kubelet.fail("digits-worker-1", code=1, message="the last line of its log: no such file train.idx")
        self.see("First failure")
        self.see("no such file train.idx", "document.querySelector('.failed pre')")
        self.press("Escape")
        self.see("Failed", "document.querySelector('#jobs tbody')")
        self.assertEqual(self.browser.complaints, [])

    def test_progress_draws_a_curve(self):
        self.add("digits", training(10, 2.0))
        self.browser.open(self.url + "#/default/digits")
        for step, loss in ((10, 2.0), (20, 1.0), (30, 0.5)):
            self.write("digits", training(step, loss))
            self.browser.await_true(f"document.querySelector('#job .card b')?.textContent === '{step}'")
            wait_for(f"step {step} on the curve", lambda step=step, loss=loss: self.curve("digits")[-1:] == [[step, loss, 1234]])
        self.browser.await_true("document.querySelectorAll('figure svg polyline').length === 2")
        self.see("Training loss: 0.5", "document.querySelector('figure')")
        self.assertEqual(self.curve("digits"), [[10, 2.0, 1234], [20, 1.0, 1234], [30, 0.5, 1234]])

    def test_the_axis_of_a_curve_counts_whole_steps(self):
        self.add("digits", training(10, 2.0))
        self.browser.open(self.url + "#/default/digits")
        for step, loss in ((10, 2.0), (11, 1.0)):
            self.write("digits", training(step, loss))
            wait_for(f"step {step} on the curve", lambda step=step: self.curve("digits")[-1:] and self.curve("digits")[-1][0] == step)
        self.browser.await_true("document.querySelectorAll('figure svg polyline').length === 2")
        texts = self.browser.ask("[...document.querySelectorAll('figure svg')[0].querySelectorAll('text')].map((each) => each.textContent)")
        self.assertEqual(texts[-3:], ["10", "11", "step"])

    def test_markup_in_a_status_is_shown_as_text(self):
        self.add("evil", {"phase": "Failed", "message": HOSTILE,
                          "conditions": [{"type": "Stalled", "status": "True", "reason": "CannotCreate", "message": HOSTILE, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                          "failure": {"replica": HOSTILE, "reason": HOSTILE, "message": HOSTILE}, "stragglers": [HOSTILE], "progress": {"step": 1, "stoppedEarly": HOSTILE},
                          "serving": {"readyReplicas": 1, "url": f"javascript:{HOSTILE}"}})
        self.browser.open(self.url)
        self.see("onerror")
        for address in ("#/", "#/default/evil"):
            self.browser.ask(f"location.hash = {json.dumps(address)}")
            self.see("onerror", "document.querySelector('main:not([hidden])')")
            self.assertEqual(self.browser.ask("document.querySelectorAll('main img, main script, main a[href^=javascript]').length"), 0)
            self.assertNotEqual(self.browser.ask("document.title"), "taken")
        self.assertEqual(self.browser.complaints, [])
        self.assertEqual(self.get("/")[1]["Content-Security-Policy"].split(";")[0], "default-src 'none'")

    def test_another_site_that_names_this_address_is_refused(self):
        for host in ("evil.example", "evil.example:8081", "localhost.evil.example"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.get("/api/v1/jobs", host)
            self.assertEqual(refused.exception.code, 403)
            refused.exception.close()
        self.assertEqual(self.get("/api/v1/jobs", "localhost:8081")[0], 200)
        self.assertEqual(self.get("/api/v1/jobs", "[::1]:8081")[0], 200)

    def test_search_namespaces_states_and_phones(self):
        self.add("alpha", training(1))
        self.add("beta", training(2))
        self.add("gamma", {"phase": "Failed", "message": "replica worker-0 failed: " + "a reason that is longer than a phone is wide, " * 5 + "x" * 300})
        self.browser.look_as(390, 844, dark=True, phone=True)
        self.browser.open(self.url)
        self.browser.await_true("document.querySelectorAll('#jobs .name').length === 3")
        self.assertEqual(self.browser.ask("document.documentElement.scrollWidth"), 390, "nothing is wider than a phone")
        self.browser.ask("location.hash = '#/default/gamma'")
        self.see("a reason", "document.getElementById('job')")
        self.assertEqual(self.browser.ask("document.documentElement.scrollWidth"), 390, "nor a job's own page")
        self.press("Escape")
        self.browser.await_true("!document.getElementById('list').hidden")
        self.assertEqual(self.browser.ask("document.documentElement.dataset.theme"), "dark")
        self.press("/", *"worker-0 fai")
        self.browser.await_true("document.querySelectorAll('#jobs .name').length === 1")
        self.assertEqual(self.shown(), ["gamma"])
        self.press("Escape")
        self.browser.await_true("document.querySelectorAll('#jobs .name').length === 3")
        self.browser.ask("[...document.querySelectorAll('#phases button')].find((each) => each.textContent.startsWith('Running')).click()")
        self.assertEqual(sorted(self.shown()), ["alpha", "beta"])
        self.api.delete(f"{JOBS}/alpha")
        self.browser.await_true("document.querySelectorAll('#jobs .name').length === 1")
        self.assertEqual(self.browser.complaints, [])

    def memory(self):
        """MiB that the operator holds."""
        pid = self.plane.processes.pid("operator")
        fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
        return int(fields["VmRSS"].split()[0]) / 1024

    def add_some(self, share):
        """Every fourth of the many jobs, by a connection of its own."""
        api = self.plane.api()
        self.addCleanup(api.close)
        for i in range(share, MANY, 4):
            api.create(JOBS, others(f"job-{i:04}").spec())
            api.merge(f"{JOBS}/job-{i:04}/status", {"status": training(i + 1)})

    def test_a_thousand_jobs_are_shown_and_cost_less_than_20_mib(self):
        self.operator.stop()
        self.addCleanup(self.api.request, "DELETE", JOBS)  # at once: one by one takes longer than the test
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(self.add_some, range(4)))
        self.operator = Operator(self.plane).start()
        without = self.memory()
        self.operator.stop()
        self.operator = Operator(self.plane, **self.flags).start()
        self.addCleanup(self.operator.stop)
        self.browser.look_as()
        script = self.browser.call("Page.addScriptToEvaluateOnNewDocument", source=WHEN_PAINTED)
        self.addCleanup(lambda: self.browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"]))
        self.browser.open(self.url)
        self.browser.await_true("window.painted > 0 && document.querySelectorAll('#jobs tbody tr').length >= 100")
        paint = self.browser.ask("window.painted")
        self.see("Running 1\u202f000")
        streams = [urllib.request.urlopen(f"{self.url}api/v1/jobs?watch=true", timeout=10) for _ in range(10)]
        for stream in streams:
            self.addCleanup(stream.close)
            self.assertIn(b"event: jobs", stream.readline())
        for i in range(0, MANY, 20):
            self.write(f"job-{i:04}", training(i + 2))
        self.press("/", *"job-0980")
        self.see("982 / 10", "document.querySelector('#jobs tbody')")
        more = self.memory() - without
        print(f"{MANY} jobs: list painted {paint:.0f} ms after navigation; {len(self.get('/api/v1/jobs')[2]) / 1024:.0f} KiB of list; {more:.1f} MiB more with 11 streams")
        self.assertLess(more, 20)
        self.assertEqual(self.browser.complaints, [])


if __name__ == "__main__":
    unittest.main()
