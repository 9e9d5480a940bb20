"""What each page says to a reader without scripts, and what its headers allow."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace
from yarl import URL

from extender.console.gang_rows import GangReader
from extender.console.node_uses import NodeReader
from extender.console.picture import PictureMaker
from extender.console.timeline import timeline
from extender.console.words import OUTCOMES, later
from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.model.gang import Gang
from extender.model.objects import GangKey
from tests.cli.live_bed import serving
from tests.console.reading import Read
from tests.console.site import Site
from tests.console.stage import NOW, Stage, training_cluster
from tests.gang.world import pod

PAGES = (
    "",
    "gang?name=pod-group:research/frontier-run",
    "gang?name=giant-eval",
    "decisions",
    "cluster",
    "node?name=gpu-b-01",
    "what-if",
    "what-if?gang=nightly-distill",
)


async def read(web: aiohttp.ClientSession, site: Site, page: str, status: int = 200) -> Read:
    async with web.get(site.url(page)) as answer:
        assert answer.status == status, await answer.text()
        return Read(await answer.text())


async def test_pages_are_whole_and_their_links_lead_somewhere(
    site: Site, web: aiohttp.ClientSession
) -> None:
    followed: set[str] = set()
    for page in PAGES:
        found = await read(web, site, page)
        assert found.tags.count("h1") == 1, page
        assert not found.suspicious, page
        links = {link for link in found.links if not link.startswith(("#", "../debug"))}
        # Relative to the page, so that they hold behind a proxy's prefix.
        assert not [link for link in links if link.startswith("/")]
        base = page.partition("?")[0]
        followed |= {base + link if link.startswith("?") else link for link in links}
    kinds: dict[str, int] = {}
    for link in sorted(followed):
        kind = link.partition("=")[0]
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] <= 3:
            async with web.get(site.url(link)) as answer:
                assert answer.status == 200, link


async def test_nothing_is_allowed_but_what_is_ours(site: Site, web: aiohttp.ClientSession) -> None:
    for page in (*PAGES, "nothing", "static/console.css", "cells", "events"):
        async with web.head(site.url(page)) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "*" not in policy
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["X-Frame-Options"] == "DENY"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            kept = "immutable" if page.startswith("static/") else "no-store"
            assert kept in answer.headers["Cache-Control"], page


async def test_list_of_gangs(site: Site, web: aiohttp.ClientSession) -> None:
    found = await read(web, site, "")
    assert "frontier-run research · pod-group ▶ victims terminate" in found.words
    assert "moe-ablation research · pod-group ▲ leaving" in found.words
    assert "its pods are evicted for pod-group:research/frontier-run" in found.words
    assert found.words.index("frontier-run") < found.words.index("giant-eval")
    assert found.words.index("giant-eval") < found.words.index("llama-pretrain")


async def test_gangs_are_filtered(site: Site, web: aiohttp.ClientSession) -> None:
    stuck = (await read(web, site, "?show=stuck")).words
    assert "giant-eval" in stuck
    assert "llama-pretrain" not in stuck
    named = (await read(web, site, "?q=LLAMA")).words
    assert "llama-pretrain" in named
    assert "giant-eval" not in named
    assert "vit-sweep" in (await read(web, site, "?namespace=vision")).words
    nothing = (await read(web, site, "?q=nobody")).words
    assert "No gang matches" in nothing


async def test_gang_in_preemption(site: Site, web: aiohttp.ClientSession) -> None:
    text = (await read(web, site, "gang?name=pod-group:research/frontier-run")).words
    assert "waits for pod-group:research/moe-ablation (5 pods, 3.3 GPU-hours of work lost)" in text
    assert "8 seats on 8 nodes; 8 pods in 3 units to evict" in text
    assert (
        "pod-group:research/moe-ablation 6 pods on 6 nodes, priority 1000, evicted as a whole"
        in text
    )
    assert "research/moe-ablation-0 on gpu-b-00: its room on gpu-b-00 is needed" in text
    assert "gangs@1000 gangs broken of priority 1000 1 1 ● least" in text
    assert "No other set of victims costs less at any level." in text
    assert "free room for 1 more member: pod batch/notebook-0 could stay" in text, "next cheaper"
    assert text.index("first pod created") < text.index("plan made")
    assert re.search(r"plan made [-0-9: ]+ · after \d+ (s|min|h)", text), "when, and how much later"
    assert "frontier-run-0 seat on gpu-b-00" in text


async def test_gang_that_is_refused(site: Site, web: aiohttp.ClientSession) -> None:
    text = (await read(web, site, "gang?name=giant-eval")).words
    assert "if every possible victim is evicted" in text
    assert "21 short" in text
    assert "What would change it" in text
    assert "free room for 21 more of giant-eval-" in text
    assert "a quorum (minCount) of 19 or less ask with minCount 19" in text
    assert "a priority above" not in text, "there are 36 nodes"
    async with web.get(site.url("what-if?gang=giant-eval&priority=5001")) as answer:
        assert 'value="5001"' in await answer.text(), "the link fills the form in"
    assert "research/llama-pretrain-0 stays on gpu-a-00: priority 5000 is not below 3000" in text


async def test_gang_that_lost_its_pods(site: Site, web: aiohttp.ClientSession) -> None:
    text = (await read(web, site, "gang?name=pod-group:research/moe-ablation")).words
    assert "6 of its pods chosen as victims" in text
    assert "for pod-group:research/frontier-run" in text


async def test_what_is_not_there(site: Site, web: aiohttp.ClientSession) -> None:
    assert "no gang" in (await read(web, site, "gang?name=pod-group:x/y", 404)).words
    assert "nobody" in (await read(web, site, "gang?name=nobody", 404)).words
    assert "no node" in (await read(web, site, "node?name=nobody", 404)).words
    assert "no page" in (await read(web, site, "nothing", 404)).words
    assert "no file" in (await read(web, site, "static/nothing", 404)).words
    for number in ("x", "1_0", "%D9%A3", "1e3", "-", "9" * 400):
        assert "whole number" in (await read(web, site, f"?page={number}", 400)).words, number
    await read(web, site, "?q=" + "x" * 700, 400)
    await read(web, site, "?q=%ff", 400)
    await read(web, site, "?" + "&".join(f"a{i}=1" for i in range(40)), 400)


async def test_decisions_are_filtered(site: Site, web: aiohttp.ClientSession) -> None:
    text = (await read(web, site, "decisions")).words
    assert text.index("frontier-run") < text.index("protein-fold"), "newest first"
    assert "podgroup-extender plan snapshot.json" in text
    refused = (await read(web, site, "decisions?outcome=refusal&q=giant")).words
    assert "giant-eval" in refused
    assert "protein-fold" not in refused
    victims = (await read(web, site, "decisions?victim=batch/notebook-0")).words
    assert "1 line of the decisions kept" in victims
    assert "frontier-run" in victims


@pytest.mark.parametrize("page", ["decisions", "cluster"])
async def test_a_month_of_decisions_says_since_when_it_counts(
    page: str, site: Site, web: aiohttp.ClientSession
) -> None:
    text = (await read(web, site, page)).words
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(NOW - 12.4 * 86_400))
    today = time.strftime("%Y-%m-%d", time.gmtime(NOW))
    assert f"by day (UTC), counted since {since}" in text
    assert "of the days before nothing is known (grey)" in text
    # What is listed as decided today is what is counted.
    told = [d for d in site.stage.decisions if d.time // 86_400 == NOW // 86_400]
    counts = Counter(OUTCOMES[decision.outcome] for decision in told)
    (day,) = re.findall(rf"{today}: (\d[^:]*?) (?=\d{{4}}-\d\d-\d\d)", text)
    assert {part.partition(" ")[::2] for part in day.split(", ")} == {
        (str(count), word) for word, count in counts.items()
    }
    before = time.strftime("%Y-%m-%d", time.gmtime(NOW - 20 * 86_400))
    assert f"{before}: not counted, before this process started" in text
    raw = await (await web.get(site.url(page))).text()
    assert raw.count('class="b-unknown"') == 31 - 13


async def test_cluster_by_zone(site: Site, web: aiohttp.ClientSession) -> None:
    text = (await read(web, site, "cluster")).words
    assert "eu-west-1b 12 nodes" in text
    assert "6 seats held" in text
    assert "gpu-b-01 gpu 8/8" in text
    assert "1 seat for pod-group:research/frontier-run" in text
    racks = (await read(web, site, "cluster?group=example.com/rack&by=cpu")).words
    assert "gpu-a 12 nodes" in racks
    assert "of 1152 cpu" in racks
    only = (await read(web, site, "cluster?only=seats&q=gpu-c")).words
    assert only.count("gpu-c-08") == 2, "in the map and in the table"
    assert only.count("gpu-c-00") == 1, "in the map alone"


async def test_node(site: Site, web: aiohttp.ClientSession) -> None:
    text = (await read(web, site, "node?name=gpu-b-01")).words
    assert "frontier-run-1 of pod-group:research/frontier-run" in text
    assert "evicted for pod-group:research/frontier-run" in text
    assert "nvidia.com/gpu 8/8" in text


async def test_not_ready_is_told(site: Site, web: aiohttp.ClientSession) -> None:
    site.stage.problems = ("caches are not synced: pods",)
    assert "Not ready: caches are not synced: pods" in (await read(web, site, "")).words


async def test_methods_and_addresses(site: Site, web: aiohttp.ClientSession) -> None:
    async with web.get(f"{site.server.url}/ui", allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (308, "ui/")
    for method, page in (("POST", ""), ("PUT", "what-if"), ("DELETE", "gang")):
        async with web.request(method, site.url(page)) as answer:
            assert answer.status == 405
            assert "GET" in answer.headers["Allow"]
    for page in ("static/../console.py", "static/", "static/layout.html", "templates/gang.html"):
        async with web.get(site.url(page)) as answer:
            assert answer.status == 404


async def test_an_error_leads_back_whatever_its_address_escapes(site: Site) -> None:
    """A browser counts the slashes that were sent; %2f is none."""
    for sent, up in (("a", "./"), ("a/b", ".././"), ("a%2fb", "./"), ("a%2fb/c", ".././")):
        address = URL(site.url(sent), encoded=True)
        async with aiohttp.ClientSession() as web, web.get(address) as answer:
            text = await answer.text()
        assert f'href="{up}">All gangs' in text, sent
        assert f'href="{up.removesuffix("./")}static/console.css' in text, sent


async def test_page_that_did_not_change_is_not_sent_again(
    site: Site, web: aiohttp.ClientSession
) -> None:
    async with web.get(site.url("cluster")) as answer:
        tag = answer.headers["ETag"]
    async with web.get(site.url("cluster"), headers={"If-None-Match": tag}) as answer:
        assert (answer.status, await answer.read()) == (304, b"")
    async with web.get(site.url(""), headers={"If-None-Match": tag}) as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-0.4, "after 0 s"),
        (59.6, "after 1 min"),
        (75, "after 1 min 15 s"),
        (3600, "after 1 h"),
        (90061, "after 1 d 1 h"),
    ],
)
def test_how_much_later_a_moment_was(seconds: float, said: str) -> None:
    assert later(seconds) == said


def test_members_start_after_the_plan_of_the_same_second() -> None:
    """The API cuts pods' times to seconds: a life read as if pods had started, then a plan came."""
    key = GangKey("pod-group", "team", "quick")
    pods = tuple(
        replace(pod(f"quick-{i}", group="quick", on="n0"), created=100.0, started=101.0)
        for i in range(2)
    )
    decisions = [
        Decision(time=at, gang=str(key), verb=Verb.LOOP, outcome=outcome, message="")
        for at, outcome in ((101.7, Outcome.DONE), (101.4, Outcome.PLAN), (100.2, Outcome.REFUSAL))
    ]
    found = timeline(Gang(key, pods, 2), str(key), decisions)
    assert [moment.kind for moment in found] == [
        "pods",
        "refusal",
        "plan",
        "done",
        "bound",
        "bound",
    ]


async def test_list_and_page_say_the_same_of_each_gang(
    site: Site, web: aiohttp.ClientSession
) -> None:
    """Of a gang that is evicted the page said that its owner had to create members."""
    for row in (await site.console.board.picture()).rows:
        text = (await read(web, site, f"gang?name={row.key}")).words
        assert row.status.what in text, row.key
        assert row.status.next.replace("`", "") in text or "What would change it" in text, row.key


def changed(stage: Stage, rng: random.Random) -> None:
    """Change something."""
    stage.generation += 1
    at = rng.randrange(len(stage.pods))
    pod = stage.pods[at]
    match rng.randrange(6):
        case 0:
            stage.pods[at] = replace(pod, deleting=NOW + 5)
        case 1:
            del stage.pods[at]
        case 2:
            stage.pods[at] = replace(pod, node=rng.choice(stage.nodes).name)
        case 3:
            stage.tell(f"pod-group:{pod.namespace}/{pod.pod_group}", Outcome.REFUSAL, "no", 0.5)
        case 4:
            stage.preemptions.clear()
        case _:
            node = rng.randrange(len(stage.nodes))
            stage.nodes[node] = replace(stage.nodes[node], unschedulable=rng.random() < 0.5)


def test_rows_and_sums_are_those_of_a_fresh_reader() -> None:
    for seed in range(8):
        stage, rng = training_cluster(), random.Random(seed)
        gangs, nodes = GangReader(stage.resolver), NodeReader()
        for _ in range(12):
            changed(stage, rng)
            capture = stage.capture()
            assert gangs.read(capture) == GangReader(stage.resolver).read(capture)
            assert nodes.read(capture.snapshot) == NodeReader().read(capture.snapshot)


def test_what_did_not_change_is_not_made_again() -> None:
    stage = training_cluster()
    stage.preemptions.clear()
    gangs, nodes = GangReader(stage.resolver), NodeReader()
    capture = stage.capture()
    before, sums = gangs.read(capture), nodes.read(capture.snapshot)
    assert all(a is b for a, b in zip(before, gangs.read(capture), strict=True))
    assert all(a is b for a, b in zip(sums, nodes.read(capture.snapshot), strict=True))


def test_plan_for_a_pod_of_no_gang_has_a_row() -> None:
    stage = training_cluster()
    preemption = stage.preemptions[0]
    single = GangKey("single", "batch", "urgent")
    plan = replace(preemption.plan, gang=single)
    stage.preemptions = [replace(preemption, plan=plan)]
    picture = PictureMaker(stage.resolver).read(stage.capture())
    row = next(row for row in picture.rows if row.key == "single:batch/urgent")
    assert (row.status.state, row.status.seats) == ("waiting", 8)


def test_empty_cluster() -> None:
    picture = PictureMaker(Stage().resolver).read(Stage().capture())
    assert (picture.rows, picture.nodes, picture.resources) == ((), (), ())


def test_suspended_gang_says_until_when() -> None:
    stage = training_cluster()
    name = "pod-group:vision/nightly-distill"
    capture = replace(stage.capture(), suspended={name: "its plans failed, until 12:00"})
    row = next(row for row in GangReader(stage.resolver).read(capture) if row.key == name)
    assert (row.status.state, row.status.what) == ("suspended", "its plans failed, until 12:00")


async def test_a_real_plan_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(tmp_path, capsys) as live, aiohttp.ClientSession() as web:

        async def words(page: str, **form: str) -> str:
            way = web.post if form else web.get
            async with way(f"{live.url}/ui/{page}", data=form or None) as answer:
                assert answer.status == 200, await answer.text()
                return Read(await answer.text()).words

        assert "low team · pod-group ● running" in await words("")
        assert "n3" in await words("cluster")
        asked = await words("what-if", gang="high", priority="1")
        assert "It would not run any more." in asked
        await live.preempt("high-0", "n0")
        async with web.get(f"{live.url}/debug/decisions") as answer:
            plan = next(
                made
                for made in (await answer.json())["decisions"]
                if made["outcome"] == "plan" and made["gang"] == "pod-group:team/high"
            )
        # A page may be a second old.
        async with asyncio.timeout(60):
            while plan["message"] not in (text := await words("decisions?outcome=plan")):
                await asyncio.sleep(0.05)
        assert "pod-group:team/high" in text
        assert "team/low-0 on n0" in await words("gang?name=high")
        async with web.get(f"{live.url}/ui/decisions") as answer:
            links = Read(await answer.text()).links
        assert f"../debug/snapshot?generation={plan['generation']}" in links
