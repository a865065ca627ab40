"""All tests as two pytest processes at once: those that start a cluster mostly wait, and the others compute.

`python -m tests.suite`. Each cluster stays in the one process that started it, its tests in their order.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence

CLUSTERS = [sys.executable, "-m", "pytest", "-m", "ray", "-p", "no:cacheprovider"]  # the others' process keeps it
OTHERS = [sys.executable, "-m", "pytest", "-m", "not ray"]
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
    sys.stdout.write("Tests that start a cluster run beside the others; what they print comes last.\n")
    sys.stdout.flush()
    sys.exit(run_at_once(OTHERS, CLUSTERS))
