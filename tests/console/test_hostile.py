"""Text that tenants write stays text, on every page (docs/security.md, row 11)."""

from __future__ import annotations

import aiohttp
from msgspec.structs import replace

from extender.console.templating import visible
from extender.gang.tell.decisions import Outcome
from extender.model.objects import Taint
from extender.model.plan import Cost, Seat, Victim
from tests.console.reading import Read
from tests.console.site import Site, serving
from tests.console.stage import Stage, training_cluster

EVIL = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "' onmouseover='alert(3)",
    "</textarea></title><svg/onload=alert(4)>",
    "{{ 7*7 }}{% raw %}",
    "javascript:alert(5)",
)
ALL = "".join(EVIL)


def hostile() -> Stage:
    stage = training_cluster()
    name = f"evil{ALL}"
    stage.nodes.append(
        replace(
            stage.nodes[0],
            name=ALL,
            uid="evil",
            labels={"topology.kubernetes.io/zone": ALL, ALL: ALL},
            taints=(Taint(ALL, ALL, ALL),),
            allocatable=(("cpu", 8000), (ALL, 4), ("pods", 10)),
        )
    )
    stage.gang(name, [ALL], size=3, namespace=ALL, gpus=0)
    stage.problems = (ALL,)
    victim = Victim(
        uid="v", namespace=ALL, name=ALL, node=ALL, priority=1, gang=ALL, reason=ALL, unit=ALL
    )
    stage.tell(
        f"pod-group:{ALL}/{name}",
        Outcome.PLAN,
        ALL,
        5.0,
        code=ALL,
        explanation=(ALL,),
        victims=(victim,),
        seats=(Seat("s", ALL, ALL, ALL),),
        costs=(Cost(ALL, 3, 1),),
        proof=ALL,
    )
    stage.tell(f"pod-group:{ALL}/{name}", Outcome.REFUSAL, ALL, 1.0, explanation=(ALL,))
    return stage


PAGES: tuple[tuple[str, dict[str, str]], ...] = (
    ("", {}),
    ("", {"q": ALL, "namespace": ALL}),
    ("gang", {"name": f"pod-group:{ALL}/evil{ALL}"}),
    ("gang", {"name": ALL}),
    ("decisions", {}),
    ("decisions", {"q": ALL, "victim": ALL, "outcome": ALL}),
    ("cluster", {"by": ALL, "group": ALL, "q": ALL}),
    ("node", {"name": ALL}),
    ("node", {"name": f"{ALL}?"}),
    ("what-if", {"gang": ALL, "manifest": ALL}),
    (f"nothing{ALL}", {}),
)


async def test_names_and_messages_are_escaped(web: aiohttp.ClientSession) -> None:
    shown = 0
    async with serving(hostile()) as site:
        for path, query in PAGES:
            async with web.get(site.url(path), params=query) as answer:
                assert answer.content_type == "text/html"
                assert answer.status in (200, 404), (path, query)
                found = Read(await answer.text())
            assert not found.suspicious, (path, query)
            assert "script" not in found.tags[found.tags.index("body") :]
            assert "{{ 7*7 }}" in found.text or "7*7" not in found.text
            shown += "<script>alert(1)</script>" in found.text
    assert shown >= 8, "it is there to be seen, as text"


async def test_answer_to_a_hostile_question(web: aiohttp.ClientSession) -> None:
    async with (
        serving(hostile()) as site,
        web.post(site.url("what-if"), data={"gang": ALL, "manifest": f"kind: {ALL!r}"}) as answer,
    ):
        assert answer.status == 200
        found = Read(await answer.text())
    assert "No answer" in found.text
    assert not found.suspicious


async def test_characters_that_do_not_show_are_made_visible(web: aiohttp.ClientSession) -> None:
    stage = training_cluster()
    stage.tell("pod-group:a/b", Outcome.REFUSAL, "safe\u202egnp.exe\u200b\x1b[31m", 1.0)
    async with serving(stage) as site, web.get(site.url("decisions")) as answer:
        text = await answer.text()
    assert "safe\ufffdgnp.exe\ufffd\ufffd[31m" in text
    assert not {"\u202e", "\u200b", "\x1b"} & set(text)


def test_ordinary_text_is_left_alone() -> None:
    assert visible("ö \N{EN DASH} 漢字 🙂\n\ttab") == "ö \N{EN DASH} 漢字 🙂\n\ttab"
    assert visible(7) == 7


async def test_form_of_another_site_is_refused(site: Site, web: aiohttp.ClientSession) -> None:
    form = {"gang": "nightly-distill"}
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://elsewhere.example"},
        {"Origin": "null"},
    ):
        async with web.post(site.url("what-if"), data=form, headers=headers) as answer:
            assert answer.status == 400
            assert "another site" in await answer.text()
    for headers in ({"Sec-Fetch-Site": "same-origin"}, {"Origin": site.server.url}):
        async with web.post(site.url("what-if"), data=form, headers=headers) as answer:
            assert answer.status == 200
