"""An insured forecaster as a river classifier. Needs river: `pip install 'makewhole[river]'`."""

from __future__ import annotations

import copy
from typing import Any

try:
    from river import base, linear_model
except ModuleNotFoundError:
    raise ModuleNotFoundError("river is needed: pip install 'makewhole[river]'") from None

from makewhole.corrections import Correction
from makewhole.insured.forecaster import InsuredForecaster


class InsuredClassifier(base.Classifier):
    """An insured forecaster as a river classifier.

    It predicts the probability that the insured forecaster publishes. `learn_one` takes the stake that was
    placed, and pays it. It works in pipelines and with `progressive_val_score`. The attribute `forecaster` is
    the `InsuredForecaster`.

    Parameters
    ----------
    classifier
        Any binary river classifier.
    correction
        How c is adapted; by default that of `InsuredForecaster`.
    max_stake
        The cap: the largest stake on one forecast.
    one_sided
        Accept only stakes of at least 0; the correction then moves the probability.

    Examples
    --------
    >>> from river import datasets, evaluate, linear_model, metrics, preprocessing
    >>> from makewhole.river import InsuredClassifier
    >>> model = preprocessing.StandardScaler() | InsuredClassifier(linear_model.LogisticRegression())
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 89.36%
    >>> insured = model["InsuredClassifier"]
    >>> x, y = next(iter(datasets.Phishing()))
    >>> insured.learn_one(x, y, stake=0.5)  # also works through a pipeline, from river 0.24 on
    >>> insured.forecaster.statement().turnover
    0.5
    """

    def __init__(
        self,
        classifier: base.Classifier,
        correction: Correction | None = None,
        max_stake: float = 1.0,
        one_sided: bool = False,
    ) -> None:
        self.classifier = classifier
        self.correction = correction
        self.max_stake = max_stake
        self.one_sided = one_sided
        self.forecaster = InsuredForecaster(
            classifier, copy.deepcopy(correction), max_stake=max_stake, one_sided=one_sided
        )

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"classifier": linear_model.LogisticRegression()}

    @property
    def _multiclass(self) -> bool:
        return False

    def learn_one(self, x: dict[Any, Any], y: Any, stake: float = 0.0) -> None:
        """Publish a forecast for x, place `stake` on it, and settle it with the outcome y.

        Raises a ValueError if y is not True or False, and a `StakeRefused` if the stake is over the cap.
        """
        if y not in (False, True):
            raise ValueError(f"y must be True or False; got {y!r}")
        f = self.forecaster
        f.check_stake(stake)  # first: if it were refused later, the forecast would stay open
        f.settle(f.forecast(x), int(y), stake=stake)

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Return the published μ, as the probabilities of True and False."""
        mu = self.forecaster.peek(x).mu
        return {True: mu, False: 1.0 - mu}
