"""A small disk of a job's own on the real cluster, and what fills it."""
import errno
import json
import pathlib
import subprocess
import threading
import time
import urllib.request

from cluster_place import STATE, VOLUMES, claim_and_volume

DISK_MIB = 64
TELLS = ("is not written", "are not written")  # docs/errors.md: what a full disk makes the trainer say
LOGS = pathlib.Path("/var/log/pods")  # the sandbox's own


class JobDisk:
    """The job's claim: a file system in memory, so that filling it takes no room from the other jobs or from the machine."""

    def __init__(self, cluster, job):
        self._cluster, self._job = cluster, job
        self._folder = STATE / "volumes" / job
        self._folder.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(self._folder)], check=True)
        self.output = self._folder / job
        for path, body in claim_and_volume(job, self._folder):
            cluster.patiently(f"the disk of {job} to be made", lambda path=path, body=body: cluster.api.find(f"{path}/{job}") or cluster.api.create(path, body))

    def fill(self):
        try:
            with self._filler().open("wb") as filler:
                while True:
                    filler.write(bytes(1 << 20))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise

    def free(self):
        self._filler().unlink(missing_ok=True)

    def logs_tell(self):
        """Whether a log of the job's pods says that something found no room."""
        texts = [log.read_text(errors="replace") for log in LOGS.glob(f"default_{self._job}-*/*/*.log")]
        return any(words in text for text in texts for words in TELLS)

    def remove(self):
        """Of a job that is deleted. The claim and its volume go when the pods are gone."""
        for path in VOLUMES:
            self._cluster.patiently(f"the disk of {self._job} to be deleted", self._cluster.api.delete, f"{path}/{self._job}")
        subprocess.run(["umount", str(self._folder)], check=True)
        self._folder.rmdir()

    def _filler(self):
        return self._folder / "filler"


class FullDisk:
    """One time that a job's disk is full: until a log has told of it and `seconds` are over, but not while the chief is silent or behind
    `last_step`. A thread of its own sees to that, whatever the script waits for meanwhile."""

    def __init__(self, disk, progress, last_step, seconds):
        self.told = False     # a log said so
        self.excused = False  # the chief fell silent before: it may have had nothing to write
        self._over = threading.Event()
        disk.fill()
        threading.Thread(target=self._watch, args=(disk, progress, last_step, time.monotonic() + seconds), daemon=True).start()

    def over(self):
        return self._over.is_set()

    def _watch(self, disk, progress, last_step, until):
        while not (self.told and time.monotonic() >= until):
            self.told = self.told or disk.logs_tell()
            step = step_at(progress)
            if step is None or step > last_step:
                self.excused = step is None
                break
            time.sleep(0.1)
        disk.free()
        self.told = self.told or disk.logs_tell()
        self._over.set()


def step_at(progress):
    """What the chief at that address tells as its step; None where it does not answer."""
    try:
        with urllib.request.urlopen(progress, timeout=1) as answer:
            return json.load(answer).get("step", 0)
    except (OSError, ValueError):
        return None
