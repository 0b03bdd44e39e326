"""Which launched job chaos disturbs next, and by which blows."""
import time

from launched_job import LaunchedJob
from shapes import SHAPES, STRATEGIES

MOST_JOBS_A_KILL = 3  # a job that is over too soon gets no blow


class AllShapes:
    """Every shape in turn, by blows of all kinds: `--jobs` of them at least, and until `--seconds` are over."""

    blow = staticmethod(LaunchedJob.disturb)

    def __init__(self, options):
        self._options, self._started, self._end = options, 0, time.monotonic() + options.seconds

    def begin(self):
        self._end = time.monotonic() + self._options.seconds

    def shape(self, number):
        return list(SHAPES)[number % len(SHAPES)]

    def shapes(self):
        return list(SHAPES) if self._options.only is None else [self.shape(self._options.only)]

    def next(self, running):
        """The number of the job to be started now, or None."""
        if self._options.only is not None:
            more = self._started == 0
        else:
            more = self._started < self._options.jobs or time.monotonic() < self._end
        self._started += more
        return None if not more else self._options.only if self._options.only is not None else self._started - 1

    def last_blow(self):
        return max(self._end, time.monotonic() + 10)  # jobs that come late get their blows all the same

    def count(self, number, dealt):
        pass

    def judge(self, verdict):
        pass


class EachStrategy:
    """Every strategy in turn, until each has got `--kills` blows: kills, stops and cuts."""

    blow = staticmethod(LaunchedJob.take_one)

    def __init__(self, options):
        self._options, self._number = options, 0
        self._names = options.strategy or list(STRATEGIES)
        self._dealt = dict.fromkeys(self._names, 0)

    def begin(self):
        pass

    def _strategy(self, number):
        return self._names[number % len(self._names)]

    def shape(self, number):
        shapes = STRATEGIES[self._strategy(number)]
        return shapes[number // len(self._names) % len(shapes)]

    def shapes(self):
        if self._options.only is not None:
            return [self.shape(self._options.only)]
        return [shape for name in self._names for shape in STRATEGIES[name]]

    def next(self, running):
        if self._options.only is not None:
            number, self._options.only = self._options.only, None
            self._dealt = dict.fromkeys(self._names, self._options.kills)
            return number
        for number in range(self._number, min(self._number + len(self._names), self._options.kills * len(self._names) * MOST_JOBS_A_KILL)):
            name = self._strategy(number)
            under_way = sum(self._strategy(each.number) == name for each in running)  # each will get one at least
            if self._dealt[name] + under_way < self._options.kills:
                self._number = number + 1
                return number
        return None

    def last_blow(self):
        return float("inf")

    def count(self, number, dealt):
        self._dealt[self._strategy(number)] += dealt

    def judge(self, verdict):
        verdict.say("blows by strategy: " + "; ".join(f"{name}: {dealt}" for name, dealt in self._dealt.items()))
        verdict.add("every strategy has got its blows", [f"{name} has got {dealt}" for name, dealt in self._dealt.items() if dealt < self._options.kills])
