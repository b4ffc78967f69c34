"""`sluice serve` of another release: python -m tests.faults.newer_server FOLDER, FOLDER being that one's checkout."""

import os
import sys

if __name__ == "__main__":
    os.chdir(sys.argv[1])
    # The folder goes first, before the checkout that the environment knows.
    os.environ["PYTHONPATH"] = sys.argv[1]
    os.execv(sys.executable, [sys.executable, "-m", "services.operator_cli", "serve"])
