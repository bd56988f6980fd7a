"""smartnoise-synth's MST at ε = 3 on each table, with public limits and levels: FOLDER KIND LIMIT TABLE…"""

import json
import sys
from pathlib import Path

import pandas as pd
from each_table import make_each
from snsynth import Synthesizer
from snsynth.transform import BinTransformer, LabelTransformer, TableTransformer


def drawn(file: Path) -> pd.DataFrame:
    table, told = pd.read_csv(file), json.loads(file.with_suffix(".json").read_text())
    gaps = table.isna().any()
    known = {
        name: BinTransformer(bins=20, lower=low, upper=high, nullable=bool(gaps[name]))
        for name, (low, high) in told["limits"].items()
    } | {name: LabelTransformer(nullable=bool(gaps[name])) for name in told["levels"]}
    transformer = TableTransformer.create(table, style="cube", constraints=known)
    synthesizer = Synthesizer.create("mst", epsilon=3.0)
    return synthesizer.fit_sample(table, transformer=transformer, preprocessor_eps=0.0)


make_each(drawn, Path(sys.argv[1]), sys.argv[2], sys.argv[4:], int(sys.argv[3]))
