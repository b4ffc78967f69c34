"""Renders deploy/k8s/chart into the plain manifests beside it: `make manifests`, with Helm by Go, or HELM=helm.

Each begins with the digest of the chart that it was made from, so a test needs no Helm to see that one is old.
"""

import hashlib
import shlex
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "k8s"
CHART = FOLDER / "chart"
HELM = "go run helm.sh/helm/v3/cmd/helm@v3.22.0"
FILES = {
    "sluice.yaml": [],
    "keda.yaml": ["--set", "keda.enabled=true", "--show-only", "templates/scaler.yaml"],
}


def first_line() -> str:
    """Return the line with which a manifest of the chart, as it is now, begins."""
    digest = hashlib.sha256()
    for path in sorted(path for path in CHART.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(CHART)}\n".encode() + path.read_bytes())
    return f"# Rendered from chart by `make manifests`; its digest: {digest.hexdigest()}"


def main(helm: str = HELM) -> None:
    """Write the manifests."""
    for name, options in FILES.items():
        command = [*shlex.split(helm), "template", "sluice", str(CHART), *options]
        made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        (FOLDER / name).write_text(f"{first_line()}\n{made}", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
