"""Workers that are Ray actors, on this machine or on the nodes of a cluster. The tasks of a lost node are repeated.

Ray runs in a separate process: when its raylet dies, Ray ends the process that called it, which must not be the user's.
That process leads a session. Everything that Ray starts on this machine belongs to the session and ends with it,
however a run ends.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import lru_cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from troth.core.errors import TrothError
from troth.core.extras import importing
from troth.sweep.context import Context
from troth.sweep.workers import Pool, Reply, Task, carry_out

_PATIENCE = 120.0  # seconds for the first worker to start
_REACH = 5.0  # seconds for a cluster to answer
_KEPT = 32  # tables kept in the cluster's memory
_GOODBYE = 15.0  # seconds for Ray to shut down by itself
_END = 5.0  # seconds for killed processes to disappear


def ray_pool(*settings: Any) -> Pool:
    """A pool of Ray workers, with the settings of RayPool; uses a Ray that the user has started in this process."""
    ray = sys.modules.get("ray")
    return RayPool(*settings) if ray is not None and ray.is_initialized() else RayProcess(*settings)


class Actor:
    """A worker on some node; Ray turns it into an actor."""

    def __init__(self, store: str, home: str, threads: int, trusted: tuple[str, ...] = ()) -> None:
        self._context, self._threads = Context(store, home, trusted), threads

    def ready(self) -> bool:
        return True

    def carry_out(self, cell: Any, *tables: bytes) -> Reply:
        return carry_out(Task(cell, tables), self._context, self._threads)


class RayPool:
    """As many actors as requested, or as fit into the cluster; an actor that dies is replaced."""

    def __init__(self, size: int | None, address: str | None, gpus: float | None, *places: Any) -> None:
        """`places` are the arguments of an actor."""
        self._ray = _ray()
        self._ours = not self._ray.is_initialized()
        if self._ours:
            _connect(self._ray, address)
        try:
            self._needs = self._needed(gpus)
        except TrothError:
            self._leave()
            raise
        there = self._ray.cluster_resources()
        self.size = size or max(1, int(min(there.get(kind, 0) / need for kind, need in self._needs.items() if need)))
        options = {"num_cpus": self._needs["CPU"], "num_gpus": self._needs["GPU"], "max_restarts": 0}
        self._make: Callable[[], Any] = lambda: self._ray.remote(Actor).options(**options).remote(*places)
        self._actors: dict[int, Any] = {}
        self._starting: dict[Any, int] = {}  # by the reference of the ready call
        self._busy: dict[Any, tuple[int, str]] = {}  # by the reference of the reply
        # Puts each table into the cluster's memory once, for all cells that are made from it.
        self._shared = lru_cache(maxsize=_KEPT)(self._ray.put)
        self._without_since = time.monotonic()
        for worker in range(self.size):
            self._start(worker)

    def idle(self) -> list[int]:
        self._note_started(0.0)
        at_work = {worker for worker, _ in self._busy.values()} | set(self._starting.values())
        return [worker for worker in self._actors if worker not in at_work]

    def submit(self, worker: int, task: Task) -> None:
        tables = [self._shared(table) for table in task.tables]
        promise = self._actors[worker].carry_out.remote(task.cell, *tables)
        self._busy[promise] = (worker, task.cell.name)

    def collect(self, timeout: float) -> list[Reply]:
        self._note_started(0.0 if self._busy else timeout)
        if not self._busy:
            self._require_a_worker()
            return []
        waited = [*self._busy, *self._starting]
        self._ray.wait(waited, num_returns=1, timeout=timeout)
        done, _ = self._ray.wait(list(self._busy), num_returns=len(self._busy), timeout=0)
        return [self._settle(promise) for promise in done]

    def close(self) -> None:
        for actor in self._actors.values():
            self._ray.kill(actor)
        self._leave()

    def _leave(self) -> None:
        if self._ours:
            self._ray.shutdown()

    def _settle(self, promise: Any) -> Reply:
        worker, name = self._busy.pop(promise)
        try:
            reply: Reply = self._ray.get(promise)
            return reply
        except self._ray.exceptions.RayError as error:
            # The actor or its node died, or its arguments cannot be sent there.
            self._start(worker)
            died = isinstance(error, self._ray.exceptions.RayActorError | self._ray.exceptions.ObjectLostError)
            return Reply(name, lost=died, error="" if died else str(error).strip().partition("\n")[0])

    def _start(self, worker: int) -> None:
        self._actors[worker] = self._make()
        self._starting[self._actors[worker].ready.remote()] = worker

    def _note_started(self, timeout: float) -> None:
        """Registers actors that have started in the meantime."""
        if not self._starting:
            return
        done, _ = self._ray.wait(list(self._starting), num_returns=1, timeout=timeout)
        if done:
            done, _ = self._ray.wait(list(self._starting), num_returns=len(self._starting), timeout=0)
        for promise in done:
            worker = self._starting.pop(promise)
            try:
                self._ray.get(promise)
            except self._ray.exceptions.RayActorError:
                self._start(worker)
            except self._ray.exceptions.RayError as error:
                raise TrothError(f"a Ray worker cannot start: {str(error).strip().splitlines()[-1]}") from None

    def _require_a_worker(self) -> None:
        if len(self._starting) < len(self._actors):
            self._without_since = time.monotonic()
        elif time.monotonic() - self._without_since > _PATIENCE:
            free = self._ray.available_resources()
            raise TrothError(
                f"no Ray worker could start in {_PATIENCE:.0f} s: each needs {self._needs['CPU']} CPU and "
                f"{self._needs['GPU']} GPU, the cluster has {free.get('CPU', 0):g} CPU, {free.get('GPU', 0):g} GPU free"
            )

    def _needed(self, gpus: float | None) -> dict[str, float]:
        there = self._ray.cluster_resources().get("GPU", 0)
        wanted = float(min(1, there)) if gpus is None else gpus
        if wanted > there:
            raise TrothError(f"each worker is to have {wanted:g} GPU, but the Ray cluster has {there:g}; lower --gpus")
        return {"CPU": 1, "GPU": wanted}


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with importing("ray", "engine ray"):
        import ray
    return ray


def _connect(ray: Any, address: str | None) -> None:
    if address not in (None, "auto", "local"):
        _reach(str(address))
    try:
        ray.init(
            address=address or "local", log_to_driver=False, include_dashboard=None if address else False,
            logging_level="error", configure_logging=True,
        )  # fmt: skip
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, ray.exceptions.RayError) as error:
        reason = str(error).strip().partition("\n")[0]
        if address in (None, "local"):
            raise TrothError(f"Ray cannot start on this machine ({reason})") from None
        if address == "auto":
            raise TrothError(
                f"no Ray cluster runs on this machine ({reason}); start one with: ray start --head"
            ) from None
        # Something accepts connections there, as `_reach` has shown.
        raise TrothError(
            f"the Ray cluster at {address} refuses the connection ({reason}); if it requires a token, "
            "set RAY_AUTH_MODE=token and the token here as well; otherwise compare the versions of Ray and Python"
        ) from None


def _reach(address: str) -> None:
    """Checks that something listens at the address, since Ray would wait for minutes."""
    host, _, port = address.partition("://")[-1 if "://" in address else 0].rpartition(":")
    if not host or not port.isdigit():
        raise TrothError(f"the address of a Ray cluster is HOST:PORT, ray://HOST:PORT or auto, not {address!r}")
    try:
        socket.create_connection((host, int(port)), timeout=_REACH).close()
    except OSError as error:
        raise TrothError(
            f"no Ray cluster answers at {address} ({error.strerror or error}); check the address: ray status"
        ) from None


class RayProcess:
    """A RayPool in another process, connected by a pipe."""

    def __init__(self, *settings: Any) -> None:
        self._connection, theirs = Pipe()
        # Ray's workers import modules from the paths of the process that calls Ray, so these are passed on.
        paths = os.pathsep.join(path for path in sys.path if path)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import serve; serve({theirs.fileno()})"],
                pass_fds=[theirs.fileno()], start_new_session=True, env={**os.environ, "PYTHONPATH": paths},
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        try:
            self.size: int = self._ask(*settings)
        except BaseException:
            self.close()
            raise

    def idle(self) -> list[int]:
        return list(self._ask("idle"))

    def submit(self, worker: int, task: Task) -> None:
        self._ask("submit", worker, task)

    def collect(self, timeout: float) -> list[Reply]:
        return list(self._ask("collect", timeout))

    def close(self) -> None:
        self._connection.close()
        try:
            self._process.wait(_GOODBYE)
        except subprocess.TimeoutExpired:
            pass  # killed below, as after a second Ctrl-C
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
                "finished cells are safe: run the same command again"
            ) from None
        if fault:
            raise RuntimeError(fault)
        if error:
            raise TrothError(error)
        return answer


def serve(handle: int) -> None:
    """The main loop of the process: answers requests until the other side closes or dies."""
    connection, pool = Connection(handle), None
    try:
        pool, error, fault = _answer(RayPool, *connection.recv())
        connection.send((None if pool is None else pool.size, error, fault))
        while pool is not None:
            name, *arguments = connection.recv()
            connection.send(_answer(getattr(pool, name), *arguments))
    except (EOFError, OSError):
        pass  # the other side has closed
    finally:
        try:
            if pool is not None:
                pool.close()
        finally:
            end_session(os.getsid(0))


def _answer(function: Callable[..., Any], *arguments: Any) -> tuple[Any, str, str]:
    """The result of the function, an error that a user can fix, and an internal error; two of the three are empty."""
    try:
        return function(*arguments), "", ""
    except TrothError as error:
        return None, str(error), ""
    except Exception as error:
        if type(error).__module__.partition(".")[0] == "ray":
            return None, f"Ray failed: {str(error).strip().partition(chr(10))[0]}", ""
        return None, "", traceback.format_exc()


def end_session(session: int) -> None:
    """Ends all other processes of a session, including those whose parent has died; works on Linux only."""
    until = time.monotonic() + _END
    while time.monotonic() < until:  # repeated because a process may start another one in the meantime
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
