"""A PodGroup object of Koordinator that lists itself among others: they start together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.groups.test_parts_beside_groups import DUMPS, Obj, answer, waiting


@pytest.mark.parametrize(
    "listed", ['["team/ps","team/wk"]', '["team/wk"]', '["team/ps"]', "ps,wk", None]
)
def test_a_koordinator_podgroup_in_a_gang_group_is_not_planned(
    listed: str | None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The gangs of the list start together or not at all, and that is kept of annotations alone."""
    dump = json.loads((DUMPS / "parts-koordinator-gang-group.json").read_text())
    key = "gang.scheduling.koordinator.sh/"
    for each in waiting(dump):
        gang = each["metadata"]["annotations"].pop(f"{key}name")
        each["metadata"]["annotations"] = {}
        each["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"] = gang
    for name, least in (("ps", 1), ("wk", 2)):
        meta: Obj = {"name": name, "namespace": "team", "uid": f"pg-{name}"}
        if listed is not None:
            meta["annotations"] = {f"{key}groups": listed}
        one = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
        dump["items"].append({**one, "metadata": meta, "spec": {"minMember": least}})
    found = answer(dump, "koordinator-pod-group:team/wk", capsys, tmp_path)
    if listed is None or "ps" not in listed or "wk" not in listed or "[" not in listed:
        assert found["plan"]["victims"]
    else:
        assert found["refusal"]["code"] == "conflict"
        assert "groups" in found["refusal"]["message"]
