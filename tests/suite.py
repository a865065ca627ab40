"""All tests as two pytest processes at once, of about the same length.

`python -m tests.suite`. All that starts a cluster is in one of them: it mostly waits, so there is more beside it. Each
cluster stays in the process that started it, its tests in their order.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence

PARTS = ("benchmarks", "cli", "draft_files", "integration", "services", "transports")
FOLDERS = tuple(f"tests/{name}" for name in PARTS)
CLUSTERS = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *FOLDERS]  # the others' process keeps the cache
OTHERS = [sys.executable, "-m", "pytest", "tests", *(f"--ignore={folder}" for folder in FOLDERS)]
STOPPING = (signal.SIGINT, signal.SIGTERM)


def run_at_once(shown: Sequence[str], kept: Sequence[str]) -> int:
    """Runs both, shows what the second printed when both have ended; the first exit status that is not 0, else 0.

    Ctrl-C and SIGTERM reach each of them as one SIGINT, after which they clean up and are waited for.
    """
    running: list[subprocess.Popen[bytes]] = []

    def stop(*_: object) -> None:
        for process in running:
            process.send_signal(signal.SIGINT)

    previous = [signal.signal(number, stop) for number in STOPPING]
    with tempfile.TemporaryFile() as output:
        # Groups of their own: a terminal's Ctrl-C would come a second time, into their cleaning up.
        for command, to in ((kept, output), (shown, None)):
            running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=to, stderr=to, process_group=0))
        codes = [process.wait() for process in reversed(running)]
        output.seek(0)
        sys.stdout.write(output.read().decode(errors="replace"))
    for number, handler in zip(STOPPING, previous, strict=True):
        signal.signal(number, handler)
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.stdout.write("Two processes at once; what the one prints that starts clusters comes last.\n")
    sys.stdout.flush()
    sys.exit(run_at_once(OTHERS, CLUSTERS))
