"""Exit statuses: one rule for every command (docs/cli.md has the table, a test keeps to it)."""

from __future__ import annotations

OK = 0
"""Answered, or done."""
NO = 1
"""Understood, asked, and the answer is no; each command says in its help what that means."""
BAD_INPUT = 2
"""An option, a file or a field is wrong, or standard output takes no answer; argparse's own too."""
UNREACHED = 3
"""The server, or the API server, was not reached or gave no answer."""
INTERRUPTED = 130
"""Ctrl-C, as shells count it: 128 and the signal."""

SERVER = "; 3 the server was not reached or gave no answer"


def statuses(no: str = "", *, server: bool = False, ok: str = "answered") -> str:
    """Return what a command's help says: ``no`` is what its status 1 means, if it has one."""
    answer = f"; 1 {no}" if no else ""
    return f"Exit status: 0 {ok}{answer}; 2 bad input{SERVER if server else ''}."
