"""What a model must give so that what is released from it can be attacked: `update` and `predictive`."""

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Density(Protocol):
    """The distribution of one record."""

    def log_density(self, records: Any, /) -> Any:
        """Return the normalised log density at records, shape (*batch, p)."""
        ...


@runtime_checkable
class Model(Protocol):
    """A model of exchangeable records: they update it, and it predicts the next one. `NIW` is one."""

    def update(self, records: Any, /) -> "Model":
        """Return the model given these records, too; their order does not matter."""
        ...

    def predictive(self) -> Density:
        """Return the distribution of the next record."""
        ...
