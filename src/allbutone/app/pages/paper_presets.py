"""The simulated settings of the paper's figures, each an address of Explore."""

from allbutone.app.page import Preset

# section 4.1: N(1, 3·I), the missing record at 20 in every column, and the prior's mean 1.1
STUDY = {"mean": "1", "sd": "1.7320508075688772", "correlation": "0", "target": "20", "prior_mean": "1.1"}


def _datasets(p: int) -> dict[str, str]:
    return STUDY | {"p": f"{p}", "count": "100", "n": "500", "rows": "1000"}


PRESETS = (
    Preset(
        "Figure 1, panel A",
        "100 records, from 1 to 100 parameter draws (press Play).",
        STUDY | {"kind": "parameters", "count": "1"},
    ),
    Preset("Figure 1, panel B", "the same with datasets of 100 rows.", STUDY | {"count": "1"}),
    Preset(
        "Figure 2",
        "one table of the parameter draws' distances; vary records, columns and draws.",
        STUDY | {"kind": "parameters", "n": "50", "count": "2"},
    ),
    Preset("Figure 3", "one table of the datasets' distances, two columns; vary rows, too.", _datasets(2)),
    Preset("Figure A1", "as Figure 3, three columns.", _datasets(3)),
    Preset("Figure A2", "as Figure 3, five columns.", _datasets(5)),
    Preset("Figure A3", "as Figure 3, ten columns.", _datasets(10)),
)
