"""What fails while an engine works: one line, nothing written, and no credential anywhere."""

import threading
import time

import psycopg
import pytest
from test_engine_sources import clinic, one_line

from engines import PASSWORD

SLEEPS = "select pid, query_start from pg_stat_activity where wait_event = 'PgSleep'"


def asking(command, address, table):
    """Return a command on a table of the database."""
    release = ["release"] if command == "risk" else []
    more = {"synthesize": ["--out", "release"], "budget": ["--key", "person"], "risk": ["--no-mass"]}[command]
    drop = [] if command == "risk" else ["--drop", "person"]
    return [command, address, *release, "--from", table, *drop, *more]


@pytest.fixture
def slow(postgres, rng):
    """A table, and a view of it each of whose queries sleeps before it answers."""
    with psycopg.connect(postgres.address, password=PASSWORD, autocommit=True) as connection:
        connection.execute("drop view if exists slow")
        connection.execute("drop table if exists quick")
        postgres.load("quick", clinic(rng))
        connection.execute("create view slow as select quick.* from quick, (select pg_sleep(0.4)) as asleep")
    return postgres


def drop_in_query(address, number, dropped):
    """End the connection of whoever sleeps in a query, when it is the so-many-th query."""
    seen = []
    with psycopg.connect(address, password=PASSWORD, autocommit=True) as other:
        for _ in range(2000):
            for pid, begun in other.execute(SLEEPS).fetchall():
                if begun not in seen:
                    seen.append(begun)
                if len(seen) == number:
                    dropped += other.execute("select pg_terminate_backend(%s)", [pid]).fetchone()
                    return
            time.sleep(0.02)


@pytest.mark.parametrize(("command", "number"), [("synthesize", 1), ("synthesize", 2), ("budget", 3), ("risk", 4)])
def test_a_server_that_drops_the_connection_in_mid_query(command, number, slow, password, allbutone, tmp_path):
    if command == "risk":
        assert allbutone(*asking("synthesize", slow.address, "quick"))[0] == 0
    before, dropped = set(tmp_path.rglob("*")), []
    killer = threading.Thread(target=drop_in_query, args=(slow.address, number, dropped))
    killer.start()
    code, said, errors = allbutone(*asking(command, slow.address, "slow"))
    killer.join()
    assert dropped == [True]
    assert code == 2
    assert "the engine could not answer" in one_line(said, errors)
    assert set(tmp_path.rglob("*")) == before


def test_a_password_in_no_address_is_not_repeated_either(allbutone):
    for text in (f"host=db.example.org user=me password={PASSWORD}", f"db.example.org/x?password={PASSWORD}"):
        code, said, errors = allbutone("synthesize", text, "--out", "release")
        assert code == 2
        assert "holds a password" in one_line(said, errors)
