"""A scheduler extender that agrees with kube-scheduler and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Object = dict[str, Any]


def agree(verb: str, asked: Object) -> Any:
    """The answer that changes nothing: all nodes, equal scores, the proposed victims."""
    if verb == "filter":
        return {"NodeNames": asked["NodeNames"], "FailedNodes": {}}
    if verb == "prioritize":
        return [{"Host": name, "Score": 0} for name in asked["NodeNames"]]
    return {"NodeNameToMetaVictims": asked["NodeNameToMetaVictims"]}


class RecordingExtender:
    """Serves filter, prioritize and preempt on a loopback port; subclass to disagree."""

    def __init__(self) -> None:
        """Listen on a free port; serving begins on entering the context."""
        self._lock = threading.Lock()
        self._calls: list[tuple[str, Object]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                verb = self.path.strip("/").split("/")[-1]
                body = json.dumps(outer.handle(verb, asked)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing: the calls are recorded."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def handle(self, verb: str, asked: Object) -> Any:
        """Record a call and answer it."""
        with self._lock:
            self._calls.append((verb, asked))
        return self.answer(verb, asked)

    def answer(self, verb: str, asked: Object) -> Any:
        """What to answer; agreement unless a subclass says otherwise."""
        return agree(verb, asked)

    def calls(self, verb: str, pod: str | None = None) -> list[Object]:
        """Requests of one verb so far, perhaps only those about one pod."""
        with self._lock:
            asked = [each for name, each in self._calls if name == verb]
        return [each for each in asked if pod is None or each["Pod"]["metadata"]["name"] == pod]

    def __enter__(self) -> Self:
        """Serve in a thread."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
