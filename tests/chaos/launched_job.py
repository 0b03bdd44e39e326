"""One job that `trainyard-trainer launch` runs, and what chaos does to it."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINER = os.environ.get("TRAINYARD_TRAINER", str(ROOT / "build/release/trainer/trainyard-trainer"))
DISK_MIB = 64


def environment_of(pid):
    return dict(item.split(b"=", 1) for item in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if b"=" in item)


class LaunchedJob:
    """A launch, isolated in a network of its own with a small disk of its own as output. Belongs to one thread."""

    def __init__(self, label, shape, folder, isolated):
        self.label, self.shape, self.isolated = label, shape, isolated
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        self.output = self.folder / "out"
        self.output.mkdir()
        self.file = self.folder / "job.yaml"
        self.file.write_text(shape.text())
        if isolated:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(self.output)], check=True)
        self.started = time.monotonic()
        self.blows = []
        self.launches = 0
        self._undo = []  # (when, or a condition; what it is; function)
        self.launch()

    def launch(self):
        """Starts the launcher, anew where one has ended."""
        command = [TRAINER, "launch", str(self.file), "--output", str(self.output), "--progress", "none"]
        if self.isolated:
            command = ["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh", *command]
        with (self.folder / "launch.log").open("a") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        self.launches += 1
        self.pids = {}      # replica → pids that this launch was seen to start
        self.signals = {}   # replica → signals that it got in this launch that end it
        self.full_disks = 0
        self.cuts = 0

    def running(self):
        return self.process.poll() is None

    def report(self):
        try:
            return json.loads((self.output / "report.json").read_text())
        except (OSError, ValueError):
            return None

    def log(self):
        return (self.folder / "launch.log").read_text()

    def replicas(self):
        """pid → name of the replicas that run now."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if parent != self.process.pid:
                    continue
                environment = environment_of(entry.name)
            except (OSError, ValueError):
                continue
            if b"TRAINYARD_ROLE" in environment:
                name = f"{environment[b'TRAINYARD_ROLE'].decode()}-{environment[b'TRAINYARD_INDEX'].decode()}"
                found[int(entry.name)] = name
                self.pids.setdefault(name, set()).add(int(entry.name))
        return found

    def step(self):
        """The chief's step, or None while it does not answer."""
        chief = "chief-0" if self.shape.chief else "worker-0"
        for pid, name in self.replicas().items():
            if name != chief:
                continue
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                url = f"http://127.0.0.1:{words[words.index('--http_port') + 1]}/progress"
                if self.isolated:
                    return json.loads(self._inside("curl", "-s", "-m", "1", url).stdout).get("step", 0)
                with urllib.request.urlopen(url, timeout=1) as answer:
                    return json.load(answer).get("step", 0)
            except (OSError, ValueError):
                return None
        return None

    def close(self, keep):
        """Takes the job's disk away; what was on it is kept beside it where asked."""
        if not self.isolated:
            return
        if keep:
            shutil.copytree(self.output, self.folder / "kept", ignore=shutil.ignore_patterns("filler"))
        subprocess.run(["umount", str(self.output)], check=True)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def tend(self, end=False):
        """Takes back what is due to be taken back; everything at the end."""
        now = time.monotonic()
        for item in list(self._undo):
            due, what, undo = item
            if end or due(now):
                self._undo.remove(item)
                undo()
                self._note(what)

    # Each blow says whether it found something to hit.

    def signal_one(self, chance, number):
        name = self._victim(chance)
        if name is None or not self._send(name[0], number):
            return False
        self.signals.setdefault(name[1], []).append(number)
        return self._note(f"{signal.Signals(number).name} to {name[1]}")

    def signal_two(self, chance):
        """Two replicas at the same moment."""
        return [self.signal_one(chance, signal.SIGKILL) for _ in range(2)][0]

    def pause(self, chance):
        victim = self._victim(chance)
        seconds = chance.choice([chance.uniform(0.3, 2), chance.uniform(3.5, 7)])  # shorter and longer than timeouts.silence
        if victim is None or not self._send(victim[0], signal.SIGSTOP):
            return False
        self._after(seconds, f"{victim[1]} goes on", lambda: self._send(victim[0], signal.SIGCONT))
        return self._note(f"SIGSTOP to {victim[1]} for {seconds:.1f} s")

    def cut_all(self, chance):
        seconds = chance.choice([chance.uniform(0.3, 2), chance.uniform(3.5, 6)])
        if not self.isolated or self._inside("ip", "link", "set", "lo", "down").returncode != 0:
            return False
        self.cuts += 1
        self._after(seconds, "the network is back", lambda: self._inside("ip", "link", "set", "lo", "up"))
        return self._note(f"network cut for {seconds:.1f} s")

    def cut_port(self, chance):
        """The port of one replica that others dial drops what comes, or resets it: a server's, or in a job without servers a worker's."""
        hosts = self.output / ("config/ps_hosts" if self.shape.ps else "config/worker_hosts")
        dialled = hosts.read_text().split(",") if self.shape.mode != "local" and hosts.exists() else [""]
        port = chance.choice(dialled).rpartition(":")[2]
        refuse = chance.random() < 0.5
        seconds = chance.uniform(0.3, 5)
        rule = ["INPUT", "-p", "tcp", "--dport", port, "-j", *(["REJECT", "--reject-with", "tcp-reset"] if refuse else ["DROP"])]
        if not self.isolated or not port or self._inside("iptables", "-A", *rule).returncode != 0:
            return False
        self.cuts += 1
        self._after(seconds, f"port {port} is open again", lambda: self._inside("iptables", "-D", *rule))
        return self._note(f"port {port} {'resets' if refuse else 'drops'} for {seconds:.1f} s")

    def fill(self, chance):
        """A full disk, while a good part of the training is still to come: a job whose results find no room rightly fails."""
        step = self.step()
        if not self.isolated or step is None or step > 0.5 * self.shape.steps:
            return False
        filler = self.output / "filler"
        subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=1M", f"count={DISK_MIB}"], capture_output=True, check=False)
        self.full_disks += 1
        until = time.monotonic() + chance.uniform(0.5, 4)
        # A chief that does not answer may be in its last steps.
        self._undo.append((lambda now: now >= until or (self.step() or self.shape.steps) > 0.75 * self.shape.steps, "the disk has room again",
                           lambda: filler.unlink(missing_ok=True)))
        return self._note("disk full")

    def relaunch(self, chance):
        """The launcher itself is stopped as by Ctrl-C, or killed; the same command goes on from there."""
        number = chance.choice([signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
        self.process.send_signal(number)
        self.tend(end=True)
        try:
            status = self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._note(f"{signal.Signals(number).name} to the launcher did not end it")
            return True
        if status == 0:
            return self._note(f"{signal.Signals(number).name} to the launcher at its end")
        self._note(f"{signal.Signals(number).name} to the launcher, which ended with {status}; launched again")
        self.launch()
        return True

    def disturb(self, chance):
        """One blow of any kind. False: it found nothing to hit."""
        return chance.choices([lambda: self.signal_one(chance, signal.SIGKILL), lambda: self.signal_one(chance, signal.SIGTERM),
                               lambda: self.signal_two(chance), lambda: self.pause(chance), lambda: self.cut_all(chance), lambda: self.cut_port(chance),
                               lambda: self.fill(chance), lambda: self.relaunch(chance)], weights=[8, 4, 2, 4, 2, 2, 2, 1])[0]()

    def take_one(self, chance):
        """Kills a replica, stops it for a while, or cuts it off. False: that found nothing to hit."""
        return chance.choices([lambda: self.signal_one(chance, signal.SIGKILL), lambda: self.pause(chance), lambda: self.cut_all(chance),
                               lambda: self.cut_port(chance)], weights=[6, 3, 1, 1])[0]()

    def _victim(self, chance):
        """(pid, name) of a replica that runs, or None."""
        found = sorted(self.replicas().items(), key=lambda item: item[1])
        return chance.choice(found) if found else None

    @staticmethod
    def _send(pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def _inside(self, *command):
        return subprocess.run(["nsenter", "--net", "--target", str(self.process.pid), *command], capture_output=True, text=True, check=False)

    def _after(self, seconds, what, function):
        until = time.monotonic() + seconds
        self._undo.append((lambda now: now >= until, what, function))

    def _note(self, what):
        self.blows.append(f"{time.monotonic() - self.started:6.1f} s  {what}")
        return True
