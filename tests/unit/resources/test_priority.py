"""A replica's priority, tried on a process of its own: a thread that is low may have to stay low."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.resources import priority

REPO = Path(__file__).parents[3]
NICE = 7
by_session = pytest.mark.skipif(
    priority.session_nice() is None, reason="this kernel does not share the CPU out by session"
)

# Reports the nice values of the main thread, a thread, one that is born while priorities are raised,
# and a child: after `lower`, and after `restore`.
FAMILY = """
import json, os, subprocess, sys, threading
import psutil
from holdfast.resources import priority

os.setpriority(os.PRIO_PROCESS, 0, int(sys.argv[1]))
priority.lower(int(sys.argv[2]))
go, born, over = threading.Event(), threading.Event(), threading.Event()
threads = []

def wait():
    born.set()
    over.wait()

def bear():
    go.wait()
    threads.append(threading.Thread(target=wait))
    threads[-1].start()
    over.wait()

threads.append(threading.Thread(target=bear))
threads[0].start()
child = subprocess.Popen(["sleep", "60"])
listed = psutil.Process.threads

def and_then_one_more(process):
    found = listed(process)
    go.set()
    assert born.wait(10.0)
    return found

def nices():
    return [os.getpriority(os.PRIO_PROCESS, i) for i in (0, child.pid, *(t.native_id for t in threads))]

psutil.Process.threads = and_then_one_more
lowered = nices()
priority.restore()
print(json.dumps([lowered, nices()]))
go.set()
over.set()
child.kill()
child.wait()
"""

ORDINARY = """
import json, os, resource, sys
from holdfast.resources import priority

resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
if os.getuid() == 0:
    os.setuid(65534)
nices = [os.getpriority(os.PRIO_PROCESS, 0)]
priority.lower(int(sys.argv[1]))
nices.append(os.getpriority(os.PRIO_PROCESS, 0))
priority.restore()
nices.append(os.getpriority(os.PRIO_PROCESS, 0))
print(json.dumps(nices))
"""


def reported(script: str, *arguments: int, leads: bool = False) -> Any:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(
        command,
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        start_new_session=leads,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def this() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


@pytest.mark.skipif(not priority.may_be_raised(), reason="this user may not raise a priority")
@pytest.mark.parametrize("usual", [3, 15])
def test_threads_and_children_get_the_priority_back_that_they_had(usual: int) -> None:
    usual = max(usual, this())
    lowered, restored = reported(FAMILY, usual, NICE)
    assert set(lowered) == {max(usual, NICE)}
    assert set(restored) == {usual}
    assert len(restored) == (4 if usual < NICE else 3)


def test_a_user_who_may_not_raise_it_again_keeps_it() -> None:
    before, lowered, restored = reported(ORDINARY, NICE)
    assert before == lowered == restored


def test_asking_leaves_this_thread_unchanged() -> None:
    before = this()
    priority.may_be_raised()
    assert this() == before


# Reports the nice value of its session: before, after `lower`, and after `restore`.
LEADER = """
import ctypes, json, os, resource, sys
from holdfast.resources import priority

resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
if os.getuid() != int(sys.argv[2]):
    os.setuid(int(sys.argv[2]))
    ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE: its files in /proc are its own again
reported = [priority.session_nice()]
priority.lower(int(sys.argv[1]))
reported.append(priority.session_nice())
priority.restore()
print(json.dumps([*reported, priority.session_nice()]))
"""


@by_session
@pytest.mark.parametrize("user", [0, 65534] if os.getuid() == 0 else [os.getuid()])
def test_the_session_that_a_replica_leads_gives_way_to_others_as_any_user(user: int) -> None:
    nice = max(NICE, this() + 1)
    assert reported(LEADER, nice, user, leads=True) == [0, nice, 0]


@by_session
def test_the_session_of_another_user_is_left_alone() -> None:
    before = priority.session_nice()
    assert reported(LEADER, NICE, os.getuid()) == [before] * 3


TIMED = """
import json, os, sys, threading
from holdfast.resources import priority

before = os.getpriority(os.PRIO_PROCESS, 0)
restored, over = priority.restore, threading.Event()
priority.restore = lambda: (restored(), over.set())
priority.lower(int(sys.argv[1]), seconds=0.05)
lowered = os.getpriority(os.PRIO_PROCESS, 0)
assert over.wait(10.0)
print(json.dumps([before, lowered, os.getpriority(os.PRIO_PROCESS, 0)]))
"""


@pytest.mark.skipif(not priority.may_be_raised(), reason="this user may not raise a priority")
def test_what_gives_way_for_a_time_does_so_no_more_after_it() -> None:
    before, lowered, after = reported(TIMED, max(NICE, this() + 1))
    assert lowered > before == after
