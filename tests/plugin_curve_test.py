"""The picture of `kubectl trainyard curve`, without a cluster."""

import pathlib
import runpy
import unittest

PLUGIN = runpy.run_path(str(pathlib.Path(__file__).resolve().parents[1] / "plugin/kubectl-trainyard"))
FALLING = [(100, 2.0), (200, 1.0), (300, 0.5)]


def plot(points, encoding="utf-8", width=40):
    return PLUGIN["plot"](points, width, 5, PLUGIN["letters_of"](encoding))


class PluginCurveTest(unittest.TestCase):
    def test_the_axes_say_what_they_count(self):
        drawn = plot(FALLING)
        self.assertTrue(drawn[0].startswith("  2 │⠉⠒"), drawn)
        self.assertTrue(drawn[4].startswith("0.5 │"), drawn)
        self.assertEqual(drawn[-1].split(), ["100", "step", "300"])

    def test_a_terminal_without_unicode_gets_a_curve_of_ascii(self):
        for encoding in ("ascii", "iso-8859-1", None):
            drawn = plot(FALLING, encoding)
            self.assertEqual("\n".join(drawn).encode("ascii", "replace").count(b"?"), 0)
            self.assertTrue(drawn[0].startswith("  2 |'':"), drawn)

    def test_a_loss_that_diverges_leaves_room_for_the_curve(self):
        drawn = plot([(1, 2.4), (15, 2.0755053208301787e35)], width=26)
        self.assertTrue(drawn[0].startswith("2.076e+35 │"), drawn)
        self.assertLessEqual(max(map(len, drawn)), 40)

    def test_a_narrow_terminal_gets_lines_that_fit(self):
        self.assertLessEqual(max(map(len, plot(FALLING, width=8))), 20)

    def test_very_small_losses_of_the_log_are_read(self):
        log = "[info] epoch 0: step 10, loss 4.1e-06, 1.00 s\n[info] epoch 1: step 20, loss 2.076e+35, 1.00 s"
        self.assertEqual(PLUGIN["points_of"](log, {}), [(10, 4.1e-06), (20, 2.076e35)])


if __name__ == "__main__":
    unittest.main()
