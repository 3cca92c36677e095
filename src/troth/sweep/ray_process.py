"""Ray in a process of its own: when its raylet dies, Ray ends the process that called it, which must not be the user's.

That process leads a session. All that Ray starts on this machine belongs to it and ends with it, however a run ends.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from troth.core.errors import TrothError
from troth.sweep.ray_pool import RayPool
from troth.sweep.workers import Pool, Reply, Task

_GOODBYE = 15.0  # seconds for Ray to end by itself
_END = 5.0  # seconds for what was killed to be gone


def ray_pool(*settings: Any) -> Pool:
    """Ray's workers, with the settings of RayPool; a Ray that the user has started in this process stays there."""
    ray = sys.modules.get("ray")
    return RayPool(*settings) if ray is not None and ray.is_initialized() else RayProcess(*settings)


class RayProcess:
    """A RayPool at the other end of a pipe."""

    def __init__(self, *settings: Any) -> None:
        self._connection, theirs = Pipe()
        # Ray's workers find modules where we do: it passes on the paths of the process that calls it.
        paths = os.pathsep.join(path for path in sys.path if path)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())], pass_fds=[theirs.fileno()],
                start_new_session=True, env={**os.environ, "PYTHONPATH": paths},
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        try:
            self.size: int = self._ask(*settings)
        except BaseException:
            self.close()
            raise

    def idle(self) -> list[int]:
        workers: list[int] = self._ask("idle")
        return workers

    def submit(self, worker: int, task: Task) -> None:
        self._ask("submit", worker, task)

    def collect(self, timeout: float) -> list[Reply]:
        replies: list[Reply] = self._ask("collect", timeout)
        return replies

    def close(self) -> None:
        self._connection.close()
        try:
            self._process.wait(_GOODBYE)
        except subprocess.TimeoutExpired:
            pass  # killed, as after an impatient Ctrl-C
        finally:
            self._process.kill()
            self._process.wait()
            end_session(self._process.pid)

    def _ask(self, *request: Any) -> Any:
        try:
            self._connection.send(request)
            answer, error, fault = self._connection.recv()
        except (EOFError, OSError):
            raise TrothError(
                "Ray ended in the middle of the run (its raylet was killed, perhaps because memory ran out); "
                "what is finished is safe: run the same command again"
            ) from None
        if fault:
            raise RuntimeError(fault)
        if error:
            raise TrothError(error)
        return answer


def serve(connection: Connection) -> None:
    """The life of the process: requests come in, answers go out, until the other side closes or dies."""
    pool: RayPool | None = None
    try:
        pool, error, fault = _answer(RayPool, *connection.recv())
        connection.send((None if pool is None else pool.size, error, fault))
        while pool is not None:
            name, *arguments = connection.recv()
            connection.send(_answer(getattr(pool, name), *arguments))
    except (EOFError, OSError):
        pass  # closed
    finally:
        if pool is not None:
            pool.close()


def _answer(function: Callable[..., Any], *arguments: Any) -> tuple[Any, str, str]:
    """What the function returns, an error that a user can fix, a fault of ours."""
    try:
        return function(*arguments), "", ""
    except TrothError as error:
        return None, str(error), ""
    except Exception as error:
        if type(error).__module__.partition(".")[0] == "ray":
            return None, f"Ray failed: {str(error).strip().partition(chr(10))[0]}", ""
        return None, "", traceback.format_exc()


def end_session(session: int) -> None:
    """Ends all processes of a session but this one, also those whose parent has died; only Linux lists them."""
    until = time.monotonic() + _END
    while time.monotonic() < until:  # one may start another while we look
        members = [pid for pid in _members(session) if pid != os.getpid()]
        for pid in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not members:
            return
        time.sleep(0.02)


def _members(session: int) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _parent, _group, its_session = path.read_text().rpartition(")")[2].split()[:4]
            if its_session == str(session) and state not in "ZX":
                yield int(path.parent.name)


if __name__ == "__main__":
    try:
        serve(Connection(int(sys.argv[1])))
    finally:
        end_session(os.getsid(0))
