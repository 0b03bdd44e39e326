"""The options that all chaos scripts share, and the lines that they print."""
import argparse
import os
import random
import sys
import time


def parser(description, at_once):
    made = argparse.ArgumentParser(description=description.strip(), formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--seconds", type=float, default=600.0, help="how long jobs are disturbed; jobs after --jobs start until then (600)")
    made.add_argument("--jobs", type=int, default=20, help="how many jobs run at least (20)")
    made.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="chooses jobs, victims and moments; printed at the start")
    made.add_argument("--only", type=int, metavar="JOB", help="only the job of this number, to repeat a failure")
    made.add_argument("--at-once", type=int, default=at_once, help=f"how many jobs run beside each other ({at_once})")
    return made


def chance(seed, number):
    """What chance has for one job: the same for the same seed, whatever the other jobs do."""
    return random.Random(f"{seed}/{number}")


class Verdict:
    """Counts jobs, prints a line for each and one at the end."""

    def __init__(self, name, options):
        self._name = name
        self._options = options
        self._started = time.monotonic()
        self._good = self._blows = 0
        self._bad = []

    def say(self, text):
        print(f"{time.monotonic() - self._started:6.1f} s  {text}", flush=True)

    def add(self, label, wrong, blows=(), place=None):
        """One job, or one thing that must hold at the end. `wrong`: what is wrong with it; `blows`: what was done to it."""
        self._blows += len(blows)
        if not wrong:
            self._good += 1
            self.say(f"ok      {label}, {len(blows)} blows")
            return
        self._bad.append(label)
        self.say(f"FAILED  {label}: " + "; ".join(wrong))
        for blow in blows:
            print(f"            {blow}")
        if place:
            print(f"            see {place}", flush=True)

    def end(self):
        """Prints the verdict and returns the exit status."""
        outcome = "FAILED" if self._bad else "passed"
        print(f"{self._name} {outcome}: {self._blows} blows in {time.monotonic() - self._started:.0f} s, seed {self._options.seed}: "
              f"{self._good} passed, {len(self._bad)} failed", flush=True)
        return 1 if self._bad else 0


def ci():
    return os.environ.get("CI") == "true"


def refuse(lacks):
    """Outside CI a machine that cannot run a script leaves it out and says why; in CI that is a failure."""
    print("cannot run here: " + "; ".join(lacks))
    print("0 passed, 1 failed" if ci() else "0 passed, 0 failed, 1 skipped")
    sys.exit(1 if ci() else 0)
