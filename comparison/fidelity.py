"""The same three measures of fidelity for every tool, none of them any tool's own."""

import numpy as np
import pandas as pd
from scipy.stats import ks_2samp
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict


def fidelity(real: pd.DataFrame, synthetic: pd.DataFrame) -> dict[str, float]:
    """Distance of the columns, error of their correlations, and how well a forest tells real from synthetic rows.

    `columns`: the mean Kolmogorov-Smirnov distance (0 the same). `correlations`: the mean absolute difference.
    `told_apart`: the area under a random forest's curve, in five folds: 0.5 cannot tell, 1 always can.
    """
    synthetic = synthetic[list(real.columns)]
    distances = [ks_2samp(real[name], synthetic[name]).statistic for name in real.columns]
    upper = np.triu_indices(real.shape[1], 1)
    off = np.abs(np.corrcoef(real.to_numpy().T) - np.corrcoef(synthetic.to_numpy().T))[upper]
    rows = synthetic.iloc[: len(real)]
    both = np.vstack([real.to_numpy(), rows.to_numpy()])
    which = np.repeat([0, 1], [len(real), len(rows)])
    forest = RandomForestClassifier(200, min_samples_leaf=5, random_state=0)
    chances = cross_val_predict(forest, both, which, cv=5, method="predict_proba")[:, 1]
    return {
        "columns": float(np.mean(distances)),
        "correlations": float(np.mean(off)),
        "told_apart": float(roc_auc_score(which, chances)),
    }
