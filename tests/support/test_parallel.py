"""Work in threads gives what work in turn gives; linear algebra keeps to one thread meanwhile."""

import os
import time
from threading import Barrier, Event, Thread, current_thread

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

import allbutone as abo
from allbutone.support import parallel
from allbutone.support.parallel import cores, in_parallel, one_thread

TWO = 2  # what the process is set to before


def numbers():
    return {room["num_threads"] for room in ThreadpoolController().select(user_api="blas").info()}


@pytest.fixture
def _two():
    np.eye(2) @ np.eye(2)  # a library counts once it is loaded
    with threadpool_limits(TWO, user_api="blas"):
        assert numbers() == {TWO}  # or the limit could not be seen
        yield


@pytest.mark.usefixtures("_two")
def test_two_that_overlap_keep_the_limit_until_both_have_left():
    inside, leave = Event(), Event()
    seen = []

    def second():
        with one_thread():
            inside.set()
            leave.wait(10)
            seen.append(numbers())

    other = Thread(target=second)
    with one_thread():
        other.start()
        assert inside.wait(10)
        assert numbers() == {1}
    assert numbers() == {1}
    leave.set()
    other.join()
    assert seen == [{1}]
    assert numbers() == {TWO}


@pytest.mark.usefixtures("_two")
def test_one_within_another_and_an_error_restore_the_former_number():
    with one_thread():
        with one_thread():
            assert numbers() == {1}
        assert numbers() == {1}
    assert numbers() == {TWO}
    with pytest.raises(np.linalg.LinAlgError), one_thread():
        np.linalg.inv(np.zeros((2, 2)))
    assert numbers() == {TWO}


def test_results_keep_the_order_of_the_items_and_the_caller_watches():
    """The first item is finished last; `watch` sees it last, and it still comes first."""
    both, seen, second = Barrier(2), [], Event()

    def work(number):
        both.wait(10)
        if number == 0:
            assert second.wait(10)
        return number, current_thread()

    def watch(result):
        seen.append((result[0], current_thread()))
        if result[0] == 1:
            second.set()

    found = in_parallel(work, iter([0, 1]), threads=2, watch=watch)
    assert [number for number, _ in found] == [0, 1]
    assert seen == [(1, current_thread()), (0, current_thread())]
    assert len({thread for _, thread in found} - {current_thread()}) == 2


def test_the_first_error_is_passed_on_and_nothing_begins_after_it():
    begun = []

    def work(number):
        begun.append(number)
        if number == 1:
            raise KeyError("one")
        time.sleep(0.01)

    with pytest.raises(KeyError, match="one"):
        in_parallel(work, range(1000), threads=2)
    assert len(begun) < 500

    begun.clear()
    with pytest.raises(RuntimeError, match="enough"):
        in_parallel(work, range(2, 1000), threads=2, watch=_give_up)
    assert len(begun) < 500


def _give_up(_):
    raise RuntimeError("enough")


@pytest.mark.usefixtures("_two")
@pytest.mark.parametrize("threads", [1, 3])
def test_inside_a_worker_there_are_no_further_threads_and_linear_algebra_has_one(threads):
    def inner(_):
        return current_thread(), numbers()

    def outer(_):
        return current_thread(), in_parallel(inner, range(4), threads=4)

    for thread, found in in_parallel(outer, range(6), threads=threads):
        if threads > 1:
            assert {each for each, _ in found} == {thread}
        assert all(inside == {1} for _, inside in found)
    assert numbers() == {TWO}


def test_nothing_to_do_is_done():
    assert in_parallel(_give_up, []) == []


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not tell which cores")
def test_the_cores_are_those_the_process_may_use():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert cores() == len(allowed)


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_every_digit_is_the_same_on_any_number_of_cores(kind, monkeypatch):
    cohort = abo.demo_cohort()
    fields = ("mode", "other_mode", "log_posterior_gap", "covariance", "status")
    found = []
    for number in (1, 2, 3, 5):
        monkeypatch.setattr(parallel, "cores", lambda number=number: number)
        prior, rng = abo.NIW.default(5), np.random.default_rng(1)
        posterior = prior.update(cohort.values)
        if kind == "parameters":
            release = abo.Release.draw_parameters(posterior, 7, rng, columns=abo.demo_cohort().columns)
        else:
            release = abo.Release.draw(posterior, [200] * 5, rng, columns=abo.demo_cohort().columns)
        attack = abo.attack(cohort, release, rows="all", prior=prior)
        found.append([np.asarray(getattr(attack, field)) for field in fields])
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)
