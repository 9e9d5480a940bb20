"""What the verifier says, and what counts as no answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from extender.gang.tell.verdicts import NoVerdict, SeatVerdict, VerifierQuestion
from extender.grpc_api.verifier_client import METHOD, VerifierClient
from extender.model.errors import InvalidInput
from extender.model.objects import Pod
from extender.model.plan import Victim
from extender.pb.podgroup.v1 import types_pb2, verifier_pb2
from extender.settings.grpc_address import parse
from extender.settings.settings import Settings, VerifierSettings
from extender.settings.settings_rules import validate

Answers = Callable[[bytes], Awaitable[bytes]]
YES = verifier_pb2.VerifyResponse(accepted=True, age=Duration(seconds=3))
VICTIM = Victim(uid="u-low", namespace="a", name="low", node="n0", priority=1)


def pod(name: str) -> Pod:
    return Pod(uid=f"u-{name}", namespace="a", name=name)


QUESTION = VerifierQuestion(
    seats=[(pod("m0"), "n0"), (pod("m1"), "n1")], gone=[VICTIM], held=[(pod("o"), "n2")]
)


class Site:
    """A verifier that answers as a test says, and the client that asks it."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[verifier_pb2.VerifyRequest] = []
        self.answers: Answers = self._yes
        self.address = f"unix:{folder}/v.sock"
        self.client = self.asking()

    def asking(self, **more: Any) -> VerifierClient:
        settings = VerifierSettings(address=self.address, **{"seconds": 1.0, **more})
        return VerifierClient(settings, lambda: ("12", "7"))

    async def start(self) -> None:
        async def serve(request: bytes, context: object) -> bytes:
            self.asked.append(verifier_pb2.VerifyRequest.FromString(request))
            return await self.answers(request)

        self.server = grpc.aio.server()
        name = METHOD.rpartition("/")[2]
        service = METHOD.strip("/").partition("/")[0]
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(serve)
        generic = grpc.method_handlers_generic_handler(service, {name: handler})
        self.server.add_generic_rpc_handlers((generic,))
        self.server.add_insecure_port(self.address)
        await self.server.start()

    def say(self, answer: verifier_pb2.VerifyResponse | bytes) -> None:
        made = answer if isinstance(answer, bytes) else answer.SerializeToString()

        async def answers(request: bytes) -> bytes:
            return made

        self.answers = answers

    async def _yes(self, request: bytes) -> bytes:
        return YES.SerializeToString()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made = Site(tmp_path)
    await made.start()
    yield made
    await made.client.close()
    await made.server.stop(None)


async def test_the_whole_plan_is_asked_with_what_we_have_seen(site: Site) -> None:
    assert await site.client.refusals(QUESTION) == []
    asked = site.asked[0]
    assert [(each.pod.name, each.pod.uid, each.node_name) for each in asked.seats] == [
        ("m0", "u-m0", "n0"),
        ("m1", "u-m1", "n1"),
    ]
    assert [(each.namespace, each.name, each.uid) for each in asked.gone] == [("a", "low", "u-low")]
    assert [each.pod.name for each in asked.held] == ["o"]
    assert (asked.pods_version, asked.nodes_version) == ("12", "7")


async def test_a_refusal_names_member_node_plugin_and_reasons(site: Site) -> None:
    seat = types_pb2.Seat(pod=types_pb2.PodReference(name="m1", uid="u-m1"), node_name="n1")
    refusal = verifier_pb2.SeatRefusal(seat=seat, plugin="NodeVolumeLimits", reasons=["full"])
    site.say(verifier_pb2.VerifyResponse(refusals=[refusal]))
    expected = SeatVerdict("u-m1", "n1", "NodeVolumeLimits", ("full",), any_node=False)
    assert await site.client.refusals(QUESTION) == [expected]


async def _no_verdict(client: VerifierClient) -> str:
    with pytest.raises(NoVerdict) as raised:
        await client.refusals(QUESTION)
    return str(raised.value)


async def test_an_old_state_is_no_answer(site: Site) -> None:
    site.say(verifier_pb2.VerifyResponse(accepted=True, age=Duration(seconds=121)))
    assert await _no_verdict(site.client) == "its state is 121 s old"


async def test_nonsense_is_no_answer(site: Site) -> None:
    site.say(b"\xff\xff\xff")
    assert "cannot be read" in await _no_verdict(site.client)
    site.say(verifier_pb2.VerifyResponse())
    assert "neither accepts" in await _no_verdict(site.client)


async def test_a_hang_is_no_answer(site: Site) -> None:
    async def hangs(request: bytes) -> bytes:
        await asyncio.sleep(60)
        return b""

    site.answers = hangs
    client = site.asking(seconds=0.2)
    assert (await _no_verdict(client)).startswith("DEADLINE_EXCEEDED")
    await client.close()


async def test_a_dead_verifier_is_no_answer_until_it_is_back(site: Site) -> None:
    assert await site.client.refusals(QUESTION) == []
    await site.server.stop(None)
    assert (await _no_verdict(site.client)).startswith("UNAVAILABLE")
    await site.start()
    for _ in range(50):
        try:
            assert await site.client.refusals(QUESTION) == []
            return
        except NoVerdict:
            await asyncio.sleep(0.1)
    pytest.fail("it is asked no more")


@pytest.mark.parametrize("address", ["unix:/run/v.sock", "127.0.0.1:1", "localhost:1", "[::1]:1"])
def test_addresses_that_nobody_else_can_answer_at(address: str) -> None:
    settings = Settings(verifier=VerifierSettings(address=address))
    validate(settings)
    assert parse(settings.verifier.address).local


@pytest.mark.parametrize(
    ("verifier", "wrong"),
    [
        (VerifierSettings(address="10.0.0.1:1"), "verifier.address 10.0.0.1:1 is elsewhere"),
        (VerifierSettings(address="v.sock"), "verifier.address"),
        (VerifierSettings(seconds=0.0), "verifier.seconds"),
        (VerifierSettings(seconds=21.0), "verifier.seconds"),
        (VerifierSettings(most_age_seconds=30.0), "verifier.mostAgeSeconds"),
    ],
)
def test_settings_that_cannot_be_meant(verifier: VerifierSettings, wrong: str) -> None:
    with pytest.raises(InvalidInput, match=wrong):
        validate(Settings(verifier=verifier))
