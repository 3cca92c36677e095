"""The same cells and the same numbers on Ray: on one node, on two of which one dies, and after kill -9."""

from __future__ import annotations

import builtins
import socket
import threading
import time

import pytest
from tests.sweep.test_kill import kill_and_resume
from tests.sweep.test_run import values
from tests.sweep.works import cell_of, expected, ladder

from troth.core.errors import TrothError
from troth.data import load_data
from troth.store.store import Store
from troth.sweep import ray_pool
from troth.sweep.context import Context
from troth.sweep.crossing import cross
from troth.sweep.run import run


@pytest.fixture(scope="module")
def cluster():
    """One head node with two processors; tests connect to it by its address."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield cluster
    cluster.shutdown()


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_ray_gives_the_same_numbers(tmp_path, cluster, workers):
    plan = ladder(5, 3)
    store = Store(tmp_path / "run")
    outcome = run(plan, store, engine="ray", address=cluster.address, workers=workers)
    assert (outcome.computed, outcome.complete) == (20, True)
    assert values(store) == expected(plan)
    local = run(plan, Store(tmp_path / "run"))
    assert (local.computed, local.stored) == (0, 20)


@pytest.mark.full
def test_real_explanations_are_the_same_on_ray(in_workshop, cluster):
    context = Context()
    data = [load_data("data.jsonl", limit=4)]
    plan = cross(context, ["first"], data, ["leave_one_out", "integrated_gradients(steps=3)"], ["soft_sufficiency"])
    assert run(plan, Store("local"), context=context).complete
    outcome = run(plan, Store("ray"), engine="ray", address=cluster.address, workers=1, context=context)
    assert (outcome.computed, outcome.complete) == (4, True)
    local, ray = Store("local"), Store("ray")
    assert all(local.table(name).equals(ray.table(name)) for name in plan.cells)


@pytest.mark.full
def test_a_kill(tmp_path, cluster):
    kill_and_resume(tmp_path, 1, "ray", cluster.address)


@pytest.mark.full
def test_twenty_kills(tmp_path, cluster):
    kill_and_resume(tmp_path, 20, "ray", cluster.address)


@pytest.mark.full
def test_kills_of_a_ray_that_the_run_started_itself(tmp_path):
    kill_and_resume(tmp_path, 3, "ray")


@pytest.mark.full
def test_one_of_two_nodes_dies(tmp_path, cluster):
    second = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    plan = ladder(12, 4, sleep=0.05)
    store = Store(tmp_path / "run")

    def kill_the_second_when_both_are_at_work() -> None:
        while len(Store(tmp_path / "run").names()) < 15:
            time.sleep(0.02)
        cluster.remove_node(second, allow_graceful=False)

    killer = threading.Thread(target=kill_the_second_when_both_are_at_work)
    killer.start()
    outcome = run(plan, store, engine="ray", address=cluster.address, workers=4)
    killer.join()
    assert (outcome.computed, outcome.complete) == (60, True)
    assert values(store) == expected(plan)


@pytest.mark.full
def test_failed_cells_and_dead_workers_on_ray(tmp_path, cluster):

    (tmp_path / "obstacles").mkdir()
    (tmp_path / "obstacles" / "one").touch()
    plan = ladder(2, 1)
    plan.add(cell_of("dying", {"number": 3, "obstacles": str(tmp_path / "obstacles")}))
    (tmp_path / "obstacle").touch()
    broken = plan.add(cell_of("failing", {"number": 7, "obstacle": str(tmp_path / "obstacle")}))
    outcome = run(plan, Store(tmp_path / "run"), engine="ray", address=cluster.address, workers=2)
    assert outcome.computed == 5
    (failed,) = outcome.failed
    assert (failed.name, failed.error) == (broken.name, "ZeroDivisionError: division by zero")


@pytest.mark.full
def test_more_gpus_than_there_are(tmp_path, cluster):
    with pytest.raises(TrothError, match=r"each worker is to have 0\.5 GPU, but the Ray cluster has 0; lower --gpus"):
        run(ladder(1, 0), Store(tmp_path / "run"), engine="ray", address=cluster.address, gpus=0.5)


@pytest.mark.full
def test_a_cluster_without_room_is_one_line(tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(ray_pool, "_PATIENCE", 1.0)
    monkeypatch.setattr(ray_pool.RayPool, "_needed", lambda self, gpus: {"CPU": 99, "GPU": 0})
    monkeypatch.setattr(ray_pool, "RayProcess", ray_pool.RayPool)  # in this process, which has the patches
    with pytest.raises(
        TrothError, match=r"no Ray worker could start in 1 s: each needs 99 CPU .* the cluster has 2 CPU"
    ):
        run(ladder(1, 0), Store(tmp_path / "run"), engine="ray", address=cluster.address, workers=1)


@pytest.mark.full
def test_an_unreachable_cluster_is_one_line(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    for given in (address, f"ray://{address}"):
        with pytest.raises(TrothError, match=f"no Ray cluster answers at {given} .*Connection refused"):
            run(ladder(1, 0), Store(tmp_path / "run"), engine="ray", address=given)
    with pytest.raises(TrothError, match="HOST:PORT, ray://HOST:PORT or auto, not 'somewhere'"):
        run(ladder(1, 0), Store(tmp_path / "run"), engine="ray", address="somewhere")


def test_a_cluster_that_does_not_let_us_in_is_one_line(tmp_path, monkeypatch):
    import ray

    def refuse(**_options):
        raise ConnectionError("Failed to connect to Ray cluster\nand much more")

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setattr(ray_pool, "RayProcess", ray_pool.RayPool)  # in this process, which has the patches
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        address = f"127.0.0.1:{somebody.getsockname()[1]}"
        with pytest.raises(
            TrothError, match=r"refuses the connection \(Failed to connect to Ray cluster\).*RAY_AUTH_MODE"
        ):
            run(ladder(1, 0), Store(tmp_path / "run"), engine="ray", address=address)
    with pytest.raises(TrothError, match=r"no Ray cluster runs on this machine .*ray start --head"):
        run(ladder(1, 0), Store(tmp_path / "run"), engine="ray", address="auto")


def test_without_ray_the_way_to_get_it_is_told(tmp_path, monkeypatch):
    real = builtins.__import__

    def without_ray(name, *rest, **options):
        if name == "ray":
            raise ModuleNotFoundError(name, name=name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    monkeypatch.setattr(ray_pool, "RayProcess", ray_pool.RayPool)  # in this process, which has the patch
    with pytest.raises(TrothError, match=r"engine ray needs ray, which is not installed: pip install 'troth\[ray\]'"):
        run(ladder(1, 0), Store(tmp_path / "run"), engine="ray")
