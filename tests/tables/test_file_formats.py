"""The files people have: whatever the format, the same table, the same bounds, and errors in one line."""

import datetime
import gzip
import random
import sys
import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pyreadstat
import pytest
from test_table_files import mutate, read_in_little_memory, refused, write

import allbutone as abo
from allbutone.tables.admission import ColumnsError
from allbutone.tables.files import FORMATS, READABLE, Limits, read_table

VALUES = np.array([[51.5, 3, -1.25], [42.0, 4, 2.0], [37.25, 2, 1e-7]])
NAMES = ("age", "sex", "ldl")


def workbook(path, *rows, **others):
    """Write a workbook with these rows in its first sheet and `others` in more of them."""
    book = openpyxl.Workbook()
    for place, (title, lines) in enumerate({"Sheet": rows, **others}.items()):
        sheet = book.active if place == 0 else book.create_sheet(title)
        for line in lines:
            sheet.append(line)
    book.save(path)
    return path


def written(path, values=VALUES, names=NAMES):
    """Write a table in the format that the end of the name says."""
    frame, kind = pd.DataFrame(values, columns=list(names)), path.name.split(".", 1)[1]
    match kind:
        case "csv" | "csv.gz":
            frame.to_csv(path, index=False)
        case "tsv" | "tsv.gz":
            frame.to_csv(path, index=False, sep="\t")
        case "parquet":
            frame.to_parquet(path)
        case "xlsx":
            workbook(path, list(names), *values.tolist())
        case "sav" | "zsav":
            pyreadstat.write_sav(frame, path, compress=kind == "zsav")
        case "xpt":
            pyreadstat.write_xport(frame, path)
        case "dta":
            pyreadstat.write_dta(frame, path)
    return path


# no free library writes .sas7bdat
@pytest.mark.parametrize("ending", [ending for ending in FORMATS if ending != ".sas7bdat"])
def test_every_format_holds_the_same_table(tmp_path, ending):
    records = abo.Records.of(written(tmp_path / f"t{ending}"))
    assert records.columns == NAMES
    if ending == ".xpt":  # which has seven digits more than IEEE's, in base 16
        np.testing.assert_allclose(records.values, VALUES, rtol=1e-15)
    else:
        np.testing.assert_array_equal(records.values, VALUES)
    upper = (tmp_path / f"t{ending}").rename(tmp_path / f"T{ending.upper()}")
    assert abo.Records.of(upper, columns="ldl").values[0, 0] == pytest.approx(-1.25)


def test_the_words_name_every_format(tmp_path):
    assert set(FORMATS) - {".tsv.gz", ".zsav"} == set(READABLE.replace(",", "").replace(" or", "").split())
    with refused(r"ends in '.gz'; save it as .csv, .* or .dta"):
        abo.Records.of(write(tmp_path / "t.json.gz", b"{}"))


@pytest.mark.parametrize("ending", [".csv.gz", ".xlsx", ".sav", ".sas7bdat", ".xpt", ".dta"])
def test_what_is_not_of_its_format_is_refused(tmp_path, ending):
    with refused(f"t{ending}"):
        abo.Records.of(write(tmp_path / f"t{ending}", b"age,sex\n1,2\n2,3\n"))
    with refused("is empty"):
        abo.Records.of(write(tmp_path / f"t{ending}", b""))


@pytest.mark.parametrize(("ending", "module", "extra"), [
    ("xlsx", "openpyxl", "excel"), ("sav", "pyreadstat", "spss-sas-stata"),
    ("dta", "pyreadstat", "spss-sas-stata"), ("sas7bdat", "pyreadstat", "spss-sas-stata"),
])  # fmt: skip
def test_a_reader_that_is_missing_is_named_with_its_cure(tmp_path, monkeypatch, ending, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with refused(rf'not installed.*pip install "allbutone\[{extra}\]"'):
        abo.Records.of(write(tmp_path / f"t.{ending}", b"x"))


# text


TEXT = "größe,age\n1.5,2\n2.5,4\n"


@pytest.mark.parametrize(
    ("encoding", "advised"), [("latin-1", "latin-1"), ("cp1252", "latin-1"), ("utf-16", "utf-16")]
)
def test_text_in_other_encodings(tmp_path, encoding, advised):
    path = write(tmp_path / "t.csv", TEXT.encode(encoding))
    with refused(r"not UTF-8 text \(line 1\)") as caught:
        abo.Records.of(path)
    assert ("encoding", advised) in [(cure.argument, cure.value) for cure in caught.value.cures]
    records = abo.Records.of(path, encoding=encoding)
    assert records.columns == ("größe", "age")
    np.testing.assert_array_equal(records.values, [[1.5, 2], [2.5, 4]])
    packed = write(tmp_path / "t.csv.gz", gzip.compress(path.read_bytes()))
    assert abo.Records.of(packed, encoding=encoding.upper()).columns == records.columns


def test_an_encoding_that_is_none_or_does_not_fit_is_refused(tmp_path):
    path = write(tmp_path / "t.csv", TEXT.encode("latin-1"))
    for name in ("latin-17", "rot13", "zlib", "base64", "a\0"):
        with refused("no text encoding"):
            abo.Records.of(path, encoding=name)
    with refused(r"is not ascii text \(line 1\)"):
        abo.Records.of(path, encoding="ascii")
    with refused("says itself how its text is encoded"):
        abo.Records.of(written(tmp_path / "t.xlsx"), encoding="latin-1")
    with refused("only a file has an encoding"):
        abo.Records.of(VALUES, encoding="latin-1")


def test_a_header_line_may_be_missing_where_the_format_has_none(tmp_path):
    path = workbook(tmp_path / "t.xlsx", *VALUES.tolist())
    with refused("reads as a value"):
        abo.Records.of(path)
    assert abo.Records.of(path, header=False).columns == ("x1", "x2", "x3")
    assert abo.Records.of(path, header=False, columns=NAMES).columns == NAMES
    for ending in ("sav", "dta", "parquet"):
        with refused("always names its columns"):
            abo.Records.of(written(tmp_path / f"t.{ending}"), header=False)


# workbooks


def test_a_sheet_is_chosen_where_there_are_several(tmp_path):
    path = workbook(tmp_path / "t.xlsx", ["a"], [1.5], [2.5], visits=[["b"], [3.5], [4.5]])
    with refused("has several sheets; choose one of Sheet, visits"):
        abo.Records.of(path)
    with refused("has no sheet 'c'; choose one of Sheet, visits"):
        abo.Records.of(path, sheet="c")
    assert abo.Records.of(path, sheet="visits").columns == ("b",)
    book = openpyxl.load_workbook(path)
    book["visits"].sheet_state = "hidden"
    book.save(path)
    assert abo.Records.of(path).columns == ("a",)
    assert abo.Records.of(path, sheet="visits").columns == ("b",)
    with refused("has no sheets"):
        abo.Records.of(written(tmp_path / "t.csv"), sheet="a")


def test_empty_rows_and_cells_around_a_sheet_do_not_count(tmp_path):
    book = openpyxl.Workbook()
    for place, line in enumerate([["a", "b"], [1, 2.5], [], [3, 4.5]], start=2):
        for column, cell in enumerate(line, start=1):
            book.active.cell(place, column, cell)
    book.active.cell(20, 9).number_format = "0.00"
    book.save(tmp_path / "t.xlsx")
    np.testing.assert_array_equal(abo.Records.of(tmp_path / "t.xlsx").values, [[1, 2.5], [3, 4.5]])


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        (["a", None], [[1.5, 2.5], [2, 3]], "column 2 of those kept has no name"),
        (["a"], [[1.5, 2.5], [2, 3]], "column 2 of those kept has no name"),
        (["a", "a"], [[1.5, 2.5], [2, 3]], "'a' appears 2 times"),
        (["a", 5], [[1.5, 2.5], [2, 3]], "'5' reads as a value"),
        (["a", datetime.date(2024, 1, 31)], [[1.5, 2.5], [2, 3]], "reads as a value"),
        (["a", "b"], [[1.5, "NA"], [2, 3]], "'b' misses 1 of 2 values, the first in row 1"),
        (["a", "b"], [[1.5, None], [2, 3]], "'b' misses 1 of 2 values, the first in row 1"),
        (["a", "b"], [[1.5, 2], [2, "n. a."]], "'b' is not numeric: row 2 holds 'n. a.'"),
        (["a", "b"], [[1.5, "01234"], [2, "00123"]], "'b' "),
        (["a", "b"], [[1.5, True], [2, False]], "'b' is not numeric"),
        (["a", "b"], [[1.5, datetime.date(2024, 1, 31)]] * 2, "'b' holds dates"),
        (["a", "b"], [[1.5, datetime.date(2024, 1, 31)], [2, 3]], "'b' holds dates"),
        (["a", "b"], [], "no rows"),
        ([], [], "is empty"),
    ],
)
def test_cells_are_what_they_are(tmp_path, header, rows, message):
    with refused(message):
        abo.Records.of_numbers(workbook(tmp_path / "t.xlsx", header, *rows))


# SPSS, SAS and Stata


@pytest.mark.parametrize("ending", ["sav", "dta", "xpt"])
def test_labelled_codes_are_levels_and_dates_and_text_stay_what_they_are(tmp_path, ending):
    frame = pd.DataFrame({"sex": [1.0, 2.0, 1.0], "day": [datetime.date(2024, 1, 31)] * 3, "word": ["a", "b", ""]})
    path, labels = tmp_path / f"t.{ending}", {"sex": {1.0: "male", 2.0: "female"}}
    if ending == "sav":
        pyreadstat.write_sav(frame, path, variable_value_labels=labels)
    elif ending == "dta":
        pyreadstat.write_dta(frame, path, variable_value_labels=labels)
    else:
        pyreadstat.write_xport(frame, path)
    if ending == "xpt":  # which has no labels of values
        np.testing.assert_array_equal(abo.Records.of_numbers(path, columns="sex").values[:, 0], [1, 2, 1])
    else:
        found = abo.Records.of(path, columns="sex", categories=True, rows_are_people=True).categories
        assert found.levels == (("male", "female"),)  # in the order of their codes
        np.testing.assert_array_equal(found.codes[:, 0], [0, 1, 0])
    with refused("'day' holds dates"):
        abo.Records.of_numbers(path, columns="day")
    with refused("'word' is not numeric"):
        abo.Records.of_numbers(path, columns="word")


def test_what_an_author_calls_missing_is_missing(tmp_path):
    frame = pd.DataFrame({"ldl": [3.5, -99.0, 999.0, 4.5], "age": [1.0, 2.0, -99.0, 4.0]})
    ranges = {"ldl": [-99, {"lo": 900, "hi": 1000}]}
    pyreadstat.write_sav(frame, tmp_path / "t.sav", missing_ranges=ranges)
    with refused("'ldl' misses 2 of 4 values, the first in row 2"):
        abo.Records.of_numbers(tmp_path / "t.sav")
    assert abo.Records.of_numbers(tmp_path / "t.sav", columns="age").values[2, 0] == -99
    extended = pd.DataFrame({"ldl": pd.Series([3.5, "a", 4.5], dtype=object)})
    pyreadstat.write_dta(extended, tmp_path / "t.dta", missing_user_values={"ldl": ["a"]})
    with refused("'ldl' misses 1 of 3 values, the first in row 2"):
        abo.Records.of_numbers(tmp_path / "t.dta")


# size


FEW = "limits=Limits(10, 1_000_000, 20_000_000)"


def packed_workbook(path, sheet, claimed=None):
    """Write a workbook whose only sheet has this content, and may claim to be shorter than it is."""
    workbook(path, ["a"], [1.5])
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    parts["xl/worksheets/sheet1.xml"] = sheet
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        for name, content in parts.items():
            book.writestr(name, content)
    if claimed is not None:
        true, said = (size.to_bytes(4, "little") for size in (len(sheet), claimed))
        path.write_bytes(path.read_bytes().replace(true, said))
    return path


SHEET = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>%s</sheetData></worksheet>'


def test_a_small_file_that_unpacks_to_a_large_one_is_not_read(tmp_path):
    zeros = b"a,b\n" + b"0,0\n" * 50_000_000
    path = write(tmp_path / "t.csv.gz", gzip.compress(zeros, 6))
    words, megabytes = read_in_little_memory(path, FEW)
    assert "GB of memory" in words
    assert megabytes < 100
    path = packed_workbook(tmp_path / "t.xlsx", SHEET.encode() + b" " * 200_000_000)
    assert path.stat().st_size < 300_000
    words, megabytes = read_in_little_memory(path, FEW)
    assert "GB of memory" in words
    assert megabytes < 100
    path = packed_workbook(tmp_path / "t.xlsx", SHEET.encode() + b" " * 200_000_000, claimed=1000)
    words, megabytes = read_in_little_memory(path, FEW)
    assert "cannot be read as an Excel workbook" in words
    assert megabytes < 100


def with_stray(path, cell):
    """Write a workbook of one cell, and another far away."""
    row = cell.lstrip("AXFDZ")
    sheet = SHEET % f'<row r="1"><c r="A1"><v>1</v></c></row><row r="{row}"><c r="{cell}"><v>1</v></c></row>'
    return packed_workbook(path, sheet.encode())


def test_a_stray_cell_takes_no_memory(tmp_path):
    for cell in ("XFD1048576", "ZZZ9"):
        words, megabytes = read_in_little_memory(with_stray(tmp_path / "t.xlsx", cell), FEW)
        assert "columns, and at most 10 are read" in words
        assert megabytes < 100
    assert read_table(with_stray(tmp_path / "t.xlsx", "A99999999999")).num_rows == 0  # beyond any sheet
    path = workbook(tmp_path / "t.xlsx", ["a"], *[[1.5]] * 100, [None] * 50 + [1])
    with refused("holds 5,202 values, and at most 5,000"):
        read_table(path, limits=Limits(100, 5000, 10**9))


@pytest.mark.parametrize("ending", ["xlsx", "sav", "zsav", "xpt", "dta", "csv.gz"])
def test_every_format_is_bounded(tmp_path, ending):
    path = written(tmp_path / f"t.{ending}", np.arange(3000.0).reshape(-1, 3))
    with refused("values, and at most 2,000 are read"):
        read_table(path, limits=Limits(10, 2000, 10**9))
    with refused("GB of memory"):
        read_table(path, limits=Limits(10, 10_000, 20_000))
    with refused("3 columns, and at most 2 are read"):
        read_table(path, limits=Limits(2, 10_000, 10**9))


@pytest.mark.parametrize("ending", ["csv.gz", "xlsx", "sav", "zsav", "xpt", "dta"])
def test_mutated_files_are_read_or_refused_in_words(tmp_path, rng, ending):
    chance = random.Random(int(rng.integers(2**63)))
    path = written(tmp_path / f"t.{ending}")
    good, refusals = path.read_bytes(), []
    for _ in range(100):
        write(path, mutate(good, chance))
        try:
            abo.Records.of(path)
        except ColumnsError as error:  # readable, and one line for each column that is not usable
            refusals.append(str(error).split("\n")[0])
        except abo.InputError as error:
            refusals.append(str(error))
    assert refusals
    assert not [words for words in refusals if "\n" in words]


# the command line


@pytest.mark.usefixtures("few_trials")
def test_a_sheet_and_an_encoding_go_from_command_to_command(allbutone, tmp_path):
    values = np.random.default_rng(1).standard_normal((30, 2)).round(3).tolist()
    workbook(tmp_path / "t.xlsx", ["größe", "ldl"], *values, other=[["x"]])
    text = "größe,ldl\n" + "".join(f"{a},{b}\n" for a, b in values)
    write(tmp_path / "t.csv", text.encode("latin-1"))
    for table, option, value in (("t.xlsx", "--sheet", "Sheet"), ("t.csv", "--encoding", "latin-1")):
        code, _, err = allbutone("synthesize", table, "--out", "never")
        assert code == 2
        assert f"({option} " in err
        code, out, err = allbutone("synthesize", table, "--out", "r", "--force", option, value)
        assert (code, err) == (0, "")
        assert f"{option} {value}" in out  # of the next command
        assert abo.load_release(tmp_path / "r").columns == ("größe", "ldl")
        for command in (["risk", table, "r"], ["budget", table], ["report", table, "r"]):
            name = f"out{'.html' if command[0] == 'report' else '.csv'}"
            code, _, err = allbutone(*command, option, value, "--out", name, "--force")
            assert (code, err) == (0, "")
