"""Who is believed. Row 1 of docs/security.md."""

from __future__ import annotations

from tests.security.mutant import taken_out

TEST_ASKED = "tests/verbs/test_asked.py::"
TEST_LISTENERS = "tests/cli/test_check_rules.py::"
LAST_CHECK = 'is held back by its scheduling gates")\n'


def _told(field: str) -> str:
    """The end of ``Asked.pod`` with one field as the caller tells it."""
    return (
        f"{LAST_CHECK}        from msgspec.structs import replace\n\n"
        f"        return replace(found, {field}=told.{field})"
    )


MUTANTS = taken_out(
    1,
    "extender/verbs/preempt.py",
    (
        "preempt acts on cached pods only",
        "pod = await self._asked.pod(args.pod)",
        "pod = args.pod",
        f"{TEST_ASKED}test_an_invented_pod_evicts_nobody",
    ),
    "extender/verbs/filter.py",
    (
        "filter plans for cached pods only",
        "pod = await self._asked.pod(told)",
        "pod = told",
        f"{TEST_ASKED}test_membership_that_the_caller_tells_makes_no_plan",
    ),
    (
        "what a pod that nobody has read claims gives it no seat",
        "kept = [name for name in names if name not in held]",
        "kept = names",
        f"{TEST_ASKED}test_a_pod_of_no_gang_is_served_while_a_watch_is_down",
    ),
    "extender/verbs/pod_lookup.py",
    (
        "an unknown pod is refused, and not left to its own word",
        '            raise UnknownPod(\n                f"no pod with UID',
        (
            "            return Pod(uid=uid, namespace=namespace, name=name)\n"
            '            raise UnknownPod(\n                f"no pod with UID'
        ),
        f"{TEST_ASKED}test_an_invented_pod_evicts_nobody",
    ),
    (
        "the cache's priority counts",
        f"{LAST_CHECK}        return found",
        _told("priority"),
        f"{TEST_ASKED}test_a_priority_that_the_caller_tells_opens_no_seat",
    ),
    (
        "the cache's requests count",
        f"{LAST_CHECK}        return found",
        _told("requests"),
        f"{TEST_ASKED}test_requests_that_the_caller_tells_do_not_count",
    ),
    (
        "a pod that has a node is refused",
        "if found.node:",
        "if False:",
        f"{TEST_ASKED}test_a_pod_that_runs_preempts_nobody",
    ),
    (
        "a pod that is going is refused",
        "if found.deleting:",
        "if False:",
        f"{TEST_ASKED}test_only_a_pod_that_waits_is_acted_for[is going]",
    ),
    (
        "a gated pod is refused",
        "if found.gated:",
        "if False:",
        f"{TEST_ASKED}test_only_a_pod_that_waits_is_acted_for[is gated]",
    ),
    (
        "a UID goes with its own name",
        "if (found.namespace, found.name) != (namespace, name):",
        "if False:",
        f"{TEST_ASKED}test_the_uid_of_one_pod_under_the_name_of_another",
    ),
    (
        "a pod that comes a moment later is waited for",
        "found = await self._soon(uid)",
        "pass",
        f"{TEST_ASKED}test_waiting_ends_as_soon_as_the_pod_is_there",
    ),
    "extender/check/listener_rules.py",
    (
        "an open port: serve does not start",
        "if is_open(server) and not (allowed and server.allow_open_port):",
        "if False:",
        f"{TEST_LISTENERS}test_serve_does_not_start",
    ),
    (
        "an open port has to be allowed twice",
        "not (allowed and server.allow_open_port)",
        "not (allowed or server.allow_open_port)",
        f"{TEST_LISTENERS}test_an_open_port_has_to_be_allowed_twice",
    ),
    (
        "an open port is an error in check",
        'yield broken("open-port"',
        'yield broken("open-metrics"',
        f"{TEST_LISTENERS}test_check_calls_it_an_error",
    ),
    "extender/server/access_rules.py",
    (
        "a certificate without an allow-list closes no port",
        "known = bool(settings.client_ca_file and settings.allowed_names)",
        "known = bool(settings.client_ca_file)",
        f"{TEST_LISTENERS}test_findings",
    ),
    (
        "only addresses of this machine are loopback",
        'return host == "localhost"',
        "return bool(host)",
        f"{TEST_LISTENERS}test_findings",
    ),
    "extender/settings/grpc_address.py",
    (
        "gRPC refuses an open port",
        "if address.local or (checked and names):",
        "if True:",
        "tests/grpc_api/test_listening.py::test_an_open_port_is_refused",
    ),
    "extender/grpc_api/server.py",
    (
        "a Unix socket is for owner and group",
        "mask = os.umask(SOCKET_MASK) if address.path else None",
        "mask = None",
        "tests/grpc_api/test_listening.py::test_a_unix_socket_is_for_owner_and_group_and_goes_with_the_server",
    ),
)
