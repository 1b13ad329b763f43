"""The process behind `Snapshot`: prepares a lab once, then forks a child for every answer.

One JSON object per line on stdin and on the original stdout. It runs on the learner's light installation and runs no parallel
operator before forking, so that a child never inherits a pool of threads.
"""

from __future__ import annotations

import builtins
import doctest
import json
import os
import resource
import select
import signal
import sys
import time
import traceback

MAX_REPLY = 32 * 2**20
"""Bytes of outcomes that one answer may return."""


def prepare(cells: list[dict]) -> tuple[dict, dict[str, set[str]]]:
    """Namespace after the given cells ({"id", "source"}) ran in order, and the names that each cell was the last to bind.

    Raises RuntimeError naming the cell that failed.
    """
    from IPython.core.inputtransformer2 import TransformerManager
    from IPython.display import display

    def no_magic():
        raise RuntimeError(
            'a snapshot has no IPython session: magics that run (outside a guard such as `if "google.colab" in sys.modules`) are not possible'
        )

    namespace = {"__name__": "__main__", "__builtins__": builtins, "display": display, "get_ipython": no_magic}
    binds: dict[str, set[str]] = {}
    for cell in cells:
        before = dict(namespace)
        code = TransformerManager().transform_cell(cell["source"])
        try:
            exec(compile(code, f"<cell {cell['id']}>", "exec"), namespace)
        except BaseException as error:
            raise RuntimeError(
                f"cell {cell['id']} failed while the snapshot was prepared: {type(error).__name__}: {error}"
            ) from error
        new = {name for name, value in namespace.items() if name not in before or before[name] is not value}
        for names in binds.values():
            names -= new
        binds[cell["id"]] = new
    return namespace, binds


def answer(namespace: dict, binds: dict[str, set[str]], request: dict) -> dict:
    """Runs one answer in this process: {"doctest": ..., "outcomes": [...]} or {"error": ...}.

    binds: from `prepare`. What the exercise's own solution defined is taken away first, or an answer could do without defining it.
    """
    from labkit.checks.protocol import Case, run_case
    from labkit.guard import checking

    name, reply = request["function"], {}
    for bound in binds.get(request["exercise"], ()):
        namespace.pop(bound, None)
    try:
        exec(compile(request["code"], "<answer>", "exec"), namespace)
    except BaseException as error:
        return {"error": f"the answer's cell raised {type(error).__name__}: {error}"}
    function = namespace.get(name)
    if not callable(function):
        return {"error": f"the answer defines no function `{name}`"}
    if request.get("examples"):
        reply["doctest"] = run_examples(request["examples"], namespace, name)
    with checking(request["exercise"]):
        reply["outcomes"] = [run_case(Case.from_json(case), function) for case in request["cases"]]
    return reply


def run_examples(docstring: str, namespace: dict, name: str) -> dict:
    """Runs the docstring's examples on the answer: {"attempted", "failed", "text"}."""
    text: list[str] = []
    test = doctest.DocTestParser().get_doctest(docstring, dict(namespace), name, None, 0)
    result = doctest.DocTestRunner(verbose=False).run(test, out=text.append)
    return {"attempted": result.attempted, "failed": result.failed, "text": "".join(text)[-2000:]}


def fork_and_run(namespace: dict, binds: dict[str, set[str]], request: dict, channel: int) -> dict:
    """`answer` in a forked child with limits. What the child does to itself is a result: {"died"}, {"timed_out"}.

    channel: descriptor of the replies to the parent, which the child does not get.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setsid()
            os.close(read_end)
            os.close(channel)
            silence()
            limit = request["memory_bytes"]
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            data = json.dumps(answer(namespace, binds, request)).encode()
            if len(data) > MAX_REPLY:
                data = json.dumps(
                    {"error": f"the answer returned {len(data)} bytes of values, at most {MAX_REPLY} are read"}
                ).encode()
            view = memoryview(data)
            while view:
                view = view[os.write(write_end, view) :]
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(write_end)
    try:
        data, timed_out = read_until(read_end, time.monotonic() + request["timeout_s"])
    finally:
        os.close(read_end)
        try:
            os.killpg(child, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        _, status = os.waitpid(child, 0)
    if timed_out:
        return {"timed_out": request["timeout_s"]}
    try:
        return json.loads(data)
    except ValueError:
        return {"died": os.waitstatus_to_exitcode(status)}


def read_until(descriptor: int, deadline: float) -> tuple[bytes, bool]:
    """Everything until the other end closes: (data, whether the time ran out first)."""
    chunks = []
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return b"".join(chunks), True
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            return b"".join(chunks), False
        chunks.append(chunk)


def silence() -> None:
    """What an answer prints goes nowhere: the channel to the parent is not its output."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def main() -> int:
    """Reads requests until stdin closes."""
    requests, channel = sys.stdin, os.fdopen(os.dup(1), "w")
    sys.stdin = open(os.devnull)
    os.dup2(2, 1)  # what the set-up cell prints must not look like a reply

    def reply(value: dict) -> None:
        channel.write(json.dumps(value) + "\n")
        channel.flush()

    try:
        namespace, binds = prepare(json.loads(requests.readline())["cells"])
    except (RuntimeError, ValueError, KeyError) as error:
        reply({"error": str(error)})
        return 1
    reply({"ready": True})
    for line in requests:
        reply(fork_and_run(namespace, binds, json.loads(line), channel.fileno()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
