"""Files that try to be tables: no value becomes a name, nothing too large is read, nothing ends in a traceback."""

import random
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import allbutone as abo
from allbutone.model.prior import read_prior
from allbutone.tables.files import LIMITS, Limits, read_table
from allbutone.tables.names import reads_as_data


def refused(message):
    return pytest.raises(abo.InputError, match=f"^(?!.*\n).*{message}")


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# names


VALUES = [
    *("51.5", "3", "-1.2", "+7", "1e5", "1.5E-3", "1,5", "1.234,5", "1'234", "0x1F", "12 %", "€ 5", "١٢"),
    *("NA", "NaN", "nan", "null", "#N/A", "inf", "-Infinity", "None", "-", ".", "?"),
    *("2024-01-31", "31.12.2024", "1/2/24", "12:30", "2024-01-31T12:00:00Z", "2024-01-31 12:00", "31-Jan-2024"),
    *("Jan 31, 2024", "31. März 2024", "5 PM", "20240131"),
    *("1.2.1", "3.1", "NA.1", "51.5_duplicated_0", "X51.5", '"51.5"', " 7 "),
]
NAMES = [
    "age",
    "x1",
    "T2D",
    "HBA1C",
    "Na",
    "K",
    "24h",
    "May",
    "BMI²",
    "λ",
    "年齢",
    "info",
    "q25",
    "ldl.1",
    "e1",
    "Nan_1",
]


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_no_name(tmp_path, name):
    assert reads_as_data(name)
    for table in (pd.DataFrame({"a": [1.5, 2.0], name: [2.0, 3.5]}), pa.table({name: [2.0, 3.5]})):
        with refused("reads as a value|holds quotes"):
            abo.Records.of(table)
    with refused("reads as a value|holds quotes"):
        abo.Release.of([np.eye(2)], columns=("a", name))
    with refused("reads as a value|holds quotes"):
        abo.Records(np.eye(2), ("a", name))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_no_value(name):
    assert not reads_as_data(name)
    assert abo.Records.of(pd.DataFrame({name: [2.0, 3.5]})).columns == (name,)


HEADERLESS = [
    "51.5,3,-1\n42,4,2\n37.25,2,7\n",
    '"51.5";"3";"-1"\n42;4;2\n37.25;2;7\n',
    "51,5;3;-1\n42,0;4;2\n37,25;2;7\n",
]


@pytest.mark.parametrize("text", [*HEADERLESS, "51.5,51.5,NA\n1,2,3\n2,3,9\n", "bmi,3,-1\n42,4,2\n37,2,7\n"])
def test_a_file_without_a_header_is_refused_with_the_cure(tmp_path, text):
    path = write(tmp_path / "t.csv", text)
    with refused("reads as a value") as caught:
        abo.Records.of(path)
    assert ("header", False) in [(cure.argument, cure.value) for cure in caught.value.cures]


@pytest.mark.parametrize("text", HEADERLESS)
def test_a_file_without_a_header_is_read_if_that_is_said(tmp_path, text):
    path = write(tmp_path / "t.csv", text)
    values = [[51.5, 3, -1], [42, 4, 2], [37.25, 2, 7]]
    records = abo.Records.of(path, header=False)
    assert records.columns == ("x1", "x2", "x3")
    np.testing.assert_array_equal(records.values, values)
    named = abo.Records.of(path, header=False, columns="bmi, ldl,hdl", drop="ldl")
    assert named.columns == ("bmi", "hdl")
    np.testing.assert_array_equal(named.values, np.delete(values, 1, axis=1))
    with refused("3 columns and no header, and 2 names"):
        abo.Records.of(path, header=False, columns=["bmi", "ldl"])
    with refused("looks like an identifier"):  # all columns had to be named, so being named is no word for it
        abo.Records.of(path, header=False, columns=["id", "ldl", "hdl"])


def test_only_text_files_are_without_a_header(tmp_path):
    pyarrow.parquet.write_table(pa.table({"a": [1.0, 2.5]}), tmp_path / "t.parquet")
    with refused("always names its columns"):
        abo.Records.of(tmp_path / "t.parquet", header=False)
    with refused("only a file"):
        abo.Records.of(np.eye(2), header=False)


# records built directly


@pytest.mark.parametrize(
    ("values", "names", "message"),
    [
        ([[1.0, np.nan], [2.0, 3.0]], ("a", "b"), "'b' misses 1 of 2 values, the first in row 1"),
        ([[1.0, 2.0], [-np.inf, 3.0]], ("a", "b"), "'a' holds -inf in row 2"),
        ([[1.0, 2.0], [1e71, 3.0]], ("a", "b"), r"'a' holds 1e\+71 in row 2"),
        ([[1.0, 2.0]], ("a",), r"1 names .* shape \(1, 2\)"),
        ([[1.0, 2.0]], ("a", "a"), "appears 2 times"),
        ([[1.0, 2.0]], ("a", "<b>"), "markup"),
        (np.ones((0, 2)), ("a", "b"), "no rows"),
    ],
)
def test_records_built_directly_are_checked(values, names, message):
    with refused(message):
        abo.Records(np.array(values), names)


def test_missing_records_are_said_to_be_missing():
    moments = abo.Moments(3.0, np.array([np.nan]), np.eye(1))
    with refused("records.* hold values that are missing"):
        abo.NIW.default(1).update(moments)


# size


def read_in_little_memory(path, limits=""):
    """Read a file in a process of its own; return its words and how many megabytes that took."""
    code = (
        "import resource, sys\nfrom pathlib import Path\nimport allbutone as abo\n"
        "from allbutone.tables.files import read_table\nfrom allbutone.tables.files import Limits\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"try:\n    read_table(Path({str(path)!r}), {limits})\n"
        "except abo.InputError as error:\n    print(error)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    words, megabytes = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return words, int(megabytes)


def test_a_small_file_that_holds_a_large_table_is_not_read(tmp_path):
    part = pa.table({"a": np.zeros(5_000_000)})
    with pyarrow.parquet.ParquetWriter(tmp_path / "t.parquet", part.schema) as writer:
        for _ in range(8):
            writer.write_table(part)
    assert (tmp_path / "t.parquet").stat().st_size < 300_000
    words, megabytes = read_in_little_memory(tmp_path / "t.parquet", "limits=Limits(10, 30_000_000, 10**12)")
    assert "holds 40,000,000 values, and at most 30,000,000 are read" in words
    assert megabytes < 100


def test_a_long_text_that_rows_share_is_held_once(tmp_path):
    text = pa.DictionaryArray.from_arrays(np.zeros(100_000, np.int32), pa.array(["x" * 100_000]))
    pyarrow.parquet.write_table(pa.table({"t": text}), tmp_path / "t.parquet", store_schema=False)
    assert read_table(tmp_path / "t.parquet").nbytes < 10_000_000
    with refused("'t' is not numeric: row 1 holds 'xxx"):
        abo.Records.of(tmp_path / "t.parquet")


def test_lists_are_not_read(tmp_path):
    lists = pa.ListArray.from_arrays([0, 5000, 10_000], pa.array(np.zeros(10_000)))
    pyarrow.parquet.write_table(pa.table({"t": lists}), tmp_path / "t.parquet")
    with refused("'t' of t.parquet holds lists"):
        read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_very_many_columns_are_not_read(tmp_path, kind):
    names = [f"c{place}" for place in range(20_000)]
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        lines = [names, ["1.5"] * len(names), ["2.5"] * len(names)]
        write(path, "\n".join(",".join(line) for line in lines))
    else:
        pyarrow.parquet.write_table(pa.Table.from_arrays([pa.array([1.0, 2.0])] * len(names), names=names), path)
    words, megabytes = read_in_little_memory(path)
    assert f"20,000 columns, and at most {LIMITS.columns:,} are read" in words
    assert megabytes < 200


def test_a_footer_without_end_is_not_read(tmp_path):
    write(tmp_path / "t.parquet", b"PAR1" + bytes(20_000_000) + (20_000_000).to_bytes(4, "little") + b"PAR1")
    with refused("too many columns and groups of rows"):
        read_table(tmp_path / "t.parquet")


def test_text_is_counted_before_it_is_read(tmp_path):
    path = write(tmp_path / "t.csv", "a,b\n" + "1,2\n" * 1000)
    with refused("holds 2,002 values, and at most 2,000"):
        read_table(path, limits=Limits(10, 2000, 10**9))
    with refused("GB of memory"):
        read_table(path, limits=Limits(10, 10_000, 10_000))
    with refused("2 columns, and at most 1 are read"):
        read_table(path, limits=Limits(1, 10_000, 10**9))
    write(path, '"' + "x" * 17_000_000)
    with refused("first line of more than"):
        read_table(path)


# what is not clean


def test_dates_beyond_pythons_are_refused_in_words(tmp_path):
    for kind in (pa.timestamp("us"), pa.date32(), pa.date64(), pa.duration("s"), pa.time64("us")):
        width = 4 if kind == pa.date32() else 8
        data = pa.py_buffer(np.full(2, 2 ** (8 * width - 2), f"i{width}").tobytes())
        column = pa.Array.from_buffers(kind, 2, [None, data])
        with refused("'t' (holds dates or times|is not numeric)"):
            abo.Records.of(pa.table({"t": column}))
        if kind in (pa.timestamp("us"), pa.date32()):
            pyarrow.parquet.write_table(pa.table({"t": column}), tmp_path / "t.parquet")
            with refused("'t' (holds dates or times|is not numeric)"):
                abo.Records.of(tmp_path / "t.parquet")


def test_text_that_is_not_utf8_is_refused_in_words(tmp_path):
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pa.table({"qqq": ["www", "vvv"]}), path, store_schema=False, compression="none")
    content = path.read_bytes()
    with refused("'qqq' is not numeric: row 1"):
        abo.Records.of(write(path, content.replace(b"www", b"w\xffw")))
    with refused("column name that is not UTF-8"):
        abo.Records.of(write(path, content.replace(b"qqq", b"q\xffq")))
    with refused("holds quotes, line breaks"):
        (abo.Records(np.eye(2), ("a", "b\udcff")))


def test_names_of_files_need_not_be_utf8(tmp_path):
    odd = tmp_path / "r\udcff"
    abo.save_release(abo.Synthesizer(abo.NIW.default(1)).fit(np.array([[1.5], [2.0]])).sample(rows=3), odd)
    assert abo.load_release(odd).rows == (3,)
    assert abo.Records.of(odd / "dataset-001.csv").columns == ("x1",)
    with refused("cannot be the name of a file"):
        abo.Records.of("a\0.csv")


# mutations: whatever is done to a file, it is read or refused in one line


def mutate(content, chance):
    content = bytearray(content)
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(len(content) + 1)
        match chance.randrange(4):
            case 0:
                content[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del content[place : place + chance.randrange(1, 30)]
            case 2:
                content[place:place] = content[place : place + chance.randrange(1, 30)]
            case 3:
                content[place:place] = chance.choice(
                    [b"\n", b'"', b",", b";", b"\xff", b"\0", b"1e400", b"NaN", b"[", b"="]
                )
    return bytes(content)


TABLE = pa.table(
    {"age": [51.5, 42.0, 37.25], "n": [3, 4, 2], "t": ["a", "b", None], "d": pa.array([1, 2, 3], pa.date32())}
)
PRIOR = "df = 9\nmean_weight = 0.5\n[centre]\nldl = 3.5\nbmi = 25\n[spread]\nbmi = 5\nldl = 1\n"


@pytest.mark.parametrize("kind", ["csv", "parquet", "toml", "design"])
def test_mutated_files_are_read_or_refused_in_few_lines(tmp_path, rng, kind):
    from test_safe_files import DESIGN

    from allbutone.paper.design_file import read_design

    chance = random.Random(int(rng.integers(2**63)))
    pyarrow.parquet.write_table(TABLE, tmp_path / "good.parquet")
    good, read = {
        "csv": (b'age,"n"\n51.5,3\n42,4\n37.25,2\n', abo.Records.of),
        "parquet": (
            (tmp_path / "good.parquet").read_bytes(),
            lambda path: abo.Records.of(
                path, drop=[name for name in read_table(path).column_names if name in "td"]
            ),
        ),
        "toml": (PRIOR.encode(), lambda path: read_prior(path, ("bmi", "ldl"))),
        "design": (DESIGN.encode(), read_design),
    }[kind]
    path = tmp_path / ("t." + kind.replace("design", "toml"))
    refusals = []
    for _ in range(400):
        write(path, mutate(good, chance))
        try:
            read(path)
        except abo.InputError as error:
            refusals.append(str(error))
    assert len(refusals) > 50
    # one line; of several columns that cannot be used, one each, and then the cures
    beyond = [line for words in refusals for line in words.splitlines()[1:]]
    assert all(line.startswith(("  ", "- ")) for line in beyond)
