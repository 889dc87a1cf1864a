"""Interrupt a call at any operation, and again while it is undone."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import makewhole as mw
from makewhole.insured.journal import Journal

SOURCE = str(Path(mw.__file__).parent)


class Stop(BaseException):
    """An interrupt."""


class Interrupter:
    """Raises `Stop` before the n-th operation of a call, and once more so many operations later.

    The second one comes while what the first has interrupted is undone. Python stops tracing where a trace
    function raises: the undo starts it again.
    """

    def __init__(self, *at: int) -> None:
        self.at, self.seen, self.raised = list(at), 0, 0

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        if event == "call":
            frame.f_trace_opcodes = True
        elif event == "opcode":
            self.seen += 1
            if self.at and self.seen >= self.at[0]:
                del self.at[0]
                self.seen, self.raised = 0, self.raised + 1
                raise Stop
        return self.trace

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        real, before = Journal.undo, sys.gettrace()

        def undo(journal: Journal, mark: int = 0) -> None:
            if self.raised and self.at:
                sys.settrace(self.trace)
            real(journal, mark)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Journal, "undo", undo)
            sys.settrace(self.trace)
            try:
                yield
            finally:
                sys.settrace(before)


def interrupted(call: Callable[[], Any], *at: int) -> int:
    """Make a call that is interrupted at these operations; returns how often it was."""
    interrupter = Interrupter(*at)
    with interrupter.running(), contextlib.suppress(Stop):
        call()
    return interrupter.raised


def operations(call: Callable[[], Any]) -> int:
    """How many operations a call has."""
    interrupter = Interrupter()
    with interrupter.running():
        call()
    return interrupter.seen
