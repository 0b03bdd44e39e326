#!/usr/bin/env python3
"""Chaos for `trainyard-trainer launch`: many small jobs, whose replicas are killed, paused, cut off and run out of disk.

    tests/chaos/launch_chaos.py [--seconds 600] [--jobs 20] [--seed N] [--only JOB] [--at-once 2]
    tests/chaos/launch_chaos.py --kills 50 [--strategy NAME …] [--seed N] [--only JOB] [--at-once 2]

With --kills the blows are SIGKILL, SIGSTOP for a while and cut networks alone, so many of them for each strategy; jobs run until all are dealt.

Every job must end Succeeded, every synchronous one with the bits and the evaluations of the run that nobody disturbed. The report's counters
must be those of what was done, and no process, mount, lock, port or temporary file may be left. The seed chooses jobs, victims and moments:
`--seed N --only JOB` does the same to one job again, though not what the machine does meanwhile. Cut networks and full disks need root.
"""
import os
import pathlib
import shutil
import sys
import tempfile
import time

import launch_judge
import plan
from job_queue import AllShapes, EachStrategy
from launched_job import TRAINER, LaunchedJob
from shapes import SHAPES, STRATEGIES

JOB_DEADLINE = 180.0  # of a job, after its last blow
BLOWS = 5
_MARK = "TRAINYARD_CHAOS_SANDBOX"
TOOLS = ("unshare", "nsenter", "ip", "iptables", "mount", "curl")


def into_sandbox():
    """Starts this script again with mounts and processes of its own: nothing of it can outlive it, however it ends."""
    os.environ[_MARK] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, *sys.argv])


def undisturbed(folder, shapes):
    """name → report, of a run that nobody disturbs, for the shapes whose bits are always the same."""
    reports = {}
    for name in shapes:
        if SHAPES[name].mode == "async":
            continue
        job = LaunchedJob(name, SHAPES[name], pathlib.Path(folder) / f"undisturbed-{name}", isolated=False)
        if job.process.wait(timeout=JOB_DEADLINE) != 0:
            sys.exit(f"the undisturbed run of {name} failed:\n{job.log()}")
        reports[name] = job.report()
    return reports


class Disturbed:
    """One job and its blows to come."""

    def __init__(self, number, jobs, folder, options, isolated):
        name = jobs.shape(number)
        self.dealt = 0  # blows
        self._jobs = jobs
        self.chance = plan.chance(options.seed, number)
        self.job = LaunchedJob(f"job {number} ({name})", SHAPES[name], pathlib.Path(folder) / f"{number:03d}-{name}", isolated)
        self.number, self.name = number, name
        self._blows = self.chance.randint(1, BLOWS)
        self._last_blow = jobs.last_blow()
        self._next = self._soon()
        self._deadline = time.monotonic() + JOB_DEADLINE

    def _soon(self):
        return time.monotonic() + self.chance.uniform(0.2, 2.5)

    def tend(self):
        """Deals a blow when one is due. False when the job is over."""
        self.job.tend()
        if not self.job.running():
            return False
        now = time.monotonic()
        self.job.replicas()
        if self._blows > 0 and self._next <= now < self._last_blow:
            self.dealt += bool(self._jobs.blow(self.job, self.chance))
            self._blows -= 1
            self._next = self._soon()
            self._deadline = time.monotonic() + JOB_DEADLINE
        return now < self._deadline

    def judge(self, expected):
        self.job.tend(end=True)
        if self.job.running():
            wrong = [f"not over {JOB_DEADLINE:.0f} s after the last blow"]
            self.job.kill()
        else:
            wrong = launch_judge.outcome(self.job, self.job.report(), expected.get(self.name)) + launch_judge.leftovers(self.job)
        self.job.close(keep=bool(wrong))
        return wrong


def run(options, verdict, folder, isolated):
    jobs = AllShapes(options) if options.kills is None else EachStrategy(options)
    expected = undisturbed(folder, jobs.shapes())
    verdict.say(f"{len(expected)} undisturbed runs are done")
    jobs.begin()
    running = []
    while True:
        while len(running) < options.at_once and (number := jobs.next(running)) is not None:
            running.append(Disturbed(number, jobs, folder, options, isolated))
        if not running:
            return jobs.judge(verdict)
        for each in [each for each in running if not each.tend()]:
            running.remove(each)
            jobs.count(each.number, each.dealt)
            wrong = each.judge(expected)
            verdict.add(f"{each.job.label} after {time.monotonic() - each.job.started:.0f} s", wrong, each.job.blows, each.job.folder)
        time.sleep(0.05)


def main():
    parser = plan.parser(__doc__, at_once=2)
    parser.add_argument("--kills", type=int, help="so many kills, stops and cuts for each strategy, instead of --seconds and --jobs")
    parser.add_argument("--strategy", nargs="+", choices=STRATEGIES, help="with --kills: only these")
    options = parser.parse_args()
    if not os.path.exists(TRAINER):
        plan.refuse([f"the program {TRAINER} (build the target trainyard-trainer)"])
    lacks = [f"the program {tool}" for tool in TOOLS if not shutil.which(tool)] + (["root"] if os.geteuid() != 0 else [])
    if lacks and plan.ci():
        plan.refuse(lacks)
    if not lacks and os.environ.get(_MARK) != "1":
        into_sandbox()
    verdict = plan.Verdict("launch chaos", options)
    verdict.say(f"seed {options.seed}" + (f"; no cut networks, no full disks: this machine lacks {', '.join(lacks)}" if lacks else ""))
    folder = tempfile.mkdtemp(prefix="trainyard-chaos-")
    run(options, verdict, folder, isolated=not lacks)
    left = launch_judge.processes(folder) + launch_judge.mounts(folder)
    verdict.add("nothing is left behind", left)
    status = verdict.end()
    if status == 0:
        shutil.rmtree(folder)
    return status


if __name__ == "__main__":
    sys.exit(main())
