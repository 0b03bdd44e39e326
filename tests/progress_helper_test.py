"""examples/frameworks/modules/trainyard_progress.py: what it passes on, answers and leaves behind, around real commands."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

HELPER = pathlib.Path(__file__).resolve().parents[1] / "examples/frameworks/modules/trainyard_progress.py"
START = "import sys, runpy; sys.argv = sys.argv[1:]; module = runpy.run_path(sys.argv[0]); module['main'].__globals__['TERMINATION_LOG'] = sys.argv[1]; " \
    "sys.exit(module['main'](sys.argv[2:]))"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class ProgressHelperTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = pathlib.Path(folder.name, "termination-log")
        self.log.touch()
        self.port = free_port()

    def start(self, program):
        """The helper around `python3 -c PROGRAM`, whose input keeps it waiting where it reads."""
        process = subprocess.Popen([sys.executable, "-c", START, HELPER, self.log, sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, env={**os.environ, "TRAINYARD_PROGRESS_PORT": str(self.port)})
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        return process

    def ask(self, path="/progress", host="127.0.0.1"):
        """(code, body), once the helper listens."""
        deadline = time.monotonic() + 20
        while True:
            try:
                with urllib.request.urlopen(f"http://{host}:{self.port}{path}", timeout=5) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, ""
            except OSError:
                self.assertLess(time.monotonic(), deadline, "the helper does not listen")
                time.sleep(0.02)

    def test_the_newest_line_with_a_step_is_the_answer_and_all_output_is_passed_on(self):
        process = self.start("print('{\"step\": 1}', flush=True); print('{\"step\": 2, \"loss\": 0.5}', flush=True); print('{no', flush=True); "
                             "print('{\"other\": 1}', flush=True); print('[' * 9000, flush=True); print('{\"step\":' + '[' * 9000, flush=True); input()")
        lines = [process.stdout.readline() for _ in range(6)]
        self.assertEqual(lines[:3], ['{"step": 1}\n', '{"step": 2, "loss": 0.5}\n', "{no\n"])
        self.assertEqual(self.ask(), (200, '{"step": 2, "loss": 0.5}'))
        self.assertEqual(self.ask("/other"), (404, ""))

    def answer_after(self, *lines):
        """What is answered once the command has printed these lines."""
        process = self.start(f"for line in {lines!r}: print(line, flush=True)\ninput()")
        for _ in lines:
            process.stdout.readline()
        return self.ask()

    def test_a_loss_that_is_no_number_is_null_in_the_answer(self):
        """Python's json says NaN, which no strict reader takes: the job's status would stay at the step before."""
        told = self.answer_after('{"step": 1, "loss": 0.5}', '{"step": 2, "loss": NaN, "metrics": {"accuracy": -Infinity}}', "last")
        self.assertEqual(told, (200, '{"step": 2, "loss": null, "metrics": {"accuracy": null}}'))

    def test_a_line_whose_step_counts_nothing_is_no_progress(self):
        told = self.answer_after('{"step": 3.0}', '{"step": "ten"}', '{"step": -4}', '{"step": 1.5}', '{"step": NaN}', '{"step": true}', '{"step": 1e999}', "last")
        self.assertEqual(told, (200, '{"step": 3.0}'))

    def test_before_the_first_line_there_is_no_answer(self):
        self.start("input()")
        self.assertEqual(self.ask(), (503, ""))

    def test_the_last_line_is_left_for_status_where_the_command_ends_well(self):
        process = self.start("print('{\"step\": 9}')")
        self.assertEqual(process.wait(20), 0)
        self.assertEqual(json.loads(self.log.read_text()), {"step": 9})

    def test_a_failure_leaves_no_progress_and_keeps_its_exit_code(self):
        process = self.start("print('{\"step\": 9}', flush=True); raise SystemExit(7)")
        self.assertEqual(process.wait(20), 7)
        self.assertEqual(self.log.read_text(), "")

    def test_a_command_that_a_signal_ends_is_told_as_a_shell_would(self):
        process = self.start("import os; os.kill(os.getpid(), 9)")
        self.assertEqual(process.wait(20), 137)

    def test_sigterm_goes_on_to_the_command(self):
        process = self.start("import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); print('{\"step\": 1}', flush=True); signal.pause()")
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 3)

    def test_progress_is_told_once_a_second_but_metrics_always(self):
        program = f"import sys; sys.path.insert(0, {str(HELPER.parent)!r}); from trainyard_progress import Progress; told = Progress(1000, 32)\n" \
            "for step in range(1, 1001): told.tell(step, 0.5)\ntold.tell(1000, 0.25, accuracy=0.9)"
        lines = [json.loads(line) for line in subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.splitlines()]
        self.assertLess(len(lines), 100)
        self.assertEqual(lines[0], {"step": 1, "totalSteps": 1000, "loss": 0.5})
        self.assertEqual((lines[-1]["step"], lines[-1]["loss"], lines[-1]["metrics"], lines[-1]["etaSeconds"]), (1000, 0.25, {"accuracy": 0.9}, 0))
        self.assertGreater(lines[-1]["examplesPerSecond"], 0)

    def test_a_line_of_the_same_step_keeps_the_speed(self):
        """The last step of an epoch may be due a second after the line before, and its metrics follow at once."""
        program = f"import sys; sys.path.insert(0, {str(HELPER.parent)!r}); import trainyard_progress as module\n" \
            "now = iter([0.0, 0.0, 2.0, 2.5]); module.time.monotonic = lambda: next(now)\n" \
            "told = module.Progress(11, 32); told.tell(1, 0.5); told.tell(11, 0.25); told.tell(11, 0.25, accuracy=0.9)"
        lines = [json.loads(line) for line in subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.splitlines()]
        self.assertEqual([line.get("examplesPerSecond") for line in lines], [None, 160.0, 160.0])


if __name__ == "__main__":
    unittest.main()
