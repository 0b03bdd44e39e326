"""The page of a run as a browser shows it: on a wide screen and on a phone, by day and by night, of a run that trains, of runs side by side."""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from browser import Browser
from trainyard import ROOT, TRAINER, Run, job_file

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">'&\u2028\u2029\u202e"
DRAWN = "[...document.querySelectorAll('canvas')].every(canvas => Number(canvas.dataset.points) > 0)"
# Whether the canvas shows a pixel of that line's own colour.
HAS_COLOUR = """(id, name) => {
  const wanted = document.createElement('canvas').getContext('2d');
  wanted.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name);
  wanted.fillRect(0, 0, 1, 1);
  const [r, g, b] = wanted.getImageData(0, 0, 1, 1).data;
  const canvas = document.getElementById(id);
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  for (let at = 0; at < data.length; at += 4) if (data[at] === r && data[at + 1] === g && data[at + 2] === b && data[at + 3] === 255) return true;
  return false;
}"""


def command(*arguments):
    return subprocess.run([TRAINER, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=120)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="trainyard-page-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
        extra = "    summary: {everySteps: 2}\n    evaluate: {everySteps: 10}\n"
        cls.job = job_file(cls.folder, workers=2, ps=1, mode="sync", steps=30, batch=32, extra=extra)
        cls.run_folder = cls.train("run")

    @classmethod
    def train(cls, name, overrides=()):
        run = Run(cls.job, output=cls.folder / name, overrides=overrides).succeed()
        return run.output

    def open(self, path, **look):
        self.browser.look_as(**look)
        self.browser.open(path if "://" in str(path) else path.as_uri())
        self.browser.await_true(f"document.querySelectorAll('canvas').length > 0 && {DRAWN}")
        self.assertEqual(self.browser.complaints, [])

    def points(self):
        return json.loads(self.browser.ask("JSON.stringify(Object.fromEntries([...document.querySelectorAll('canvas')].map(canvas => [canvas.id, Number(canvas.dataset.points)])))"))

    def altered(self, name, change):
        """A copy of the run whose report `change` has altered, with its page."""
        folder = self.folder / name
        shutil.copytree(self.run_folder, folder)
        report = json.loads((folder / "report.json").read_text())
        change(report)
        (folder / "report.json").write_text(json.dumps(report))
        self.assertEqual(command("report", folder).returncode, 0)
        return folder

    def text(self, section):
        return self.browser.ask(f"document.getElementById({json.dumps(section)}).innerText")

    def has_colour(self, chart, name):
        return self.browser.ask(f"({HAS_COLOUR})({json.dumps(chart)}, {json.dumps(name)})")


class OfARun(Page):
    def test_the_page_has_all_curves_and_the_numbers_of_the_report(self):
        self.open(self.run_folder / "report.html")
        points = self.points()
        self.assertEqual(set(points), {"loss", "accuracy", "rate", "speed", "split", "cores", "memory"})
        self.assertEqual(points["loss"], 2 * 2 * 15 + 3)  # both workers as recorded and smoothed, and three evaluations
        self.assertEqual(points["accuracy"], 3)
        self.assertTrue(self.has_colour("loss", "--c0"))
        self.assertTrue(self.has_colour("accuracy", "--c2"))
        report = json.loads((self.run_folder / "report.json").read_text())
        self.assertIn(f"{100 * report['eval']['accuracy']:.2f} %", self.text("results"))
        self.assertIn("Conv2dWeightGradient", self.text("operators"))
        self.assertIn("optimizer.learningRate", self.text("settings"))
        self.assertIn("ps-0", self.text("replicas"))
        self.assertTrue((self.run_folder / self.browser.ask("document.querySelector('a[download]').getAttribute('href')")).is_file())

    def test_the_timeline_has_the_spans_of_every_replica(self):
        self.open(self.run_folder / "report.html")
        self.assertEqual(json.loads(self.browser.ask("JSON.stringify([...document.querySelectorAll('.timeline .who')].map(who => who.textContent))")), ["worker-0", "worker-1", "ps-0"])
        spans = json.loads(self.browser.ask("JSON.stringify([...document.querySelectorAll('.lane span')].map(span => [span.title.split(':')[0], parseFloat(span.style.left), parseFloat(span.style.width)]))"))
        self.assertGreaterEqual(len([name for name, _, _ in spans if name == "compute"]), 4)  # three steps of one worker, and some of the other
        self.assertTrue(any(name.startswith("push ") for name, _, _ in spans))
        self.assertTrue(all(0 <= left and left + width <= 100.01 for _, left, width in spans))

    def test_the_matrix_counts_every_example_that_was_evaluated(self):
        self.open(self.run_folder / "report.html")
        cells = self.browser.ask("[...document.querySelectorAll('table.matrix td')].reduce((sum, cell) => sum + Number(cell.textContent), 0)")
        self.assertEqual(cells, 200)
        self.assertGreater(self.browser.ask("[...document.querySelectorAll('.samples img')].filter(image => image.naturalWidth === 28).length"), 0)
        evaluation = json.loads((self.run_folder / "evaluation.json").read_text())
        shown = json.loads(command("evaluate", self.run_folder, "--json").stdout)
        self.assertEqual(evaluation["confusion"], shown["confusion"])

    def test_the_evaluators_best_and_last_evaluation_are_told(self):
        def evaluate(report):
            report["evaluator"] = {"index": 0, "evaluations": 2, "metric": "loss", "best": {"step": 10, "epoch": 0, "metrics": {"accuracy": 0.5, "loss": 1.25}, "seconds": 1.5},
                                   "last": {"step": 30, "epoch": 1, "metrics": {"loss": None}}}

        self.open(self.altered("evaluated", evaluate) / "report.html")
        self.assertIn("evaluator-0 has 2 evaluations. The best by loss, of step 10: accuracy 50.00 %, loss 1.25, in 1.5 s. The last, of step 30: loss NaN.", self.text("replicas"))

    def test_a_single_accuracy_stands_on_an_axis_from_0_to_1(self):
        once = self.train("once", ["training.evaluate.everySteps=1000"])
        self.open(once / "report.html")
        self.assertEqual(self.points()["accuracy"], 1)
        self.assertEqual(self.browser.ask("(axis => `${axis.min} to ${axis.max}`)(Chart.getChart('accuracy').scales.y)"), "0 to 1")

    def test_the_axis_counts_whole_steps_and_epochs_have_a_row_each(self):
        single = self.train("single", ["training.steps=1"])
        self.open(single / "report.html")
        self.assertEqual(self.browser.ask("Chart.getChart('loss').scales.x.ticks.map(({value}) => value)"), [0, 1])
        self.assertRegex(self.text("epochs"), r"epoch\s+its last step\s+training loss\s+evaluation: accuracy\s+evaluation: loss\s+time\s+0\s+1\s+2\.\d+\s+\d+\.\d\d %")

    def test_of_many_epochs_the_last_ones_are_shown_and_their_evaluations_are_a_line(self):
        def lengthen(report):
            report["history"] = [{"epoch": epoch, "step": 10 * epoch, "loss": 1, "seconds": 2, "eval": {"accuracy": 0.5}} for epoch in range(100)]

        self.open(self.altered("lengthened", lengthen) / "report.html")
        self.assertIn("90 earlier epochs", self.text("epochs"))
        self.assertEqual(self.browser.ask("document.querySelector('#epochs td').textContent"), "90")
        self.assertEqual(self.browser.ask("Chart.getChart('accuracy').data.datasets[0].pointRadius"), 0)

    def test_numbers_of_the_results_stay_in_a_line_and_scores_look_the_same(self):
        def diverge(report):
            report.update(lastLoss=325401113.25, best={"metric": "accuracy", "value": 0.9756, "step": 20})

        for width, phone in ((1280, False), (360, True)):
            self.open(self.altered(f"diverged-{width}", diverge) / "report.html", width=width, phone=phone)
            self.assertEqual(self.browser.ask("new Set([...document.querySelectorAll('.tile b')].map((each) => each.offsetHeight)).size"), 1)
            self.assertEqual(self.browser.ask("[...document.querySelectorAll('.tile b')].filter((each) => each.scrollWidth > each.clientWidth).length"), 0)
            self.assertIn("best accuracy\n97.56 %", self.text("results"))

    def test_a_launch_that_went_on_tells_which_steps_took_its_time(self):
        resumed = self.train("resumed", ["training.steps=10"])
        self.train("resumed", ["training.steps=20"])
        self.open(resumed / "report.html")
        self.assertIn("steps 10 to 20", self.text("results"))
        self.assertEqual(json.loads((resumed / "report.json").read_text())["restarts"], [])

    def test_of_many_workers_and_failures_the_first_ones_are_shown_and_it_says_so(self):
        def grow(report):
            report.update(workers=200, perWorker=[{**report["perWorker"][0], "index": index} for index in range(200)],
                          failures=[{"replica": f"worker-{index}", "reason": "signal 9"} for index in range(30)])

        self.open(self.altered("many", grow) / "report.html")
        titles = self.browser.ask("[...document.querySelectorAll('h3')].map((each) => each.textContent)")
        for title in ("Loss, 2 of 200 workers", "Seconds of the step loop, the first 16 of 200 workers"):
            self.assertIn(title, titles)
        self.assertIn("more lines", self.text("incidents"))
        self.assertNotIn("worker-25", self.text("incidents"))
        self.assertIn("49 more replicas", self.text("replicas"))  # of 64 workers and the server
        self.assertNotIn("no numbers", self.text("replicas"))

    def test_small_numbers_look_alike(self):
        self.open(self.run_folder / "report.html")
        shown = [self.browser.ask(f"number({value})") for value in ("0.0008", "0.001", "0.00012346", "0.00008", "4e26", "1.25e-7", "2.07e35")]
        self.assertEqual(shown, ["0.0008", "0.001", "0.0001235", "8e-5", "4e26", "1.25e-7", "2.07e35"])

    def test_replicas_that_left_no_numbers_are_named(self):
        self.open(self.run_folder / "report.html")
        self.assertNotIn("no numbers", self.text("replicas"))
        self.open(self.altered("killed", lambda report: report.update(perServer=[], perWorker=report["perWorker"][:1])) / "report.html")
        self.assertIn("no numbers of 1 worker and 1 server", self.text("replicas"))

    def test_a_phone_needs_no_sideways_scroll_by_day_and_by_night(self):
        for dark in (False, True):
            self.open(self.run_folder / "report.html", width=360, height=780, phone=True, dark=dark)
            self.assertEqual(self.browser.ask("document.documentElement.scrollWidth"), 360)
            self.assertEqual(self.browser.ask("window.innerWidth"), 360)  # nothing made the browser zoom out

    def test_dark_mode_has_light_ink_on_dark_ground_also_when_it_begins_later(self):
        brightness = "(name => getComputedStyle(document.body)[name].match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0))"
        self.open(self.run_folder / "report.html")
        self.assertGreater(self.browser.ask(f"{brightness}('backgroundColor')"), self.browser.ask(f"{brightness}('color')"))
        self.browser.look_as(dark=True)
        self.browser.await_true(f"{brightness}('backgroundColor') < {brightness}('color')")
        self.browser.await_true(f"({HAS_COLOUR})('loss', '--c0')")

    def test_the_page_is_one_file_that_asks_nobody_for_anything(self):
        alone = self.folder / "alone" / "report.html"
        alone.parent.mkdir()
        shutil.copy(self.run_folder / "report.html", alone)
        self.open(alone)
        self.assertEqual(self.browser.ask("performance.getEntriesByType('resource').filter(entry => !entry.name.startsWith('data:')).length"), 0)
        self.assertLess(alone.stat().st_size, 500_000)

    def test_hostile_names_are_shown_and_not_run(self):
        hostile = self.folder / "hostile"
        shutil.copytree(self.run_folder, hostile)
        report = json.loads((hostile / "report.json").read_text())
        report["job"] = report["model"] = report["warning"] = report["cpu"] = HOSTILE
        report["failures"] = [{"replica": HOSTILE, "reason": HOSTILE}]
        report["eval"] = {HOSTILE: 0.5}
        report["profile"]["operators"][0]["name"] = HOSTILE
        (hostile / "report.json").write_text(json.dumps(report))
        evaluation = json.loads((hostile / "evaluation.json").read_text())
        evaluation["classes"] = [HOSTILE] * 10
        evaluation["samples"].append({"image": '"><script>', "label": HOSTILE, "predicted": HOSTILE, "probability": 1})
        (hostile / "evaluation.json").write_text(json.dumps(evaluation))
        training = json.loads((hostile / "config/training.json").read_text())
        training["data"]["dir"] = HOSTILE
        training["data"][HOSTILE] = HOSTILE
        (hostile / "config/training.json").write_text(json.dumps(training))
        self.assertEqual(command("report", hostile).returncode, 0)
        self.open(hostile / "report.html", width=360, height=780, phone=True)
        self.assertEqual(self.browser.ask("document.title"), HOSTILE)
        self.assertTrue(self.browser.ask("document.getElementById('name').textContent").startswith(HOSTILE))
        self.assertEqual(self.browser.ask("document.querySelectorAll('script').length"), 3)
        self.assertEqual(self.browser.ask("document.querySelectorAll('img[src=x]').length"), 0)
        self.assertEqual(self.browser.ask("document.documentElement.scrollWidth"), 360)

    def test_a_folder_of_pods_gets_its_report_from_the_parts(self):
        pods = self.folder / "pods"
        shutil.copytree(self.run_folder, pods, ignore=shutil.ignore_patterns("report.*", "config"))
        self.assertEqual(command("report", pods).returncode, 0)
        self.assertEqual(json.loads((pods / "report.json").read_text())["state"], "Succeeded")
        self.open(pods / "report.html")
        self.assertEqual(self.points()["accuracy"], 3)

    def test_a_run_whose_launch_was_killed_has_a_page_of_its_curves(self):
        killed = self.folder / "unfinished"
        shutil.copytree(self.run_folder, killed, ignore=shutil.ignore_patterns("report.*", "*-0.json", "*-1.json"))
        answer = command("report", killed)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("its launch was killed, or it still trains", answer.stdout)
        self.assertFalse((killed / "report.json").exists())
        self.open(killed / "report.html")
        self.assertEqual(self.browser.ask("document.querySelector('.state').textContent"), "Unfinished")
        self.assertIn("The run has left no report.", self.text("results"))
        self.assertEqual(self.points()["accuracy"], 3)
        self.assertGreater(self.points()["loss"], 10)

    def test_a_folder_that_holds_no_run_is_named(self):
        empty = self.folder / "empty"
        empty.mkdir()
        answer = command("report", empty)
        self.assertEqual(answer.returncode, 1)
        self.assertIn(str(empty), answer.stderr)

    def test_runs_side_by_side_lie_over_each_other(self):
        other = self.train("other", overrides=["training.optimizer.learningRate=0.1"])
        page = self.folder / "compare.html"
        answer = command("compare", self.run_folder, other, "--html", page)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stdout, r"optimizer\.learningRate +0\.02 +0\.1\n")
        self.assertRegex(answer.stdout, r"accuracy \(evaluation\) +0\.\d+ +0\.\d+\n")
        self.open(page, width=360, height=780, phone=True)
        self.assertEqual(self.points()["loss"], 2 * 2 * 15)
        self.assertTrue(self.has_colour("loss", "--c0") and self.has_colour("loss", "--c1"))
        self.assertEqual(self.browser.ask("document.documentElement.scrollWidth"), 360)
        self.assertIn("optimizer.learningRate", self.text("differences"))


    def test_runs_with_other_units_of_speed_do_not_share_an_axis(self):
        words = self.altered("words", lambda report: report.update(unit="words"))
        page = self.folder / "units.html"
        self.assertEqual(command("compare", self.run_folder, words, "--html", page).returncode, 0)
        self.open(page)
        self.assertEqual({name for name in self.points() if name.startswith("speed")}, {"speed-images", "speed-words"})
        self.assertIn("Speed of the chief, words/s", self.text("curves"))


class WhileItTrains(Page):
    def test_the_page_follows_the_run_to_its_report(self):
        output = self.folder / "live"
        # Far more steps than the test waits for: it is stopped by hand, as a person would.
        process = subprocess.Popen([TRAINER, "launch", str(self.job), "--output", str(output), "--progress", "none", "--open", "--set", "training.steps=1000000"],
                                   cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        address = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())[0]
        self.open(address)
        self.browser.await_true("Number(document.getElementById('loss')?.dataset.points) > 0")  # other curves may come first
        drawn = self.points()["loss"]
        self.browser.await_true(f"Number(document.getElementById('loss').dataset.points) > {drawn + 1}")
        self.assertIn("of 1\u202f000\u202f000", self.text("results"))
        process.terminate()
        self.browser.await_true("document.querySelector('.state').textContent === 'Stopped'")
        self.assertEqual(process.wait(timeout=60), 130)
        self.assertEqual(self.browser.complaints, [])
        self.open(output / "report.html")

    def test_a_launcher_that_was_killed_is_not_shown_as_running(self):
        output = self.folder / "lost"
        process = subprocess.Popen([TRAINER, "launch", str(self.job), "--output", str(output), "--progress", "none", "--open", "--set", "training.steps=1000000"],
                                   cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        address = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())[0]
        self.open(address)
        process.kill()
        process.wait(timeout=60)
        self.browser.await_true("document.querySelector('.state').textContent === 'No news'")
        self.assertRegex(self.text("head"), "The launcher has not answered since .*\\d")


if __name__ == "__main__":
    unittest.main()
