"""The command that starts the app, as a process of its own: what it says, when it refuses, how it stops."""

import http.client
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from websockets.sync.client import connect


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextmanager
def started(port, *options):
    """Start the app and wait until it answers."""
    command = [sys.executable, "-m", "allbutone", "app", "--port", f"{port}", "--no-browser", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(600):
            assert process.poll() is None, process.communicate()
            try:
                answered(port)
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.communicate()


def answered(port, host="127.0.0.1"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("GET", "/explore", headers={"Host": f"{host}:{port}"})
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_at_once_even_with_a_page_open(end):
    port = free_port()
    with started(port) as process, connect(f"ws://127.0.0.1:{port}/here"):
        process.send_signal(end)
        output, errors = process.communicate(timeout=600)
    assert f"http://127.0.0.1:{port}" in output
    assert "Traceback" not in errors
    assert process.returncode in (0, 130, 143, -end)


def test_it_stops_in_the_middle_of_a_job():
    port = free_port()
    with started(port) as process:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        connection.request("GET", "/budget/budget?rows=5000")  # seconds of work
        response = connection.getresponse()
        assert b"step" in response.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=600)
        connection.close()
    assert "Traceback" not in errors
    assert process.returncode in (0, 130, -signal.SIGINT)


def test_it_answers_to_its_own_names_only_and_a_taken_port_is_said_in_a_line():
    port = free_port()
    with started(port):
        assert [answered(port, host) for host in ("localhost", "127.0.0.1", "evil.example")] == [200, 200, 421]
        command = [sys.executable, "-m", "allbutone", "app", "--port", f"{port}", "--no-browser"]
        second = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert second.returncode == 2
    assert "choose another port (--port" in " ".join(second.stderr.split())
    assert "Traceback" not in second.stderr
    assert "Ctrl-C" not in second.stdout  # it does not run, so there is nothing to stop


def test_an_address_that_others_can_reach_comes_with_a_warning():
    port = free_port()
    with started(port, "--host", "0.0.0.0") as process:
        process.send_signal(signal.SIGINT)
        errors = " ".join(process.communicate(timeout=600)[1].split())
    assert "Warning: 0.0.0.0 can be reached from other computers" in errors
