"""Rights and certificates. Row 9 of docs/security.md."""

from __future__ import annotations

from tests.security.mutant import Mutant

ROW = 9
AUTHORIZATION = "extender/server/authorization.py"
VERB_CALLS = "extender/server/verb_calls.py"
RULES = "extender/server/access_rules.py"
TOKENS = "extender/server/tokens.py"
TLS = "extender/server/certificates.py"
RIGHTS = "extender/grpc_api/rights.py"
TEST_ACCESS = "tests/server/test_access.py::"
VERDICTS = f"{TEST_ACCESS}TestTokens::test_verdicts"
PAGES = f"{TEST_ACCESS}TestPages::test_with_and_without"
TEST_TLS = "tests/server/test_tls.py::"
TEST_GRPC = "tests/grpc_api/test_rights.py::"

MUTANTS = (
    Mutant(
        ROW,
        "verbs are for names on the list",
        VERB_CALLS,
        'if rules.names and rules.names.isdisjoint(scope["state"]["names"]):',
        "if False:",
        f"{TEST_TLS}TestNames::test_another_certificate_of_the_authority",
    ),
    Mutant(
        ROW,
        "callers show a certificate",
        TLS,
        "context.verify_mode = ssl.CERT_REQUIRED",
        "context.verify_mode = ssl.CERT_OPTIONAL",
        f"{TEST_TLS}test_client_certificates",
    ),
    Mutant(
        ROW,
        "metrics are for tokens on a shared port",
        RULES,
        'metrics: Exposure = "open" if local or settings.open_metrics else "token"',
        'metrics: Exposure = "open"',
        f"{TEST_ACCESS}test_rules",
    ),
    Mutant(
        ROW,
        "debug is off on a shared port",
        RULES,
        'return "token" if settings.debug else "off"',
        'return "token"',
        f"{TEST_ACCESS}test_rules",
    ),
    Mutant(
        ROW,
        "debug that is on is for tokens on a shared port",
        RULES,
        'return "token" if settings.debug else "off"',
        'return "open" if settings.debug else "off"',
        f"{TEST_ACCESS}test_rules",
    ),
    Mutant(
        ROW,
        "every debug page asks",
        AUTHORIZATION,
        'elif path.startswith("/debug") or is_page(path):',
        'elif path == "/debug/" or is_page(path):',
        PAGES,
    ),
    Mutant(
        ROW,
        "metrics ask",
        AUTHORIZATION,
        "            shown = rules.metrics\n",
        "            pass\n",
        PAGES,
    ),
    Mutant(
        ROW,
        "a token is one that the API server knows (TokenReview)",
        TOKENS,
        'if status.get("authenticated") is not True:',
        "if False:",
        VERDICTS,
    ),
    Mutant(
        ROW,
        "its bearer may read the page (SubjectAccessReview)",
        TOKENS,
        'if status.get("allowed") is True and status.get("denied") is not True:',
        "if True:",
        VERDICTS,
    ),
    Mutant(
        ROW,
        "an authorizer's denial counts",
        TOKENS,
        ' and status.get("denied") is not True:',
        ":",
        VERDICTS,
    ),
    Mutant(
        ROW,
        "no answer is a no",
        TOKENS,
        'return Verdict(503, f"the API server cannot be asked',
        'return Verdict(200, f"the API server cannot be asked',
        f"{TEST_ACCESS}TestTokens::test_no_answer_is_a_no_that_is_not_kept",
    ),
    Mutant(
        ROW,
        "a yes is kept for a minute",
        TOKENS,
        "KEPT_ALLOWED_SECONDS = 60.0",
        "KEPT_ALLOWED_SECONDS = 3600.0",
        f"{TEST_ACCESS}TestTokens::test_answers_are_kept_for_a_short_while",
    ),
    Mutant(
        ROW,
        "no token is read in the clear",
        TOKENS,
        "    if not rules.encrypted:\n",
        "    if False:\n",
        f"{TEST_ACCESS}TestPages::test_no_token_is_read_in_the_clear",
    ),
    Mutant(
        ROW,
        "gRPC: verbs are for names on the list",
        RIGHTS,
        "if found.isdisjoint(self._rules.names):",
        "if False:",
        f"{TEST_GRPC}test_verbs_and_the_mirror_need_a_name_and_no_token",
    ),
    Mutant(
        ROW,
        "gRPC: pages ask",
        RIGHTS,
        "        if verdict.status != 200:\n",
        "        if False:\n",
        f"{TEST_GRPC}test_pages_need_a_token_that_may_read_them",
    ),
    Mutant(
        ROW,
        "gRPC: pages are off on a shared port",
        RIGHTS,
        '        if shown == "off":\n',
        "        if False:\n",
        f"{TEST_GRPC}test_pages_are_off_elsewhere_unless_asked_for",
    ),
    Mutant(
        ROW,
        "a pair that is not valid now replaces none",
        TLS,
        "expiry = expiry_of(context, settings.tls_cert_file)",
        'expiry = float("inf")',
        f"{TEST_TLS}test_a_certificate_that_is_not_valid_now_replaces_no_good_one",
    ),
    Mutant(
        ROW,
        "a pair that is not valid now is not started with",
        TLS,
        "expiry = expiry_of(context, settings.tls_cert_file)",
        'expiry = float("inf")',
        f"{TEST_TLS}test_a_certificate_that_is_not_valid_now_is_not_started_with",
    ),
    Mutant(
        ROW,
        "files that cannot be used replace no pair",
        TLS,
        "        except InvalidInput as error:\n            if signature",
        "        except KeyError as error:\n            if signature",
        f"{TEST_TLS}test_broken_files_keep_the_old_certificate",
    ),
    Mutant(
        ROW,
        "a refused pair is told",
        TLS,
        '                self._reloaded("refused")\n',
        "",
        f"{TEST_TLS}test_a_certificate_that_is_not_valid_now_replaces_no_good_one",
    ),
    Mutant(
        ROW,
        "the expiry is a metric",
        "extender/server/lifecycle.py",
        'self._metrics.certificate("server", lambda: certificates.expiry)',
        "pass",
        f"{TEST_TLS}test_the_expiry_is_that_of_the_certificate_in_use",
    ),
    Mutant(
        ROW,
        "the expiry is that of the pair in use",
        TLS,
        "self._current, self._health, self.expiry = current, health, expiry",
        "self._current, self._health = current, health",
        f"{TEST_TLS}test_the_expiry_is_that_of_the_certificate_in_use",
    ),
    Mutant(
        ROW,
        "a caller's certificate counts until it ends",
        "extender/server/protocol.py",
        "if wall_clock() > self._end:",
        "if False:",
        "tests/server/test_hostile_tls.py::test_a_certificate_that_expires_on_an_open_connection",
    ),
    Mutant(
        ROW,
        "no session is resumed without the caller's certificate",
        TLS,
        "context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION",
        "context.options |= ssl.OP_NO_RENEGOTIATION",
        "tests/server/test_hostile_tls.py::test_no_session_is_resumed",
    ),
    Mutant(
        ROW,
        "TLS 1.3 has no tickets either",
        TLS,
        "        context.num_tickets = 0\n",
        "",
        "tests/server/test_hostile_tls.py::test_no_session_is_resumed",
    ),
    Mutant(
        ROW,
        "nobody renegotiates",
        TLS,
        "ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION",
        "ssl.OP_NO_TICKET",
        "tests/server/test_hostile_tls.py::test_nobody_renegotiates",
    ),
)
