"""A decision is downloaded with what it was made on, and replays to the same answer."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from extender.app.debug_source import DebugView
from extender.app.main import main
from extender.cli.output import encoded
from tests.gang.rig import Rig


async def test_a_past_decision_replays_to_the_same_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Rig() as rig:
        await rig.nodes(3)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        await rig.pod("aside", cpu="1", on="n2")
        await rig.gang("high", 2, "high")
        # n2 has room by our rules, and kube-scheduler does not offer it.
        await rig.filter("high-0", "n1")
        await rig.until_names("aside", "high-0", "high-1")
        made = next(d for d in rig.coordinator.decisions if d.outcome == "plan")
        view = DebugView(rig.cache, list, lambda: rig.coordinator, rig.settings)
        assert view.snapshot(made.generation + 1000) is None
        document = view.snapshot(made.generation)
        assert document is not None
        path = tmp_path / "decision.json"
        path.write_bytes(msgspec.json.encode(document))
    capsys.readouterr()
    assert main(["plan", str(path), "--gang", "high", "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)["plan"]
    assert replayed["victims"] == json.loads(encoded(made.victims, "json"))
    assert replayed["seats"] == json.loads(msgspec.json.encode(made.seats))
    assert {victim["name"] for victim in replayed["victims"]} == {"low-0", "low-1"}
    assert "n2" not in {seat["node"] for seat in replayed["seats"]}
