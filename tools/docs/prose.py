"""Plain English: sentences of 25 words at most, and no phrasing that speaks of things as people.

``python -m tools.docs.prose`` prints what is wrong with the pages in PLAIN; ``./run lint`` runs it.
A page that is rewritten is added there. vale would need a program of its own on every machine, and
proselint looks at neither of the two rules.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 25
"""Words of a sentence."""
PLAIN = (
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "bench/README.md",
    "charts/podgroup-extender/README.md",
    "docs/actuation.md",
    "docs/architecture.md",
    "docs/barrier.md",
    "docs/benchmarks/README.md",
    "docs/benchmarks/extender.md",
    "docs/benchmarks/search.md",
    "docs/benchmarks/throughput.md",
    "docs/checked.md",
    "docs/choices.md",
    "docs/cli.md",
    "docs/concepts.md",
    "docs/console.md",
    "docs/dependencies.md",
    "docs/fairness.md",
    "docs/grpc.md",
    "docs/install.md",
    "docs/measurements.md",
    "docs/migrate.md",
    "docs/mutation.md",
    "docs/nominations.md",
    "docs/observe.md",
    "docs/operations.md",
    "docs/plugin.md",
    "docs/preempted.md",
    "docs/reference/cli.md",
    "docs/reference/configuration.md",
    "docs/reference/debug.md",
    "docs/reference/grpc.md",
    "docs/reference/metrics.md",
    "docs/releasing.md",
    "docs/reliability.md",
    "docs/reservations.md",
    "docs/runbooks.md",
    "docs/runbooks/PodgroupExtenderCallersRefused.md",
    "docs/runbooks/PodgroupExtenderCertificateEnds.md",
    "docs/runbooks/PodgroupExtenderEvictionsRefused.md",
    "docs/runbooks/PodgroupExtenderGangBoundInPart.md",
    "docs/runbooks/PodgroupExtenderGangBroken.md",
    "docs/runbooks/PodgroupExtenderGangsSuspended.md",
    "docs/runbooks/PodgroupExtenderNoLeader.md",
    "docs/runbooks/PodgroupExtenderObserverAway.md",
    "docs/runbooks/PodgroupExtenderRecordsAside.md",
    "docs/runbooks/PodgroupExtenderSearchNotCompiled.md",
    "docs/runbooks/PodgroupExtenderSeatsNotTaken.md",
    "docs/runbooks/PodgroupExtenderTwoLeaders.md",
    "docs/runbooks/PodgroupExtenderVerbErrors.md",
    "docs/runbooks/PodgroupExtenderVerbsSlow.md",
    "docs/runbooks/PodgroupExtenderWatchDown.md",
    "docs/runbooks/PodgroupExtenderWritesWait.md",
    "docs/search-core.md",
    "docs/search-solvers.md",
    "docs/search.md",
    "docs/security.md",
    "docs/systems/README.md",
    "docs/systems/composite-pod-group.md",
    "docs/systems/custom.md",
    "docs/systems/job.md",
    "docs/systems/jobset.md",
    "docs/systems/kai.md",
    "docs/systems/koordinator.md",
    "docs/systems/kueue.md",
    "docs/systems/leader-worker-set.md",
    "docs/systems/owners.md",
    "docs/systems/pod-group.md",
    "docs/systems/ray-cluster.md",
    "docs/systems/scheduling-plugins.md",
    "docs/systems/single-pods.md",
    "docs/systems/skypilot.md",
    "docs/systems/spark.md",
    "docs/systems/training-operator.md",
    "docs/systems/volcano.md",
    "docs/systems/yunikorn.md",
    "docs/tenants.md",
    "docs/verifier.md",
    "docs/trials.md",
    "docs/verifier.md",
    "docs/walkthrough.md",
    "proto/README.md",
    "tests/controlplane/README.md",
)
"""Pages that are held to it."""
BANNED = {
    r"\bwho(ever)? goes\b": "say which pods are evicted",
    r"\bnobody\b": "say which pod, gang or caller is meant",
    r"\bwhoever\b": "say which pod, gang or caller is meant",
    r"\b(is|are|was|were) let go of\b": "say that it is left alone, or no longer evicted",
    r"\b(is|are|was|were) told of\b": "say where it is shown",
    r"\bby (our|its|whose) hand\b": "say who evicted it",
    r"\bneed(s)? not go\b": "say that it is not evicted",
    r"\b(is|are|was|were) made anew\b": "is created again",
    r"\bin flight\b": "being carried out, open or on its way",
    r"\bturns? of the planner\b": "scheduling cycle",
    r"\bhas its own life\b": "process",
    r"\blife before\b": "an earlier process",
    r"\b(has|have|had|is|are) gone in part\b": "was evicted in part",
    r"\bwaits? anew\b": "is pending again",
    r"\bon (his|their) way out\b": "terminating",
}
"""Pattern -> what to write instead."""
BLOCK = re.compile(r"```.*?```|~~~.*?~~~|<!--.*?-->", re.DOTALL)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
CODE = re.compile(r"`[^`]*`")
MARKER = re.compile(r"^(?:[-*>]|\d+\.|#+) ")
END = re.compile(r"(?<=[.:;!?])[)\"']?\s+|\n\n+|\n(?=\s*(?:[-*] |\d+\. |#|\|))")


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page. A cell of a table is one; code within a line is a word."""
    text = BLOCK.sub("\n\n", text)
    text = CODE.sub("CODE", LINK.sub(r"\1", text))
    for part in END.split(text):
        for cell in part.split("|"):
            if sentence := MARKER.sub("", " ".join(cell.split())):
                yield sentence


def problems(page: str, text: str) -> Iterator[str]:
    """Yield what is wrong with a page, in words."""
    for sentence in sentences(text):
        words = len(sentence.split())
        if words > LONGEST:
            yield f"{page}: {words} words, {LONGEST} at most: {sentence}"
        for pattern, instead in BANNED.items():
            if found := re.search(pattern, sentence, re.IGNORECASE):
                yield f'{page}: "{found[0]}": {instead}: {sentence}'


def main() -> int:
    """Exit status 1 when a page of PLAIN is not plain."""
    wrong = [each for page in PLAIN for each in problems(page, (ROOT / page).read_text())]
    print("\n".join(wrong) or f"prose: {len(PLAIN)} pages, no sentence above {LONGEST} words")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
