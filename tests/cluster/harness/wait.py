"""Waiting: always for a condition, always with a deadline, and a timeout says what was seen last."""

import time


class TimedOut(AssertionError):
    pass


def wait_for(what, condition, seconds=30.0, every=0.1):
    """Calls condition() until it returns something true and returns that.

    The condition may raise AssertionError or OSError, which mean "not yet". When the time is up, TimedOut carries `what` and the last such error.
    """
    deadline = time.monotonic() + seconds
    last = None
    while True:
        try:
            result = condition()
            if result:
                return result
            last = None
        except (AssertionError, OSError) as error:
            last = error
        if time.monotonic() >= deadline:
            raise TimedOut(f"waited {seconds:.0f} s for {what}" + (f"; last seen: {last}" if last is not None else ""))
        time.sleep(every)


def let_time_pass(seconds):
    """Only where time itself is what a test is about: silence for a while, a blow at a random moment. Never to wait for a result."""
    time.sleep(seconds)
