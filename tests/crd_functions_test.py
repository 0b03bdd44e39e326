"""The CRD's rules call only what the CEL of the oldest Kubernetes that the charts take knows, and estimates to be cheap.

An API server that does not know a function refuses the whole CRD. `scripts/test.sh oldest` asks a real one.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
# format() came after 1.29. The text of string(number) has no bound there, so its estimate goes beyond the budget.
FUNCTIONS = {"has", "matches", "size", "hasValue"}


def expressions():
    for line in (ROOT / "crds/trainingjob.yaml").read_text().splitlines():
        if found := re.match(r"\s*(?:- )?(?:rule|messageExpression): (.*)", line):
            yield found.group(1)


def calls(expression):
    """The names before a parenthesis, outside of texts."""
    return set(re.findall(r"([A-Za-z]\w*)\(", re.sub(r"'(?:[^'\\]|\\.)*'", "''", expression)))


class CrdFunctions(unittest.TestCase):
    def test_rules_call_what_the_oldest_kubernetes_knows(self):
        found = [calls(expression) for expression in expressions()]
        self.assertGreater(len(found), 50)
        self.assertEqual(set().union(*found) - FUNCTIONS, set())

    def test_a_function_within_a_text_is_none(self):
        self.assertEqual(calls("'format(x)' + self.a.format([1])"), {"format"})
        self.assertEqual(calls("has(self.a) && self.b in ['size(', 'y']"), {"has"})

    def test_the_charts_take_the_oldest_version_that_is_tested(self):
        pins = (ROOT / "scripts/cluster/versions.sh").read_text()
        (minor,) = re.findall(r"^OLDEST_KUBERNETES_VERSION=(\d+\.\d+)\.\d+$", pins, re.MULTILINE)
        for chart in ("trainingjob", "trainyard-operator"):
            self.assertIn(f'kubeVersion: ">={minor}.0-0"\n', (ROOT / "charts" / chart / "Chart.yaml").read_text())


if __name__ == "__main__":
    unittest.main()
