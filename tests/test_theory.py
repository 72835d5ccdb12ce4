"""The two formulas, against the integrals they come from and against the simulated day in which they are exact."""

from __future__ import annotations

import contextlib
import io
import math
import re
import unittest
from typing import List

import command_line
import report
import theory
from theory import popularity_of, refused_share, stale_share


def options(*argv: str) -> theory.argparse.Namespace:
    return command_line.make_parser(theory.SCRIPT).parse_args(argv)


class Formulas(unittest.TestCase):
    popularity: List[float] = [0.5, 0.3, 0.15, 0.05]

    def test_the_stale_share_is_the_refused_share_averaged_over_the_citations_ages(self) -> None:
        steps = 20_000
        ages = ((step + 0.5) * 8 / steps for step in range(steps))
        by_hand = math.fsum(refused_share(self.popularity, 2.5, age) for age in ages) / steps
        self.assertAlmostEqual(stale_share(self.popularity, 2.5, 8), by_hand, places=8)

    def test_without_saves_nothing_is_stale_and_no_edit_is_refused(self) -> None:
        self.assertEqual(stale_share(self.popularity, 0, 8), 0)
        self.assertEqual(refused_share(self.popularity, 0, 8), 0)

    def test_with_ever_more_saves_everything_is(self) -> None:
        self.assertGreater(stale_share(self.popularity, 1e6, 8), 0.999)
        self.assertGreater(refused_share(self.popularity, 1e6, 8), 0.999)

    def test_popularity_sums_to_one_and_falls_with_the_rank(self) -> None:
        shares = popularity_of(options())
        self.assertAlmostEqual(math.fsum(shares), 1)
        self.assertEqual(shares, sorted(shares, reverse=True))


class AgainstTheSimulation(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.options = options(
            "--seeds", "1-16", "--articles", "100", "--questions", "60", "--saves", "120", "--hours", "4"
        )
        counts = report.add_up(report.measure(theory.SCRIPT, cls.options.seeds, cls.options))
        cls.found = theory.figures(counts, 16)

    def assert_close(self, name: str, expected: float) -> None:
        part, whole, error = (self.found[f"theory.{name}{what}"] for what in ("", ".of", ".error"))
        difference = part / whole - expected
        # Four standard errors, and the little by which a fixed number of saves is not Poisson.
        self.assertLess(abs(difference), 4 * error + 0.01, f"{name}: {part}/{whole}, theory {expected:.3f}")

    def test_first_citations_go_stale_as_theory_says(self) -> None:
        for hour in range(1, 5):
            with self.subTest(hour=hour):
                self.assert_close(f"simple.hour{hour}", stale_share(popularity_of(self.options), 30, hour))

    def test_late_edits_are_refused_as_theory_says(self) -> None:
        for name, _, delay in theory.DELAYS[:3]:  # four hours after an answer this day is over
            with self.subTest(delay=name):
                self.assert_close(f"simple.{name}", refused_share(popularity_of(self.options), 30, delay / 3600))

    def test_a_wrong_popularity_would_be_found_out(self) -> None:
        even = [1 / 100] * 100
        with self.assertRaises(AssertionError):
            self.assert_close("simple.hour4", stale_share(even, 30, 4))


class TheScript(unittest.TestCase):
    def test_one_seed_has_no_standard_error(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            command_line.main(
                theory.SCRIPT, "--seeds 3 --articles 20 --questions 8 --saves 10 --hours 2 --jobs 1".split()
            )
        self.assertRegex(out.getvalue(), r"(?m)^  1 h .* n/a$")

    def test_it_prints_theory_for_the_numbers_it_is_given(self) -> None:
        argv = "--seeds 1-2 --articles 2 --questions 4 --saves 16 --hours 2 --zipf 0 --jobs 1".split()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            command_line.main(theory.SCRIPT, argv)
        expected = 100 * (1 - math.exp(-4))  # two articles alike, eight saves an hour, so four to each
        self.assertTrue(re.search(rf"(?m)^  1 h +{expected:.1f}%", out.getvalue().split("refused")[1]), out.getvalue())


if __name__ == "__main__":
    unittest.main()
