"""The crank of a replica: effects in order, a tick when one is wanted, a failing core is the end."""

import asyncio
from typing import Any

from veridical.node.driver import Driver
from veridical.node.system import SystemClock
from veridical.replication.messages import Applied, Apply, Effect, Halt, Input, Tick

SECOND_US = 1_000_000


class ScriptedReplica:
    """Answers each input with the effects that the script has for it."""

    def __init__(self, script: dict[type[Any], list[Effect]], clock: SystemClock, ticks_in_us: int = SECOND_US) -> None:
        self.inputs: list[Input] = []
        self._script = script
        self._clock = clock
        self._ticks_in_us = ticks_in_us

    def step(self, input: Input, now_us: int, wall_us: int) -> list[Effect]:
        assert now_us > 0 and wall_us > 0
        self.inputs.append(input)
        return self._script.get(type(input), [])

    @property
    def deadline_us(self) -> int:
        return self._clock.elapsed_us() + self._ticks_in_us


def test_inputs_that_arise_from_effects_wait_their_turn() -> None:
    """All effects of one step are carried out before the next step begins."""

    async def run() -> None:
        clock, order, fatal = SystemClock(), list[str](), list[str]()
        replica = ScriptedReplica({Applied: [Apply(1), Halt("x")]}, clock)
        driver: Driver

        def on_apply(effect: Apply) -> None:
            order.append("apply")
            driver.step(Tick())
            order.append("apply done")

        driver = Driver(replica, clock, {Apply: on_apply, Halt: lambda _: order.append("halt")}, fatal.append)  # type: ignore[arg-type]
        driver.step(Applied(1))
        assert order == ["apply", "apply done", "halt"]
        assert [type(input) for input in replica.inputs] == [Applied, Tick]
        assert fatal == []
        driver.stop()

    asyncio.run(run())


def test_a_tick_comes_when_the_core_wants_one() -> None:
    """The timer follows the core's deadline."""

    async def run() -> None:
        clock = SystemClock()
        replica = ScriptedReplica({}, clock, ticks_in_us=1_000)
        driver = Driver(replica, clock, {}, lambda reason: None)  # type: ignore[arg-type]
        driver.step(Applied(1))
        async with asyncio.timeout(5):
            while len(replica.inputs) < 4:  # noqa: ASYNC110 (timers have to fire)
                await asyncio.sleep(0.001)
        driver.stop()
        assert {type(input) for input in replica.inputs[1:]} == {Tick}

    asyncio.run(run())


def test_a_core_that_fails_ends_the_node() -> None:
    """An exception in the core is a broken invariant: it takes no more inputs, and the process is told to end."""

    async def run() -> None:
        clock, fatal = SystemClock(), list[str]()
        replica = ScriptedReplica({Applied: [Apply(1)]}, clock)
        driver = Driver(replica, clock, {}, fatal.append)  # type: ignore[arg-type]
        driver.step(Applied(1))
        driver.step(Tick())
        assert len(replica.inputs) == 1
        assert len(fatal) == 1 and "the replication core failed" in fatal[0]
        driver.stop()

    asyncio.run(run())
