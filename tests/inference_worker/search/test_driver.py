from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_worker.search import driver as driver_module
from inference_worker.search.driver import derived_seed
from inference_worker.search.events import (
    ROOT,
    Choose,
    Command,
    Compare,
    Compared,
    Confirm,
    Extend,
    Extended,
    PathScore,
    Score,
    Scored,
    Segment,
    SegmentEnd,
    Unread,
)
from router.messages import CONFIDENCE, Aggregate, Extraction, ExtractionKind, Search, SearchMethod, Step, StepState
from tests.inference_worker.search.reference import answer
from tests.inference_worker.search.scripted import MODEL, VERIFIER, Shell, World

METHODS = tuple(method for method in SearchMethod if method is not SearchMethod.LIKELIHOOD_BEAM_SEARCH)

KINDS = (ExtractionKind.LAST_NUMBER, ExtractionKind.MODEL)


@st.composite
def worlds(
    draw: st.DrawFn, methods: Sequence[SearchMethod] = METHODS, kinds: Sequence[ExtractionKind] = KINDS
) -> World:
    method = draw(st.sampled_from(methods))
    search = Search(
        method=method,
        n=draw(st.sampled_from([1, 2, 3, 4, 5, *([8, 11, 14] if method is SearchMethod.SELF_CONSISTENCY else [])])),
        budget_tokens=draw(st.one_of(st.integers(1, 60), st.integers(60, 1500), st.just(20_000))),
        expansions=draw(st.sampled_from([1, 2, 3, 4])) if method.stepwise else 1,
        max_steps=draw(st.one_of(st.integers(1, 3), st.integers(4, 10))),
        step_tokens=draw(st.integers(1, 6)),
        lookahead_steps=draw(st.integers(1, 3)) if method is SearchMethod.LOOKAHEAD else 0,
        verifier=VERIFIER if method.verified else "",
        judge=method.verified and draw(st.booleans()),
        aggregate=draw(st.sampled_from(Aggregate)),
        extract=Extraction(kind=draw(st.sampled_from(kinds))),
        confidence=draw(st.sampled_from([0.5, 0.8, CONFIDENCE, 1])),
        return_candidates=draw(st.booleans()),
    )
    return World(
        search,
        seed=draw(st.integers(0, 2**63 - 1)),
        prompt_tokens=draw(st.integers(0, 10)),
        max_tokens=draw(st.sampled_from([1, 4, 12, 25])),
        with_nan=draw(st.booleans()),
        stop_one_in=draw(st.sampled_from([2, 4, 8, 16])),
        score_levels=draw(st.sampled_from([3, 1000])),
    )


def generator_tokens(step: Step) -> int:
    return sum(part.usage.completion_tokens for part in step.parts if part.model == MODEL)


def verifier_tokens(step: Step) -> int:
    return sum(part.usage.prompt_tokens for part in step.parts if part.model == VERIFIER)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=250)
@given(data=st.data())
def test_chooses_what_a_plain_recursion_chooses(method: SearchMethod, data: st.DataObject) -> None:
    world = data.draw(worlds([method], [ExtractionKind.LAST_NUMBER]))
    chosen = Shell(world).run(world.driver())
    assert (chosen.token_ids, chosen.end) == answer(world)


@settings(max_examples=200)
@given(world=worlds())
def test_budget_is_never_exceeded(world: World) -> None:
    shell = Shell(world)
    chosen = shell.run(world.driver())
    assert max(shell.generated, shell.read) <= world.search.budget_tokens
    assert len(chosen.token_ids) <= world.max_tokens
    assert all(extend.max_tokens >= 1 for extend in shell.commands if isinstance(extend, Extend))


@settings(max_examples=200)
@given(world=worlds())
def test_steps_bill_all_tokens_but_the_answers(world: World) -> None:
    shell = Shell(world)
    chosen = shell.run(world.driver())
    billed, steps = 0, shell.ended_steps
    for step in steps:
        assert all(part.usage.prompt_tokens or part.usage.completion_tokens for part in step.parts)
        assert generator_tokens(step) >= 0
        billed += generator_tokens(step)
        assert billed + step.shown_tokens == step.data["generated"]
        assert billed <= step.data["generated"] - len(chosen.token_ids) or step is not steps[-1]
    assert billed == shell.generated - len(chosen.token_ids)
    assert sum(map(verifier_tokens, steps)) == shell.read
    grades = [part.usage.completion_tokens for step in steps for part in step.parts if part.model == VERIFIER]
    assert sum(grades) == shell.graded <= world.search.max_grades
    if steps:
        assert (steps[-1].data["generated"], steps[-1].data["scored"]) == (shell.generated, shell.read)


@settings(max_examples=200)
@given(world=worlds(), order=st.integers(0, 99))
def test_a_resumed_search_goes_on_as_the_undisturbed_one(world: World, order: int) -> None:
    undisturbed = Shell(world)
    undisturbed.run(world.driver())
    steps = undisturbed.ended_steps
    for count in range(len(steps) + 1):
        driver, resumed = world.driver(), Shell(world, order)
        driver.resume(steps[:count])
        resumed.run(driver)
        assert resumed.commands == after_steps(undisturbed.commands, count)


def after_steps(commands: list[Command], count: int) -> list[Command]:
    ends = [
        position
        for position, command in enumerate(commands)
        if isinstance(command, Confirm) and command.step.state is StepState.DONE
    ]
    return commands[ends[count - 1] + 1 :] if count else commands


@settings(max_examples=100)
@given(world=worlds(), order=st.integers(0, 99))
def test_commands_do_not_depend_on_the_order_in_which_continuations_end(world: World, order: int) -> None:
    one, other = Shell(world), Shell(world, order)
    one.run(world.driver())
    other.run(world.driver())
    assert one.commands == other.commands


@settings(max_examples=100)
@given(world=worlds())
def test_steps_are_announced_and_hold_no_more_than_needed(world: World) -> None:
    shell = Shell(world)
    shell.run(world.driver())
    confirmed = [command.step for command in shell.commands if isinstance(command, Confirm)]
    assert [step.state for step in confirmed] == [StepState.RUNNING, StepState.DONE] * (len(confirmed) // 2)
    number = 0
    for running, done in zip(confirmed[::2], confirmed[1::2], strict=True):
        paths = done.data["paths"]
        assert running.number == done.number
        assert running.data == {"paths": len(paths)}
        assert (done.kind, done.name) == ("search", world.search.method.value)
        assert [path["path"] for path in paths] == list(range(number + 1, number + len(paths) + 1))
        for path in paths:
            assert ("token_ids" in path) == path["alive"]
            assert ("text" in path) == (path["alive"] or world.search.return_candidates)
        number += len(paths)
    assert ["chosen" in step.data for step in confirmed[1::2]] == [False] * (len(confirmed) // 2 - 1) + [True] * bool(
        confirmed
    )


def search_of(method: SearchMethod, n: int, **fields: object) -> Search:
    verifier = VERIFIER if method.verified else ""
    return msgspec.structs.replace(Search(method=method, n=n, budget_tokens=10_000, verifier=verifier), **fields)


@pytest.mark.parametrize("method", [SearchMethod.BEST_OF_N, SearchMethod.WEIGHTED_BEST_OF_N])
def test_whole_answers_are_the_choices_of_the_jobs_seed(method: SearchMethod) -> None:
    commands = World(search_of(method, 4), seed=7, max_tokens=30).driver().start()
    assert commands[1:] == [Extend(ROOT, [], 4, 7, 30, to_end=True)]


def test_a_wave_has_a_seed_of_its_own() -> None:
    world = World(search_of(SearchMethod.SELF_CONSISTENCY, 8), stop_one_in=20)
    shell = Shell(world)
    shell.run(world.driver())
    seeds = [command.seed for command in shell.commands if isinstance(command, Extend)]
    assert seeds == [derived_seed(world.seed, wave, ROOT) for wave in range(len(seeds))]
    assert len(set(seeds)) == len(seeds) > 1


def test_derived_seeds_have_63_bits_and_differ() -> None:
    seeds = {derived_seed(seed, step, path) for seed in range(5) for step in range(5) for path in range(5)}
    assert len(seeds) == 125
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**61


def test_agreeing_answers_end_self_consistency_after_the_first_wave() -> None:
    driver = World(search_of(SearchMethod.SELF_CONSISTENCY, 16)).driver()
    driver.start()
    done, chosen = driver.receive(Extended(ROOT, [Segment([each], "so it is 5", SegmentEnd.STOP) for each in range(3)]))
    assert isinstance(done, Confirm)
    assert (done.step.data["chosen"], done.step.data["votes"]) == (1, [["5", 3]])
    assert chosen == Choose([0], SegmentEnd.STOP)


def test_a_wave_has_the_answers_that_the_leader_needs_to_win_for_certain() -> None:
    driver = World(search_of(SearchMethod.SELF_CONSISTENCY, 16, confidence=1)).driver()
    commands = driver.start()
    for results in ("55665566", "5555"):
        extend = commands[-1]
        assert isinstance(extend, Extend)
        assert extend.count == len(results)
        commands = driver.receive(
            Extended(ROOT, [Segment([2], f"so it is {each}", SegmentEnd.STOP) for each in results])
        )
    done, chosen = commands
    assert isinstance(done, Confirm)
    assert done.step.data["votes"] == [["5", 8], ["6", 4]]
    assert chosen == Choose([2], SegmentEnd.STOP)


def test_a_budget_without_a_token_for_each_path_chooses_an_empty_answer() -> None:
    driver = World(search_of(SearchMethod.BEST_OF_N, 4, budget_tokens=3)).driver()
    assert driver.start() == [Choose([], SegmentEnd.FULL)]


def test_the_first_complete_path_is_chosen_if_the_budget_leaves_no_score() -> None:
    world = World(search_of(SearchMethod.BEST_OF_N, 2, budget_tokens=10), prompt_tokens=9)
    driver = world.driver()
    driver.start()
    commands = driver.receive(
        Extended(ROOT, [Segment([2, 3], "2 3 ", SegmentEnd.FULL), Segment([2, 1], "2 !!", SegmentEnd.STOP)])
    )
    assert commands[-1] == Choose([2, 1], SegmentEnd.STOP)
    assert not any(isinstance(command, Score) for command in commands)


def test_paths_that_ended_keep_their_places() -> None:
    """Of two places one is taken by an ended path, so one of the six continuations goes on."""
    search = search_of(SearchMethod.BEAM_SEARCH, 2, expansions=3)
    driver = World(search).driver()
    driver.start()
    ends = [SegmentEnd.STOP, SegmentEnd.BOUNDARY, SegmentEnd.FULL, *[SegmentEnd.STOP] * 3]
    driver.receive(Extended(ROOT, [Segment([2], f"{place} ", end) for place, end in enumerate(ends)]))
    commands = driver.receive(Scored([PathScore([score]) for score in (0.5, 0.6, 0.1, 0.2, 0.3, 0.4)], 9))
    assert [(each.path, each.count) for each in commands if isinstance(each, Extend)] == [(2, 3)]
    driver.receive(Extended(2, [Segment([3], f"{place} ", SegmentEnd.BOUNDARY) for place in range(3)]))
    commands = driver.receive(Scored([PathScore([score]) for score in (0.7, 0.9, 0.8)], 9))
    assert [(each.path, each.prefix) for each in commands if isinstance(each, Extend)] == [(8, [2, 3])]


@pytest.mark.parametrize("resumed", [False, True])
def test_rounding_does_not_decide_between_paths_that_share_their_worst_step(resumed: bool) -> None:
    world = World(search_of(SearchMethod.BEAM_SEARCH, 1, expansions=2, aggregate=Aggregate.MIN))
    driver = world.driver()
    driver.start()
    driver.receive(Extended(ROOT, [Segment([token], f"{token} ", SegmentEnd.BOUNDARY) for token in (2, 3)]))
    done, *_ = driver.receive(Scored([PathScore([0.5]), PathScore([0.25])], 9))
    if resumed:
        assert isinstance(done, Confirm)
        driver = world.driver()
        driver.resume([done.step])
        driver.start()
    driver.receive(Extended(1, [Segment([token], f"{token} ", SegmentEnd.BOUNDARY) for token in (3, 4)]))
    done, *_ = driver.receive(Scored([PathScore([0.4999999, 0.75]), PathScore([0.5000001, 1.0])], 9))
    assert isinstance(done, Confirm)
    records = done.step.data["paths"]
    assert [(each["step_scores"], each["alive"]) for each in records] == [([0.5, 0.75], True), ([0.5, 1.0], False)]


def test_paths_that_the_budget_leaves_unscored_have_the_scores_of_their_parents() -> None:
    search = search_of(SearchMethod.DVTS, 2, budget_tokens=36)
    driver = World(search, prompt_tokens=1).driver()
    driver.start()
    driver.receive(Extended(ROOT, [Segment([2] * 4, text, SegmentEnd.BOUNDARY) for text in ("2 ", "2 2 ")]))
    driver.receive(Scored([PathScore([0.5]), PathScore([0.6])], 20))
    driver.receive(Extended(1, [Segment([3], "3 ", SegmentEnd.STOP)]))
    commands = driver.receive(Extended(2, [Segment([4], "4 ", SegmentEnd.BOUNDARY)]))
    assert commands[-1] == Choose([2, 2, 2, 2, 4], SegmentEnd.FULL)
    assert isinstance(commands[0], Confirm)
    assert "score" not in commands[0].step.data["paths"][1]


def test_paths_that_the_verifier_could_not_read_are_not_extended() -> None:
    driver = World(search_of(SearchMethod.DVTS, 2, budget_tokens=35), prompt_tokens=1).driver()
    driver.start()
    driver.receive(Extended(ROOT, [Segment([2] * 4, "2 2 ", SegmentEnd.BOUNDARY)] * 2))
    commands = driver.receive(Scored([PathScore([0.5]), PathScore([0.6])], 20))
    assert commands[1:] == [Choose([2] * 4, SegmentEnd.FULL)]


def test_the_verifier_reads_whole_answers_by_their_steps() -> None:
    driver = World(search_of(SearchMethod.BEST_OF_N, 1)).driver()
    driver.start()
    (score,) = driver.receive(Extended(ROOT, [Segment([2], "One.\n\nTwo.\n\n\n\nThree", SegmentEnd.STOP)]))
    assert score == Score([1], [["One.\n\n", "Two.\n\n\n\n", "Three"]], 10_000)


def test_the_verifier_gets_the_rest_of_the_budget_and_ends_the_search_if_that_is_too_little() -> None:
    driver = World(search_of(SearchMethod.DVTS, 2, budget_tokens=60), prompt_tokens=1).driver()
    driver.start()
    (score,) = driver.receive(Extended(ROOT, [Segment([2] * 4, text, SegmentEnd.BOUNDARY) for text in ("2 ", "2 2 ")]))
    assert isinstance(score, Score)
    assert score.max_tokens == 60
    driver.receive(Scored([PathScore([0.5]), PathScore([0.6])], 20))
    driver.receive(Extended(1, [Segment([3], "3 ", SegmentEnd.BOUNDARY)]))
    (score,) = driver.receive(Extended(2, [Segment([4], "4 ", SegmentEnd.BOUNDARY)]))
    assert isinstance(score, Score)
    assert score.max_tokens == 40
    done, chosen = driver.receive(Unread(7, 1))
    assert isinstance(done, Confirm)
    assert chosen == Choose([2, 2, 2, 2, 4], SegmentEnd.FULL)
    assert (done.step.data["scored"], done.step.data["chosen"], verifier_tokens(done.step)) == (27, 4, 7)


def test_texts_that_exceed_a_message_are_neither_scored_nor_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "MAX_TEXT_BYTES", 10)
    for last, fits in (("5 ", True), ("5  ", False)):
        driver = World(search_of(SearchMethod.BEST_OF_N, 2, return_candidates=True)).driver()
        driver.start()
        ends = [Segment([2, 3], "Łódź ", SegmentEnd.STOP), Segment([4], last, SegmentEnd.STOP)]
        commands = driver.receive(Extended(ROOT, ends))
        assert isinstance(commands[0], Score) == fits
        if fits:
            commands = driver.receive(Scored([PathScore([0.9]), PathScore([0.5])], 20))
        done, chosen = commands
        assert isinstance(done, Confirm)
        assert chosen == Choose([2, 3], SegmentEnd.STOP)
        assert [path.get("text") for path in done.step.data["paths"]] == ["Łódź ", last if fits else None]


@pytest.mark.parametrize("method", [SearchMethod.BEAM_SEARCH, SearchMethod.DVTS, SearchMethod.SELF_CONSISTENCY])
def test_a_search_ends_before_its_steps_exceed_a_message_also_when_it_is_resumed(
    method: SearchMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 24 if method is SearchMethod.SELF_CONSISTENCY else 3
    world = World(search_of(method, n, step_tokens=4), max_tokens=60, stop_one_in=40)
    whole = Shell(world)
    whole.run(world.driver())
    limit = 1500
    monkeypatch.setattr(driver_module, "MAX_RELEASED_BYTES", limit)
    shell = Shell(world)
    chosen = shell.run(world.driver())
    steps = shell.ended_steps
    assert 1 < len(steps) < len(whole.ended_steps)
    *before, _ = [len(msgspec.json.encode(step.data)) for step in steps]
    assert sum(before) <= limit
    assert [path["alive"] for path in steps[-1].data["paths"]].count(True) <= 1
    for count in range(len(steps) + 1):
        driver, resumed = world.driver(), Shell(world)
        driver.resume(steps[:count])
        assert resumed.run(driver) == chosen
        assert resumed.ended_steps == steps[count:]


def test_texts_of_candidates_are_returned_until_all_steps_together_have_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver_module, "MAX_TEXT_BYTES", 900)
    world = World(search_of(SearchMethod.DVTS, 2, expansions=3, step_tokens=4, return_candidates=True), stop_one_in=40)
    shell = Shell(world)
    shell.run(world.driver())
    texts = [all("text" in path for path in step.data["paths"]) for step in shell.ended_steps]
    assert texts[0]
    assert not texts[-1]


def test_steps_of_other_kinds_only_move_the_number_of_the_next_step() -> None:
    driver = World(search_of(SearchMethod.BEST_OF_N, 1)).driver()
    driver.resume([Step(number=0, kind="summary", name="m", state=StepState.DONE, data={"dropped": 1})])
    running = driver.start()[0]
    assert isinstance(running, Confirm)
    assert running.step.number == 1


def boxed(*results: str) -> Extended:
    """The answers of a wave, with these results."""
    return Extended(ROOT, [Segment([2], rf"So it is \boxed{{{each}}}.", SegmentEnd.STOP) for each in results])


def test_results_that_are_equal_as_mathematics_are_one_vote() -> None:
    search = search_of(SearchMethod.SELF_CONSISTENCY, 8, extract=Extraction(kind=ExtractionKind.BOXED))
    driver = World(search).driver()
    driver.start()
    assert driver.receive(boxed("x/2", "0.5x", "y")) == [Compare([], ["x/2", "0.5x", "y"])]
    commands = driver.receive(Compared({"0.5x": "x/2"}))
    resumed = World(search).driver()
    assert isinstance(commands[0], Confirm)
    assert [path["result"] for path in commands[0].step.data["paths"]] == ["x/2", "x/2", "y"]
    resumed.resume([commands[0].step])
    assert resumed.start() == commands[1:]
    for each in (driver, resumed):
        assert each.receive(boxed(r"\frac{x}{2}")) == [Compare(["x/2", "y"], [r"\frac{x}{2}"])]
        done, *_ = each.receive(Compared({r"\frac{x}{2}": "x/2"}))
        assert isinstance(done, Confirm)
        assert done.step.data["votes"] == [["x/2", 3], ["y", 1]]


def test_a_verifier_scores_after_results_were_compared() -> None:
    search = search_of(SearchMethod.WEIGHTED_BEST_OF_N, 3, extract=Extraction(kind=ExtractionKind.BOXED))
    driver = World(search).driver()
    driver.start()
    assert driver.receive(boxed("y", "x/2", "0.5x")) == [Compare([], ["y", "x/2", "0.5x"])]
    [score] = driver.receive(Compared({"0.5x": "x/2"}))
    assert isinstance(score, Score)
    done, _ = driver.receive(Scored([PathScore([score]) for score in (0.5, 0.3, 0.4)], 9))
    assert isinstance(done, Confirm)
    assert done.step.data["chosen"] == 3
    assert [result for result, _ in done.step.data["votes"]] == ["x/2", "y"]


def test_equal_numbers_are_one_vote_without_a_comparison() -> None:
    search = search_of(SearchMethod.SELF_CONSISTENCY, 3, extract=Extraction(kind=ExtractionKind.BOXED))
    driver = World(search).driver()
    driver.start()
    done, _ = driver.receive(boxed("x = 0.5", r"\frac{1}{2}", "1"))
    assert isinstance(done, Confirm)
    assert done.step.data["votes"] == [["0.5", 2], ["1", 1]]
