"""The insured classifier is a citizen of river."""

from collections.abc import Callable
from typing import Any

import pytest
from river import checks, datasets, evaluate, linear_model, metrics, preprocessing

import makewhole as mw
from makewhole.river import InsuredClassifier
from samples import version_of


def models() -> list[InsuredClassifier]:
    return [
        InsuredClassifier(linear_model.LogisticRegression()),
        InsuredClassifier(linear_model.LogisticRegression(), mw.SwapRegret(5, seed=0), one_sided=True),
    ]


def all_checks() -> list[Any]:
    return [
        pytest.param(model, check, id=f"{i}-{n}-{check.__name__}")
        for i, model in enumerate(models())
        for n, check in enumerate(checks.yield_checks(model))
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "check"), all_checks())
def test_it_passes_rivers_own_checks(model: InsuredClassifier, check: Callable[[Any], None]) -> None:
    check(model.clone())


def test_progressive_validation_scores_as_the_model_alone() -> None:
    def score(classifier: Any) -> float:
        model = preprocessing.StandardScaler() | classifier
        result: float = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss()).get()
        return result

    assert score(InsuredClassifier(linear_model.LogisticRegression())) == score(
        linear_model.LogisticRegression()
    )


@pytest.mark.skipif(version_of("river") < (0, 24), reason="older pipelines pass no stake on")
def test_stakes_reach_the_books_also_through_a_pipeline() -> None:
    model = preprocessing.StandardScaler() | InsuredClassifier(linear_model.LogisticRegression(), max_stake=5)
    for x, y in datasets.Phishing().take(50):
        model.predict_proba_one(x)
        model.learn_one(x, y, stake=2.0)
    statement = model["InsuredClassifier"].forecaster.statement()
    assert (statement.rounds, statement.turnover, statement.open) == (50, 100.0, 0)
    with pytest.raises(mw.StakeRefused):
        model.learn_one(x, y, stake=6.0)


def test_labels_other_than_true_and_false_are_named() -> None:
    with pytest.raises(ValueError, match="y must be True or False; got 'no'"):
        models()[0].learn_one({"x": 1.0}, "no")


def test_one_sided_it_predicts_the_ask() -> None:
    model = InsuredClassifier(linear_model.LogisticRegression(), mw.NaiveBestResponse(), one_sided=True)
    for x, _ in datasets.Phishing().take(200):
        model.learn_one(x, True, stake=1.0)
    base = model.classifier.predict_proba_one(x)[True]
    assert model.predict_proba_one(x)[True] == model.forecaster.peek(x).mu > base


def test_a_model_that_fails_to_learn_leaves_no_forecast_open() -> None:
    class Tired(linear_model.LogisticRegression):
        def learn_one(self, x: Any, y: Any, w: Any = 1.0) -> None:
            raise RuntimeError("tired")

    model = InsuredClassifier(Tired())
    for rounds in range(1, 4):
        with pytest.raises(mw.TeachingError, match="was settled, but the base failed to learn from it"):
            model.learn_one({"x": 1.0}, True, stake=0.5)
        statement = model.forecaster.statement()
        assert (statement.open, statement.rounds) == (0, rounds)
