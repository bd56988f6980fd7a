"""Shapes are checked by beartype wherever the tests go: the hook must come before the package is imported."""

import os

from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

install_import_hook("allbutone", "shapecheck.checked")

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# PyTorch is large, so its tests run only where it was asked for: `make test-torch`
collect_ignore = [] if os.environ.get("ALLBUTONE_TEST_TORCH") else ["test_torch.py"]
