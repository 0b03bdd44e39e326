"""Events of the operator. It sends them from a thread of its own, so they may come after the status that tells the same."""
from harness.jobs import EVENTS
from harness.wait import wait_for


def wait_events(api, reason, words="", count=1, seconds=60.0):
    """At least `count` events of `reason` whose notes have `words`: all of them, in the API server's order."""
    def told():
        events = [each for each in api.list(EVENTS) if each["reason"] == reason]
        found = [each for each in events if words in each["note"]]
        assert len(found) >= count, [each["note"] for each in events]
        return found

    return wait_for(f"{count} events {reason} with '{words}'", told, seconds)
