"""How close is said to be how close: quantiles, verdicts, and the check of all figures together."""

from __future__ import annotations

import math
import random
import statistics
import unittest
from typing import Dict, List, Optional, Sequence

import compare
from compare import FIGURES, PUBLISHED, Spread

EXACT, SIZE, SAMPLED = "sim.cost.checks", "sim.cost.poll.kib", "sim.staleness.hour8.stale"


class Figures(unittest.TestCase):
    def test_there_are_136_published_figures_each_with_a_kind(self) -> None:
        self.assertEqual(len(FIGURES), 136)
        self.assertEqual({figure["kind"] for figure in FIGURES.values()}, {"exact", "size", "sampled", "timing"})

    def test_a_figure_is_compared_as_the_post_prints_it(self) -> None:
        self.assertEqual(compare.as_printed(36.6965, 36.7), 36.7)
        self.assertEqual(compare.as_printed(39.9, 40), 40)

    def test_an_exact_figure_fits_only_if_equal_and_a_size_within_two_percent(self) -> None:
        self.assertTrue(compare.fits(40, EXACT))
        self.assertFalse(compare.fits(41, EXACT))
        self.assertFalse(compare.fits(None, EXACT))
        self.assertTrue(compare.fits(153 * 1.0199, SIZE))
        self.assertFalse(compare.fits(153 * 1.0201, SIZE))

    def test_the_summary_names_each_figure_that_differs(self) -> None:
        text = "\n".join(compare.summary({EXACT: 41, SIZE: 200.0, SAMPLED: 1}, PUBLISHED))
        self.assertIn(f"DIFFERS {EXACT}: 41 against 40 published", text)
        self.assertIn(f"DIFFERS {SIZE}: 200.0 against 153 published", text)
        self.assertIn("sampled: 1,", text)


class Spreads(unittest.TestCase):
    def test_quantiles_are_those_of_the_statistics_module(self) -> None:
        values = sorted(random.Random(1).random() for _ in range(101))
        cuts = statistics.quantiles(values, n=40, method="inclusive")
        self.assertAlmostEqual(compare.quantile(values, 0.025), cuts[0])
        self.assertAlmostEqual(compare.quantile(values, 0.975), cuts[-1])
        self.assertEqual(compare.quantile(values, 0), values[0])
        self.assertEqual(compare.quantile(values, 1), values[-1])

    def test_a_figure_that_a_group_has_not_measured_has_no_spread(self) -> None:
        self.assertIsNone(compare.spread([1.0, None, 3.0]))

    def test_verdicts(self) -> None:
        groups = Spread(mean=350, low95=320, high95=380, low99=300, high99=400)
        for value, published, expected in (
            (369.0, 369, "equal"),
            (368.6, 369, "equal"),
            (340.0, 369, "inside 95%"),
            (340.0, 390, "inside 99%"),
            (340.0, 401, "differs"),
        ):
            with self.subTest(published=published):
                FIGURES["test"] = {"kind": "sampled", "value": published}
                self.addCleanup(FIGURES.pop, "test", None)
                self.assertEqual(compare.verdict("test", value, groups), expected)
        self.assertEqual(compare.verdict(EXACT, 41, groups), "differs")
        self.assertEqual(compare.verdict(SIZE, 154.0, groups), "within 2%")
        self.assertEqual(compare.verdict(SIZE, 170.0, groups), "differs")
        self.assertEqual(compare.verdict(SAMPLED, None, None), "differs")

    def test_a_published_figure_stands_for_all_that_rounds_to_it(self) -> None:
        groups = Spread(mean=15.7, low95=15.6, high95=15.78, low99=15.5, high99=15.79)
        self.assertEqual(compare.verdict("sim.staleness.hour1.stale_percent", 15.7, groups), "inside 95%")


class Together(unittest.TestCase):
    def vectors(self, count: int) -> List[List[float]]:
        draw = random.Random(2)
        rows = []
        for _ in range(count):
            a, b = draw.gauss(0, 1), draw.gauss(0, 1)
            rows.append([a, a + b, 3 * b])
        return rows

    def test_the_distance_is_mahalanobis(self) -> None:
        rows = self.vectors(500)
        columns = list(zip(*rows))[:2]
        mean = [math.fsum(column) / 500 for column in columns]
        matrix = compare.covariance([row[:2] for row in rows], mean)
        (a, b), (_, c) = matrix
        used, factor = compare.cholesky(matrix)
        x, y = 1.5, -0.5
        by_hand = (c * x * x - 2 * b * x * y + a * y * y) / (a * c - b * b)
        self.assertEqual(used, [0, 1])
        self.assertAlmostEqual(compare.distance_squared(factor, [x, y]), by_hand)

    def test_a_figure_that_follows_from_the_others_is_left_out(self) -> None:
        rows = self.vectors(50)
        mean = [math.fsum(column) / 50 for column in zip(*rows)]
        used, _ = compare.cholesky(compare.covariance(rows, mean))
        self.assertEqual(used, [0, 1])  # the third is three times the second less the first

    def groups(self, shift: float) -> List[Dict[str, Optional[float]]]:
        names = [f"sim.staleness.hour{hour}.stale" for hour in (1, 2, 4, 6, 8)]
        draw = random.Random(3)
        return [{name: PUBLISHED[name] + shift + draw.gauss(0, 5) for name in names} for _ in range(200)]

    def p_value(self, groups: Sequence[Dict[str, Optional[float]]]) -> float:
        return float(compare.overall(groups)[0].rsplit("p = ", 1)[1])

    def test_groups_around_the_published_figures_do_not_differ_from_them(self) -> None:
        self.assertGreater(self.p_value(self.groups(0)), 0.5)

    def test_groups_far_from_the_published_figures_do(self) -> None:
        self.assertLess(self.p_value(self.groups(15)), 0.01)

    def test_leaving_a_group_out_by_formula_is_leaving_it_out(self) -> None:
        rows = [row[:2] for row in self.vectors(40)]
        count = len(rows)
        mean = [math.fsum(column) / count for column in zip(*rows)]
        _, factor = compare.cholesky(compare.covariance(rows, mean))
        squared = compare.distance_squared(factor, [value - middle for value, middle in zip(rows[7], mean)])
        others = rows[:7] + rows[8:]
        mean_others = [math.fsum(column) / (count - 1) for column in zip(*others)]
        _, without = compare.cholesky(compare.covariance(others, mean_others))
        really = compare.distance_squared(without, [value - middle for value, middle in zip(rows[7], mean_others)])
        self.assertAlmostEqual(compare.left_out(squared, count), really)

    def test_a_group_that_alone_varies_in_a_figure_is_infinitely_far(self) -> None:
        groups = [{**group, "sim.edits.20s.no_longer_published": 0.0} for group in self.groups(0)]
        groups[5]["sim.edits.20s.no_longer_published"] = 1.0
        self.assertGreater(self.p_value(groups), 0.5)

    def test_too_few_groups_say_so(self) -> None:
        self.assertIn("too few groups", compare.overall(self.groups(0)[:10])[0])


if __name__ == "__main__":
    unittest.main()
