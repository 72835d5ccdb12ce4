"""The README holds: its commands run, its code prints what it says, its tables are in results/, its links lead on."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import List, Tuple

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

# Commands that are not run here: this very suite, those that take minutes, and other people's programs.
NOT_RUN = ("make ", "claude ", "codex ", "python bench.py", "python sim.py --replicates", "git ")


def blocks(text: str) -> List[Tuple[str, str]]:
    """[(language, content)] of the fenced blocks."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands() -> List[str]:
    lines = [line for language, content in blocks(README) if language == "sh" for line in content.splitlines()]
    return [line.split("  #")[0].strip() for line in lines]


class Readme(unittest.TestCase):
    def test_each_command_runs(self) -> None:
        run = [command for command in commands() if not command.startswith(NOT_RUN)]
        self.assertIn("python sim.py --seeds 1-5", run)
        with tempfile.TemporaryDirectory() as folder:
            for command in run:
                with self.subTest(command=command):
                    # A command that writes files does so where it stands; here that is a folder that goes away.
                    program, script, *arguments = shlex.split(command)
                    self.assertEqual(program, "python")
                    done = subprocess.run(
                        [sys.executable, str(ROOT / script), *arguments], cwd=folder, capture_output=True, timeout=300
                    )
                    self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_each_make_target_that_is_named_is_there(self) -> None:
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        for target in set(re.findall(r"\bmake (\w+)", README)):
            self.assertRegex(makefile, rf"(?m)^{target}:")

    def test_the_code_prints_what_the_readme_says(self) -> None:
        found = blocks(README)
        for (language, code), (_, expected) in zip(found, found[1:]):
            if language == "python":
                done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60)
                self.assertEqual((done.stdout.decode(), done.stderr), (expected, b""))

    def test_each_table_is_what_the_scripts_print(self) -> None:
        results = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "results").glob("*.txt")))
        found = [("", ""), *blocks(README)]
        pairs = zip(found, found[1:])
        tables = [text for (before, _), (language, text) in pairs if language == "text" and before != "python"]
        self.assertGreaterEqual(len(tables), 5)
        for content in tables:
            self.assertTrue(content in results, f"not what the scripts print:\n{content}")

    def test_each_link_and_picture_leads_to_something(self) -> None:
        heads = re.findall(r"^#+ (.*)$", README, re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}
        for target in re.findall(r"\]\(([^)]+)\)", README):
            with self.subTest(target=target):
                if target.startswith("#"):
                    self.assertIn(target[1:], anchors)
                else:
                    self.assertTrue((ROOT / target).exists())

    def test_each_module_is_in_the_readers_table(self) -> None:
        for path in ROOT.glob("*.py"):
            self.assertTrue(f"`{path.name}`" in README, path.name)
