"""Names that the search of the site does not find are told (``./run docs`` asks the real index)."""

from __future__ import annotations

from extender.settings.settings import Settings
from tools.docs import reference, search_index

INDEX = search_index.read(
    'Search.setIndex({"terms":{"plan":[0,1],"second":1,"metric_tot":0},"titleterms":{"seat":[0]}})'
)


def stem(word: str) -> str:
    return word.removesuffix("s").removesuffix("al")


def test_a_name_is_found_where_one_page_has_all_its_words() -> None:
    assert (
        list(search_index.unfound(INDEX, ["plan.seconds", "seats.plan", "metric_total"], stem))
        == []
    )


def test_a_name_is_told_that_no_page_has() -> None:
    assert list(search_index.unfound(INDEX, ["seats.seconds", "plan.other"], stem)) == [
        "seats.seconds",
        "plan.other",
    ]


def test_every_key_and_every_metric_is_asked_for() -> None:
    found = list(search_index.names())
    assert {"plan.seconds", "podgroup_extender_evictions_total"} <= set(found)
    assert len(found) > len(list(reference.keys(Settings))) > 100
