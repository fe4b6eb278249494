"""One holder at a time: claims, takeovers, and holders that notice."""

import json
import multiprocessing
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from linsep.errors import HeldError, StateError
from linsep.learning.run import EpochEnd
from linsep.storage.lease import Lease, holders
from linsep.storage.session import Session
from tests.helpers.real_runs import contents, prepared, straight

FORK = multiprocessing.get_context("fork")


def later(seconds: float) -> Any:
    """The disk's clock, so many seconds on."""
    return lambda path: path.stat().st_mtime + seconds


def test_the_second_claimant_is_told_who_holds_it(tmp_path: Path) -> None:
    first, second = Lease(tmp_path), Lease(tmp_path, host="elsewhere/1")
    first.acquire()
    first.check()
    with pytest.raises(HeldError, match=f"another process .process {os.getpid()} on "):
        second.acquire()
    assert len(holders(tmp_path)) == 1
    first.release()
    assert not holders(tmp_path)
    second.acquire()
    second.check()
    second.release()
    assert [p.name for p in tmp_path.iterdir() if not p.name.startswith(".lock")] == []


@pytest.mark.parametrize(("silent", "free"), [(59.0, False), (61.0, True)])
def test_a_lease_elsewhere_is_dead_after_so_much_silence(
    tmp_path: Path, silent: float, free: bool
) -> None:
    holder = Lease(tmp_path, host="node1/1")
    holder.acquire()
    claimant = Lease(tmp_path, host="node2/1", stale=60.0, now=later(silent))
    if not free:
        with pytest.raises(HeldError):
            claimant.acquire()
        holder.check()
    else:
        claimant.acquire()
        claimant.check()
        with pytest.raises(StateError, match="taken over by process"):
            holder.check()
        holder.release()  # removes nothing that is not its own
        claimant.check()


def test_a_holder_shows_that_it_lives(tmp_path: Path) -> None:
    holder = Lease(tmp_path, beat=0.01)
    holder.acquire()
    (path,) = holders(tmp_path)
    os.utime(path, (0, 0))
    deadline = time.monotonic() + 10
    while holders(tmp_path)[path].seen < 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert time.time() - holders(tmp_path)[path].seen < 60
    holder.release()


def _hold(folder: Path, ready: Any) -> None:
    lease = Lease(folder)
    lease.acquire()
    ready.set()
    time.sleep(60)


def test_a_dead_process_on_this_host_frees_its_lease_at_once(tmp_path: Path) -> None:
    ready = FORK.Event()
    process = FORK.Process(target=_hold, args=(tmp_path, ready))
    process.start()
    assert ready.wait(30)
    with pytest.raises(HeldError):
        Lease(tmp_path).acquire()
    process.kill()
    process.join()
    assert len(holders(tmp_path)) == 1  # it had no time to tidy up
    lease = Lease(tmp_path)
    lease.acquire()
    (found,) = holders(tmp_path).values()
    assert found.process == os.getpid()
    # The same process id on another host says nothing about it.
    with pytest.raises(HeldError):
        Lease(tmp_path, host="elsewhere/1").acquire()
    lease.release()


@pytest.mark.parametrize("content", ["", "\0" * 90, "[" * 9000, '{"host": 1, "process": 2}'])
def test_a_lease_that_names_nobody_locks_out_nobody(tmp_path: Path, content: str) -> None:
    """A power cut leaves such a file. Its holder, were it alive, would not know it as its own."""
    (tmp_path / "lease.3").write_text(content)
    Lease(tmp_path).acquire()
    assert [path.name for path in holders(tmp_path)] == ["lease.4"]


def test_a_lease_of_this_machine_before_it_was_started_again_is_dead(tmp_path: Path) -> None:
    def lease(host: str) -> Lease:
        return Lease(tmp_path, host=host)

    before = lease("desk/first boot/machine a")
    before.acquire()
    before._lock.release()  # the power goes, and with it the lock
    for other in ("desk/second boot/machine b", "shelf/second boot/machine a", "desk/second boot"):
        with pytest.raises(HeldError):
            lease(other).acquire()
    lease("desk/second boot/machine a").acquire()
    assert [path.name for path in holders(tmp_path)] == ["lease.2"]


def _race(folder: Path, host: str, start: Any, held: Any, rounds: int) -> None:
    """Claim again and again; while holding, nobody else may."""
    start.wait(30)
    won = 0
    while won < rounds:
        lease = Lease(folder, host=host, stale=30.0)
        try:
            lease.acquire()
        except HeldError:
            time.sleep(0.001)
            continue
        with held.get_lock():
            assert held.value == 0, "two holders"
            held.value = 1
        time.sleep(0.001)
        lease.check()
        with held.get_lock():
            held.value = 0
        lease.release()
        won += 1


def test_claimants_on_many_hosts_race_and_one_wins(tmp_path: Path) -> None:
    # A dead host's lease to begin with: the first race is for taking it over.
    content = {"host": "dead/1", "process": 1, "token": "x"}
    (tmp_path / "lease.1").write_text(json.dumps(content))
    os.utime(tmp_path / "lease.1", (0, 0))
    start, held = FORK.Event(), FORK.Value("i", 0)
    racers = [
        FORK.Process(target=_race, args=(tmp_path, f"node{i}/1", start, held, 10)) for i in range(4)
    ]
    for racer in racers:
        racer.start()
    start.set()
    for racer in racers:
        racer.join(60)
    assert [racer.exitcode for racer in racers] == [0] * 4
    assert not holders(tmp_path)


def test_a_run_taken_over_goes_on_elsewhere_and_its_old_process_stops(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    slow = Session(prepared(), tmp_path)
    slow.lease = Lease(slow.folder, host="node1/1")
    with slow:
        events = iter(slow)
        for event in events:
            if isinstance(event, EpochEnd):
                break
        next(events)  # a step that it has not saved
        quick = Session(prepared(), tmp_path)
        quick.lease = Lease(quick.folder, host="node2/1", now=later(100))
        with quick:
            for _ in quick:
                pass
        with pytest.raises(StateError, match="was taken over"):
            list(events)
    assert contents(quick.folder) == expected


def test_what_was_finished_while_we_waited_is_not_done_again(whole: Path, tmp_path: Path) -> None:
    late = Session(prepared(), tmp_path)
    acquire = late.lease.acquire

    def finish_first() -> None:
        shutil.copytree(whole, late.folder, dirs_exist_ok=True)
        acquire()

    late.lease.acquire = finish_first  # type: ignore[method-assign]
    with late:
        assert late.finished
        assert list(late) == []
    assert not holders(late.folder)


def test_a_lease_left_beside_the_results_goes_when_the_command_is_repeated(finished: Path) -> None:
    """As after a SIGKILL between the last file of a run and the release of its lease."""
    process = FORK.Process(target=_die_holding, args=(finished,))
    process.start()
    process.join()
    assert holders(finished)
    assert straight(finished.parent) == finished
    assert not holders(finished)
    lease = Lease(finished, host="elsewhere/1")
    lease.acquire()
    straight(finished.parent)
    lease.check()  # alive, so it stays
    lease.release()


def _die_holding(folder: Path) -> None:
    Lease(folder).acquire()
    os._exit(1)
