r"""Tables written once and shown three ways: LaTeX for a document that uses booktabs, HTML, and plain text.

>>> table = Table("lr", ["Model", "MAE"], [[["GP", "0.5 ± 0.1"], [under("in the paper"), bold("0.4")]]])
>>> print(table)
Model                 MAE
-------------------------
GP              0.5 ± 0.1
  in the paper      *0.4*
>>> "\\quad in the paper & \\textbf{0.4}" in table.latex()
True
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

_COMMANDS = {
    "pm": "±",
    "times": "×",
    "leftarrow": "←",
    "rightarrow": "→",
    "leq": "≤",
    "geq": "≥",
    "nabla": "∇",
    "surd": "√",
    "mapsto": "↦",
    "beta": "β",
    **dict(zip(("tau", "epsilon", "rho", "mu", "sigma", "lambda", "Gamma", "Delta"), "τερμσλΓΔ")),
}
_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%_#${}"},
    **{sign: f"$\\{command}$" for command, sign in _COMMANDS.items()},
    **{sign: f"${sign}$" for sign in "<>|"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    "²": "$^2$",
    "³": "$^3$",
}


@dataclass(frozen=True)
class Cell:
    """Text with what stands around it, in each of the three."""

    text: str
    in_latex: tuple[str, str] = ("", "")
    in_html: tuple[str, str] = ("", "")
    in_text: tuple[str, str] = ("", "")

    def latex(self) -> str:
        return "".join(_LATEX.get(sign, sign) for sign in self.text).join(self.in_latex)

    def html(self) -> str:
        return escape(self.text).join(self.in_html)

    def __str__(self) -> str:
        return self.text.join(self.in_text)


def bold(text: str) -> Cell:
    return Cell(text, (r"\textbf{", "}"), ("<b>", "</b>"), ("*", "*"))


def italic(text: str) -> Cell:
    return Cell(text, (r"\textit{", "}"), ("<i>", "</i>"))


def dagger(text: str) -> Cell:
    return Cell(text, ("", r"$^\dagger$"), ("", "<sup>†</sup>"), ("", "†"))


def under(text: str) -> Cell:
    """Set in, as belonging to the row above."""
    return Cell(text, (r"\quad ", ""), ('<span class="under">', "</span>"), ("  ", ""))


@dataclass(frozen=True)
class Table:
    """Rows in blocks with a line between them; ``columns`` as LaTeX writes it: l, c or r for each."""

    columns: str
    head: list[str | Cell]
    blocks: list[list[list[str | Cell]]]
    note: str = ""
    below: Table | None = None

    def latex(self) -> str:
        note = "".join(f"% {line}\n" for line in self.note.splitlines())
        body = "\\midrule\n".join("".join(_latex_row(row) for row in rows) for rows in self.blocks)
        top = f"\\begin{{tabular}}{{{self.columns}}}\n\\toprule\n{_latex_row(self.head)}\\midrule\n"
        text = f"{note}{top}{body}\\bottomrule\n\\end{{tabular}}\n"
        return text + ("\n" + self.below.latex() if self.below else "")

    def html(self) -> str:
        """Tables in boxes that scroll, notes beneath; classes l, c, r align a column."""
        head = self._html_row(self.head, "col")
        body = "".join(f"<tbody>{''.join(self._html_row(row, 'row') for row in rows)}</tbody>" for rows in self.blocks)
        note = "".join(f'<p class="note">{escape(line)}</p>' for line in self.note.splitlines())
        table = (
            f'<div class="scroll" tabindex="0"><table class="result"><thead>{head}</thead>{body}</table></div>{note}'
        )
        return table + (self.below.html() if self.below else "")

    def _html_row(self, row: list[str | Cell], scope: str) -> str:
        cells = []
        for number, (side, cell) in enumerate(zip(self.columns, map(_cell, row))):
            named = cell.text and (scope == "col" or number == 0)
            tag, attribute = ("th", f' scope="{scope}"') if named else ("td", "")
            cells.append(f'<{tag} class="{side}"{attribute}>{cell.html()}</{tag}>')
        return f"<tr>{''.join(cells)}</tr>"

    def __str__(self) -> str:
        blocks = [[[str(cell) for cell in row] for row in rows] for rows in [[self.head], *self.blocks]]
        widths = [max(map(len, column)) for column in zip(*(row for rows in blocks for row in rows))]
        rule = "\n" + "-" * (sum(widths) + 2 * len(widths) - 2) + "\n"
        text = rule.join("\n".join(_text_row(row, self.columns, widths) for row in rows) for rows in blocks)
        parts = [text, self.note.strip(), str(self.below) if self.below else ""]
        return "\n\n".join(part for part in parts if part)

    def _repr_html_(self) -> str:
        return self.html()


def _cell(content: str | Cell) -> Cell:
    return content if isinstance(content, Cell) else Cell(content)


def _latex_row(row: list[str | Cell]) -> str:
    return " & ".join(_cell(content).latex() for content in row) + " \\\\\n"


def _text_row(row: list[str], columns: str, widths: list[int]) -> str:
    sides = {"l": "<", "c": "^", "r": ">"}
    return "  ".join(f"{cell:{sides[side]}{width}}" for cell, side, width in zip(row, columns, widths)).rstrip()
