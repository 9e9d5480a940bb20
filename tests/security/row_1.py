"""Who is believed. Row 1 of docs/security.md."""

from __future__ import annotations

from tests.security.mutant import Mutant

ROW = 1
ASKED = "extender/verbs/pod_lookup.py"
TEST_ASKED = "tests/verbs/test_asked.py::"
TEST_LISTENERS = "tests/cli/test_listener_rules.py::"
LAST_CHECK = 'is held back by its scheduling gates")\n'


def _told(field: str) -> str:
    """The end of ``Asked.pod`` with one field as the caller tells it."""
    return (
        f"{LAST_CHECK}        from msgspec.structs import replace\n\n"
        f"        return replace(found, {field}=told.{field})"
    )


MUTANTS = (
    Mutant(
        ROW,
        "preempt acts on cached pods only",
        "extender/verbs/preempt.py",
        "pod = await self._asked.pod(args.pod)",
        "pod = args.pod",
        f"{TEST_ASKED}test_an_invented_pod_evicts_nobody",
    ),
    Mutant(
        ROW,
        "filter plans for cached pods only",
        "extender/verbs/filter.py",
        "pod = await self._asked.pod(told)",
        "pod = told",
        f"{TEST_ASKED}test_membership_that_the_caller_tells_makes_no_plan",
    ),
    Mutant(
        ROW,
        "an unknown pod is refused, and not left to its own word",
        ASKED,
        '            raise UnknownPod(\n                f"no pod with UID',
        "            return Pod(uid=uid, namespace=namespace, name=name)\n"
        '            raise UnknownPod(\n                f"no pod with UID',
        f"{TEST_ASKED}test_an_invented_pod_evicts_nobody",
    ),
    Mutant(
        ROW,
        "the cache's priority counts",
        ASKED,
        f"{LAST_CHECK}        return found",
        _told("priority"),
        f"{TEST_ASKED}test_a_priority_that_the_caller_tells_opens_no_seat",
    ),
    Mutant(
        ROW,
        "the cache's requests count",
        ASKED,
        f"{LAST_CHECK}        return found",
        _told("requests"),
        f"{TEST_ASKED}test_requests_that_the_caller_tells_do_not_count",
    ),
    Mutant(
        ROW,
        "a pod that has a node is refused",
        ASKED,
        "if found.node:",
        "if False:",
        f"{TEST_ASKED}test_a_pod_that_runs_preempts_nobody",
    ),
    Mutant(
        ROW,
        "a pod that is going is refused",
        ASKED,
        "if found.deleting:",
        "if False:",
        f"{TEST_ASKED}test_only_a_pod_that_waits_is_acted_for[is going]",
    ),
    Mutant(
        ROW,
        "a gated pod is refused",
        ASKED,
        "if found.gated:",
        "if False:",
        f"{TEST_ASKED}test_only_a_pod_that_waits_is_acted_for[is gated]",
    ),
    Mutant(
        ROW,
        "a UID goes with its own name",
        ASKED,
        "if (found.namespace, found.name) != (namespace, name):",
        "if False:",
        f"{TEST_ASKED}test_the_uid_of_one_pod_under_the_name_of_another",
    ),
    Mutant(
        ROW,
        "a pod that comes a moment later is waited for",
        ASKED,
        "found = await self._soon(uid)",
        "pass",
        f"{TEST_ASKED}test_waiting_ends_as_soon_as_the_pod_is_there",
    ),
    Mutant(
        ROW,
        "what a pod that nobody has read claims gives it no seat",
        "extender/verbs/filter.py",
        "kept = [name for name in names if name not in held]",
        "kept = names",
        f"{TEST_ASKED}test_a_pod_of_no_gang_is_served_while_a_watch_is_down",
    ),
    Mutant(
        ROW,
        "an open port: serve does not start",
        "extender/check/listener_rules.py",
        "if is_open(server) and not (allowed and server.allow_open_port):",
        "if False:",
        f"{TEST_LISTENERS}test_serve_does_not_start",
    ),
    Mutant(
        ROW,
        "an open port has to be allowed twice",
        "extender/check/listener_rules.py",
        "not (allowed and server.allow_open_port)",
        "not (allowed or server.allow_open_port)",
        f"{TEST_LISTENERS}test_an_open_port_has_to_be_allowed_twice",
    ),
    Mutant(
        ROW,
        "an open port is an error in check",
        "extender/check/listener_rules.py",
        'yield broken("open-port"',
        'yield broken("open-metrics"',
        f"{TEST_LISTENERS}test_check_calls_it_an_error",
    ),
    Mutant(
        ROW,
        "a certificate without an allow-list closes no port",
        "extender/server/access_rules.py",
        "known = bool(settings.client_ca_file and settings.allowed_names)",
        "known = bool(settings.client_ca_file)",
        f"{TEST_LISTENERS}test_findings",
    ),
    Mutant(
        ROW,
        "only addresses of this machine are loopback",
        "extender/server/access_rules.py",
        'return host == "localhost"',
        "return bool(host)",
        f"{TEST_LISTENERS}test_findings",
    ),
    Mutant(
        ROW,
        "gRPC refuses an open port",
        "extender/settings/grpc_address.py",
        "if address.local or (checked and names):",
        "if True:",
        "tests/grpc_api/test_listening.py::test_an_open_port_is_refused",
    ),
    Mutant(
        ROW,
        "a Unix socket is for owner and group",
        "extender/grpc_api/server.py",
        "mask = os.umask(SOCKET_MASK) if address.path else None",
        "mask = None",
        "tests/grpc_api/test_listening.py::test_a_unix_socket_is_for_owner_and_group_and_goes_with_the_server",
    ),
)
