"""The pictures: well-formed, the same at each drawing, complete, and true to the figures they show."""

from __future__ import annotations

import os
import unittest
import xml.etree.ElementTree as ElementTree

import charts
from compare import PUBLISHED, RESULTS

DRAWN = {
    "staleness.svg": (charts.staleness, "spread-sim.json", "spread"),
    "late-edits.svg": (charts.late_edits, "spread-sim.json", "spread"),
    "cost.svg": (charts.cost, "spread-sim.json", "spread"),
    "triage.svg": (charts.triage, "triage.json", "figures"),
}


class Pictures(unittest.TestCase):
    def test_each_is_what_the_committed_figures_draw(self) -> None:
        for name, (draw, source, part) in DRAWN.items():
            with self.subTest(name=name), open(os.path.join(RESULTS, name), encoding="utf-8") as file:
                self.assertEqual(file.read(), draw(charts.read(source)[part]))

    def test_nothing_reaches_over_the_edge(self) -> None:
        for name in DRAWN:
            tree = ElementTree.parse(os.path.join(RESULTS, name))
            for element in tree.iter():
                xs = [float(element.get(at, 0)) for at in ("x", "x1", "x2", "cx")]
                ys = [float(element.get(at, 0)) for at in ("y", "y1", "y2", "cy")]
                for point in (element.get("points") or "").split():
                    x, y = map(float, point.split(","))
                    xs.append(x)
                    ys.append(y)
                with self.subTest(name=name, element=element.attrib):
                    self.assertTrue(0 <= min(xs) and max(xs) <= charts.WIDTH)
                    self.assertTrue(0 <= min(ys) and max(ys) <= charts.HEIGHT)

    def test_axes_have_titles_and_colours_follow_light_and_dark(self) -> None:
        for name in DRAWN:
            text = self.text(name)
            with self.subTest(name=name):
                self.assertIn("prefers-color-scheme: dark", text)
                self.assertIn("rotate(-90)", text)

    def test_each_published_staleness_has_its_ring(self) -> None:
        rings = self.text("staleness.svg").count('ring" cx')
        published = sum(i.startswith("sim.staleness.hour") and i.endswith("stale_percent") for i in PUBLISHED)
        self.assertEqual(rings, published)

    def text(self, name: str) -> str:
        with open(os.path.join(RESULTS, name), encoding="utf-8") as file:
            return file.read()


if __name__ == "__main__":
    unittest.main()
