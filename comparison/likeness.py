"""How alike synthetic rows are on ten public tables, by model: `python -m comparison.likeness`.

A random forest tries to tell real rows from synthetic ones. Half is the ideal: more can be told apart, less is
copying. Beside it the mean distance of the columns. Each table is read by the draft that `describe` proposes.
"""

import argparse
import io
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import ks_2samp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import allbutone as abo
from comparison.environments import ROOT, environment

DATASETS = 2
# from R's own packages, which come with it: what is there, less identifiers
FROM_R = {
    "colon": 'na.omit(subset(survival::colon, etype == 2, c("rx", "sex", "age", "obstruct", "perfor", "adhere", '
    '"nodes", "status", "differ", "extent", "surg", "node4", "time")))',
    "lung": "survival::lung[, -1]",
    "pbc": "survival::pbc[1:312, -1]",
    "pima": "rbind(MASS::Pima.tr, MASS::Pima.te)",
    "birthwt": "subset(MASS::birthwt, select = -low)",
    "melanoma": "MASS::Melanoma",
}
# whole numbers that stand for kinds
CODED = {
    "colon": ["rx", "sex", "obstruct", "perfor", "adhere", "status", "differ", "extent", "surg", "node4"],
    "lung": ["status", "sex", "ph_ecog"],
    "pbc": ["status", "trt", "sex", "ascites", "hepato", "spiders", "edema", "stage"],
    "pima": ["type"],
    "birthwt": ["race", "smoke", "ht", "ui", "ptl", "ftv"],
    "melanoma": ["status", "sex", "ulcer"],
    "iris": ["target"],
    "wine": ["target"],
    "diabetes": ["sex"],
}


def tables() -> dict[str, pd.DataFrame]:
    """Return the tables, rows shuffled, kinds as words."""
    cancer = load_breast_cancer(as_frame=True).frame
    cancer = cancer[[name for name in cancer if name.startswith("mean ")]]
    found = {
        "cancer": cancer[(cancer > 0).all(axis=1)],
        "iris": load_iris(as_frame=True).frame,
        "wine": load_wine(as_frame=True).frame,
        "diabetes": load_diabetes(as_frame=True, scaled=False).frame.drop(columns="target"),
    }
    for name, asked in FROM_R.items():
        text = subprocess.check_output(["Rscript", "-e", f"write.csv({asked}, row.names = FALSE)"], text=True)
        found[name] = pd.read_csv(io.StringIO(text))
    for name, table in found.items():
        table = table.rename(columns=lambda each: each.replace(" (cm)", "").replace(" ", "_").replace(".", "_"))
        for column in CODED.get(name, []):
            kinds = table[column].map(lambda kind: f"k{kind:g}" if isinstance(kind, float | int) else kind)
            table[column] = kinds.where(table[column].notna())
        found[name] = table.sample(frac=1, random_state=1).reset_index(drop=True)
    return found


def drawn(file: Path, model: str, gaps: bool) -> list[pd.DataFrame] | str:
    """Draw synthetic tables as the draft of `describe` declares the columns; or say why not."""
    draft = file.with_suffix(".toml")
    if not draft.exists():
        subprocess.run(
            [sys.executable, "-m", "allbutone", "describe", str(file), "--out", str(draft)],
            check=True,
            capture_output=True,
        )
    how = {"missing": "keep"} if gaps else {}
    if model == "classes":
        how |= {"classes": 10}
    try:
        synthesizer = abo.Synthesizer(model=model, **how).fit(file, schema=str(draft))
        release = synthesizer.sample(datasets=DATASETS, repeat_key="2338856a0e6a2bb72067d8a11d6270d6")
        return [pd.DataFrame(each) for each in release.to_frames("pandas")]
    except abo.InputError as error:
        return str(error).splitlines()[0]


def area(real: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    """Return the area under the forest's curve, in five folds of shuffled rows; gaps are values of their own."""
    both = pd.concat([real, synthetic[list(real.columns)]], ignore_index=True)
    for name in both:
        if not pd.api.types.is_numeric_dtype(both[name]):
            both[name] = pd.factorize(both[name].astype("string"))[0]
    which = np.repeat([0, 1], [len(real), len(synthetic)])
    forest = RandomForestClassifier(200, min_samples_leaf=5, random_state=0, n_jobs=1)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    chances = cross_val_predict(forest, both.to_numpy(float), which, cv=folds, method="predict_proba")[:, 1]
    return float(roc_auc_score(which, chances))


def distance(real: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    """Return the mean over columns of Kolmogorov and Smirnov's distance, of categories the total variation."""
    every = []
    for name in real:
        one, two = real[name].dropna(), synthetic[name].dropna()
        if pd.api.types.is_numeric_dtype(one):
            every.append(ks_2samp(one, two).statistic)
        else:
            shares = [part.astype("string").value_counts(normalize=True) for part in (one, two)]
            every.append(float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2))
    return float(np.mean(every))


def main() -> None:
    """Run all of them and print the page's table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--environments", type=Path, default=ROOT / "build" / "compare")
    options.add_argument("--tables", nargs="*", help="some of them alone")
    given = options.parse_args()
    given.environments.mkdir(parents=True, exist_ok=True)
    every = {name: table for name, table in tables().items() if not given.tables or name in given.tables}
    lines = {}
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        for name, table in every.items():
            table.to_csv(work / f"{name}.csv", index=False)
        failed = environment("sdv", given.environments).run("sdv_rows_alike.py", work, DATASETS, *every)
        for name in every:
            file = work / f"{name}.csv"
            real = pd.read_csv(file)
            cells = [name, f"{len(real)} × {real.shape[1]}", "yes" if real.isna().any(axis=None) else ""]
            for model in ("classes", "normal", "sdv"):
                if model == "sdv":
                    files = sorted(work.glob(f"{name}-sdv-*.csv"))
                    rows = [pd.read_csv(each) for each in files] or failed.get(name, failed.get("error", "failed"))
                else:
                    kind = "classes" if model == "classes" else "general location"
                    rows = drawn(file, kind, bool(real.isna().any(axis=None)))
                if isinstance(rows, str):
                    cells.append(f"refused: {rows}")
                    continue
                kept = real[[column for column in real if column in rows[0]]]
                areas, far = ([how(kept, each) for each in rows] for how in (area, distance))
                lines[name, model] = (np.mean(areas), np.mean(far))
                cells.append(f"{np.mean(areas):.2f} / {np.mean(far):.3f}")
            print("| " + " | ".join(cells) + " |", flush=True)
    both = [name for name in every if all((name, model) in lines for model in ("classes", "sdv"))]
    for place, what in ((0, "|area − ½|"), (1, "distance of columns")):
        ours, theirs = (
            np.array([abs(lines[name, model][place] - (0.5 if place == 0 else 0)) for name in both])
            for model in ("classes", "sdv")
        )
        fewer = f"smaller in {np.sum(ours < theirs)} of {len(both)}"
        print(f"{what}: classes {ours.mean():.3f}, SDV {theirs.mean():.3f}; {fewer}")


if __name__ == "__main__":
    main()
