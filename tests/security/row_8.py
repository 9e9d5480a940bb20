"""What a caller can make the server hold; requests to the API server. Row 8 of docs/security.md."""

from __future__ import annotations

from tests.security.mutant import taken_out

TEST = "tests/server/test_limits.py::"
TEST_CONNECTIONS = "tests/server/test_limits.py::"
TEST_GATE = "tests/kube/test_gate.py::"
TEST_GRPC = "tests/grpc_api/test_limits.py::"
HALF_BODY = f"{TEST}TestBody::test_one_that_does_not_come"

MUTANTS = taken_out(
    8,
    "extender/server/connections.py",
    (
        "a head has its time",
        "elif place.phase is Phase.HEAD and now - place.since > limits.head_seconds:",
        "elif False:",
        f"{TEST}TestHead::test_one_that_does_not_come",
    ),
    (
        "a body has its time",
        "elif place.phase is Phase.BODY and now - place.since > limits.body_seconds:",
        "elif False:",
        HALF_BODY,
    ),
    (
        "so has a body that nobody wants",
        "if now - place.since > limits.body_seconds + BODY_SLACK_SECONDS:",
        "if False:",
        f"{TEST}TestBody::test_one_that_nobody_wants_and_that_does_not_come",
    ),
    (
        "an answer has to be read in its time",
        "elif place.stalled is not None and now - place.stalled > limits.body_seconds:",
        "elif False:",
        f"{TEST}test_an_answer_that_is_not_read",
    ),
    (
        "a TLS handshake has its time",
        '{"ssl_handshake_timeout": seconds,',
        '{"ssl_handshake_timeout": 3600.0,',
        "tests/server/test_tls.py::test_a_handshake_that_does_not_come",
    ),
    (
        "connections are bounded",
        "if len(self._places) - len(self._holding) < self.limits.connections:",
        "if True:",
        f"{TEST_CONNECTIONS}TestConnections::test_who_is_being_answered_is_not_displaced",
    ),
    (
        "half-open connections make room",
        "useless = [place for place in self._places if _useless(place)]",
        "useless: list[Place] = []",
        f"{TEST_CONNECTIONS}TestConnections::test_more_than_there_are_places",
    ),
    (
        "handshakes make room",
        "return place.phase in (Phase.HANDSHAKE, Phase.HEAD, Phase.IDLE)",
        "return place.phase in (Phase.HEAD, Phase.IDLE)",
        f"{TEST_CONNECTIONS}TestConnections::test_a_crowd_of_handshakes",
    ),
    (
        "who is being answered is not displaced",
        "useless = [place for place in self._places if _useless(place)]",
        "useless = list(self._places)",
        f"{TEST_CONNECTIONS}TestConnections::test_who_is_being_answered_is_not_displaced",
    ),
    (
        "places come back",
        "        self._places.pop(place, None)\n",
        "",
        f"{TEST_CONNECTIONS}TestConnections::test_places_come_back",
    ),
    "extender/server/protocol.py",
    (
        "connections that were answered and stay make room",
        "place.phase, place.since = Phase.IDLE, self.loop.time()\n\n    def _busy",
        "pass\n\n    def _busy",
        f"{TEST_CONNECTIONS}TestConnections::test_who_was_answered_and_stays_makes_room",
    ),
    (
        "an endless head is refused as it comes",
        "if self._head > self._held.limits.header_bytes:",
        "if False:",
        f"{TEST}TestHead::test_an_endless_one",
    ),
    (
        "a large head is refused",
        "        if size > self._held.limits.header_bytes:\n",
        "        if False:\n",
        f"{TEST}TestHead::test_a_large_one_in_one_piece",
    ),
    (
        "chunks have content",
        "if self._framing > self._held.limits.header_bytes + FRAMING * self._body:",
        "if False:",
        f"{TEST}TestBody::test_framing_without_content",
    ),
    (
        "few requests wait on one connection",
        "if len(self.pipeline) >= MAX_AHEAD:",
        "if False:",
        f"{TEST}test_requests_sent_ahead_are_few",
    ),
    "extender/server/responses.py",
    (
        "a body of a told length is refused unread",
        "if declared is not None and int(declared) > self._limit:",
        "if False:",
        "tests/server/test_verbs.py::TestBodyLimit::test_declared_length_is_refused_unread",
    ),
    (
        "a body of no told length is counted",
        "            if size > self._limit:\n",
        "            if False:\n",
        "tests/server/test_verbs.py::TestBodyLimit::test_undeclared_length_is_counted",
    ),
    ("bytes are given back", "        self._budget.give(self._held)\n", "", HALF_BODY),
    "extender/server/limits.py",
    (
        "bytes of all bodies are bounded",
        "return self.held + more <= limit",
        "return True",
        f"{TEST}TestBody::test_bytes_of_all_bodies_are_bounded",
    ),
    (
        "a quarter of them is for small bodies",
        "limit = self.limit if size <= SMALL else self.limit * 3 // 4",
        "limit = self.limit",
        f"{TEST}TestBody::test_a_small_one_is_read_beside_huge_ones",
    ),
    (
        "few calls go in each round",
        "if self._left and not self._waiting:",
        "if True:",
        "tests/server/test_turns.py::test_so_many_each_round_in_the_order_they_came",
    ),
    "extender/server/access_rules.py",
    (
        "health has a listener of its own, without verbs",
        "return _rules(settings, settings.health_host or settings.host, verbs=False)",
        "return _rules(settings, settings.health_host or settings.host, verbs=True)",
        f"{TEST_CONNECTIONS}TestHealthListener::test_it_has_health_and_no_verbs",
    ),
    "extender/server/lifecycle.py",
    (
        "/livez is answered while every place of the verbs is taken",
        "servers.append(self._server(beside, rules, health_context, HEALTH_CONNECTIONS))",
        "servers.append(self._server(beside, rules, health_context, 0))",
        f"{TEST_CONNECTIONS}TestConnections::test_who_is_being_answered_is_not_displaced",
    ),
    (
        "/livez is answered until the last call is done",
        "left = await self._drain()",
        "servers[-1].should_exit = True\n                left = await self._drain()",
        f"{TEST_CONNECTIONS}TestHealthListener::test_it_answers_until_the_last_call_is_done",
    ),
    "extender/server/app.py",
    (
        "/livez does not wait for the verbs' turns",
        "        self._requests.begin()\n        try:\n",
        (
            "        self._requests.begin()\n        try:\n"
            "            if self._load.working > 1:\n"
            "                await self._load.turns.take()\n"
        ),
        "tests/server/test_turns.py::test_verbs_wait_for_their_turn_and_probes_do_not",
    ),
    "extender/server/verb_calls.py",
    (
        "verbs take turns",
        "            if self._load.working > 1:\n                await self._load.turns.take()\n",
        "",
        "tests/server/test_turns.py::test_verbs_wait_for_their_turn_and_probes_do_not",
    ),
    "extender/kube/gate.py",
    (
        "writes to the API server have so many connections",
        "if not (self._free[Urgency.ACT] and self._free[urgency]) or not self._token():",
        "if not self._token():",
        f"{TEST_GATE}test_a_thousand_hints_leave_room_for_evictions",
    ),
    (
        "hints get half of them",
        "Urgency.HINT: settings.connections // 2,",
        "Urgency.HINT: settings.connections,",
        f"{TEST_GATE}test_a_thousand_hints_leave_room_for_evictions",
    ),
    (
        "evictions go first",
        "heapq.heappush(self._waiting, (urgency, next(self._order), future))",
        "heapq.heappush(self._waiting, (Urgency.ACT, next(self._order), future))",
        f"{TEST_GATE}test_requests_a_second",
    ),
    (
        "requests a second are bounded",
        "        if self._tokens >= 1:\n",
        "        if True:\n",
        f"{TEST_GATE}test_requests_a_second",
    ),
    (
        "the lease does not wait",
        'if method == "GET" or "/leases" in path:',
        'if method == "GET":',
        f"{TEST_GATE}test_a_thousand_hints_leave_room_for_evictions",
    ),
    "extender/kube/client.py",
    (
        "every write of the client passes the gate",
        "                self.gate.place(method, path),\n",
        "",
        f"{TEST_GATE}test_a_thousand_hints_leave_room_for_evictions",
    ),
    "extender/gang/controller/notifier.py",
    (
        "events are hints",
        "            with hint():\n",
        "            if True:\n",
        f"{TEST_GATE}test_events_wait_behind_evictions",
    ),
    "extender/server/tokens.py",
    (
        "reviews of tokens are hints",
        "            with hint():\n",
        "            if True:\n",
        f"{TEST_GATE}test_reviews_of_tokens_wait_behind_evictions",
    ),
    "extender/gang/incremental/victim_costs.py",
    (
        "what plans looked at is let go of",
        "gone = ref(unit, lambda _: kept.pop(number, None))",
        "gone = ref(unit)",
        "tests/gang/test_kept_gangs.py::test_a_cost_goes_with_its_unit",
    ),
    "extender/grpc_api/message_reading.py",
    (
        "gRPC: a message has its time",
        "async with asyncio.timeout(limits.seconds):",
        "async with asyncio.timeout(None):",
        f"{TEST_GRPC}test_a_message_that_does_not_come",
    ),
    (
        "gRPC: messages share the budget of bodies",
        "await limits.budget.room(limits.size)\n                self._held = limits.size\n",
        "pass\n",
        f"{TEST_GRPC}test_bytes_being_read_are_taken_from_the_budget_of_http",
    ),
    "extender/grpc_api/calls.py",
    (
        "gRPC: calls are bounded",
        "                if self.working >= self._max_calls:\n",
        "                if False:\n",
        f"{TEST_GRPC}test_a_message_that_nobody_wants_is_not_read",
    ),
    (
        "gRPC: watches of health are bounded",
        "                if taken >= most:\n",
        "                if False:\n",
        f"{TEST_GRPC}test_watchers_of_health_keep_nobody_out",
    ),
    "extender/grpc_api/server.py",
    (
        "gRPC: messages are not unpacked",
        (
            '                ("grpc.compression_enabled_algorithms_bitset", IDENTITY),\n'
            '                ("grpc.per_message_decompression", 0),\n'
        ),
        "",
        f"{TEST_GRPC}test_nothing_is_unpacked",
    ),
    (
        "gRPC: headers are bounded",
        '                ("grpc.absolute_max_metadata_size", settings.server.max_header_bytes),\n',
        '                ("grpc.absolute_max_metadata_size", 1 << 20),\n',
        f"{TEST_GRPC}test_headers_are_bounded",
    ),
    (
        "gRPC: connections are bounded",
        '("grpc.max_allowed_incoming_connections", settings.server.max_connections),\n',
        "\n",
        f"{TEST_GRPC}test_connections_are_bounded_and_places_come_back",
    ),
    (
        "gRPC: a handshake has its time",
        '("grpc.server_handshake_timeout_ms", int(settings.server.head_seconds * 1000)),\n',
        "\n",
        f"{TEST_GRPC}test_a_connection_that_says_nothing_is_closed",
    ),
)
