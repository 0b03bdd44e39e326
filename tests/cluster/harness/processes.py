"""Starts programs with a log and a pid file, and stops by pid exactly those that were started here."""

import os
import pathlib
import signal
import subprocess
import time


def _start_time(pid):
    """When `pid` started, in clock ticks since boot; None if it is gone. Tells a process from a later one with the same pid.

    A process whose first thread has ended counts as gone only when its other threads, which may still hold its ports, have ended too.
    """
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return None
    return None if fields[0] == "Z" and threads <= 1 else fields[19]


class Processes:
    """The programs of one cluster. Their pid files outlive this object: another process may stop them (Processes(folder).stop_all())."""

    def __init__(self, folder):
        self._pids = pathlib.Path(folder) / "pids"
        self._logs = pathlib.Path(folder) / "logs"
        self._pids.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(parents=True, exist_ok=True)
        self._children = {}

    def start(self, name, argv, environment=None):
        """Starts argv in a session of its own; output goes to logs/<name>.log. Returns the pid."""
        log = open(self._logs / f"{name}.log", "ab")
        child = subprocess.Popen([str(part) for part in argv], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                 env={**os.environ, **(environment or {})}, start_new_session=True)
        log.close()
        self._children[name] = child
        (self._pids / name).write_text(f"{child.pid} {_start_time(child.pid)}\n")
        return child.pid

    def alive(self, name):
        child = self._children.get(name)
        if child is not None and child.poll() is not None:
            return False
        recorded = self._recorded(name)
        return recorded is not None and _start_time(recorded[0]) == recorded[1]

    def pid(self, name):
        recorded = self._recorded(name)
        return recorded[0] if recorded else None

    def check(self):
        """Raises RuntimeError with the log's end if any program has ended by itself."""
        for path in sorted(self._pids.iterdir()):
            if not self.alive(path.name):
                raise RuntimeError(f"{path.name} ended by itself; its log ends:\n{self.log_tail(path.name)}")

    def log_tail(self, name, lines=15):
        path = self._logs / f"{name}.log"
        if not path.exists():
            return "(no log)"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])

    def kill(self, name, with_signal=signal.SIGKILL, seconds=10.0):
        """Sends the signal and waits until the program is gone; SIGKILL follows if it is not in time."""
        recorded = self._recorded(name)
        if recorded is not None and _start_time(recorded[0]) == recorded[1]:
            pid = recorded[0]
            for number in (with_signal, signal.SIGKILL):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    break
                if self._gone(name, pid, recorded[1], seconds):
                    break
        (self._pids / name).unlink(missing_ok=True)
        self._children.pop(name, None)

    def stop_all(self, seconds=10.0):
        """Stops everything, last started first; what has not ended `seconds` after SIGTERM is killed."""
        for path in sorted(self._pids.iterdir(), key=lambda entry: entry.stat().st_mtime_ns, reverse=True):
            self.kill(path.name, signal.SIGTERM, seconds)

    def _recorded(self, name):
        try:
            pid, started = (self._pids / name).read_text().split()
        except (OSError, ValueError):
            return None
        return int(pid), started

    def _gone(self, name, pid, started, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            child = self._children.get(name)
            if child.poll() is not None if child else _start_time(pid) != started:
                return True
            time.sleep(0.02)
        return False
