"""Linear algebra is kept to one thread as long as anyone asks for it, and gets its own number back."""

from threading import Event, Thread

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from allbutone.support.parallel import one_thread

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
