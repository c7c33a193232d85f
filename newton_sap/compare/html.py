"""A comparison as one HTML page that needs nothing else: styles and images are inside."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from typing import TYPE_CHECKING

from .report import THEORY_LEGEND, applicable, cells, parameter_cells, prediction_cells, provenance, summary
from .theory import SUBJECTS, Subject

if TYPE_CHECKING:
    from .plots import Plot
    from .session import Comparison

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2126; background: #fff; margin: 0 auto; max-width: 62rem;
       padding: 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 .4rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
p { margin: .4rem 0; max-width: 48rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { padding: .28rem .7rem; border-bottom: 1px solid #e3e6e8; text-align: right; vertical-align: top; }
thead th { border-bottom: 2px solid #1c2126; } tbody th { text-align: left; font-weight: 500; white-space: nowrap; }
table.text td, table.text th { text-align: left; } table.text td { min-width: 8rem; }
.bad { color: #b3261e; font-weight: 600; } .good { color: #1b6e3c; }
figure { margin: 1rem 0 1.6rem; } figure img { max-width: 100%; height: auto; }
figcaption { font-size: .87rem; color: #555d64; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; font-size: .9rem; }
dt { font-weight: 600; } dd { margin: 0; }
summary { cursor: pointer; font-weight: 500; margin: .6rem 0; }
footer { margin-top: 2rem; font-size: .8rem; color: #555d64; }
"""


def page(comparison: Comparison) -> str:
    """Return the whole report as one HTML document; needs matplotlib."""
    try:
        from .plots import draw
    except ModuleNotFoundError as error:
        message = "the report needs matplotlib: pip install 'newton-sap[plot]'; markdown() and to_dict() do without"
        raise ModuleNotFoundError(message, name=error.name) from error

    scene = comparison.scene.name
    title = f"{scene} under {', '.join(comparison.settings.solvers)}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(summary(comparison))}</p>",
        _section("metrics", "Metrics", _table(*cells(comparison))),
        _section("theory", "What theory predicts", _theory(comparison)),
        _section("plots", "Plots", "\n".join(map(_figure, draw(comparison)))),
        _section("parameters", "What each solver was given", _parameters(comparison)),
        _section("columns", "What is measured", _meanings(comparison)),
        f"<footer>{escape(provenance(comparison))}</footer>",
    ]
    body = "\n".join(part for part in parts if part)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def metrics_table(comparison: Comparison) -> str:
    """Return what was compared and the metrics, as a fragment for a notebook."""
    return f"<p>{escape(summary(comparison))}</p>\n{_table(*cells(comparison))}"


def _section(name: str, title: str, content: str) -> str:
    return f'<section id="{name}">\n<h2>{escape(title)}</h2>\n{content}\n</section>' if content else ""


def _table(head: list[str], rows: list[list[str]], kind: str = "numbers") -> str:
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = []
    for first, *rest in rows:
        columns = "".join(_cell(first, cell) for cell in rest)
        lines.append(f'<tr><th scope="row">{escape(first)}</th>{columns}</tr>')
    body = "\n".join(lines)
    return f'<div class="wide"><table class="{kind}">\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _cell(row: str, text: str) -> str:
    if row != "verdict":
        return f"<td>{escape(text)}</td>"
    return f'<td class="{"good" if text == "ok" else "bad"}">{escape(text)}</td>'


def _theory(comparison: Comparison) -> str:
    notes = SUBJECTS.get(comparison.scene.name, Subject()).notes
    text = "\n".join(f"<p>{escape(note)}</p>" for note in notes)
    head, rows = prediction_cells(comparison)
    return text + (f"\n{_table(head, rows)}\n<p>{escape(THEORY_LEGEND)}</p>" if rows else "")


def _figure(plot: Plot) -> str:
    data = b64encode(plot.png).decode("ascii")
    return (
        f'<figure><img alt="{escape(plot.title)}" src="data:image/png;base64,{data}">'
        f"<figcaption><b>{escape(plot.title)}.</b> {escape(plot.caption)}</figcaption></figure>"
    )


def _parameters(comparison: Comparison) -> str:
    head, rows = parameter_cells(comparison)
    if not rows:
        return ""
    given = [row for row in rows if not row[0].startswith("option ")]
    options = [[row[0].removeprefix("option "), *row[1:]] for row in rows if row[0].startswith("option ")]
    text = _table(head, given, "text")
    if options:
        text += f"\n<details><summary>All settings that the solvers tell</summary>\n{_table(head, options)}\n</details>"
    return text


def _meanings(comparison: Comparison) -> str:
    lines = "\n".join(f"<dt>{escape(m.title)}</dt><dd>{escape(m.meaning)}</dd>" for m in applicable(comparison))
    return f"<dl>\n{lines}\n</dl>" if lines else ""
