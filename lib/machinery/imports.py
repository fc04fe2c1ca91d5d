"""What makes nbformat, nbconvert and papermill slow to import, left out in the runner's own processes."""

import sys


def without_address_grammars() -> None:
    """Before any of the three is imported, else it comes too late.

    All import jsonschema, which compiles 38 grammars of internet addresses, for two seconds, where rfc3987_syntax is
    installed (JupyterLab brings it). No notebook's schema asks for such a check.
    """
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # as if it were not
