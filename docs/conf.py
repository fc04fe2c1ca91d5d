"""The pages of this repository as a static site: .venv/bin/sphinx-build -W -c docs . build/site"""

import shutil
from pathlib import Path

import latex2mathml.converter
from docutils.nodes import Node, SkipNode

project = "Variational autoencoding of PDE inverse problems"
author = "the pdevae authors"
html_title = "pdevae"
extensions = ["myst_parser", "sphinx.ext.githubpages"]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/notebooks/*.md", "figures/*.md", "benchmarks/*.md"]
include_patterns += ["data/README.md", "data/jura/README.md"]
html_theme = "furo"
html_math_renderer = "mathml"  # a page needs nothing from the network
html_static_path: list[str] = []
html_show_sphinx = False
suppress_warnings = ["myst.header"]  # notebooks may begin a part below its level

_CONTENTS = """

```{toctree}
:hidden:
:caption: Guides

docs/your-problem
docs/penalties
docs/other-frameworks
docs/running
docs/clusters
```

```{toctree}
:hidden:
:caption: Results

docs/results
docs/differences
docs/notebooks/README
figures/claims
figures/README
benchmarks/README
data/README
data/jura/README
CONTRIBUTING
CHANGELOG
```
"""


def _with_contents(app, name: str, source: list[str]) -> None:
    if name == root_doc:
        source[0] += _CONTENTS
    if name == "docs/notebooks/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n[0-9]*\n```\n"


def _with_index(app, error) -> None:
    if not error:
        shutil.copy(Path(app.outdir) / "README.html", Path(app.outdir) / "index.html")


def _inline(self, node: Node) -> None:
    self.body.append(latex2mathml.converter.convert(node.astext()))
    raise SkipNode


def _block(self, node: Node) -> None:
    self.body.append(latex2mathml.converter.convert(node.astext(), display="block"))
    raise SkipNode


def setup(app) -> None:
    app.connect("source-read", _with_contents)
    app.connect("build-finished", _with_index)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
