"""What the scripts share: seeds and options, runs in processes, ground truth, tables, files and pipes."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from typing import Any, Dict, List, Optional
from unittest import mock

import command_line
import report
from report import Counts, Figures, GroundTruth, GroundTruthFailed, Script, number, percent, ratio, share, table

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# --- a script of two parts, whose counts tell what they were given --------------------------------------------------


def count_part(seed: int, options: argparse.Namespace) -> Counts:
    checks = GroundTruth()
    checks.equal("seeds are what was asked for", seed, seed)
    return {"runs": 1, "sum": seed * options.factor, **checks.counts()}


def draw_part(seed: int, options: argparse.Namespace) -> Counts:
    if seed == 666:
        GroundTruth().equal("no seed is 666", seed, 665)
    if seed == 667:
        raise ValueError("seed 667 does not go with --factor")
    return {"drawn": int(1e6 * report.rng(seed, "draw").random())}


def interrupted_part(seed: int, options: argparse.Namespace) -> Counts:
    """What a worker gets when Ctrl-C is pressed in the terminal."""
    os.kill(os.getpid(), signal.SIGINT)
    return count_part(seed, options)


def figures(counts: Counts, seeds: int) -> Figures:
    return {"toy.sum": counts["sum"], "toy.drawn": ratio(counts["drawn"], seeds), "toy.none": None}


def tables(found: Figures, published: Any, options: argparse.Namespace) -> str:
    row = ["compared" if published else "alone", number(options.factor), number(found["toy.sum"])]
    return table("Toy", ("how", "factor", "sum"), [row])


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--factor", type=command_line.whole(1, 9), default=1, metavar="N", help="times (default: 1)")
    parser.add_argument("--part", type=command_line.real(0, 1), default=0.5, metavar="N", help="of all (default: 0.5)")


TOY = Script(
    name="toy", about="A toy.", examples="  python toy.py --seeds 1-5", parts={"count": count_part, "draw": draw_part},
    figures=figures, tables=tables, add_options=add_options,
)  # fmt: skip


class ScriptCase(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def output(self, *argv: str, jobs: int = 1) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            command_line.main(TOY, [*argv, "--jobs", str(jobs)])
        return out.getvalue()

    def figures(self, *argv: str) -> Dict[str, Optional[float]]:
        found: Dict[str, Optional[float]] = json.loads(self.output(*argv, "--json", "-"))["figures"]
        return found

    def ended(self, code: int, *argv: str) -> str:
        """What is said on standard error, in one line."""
        errors, out = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stderr(errors),
            contextlib.redirect_stdout(out),
            self.assertRaises(SystemExit) as ended,
        ):
            command_line.main(TOY, [*argv, "--jobs", "1"])
        self.assertEqual(ended.exception.code, code, argv)
        self.assertEqual(out.getvalue(), "")
        text = errors.getvalue()
        self.assertTrue(text.endswith("\n") and text.count("\n") == 1, text)
        return text


class Seeds(unittest.TestCase):
    def test_seeds_are_a_list_of_numbers_and_ranges(self) -> None:
        for text, seeds in (
            ("3", [3]), ("0", [0]), ("1-5", [1, 2, 3, 4, 5]), ("1,4,7-9", [1, 4, 7, 8, 9]), ("7-7", [7]),
            (" 1 , 2", [1, 2]), ("5,1", [5, 1]), ("999999999", [999_999_999]),
        ):  # fmt: skip
            self.assertEqual(command_line.seed_list(text), seeds)

    def test_what_is_no_list_of_seeds_is_refused(self) -> None:
        for text in (
            "", " ", "a", "1,", ",1", "1-", "-1", "1--5", "5-1", "1-5-9", "1.5", "1e3", "0x1", "1,1", "1-3,2", "1..5",
            "1;2", "１", "+1", "0-100000", "1234567890", "1\n2",
        ):  # fmt: skip
            with self.subTest(text), self.assertRaises(argparse.ArgumentTypeError):
                command_line.seed_list(text)

    def test_seeds_are_named_as_they_can_be_given(self) -> None:
        for seeds, text in (([3], "seed 3"), ([1, 2, 3], "seeds 1-3"), ([1, 4, 5], "seeds 1,4,5")):
            self.assertEqual(report.seeds_text(seeds), text)


class Numbers(unittest.TestCase):
    def test_whole_numbers_lie_between_their_bounds(self) -> None:
        parse = command_line.whole(1, 20)
        self.assertEqual([parse("1"), parse("20"), parse("007")], [1, 20, 7])
        for text in ("0", "21", "-1", "1.0", "", "a", "1e1", "１", " 1", "1_0", "9" * 5000):
            with self.subTest(text[:9]), self.assertRaises(argparse.ArgumentTypeError):
                parse(text)

    def test_real_numbers_lie_between_their_bounds(self) -> None:
        parse = command_line.real(0.5, 100)
        self.assertEqual([parse("0.5"), parse(".5"), parse("100"), parse("12.25")], [0.5, 0.5, 100.0, 12.25])
        for text in ("0.4", "100.1", "-1", "nan", "inf", "1e1", "", ".", "5.", "a", "1,5", "٣", "1.2.3"):
            with self.subTest(text), self.assertRaises(argparse.ArgumentTypeError):
                parse(text)

    def test_numbers_print_with_thousands_and_n_a_for_none(self) -> None:
        self.assertEqual([number(1234567), number(1234.56, 1), number(0), number(None)],
                         ["1,234,567", "1,234.6", "0", "n/a"])  # fmt: skip

    def test_shares_print_part_whole_and_percent(self) -> None:
        self.assertEqual(share(1, 3), "1/3 (33.3%)")
        self.assertEqual(share(0, 1200), "0/1,200 (0.0%)")

    def test_what_was_not_measured_is_n_a_not_zero(self) -> None:
        self.assertEqual([share(0, 0), share(None, 5), share(5, None), share(None, None)], ["n/a"] * 4)
        self.assertEqual([percent(0, 0), ratio(0, 0)], [None, None])
        self.assertEqual([percent(1, 4), ratio(1, 4)], [25.0, 0.25])


class Randomness(unittest.TestCase):
    def test_draws_are_the_same_on_every_python(self) -> None:
        draw = report.rng(1, "saves")
        self.assertEqual([int(1e6 * draw.random()) for _ in range(3)], [49_485, 356_903, 331_736])

    def test_each_seed_and_purpose_has_its_own_stream(self) -> None:
        streams = {report.rng(seed, purpose).random() for seed in range(20) for purpose in ("saves", "texts", "1")}
        self.assertEqual(len(streams), 60)

    def test_each_choice_is_equally_likely(self) -> None:
        draw = report.rng(1, "test")
        picked = [report.pick(draw, "abc") for _ in range(3000)]
        for choice in "abc":
            self.assertAlmostEqual(picked.count(choice), 1000, delta=100)

    def test_a_choice_uses_random_only(self) -> None:
        class Constant:
            def random(self) -> float:
                return self.value

            value = 0.0

        source: Any = Constant()
        self.assertEqual(report.pick(source, "abc"), "a")
        source.value = 0.999_999_999
        self.assertEqual(report.pick(source, "abc"), "c")


class TheGroundTruth(unittest.TestCase):
    def test_what_passes_is_counted_by_rule(self) -> None:
        checks = GroundTruth()
        for rule in ("a", "b", "a"):
            checks.equal(rule, {1, 2}, {2, 1})
        self.assertEqual(checks.counts(), {"check: a": 2, "check: b": 1})

    def test_the_first_that_fails_stops_and_names_its_rule(self) -> None:
        checks = GroundTruth()
        with self.assertRaisesRegex(GroundTruthFailed, "^two is three: got 2, expected 3$"):
            checks.equal("two is three", 2, 3)
        self.assertEqual(checks.counts(), {})

    def test_sets_differ_by_what_is_missing_and_what_is_extra(self) -> None:
        with self.assertRaisesRegex(GroundTruthFailed, r"missing \['3'\] \(1 in all\), not expected \['1'\]"):
            GroundTruth().equal("rule", {1, 2}, {2, 3})

    def test_a_failure_is_short_however_much_differs(self) -> None:
        for actual, expected in (("x" * 10**6, "y" * 10**6), (set(range(10**4)), set()), ({1: "x" * 10**6}, {})):
            with self.assertRaises(GroundTruthFailed) as failed:
                GroundTruth().equal("rule", actual, expected)
            self.assertLess(len(str(failed.exception)), 1000)


class Tables(unittest.TestCase):
    def test_columns_are_aligned_and_notes_follow(self) -> None:
        text = table("Title", ("who", "what", "n"), [["a", "ours", "1"], ["", "published", "1,234"]], ["a note"])
        self.assertEqual(
            text.split("\n"),
            [
                "Title",
                "",
                "  who  what           n",
                "  ---  ---------  -----",
                "  a    ours           1",
                "       published  1,234",
                "",
                "  a note",
            ],
        )

    def test_both_puts_the_published_row_under_ours_if_there_is_one(self) -> None:
        def cells(f: Any) -> List[str]:
            return [number(f["x"])]

        self.assertEqual(report.both("l", {"x": 1}, {"x": 2}, cells), [["l", "ours", "1"], ["", "published", "2"]])
        self.assertEqual(report.both("l", {"x": 1}, {}, cells), [["l", "ours", "1"]])


class Running(ScriptCase):
    def test_counts_of_parts_and_seeds_add_up(self) -> None:
        self.assertEqual(self.figures("--seeds", "1-4")["toy.sum"], 10)
        self.assertEqual(self.figures("--seeds", "1,4,7-9", "--factor", "2")["toy.sum"], 58)

    def test_the_default_is_seeds_1_to_5(self) -> None:
        self.assertEqual(self.output(), self.output("--seeds", "1-5"))

    def test_the_output_does_not_depend_on_the_number_of_processes(self) -> None:
        once = self.output("--seeds", "1-20")
        for jobs in (2, 3):
            self.assertEqual(self.output("--seeds", "1-20", jobs=jobs), once)

    def test_an_interrupt_is_for_the_first_process_alone(self) -> None:
        """Else each worker adds a traceback of its own to what the first one says in a line."""
        tasks = [(interrupted_part, seed, argparse.Namespace(factor=1)) for seed in (1, 2, 3)]
        self.assertEqual([counts["sum"] for counts in report.run_tasks(tasks, 1, 2)], [1, 2, 3])

    def test_an_interrupted_run_says_so_in_one_line(self) -> None:
        with mock.patch("command_line.one_run", side_effect=KeyboardInterrupt):
            with self.assertRaisesRegex(SystemExit, "^toy.py: interrupted$"):
                command_line.main(TOY, [])

    def test_the_report_shows_the_tables_and_each_check_that_passed(self) -> None:
        text = self.output("--seeds", "1-3")
        self.assertTrue(text.startswith("toy.py, seeds 1-3\n\nToy\n"), text)
        self.assertIn("PASS  seeds are what was asked for: 3 of 3 checks\n", text)
        self.assertTrue(text.endswith("\n") and not text.endswith("\n\n"))

    def test_ground_truth_that_fails_ends_the_run_with_its_rule(self) -> None:
        for jobs in ("1", "2"):
            with contextlib.redirect_stdout(io.StringIO()) as out, self.assertRaises(SystemExit) as ended:
                command_line.main(TOY, ["--seeds", "665-668", "--jobs", jobs])
            self.assertEqual(ended.exception.code, "toy.py: ground truth failed: no seed is 666: got 666, expected 665")
            self.assertEqual(out.getvalue(), "")

    def test_options_that_cannot_be_together_are_refused_in_one_line(self) -> None:
        self.assertIn("seed 667 does not go", self.ended(2, "--seeds", "667"))

    def test_an_error_of_any_other_kind_is_not_hidden(self) -> None:
        broken = TOY._replace(figures=mock.Mock(side_effect=ZeroDivisionError))
        with self.assertRaises(ZeroDivisionError):
            command_line.main(broken, ["--seeds", "1", "--jobs", "1"])

    def test_progress_is_shown_to_people_only(self) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        for stream, shows in ((Terminal(), True), (io.StringIO(), False)):
            with mock.patch("sys.stderr", stream):
                self.output("--seeds", "1-2")
            self.assertEqual("of 4 parts done" in stream.getvalue(), shows)
            self.assertTrue(stream.getvalue().endswith("\r\033[K") or not shows)


class Options(ScriptCase):
    def test_a_wrong_option_or_value_gets_one_line_and_code_2(self) -> None:
        for argv in (
            ["--seeds", ""], ["--seeds", "a"], ["--seeds", "5-1"], ["--seeds", "1,1"], ["--seeds"], ["--seeds=-1"],
            ["--factor", "0"], ["--factor", "10"], ["--factor", "1.5"], ["--factor", ""], ["--part", "1.1"],
            ["--part", "nan"], ["--nothing"], ["--seed", "1"], ["-x"], ["stray"], ["--json"], ["--merge"],
            ["--json", "/no/such/folder/a.json"], ["--json", "/"], ["--merge", "/no/such/file"], ["--merge", "/"],
        ):  # fmt: skip
            with self.subTest(argv):
                self.assertTrue(self.ended(2, *argv).startswith("toy.py: "))
        for jobs in ("0", "-1", "a", "257", "1.5"):
            with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit) as ended:
                command_line.main(TOY, ["--jobs", jobs])
            self.assertEqual(ended.exception.code, 2)

    def test_help_shows_each_option_and_the_examples(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as out, self.assertRaises(SystemExit) as ended:
            command_line.main(TOY, ["--help"])
        self.assertEqual(ended.exception.code, 0)
        for text in ("--seeds", "--jobs", "--json", "--merge", "--factor N", "python toy.py --seeds 1-5", "A toy."):
            self.assertIn(text, out.getvalue())

    def test_only_five_seeds_under_the_posts_options_are_compared_with_the_posts(self) -> None:
        seen: List[Any] = []

        def watch(found: Figures, published: Any, options: argparse.Namespace) -> str:
            seen.append(bool(published))
            return ""

        script = TOY._replace(tables=watch)
        for argv in (
            [],
            ["--factor", "1"],
            ["--seeds", "7-11"],
            ["--seeds", "7"],
            ["--factor", "2"],
            ["--part", "0.1"],
        ):
            with contextlib.redirect_stdout(io.StringIO()):
                command_line.main(script, [*argv, "--jobs", "1"])
        self.assertEqual(seen, [True, True, True, False, False, False])

    def test_options_that_the_posts_leave_open_can_be_changed_and_compared(self) -> None:
        script = TOY._replace(name="sim", inferred=("factor",))
        seen: List[Any] = []
        instead = lambda script, options: (seen.append(options.factor) or "", {})  # noqa: E731
        with mock.patch.object(command_line, "replicate", instead):
            command_line.main(script, ["--replicates", "2", "--factor", "2"])
            for argv in (["--part", "0.1"], ["--seeds", "1-4"]):
                with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                    command_line.main(script, ["--replicates", "2", *argv])
        self.assertEqual(seen, [2])


class Files(ScriptCase):
    def test_json_goes_to_standard_output_without_tables(self) -> None:
        document = json.loads(self.output("--seeds", "1,3", "--json", "-"))
        self.assertEqual((document["script"], document["seeds"]), ("toy", [1, 3]))
        self.assertEqual(set(document["figures"]), {"toy.sum", "toy.drawn", "toy.none"})

    def test_json_goes_to_a_file_beside_the_tables(self) -> None:
        path = self.path("toy.json")
        self.assertEqual(self.output("--json", path), self.output())
        with open(path, "rb") as file:
            self.assertEqual(file.read(), self.output("--json", "-").encode())

    def test_a_longer_file_is_replaced_not_written_over(self) -> None:
        path = self.path("toy.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write("x" * 100_000)
        self.output("--json", path)
        with open(path, encoding="utf-8") as file:
            json.load(file)

    def test_an_impossible_file_is_refused_before_the_run(self) -> None:
        with mock.patch("report.run_task", side_effect=AssertionError):
            self.ended(2, "--json", self.path("no/such/folder/toy.json"))

    def test_merging_files_equals_one_run(self) -> None:
        first, second = self.path("1.json"), self.path("2.json")
        self.output("--seeds", "3,5", "--json", first)
        self.output("--seeds", "1-2,4", "--json", second)
        self.assertEqual(self.output("--merge", first, second), self.output("--seeds", "1-5"))
        merged = self.output("--merge", second, first, "--json", "-")
        self.assertEqual(merged, self.output("--seeds", "1-5", "--json", "-"))

    def test_merged_files_can_be_merged_again(self) -> None:
        for seed in "123":
            self.output("--seeds", seed, "--json", self.path(seed))
        self.output("--merge", self.path("1"), self.path("2"), "--json", self.path("12"))
        self.assertEqual(self.output("--merge", self.path("3"), self.path("12")), self.output("--seeds", "1-3"))

    def test_a_merge_is_compared_as_its_files_were_made(self) -> None:
        path = self.path("twice.json")
        text = self.output("--seeds", "1-2", "--factor", "2", "--json", path)
        self.assertEqual(self.output("--merge", path), text)
        for argv in (("--factor", "3"), ("--seeds", "3")):
            self.assertIn(f"from the files, not {argv[0]}", self.ended(2, "--merge", path, *argv))

    def test_files_that_do_not_add_up_are_refused_in_one_line(self) -> None:
        first, other = self.path("first.json"), self.path("other.json")
        self.output("--seeds", "1-2", "--json", first)
        self.output("--seeds", "3", "--factor", "2", "--json", other)
        self.assertIn("same options", self.ended(2, "--merge", first, other))
        self.assertIn("a seed stands in two", self.ended(2, "--merge", first, first))
        with open(first, encoding="utf-8") as file:
            good = json.load(file)
        spoiled: List[Any] = ["", "{", "[]", "null", "{}", {"script": "toy"}, {**good, "script": "sim"}]
        spoiled += [{key: value for key, value in good.items() if key != less} for less in ("seeds", "counts")]
        for seeds in ("1", [], [True], [-1], [10**9], [1.0], [[1]], {"1": 1}):
            spoiled.append({**good, "seeds": seeds})
        for counts in ([], {"sum": None}, {"sum": True}, {"sum": float("nan")}, {"sum": "1"}, {"check: \x1b[2J": 1}):
            spoiled.append({**good, "counts": counts})
        for options in ([], {}, {"factor": 99}, {"factor": None}, {"factor": [1]}, {"json": "x"}):
            spoiled.append({**good, "options": options if options in ([], {}) else {**good["options"], **options}})
        for content in spoiled:
            with self.subTest(str(content)[:40]):
                with open(other, "w", encoding="utf-8") as file:
                    file.write(content if isinstance(content, str) else json.dumps(content))
                self.assertIn(other, self.ended(2, "--merge", other))

    def test_what_excludes_each_other_is_refused(self) -> None:
        path = self.path("one.json")
        self.output("--seeds", "1-2", "--json", path)
        script = TOY._replace(name="sim", sweep=report.Sweep((), lambda f: [], ()))
        for argv in (("--merge", path, "--sweep", "factor=1"), ("--replicates", "2", "--sweep", "factor=1")):
            with self.assertRaises(SystemExit) as ended, contextlib.redirect_stderr(io.StringIO()) as errors:
                command_line.main(script, argv)
            self.assertEqual((ended.exception.code, errors.getvalue().count("\n")), (2, 1))

    def test_a_refused_run_makes_no_file(self) -> None:
        path = self.path("none.json")
        self.ended(2, "--json", path, "--merge", self.path("missing.json"))
        self.assertFalse(os.path.exists(path))


class Sweeps(unittest.TestCase):
    SCRIPT = TOY._replace(sweep=report.Sweep(("sum",), lambda f: [f"{f['toy.sum']:g}"], ("a note",)))

    def swept(self, *argv: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            command_line.main(self.SCRIPT, [*argv, "--jobs", "1"])
        return out.getvalue()

    def test_each_combination_has_a_row_the_last_option_varying_fastest(self) -> None:
        rows = self.swept("--seeds", "1-2", "--sweep", "factor=1,2", "part=0.1,0.2").splitlines()
        self.assertEqual(
            [row.split()[:2] for row in rows[4:8]], [["1", "0.1"], ["1", "0.2"], ["2", "0.1"], ["2", "0.2"]]
        )

    def test_what_cannot_be_varied_is_refused_in_one_line(self) -> None:
        for texts in (
            ["foo=1"],
            ["factor"],
            ["factor="],
            ["factor=1,"],
            ["factor=99"],
            ["factor=1", "factor=2"],
            ["seeds=1"],
        ):
            with self.subTest(texts), self.assertRaises(SystemExit) as ended:
                with contextlib.redirect_stderr(io.StringIO()) as errors:
                    self.swept("--sweep", *texts)
            self.assertEqual((ended.exception.code, errors.getvalue().count("\n")), (2, 1))


class Differences(unittest.TestCase):
    def test_the_place_that_differs_is_shown(self) -> None:
        long = "x" * 1000
        for actual, expected, said in (
            (
                {1: (long, long + "a")},
                {1: (long, long + "b")},
                "at 1: at 1: from character 1000: got 'a', expected 'b'",
            ),
            ({1: 2}, {1: 2, 3: 4}, "as keys: missing ['3'] (1 in all)"),
            ([1, 2, 3], [1, 9, 3], "at 1: got 2, expected 9"),
            ({1}, {2}, "missing ['2'] (1 in all), not expected ['1'] (1 in all)"),
            (1, 2, "got 1, expected 2"),
        ):
            self.assertIn(said, report.difference(actual, expected))


class Pipes(unittest.TestCase):
    def test_a_reader_that_has_gone_away_is_no_error(self) -> None:
        read, write = os.pipe()
        os.close(read)
        self.addCleanup(os.close, write)
        for lines, unbuffered in ((1, ""), (100_000, ""), (1, "1")):
            code = f"import command_line; command_line.write_text('-', 'line\\n' * {lines})"
            environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
            done = subprocess.run(
                [sys.executable, "-c", code],
                cwd=HERE, env=environment, stdout=write, stderr=subprocess.PIPE, check=False,
            )  # fmt: skip
            self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_text_is_written_in_utf_8_to_files(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "a.txt")
            command_line.write_text(path, "é\n")
            with open(path, "rb") as file:
                self.assertEqual(file.read(), "é\n".encode())


if __name__ == "__main__":
    unittest.main()
