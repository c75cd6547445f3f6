"""The workflow of promotion with a judge of its own: what is registered, which versions are to serve, and that no alias moves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from features.errors import InputError
from models.packed.settings import FORMAT
from models.registry.promotion import Duel, Evidence, Mean
from models.registry.registration import Candidate, Kind
from models.registry.tracking import Tracking, aliases, all_versions
from pipelines.lake.publishing import aliases_of
from pipelines.training.promote import (
    MADE_FROM,
    RULES,
    SIMULATED,
    CandidateScore,
    Outdated,
    PromotionVerdict,
    incumbent,
    made_from,
    promote,
)

KIND = Kind("runtime", "trace", "accuracy", "jobs", "mean accuracy", ("simple", "clever"), "the simpler")
BETTER = Duel(300, Mean(0.5, 0.01, 50), Mean(0.6, 0.01, 50), Mean(0.1, 0.01, 50), 0.08, 0.12, Evidence(40.0), 0.1, 0.1)


@dataclass(frozen=True)
class Judge:
    """Has two candidates, registers empty versions, and says what it is told to say."""

    store: Tracking
    subject: str
    duel: Duel = BETTER
    vetoes: tuple[str, ...] = ()
    key: str = "these jobs"
    damaged: bool = False
    registered: list[str] = field(default_factory=list)
    kind: Kind = KIND
    instead: str = ""
    below: str = ""

    def scores(self) -> dict[str, CandidateScore]:
        return {"simple": CandidateScore(0.5995, 300, below=self.below), "clever": CandidateScore(0.6, 300)}

    def against(self, present: object) -> PromotionVerdict:
        return PromotionVerdict("clever", CandidateScore(0.6, 300), self.duel, self.vetoes)

    def register(self, name: str, score: CandidateScore) -> Candidate:
        self.registered.append(name)
        client, model = self.store.client, KIND.registered(self.subject)
        if not all_versions(self.store, model):
            client.create_registered_model(model)
        tags = {"method": name, "judged_accuracy": str(score.value), "judged_jobs": "300", "training_window_s": "0..9"}
        run = client.create_run(self.store.experiment_id)
        version = client.create_model_version(
            model,
            f"runs:/{run.info.run_id}/m",
            run.info.run_id,
            tags={**tags, "queuecast_format": str(FORMAT), MADE_FROM: self.key},
        )
        return Candidate(name, str(version.version), score.value, score.judged)

    def load_back(self, candidate: Candidate) -> None:
        if self.damaged:
            raise InputError(f"version {candidate.version} does not load")

    def refresh(self, present: object, verdict: PromotionVerdict) -> Candidate:
        return self.register("simple", CandidateScore(0.5, 300))


def read(number: str) -> str:
    return f"what version {number} learned"


def served(opened: Tracking, subject: str) -> Judge:
    """A subject whose first champion is version 1; the judge of another day."""
    outcome = promote(opened, Judge(opened, subject), None)
    aliases_of(opened, outcome.name)(outcome.serves)
    return Judge(opened, subject, key="more jobs")


def test_of_equal_candidates_the_first_named_is_champion_and_no_alias_moves(opened: Tracking) -> None:
    judge = Judge(opened, "first")
    outcome = promote(opened, judge, None)
    assert (outcome.champion, outcome.challenger, outcome.promoted, outcome.judged) == ("1", "2", True, 300)
    assert judge.registered == ["simple", "clever"]
    assert outcome.why.startswith("First champion by mean accuracy over 300 jobs (within 0.001 the simpler): simple (version 1)")
    assert outcome.table(opened, KIND)["alias"].tolist() == ["champion", "challenger"]
    assert aliases(opened, outcome.name) == {}


def test_the_best_candidate_becomes_no_champion_if_it_is_too_weak_and_the_same_is_not_registered_again(opened: Tracking) -> None:
    judge = Judge(opened, "weak", below="it guesses")
    outcome = promote(opened, judge, None)
    assert outcome.serves == {"champion": "", "challenger": ""}
    assert (outcome.promoted, outcome.simulated, outcome.beside(opened)) == (False, "1", {SIMULATED: "1"})
    assert outcome.why.startswith("No champion: it guesses. First by mean accuracy over 300 jobs")
    opened.client.set_registered_model_alias(outcome.name, SIMULATED, "1")
    again = promote(opened, judge, None)
    assert again.nothing_new
    assert (again.serves, again.simulated, again.why, judge.registered) == (outcome.serves, "1", outcome.why, ["simple", "clever"])
    later = promote(opened, replace(judge, key="more jobs", below=""), None)
    assert (later.champion, later.challenger, later.beside(opened)) == ("3", "4", {SIMULATED: ""})


def test_over_the_same_nothing_is_registered(opened: Tracking) -> None:
    judge = replace(served(opened, "same"), key="these jobs")
    outcome = promote(opened, judge, incumbent(opened, KIND, "same", read))
    assert outcome.nothing_new
    assert (outcome.champion, outcome.challenger, judge.registered) == ("1", "2", [])


def test_a_challenger_that_is_surely_better_is_promoted_over_the_champion(opened: Tracking) -> None:
    judge = served(opened, "better")
    outcome = promote(opened, judge, incumbent(opened, KIND, "better", read))
    assert (outcome.champion, outcome.challenger, outcome.challenger_method, judge.registered) == ("3", "1", "clever", ["clever"])
    assert outcome.why.startswith("Promoted over version 1 (simple): evidence 40 of the 20 needed")
    assert aliases(opened, outcome.name) == {"champion": "1", "challenger": "2"}


def test_a_champion_that_knows_what_is_simulated_stays_and_the_best_of_the_others_is_simulated_once(opened: Tracking) -> None:
    judge = replace(served(opened, "ahead"), instead="It knows: version {} is simulated.")
    present = incumbent(opened, KIND, "ahead", read)
    result = promote(opened, judge, present)
    assert (result.champion, result.challenger, result.simulated, result.promoted) == ("1", "2", "3", False)
    assert result.instead == "It knows: version 3 is simulated."
    opened.client.set_registered_model_alias(result.name, SIMULATED, result.simulated)
    again = promote(opened, judge, present)
    assert again.nothing_new
    assert (again.champion, again.simulated, again.instead) == ("1", "3", result.instead)
    assert judge.registered == ["simple", "clever"]


@pytest.mark.parametrize(
    ("subject", "change", "reason"),
    [
        ("vetoed", {"vetoes": ("its schedules are worse",)}, "its schedules are worse"),
        ("unsure", {"duel": replace(BETTER, evidence=Evidence(2.0))}, "does not suffice"),
    ],
)
def test_else_the_champion_is_kept_and_refreshed(opened: Tracking, subject: str, change: dict, reason: str) -> None:
    judge = replace(served(opened, subject), **change)
    outcome = promote(opened, judge, incumbent(opened, KIND, subject, read))
    assert not outcome.promoted
    assert reason in outcome.why
    assert (outcome.champion, outcome.challenger, judge.registered) == ("4", "3", ["clever", "simple"])


def test_a_version_that_does_not_load_back_is_an_error_and_no_champion(opened: Tracking) -> None:
    judge = replace(served(opened, "damaged"), damaged=True)
    with pytest.raises(InputError, match="version 3 does not load"):
        promote(opened, judge, incumbent(opened, KIND, "damaged", read))


@pytest.mark.parametrize("unstated", ["judged_accuracy", "method", "training_window_s"])
def test_a_champion_without_records_is_refused(opened: Tracking, unstated: str) -> None:
    subject = f"by-hand-without-{unstated.replace('_', '-')}"
    served(opened, subject)
    opened.client.delete_model_version_tag(KIND.registered(subject), "1", unstated)
    with pytest.raises(InputError, match=f"version 1 has no readable tag {unstated}, so it cannot be judged"):
        incumbent(opened, KIND, subject, read)


def test_a_champion_that_can_no_longer_be_read_is_replaced_and_the_note_says_why(opened: Tracking) -> None:
    def outdated(number: str) -> str:
        raise Outdated("was trained by another version of Queuecast")

    judge = served(opened, "outdated")
    outcome = promote(opened, judge, incumbent(opened, KIND, "outdated", outdated))
    assert (outcome.champion, outcome.promoted) == ("3", True)
    assert outcome.why.endswith("version 1, was trained by another version of Queuecast: it can be neither judged nor refreshed.")
    opened.client.set_model_version_tag("runtime-outdated", "1", "queuecast_format", "0")
    present = incumbent(opened, KIND, "outdated", read)
    assert present is not None
    assert f"is of format 0, not {FORMAT}" in present.note
    assert incumbent(opened, KIND, "unheard-of", read) is None

    def unanswered(number: str) -> str:
        raise InputError("the registry does not answer")

    opened.client.set_model_version_tag("runtime-outdated", "1", "queuecast_format", str(FORMAT))
    with pytest.raises(InputError, match="does not answer"):
        incumbent(opened, KIND, "outdated", unanswered)


def test_data_settings_and_the_rule_of_its_kind_say_whether_there_is_something_new(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"jobs": "abc", "seed": 0}
    keys = {kind: made_from(kind, facts) for kind in RULES}
    assert made_from("runtime", {**facts, "seed": 1}) != keys["runtime"]
    monkeypatch.setitem(RULES, "runtime", "raised by hand")
    assert {kind for kind in RULES if made_from(kind, facts) != keys[kind]} == {"runtime"}
