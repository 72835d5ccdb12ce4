"""The pictures in results/, drawn as SVG from the JSON files that `make results` and `make comparison` leave there.

Glossary
    plot     an area with two axes; `x` and `y` map values to pixels
    series   one colour, one entry in the legend: a line, a band, points or bars
    spread   the mean and the central 95% of many groups of five seeds, from results/spread-sim.json

Colours and text follow the reader's light or dark setting, by a style sheet inside each picture.
"""

from __future__ import annotations

import json
import os
from typing import Any, Callable, List, Mapping, Sequence, Tuple
from xml.sax.saxutils import escape

from compare import PUBLISHED, RESULTS
from sim_report import DELAYS
from support_day import HOUR, default_options, popularity_shares
from theory import refused_share
from triage import LEVELS

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 44, 116

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-size: 15px; font-weight: 600 }
.tick { font-size: 11px }
.grid { stroke: #d0d7de; stroke-width: 1 }
.s0 { --c: #0969da } .s1 { --c: #bc4c00 } .s2 { --c: #1a7f37 }
.line { fill: none; stroke: var(--c); stroke-width: 2 }
.dash { stroke-dasharray: 6 4 }
.band { fill: var(--c); opacity: 0.15 }
.dot { fill: var(--c) }
.ring { fill: none; stroke: var(--c); stroke-width: 2 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .grid { stroke: #30363d }
  .s0 { --c: #58a6ff } .s1 { --c: #f0883e } .s2 { --c: #3fb950 }
}
"""

Points = Sequence[Tuple[float, float]]


class Plot:
    """Collects SVG elements; `text()` is the whole picture."""

    def __init__(self, title: str, x_title: str, y_title: str, x_range: Tuple[float, float], y_top: float) -> None:
        self.x_range, self.y_top = x_range, y_top
        self.legend_at = [LEFT, HEIGHT - 52]
        self.parts = [
            f'<text class="title" x="{LEFT}" y="22">{escape(title)}</text>',
            f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 76}" text-anchor="middle">'
            f"{escape(x_title)}</text>",
            f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">'
            f"{escape(y_title)}</text>",
        ]

    def x(self, value: float) -> float:
        low, high = self.x_range
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.y_top * (HEIGHT - TOP - BOTTOM)

    def axes(self, x_ticks: Sequence[Tuple[float, str]], y_ticks: Sequence[float], y_unit: str) -> None:
        for value in y_ticks:
            y = self.y(value)
            self.parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            self.parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}{y_unit}</text>')
        for value, label in x_ticks:
            place = f'class="tick" x="{self.x(value):.1f}" y="{HEIGHT - BOTTOM + 18}"'
            self.parts.append(f'<text {place} text-anchor="middle">{escape(label)}</text>')

    def line(self, series: int, points: Points, kind: str = "line") -> None:
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.parts.append(f'<polyline class="s{series} {kind}" points="{path}"/>')

    def band(self, series: int, low: Points, high: Points) -> None:
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in [*low, *reversed(high)])
        self.parts.append(f'<polygon class="s{series} band" points="{path}"/>')

    def dots(self, series: int, points: Points, kind: str = "dot") -> None:
        for x, y in points:
            self.parts.append(f'<circle class="s{series} {kind}" cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="4"/>')

    def bar(self, series: int, left: float, width: float, value: float, label: str) -> None:
        x, y = self.x(left), self.y(value)
        size = f'width="{self.x(left + width) - x:.1f}" height="{self.y(0) - y:.1f}"'
        self.parts.append(f'<rect class="s{series} dot" x="{x:.1f}" y="{y:.1f}" {size}/>')
        middle = self.x(left + width / 2)
        self.parts.append(f'<text x="{middle:.1f}" y="{y - 5:.1f}" text-anchor="middle">{escape(label)}</text>')

    def legend(self, series: int, label: str, kind: str = "dot") -> None:
        x, y = self.legend_at
        if x + 34 + 7 * len(label) > WIDTH:
            x, y = LEFT, y + 20
        if "line" in kind:
            mark = f'<line class="s{series} {kind}" x1="{x}" x2="{x + 18}" y1="{y - 4}" y2="{y - 4}"/>'
        else:
            mark = f'<circle class="s{series} {kind}" cx="{x + 9}" cy="{y - 4}" r="5"/>'
        self.parts.append(f'{mark}<text x="{x + 24}" y="{y}">{escape(label)}</text>')
        self.legend_at = [x + 40 + 7 * len(label), y]

    def note(self, text: str) -> None:
        self.parts.append(f'<text x="{LEFT}" y="{HEIGHT - 10}">{escape(text)}</text>')

    def text(self) -> str:
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        return "\n".join([head, f"<style>{STYLE}</style>", *self.parts, "</svg>", ""])


# --- the four pictures ------------------------------------------------------------------------------------------------


def staleness(spreads: Mapping[str, Any]) -> str:
    hours = range(1, 9)
    plot = Plot("How fast citations go stale", "hour of the day", "share", (0.6, 8.4), 100)
    plot.axes([(hour, str(hour)) for hour in hours], range(0, 101, 20), "%")
    for series, (figure, label) in enumerate(
        (
            ("answers_stale_percent", "answers with a stale citation"),
            ("given_stale_percent", "stale of all citations given (ours)"),
            ("stale_percent", "stale as the post counts them"),
        )
    ):
        mean, low, high = bands(spreads, [f"sim.staleness.hour{hour}.{figure}" for hour in hours], hours)
        plot.band(series, low, high)
        plot.line(series, mean)
        published = [(h, PUBLISHED.get(f"sim.staleness.hour{h}.{figure}")) for h in hours]
        plot.dots(series, [(hour, value) for hour, value in published if value is not None], "ring")
        plot.legend(series, label)
    plot.note("Rings: published. Line and band: mean and central 95% of our groups of five seeds.")
    return plot.text()


def late_edits(spreads: Mapping[str, Any]) -> str:
    """Delays as they are, in hours; the curve is the theory of `theory.py`."""
    places = [delay / HOUR for _, _, delay in DELAYS]
    plot = Plot("Edits refused because the version changed", "hours after the read", "share of edits", (-0.1, 4.3), 70)
    plot.axes([(hour, f"{hour} h") for hour in range(5)], range(0, 71, 10), "%")
    day = default_options()
    popularity, rate = popularity_shares(day.articles, day.zipf), day.saves / day.hours
    curve = [(step / 20, 100 * refused_share(popularity, rate, step / 20)) for step in range(83)]
    plot.line(2, curve, "line dash")
    names = [f"sim.edits.{name}.version_conflicts_percent" for name, _, _ in DELAYS]
    mean, low, high = bands(spreads, names, places)
    for bottom, top in zip(low, high):
        plot.line(0, [bottom, top])
    plot.dots(0, mean)
    plot.dots(1, [(place, PUBLISHED[name]) for place, name in zip(places, names)], "ring")
    plot.legend(0, "ours: mean and central 95%")
    plot.legend(1, "published", "ring")
    plot.legend(2, "theory, if only people save", "line dash")
    return plot.text()


def cost(spreads: Mapping[str, Any]) -> str:
    hours = range(1, 9)
    plot = Plot(
        "What one check costs as the day goes on", "hour of the check", "KiB returned per check", (0.6, 8.4), 160
    )
    plot.axes([(hour, str(hour)) for hour in hours], range(0, 161, 40), "")
    for series, (way, label) in enumerate(
        (
            ("reread", "re-read each cited article"),
            ("title", "search each cited title again"),
            ("poll", "poll events from a cursor"),
        )
    ):
        mean, low, high = bands(spreads, [f"sim.cost.{way}.hour{hour}.kib_per_check" for hour in hours], hours)
        plot.band(series, low, high)
        plot.line(series, mean)
        plot.dots(series, mean)
        plot.legend(series, label)
    plot.note("Line and band: mean and central 95% of our groups. The post prints the day's mean.")
    return plot.text()


def triage(figures: Mapping[str, Any]) -> str:
    plot = Plot("Fields saved, by what a refusal says", "the refusal says", "share of 6,000 fields", (0, 4), 112)
    plot.axes([(place + 0.5, label) for place, (_, label) in enumerate(LEVELS.items())], range(0, 101, 20), "%")
    for series, (schema, label) in enumerate((("no_schema", "schema not read"), ("schema", "schema read"))):
        for place, level in enumerate(LEVELS):
            value = figures[f"triage.{schema}.{level}.fields_saved_percent"]
            plot.bar(series, place + 0.12 + 0.38 * series, 0.38, value, f"{value:.1f}%")
        plot.legend(series, label)
    return plot.text()


def bands(spreads: Mapping[str, Any], names: Sequence[str], places: Sequence[float]) -> Tuple[Points, Points, Points]:
    """(mean, low, high): the points of each, low and high enclosing the central 95%."""
    mean, low, high = ([(place, spreads[name][part]) for place, name in zip(places, names)] for part in range(3))
    return mean, low, high


def main() -> None:
    spreads = read("spread-sim.json")["spread"]
    pictures: List[Tuple[str, Callable[[Mapping[str, Any]], str], Mapping[str, Any]]] = [
        ("staleness.svg", staleness, spreads),
        ("late-edits.svg", late_edits, spreads),
        ("cost.svg", cost, spreads),
        ("triage.svg", triage, read("triage.json")["figures"]),
    ]
    for name, draw, data in pictures:
        with open(os.path.join(RESULTS, name), "w", encoding="utf-8", newline="\n") as file:
            file.write(draw(data))


def read(name: str) -> Any:
    with open(os.path.join(RESULTS, name), encoding="utf-8") as file:
        return json.load(file)


if __name__ == "__main__":
    main()
