"""Build the servers that tests run against, once: `python -m tests.servers [kafka] [ollama]`."""

import sys
import time

from tests.servers import kafka, ollama

SERVERS = {"kafka": kafka, "ollama": ollama}


def main(names: list[str]) -> int:
    """Return 0 when every server that was named, or all, is built."""
    if unknown := [name for name in names if name not in SERVERS]:
        print(f"{unknown[0]} is no server; there are {', '.join(SERVERS)}", file=sys.stderr)
        return 2
    failed = 0
    for name in names or SERVERS:
        server = SERVERS[name]
        why = None if server.RECIPE.ready else server.missing()
        if why is not None:
            print(f"{name}: {why}", file=sys.stderr)
            failed = 1
            continue
        began = time.monotonic()
        folder = server.RECIPE.made(lambda step: print(step, flush=True))
        print(f"{name}: ready in {time.monotonic() - began:.0f} s, {folder}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
