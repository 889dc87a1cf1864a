"""The paper, item by item: its own words, the files that implement them, and the claims that judge them.

Zhao, S. and Ermon, S. (2021), Right Decisions from Wrong Predictions: A Mechanism Design Alternative to
Individual Calibration, AISTATS. Quotes are word for word, with formulas in plain text; "…" marks what we left
out. docs/studies.md has all items in one table. Its verdicts are those of the runs: `judged` names a claim by
its key, or by its place in the paper. An item that no run can decide, such as a definition, has a note.
"""

from __future__ import annotations

from typing import NamedTuple

from makewhole.studies.claims import Claim


class Item(NamedTuple):
    """A statement, protocol, algorithm, figure, setting or claim of the paper.

    `files` are paths below src/makewhole. `judged` are names of claims; see `means`.
    """

    name: str
    section: str
    says: str
    files: tuple[str, ...] = ()
    judged: tuple[str, ...] = ()
    note: str = ""


def name_of(claim: Claim) -> str:
    """Return the name by which items refer to a claim: its key or, if it has none, its place in the paper."""
    return claim.key or claim.where


def means(name: str, full: str) -> bool:
    """Whether a name in `Item.judged` means the claim with this full name.

    "Lemma 4" means "Lemma 4", "Lemma 4, as printed" and "Lemma 4, mended".
    """
    return full == name or full.startswith(f"{name},")


def quoted(claim: Claim) -> str:
    """Return the paper's words that a claim judges, with their section; nothing if the claim is ours.

    Of several items, the one that is about this claim alone.
    """
    full = name_of(claim)
    found = [(name, item) for item in ITEMS for name in item.judged if means(name, full)]
    ranked = sorted(
        found, key=lambda one: (one[0] != full, not one[1].name.startswith(one[0]), len(one[1].judged))
    )
    return says(ranked[0][1].name) if ranked else ""


def says(name: str) -> str:
    """Return the words of the item with this name, with their section."""
    item = next(item for item in ITEMS if item.name == name)
    return f"“{item.says}” ({item.section})"


_SWAP = ("corrections/swap.py",)
_BETS = ("bets.py",)
_FLIGHTS = ("studies/flights.py",)
_TASKS = ("studies/decisions.py",)
_STATEMENTS = ("studies/statements.py",)
_PRINTED = "as printed"
_DEFINITION = "a definition; implemented as printed"

INTRODUCTION = (
    Item("Alice's bet", "§1",
         "Alice gets the guarantee that if she decides to use the product, effective or not, she gains $4 — "
         "equal to her expected utility under the forecasted (and possibly incorrect) probability.",
         ("bets.py", "decisions.py"), ("Proposition 2",)),
    Item("Any utility function", "§1",
         "Alice has a way of choosing bets for any utility function and forecasted probability, such that "
         "her true gain equals her expected gain under the forecasted probability.",
         ("bets.py", "decisions.py"), ("Proposition 2",)),
    Item("Vanishing loss, also with malicious agents", "§1",
         "the forecaster has an algorithm to adapt its forecasts and guarantee vanishing loss in the long "
         "run, even in the presence of malicious decision makers.",
         ("insured/book.py", "corrections/swap.py"), ("Theorem 1",)),
    Item("Close to zero, soon", "§1",
         "forecasters based on our post-processing algorithm consistently achieve close to zero betting "
         "loss (on average) within a small number of time steps.",
         _TASKS, ("close",)),
    Item("Alternatives lose in practice", "§1",
         "several seemingly reasonable alternative algorithms not only lack theoretical guarantees, but "
         "often suffer from positive average betting loss in practice.",
         _TASKS, ("none positive", "leader positive")),
)  # fmt: skip

BACKGROUND = (
    Item("Protocol 1: Decision Making with Forecasts", "§2.1",
         "Forecaster reveals μ_t, c_t ∈ (0, 1) where (μ_t − c_t, μ_t + c_t) ⊂ (0, 1)",
         ("protocol.py",),
         note="implemented; c may also be 0 or below 0, as the paper's own Appendix B.1 has it"),
    Item("No assumptions", "§2.1",
         "We make no assumptions on nature, forecaster, or the agents.",
         ("agents.py", "protocol.py"), ("Theorem 1",)),
    Item("Individual coverage", "§2.2",
         "The forecaster cannot infer μ_t* from a single sample y_t without relying on unverifiable "
         "assumptions.",
         _STATEMENTS, ("§3, Desiderata 1 and 2",)),
    Item("Probability as willingness to bet", "§2.3",
         "a forecaster that holds a probabilistic belief should be willing to accept any bet where it "
         "gains a non-negative amount in expectation.",
         _BETS, ("Lemma 1",)),
    Item("Lemma 1", "§2.3",
         "a function f: Y → R satisfies ∀μ̃ ∈ [μ − c, μ + c], E_{Y∼μ̃}[f(Y)] ≤ 0 if and only if for some b"
         " ∈ R and ∀y ∈ {0, 1}, f(y) ≤ b(y − μ) − |b|c.",
         _BETS, ("Lemma 1", "the proof of Lemma 1")),
)  # fmt: skip

DECISIONS = (
    Item("Equation 1: the trustful action", "§3",
         "a_t := arg min_{a∈A} E_{Y∼μ_t} l_t(a, Y)",
         ("decisions.py",), note=_DEFINITION),
    Item("L_max, L_avg, L_min", "§3",
         "the agent's maximum / average / minimum expected loss under the forecasted probability",
         _BETS, note=_DEFINITION),
    Item("Desideratum 1", "§3",
         "L_t* ∈ [L_t^min, L_t^max]",
         _BETS, ("§3, Desiderata 1 and 2", "Proposition 1.1")),
    Item("Desideratum 2", "§3",
         "The interval size c_t is close to 0.",
         _TASKS, ("small c", "§3, Desiderata 1 and 2")),
    Item("1 and 2 exclude each other", "§3",
         "However, we show that desiderata 1 and 2 often cannot be achieved simultaneously.",
         _STATEMENTS, ("§3, Desiderata 1 and 2",)),
    Item("Proposition 1, part 1", "§3",
         "If μ_t* ∈ [μ_t − c_t, μ_t + c_t] then ∀l_t: Y × A → R we have L_t* ∈ [L_t^min, L_t^max]",
         _BETS, ("Proposition 1.1",)),
    Item("Proposition 1, part 2", "§3",
         "If μ_t* ∉ [μ_t − c_t, μ_t + c_t] then ∀l_t: Y × A → R, if ∀a ∈ A, ℓ_t(a, 0) ≠ ℓ_t(a, 1), then "
         "L_t* ∉ [L_t^min, L_t^max]",
         _BETS, ("Proposition 1.2",)),
    Item("Desideratum 1′", "§3.1",
         "we would like the expected loss under the true distribution to be predictable once we "
         "incorporate the side payment.",
         _BETS, ("Desideratum 1′", "Proposition 2")),
    Item("The naive payment", "§3.1",
         "an agent can choose payment(Y) := E_{Y∼μ_t}[l_t(a_t, Y)] − l_t(a_t, Y) to satisfy desideratum 1'.",
         _STATEMENTS, ("§3.1, as printed", "§3.1, mended")),
    Item("It can be exploited", "§3.1",
         "However, if the forecaster offers any side payment, it could be subject to exploitation. For "
         "example, decision agents could request the forecaster to pay $1 under any outcome y_t.",
         _STATEMENTS, ("§3.1, exploited",)),
    Item("Fair bets with a cap", "§3.2",
         "{payment(Y) := b(Y − μ_t) − |b|c_t, ∀b ∈ [−M, M]} … The constant M ∈ R_+ caps the maximum "
         "payment each decision agent can request",
         ("rules.py", "insured/book.py"), note="implemented; M is `max_stake`"),
    Item("Protocol 2: Decision Making with Bets", "§3.2",
         "Agent incurs loss l_t(a_t, y_t) − b_t(y_t − μ_t) + |b_t|c_t; forecaster incurs loss b_t(y_t − "
         "μ_t) − |b_t|c_t",
         ("protocol.py", "insured/book.py"), note=_PRINTED),
    Item("Equation 2: the loss with the payment", "§3.2",
         "L_t^pay := L_t* − E_{Y∼μ_t*}[b_t(Y − μ_t) + |b_t|c_t]",
         _BETS, note="a misprint: Protocol 2 and the proof have − |b_t|c_t, and so have we"),
    Item("Proposition 2", "§3.2",
         "If the stake b_t = l_t(a_t, 1) − l_t(a_t, 0) then L_t^pay ∈ [L_t^min, L_t^max]",
         _BETS, ("Proposition 2",)),
    Item("As if the probability were correct", "§3.2",
         "This mechanism allows the agent to make decisions as if the forecasted probability is correct",
         ("decisions.py", "bets.py"), ("Proposition 2", "bounded")),
)  # fmt: skip

STRATEGY = (
    Item("Algorithm 1: Post-Processing for Exactness", "§4",
         "Output μ_t = μ̂_t, c_t = ĉ_t + λ_t",
         ("insured/book.py", "rules.py"), note="as printed; K = (T/log T)^¼ cells"),
    Item("Algorithm 2: Online Prediction", "§4",
         "Choose any initial value for θ_1, φ_1 … Input x_t and output μ̂_t = μ_{θ_t}(x_t), ĉ_t = "
         "c_{φ_t}(x_t)",
         ("forecasters/two_layer.py",), note="as printed; ĉ is kept in ±½, and for comparison in [0, ½]"),
    Item("Algorithm 3: Swap Regret Minimization", "§4",
         "Partition [−1, 1] into equal intervals [−1=v_0, v_1), ⋯, [v_{K−1}, v_K=1]",
         _SWAP, note="as printed; the range is that of the targets, which with ĉ in ±½ is ±1.5"),
    Item("The forecaster's two goals", "§4",
         "1) have non-positive cumulative loss when T is large, so that the side payments are sustainable "
         "2) output the smallest c_t compatible with 1), so that forecasts are as sharp as possible",
         ("insured/book.py",), ("close", "small c")),
    Item("Equation 3: the mean loss", "§4",
         "(1/T) Σ_{t=1}^T b_t(μ_t − y_t) − |b_t|c_t",
         ("rules.py",),
         note="the sign of b_t is the other one than in Protocol 2, which changes nothing; ours is Protocol"
              " 2's"),
    Item("Asymptotically sound", "§4",
         "we say that a sequence of forecasts … is asymptotically sound relative to y_1, b_1, y_2, b_2, ⋯ "
         "if the forecaster loss in Protocol 2 is non-positive",
         ("insured/book.py",), note="a definition; sound mode keeps the total loss within a capital"),
    Item("Asymptotically exact", "§4",
         "asymptotic exactness requires that the forecaster should neither lose nor win in the long run",
         ("insured/book.py",), note="a definition; printed with lim sup, we read lim |mean loss| = 0"),
    Item("Footnote: budget balance", "§4",
         "In mechanism design literature, Eq.(4) and Eq.(5) are typically referred to as weak and strong "
         "budget balanced.",
         ("insured/book.py",), ("§4, footnote",)),
    Item("Room to decrease c", "§4",
         "Observe that the left hand side of Eq.(4) is increasing if c_t decreases.",
         ("rules.py",), note="true term by term: the loss is b(y − μ) − |b|c"),
    Item("Theorem 1, an algorithm exists", "§4.1",
         "there exists an algorithm to output μ_t, c_t in Protocol 2 that is asymptotically exact for "
         "μ_t*, b_t generated by any strategy of nature and agent.",
         ("studies/adversaries.py",), ("Theorem 1, first half, as printed", "Theorem 1, first half")),
    Item("Theorem 1, Algorithm 1 is one", "§4.1",
         "In particular, Algorithm 1 satisfies ((1/T) Σ_{t=1}^T b_t(μ_t − y_t) − |b_t|c_t)² = O(√(log T/T))",
         ("studies/adversaries.py",), ("Theorem 1, second half",)),
    Item("Any base algorithm", "§4.1",
         "Algorithm 1 can modify any base algorithm (as long as the base algorithm outputs some μ_t, c_t "
         "at every time step) to achieve asymptotic exactness",
         _TASKS, ("any base",)),
    Item("A poor base algorithm", "§4.1",
         "even though the finite time performance could be hurt by a poor base prediction algorithm.",
         _TASKS, ("poor base",)),
    Item("The base algorithm's objectives", "§4.1",
         "μ_θ is trained to predict μ_t* by minimizing the standard L_2 loss … while c_φ is trained to to "
         "minimize the squared payoff of each bet",
         ("forecasters/two_layer.py",), note=_PRINTED),
    Item("Losses raise λ", "§4.1",
         "if the forecaster has positive cumulative loss in Protocol 2, then the c_ts have been too small "
         "in the past, Algorithm 1 will select a larger λ_t to increase c_t",
         _SWAP, note="an intuition; a cell's λ is the mean of its targets, which rise with the loss"),
    Item("It must minimise swap regret", "§4.1",
         "In fact, Algorithm 3 needs to be a swap regret minimization algorithm.",
         ("studies/adversaries.py",), ("§4.1",)),
    Item("Corollary 1: monotone losses", "§4.1",
         "if additionally b_t ≥ 0, ∀t, there exists an algorithm to output μ_t in Protocol 2 with c_t ≡ 0 "
         "that is asymptotically exact",
         ("insured/book.py",), ("Corollary 1",)),
    Item("Offline forecasting", "§4.2",
         "if a forecaster satisfies the existing notions of calibration, there are some functions b: X → "
         "[−M, M]: as long as the decision making agents limit their actions to b_t = b(x_t), the "
         "forecaster will be asymptotically sound.",
         ("auditing/audit.py", "mending/classifier.py"), ("Proposition 4",)),
)  # fmt: skip

FLIGHTS = (
    Item("Under-reporting", "§6",
         "Even worse, the airline may have the incentive to under-report the probability of delay to "
         "attract passengers.",
         ("studies/honesty.py",), ("§6",)),
    Item("Delay insurance and its quote", "§6",
         "b_t^0 := b_t^1(μ_t + c_t)/(1 − μ_t − c_t)",
         _BETS, note="implemented as `bets.delay_quote`"),
    Item("The insured know their utility", "§6",
         "If a passenger buys the right insurance according to Proposition 2, their expected utility (or "
         "negative loss) will be fixed — she does not need to worry that the predicted delay probability"
         " might be incorrect.",
         _BETS, ("Proposition 2",)),
    Item("The airline does not lose", "§6",
         "if the airline follows Algorithm 1 the airline is also guaranteed to not lose money from the "
         "“delay insurance” in the long run (no matter what the passengers do)",
         _FLIGHTS, ("no loss", "Theorem 1, second half")),
    Item("“For free”", "§6",
         "the airline should be incentivized to implement the insurance mechanism to benefit its "
         "passengers “for free”.",
         _FLIGHTS, ("for free",)),
    Item("Passenger types", "§6",
         "Naive passengers don't care about delays … Trustful passengers assume the delay probability "
         "forecasted by the airline is correct. … Cautious passengers assume the worst",
         ("agents.py", "studies/_market.py"), note=_PRINTED),
    Item("Shares, and who insures", "§6",
         "we will vary the proportion of cautious passengers, and equally split the remaining passengers "
         "between naive and trustful. The naive and trustful passengers do not care about the risk of mis-"
         "prediction, so they do not buy the delay insurance",
         _FLIGHTS,
         note="as printed; the shares 10, 30, 50, 70 and 90 % are ours, the paper does not name its own"),
    Item("Data set", "§6.1",
         "We use the flight delay and cancellation dataset from the year 2015, and use flight records of "
         "the single biggest airline (WN).",
         ("datasets.py",),
         note="the same airline and year; of its 1.26 million flights we have 45,429, spread over the year."
              " The authors' code samples 60,000 of the year"),
    Item("Features", "§6.1",
         "we convert the source airport, target airport, and scheduled time into one-hot vectors",
         ("datasets.py",),
         note="as printed with the scheduled hour; we add departure, arrival and distance as numbers, which"
              " is ours"),
    Item("Late", "§6.1",
         "binarize the arrival delay into 1 (delay > 20min) and 0 (delay < 20min).",
         ("datasets.py",), note="as printed; exactly 20 minutes counts as 0"),
    Item("Network", "§6.1",
         "We use a two layer neural network with the leaky ReLU activation for prediction.",
         ("forecasters/two_layer.py",), note="as printed; eight hidden units are ours"),
    Item("Passenger utility", "§6.1",
         "We model the passenger utility (negative loss) as … r^trip − c^ticket − c^delay",
         ("studies/_market.py",), note=_PRINTED),
    Item("1000 passengers", "§6.1",
         "For each flight we sample 1000 potential passengers by randomly drawing the values r^alt, r^trip"
         " and c^delay",
         ("studies/_market.py",), note=_PRINTED),
    Item("Pricing", "§6.1",
         "the airline will choose c^ticket at the highest price for which it can sell 300 tickets.",
         ("studies/_market.py",), note=_PRINTED),
    Item("Figure 1: revenue", "§6.2",
         "Using the betting mechanism is strictly better for both the airline's revenue (i.e. ticket price"
         " * number of tickets) and the total utility (airline revenue + passenger utility).",
         _FLIGHTS, ("revenue",)),
    Item("Figure 1: total utility", "caption of Figure 1",
         "With the betting mechanism, the airline revenue increases (because it is able to charge a higher"
         " ticket price due to increased demand) and the total utility increases.",
         _FLIGHTS, ("utility",)),
    Item("Why: more demand", "§6.2",
         "The airline also benefits because it can charge a higher ticket price due to increased demand "
         "(more cautious passengers will choose a=1).",
         _FLIGHTS, ("price", "demand")),
    Item("Why: cautious passengers decide better", "§6.2",
         "With the betting mechanism, their worst case utility becomes closer to their actual true "
         "utility, so their decision (a=1 or a=0) will better maximize their true utility.",
         _FLIGHTS, note="a reason, not judged: who decides better is not measured"),
    Item("Figure 1: faster convergence", "caption of Figure 1",
         "In general the middle panel achieves faster convergence",
         _FLIGHTS, ("faster, revenue", "faster, total utility")),
    Item("Figure 1: better with fewer iterations", "caption of Figure 1",
         "with fewer iterations, the utility is better than the right panel.",
         _FLIGHTS, ("early, revenue", "early, total utility")),
    Item("Figure 4: alternatives converge worse", "§6.2",
         "The alternative algorithms do not provide theoretical guarantees; in practice, they also achieve"
         " worse convergence to the final utility.",
         _FLIGHTS, ("worse, revenue", "worse, total utility")),
)  # fmt: skip

TASKS = (
    Item("MNIST made binary", "§7",
         "Pr[Y = 1 | l(x) = i] = (i+1)/11",
         ("datasets.py",), note=_PRINTED),
    Item("The twenty tasks", "§7",
         "We also generate a benchmark consisting of 20 different decision tasks.",
         _TASKS,
         note="the paper does not say how many of each kind: 7 one-sided, 7 with different stakes, 6 random"
              " are ours"),
    Item("The four algorithms", "§7",
         "swap regret refers to Algorithm 3; none does not use λ_t and simply set it to 0; standard regret"
         " minimizes the standard regret rather than the swap regret; naive best response chooses the λ_t "
         "that would have been optimal were it counter-factually applied to the past iterations.",
         ("corrections/swap.py", "corrections/none.py", "corrections/naive.py", "corrections/standard.py"),
         note="standard regret and naive best response are both follow-the-leader, by Lemma 3 and in the "
              "authors' code; gradient descent, another minimiser of standard regret, is ours"),
    Item("Histogram binning", "§7",
         "we also use histogram binning on the entire validation set to recalibrate μ_θ, such that μ_θ "
         "satisfies standard calibration",
         _TASKS, note="as printed, on the test digits; 15 bins are ours"),
    Item("Observation 1", "§7",
         "Even when a forecaster is calibrated, for individual decision makers, the expected loss under "
         "the forecaster probability is almost always incorrect.",
         _TASKS, ("forecast loss",)),
    Item("Observation 2: the guarantee, soon", "§7",
         "the guarantees of Theorem 1 can be achieved within a reasonable number of time steps",
         _TASKS, ("rate", "close")),
    Item("Observation 2: c is small", "§7",
         "the interval size c_t is usually small.",
         _TASKS, ("small c",)),
    Item("Observation 3", "§7",
         "Seemingly reasonable alternatives to Algorithm 1 often empirically fail to be asymptotically "
         "exact.",
         _TASKS, ("none stays", "leader stays")),
    Item("Figures 2 and 5: faster to 0", "caption of Figure 2",
         "The loss of a forecaster that use Algorithm 1 typically converges to 0 faster, while alternative"
         " algorithms often fail to converge.",
         _TASKS, ("nearest", "none stays", "leader stays")),
    Item("Figures 2 and 5: better exactness", "Appendix B.2",
         "Algorithm 1 consistently achieve better asymptotic exactness compared to alternatives.",
         _TASKS, ("nearest",)),
    Item("Figure 3: no difference in c", "caption of Figure 3",
         "There is no noticeable difference between the different algorithms.",
         _TASKS, ("widths, none", "widths, leader")),
    Item("Figure 3: large c are rare", "caption of Figure 3",
         "Notably the interval sizes are typically quite small, and big interval size is exponentially "
         "less common.",
         _TASKS, ("rare c", "small c")),
    Item("Honesty, fairness, law", "§8",
         "Future work can explore social issues that arise, such as honesty, fairness, and moral/legal "
         "implications.",
         ("studies/honesty.py",), note="a question; the study of honesty begins to answer it"),
)  # fmt: skip

APPENDIX = (
    Item("Protocol 3: multiclass", "Appendix A.1",
         "forecaster loss is ⟨g_t, y_t − μ_t⟩ − ⟨|g_t|, c_t⟩",
         ("multiclass.py", "protocol.py"), note=_PRINTED),
    Item("Proposition 3", "Appendix A.1",
         "If g_t = l(·, a_t) − inf_{γ∈R} ⟨c_t, |l − γ1|⟩ then L_t^pay = L_t^max",
         ("multiclass.py",), ("Proposition 3",)),
    Item("Definition 1: sound", "Appendix A.2",
         "We say that the functions μ, c: X → [0, 1] are sound with respect to some set of functions B ⊂ "
         "{X → [−M, M]} if sup_{b∈B} E[b(X)(μ(X) − E[Y | X]) − |b(X)|c(X)] ≤ 0",
         ("auditing/audit.py",), note=_DEFINITION),
    Item("Sound, so asymptotically sound", "Appendix A.2",
         "if μ, c are sound according to Definition 1, and if b_t = b(x_t) for some b ∈ B, then the "
         "forecaster is almost surely asymptotically sound as defined in Eq.(4).",
         _STATEMENTS, ("Appendix A.2",)),
    Item("Maximum calibration error", "Appendix A.2",
         "MCE(μ) = max_{u∈[0, 1]} |E[Y | μ(X) = u] − u|",
         ("auditing/audit.py",),
         note="a definition; needs the essential supremum where μ(X) has a density"),
    Item("Proposition 4", "Appendix A.2",
         "The forecaster function … is sound with respect to B … if and only if the MCE error of μ is less"
         " than c_0.",
         _STATEMENTS, ("Proposition 4",)),
    Item("Proposition 5", "Appendix A.2",
         "If a forecaster function … is sound with respect to B = {x ↦ b̃(μ(x))I(x ∈ S), S ∈ S, b̃: R → "
         "R}, then it is (S, c_0)-multicalibrated.",
         _STATEMENTS, ("Proposition 5", "the proof of Proposition 5")),
    Item("Negative c", "Appendix B.1",
         "We find that allowing negative c_t improves the stability of the algorithm.",
         ("studies/flights.py", "studies/decisions.py"), ("negative c",)),
    Item("The passengers' numbers", "Appendix B.1",
         "We sample r^alt as Uniform(0, 200) and sample r^trip from Uniform(0, 400). … z ∼ Uniform(4, 9) "
         "and c^delay = 0.2e^z.",
         ("studies/_market.py",),
         note="as printed, but r^trip is at least r^alt, as in the authors' code"),
    Item("Figure 4", "Appendix B.1",
         "This plot extends Figure 1. We compare with additional Alternatives to Algorithm 3.",
         _FLIGHTS, ("worse, revenue", "worse, total utility")),
    Item("The extra feature z", "Appendix B.2",
         "For MNIST this is the digit label and for UCI Adult this is the age (binned by quantile into 10 "
         "bins).",
         ("datasets.py",), note=_PRINTED),
    Item("One-sided tasks", "Appendix B.2",
         "each decision loss l(z, y, a) is large if y ≠ a and small if y = a. For different values of z "
         "there are different stakes",
         _TASKS,
         note="as printed; small is U(0, 1) and large U(0, 10) times a stake in U(0, 1): these numbers are "
              "ours"),
    Item("Different stakes", "Appendix B.2",
         "Each value of the decision loss l(z, y, a) is a draw from N(0, z)",
         _TASKS,
         note="read with z as the standard deviation; the paper does not say whether it is that or the "
              "variance"),
    Item("Random tasks", "Appendix B.2",
         "Each value of the decision loss l(z, y, a) is a draw from N(0, 10) but clipped to be within "
         "[−10, 10].",
         _TASKS, note="read with 10 as the standard deviation"),
    Item("Figure 5", "Appendix B.2",
         "This plot is identical to Figure 2 but for the Adult dataset",
         _TASKS, ("nearest",)),
    Item("Figure 6: forecast and true loss differ", "caption of Figure 6",
         "the expected loss under the forecasted probability often differs from the expected loss under "
         "the true probability",
         _TASKS, ("forecast loss",)),
    Item("Figure 6: with the bets", "caption of Figure 6",
         "with additional payment from the bets, the expected total loss under true probability is always "
         "bounded between the minimum loss under the forecasted probability, and the maximum loss under "
         "the forecasted probability.",
         _TASKS, ("bounded",)),
    Item("Most c are small", "Appendix B.2",
         "We observe that most interval sizes are small, and larger intervals are exponentially unlikely.",
         _TASKS, ("small c", "rare c")),
    Item("Swap regret", "Appendix C",
         "Swap regret measures the additional loss compared to the best alternative algorithm.",
         _STATEMENTS, note="a definition; `studies/statements.py` measures it against 1-Lipschitz ψ"),
    Item("Standard regret is not enough", "Appendix C",
         "We remark that if instead Algorithm 3 minimizes the standard regret, we can no longer guarantee "
         "Theorem 1.",
         ("studies/adversaries.py",), ("Appendix C",)),
    Item("Theorem 2", "Appendix C",
         "the regret of Algorithm 3 is bounded by R_T^swap ≤ C(M_1, M_2) K² log T + (1/K²) Σ_{t=1}^T s_t²",
         _STATEMENTS, ("Theorem 2", "the proof of Theorem 2")),
    Item("K² = √(T/log T)", "Appendix C",
         "if we choose K² = √(T/log T) then the swap regret R_T^swap is bounded by O(√(T log T)).",
         _STATEMENTS, ("Theorem 2, as printed",)),
    Item("Lemma 2", "Appendix C",
         "((1/T) Σ_{t=1}^T s_t(r_t + s_t λ_t))² ≤ (R_T^swap/T²) Σ_{t=1}^T s_t²",
         _STATEMENTS, ("Lemma 2",)),
    Item("Lemma 3", "Appendix C",
         "Σ_{t=1}^T (α_t + β_t λ_t)² ≤ inf_λ Σ_{t=1}^T (α_t + β_t λ)² + C(M_1, M_2) log T",
         _STATEMENTS, ("Lemma 3",)),
    Item("Lemma 4", "Appendix C",
         "In Algorithm 3, R_T^swap ≤ R̃_T^swap + Σ_{t=1}^T s_t² (v_K − v_0)/K",
         _STATEMENTS, ("Lemma 4", "the proof of Lemma 4")),
    Item("Lemma 5", "Appendix C",
         "For any sequence β_t, t=1, ⋯, T such that |β_t| ≤ M, ∀t we have Σ_{t=1}^T β_t⁴/(Σ_{τ=1}^t β_τ²) "
         "≤ M² log (T+1)",
         _STATEMENTS, ("Lemma 5", "the proof of Lemma 5")),
)  # fmt: skip

ITEMS = (*INTRODUCTION, *BACKGROUND, *DECISIONS, *STRATEGY, *FLIGHTS, *TASKS, *APPENDIX)
