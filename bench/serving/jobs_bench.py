"""What it costs to know which pods of which Jobs are done.

``python -m bench.serving.jobs_bench --jobs 100000`` reads synthetic Jobs of 2.3 KB as the cache
reads a list, page by page, and prints what was read, how long that took and what is kept: first of
Jobs that have ended, then of as many of which a part is done, then of all with
``groups.startsWhole: {indexed-job: true}``. No server is asked: what the API server and the network
need for as many bytes comes on top.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import time
from typing import Any

from bench.serving.cache_bench import MIB, resident
from bench.serving.cache_server import encode
from extender.cache import followed_resources
from extender.cache.reader import ResourceReader
from extender.cache.stats import CacheStats, WatchStats
from extender.cache.store import Store
from extender.model.objects import GroupObject
from extender.model.owner_kinds import JOB, PARTLY_DONE

PAGE = 500
ENDED = {"succeeded": 2, "conditions": [{"type": "Complete", "status": "True"}]}
PARTLY = {"succeeded": 1, "active": 1, "completedIndexes": "0"}
RUNS = (
    ("ended", PARTLY_DONE, ENDED),
    ("partly done", PARTLY_DONE, PARTLY),
    ("ended, all kept", JOB, ENDED),
)


def job(index: int, status: dict[str, Any]) -> dict[str, Any]:
    """Return one Job of two pods, about 2.3 KB as JSON."""
    env = [{"name": f"VARIABLE_{i}", "value": "a value of some length"} for i in range(20)]
    container = {"name": "main", "image": "registry.example/team/train:v1", "env": env}
    fields = {"manager": "kube-controller-manager", "fieldsV1": {"f:status": {"f:active": {}}}}
    return {
        "metadata": {
            "name": f"train-{index}",
            "namespace": f"team-{index % 50}",
            "uid": f"{index:08x}-0000-4000-8000-{index:012x}",
            "resourceVersion": str(1000 + index),
            "managedFields": [fields] * 3,
        },
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "completionMode": "Indexed",
            "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
        },
        "status": status,
    }


def measure(what: str, source: str, status: dict[str, Any], jobs: int) -> None:
    """Read and keep so many, and print what that took."""
    resource = followed_resources.groups(source, "/apis/batch/v1/jobs", all_jobs=source == JOB)
    reader = ResourceReader(resource, WatchStats(resource.name, resource.path, down_since=0.0))
    store = Store(lambda pod: None, time.time, CacheStats())
    gc.collect()
    before, size, seconds = resident(), 0, 0.0
    records: dict[str, GroupObject] = {}
    for start in range(0, jobs, PAGE):
        items = [job(i, status) for i in range(start, min(jobs, start + PAGE))]
        page = encode({"metadata": {"resourceVersion": "1"}, "items": items})
        size += len(page)
        began = time.perf_counter()
        reader.page(page, records)
        seconds += time.perf_counter() - began
    for row in records.values():
        store.groups[source].put(row)
    kept = len(records)
    records.clear()
    gc.collect()
    print(
        f"{jobs} Jobs {what}: {size / MIB:.0f} MiB read in {seconds:.2f} s, "
        f"{kept} kept in {resident() - before:.0f} MiB"
    )


def main() -> None:
    """Run and print, each in a process of its own; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=100_000)
    options = parser.parse_args()
    for run in RUNS:
        process = multiprocessing.Process(target=measure, args=(*run, options.jobs))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
