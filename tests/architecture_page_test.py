"""docs/architecture.md is true to the tree: its folders, its files, and the arrows of its pictures."""

import html
import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/architecture.md"
LAYERS = pathlib.Path(os.environ["TRAINYARD_BUILD"]) / "layers.txt"
HALVES = ("trainer", "operator")
FILE = re.compile(r"[\w./-]+\.(?:cc|h|cu|cuh|md|sh|py|yaml)")


def quoted(text):
    return re.findall(r"`([^`\n]+)`", text)


def folders_of(half):
    """Those that hold sources, by their paths below the half."""
    files = (path for path in (ROOT / half).rglob("*") if path.suffix in (".cc", ".h", ".proto", ".cu", ".cuh") and "testdata" not in path.parts)
    return {str(path.parent.relative_to(ROOT / half)) for path in files} - {"."}


def table_rows(half):
    """The rows of the half's table: the folders of each, and all that it quotes."""
    section = re.search(rf"^## {half}/:.*?(?=^## )", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL).group()
    for row in re.findall(r"^\| (`[^|]*/`) \|(.*)$", section, re.MULTILINE):
        yield [folder.rstrip("/") for folder in quoted(row[0])], quoted(row[1])


def exists(name, places):
    return any((place / name).is_file() for place in places)


def arrows_of(half):
    """Of the half's picture, as (from, to)."""
    titles = re.findall(r"<title>([^<]*)</title>", (ROOT / f"docs/pictures/{half}-rooms.svg").read_text(encoding="utf-8"))
    return {tuple(title.split("->")) for title in map(html.unescape, titles) if "->" in title}


def allowed_of(half):
    """The arrows that CMake allows: as (from, to), within the half."""
    for line in LAYERS.read_text(encoding="utf-8").split():
        folder, deps, _ = line.split("|")
        if folder.startswith(half + "/"):
            yield from ((folder.removeprefix(half + "/"), dep.removeprefix(half + "/")) for dep in deps.split(",") if dep)


def closure(arrows):
    """All that can be reached, as (from, to)."""
    reached = set(arrows)
    while True:
        more = {(a, d) for a, b in reached for c, d in arrows if b == c} - reached
        if not more:
            return reached
        reached |= more


class ArchitecturePageTest(unittest.TestCase):
    maxDiff = None

    def test_the_tables_name_every_folder_and_no_other(self):
        for half in HALVES:
            named = {folder for folders, _ in table_rows(half) for folder in folders}
            self.assertEqual(named, folders_of(half), f"the table of {half}/")

    def test_the_files_of_a_row_are_in_its_folder(self):
        missing = []
        for half in HALVES:
            for folders, texts in table_rows(half):
                places = [ROOT / half / folder for folder in folders]
                missing += [f"{folders[0]}: {text}" for text in texts if FILE.fullmatch(text) and not exists(text, places)]
        self.assertEqual(missing, [])

    def test_files_named_with_a_path_exist(self):
        places = [ROOT, *(ROOT / half for half in HALVES)]
        files = {text for text in quoted(PAGE.read_text(encoding="utf-8")) if FILE.fullmatch(text) and "/" in text and not text.startswith(".")}
        self.assertGreater(len(files), 20)
        self.assertEqual([text for text in sorted(files) if not exists(text, places)], [])

    def test_the_pictures_show_the_arrows_of_cmake(self):
        for half in HALVES:
            self.assertEqual(closure(arrows_of(half)), closure(set(allowed_of(half))), f"run docs/pictures/draw.sh: {half}-rooms.svg is old")


if __name__ == "__main__":
    unittest.main()
