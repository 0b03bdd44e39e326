"""Prose is at most 100 columns wide, in pages and in comments. Tables, code, headings and pictures stand as they are."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("benchmarks", "charts", "docs", "examples", "operator", "scripts", "tests", "trainer")
COLUMNS = 100


def pages():
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        yield from (ROOT / folder).rglob("*.md")


def prose_of(text):
    """The numbered lines outside of code, tables, headings and pictures."""
    fence = None
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if fence:
            fence = None if stripped.startswith(fence) else fence
        elif opened := re.match(r"```+|~~~+", stripped):
            fence = opened.group()
        elif not stripped.startswith(("|", "#", "![")):
            yield number, line


def sources():
    for folder in ("operator", "trainer", "tests"):
        for suffix in ("*.h", "*.cc", "*.cu", "*.cuh"):
            yield from (ROOT / folder).rglob(suffix)


def comments_of(text):
    """The numbered lines that are prose alone: no tables, whose columns are two spaces apart, and no indented code."""
    for number, line in enumerate(text.splitlines(), start=1):
        comment = re.match(r"\s*// (\S.*)", line)
        if comment and "  " not in comment.group(1) and " " in comment.group(1) and not re.search(r"://\S|NOLINT", comment.group(1)):
            yield number, line


class PageColumnsTest(unittest.TestCase):
    maxDiff = None

    def expect_narrow(self, files, prose):
        wide = [f"{path.relative_to(ROOT)}:{number}: {len(line)} columns"
                for path in files for number, line in prose(path.read_text(encoding="utf-8")) if len(line) > COLUMNS]
        self.assertEqual(wide, [], f"break these lines at {COLUMNS} columns")

    def test_prose_of_pages_is_at_most_100_columns_wide(self):
        files = sorted(pages())
        self.assertGreater(len(files), 15)
        self.expect_narrow(files, prose_of)

    def test_comments_are_at_most_100_columns_wide(self):
        files = sorted(sources())
        self.assertGreater(len(files), 900)
        self.expect_narrow(files, comments_of)


if __name__ == "__main__":
    unittest.main()
