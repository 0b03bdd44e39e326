"""The command line as a new user meets it: mistakes, help, completion, the manual page, and an installed copy."""
import json
import os
import pathlib
import pty
import re
import shlex
import subprocess
import tempfile
import unittest

from trainyard import ROOT, TRAINER

COMMANDS = ("launch", "train", "inspect", "data convert", "data inspect", "data verify", "data bench", "evaluate", "predict", "export", "generate", "profile", "bench", "bench allreduce", "bench server", "completion", "man")


def run(*arguments, program=TRAINER, cwd=ROOT, env=None):
    return subprocess.run([program, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, check=False, env=env)


class Mistakes(unittest.TestCase):
    def check(self, *arguments, says, code=2):
        result = run(*arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("error:"), 1, result.stderr)
        self.assertIn(says, result.stderr)
        self.assertNotIn("\033", result.stderr)

    def test_a_mistyped_command_flag_and_word_are_suggested(self):
        self.check("lanch", "job.yaml", says='unknown command "lanch"; did you mean "launch"?')
        self.check("launch", "job.yaml", "--ouput", "x", says='launch: unknown flag "--ouput"; did you mean "--output"?')
        self.check("launch", "job.yaml", "--progress", "plan", says='expected one of auto, bar, plain, none; did you mean "plain"?')
        self.check("train", "--job_name", "wroker", says='did you mean "worker"?')
        self.check("data", "convret", says='data: unknown command "convret"; did you mean "convert"?')

    def test_what_is_missing_or_too_much_is_named(self):
        self.check("launch", says="launch: FILE: missing, expected the TrainingJob")
        self.check("train", "--task_index", "one", says='train: --task_index: found "one", expected a whole number')
        self.check("profile", "out", "--rows", "-1", says='--rows: found "-1", expected a number from 0 to')
        for port in ("70000", "-1"):
            self.check("train", "--http_port", port, says=f'--http_port: found "{port}", expected a number from 0 to 65535')
        self.check("generate", "out", "--length", "0", says='--length: found "0", expected a number from 1 to')
        self.check("inspect", "a.yaml", "b.yaml", says='inspect: found "b.yaml", expected nothing there')

    def test_the_help_of_the_command_is_named(self):
        for arguments in (("export", "out"), ("data", "stats"), ("compare", "a"), ("launch", "job.yaml", "--ouput", "x")):
            command = " ".join(word for word in arguments if word in ("export", "data", "stats", "compare", "launch"))
            self.check(*arguments, says=f"trainyard-trainer {command} --help has flags and examples")
        self.check("lanch", says="trainyard-trainer --help has flags and examples")

    def test_a_name_and_a_folder_that_serve_cannot_use_are_refused(self):
        for name in ("a/b", "", "a b"):
            self.check("serve", "out", "--name", name, says=f'--name: found "{name}", expected letters, digits', code=2)
        self.check("serve", "out", "--host", "", says='--host: found "", expected an address', code=2)
        result = run("serve", "examples/lenet5-ps.yaml", "--port", "0", "--grpc-port", "0")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("found the file examples/lenet5-ps.yaml, expected a run's output folder", result.stderr)

    def test_values_that_bench_does_not_take_are_mistakes_of_the_command_line(self):
        self.check("bench", "--batch", "0", says='--batch: found "0", expected a number from 1 to 1048576')
        self.check("bench", "--model", "lenet", says='--model: found "lenet", expected one of linear, lenet5,')
        self.check("bench", "--optimizer", "adams", says='did you mean "adam"?')
        self.check("bench", "--threads", "-1", says='--threads: found "-1", expected a number from 0 to 1024')
        self.check("bench", "server", "--bytes", "6", says='--bytes: found "6", expected a multiple of 4 from 4 to 1073741824')
        self.check("bench", "allreduce", "--bytes", "64,x", says='--bytes: found "x", expected a multiple of 4 from 4 to 1073741824')
        self.check("bench", "allreduce", "--rounds", "-1", says='--rounds: found "-1", expected a number from 0')
        self.check("bench", "predict", "out", "--batch", "1025", says='--batch: found "1025", expected a number from 1 to 1024')

    def test_the_tables_of_a_run_are_printed_where_their_files_cannot_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "out"
            done = run("launch", "examples/linear-sync.yaml", "--output", str(output), "--progress", "none")
            self.assertEqual(done.returncode, 0, done.stderr)
            (output / "trace.json").unlink()
            (output / "trace.json/in-the-way").mkdir(parents=True)
            for arguments in (("profile", str(output)), ("compare", str(output), str(output), "--html", str(output / "no-folder/a.html"))):
                result = run(*arguments)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertGreater(len(result.stdout.splitlines()), 5, result.stderr)
                self.assertIn("error: ", result.stderr)

    def test_a_file_in_the_place_of_the_output_folder_is_named(self):
        self.check("launch", "examples/linear-sync.yaml", "--output", "README.md", says="output folder 'README.md' cannot be made: ", code=1)

    def test_a_name_that_begins_with_a_dash_is_a_file_behind_two_dashes(self):
        self.check("inspect", "--", "-no-such.yaml", says="cannot open -no-such.yaml: No such file or directory", code=1)
        self.check("predict", "no-such", "--json", "--", "-x.png", says="found no folder no-such", code=1)

    def test_a_file_that_is_empty_is_no_job(self):
        self.check("launch", "/dev/null", says="/dev/null: found nothing, expected an object", code=1)

    def test_an_export_leaves_links_and_pipes_as_they_are(self):
        with tempfile.TemporaryDirectory() as folder:
            output, link, file = (pathlib.Path(folder) / name for name in ("out", "link", "a.safetensors"))
            done = run("launch", "examples/linear-sync.yaml", "--output", str(output), "--progress", "none")
            self.assertEqual(done.returncode, 0, done.stderr)
            link.symlink_to(file)
            self.assertEqual(run("export", str(output), "--output", str(link)).returncode, 0)
            self.assertTrue(link.is_symlink())
            piped = subprocess.run([TRAINER, "export", str(output), "--output", "/dev/stdout"], cwd=ROOT, capture_output=True, timeout=120, check=False)
            self.assertEqual(piped.returncode, 0, piped.stderr)
            self.assertEqual(piped.stdout, file.read_bytes())

    def test_output_that_cannot_be_written_is_an_error(self):
        much = ("bench", "--model", "lenet5", "--seconds", "0.05", "--roofline", "--json")  # more than the buffer of standard output
        for arguments in (("man",), ("--help",), ("inspect", "examples/lenet5-ps.yaml"), ("completion", "bash"), much):
            with self.subTest(arguments), open("/dev/full", "w") as full:
                result = subprocess.run([TRAINER, *arguments], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("standard output cannot be written", result.stderr)

    def test_an_override_beside_the_training_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "out"
            done = run("launch", "examples/lenet5-local.yaml", "--output", str(output), "--set", "training.steps=1", "--progress", "none")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.check("evaluate", str(output), "--set", "data.eval.range=[0, 5]", says="spec.data: unknown field", code=1)
            self.check("evaluate", str(output), "--set", "foo.bar=1", says="spec.foo: unknown field", code=1)

    def test_an_empty_value_takes_no_argument_from_behind_it(self):
        self.check("launch", "--progress=", "plain", "job.yaml", says='launch: found "job.yaml", expected nothing there')
        result = run("train", "--ps_hosts=", "--task_index", "5", "--job_name", "worker", "--config", "no-such.yaml")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("--task_index: found worker 5", result.stderr)

    def test_a_job_file_that_is_not_there_and_its_data_are_named_before_anything_starts(self):
        self.check("launch", "no-such.yaml", says="cannot open no-such.yaml: No such file or directory", code=1)
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "out"
            self.check("launch", "examples/lenet5-ps.yaml", "--output", str(output), "--set", "training.data.train.images=no-such",
                       says="spec.training.data.train.images: cannot open examples/data/mnist/no-such: No such file or directory", code=1)
            self.assertFalse(output.exists())


class Bench(unittest.TestCase):
    def test_it_measures_a_model_without_a_further_command(self):
        result = run("bench", "--model", "linear", "--batch", "8", "--seconds", "0.05", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(json.loads(result.stdout)["itemsPerSecond"], 0)


class Help(unittest.TestCase):
    def test_every_command_has_examples_and_no_colours_in_a_pipe(self):
        for command in COMMANDS:
            result = run(*command.split(), "--help")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"Usage: trainyard-trainer {command}", result.stdout)
            self.assertIn("Examples:\n  ", result.stdout, command)
            self.assertNotIn("\033", result.stdout)
        overview = run("--help").stdout
        for command in COMMANDS:
            self.assertIn(command.split()[0], overview)

    def test_the_flags_of_every_example_are_known(self):
        for command in COMMANDS:
            examples = re.search(r"Examples:\n((?:  .*\n?)+)", run(*command.split(), "--help").stdout).group(1)
            for line in re.findall(r"^  trainyard-trainer (.*)", examples, re.MULTILINE):
                arguments = shlex.split(line.split(" > ")[0].split(" | ")[0])
                result = run(*arguments, "--help")
                self.assertEqual(result.returncode, 0, f"{line}: {result.stderr}")

    def test_the_manual_page_has_every_command_and_no_mistake(self):
        page = run("man").stdout
        for command in COMMANDS:
            self.assertRegex(page, rf"(?m)^\.SS {command}( [A-Z]+(\.\.\.)?)*$")
        checked = subprocess.run(["groff", "-man", "-Tascii", "-ww"], input=page, capture_output=True, text=True, check=False)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))

    def test_completion_scripts_are_read_by_their_shells(self):
        for shell in ("bash", "zsh", "fish"):
            script = run("completion", shell).stdout
            self.assertIn("launch", script)
            read = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
            self.assertEqual((read.returncode, read.stderr), (0, ""), shell)


class Colours(unittest.TestCase):
    """Of help and of errors, on a pseudo-terminal and in a pipe."""

    @staticmethod
    def on_terminal(arguments, environment):
        """The program's text on a terminal."""
        ours, theirs = pty.openpty()
        env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
        with subprocess.Popen([TRAINER, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env={**env, **environment}) as process:
            os.close(theirs)
            shown = b""
            while True:
                try:
                    block = os.read(ours, 65536)
                except OSError:  # EIO: the other end is closed
                    break
                if not block:
                    break
                shown += block
            process.wait(timeout=60)
        os.close(ours)
        return shown.decode().replace("\r\n", "\n")

    def test_a_terminal_shows_colours_unless_it_is_told_not_to_and_a_pipe_none(self):
        for arguments in (["--help"], ["launch", "--help"], ["lanch"]):
            with self.subTest(arguments=arguments):
                result = run(*arguments, env={**os.environ, "TERM": "xterm"})
                plain = result.stdout + result.stderr
                self.assertNotIn("\033", plain)
                coloured = self.on_terminal(arguments, {"TERM": "xterm"})
                self.assertRegex(coloured, "\033\\[[0-9;]+m.*\033\\[0m")
                self.assertEqual(re.sub("\033\\[[0-9;]*m", "", coloured), plain)
                for environment in ({"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}):
                    self.assertEqual(self.on_terminal(arguments, environment), plain)

    def test_a_terminal_that_moves_no_cursor_gets_lines_instead_of_a_bar(self):
        for terminal, moves in (("xterm", True), ("dumb", False)):
            with self.subTest(terminal=terminal), tempfile.TemporaryDirectory() as folder:
                shown = self.on_terminal(["launch", "examples/linear-sync.yaml", "--output", folder], {"TERM": terminal})
                self.assertIn("Succeeded", shown)
                self.assertEqual("\033" in shown, moves, shown)


class Installed(unittest.TestCase):
    def test_an_installed_copy_is_whole_and_runs(self):
        build = os.environ.get("TRAINYARD_BUILD")
        if not build:
            self.skipTest("TRAINYARD_BUILD does not name the build")
        with tempfile.TemporaryDirectory() as folder:
            prefix = pathlib.Path(folder)
            installed = subprocess.run(["cmake", "--install", build, "--prefix", folder], capture_output=True, text=True, check=False)
            self.assertEqual(installed.returncode, 0, installed.stderr)
            for path in ("bin/trainyard-trainer", "bin/trainyard-operator", "share/man/man1/trainyard-trainer.1",
                         "share/bash-completion/completions/trainyard-trainer", "share/zsh/site-functions/_trainyard-trainer",
                         "share/fish/vendor_completions.d/trainyard-trainer.fish"):
                self.assertGreater((prefix / path).stat().st_size, 100, path)
            env = {**os.environ, "PATH": f"{prefix / 'bin'}:{os.environ['PATH']}"}
            result = run("launch", "examples/lenet5-local.yaml", "--output", str(prefix / "out"), "--progress", "none", "--set", "training.epochs=null",
                         "--set", "training.steps=3", program=str(prefix / "bin/trainyard-trainer"), cwd=prefix / "share/trainyard", env=env)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertIn("Succeeded", result.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
