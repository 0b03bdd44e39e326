"""docs/errors.md quotes messages that the programs have: its words are those of their sources."""

import errno
import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
VALUE = "\0"  # of a format, in a source
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# A quoted value, a placeholder of the page, a name of a file or field, a number.
PLACEHOLDER = re.compile(r'\{\}|"[^"]*"|\'[^\']*\'|…|\[[^\]]*\]|\b[A-Z]{1,}\b|\S*[0-9./_]\S*|\S+=\S*')


def texts_of(source):
    """The literals of a C++ source, those that stand side by side joined."""
    source = re.sub(r'"\s*\n\s*"', "", source)
    for literal in LITERAL.findall(source):
        text = literal.replace('\\"', '"').replace("{{", "<").replace("}}", ">")
        yield re.sub(r"\{[^{}]*\}", VALUE, text).replace("<", "{").replace(">", "}")


def sources():
    for half in ("trainer", "operator"):
        for path in (ROOT / half).rglob("*"):
            if path.suffix in (".cc", ".h") and not path.stem.endswith(("_test", "_fuzz")):
                yield path.read_text(encoding="utf-8")


def system_texts():
    """Of the C library, of yaml-cpp and of the rules in the CRD."""
    yield from (os.strerror(code) for code in (errno.ENOENT, errno.ENOSPC, errno.ESTALE, errno.ETIMEDOUT))
    yield "end of sequence flow not found"
    yield (ROOT / "crds/trainingjob.yaml").read_text(encoding="utf-8")


def quoted_messages(page):
    """The messages in the first column of the page's tables."""
    for row in re.findall(r"^\| (.*?) \|", page, re.MULTILINE):
        for message in re.findall(r"`([^`]+)`", row):
            yield message


def fragments(message):
    """The runs of three words or more in which nothing stands for something else."""
    for run in re.split(r"[:;,()]", PLACEHOLDER.sub(VALUE, message)):
        for words in run.split(VALUE):
            if len(words.split()) >= 3:
                yield " ".join(words.split())


def is_said(words, corpus):
    """Whether `words` are in one text, or are made of two: the second was put into the first."""
    parts = words.split()
    halves = ((" ".join(parts[:i]), " ".join(parts[i:])) for i in range(1, len(parts)))
    return words in corpus or any(first in corpus and second in corpus for first, second in halves)


class ErrorPageTest(unittest.TestCase):
    maxDiff = None

    def test_the_page_quotes_words_of_the_sources(self):
        corpus = "\n".join([*(text for source in sources() for text in texts_of(source)), *system_texts()])
        page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
        quoted = [(message, words) for message in quoted_messages(page) for words in fragments(message)]
        self.assertGreater(len(quoted), 100)
        missing = [f"{words!r} of: {message}" for message, words in quoted if not is_said(words, corpus)]
        self.assertEqual(missing, [], "docs/errors.md quotes words that no source has")


if __name__ == "__main__":
    unittest.main()
