"""Rights and certificates. Row 9 of docs/security.md."""

from __future__ import annotations

from tests.security.mutant import taken_out

TEST_ACCESS = "tests/server/test_access.py::"
VERDICTS = f"{TEST_ACCESS}TestTokens::test_verdicts"
PAGES = f"{TEST_ACCESS}TestPages::test_with_and_without"
TEST_TLS = "tests/server/test_tls.py::"
TEST_GRPC = "tests/grpc_api/test_listening.py::"

MUTANTS = taken_out(
    9,
    "extender/server/verb_calls.py",
    (
        "verbs are for names on the list",
        'if rules.names and rules.names.isdisjoint(scope["state"]["names"]):',
        "if False:",
        f"{TEST_TLS}TestNames::test_another_certificate_of_the_authority",
    ),
    "extender/server/certificates.py",
    (
        "callers show a certificate",
        "context.verify_mode = ssl.CERT_REQUIRED",
        "context.verify_mode = ssl.CERT_OPTIONAL",
        f"{TEST_TLS}test_client_certificates",
    ),
    (
        "a pair that is not valid now replaces none",
        "expiry = expiry_of(context, settings.tls_cert_file)",
        'expiry = float("inf")',
        f"{TEST_TLS}test_a_certificate_that_is_not_valid_now_replaces_no_good_one",
    ),
    (
        "a pair that is not valid now is not started with",
        "expiry = expiry_of(context, settings.tls_cert_file)",
        'expiry = float("inf")',
        f"{TEST_TLS}test_a_certificate_that_is_not_valid_now_is_not_started_with",
    ),
    (
        "files that cannot be used replace no pair",
        "        except InvalidInput as error:\n            if signature",
        "        except KeyError as error:\n            if signature",
        f"{TEST_TLS}test_broken_files_keep_the_old_certificate",
    ),
    (
        "a refused pair is told",
        '                self._reloaded("refused")\n',
        "",
        f"{TEST_TLS}test_a_certificate_that_is_not_valid_now_replaces_no_good_one",
    ),
    (
        "the expiry is that of the pair in use",
        "self._current, self._health, self.expiry = current, health, expiry",
        "self._current, self._health = current, health",
        f"{TEST_TLS}test_the_expiry_is_that_of_the_certificate_in_use",
    ),
    (
        "no session is resumed without the caller's certificate",
        "context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION",
        "context.options |= ssl.OP_NO_RENEGOTIATION",
        "tests/server/test_tls.py::test_no_session_is_resumed",
    ),
    (
        "TLS 1.3 has no tickets either",
        "        context.num_tickets = 0\n",
        "",
        "tests/server/test_tls.py::test_no_session_is_resumed",
    ),
    (
        "nobody renegotiates",
        "ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION",
        "ssl.OP_NO_TICKET",
        "tests/server/test_tls.py::test_nobody_renegotiates",
    ),
    "extender/server/access_rules.py",
    (
        "metrics are for tokens on a shared port",
        'metrics: Exposure = "open" if local or settings.open_metrics else "token"',
        'metrics: Exposure = "open"',
        f"{TEST_ACCESS}test_rules",
    ),
    (
        "debug is off on a shared port",
        'return "token" if settings.debug else "off"',
        'return "token"',
        f"{TEST_ACCESS}test_rules",
    ),
    (
        "debug that is on is for tokens on a shared port",
        'return "token" if settings.debug else "off"',
        'return "open" if settings.debug else "off"',
        f"{TEST_ACCESS}test_rules",
    ),
    "extender/server/authorization.py",
    (
        "every debug page asks",
        'elif path.startswith("/debug") or is_page(path):',
        'elif path == "/debug/" or is_page(path):',
        PAGES,
    ),
    ("metrics ask", "            shown = rules.metrics\n", "            pass\n", PAGES),
    "extender/server/tokens.py",
    (
        "a token is one that the API server knows (TokenReview)",
        'if status.get("authenticated") is not True:',
        "if False:",
        VERDICTS,
    ),
    (
        "its bearer may read the page (SubjectAccessReview)",
        'if status.get("allowed") is True and status.get("denied") is not True:',
        "if True:",
        VERDICTS,
    ),
    ("an authorizer's denial counts", ' and status.get("denied") is not True:', ":", VERDICTS),
    (
        "no answer is a no",
        'return Verdict(503, f"the API server cannot be asked',
        'return Verdict(200, f"the API server cannot be asked',
        f"{TEST_ACCESS}TestTokens::test_no_answer_is_a_no_that_is_not_kept",
    ),
    (
        "a yes is kept for a minute",
        "KEPT_ALLOWED_SECONDS = 60.0",
        "KEPT_ALLOWED_SECONDS = 3600.0",
        f"{TEST_ACCESS}TestTokens::test_answers_are_kept_for_a_short_while",
    ),
    (
        "no token is read in the clear",
        "    if not rules.encrypted:\n",
        "    if False:\n",
        f"{TEST_ACCESS}TestPages::test_no_token_is_read_in_the_clear",
    ),
    "extender/grpc_api/rights.py",
    (
        "gRPC: verbs are for names on the list",
        "if found.isdisjoint(self._rules.names):",
        "if False:",
        f"{TEST_GRPC}test_verbs_and_the_mirror_need_a_name_and_no_token",
    ),
    (
        "gRPC: pages ask",
        "        if verdict.status != 200:\n",
        "        if False:\n",
        f"{TEST_GRPC}test_pages_need_a_token_that_may_read_them",
    ),
    (
        "gRPC: pages are off on a shared port",
        '        if shown == "off":\n',
        "        if False:\n",
        f"{TEST_GRPC}test_pages_are_off_elsewhere_unless_asked_for",
    ),
    "extender/server/lifecycle.py",
    (
        "the expiry is a metric",
        'self._metrics.certificate("server", lambda: certificates.expiry)',
        "pass",
        f"{TEST_TLS}test_the_expiry_is_that_of_the_certificate_in_use",
    ),
    "extender/server/protocol.py",
    (
        "a caller's certificate counts until it ends",
        "if wall_clock() > self._end:",
        "if False:",
        "tests/server/test_tls.py::test_a_certificate_that_expires_on_an_open_connection",
    ),
)
