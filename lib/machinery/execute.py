"""Execute one notebook with papermill, in a process of its own: python -m machinery.execute IN OUT PARAMETERS.

Exit code 0, or 1 with one line of JSON on standard output: the error and where it happened.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time

from machinery.imports import without_address_grammars


def main(source: str, target: str, parameters: str) -> int:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    without_address_grammars()
    import papermill

    try:
        papermill.execute_notebook(
            source,
            target,
            json.loads(parameters),
            kernel_name="python3",
            language="python",
            cwd=os.path.dirname(source),
        )
    except papermill.PapermillExecutionError as error:
        _tell(f"{_one_line(error.ename, error.evalue)} (at In [{error.exec_count}] of the executed notebook)")
        return 1
    except OSError as error:
        _tell(f"cannot execute the notebook into {target}: {error.strerror or error}")
        return 1
    except Exception as error:  # the kernel died, the notebook is no notebook
        _tell(_one_line(type(error).__name__, str(error)))
        return 1
    return 0


def _end_with_parent() -> None:
    """A run that is killed must not leave its notebooks running."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _one_line(name: str, message: str) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m", "", " ".join(message.split()))
    return text if name == "UserError" else f"{name}: {text}"


def _tell(error: str) -> None:
    print(json.dumps({"error": error}), flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
