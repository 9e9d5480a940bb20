"""Kill the leader again and again: ``python -m tests.replicas --kills 200 --kube 1.37``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.controlplane.cluster import Cluster
from tests.controlplane.harness import ControlPlane
from tests.replicas.bed import SHORT
from tests.replicas.kills import Kills, pair, quantiles, replaced


def main() -> None:
    """Run the rounds and print the figures; exit status 1 when there was a violation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument(
        "--replace",
        type=int,
        default=0,
        metavar="N",
        help="instead: end the leader N times by SIGTERM and N times by kill -9, default lease",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kube", default="1.37")
    parser.add_argument("--folder", type=Path, help="where logs go; default: a new one")
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="replicas-"))
    folder.mkdir(parents=True, exist_ok=True)
    with ControlPlane(args.kube, folder / "kube") as plane:
        cluster = Cluster(plane, plane.client("replicas"), "replicas")
        cluster.make_namespace()
        if args.replace:
            with pair(cluster, folder) as running:
                for kill, how in ((False, "SIGTERM"), (True, "kill -9")):
                    took = [replaced(running, kill=kill) for _ in range(args.replace)]
                    print(f"{how}, default lease, to first good verb: {quantiles(took)}")
            return
        with pair(cluster, folder, SHORT) as running:
            kills = Kills(running, args.seed)
            began = time.monotonic()
            for number in range(args.kills):
                kills.round(number)
                if (number + 1) % 20 == 0:
                    print(f"-- after {time.monotonic() - began:.0f} s", flush=True)
                    print(kills.told.table(), flush=True)
    print(kills.told.table())
    print(f"lease {SHORT}, Kubernetes {args.kube}, logs in {folder}")
    if kills.told.violations:
        sys.exit(1)


main()
