"""Tables for a document that uses booktabs."""

from __future__ import annotations


def plain(text: str) -> str:
    return text.replace("&", r"\&").replace("%", r"\%").replace("_", r"\_")


def tabular(columns: str, head: list[str], blocks: list[list[list[str]]]) -> str:
    body = "\\midrule\n".join("".join(" & ".join(row) + " \\\\\n" for row in rows) for rows in blocks)
    for sign, latex in {"±": r"$\pm$", "←": r"$\leftarrow$", "−": "$-$"}.items():
        body = body.replace(sign, latex)
    top = " & ".join(head) + " \\\\\n"
    return f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{top}\\midrule\n{body}\\bottomrule\n\\end{{tabular}}\n"
