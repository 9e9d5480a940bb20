"""``podgroup-extender sandbox``: play one scenario from nothing to its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TextIO

from extender.kube.client import KubeClient
from extender.model.errors import InvalidInput
from extender.sandbox.narrator import Narrator
from extender.sandbox.process import ExtenderBroke, ExtenderProcess, write_kubeconfig
from extender.sandbox.runner import PlayOutcome, Runner, StepFailed
from extender.sandbox.scenario import Scenario, scaled
from extender.sandbox.scenario_file import configured, load, packaged
from extender.sandbox.world import World
from extender.settings.settings import Settings

DEFAULT = "jobset"


class SandboxHooks(ExtenderProcess):
    """The extender's process in a sandbox world: both are looked after."""

    def __init__(self, world: World, folder: Path, settings: Settings) -> None:
        kubeconfig = folder / "sandbox.kubeconfig"
        write_kubeconfig(kubeconfig, world.server.url)
        super().__init__(folder, kubeconfig, settings)
        self._world = world
        self.api_url = world.server.url

    def check(self) -> None:
        """Raise when the extender or a part of the sandbox has broken down."""
        self._world.check()
        super().check()


def scenario_titles() -> dict[str, str]:
    """Return the packaged scenarios: the name that ``sandbox`` takes -> the title it tells."""
    return {name: load(path).name for name, path in packaged().items()}


def find(scenario: str | Path | None) -> Scenario:
    """Return a scenario by file or by the name of a packaged one; InvalidInput names those."""
    known = packaged()
    if scenario is None:
        return load(known[DEFAULT])
    path = Path(scenario)
    if str(scenario) in known and not path.exists():
        return load(known[str(scenario)])
    if not path.exists():
        raise InvalidInput(f"{scenario}: no such file or scenario (known: {', '.join(known)})")
    return load(path)


@contextlib.asynccontextmanager
async def sandbox(minor: str, settings: Settings, folder: Path) -> AsyncIterator[SandboxHooks]:
    """A world with the real extender in it, ready to play."""
    async with World(minor) as world:
        hooks = SandboxHooks(world, folder, settings)
        try:
            await hooks.start()
            world.start_scheduler(hooks.url)
            yield hooks
        finally:
            await hooks.close()


async def run_sandbox(
    scenario: Path | str | None,
    settings: Settings,
    *,
    keep: bool = False,
    minor: str = "1.37",
    time_scale: float = 1.0,
    folder: Path | None = None,
    out: TextIO | None = None,
) -> int:
    """Play a scenario; return 0, or 1 when an expectation or a promise is broken.

    ``scenario`` is a file, the name of a packaged one, or None for the JobSet
    scenario. ``keep`` leaves everything up afterwards until interrupted.
    ``time_scale`` multiplies graces and pauses. ``folder`` gets the extender's
    configuration and log (default: a temporary one). An extender that does not
    run is told with the end of its log. Raises InvalidInput for a bad scenario.
    """
    played = scaled(find(scenario), time_scale)
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sandbox-")))
        try:
            async with sandbox(minor, configured(played, settings), folder) as hooks:
                outcome = await _play(played, hooks, out)
                if keep:
                    await _stay(hooks, out)
        except (ExtenderBroke, StepFailed) as error:
            print(f"FAILED  {error}", file=out)
            return 1
    return 1 if outcome.failures else 0


async def _play(scenario: Scenario, hooks: SandboxHooks, out: TextIO | None) -> PlayOutcome:
    options: dict[str, Any] = {} if out is None else {"out": out}
    narrator = Narrator(scenario, hooks, **options)
    async with await KubeClient.connect(server=hooks.api_url) as client:
        runner = Runner(scenario, client, hooks, listener=narrator)
        narrator.opening()
        await runner.prepare()
        outcome = await runner.play()
        await narrator.closing(runner.recorder, outcome.failures, outcome.seconds)
        return outcome


async def _stay(hooks: SandboxHooks, out: TextIO | None) -> None:
    """Wait to be interrupted, with everything left as it is."""
    print(f"\nAPI server  {hooks.api_url}", file=out)
    print(f"page        {hooks.url}/ui/", file=out)
    print(f"debug API   {hooks.url}/debug/", file=out)
    print("Everything stays up until you press Ctrl-C.", file=out, flush=True)
    while True:
        hooks.check()
        await asyncio.sleep(0.5)
